package engine_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// Some have ended and some have not, of two kinds of which the second is the older:
// a walk that stops, or goes on from the wrong place, leaves one behind.
func TestAWalkOfRetentionForgetsAllThatHaveEndedOfEachKindInItsOwnTime(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name                    string
		retention               map[core.RetentionClass]time.Duration
		keepsAction, keepsTimes bool
	}{
		{"each for a day", map[core.RetentionClass]time.Duration{core.RetainMachines: day, core.RetainHistory: day}, false, false},
		{"machines for ever", map[core.RetentionClass]time.Duration{core.RetainMachines: -1, core.RetainHistory: day}, true, false},
		{"the history for ever", map[core.RetentionClass]time.Duration{core.RetainMachines: day, core.RetainHistory: -1}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := idle(t, engine.Options{Store: memory.New(), Retention: tc.retention, MaxBatch: 4}) // one at a time
				begin(t, e)
				var n byte
				make := func(kind effects.Kind, event func(id uuid.UUID) core.Event) effects.Ref {
					<-time.After(time.Second)
					n++
					ref := effects.Ref{Kind: kind, ID: uuid.UUID{15: n}}
					_, err := e.Send(t.Context(), ref, event(ref.ID))
					require.NoError(t, err)
					return ref
				}
				missed := func(id uuid.UUID) core.Event {
					now := effects.TimeOf(time.Now())
					return core.OccurrenceRecord{Occurrence: core.Occurrence{
						ID: id, RecurringID: uuid.Max, DueAt: now, LastDueAt: now, DecidedAt: now, Verdict: core.VerdictMissed, Count: 1,
					}}
				}
				pending := func(id uuid.UUID) core.Event {
					return core.ActionCreate{Spec: core.ActionSpec{ID: id, ToolName: "http", Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(1000 * day)))}}
				}
				times := []effects.Ref{make(core.KindOccurrence, missed), make(core.KindOccurrence, missed)}
				waits := make(core.KindAction, pending)
				ended := []effects.Ref{make(core.KindAction, pending), make(core.KindAction, pending), make(core.KindAction, pending)}
				for _, ref := range ended {
					_, err := e.Send(t.Context(), ref, core.ActionCancel{})
					require.NoError(t, err)
				}
				there := func(ref effects.Ref) bool {
					_, err := e.Read(t.Context(), ref)
					if err != nil {
						require.ErrorIs(t, err, engine.ErrNotFound)
					}
					return err == nil
				}

				<-time.After(day - time.Minute)
				for _, ref := range append(ended, times...) {
					assert.True(t, there(ref), "%s has not been kept for a day", ref)
				}
				<-time.After(2 * time.Minute)

				assert.True(t, there(waits), "it has not ended")
				for _, ref := range ended {
					assert.Equal(t, tc.keepsAction, there(ref), "%s", ref)
				}
				for _, ref := range times {
					assert.Equal(t, tc.keepsTimes, there(ref), "%s", ref)
				}
			})
		})
	}
}

// The outcome of a run stands while its pod cannot be deleted, and the record stays with the pod.
func TestARecordThatMustBeKeptBeyondItsRetentionIsNotCountedAsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, now := memory.New(), effects.TimeOf(time.Now())
		action := core.Action{ActionSpec: core.ActionSpec{ID: uuid.UUID{15: 2}}, Status: core.Status{Type: core.StatusCompleted}, CreatedAt: now, UpdatedAt: now}
		run := core.Orchestrator{
			RunSpec: core.RunSpec{ID: uuid.UUID{15: 1}, RunID: "r"}, State: core.OrchestratorFailed, CreatedAt: now, CompletedAt: now, InCluster: true,
			Cleanup: core.RunCleanup{FailedSince: now, Failures: 1, Error: "no", RetryAt: effects.TimeOf(time.Now().Add(1000 * time.Hour))},
		}
		write(t, st, func(tx store.Tx) error {
			var writes []store.Write
			for _, s := range []core.State{action, run} {
				b, err := json.Marshal(s)
				require.NoError(t, err)
				writes = append(writes, store.Write{Kind: s.Ref().Kind, ID: s.Ref().ID, State: b, Terms: s.Terms()})
			}
			return errors.Join(tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil)), tx.Put(1, writes))
		})
		e := idle(t, engine.Options{Store: st, Retention: map[core.RetentionClass]time.Duration{core.RetainMachines: time.Hour}})
		begin(t, e)
		<-time.After(3 * time.Hour)
		_, err := e.Read(t.Context(), run.Ref())
		require.NoError(t, err, "it stays")
		stats, err := e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, []uint64{1, 0}, []uint64{stats.Expired, stats.Refused}, "the action alone is forgotten, and nothing was asked in vain")
	})
}

