package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// frozen is a store that an engine stops reaching: as when its process is
// killed or stalls. What was committed stays.
type frozen struct {
	store.Store
	gone chan struct{}
	thaw chan struct{} // a stalled process goes on; nil: never
}

func (f *frozen) Update(ctx context.Context, fn func(store.Tx) error) error {
	select {
	case <-f.gone:
		if f.thaw == nil {
			return errors.New("the process is gone")
		}
		<-f.thaw
	default:
	}
	return f.Store.Update(ctx, fn)
}

// crashed runs prepare on an engine and then cuts the engine off its store.
func crashed(t *testing.T, o shell.Options, prepare func(e *shell.Engine)) {
	t.Helper()
	f := &frozen{Store: o.Store, gone: make(chan struct{})}
	o.Store = f
	o.StopTimeout, o.AbandonAfter = time.Nanosecond, time.Nanosecond
	e, stop := start(t, o)
	prepare(e)
	synctest.Wait()
	close(f.gone)
	require.Error(t, stop(), "its claim could not be released")
}

// A9, R3.
func TestARunWhoseHolderIsGoneIsSettledByItsPolicyAfterTwoTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			policy core.RunPolicy
			want   core.StatusType
			reason string
			runs   int64
		}{
			{core.RunPolicy{}, core.StatusFailed, core.ReasonRecovered, 0},
			{core.RunPolicy{OnInterrupt: core.InterruptRetry}, core.StatusCompleted, "", 1},
			{core.RunPolicy{OnInterrupt: core.InterruptRetry, MaxAttempts: 1}, core.StatusFailed, core.ReasonRecovered, 0},
		} {
			st := memory.NewSession("first")
			gate, c := newGate(), &counting{}
			var id uuid.UUID
			o := shell.Options{Store: st, Tools: tools(gate), TickRate: 10 * time.Second, LeaseTTL: time.Hour}
			begin := time.Now()
			crashed(t, o, func(e *shell.Engine) {
				a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: tc.policy})
				require.NoError(t, err)
				require.Equal(t, core.StatusRunning, a.Status.Type)
				id = a.ID
			})
			crash := time.Since(begin)
			again := st.Reopen("second")
			o.Store, o.Tools = again, tools(c)
			e, stop := start(t, o)
			elapse(15*time.Second - crash)
			a := actionOf(t, e, id)
			assert.Equal(t, core.StatusRunning, a.Status.Type, "not yet: the holder may be alive")
			elapse(10 * time.Second)
			a = actionOf(t, e, id)
			assert.Equal(t, tc.want, a.Status.Type)
			assert.Equal(t, tc.reason, a.Status.Reason)
			assert.Equal(t, tc.runs, c.n.Load())
			require.NoError(t, stop())
			verify(t, again)
		}
	})
}

func TestAnActionThatWaitedForAPlaceWhenTheProcessDiedRunsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.NewSession("first")
		c := &counting{}
		var waited uuid.UUID
		o := shell.Options{Store: st, Tools: tools(newGate()), TickRate: 10 * time.Second, Concurrency: map[string]int{"count": 1}}
		crashed(t, o, func(e *shell.Engine) {
			for range 2 {
				a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
				require.NoError(t, err)
				waited = a.ID
			}
		})
		o.Store, o.Tools = st.Reopen("second"), tools(c)
		e := running(t, o)
		a, err := e.Actions().Wait(bg(), waited)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, "it was never begun, so on_interrupt does not concern it")
		assert.EqualValues(t, 1, a.Run)
	})
}

// C8.
func TestOfSeveralInstancesOnOneStoreExactlyOneDispatchesAnOccurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		c := &counting{}
		o := shell.Options{Store: st, Tools: tools(c), TickRate: time.Second}
		var engines []*shell.Engine
		for range 3 {
			engines = append(engines, running(t, o))
		}
		spec := everyMinute()
		spec.CronExpr = "*/10 * * * * *"
		r, err := engines[0].Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(10 * time.Minute)
		got, err := engines[1].Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 60, got.ExecutionCount)
		assert.EqualValues(t, 60, c.n.Load())
		assert.Zero(t, got.MissedCount)
	})
}

// C8, R5.
func TestAStalledInstanceIsTakenOverAfterItsLeaseAndItsLateResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		f := &frozen{Store: st, gone: make(chan struct{}), thaw: make(chan struct{})}
		stalledGate, c := newGate(), &counting{}
		stalled, stopStalled := start(t, shell.Options{Store: f, Tools: tools(stalledGate), TickRate: time.Second})
		a, err := stalled.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry}})
		require.NoError(t, err)
		fail, err := stalled.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		close(f.gone) // it stalls with both running

		other := running(t, shell.Options{Store: st, Tools: tools(c), TickRate: time.Second})
		elapse(50 * time.Second)
		assert.Zero(t, c.n.Load(), "its lease of 60 s has not lapsed")
		elapse(15 * time.Second)
		got, err := other.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, got.Status.Type)
		assert.EqualValues(t, 2, got.Attempt)
		got = actionOf(t, other, fail.ID)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: core.ReasonRecovered}, got.Status)

		stalledGate.open() // its tools come back with results of an old token
		close(f.thaw)
		elapse(10 * time.Second)
		after := actionOf(t, other, fail.ID)
		assert.Equal(t, got, after)
		b, err := stalled.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err, "it has registered anew and works on")
		assert.Equal(t, core.StatusCompleted, b.Status.Type)
		require.NoError(t, stopStalled())
	})
}

func TestStoppingWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		st := inMemory(t)
		e, stop := start(t, shell.Options{Store: st, Tools: tools(g), StopTimeout: time.Minute})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		later, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(5 * time.Second)})
		require.NoError(t, err)
		time.AfterFunc(10*time.Second, g.open)
		begin := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, 10*time.Second, time.Since(begin))
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.ErrorIs(t, err, shell.ErrStopped)
		got, err := e.Actions().Get(bg(), a.ID)
		require.NoError(t, err, "reading goes on as long as the store is open")
		assert.Equal(t, core.StatusCompleted, got.Status.Type)
		got = actionOf(t, e, later.ID)
		assert.Equal(t, core.StatusPending, got.Status.Type, "nothing new is started")
		verify(t, st)
	})
}

func TestStoppingEndsWithTheLastRunThoughNobodyWaitsForItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleansUp := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			return nil, context.Cause(ctx)
		})
		e, stop := start(t, shell.Options{Store: inMemory(t), Tools: tools(cleansUp)})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		_, err = e.Actions().Cancel(bg(), a.ID, "not needed")
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestStoppingCancelsWhatRunsLongerThanTheStopTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		o := shell.Options{Store: st, Tools: tools(newGate()), StopTimeout: 5 * time.Second}
		e, stop := start(t, o)
		fail, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		retry, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry}})
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, 5*time.Second, time.Since(begin))
		got := actionOf(t, e, fail.ID)
		assert.Equal(t, core.StatusFailed, got.Status.Type)
		assert.Contains(t, got.Status.Reason, "interrupted by a shutdown")
		got = actionOf(t, e, retry.ID)
		assert.Equal(t, core.StatusPending, got.Status.Type)
		verify(t, st)

		c := &counting{}
		o.Tools = tools(c)
		e = running(t, o)
		got, err = e.Actions().Wait(bg(), retry.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, got.Status.Type, "the next start runs it at once: nobody holds it")
	})
}

func TestAFailedCommitIsAnsweredUndoneAndFollowedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		c := &counting{}
		e := running(t, shell.Options{Store: st, Tools: tools(c)})
		synctest.Wait()
		disk := errors.New("no space left on device")
		st.FailNextCommit(disk)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.ErrorIs(t, err, disk)
		_, err = e.Actions().Get(bg(), a.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		a, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, c.n.Load())
	})
}

func TestAResultThatCouldNotBeStoredIsKeptAndStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		g := newGate()
		e := running(t, shell.Options{Store: st, Tools: tools(g)})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		st.FailNextCommit(errors.New("no space left on device"))
		g.open()
		a, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, g.n.Load())
	})
}

// A10.
func TestAnUndecodableRecordIsSetAsideAndStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		c := &counting{}
		bad := uuid.New()
		require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
			due := effects.TimeOf(time.Now().Add(time.Second))
			if err := tx.AppendJournal(1, effects.TimeOf(time.Now()), core.NewEntry(1, effects.TimeOf(time.Now()), "test").AppendJSON(nil)); err != nil {
				return err
			}
			return tx.Put(1, []store.Write{{Kind: core.KindAction, ID: bad, State: []byte(`{"id":7}`), Due: due}})
		}))
		e, stop := start(t, shell.Options{Store: st, Tools: tools(c)})
		good, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Second)})
		require.NoError(t, err)
		_, err = e.Actions().Wait(bg(), good.ID)
		require.NoError(t, err)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			q, err := tx.Quarantine(10)
			require.Len(t, q, 1)
			assert.Equal(t, bad, q[0].ID)
			assert.JSONEq(t, `{"id":7}`, string(q[0].Raw))
			due, err2 := tx.Due(nil, nil, effects.MaxTime, 10)
			assert.Empty(t, due)
			return errors.Join(err, err2)
		}))
		require.NoError(t, stop())
	})
}

func TestAClockThatJumpsByADayFiresNothingTwiceAndLosesNothing(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": 24 * time.Hour, "back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &jumping{}
				c := &counting{}
				e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), Clock: clock, TickRate: time.Second})
				r, err := e.Recurring().Create(bg(), everyMinute())
				require.NoError(t, err)
				elapse(150 * time.Second)
				require.EqualValues(t, 2, c.n.Load())
				clock.jump(jump)
				elapse(150 * time.Second)
				got, err := e.Recurring().Get(bg(), r.ID)
				require.NoError(t, err)
				if jump > 0 {
					assert.InDelta(t, 5, c.n.Load(), 1, "no storm")
					assert.InDelta(t, 24*60, got.MissedCount, 2, "what the jump skipped is counted")
				} else {
					assert.EqualValues(t, 2, c.n.Load(), "nothing fires a second time")
				}
				clock.jump(-jump)
				elapse(3 * time.Minute)
				assert.GreaterOrEqual(t, c.n.Load(), int64(4), "and it goes on")
				seen := map[effects.Time]int{}
				history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
				require.NoError(t, err)
				for _, o := range history {
					if o.Verdict == core.VerdictDispatched {
						seen[o.DueAt]++
						assert.Equal(t, 1, seen[o.DueAt], "due at %s", o.DueAt)
					}
				}
			})
		})
	}
}

func TestAToolIsCalledOnlyAfterRunningIsDurable(t *testing.T) {
	st := inBolt(t)
	seen := make(chan core.StatusType, 1)
	e := running(t, shell.Options{Store: st, Tools: tools(shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
		err := st.View(ctx, func(tx store.ReadTx) error {
			rec, err := tx.Get(core.KindAction, c.ActionID)
			if err != nil {
				return err
			}
			s, err := core.DecodeState(core.KindAction, rec.State)
			seen <- s.(core.Action).Status.Type
			return err
		})
		return nil, err
	}))})
	a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	require.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
	assert.Equal(t, core.StatusRunning, <-seen)
}
