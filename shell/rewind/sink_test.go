package rewind_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/stream"
)

func TestWhatMayHaveBegunIsInterruptedAndWhatStillWaitsDoesNot(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.batch(to(1, core.ActionTrigger{}), to(2, core.ActionTrigger{}), to(3, core.ActionTrigger{}))
	k.update(func(tx store.Tx) error { // 2 has begun
		e, err := tx.OutboxEntry(store.EffectKey{ID: action(2).ID, N: 1})
		require.NoError(t, err)
		e.Holder, e.Token = "instance/0", 7
		return tx.PutOutbox(e)
	})
	k.batch(to(3, core.ActionComplete{Run: 1}, 1))
	require.Equal(t, map[string]bool{key(1, 1): true, key(2, 1): false}, entries(t, k.st))
	back, rep := k.mustTo(2)
	assert.Equal(t, map[string]bool{key(1, 1): true, key(2, 1): false, key(3, 1): false}, entries(t, back))
	assert.Equal(t, uint64(2), rep.Interrupted)
	back, rep = k.mustTo(1)
	assert.Empty(t, entries(t, back))
	assert.Zero(t, rep.Interrupted)
	assert.Equal(t, uint64(3), rep.Records)
}

// TestAnEffectOfALaterRecordUnderTheSameIDTellsNothing: the first one's run may have begun, and fails; it is
// not begun once more because the later one's still waits.
func TestAnEffectOfALaterRecordUnderTheSameIDTellsNothing(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(to(1, core.ActionTrigger{}))
	k.batch(to(1, core.ActionComplete{Run: 1}, 1))
	k.batch(to(1, core.ActionExpire{}))
	k.batch(create(1))
	k.batch(to(1, core.ActionTrigger{}))
	require.Equal(t, map[string]bool{key(1, 1): true}, entries(t, k.st), "run 1 of the later one waits")
	back, rep := k.mustTo(2)
	assert.Equal(t, map[string]bool{key(1, 1): false}, entries(t, back))
	assert.Equal(t, uint64(1), rep.Interrupted)
	back, _ = k.mustTo(6)
	assert.Equal(t, map[string]bool{key(1, 1): true}, entries(t, back))
}

func TestClaimsAreNotThereAndTheirTokensStayTaken(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	var old store.Claim
	k.update(func(tx store.Tx) (err error) {
		old, err = tx.Acquire("instance/0", "a", time.Hour, at(2))
		return err
	})
	back, _ := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		claims, err := tx.Claims("")
		require.NoError(t, err)
		assert.Empty(t, claims)
	})
	require.NoError(t, back.Update(t.Context(), func(tx store.Tx) error {
		c, err := tx.Acquire("instance/0", "b", time.Hour, at(2))
		assert.Greater(t, c.Token, old.Token)
		return err
	}))
}

func TestWebhooksThatHadComeStayAndLaterOnesAreCounted(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	k.update(func(tx store.Tx) error {
		for n, at := range []effects.Time{at(1), at(1).Add(time.Millisecond), at(2)} {
			require.NoError(t, tx.PutWebhook(store.Webhook{ID: uuid.UUID{byte(n + 1)}, Route: "r", ReceivedAt: at, Body: []byte("b")}))
		}
		return nil
	})
	back, rep := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		hooks, err := tx.Webhooks(9)
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		assert.Equal(t, uuid.UUID{1}, hooks[0].ID)
	})
	assert.Equal(t, uint64(2), rep.Webhooks)
}

func TestWebhooksThatHadComeByTheTimeThatIsAskedForStay(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	k.update(func(tx store.Tx) error {
		for n, come := range []effects.Time{at(1).Add(500 * time.Millisecond), at(1).Add(501 * time.Millisecond)} {
			require.NoError(t, tx.PutWebhook(store.Webhook{ID: uuid.UUID{byte(n + 1)}, Route: "r", ReceivedAt: come, Body: []byte("b")}))
		}
		return nil
	})
	back, r, err := k.to(rewind.Options{At: at(1).Add(500 * time.Millisecond)})
	require.NoError(t, err)
	assert.Equal(t, uint64(1), r.Report().Webhooks)
	view(t, back, func(tx store.ReadTx) {
		hooks, err := tx.Webhooks(9)
		require.NoError(t, err)
		require.Len(t, hooks, 1)
		assert.Equal(t, uuid.UUID{1}, hooks[0].ID)
	})
}