// anyEnd draws a machine that has ended at some minute, or not, or that must be kept.
func anyEnd(now effects.Time) *rapid.Generator[core.State] {
	return rapid.Custom(func(t *rapid.T) core.State {
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		id[15] |= 1
		created := now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "created")-300) * time.Minute)
		ended := created.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "took")) * time.Minute)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			a := core.Action{ActionSpec: core.ActionSpec{ID: id, Trigger: core.Scheduled(effects.MaxTime)}, CreatedAt: created, UpdatedAt: ended}
			a.Status.Type = rapid.SampledFrom([]core.StatusType{core.StatusPending, core.StatusCompleted, core.StatusFailed, core.StatusCancelled}).Draw(t, "status")
			return a
		case 1:
			o := core.Orchestrator{RunSpec: core.RunSpec{ID: id, RunID: "r"}, State: core.OrchestratorFailed, CreatedAt: created, CompletedAt: ended}
			if rapid.Bool().Draw(t, "has a pod") {
				o.InCluster = true
				o.Cleanup = core.RunCleanup{FailedSince: now, Failures: 1, Error: "no", RetryAt: now.Add(1000 * time.Hour)}
			}
			return o
		case 2:
			task := core.Task{TaskSpec: core.TaskSpec{ID: id}, State: core.TaskState{Type: core.TaskDone}, CreatedAt: created, FinishedAt: ended}
			if rapid.Bool().Draw(t, "is ended") {
				task.Pending = core.PendingEffects{Last: 1, Open: []core.PendingEffect{{Effect: effects.Kill{N: 1, Session: "s"}}}}
			}
			return task
		default:
			o := core.Occurrence{ID: id, RecurringID: uuid.Max, DecidedAt: created, FinishedAt: ended, Verdict: core.VerdictDispatched}
			o.Outcome = rapid.SampledFrom([]string{"", string(core.StatusCompleted)}).Draw(t, "outcome")
			return o
		}
	})
}

func TestRetentionForgetsWhatHasEndedBeforeItAndNeedNotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 3 * time.Hour
		st, now := memory.New(), effects.TimeOf(time.Now())
		gen := anyEnd(now)
		want := map[effects.Ref]bool{}
		write(t, st, func(tx store.Tx) error {
			var writes []store.Write
			for seed := range 400 {
				s := gen.Example(seed)
				at, ended := core.EndedAt(s)
				want[s.Ref()] = !ended || at > now.Add(-keep) || core.MustBeKept(s)
				writes = append(writes, store.Write{Kind: s.Ref().Kind, ID: s.Ref().ID, State: s.AppendJSON(nil), Terms: s.Terms()})
			}
			return errors.Join(tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil)), tx.Put(1, writes))
		})
		e := idle(t, engine.Options{Store: st, MaxBatch: 8, Retention: map[core.RetentionClass]time.Duration{core.RetainMachines: keep, core.RetainHistory: keep}})
		begin(t, e)
		synctest.Wait()
		forgotten := uint64(0)
		for ref, stays := range want {
			_, err := e.Read(t.Context(), ref)
			assert.Equal(t, stays, err == nil, "%s: %v", ref, err)
			if !stays {
				forgotten++
			}
		}
		stats, err := e.Stats(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, []uint64{forgotten, 0}, []uint64{stats.Expired, stats.Refused}, "nothing was asked in vain")
		assert.Greater(t, forgotten, uint64(50))
	})
}

