package repartition_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// exported is a partition whose export a test changes.
type exported struct {
	*memory.Store
	export func(ctx context.Context, of *memory.Store, to store.Sink) error
}

func (e exported) Export(ctx context.Context, to store.Sink) error { return e.export(ctx, e.Store, to) }

func targets(n int) (stores []*memory.Store, all []repartition.Target) {
	for range n {
		stores = append(stores, memory.New())
		all = append(all, stores[len(stores)-1].Import)
	}
	return stores, all
}

func TestASourceThatChangesOrBreaksOffWhileItIsCopiedFailsTheCopy(t *testing.T) {
	broken := errors.New("a page of the file cannot be read")
	for name, row := range map[string]struct {
		want   string
		export func(w *world) func(ctx context.Context, of *memory.Store, to store.Sink) error
	}{
		"somebody writes to it": {
			"partition 1 has batch 2 now, and had 1 before: nobody may write to it meanwhile",
			func(w *world) func(context.Context, *memory.Store, store.Sink) error {
				return func(ctx context.Context, of *memory.Store, to store.Sink) error {
					w.tell(1, "late")
					return of.Export(ctx, to)
				}
			},
		},
		"it breaks off": {
			broken.Error(),
			func(*world) func(context.Context, *memory.Store, store.Sink) error {
				return func(ctx context.Context, of *memory.Store, to store.Sink) error {
					return errors.Join(of.Export(ctx, to), broken) // though all has come
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			for k := range 2 {
				w.tell(k, "ops")
			}
			from := w.sources()
			from[1] = exported{w.parts[1], row.export(w)}
			_, to := targets(3)
			_, err := repartition.Copy(t.Context(), from, to, options)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestATargetThatCannotKeepWhatItWasGivenFailsTheCopy(t *testing.T) {
	w := newWorld(t, 1)
	w.tell(0, "ops")
	full := errors.New("the disk is full")
	_, to := targets(2)
	fill := to[1]
	to[1] = func(ctx context.Context, from store.Exporter) error { return errors.Join(fill(ctx, from), full) }
	_, err := repartition.Copy(t.Context(), w.sources(), to, options)
	require.ErrorIs(t, err, full)
}

func TestACopyThatIsGivenUpEndsAlthoughATargetHasNotBegun(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	_, to := targets(1)
	to = append(to, func(ctx context.Context, _ store.Exporter) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	_, err := repartition.Copy(ctx, w.sources(), to, options)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOfTwoTargetsTheOtherOneIsEndedIfOneFails(t *testing.T) {
	w := newWorld(t, 1)
	full := errors.New("the disk is full")
	_, err := repartition.Copy(t.Context(), w.sources(), []repartition.Target{
		func(context.Context, store.Exporter) error { return full },
		func(ctx context.Context, _ store.Exporter) error {
			<-ctx.Done() // as if it waited for its database
			return context.Cause(ctx)
		},
	}, options)
	require.ErrorIs(t, err, full)
}

func TestTheEpochOfACopyIsBehindThoseOfAllSources(t *testing.T) {
	w := newWorld(t, 3)
	for k, epochs := range []int{1, 5, 2} {
		for range epochs {
			w.tell(k, "ops")
			require.NoError(t, w.parts[k].Update(t.Context(), func(tx store.Tx) error { return tx.BeginEpoch(start) }))
		}
	}
	last := func(st *memory.Store) (number uint64) {
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			epochs, err := tx.Epochs()
			number = epochs[len(epochs)-1].Number
			return err
		}))
		return number
	}
	require.Greater(t, last(w.parts[1]), last(w.parts[2]))
	there, _ := w.copied(2, options)
	for _, st := range there.parts {
		assert.Equal(t, last(w.parts[1])+1, last(st))
	}
}

func TestACopyTellsWhatStaysBehindAndWhatCouldNotBeRead(t *testing.T) {
	w := newWorld(t, 2)
	lost := uuid.UUID{4}
	for k, name := range []string{"instance/a", "instance/b"} {
		require.NoError(t, w.parts[k].Update(t.Context(), func(tx store.Tx) error {
			_, err := tx.Acquire(name, "somebody", 1e9, start)
			return err
		}))
	}
	require.NoError(t, w.parts[1].Update(t.Context(), func(tx store.Tx) error { return tx.PutRunLog(lost, 1, []byte("said")) }))
	from := w.sources()
	from[0] = exported{w.parts[0], func(ctx context.Context, of *memory.Store, to store.Sink) error {
		return of.Export(ctx, omitting{to})
	}}
	_, to := targets(3)
	report, err := repartition.Copy(t.Context(), from, to, options)
	require.NoError(t, err)
	assert.Equal(t, []repartition.Left{
		{What: "claim", Count: 2, First: "instance/a", Reason: "what an engine had in hand that has crashed counts as interrupted"},
		{What: "log", Count: 1, First: lost.String(), Reason: "whatever has written it is not there"},
	}, report.Left)
	assert.EqualValues(t, repartition.MaxOmitted+5, report.Damaged, "not the journal, which stays behind anyhow")
	require.Len(t, report.Omitted, repartition.MaxOmitted)
	assert.Equal(t, store.Omission{What: "due entry", Name: "x", Reason: "its page is gone"}, report.Omitted[0])
}

// omitting is the sink of a source that could not read some of what it has.
type omitting struct{ store.Sink }

func (o omitting) Begin(h store.Head) error {
	err := o.Sink.Begin(h)
	for range repartition.MaxOmitted + 5 {
		err = errors.Join(err, o.Omitted(store.Omission{What: "due entry", Name: "x", Reason: "its page is gone"}))
	}
	return errors.Join(err, o.Omitted(store.Omission{What: "journal", Name: "1", Reason: "its page is gone"}))
}

func TestTheLogOfARunGoesWithTheRun(t *testing.T) {
	w := newWorld(t, 1)
	id := uuid.UUID{5}
	w.step(tenant(3), 5, id)
	run := core.RunRef("n", "t3", core.RunID("j", w.now.Add(-2e9))).ID
	require.NoError(t, w.parts[0].View(t.Context(), func(tx store.ReadTx) error {
		return tx.Records(func(r store.Record) error {
			if r.Kind == core.KindOrchestrator {
				run = r.ID
			}
			return nil
		})
	}))
	require.NoError(t, w.parts[0].Update(t.Context(), func(tx store.Tx) error { return tx.PutRunLog(run, 2, []byte("said")) }))
	there, report := w.copied(3, options)
	assert.Empty(t, report.Left)
	require.NoError(t, there.parts[there.in(tenant(3))].View(t.Context(), func(tx store.ReadTx) error {
		said, err := tx.RunLog(run, 2)
		assert.Equal(t, "said", string(said))
		return err
	}))
}

func TestACopyIntoTheSameNumberTellsTheGreatestOfAllAndNamesThePartitionThatFails(t *testing.T) {
	w := newWorld(t, 3)
	for range 9 {
		w.tell(1, "busy")
	}
	for k := range 3 {
		w.tell(k, "ops")
	}
	require.NoError(t, w.parts[0].Update(t.Context(), func(tx store.Tx) error {
		for range 4 {
			c, err := tx.Acquire("a", "me", 1e9, start)
			require.NoError(t, err)
			require.NoError(t, tx.Release("a", c.Token))
		}
		return nil
	}))
	_, to := targets(3)
	report, err := repartition.Copy(t.Context(), w.sources(), to, options)
	require.NoError(t, err)
	assert.Equal(t, []uint64{10, 4}, []uint64{report.Batch, report.Token})
	_, to = targets(3)
	to[1] = func(context.Context, store.Exporter) error { return errors.New("the disk is full") }
	_, err = repartition.Copy(t.Context(), w.sources(), to, options)
	require.EqualError(t, err, "copy partitions: partition 1: the disk is full")
	_, to = targets(store.MaxPartitions + 1)
	_, err = repartition.Copy(t.Context(), w.sources(), to, options)
	require.ErrorContains(t, err, "copy 3 partitions into")
}

func TestSchedulersOfACopyAreNewerThanThoseOfTheirSources(t *testing.T) {
	w := newWorld(t, 2)
	for n := range 12 {
		w.step(tenant(n), 5, uuid.UUID{byte(n)})
	}
	newest := func(w *world) map[uuid.UUID][2]uint64 {
		all := map[uuid.UUID][2]uint64{}
		for _, p := range w.parts {
			require.NoError(t, p.View(t.Context(), func(tx store.ReadTx) error {
				return tx.Records(func(r store.Record) error {
					if r.Kind == core.KindScheduler {
						was := all[r.ID]
						all[r.ID] = [2]uint64{max(was[0], r.Version), max(was[1], r.Seq)}
					}
					return nil
				})
			}))
		}
		return all
	}
	was := newest(w)
	require.NotEmpty(t, was)
	there, _ := w.copied(1, options)
	assert.Equal(t, was, newest(there))
}

func TestTheSchedulersOfACopyWaitInTheOrderOfTheDueIndex(t *testing.T) {
	w := newWorld(t, 1)
	of := tenant(1)
	var made []core.Scheduler
	for n := range 4 {
		w.now = w.now.Add(time.Second)
		runID := core.RunID("j", w.now)
		ref := core.RunRef(of.Namespace, of.Tenant, runID)
		job := core.JobSpec{ID: "j", Namespace: of.Namespace, Tenant: of.Tenant, PodSpec: json.RawMessage(`{"containers":[{"name":"a","image":"b"}]}`), Timezone: "UTC"}
		spec := core.RunSpec{ID: ref.ID, RunID: runID, JobID: "j", Namespace: of.Namespace, Tenant: of.Tenant, ScheduledAt: w.now, Config: job}
		w.taken(0, ref, core.OrchestratorCreate{Spec: spec})
		s := core.Scheduler{ID: uuid.UUID{byte(n + 1)}, Runs: []core.TrackedRun{{Run: ref.ID, Last: start.Add(-time.Duration(n) * time.Minute)}}} // the greater its id, the sooner
		require.False(t, s.Deadline().IsZero())
		w.put(0, s)
		made = append(made, s)
	}
	var entries []store.DueEntry
	to := make([]repartition.Target, 2)
	for k := range to {
		to[k] = func(ctx context.Context, from store.Exporter) error {
			return from.Export(ctx, &dues{note: func(e store.DueEntry) {
				if e.Kind == core.KindScheduler {
					assert.Equal(t, core.Partition(of, 2), k)
					entries = append(entries, e)
				}
			}})
		}
	}
	_, err := repartition.Copy(t.Context(), w.sources(), to, options)
	require.NoError(t, err)
	slices.Reverse(made)
	require.Len(t, entries, len(made))
	for i, s := range made {
		assert.Equal(t, store.DueEntry{Key: store.NewDueKey(s.Deadline(), s.ID), Kind: core.KindScheduler, Share: engine.DueShare(core.ScopeOf(s))}, entries[i])
	}
}

// dues is a sink that is told of due entries alone.
type dues struct {
	lines
	note func(store.DueEntry)
}

func (d *dues) Due(e store.DueEntry) error {
	d.note(e)
	return nil
}