func TestSmallValuesAreWhatTheyWere(t *testing.T) {
	k := newKit(t)
	k.batch(create(1))
	k.batch(create(2))
	mark := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	k.update(func(tx store.Tx) error {
		for name, value := range map[string][]byte{
			"journal-core": []byte(`"of tomorrow"`), "indexes": []byte(`{"version":"0","done":false}`), "other": []byte("kept"),
			"jobs/feed/behind": mark(1), "jobs/feed/ahead": mark(2),
		} {
			require.NoError(t, tx.SetMeta(name, value))
		}
		return nil
	})
	back, _ := k.mustTo(1)
	view(t, back, func(tx store.ReadTx) {
		for name, want := range map[string][]byte{
			"journal-core": fmt.Appendf(nil, "%q", core.Version), "indexes": fmt.Appendf(nil, `{"version":%q,"done":true}`, core.IndexVersion), "other": []byte("kept"),
			"jobs/feed/behind": mark(1), "jobs/feed/ahead": mark(1),
		} {
			got, err := tx.Meta(name)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got), name)
		}
	})
}

func TestARecordThatWasSetAsideSinceIsToldUnlessAnEpochHasIt(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(to(1, core.ActionTrigger{}), to(3, core.ActionTrigger{})) // 2: bases of 1 and 3
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(to(3, core.ActionComplete{Run: 1}, 1)) // 3
	k.batch(create(4))                             // 4
	k.update(func(tx store.Tx) error {
		for n := byte(1); n <= 3; n++ {
			require.NoError(t, tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: action(n).ID, At: at(5), Reason: "r"}, 0))
		}
		return nil
	})
	has := func(batch uint64) (found, told []string) {
		back, r := memory.New(), &tellsOmitted{Rewind: rewind.New(k.st, rewind.Options{Batch: batch})}
		require.NoError(t, back.Import(t.Context(), r))
		view(t, back, func(tx store.ReadTx) {
			require.NoError(t, tx.Records(func(r store.Record) error {
				found = append(found, fmt.Sprintf("%d of batch %d", r.ID[0], r.Seq))
				return nil
			}))
			aside, err := tx.Quarantine(9)
			require.NoError(t, err)
			assert.Len(t, aside, 3)
		})
		for _, o := range r.told {
			told = append(told, o.Name)
		}
		return found, told
	}
	found, told := has(3)
	assert.Equal(t, []string{"1 of batch 2", "2 of batch 1"}, found)
	assert.Equal(t, []string{action(3).String()}, told)
	found, told = has(2)
	assert.Equal(t, []string{"1 of batch 2", "2 of batch 1", "3 of batch 2"}, found)
	assert.Empty(t, told)
	found, told = has(1)
	assert.Equal(t, []string{"1 of batch 1", "2 of batch 1", "3 of batch 1"}, found)
	assert.Empty(t, told)
}

func TestARecordThatWasSetAsideBeforeIsNotThere(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2))
	aside := func(n byte, at effects.Time) {
		k.update(func(tx store.Tx) error {
			return tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: action(n).ID, At: at, Reason: "r"}, 0)
		})
	}
	aside(1, at(1))
	k.batch(create(3))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(3)) })
	k.batch(create(4))
	aside(2, at(4))
	r := &tellsOmitted{Rewind: rewind.New(k.st, rewind.Options{Batch: 2})}
	back := memory.New()
	require.NoError(t, back.Import(t.Context(), r))
	assert.Empty(t, r.told)
	view(t, back, func(tx store.ReadTx) {
		_, err := tx.Get(core.KindAction, action(1).ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = tx.Get(core.KindAction, action(2).ID)
		require.NoError(t, err)
	})
	lost := &harmed{Source: k.st, base: func(store.Record) bool { return false }}
	r = &tellsOmitted{Rewind: rewind.New(lost, rewind.Options{Batch: 3})}
	require.NoError(t, memory.New().Import(t.Context(), r))
	require.Len(t, r.told, 1, "what nothing in the journal is of")
	assert.Equal(t, action(2).String(), r.told[0].Name)
}