// filling is a store whose log is as full as the test says.
type filling struct {
	*memory.Store
	fill   atomic.Uint64 // in hundredths
	looks  atomic.Uint64
	fullAt atomic.Uint64 // from so many looks on it is full; 0: it is as fill says
}

func (f *filling) LogStats() store.LogStats {
	if n, full := f.looks.Add(1), f.fullAt.Load(); full > 0 && n >= full {
		return store.LogStats{Fill: 1}
	}
	return store.LogStats{Fill: float64(f.fill.Load()) / 100}
}

// pendingAction makes an action that waits for long.
func pendingAction(id uuid.UUID) core.ActionCreate {
	at := effects.TimeOf(time.Now().Add(1000 * time.Hour))
	return core.ActionCreate{Spec: core.ActionSpec{ID: id, ToolName: "http", Trigger: core.Scheduled(at)}}
}

func TestRetentionRestsWhileTheLogIsHalfFullAndOthersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &filling{Store: memory.New()}
		e := idle(t, engine.Options{Store: st, TickRate: time.Hour, Retention: map[core.RetentionClass]time.Duration{core.RetainMachines: time.Minute}})
		begin(t, e)
		ended := effects.Ref{Kind: core.KindAction, ID: uuid.UUID{15: 1}}
		_, err := e.Send(t.Context(), ended, pendingAction(ended.ID))
		require.NoError(t, err)
		_, err = e.Send(t.Context(), ended, core.ActionCancel{})
		require.NoError(t, err)
		there := func() bool {
			_, err := e.Read(t.Context(), ended)
			return err == nil
		}

		st.fill.Store(50)
		<-time.After(90 * time.Minute)
		assert.True(t, there(), "nobody has to wait for room because of it")
		assert.Less(t, st.looks.Load(), uint64(200), "it looks where there is a batch, not all the time")
		other := effects.Ref{Kind: core.KindAction, ID: uuid.UUID{15: 2}}
		_, err = e.Send(t.Context(), other, pendingAction(other.ID))
		require.NoError(t, err, "others are served")

		st.fill.Store(49)
		<-time.After(time.Hour)
		assert.False(t, there())
	})
}

// A walk that has begun looks again soon, however far the next tick is.
func TestAWalkOfRetentionThatRestsGoesOnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &filling{Store: memory.New()}
		st.fullAt.Store(3) // of the walk's batches of two
		e := idle(t, engine.Options{Store: st, MaxBatch: 4, TickRate: time.Hour, Retention: map[core.RetentionClass]time.Duration{core.RetainMachines: time.Minute}})
		begin(t, e)
		const many = 40
		for n := range byte(many) {
			ref := effects.Ref{Kind: core.KindAction, ID: uuid.UUID{15: n + 1}}
			_, err := e.Send(t.Context(), ref, pendingAction(ref.ID))
			require.NoError(t, err)
			_, err = e.Send(t.Context(), ref, core.ActionCancel{})
			require.NoError(t, err)
		}
		left := func() (n uint64) {
			require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) (err error) {
				n, err = tx.Count(core.KindAction, core.TermAll)
				return err
			}))
			return n
		}
		st.looks.Store(0)
		<-time.After(61 * time.Minute) // the tick, and more
		resting := left()
		assert.Greater(t, resting, uint64(many/2), "it rests")
		assert.Less(t, resting, uint64(many), "it had begun")

		st.fullAt.Store(0)
		<-time.After(time.Second)
		assert.Zero(t, left())
	})
}

// After a crash the log may be half full as the daemon starts, be it of a newer version: what its core decides is
// no part of the epoch of the one before.
func TestAnotherCoreBeginsItsEpochHoweverFullTheLogIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &filling{Store: memory.New()}
		st.fill.Store(90)
		now := effects.TimeOf(time.Now())
		write(t, st, func(tx store.Tx) error {
			return errors.Join(tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil)), tx.SetMeta("journal-core", []byte(`"of yesterday"`)))
		})
		begin(t, idle(t, engine.Options{Store: st, TickRate: time.Hour}))
		<-time.After(time.Minute)
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			epochs, err := tx.Epochs()
			require.Len(t, epochs, 2)
			assert.EqualValues(t, 2, epochs[1].First)
			return err
		}))
	})
}
