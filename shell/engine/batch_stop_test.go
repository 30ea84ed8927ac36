package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

var (
	awaitEnd  = core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait}
	cancelled = core.Status{Type: core.StatusCancelled, Reason: "a newer one"}
)

// untilStopped begins what ends when its context does, and counts both.
type untilStopped struct{ begun, ended int }

func (u *untilStopped) hooks() engine.Hooks {
	return engine.Hooks{Procedure: func(engine.OuterEffect) engine.Procedure {
		u.begun++ // by the loop alone
		return engine.Procedure{What: "tool", Call: func(ctx context.Context) (json.RawMessage, error) {
			<-ctx.Done()
			<-time.After(5 * time.Second)
			u.ended++ // one at a time
			return json.RawMessage(`1`), nil
		}}
	}}
}

func TestWhatIsBegunAndStoppedInOneBatchIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u untilStopped
		st := memory.New()
		e := idle(t, engine.Options{Store: st, Hooks: u.hooks()})
		begin(t, e)
		r := runningTool(1)
		r.Inputs = append(r.Inputs, core.Input{To: r.Want, Event: core.ActionDue{}}, core.Input{To: r.Want, Event: awaitEnd})
		_, err := e.Do(t.Context(), r)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, cancelled, readAction(t, e, r).Status)
		assert.Zero(t, u.begun)
		assertOutboxEmpty(t, st)
	})
}

// A second mode in the same batch: the effect is withdrawn, and nothing is handed back.
func TestWhatIsStoppedAndKilledInOneBatchIsEndedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u untilStopped
		st := memory.New()
		e := idle(t, engine.Options{Store: st, Hooks: u.hooks()})
		begin(t, e)
		r := runningTool(1)
		_, err := e.Do(t.Context(), r)
		require.NoError(t, err)
		synctest.Wait()
		_, err = e.Do(t.Context(), engine.Request{Want: r.Want, Inputs: []core.Input{
			{To: r.Want, Event: awaitEnd}, {To: r.Want, Event: core.ActionCancel{Mode: core.CancelKill}},
		}})
		require.NoError(t, err)
		assert.Equal(t, cancelled, readAction(t, e, r).Status)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, untilStopped{1, 1}, u)
		assertOutboxEmpty(t, st)
	})
}

// The commit of the stop is stored and not confirmed: the next batch finds out, and stops what
// runs. What that commit handed out was never begun, and never is.
func TestWhatAnUnconfirmedCommitStoppedIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sameCommit := range []bool{false, true} {
			var u untilStopped
			st := &unconfirming{Store: memory.New()}
			e := idle(t, engine.Options{Store: st, Hooks: u.hooks()})
			begin(t, e)
			r, stop := runningTool(1), core.Input{To: runningTool(1).Want, Event: awaitEnd}
			want := untilStopped{1, 1}
			if sameCommit {
				r.Inputs, want = append(r.Inputs, core.Input{To: r.Want, Event: core.ActionDue{}}, stop), untilStopped{}
			} else {
				_, err := e.Do(t.Context(), r)
				require.NoError(t, err)
				r.Inputs = []core.Input{stop}
			}
			synctest.Wait()
			st.next = true
			_, err := e.Do(t.Context(), r)
			require.ErrorIs(t, err, store.ErrUnconfirmed)
			<-time.After(time.Minute)
			synctest.Wait()
			assert.Equal(t, cancelled, readAction(t, e, r).Status)
			assert.Equal(t, want, u)
			assertOutboxEmpty(t, st)
		}
	})
}

// What was handed out by one unconfirmed commit and stopped by the next input, before the engine
// knows that nobody has begun it.
func TestWhatWasHandedOutUnconfirmedAndIsStoppedThenIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u untilStopped
		st := &unconfirming{Store: memory.New()}
		e := idle(t, engine.Options{Store: st, Hooks: u.hooks()})
		begin(t, e)
		synctest.Wait()
		r := runningTool(1)
		st.next = true
		_, err := e.Do(t.Context(), r)
		require.ErrorIs(t, err, store.ErrUnconfirmed)
		_, err = e.Do(t.Context(), engine.Request{Want: r.Want, Inputs: []core.Input{{To: r.Want, Event: awaitEnd}}})
		require.NoError(t, err)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, cancelled, readAction(t, e, r).Status)
		assert.Zero(t, u.begun)
		assertOutboxEmpty(t, st)
	})
}

// The answer is decided before or after the stop: either way the action ends once.
func TestAnAnswerThatRacesAStopEndsTheActionOnce(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			release := make(chan struct{})
			e := idle(t, engine.Options{Store: st, Hooks: engine.Hooks{Procedure: func(engine.OuterEffect) engine.Procedure {
				return engine.Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
					<-release
					return json.RawMessage(`1`), nil
				}}
			}}})
			begin(t, e)
			r := runningTool(1)
			_, err := e.Do(t.Context(), r)
			require.NoError(t, err)
			if before {
				close(release)
				synctest.Wait()
			}
			_, err = e.Send(t.Context(), r.Want, awaitEnd)
			if !before {
				require.NoError(t, err)
				close(release)
			} else {
				require.Error(t, err, "it has completed")
			}
			synctest.Wait()
			want := cancelled
			if before {
				want = core.Status{Type: core.StatusCompleted, Result: json.RawMessage(`1`)}
			}
			assert.Equal(t, want, readAction(t, e, r).Status)
			assertOutboxEmpty(t, st)
		})
	}
}

func assertOutboxEmpty(t *testing.T, st store.Store) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Outbox(func(o store.OutboxEntry) error {
			t.Errorf("outbox entry %v of %s is left over", o.Key, effects.Ref{Kind: o.Kind, ID: o.Key.ID})
			return nil
		})
	}))
}