// tellsOmitted notes what is omitted.
type tellsOmitted struct {
	*rewind.Rewind
	told []store.Omission
}

func (r *tellsOmitted) Export(ctx context.Context, to store.Sink) error {
	return r.Rewind.Export(ctx, omissions{to, r})
}

type omissions struct {
	store.Sink
	r *tellsOmitted
}

func (o omissions) Omitted(left store.Omission) error {
	o.r.told = append(o.r.told, left)
	return o.Sink.Omitted(left)
}

// TestTheCopyDoesNotFollowInTheSourcesLog: what was committed there does not follow here.
func TestTheCopyDoesNotFollowInTheSourcesLog(t *testing.T) {
	path := file(t)
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	for batch, want := range map[uint64]bool{0: true, 60: false} {
		var from store.Exporter = st
		if batch != 0 {
			from = rewind.New(st, rewind.Options{Batch: batch})
		}
		sum, err := stream.Write(t.Context(), io.Discard, from, stream.Options{})
		require.NoError(t, err)
		assert.Equal(t, want, len(sum.Head.Place) > 0)
	}
	require.NoError(t, st.Close())
}

func TestLogsOfAttemptsThatHadEndedStay(t *testing.T) {
	for state, want := range map[core.OrchestratorStatus][]uint32{
		core.OrchestratorRunning: {0, 1}, core.OrchestratorRetrying: {0, 1, 2}, core.OrchestratorCompleted: {0, 1, 2}, core.OrchestratorFailed: {0, 1, 2},
	} {
		t.Run(string(state), func(t *testing.T) {
			st, run := memory.New(), uuid.UUID{1}
			put := func(seq uint64, state core.OrchestratorStatus, attempt uint32) {
				o := core.Orchestrator{RunSpec: core.RunSpec{ID: run}, State: state, RetryAttempt: attempt}
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					w := store.Write{Kind: core.KindOrchestrator, ID: run, State: o.AppendJSON(nil), Prev: store.Prev{Version: seq - 1, Seq: seq - 1}}
					require.NoError(t, tx.Put(seq, []store.Write{w}))
					e := core.NewEntry(seq, at(seq), "test")
					return tx.AppendJournal(seq, e.At, e.AppendJSON(nil))
				}))
			}
			put(1, state, 2)
			put(2, core.OrchestratorCompleted, 3)
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
				require.NoError(t, tx.PutRunLog(uuid.UUID{2}, 0, []byte("of a run that is gone")))
				for attempt := range uint32(4) {
					require.NoError(t, tx.PutRunLog(run, attempt, []byte("said")))
				}
				return nil
			}))
			k := newKitOf(t, st)
			back, rep := k.mustTo(1)
			var got []uint32
			view(t, back, func(tx store.ReadTx) {
				for attempt := range uint32(4) {
					if _, err := tx.RunLog(run, attempt); err == nil {
						got = append(got, attempt)
					}
				}
			})
			assert.Equal(t, want, got)
			assert.Equal(t, uint64(5-len(want)), rep.RunLogs)
			_, rep = k.mustTo(2)
			assert.Equal(t, uint64(1), rep.RunLogs, "the run is as it was")
		})
	}
}

