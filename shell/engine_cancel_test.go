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

// slowToStop is a tool that ends some time after its context.
type slowToStop struct {
	after  time.Duration
	cause  chan error
	result json.RawMessage
	err    error
}

func (s slowToStop) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	<-ctx.Done()
	s.cause <- context.Cause(ctx)
	select {
	case <-time.After(s.after):
	case <-shell.Killed(ctx):
		s.cause <- shell.ErrKilled
	}
	return s.result, s.err
}

var cancelledForNewer = core.Status{Type: core.StatusCancelled, Reason: "a newer one"}

func TestACancelThatAwaitsTheToolEndsTheActionWhenTheToolHasEndedWhateverItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tool := range []slowToStop{
			{after: 5 * time.Second, result: json.RawMessage(`"done all the same"`)},
			{after: 5 * time.Second, err: errors.New("stopped")},
			{after: 5 * time.Second, err: shell.Permanent(errors.New("stopped")), result: json.RawMessage(`{"exit_code":-1}`)},
		} {
			tool.cause = make(chan error, 2)
			e := running(t, shell.Options{Store: inMemory(t), Tools: tools(tool)})
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnFailure: core.FailureRetry}})
			require.NoError(t, err)
			a, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
			require.NoError(t, err)
			assert.Equal(t, core.StatusRunning, a.Status.Type)
			assert.Equal(t, "a newer one", a.Cancelling)
			require.ErrorIs(t, <-tool.cause, shell.ErrCancelled)
			elapse(4 * time.Second)
			assert.Equal(t, a, actionOf(t, e, a.ID), "its tool has not ended")

			_, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Mode: core.CancelAwait})
			var refusal *shell.Refusal
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, effects.CodeConflict, refusal.Code)

			begin := time.Now()
			ended, err := e.Actions().Wait(bg(), a.ID)
			require.NoError(t, err)
			assert.Equal(t, time.Second, time.Since(begin))
			assert.Equal(t, cancelledForNewer, ended.Status)
			assert.Empty(t, ended.Cancelling)
			elapse(time.Hour)
			assert.Equal(t, ended, actionOf(t, e, a.ID), "it is not tried again")
		}
	})
}

func TestACancelThatAwaitsAToolThatIgnoresItEndsTheActionAfterAbandonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int64{0, 3_600_000} {
			tool := slowToStop{after: time.Hour, cause: make(chan error, 2)}
			e := running(t, shell.Options{Store: inMemory(t), Tools: tools(tool), AbandonAfter: 10 * time.Second})
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{TimeoutMS: limit}})
			require.NoError(t, err)
			_, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
			require.NoError(t, err)
			begin := time.Now()
			ended, err := e.Actions().Wait(bg(), a.ID)
			require.NoError(t, err)
			assert.Equal(t, 10*time.Second, time.Since(begin))
			assert.Equal(t, cancelledForNewer, ended.Status)
			elapse(2 * time.Hour)
		}
	})
}

// Nobody has begun what waits for a place: it is not begun to be stopped.
func TestACancelThatAwaitsEndsAtOnceWhatWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(g), Concurrency: map[string]int{"count": 1}})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		waits, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		require.Equal(t, core.StatusRunning, waits.Status.Type)
		waits, err = e.Actions().CancelWith(bg(), waits.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
		require.NoError(t, err)
		assert.Equal(t, cancelledForNewer, waits.Status)
		g.open()
		synctest.Wait()
		assert.EqualValues(t, 1, g.n.Load())
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Outbox(func(o store.OutboxEntry) error {
				t.Errorf("outbox entry %v is left over", o.Key)
				return nil
			})
		}))
	})
}

// The daemon dies while it waits for the tool: the interruption ends the wait, although the
// policy would try again.
func TestAnActionThatWasBeingCancelledWhenTheProcessDiedIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.NewSession("first")
		g, c := newGate(), &counting{}
		var id uuid.UUID
		o := shell.Options{Store: st, Tools: tools(g), TickRate: 10 * time.Second, LeaseTTL: time.Hour}
		crashed(t, o, func(e *shell.Engine) {
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry}})
			require.NoError(t, err)
			_, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
			require.NoError(t, err)
			id = a.ID
		})
		o.Store, o.Tools = st.Reopen("second"), tools(c)
		e := running(t, o)
		a, err := e.Actions().Wait(bg(), id)
		require.NoError(t, err)
		assert.Equal(t, cancelledForNewer, a.Status)
		assert.Zero(t, c.n.Load(), "it is not run again")
	})
}

// A stop of the engine ends the tool, and so the wait.
func TestAnActionThatIsBeingCancelledWhenTheEngineStopsIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		tool := slowToStop{after: time.Minute, cause: make(chan error, 2)}
		o := shell.Options{Store: st, Tools: tools(tool), StopTimeout: time.Second, AbandonAfter: 5 * time.Second}
		e, stop := start(t, o)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		_, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
		require.NoError(t, err)
		require.NoError(t, stop())
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			rec, err := tx.Get(core.KindAction, a.ID)
			require.NoError(t, err)
			s, err := core.DecodeState(core.KindAction, rec.State)
			require.NoError(t, err)
			assert.Equal(t, cancelledForNewer, s.(core.Action).Status)
			return nil
		}))
		elapse(time.Hour)
	})
}

func TestAKillTellsTheToolAtOnceAlsoWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := slowToStop{after: time.Hour, cause: make(chan error, 2)}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(tool)})
		for _, asked := range []bool{false, true} {
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			if asked {
				_, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Reason: "a newer one", Mode: core.CancelAwait})
				require.NoError(t, err)
				cause := <-tool.cause
				require.ErrorIs(t, cause, shell.ErrCancelled)
				require.NotErrorIs(t, cause, shell.ErrKilled)
				synctest.Wait()
				require.Empty(t, tool.cause)
			}
			a, err = e.Actions().CancelWith(bg(), a.ID, core.ActionCancel{Mode: core.CancelKill})
			require.NoError(t, err)
			assert.Equal(t, core.StatusCancelled, a.Status.Type)
			assert.Equal(t, map[bool]string{false: "cancelled", true: "a newer one"}[asked], a.Status.Reason)
			begin := time.Now()
			for range map[bool]int{false: 2, true: 1}[asked] { // the context's cause, if that tells; and Killed
				cause := <-tool.cause
				require.ErrorIs(t, cause, shell.ErrKilled)
				require.ErrorIs(t, cause, shell.ErrCancelled)
			}
			assert.Zero(t, time.Since(begin))
			synctest.Wait()
			require.Empty(t, tool.cause)
		}
	})
}

func TestAContextThatIsOfNoRunIsNeverKilled(t *testing.T) {
	assert.Nil(t, shell.Killed(context.Background()))
}