func TestTheOutputsOfAttemptsOfAnActionThatHadEndedStay(t *testing.T) {
	for name, row := range map[string]struct {
		then core.Action
		want []uint32
	}{
		"it ran":                  {core.Action{Attempt: 2, Status: core.Status{Type: core.StatusRunning}}, []uint32{1}},
		"it waited for the next":  {core.Action{Attempt: 2, Status: core.Status{Type: core.StatusPending}}, []uint32{1, 2}},
		"it had ended":            {core.Action{Attempt: 2, Status: core.Status{Type: core.StatusFailed}}, []uint32{1, 2}},
		"it had not begun":        {core.Action{Status: core.Status{Type: core.StatusPending}}, nil},
		"of any cycle, it recurs": {core.Action{Attempt: 2, Status: core.Status{Type: core.StatusRunning}, ActionSpec: core.ActionSpec{Recurrence: core.Every(time.Hour)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st, id := memory.New(), uuid.UUID{1}
			put := func(seq uint64, a core.Action) {
				a.ID, a.Trigger = id, core.Scheduled(at(seq))
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					w := store.Write{Kind: core.KindAction, ID: id, State: a.AppendJSON(nil), Prev: store.Prev{Version: seq - 1, Seq: seq - 1}}
					require.NoError(t, tx.Put(seq, []store.Write{w}))
					e := core.NewEntry(seq, at(seq), "test")
					return tx.AppendJournal(seq, e.At, e.AppendJSON(nil))
				}))
			}
			put(1, row.then)
			put(2, core.Action{Attempt: 3, Status: core.Status{Type: core.StatusCompleted}})
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
				for attempt := uint32(1); attempt <= 3; attempt++ {
					require.NoError(t, tx.PutRunLog(id, attempt, []byte("said")))
				}
				return nil
			}))
			back, _ := newKitOf(t, st).mustTo(1)
			var got []uint32
			view(t, back, func(tx store.ReadTx) {
				for attempt := uint32(1); attempt <= 3; attempt++ {
					if _, err := tx.RunLog(id, attempt); err == nil {
						got = append(got, attempt)
					}
				}
			})
			assert.Equal(t, row.want, got)
		})
	}
}

// TestLogsThatWereStoredStay: the run will not ask for them again.
func TestLogsThatWereStoredStay(t *testing.T) {
	for _, stored := range []bool{false, true} {
		st, run := memory.New(), uuid.UUID{1}
		put := func(seq uint64, o core.Orchestrator) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
				w := store.Write{Kind: core.KindOrchestrator, ID: run, State: o.AppendJSON(nil), Prev: store.Prev{Version: seq - 1, Seq: seq - 1}}
				require.NoError(t, tx.Put(seq, []store.Write{w}))
				e := core.NewEntry(seq, at(seq), "test")
				return tx.AppendJournal(seq, e.At, e.AppendJSON(nil))
			}))
		}
		o := core.Orchestrator{RunSpec: core.RunSpec{ID: run}, State: core.OrchestratorTerminating, Logs: core.RunLogs{Stored: stored}}
		put(1, o)
		o.State = core.OrchestratorCompleted
		put(2, o)
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.PutRunLog(run, 0, []byte("said")) }))
		back, _ := newKitOf(t, st).mustTo(1)
		view(t, back, func(tx store.ReadTx) {
			_, err := tx.RunLog(run, 0)
			assert.Equal(t, stored, err == nil)
		})
	}
}

// basesOf lists what the epochs keep, by the batches that changed it.
type basesOf struct {
	store.Sink
	list *[]string
}

func (b basesOf) Base(epoch, seq uint64, r store.Record) error {
	*b.list = append(*b.list, fmt.Sprintf("%d %d %s %d", epoch, seq, r.ID, r.Version))
	return b.Sink.Base(epoch, seq, r)
}

type listsBases struct {
	store.Exporter
	list []string
}

func (l *listsBases) Export(ctx context.Context, to store.Sink) error {
	return l.Exporter.Export(ctx, basesOf{to, &l.list})
}

func TestEpochsKeepWhatTheyKeptThen(t *testing.T) {
	st, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
	require.NoError(t, err)
	k := newKitOf(t, st)
	var then [][]string
	next := func(inputs ...core.Input) {
		k.batch(inputs...)
		l := &listsBases{Exporter: st}
		require.NoError(t, memory.New().Import(t.Context(), l))
		then = append(then, l.list)
	}
	next(create(1), create(2), create(3))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	next(to(1, core.ActionTrigger{}))
	next(to(2, core.ActionCancel{}))
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(4)) })
	next(to(2, core.ActionExpire{}), to(3, core.ActionCancel{}))
	for i, want := range then {
		l := &listsBases{Exporter: rewind.New(st, rewind.Options{Batch: uint64(i + 1)})}
		require.NoError(t, memory.New().Import(t.Context(), l))
		assert.Equal(t, want, l.list, "after batch %d", i+1)
	}
	assert.Len(t, then[3], 4)
	require.NoError(t, st.Close())
}
