package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/memory"
)

// Between the start of an execution's goroutine and its first step a stop may cancel
// it: it was not begun, so that its policy does not concern it.
func TestAnExecutionThatIsCancelledByAStopBeforeItWasBegunIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := false
		p := Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) {
			called = true
			return nil, nil
		}}
		e := engineOf(t, SystemClock{})
		x := e.newExecution(aLaunch(), p)
		x.cancel(ErrStopping)
		x.run()
		require.Len(t, e.result, 1)
		assert.Equal(t, core.ActionHandBack{Run: 3}, (<-e.result).event)
		assert.False(t, called)
	})
}

func engineOf(t *testing.T, c Clock) *Engine {
	e, err := New(Options{Store: memory.New(), Logger: slog.New(slog.DiscardHandler), Clock: c, AbandonAfter: 10 * time.Second})
	require.NoError(t, err)
	return e
}

func aLaunch() launch {
	a := core.Action{ActionSpec: core.ActionSpec{ID: uuid.Max, ToolName: "count"}, Status: core.Status{Type: core.StatusRunning}, Run: 3}
	return launch{OuterEffect: OuterEffect{State: a}, key: effectKey(a.Ref(), a.Run), queue: "count"}
}

// done3 is what aLaunch comes to if its tool gives nothing.
var done3 = core.ActionComplete{Run: 3, Result: json.RawMessage{}}

// A procedure that takes a while to return although its context has ended, with a limit and
// without one.
func TestAnExecutionWhoseContextEndedIsAnsweredOnceByItsProcedureOrAfterAbandonAfter(t *testing.T) {
	const limit = time.Minute
	for _, row := range []struct {
		name    string
		limit   time.Duration
		cancel  bool          // after a second; twice, as a stop does after a withdrawal
		returns time.Duration // after its context has ended
		after   time.Duration // when it is answered
		want    core.Event
	}{
		{"cancelled, returns", 0, true, time.Second, 2 * time.Second, done3},
		{"cancelled, returns too late", 0, true, time.Hour, 11 * time.Second, core.ActionFail{Run: 3, Reason: "the tool did not return, and was left behind"}},
		{"cancelled within a limit, returns", limit, true, time.Second, 2 * time.Second, done3},
		{"cancelled within a limit, returns too late", limit, true, time.Hour, 11 * time.Second, core.ActionFail{Run: 3, Reason: "the tool did not return, and was left behind"}},
		{"at its limit, returns", limit, false, time.Second, limit + time.Second, done3},
		{"at its limit, returns too late", limit, false, time.Hour, limit + 10*time.Second, core.ActionFail{Run: 3, Reason: "the action reached its time limit of 1m0s: the tool did not return, and was left behind", TimedOut: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOf(t, SystemClock{})
				x := e.newExecution(aLaunch(), Procedure{What: "tool", Subject: "action", Limit: row.limit, Call: func(ctx context.Context) (json.RawMessage, error) {
					<-ctx.Done()
					<-time.After(row.returns)
					return nil, nil
				}})
				begin := time.Now()
				go x.run()
				if row.cancel {
					<-time.After(time.Second)
					x.cancel(ErrCancelled)
					x.cancel(ErrStopping)
				}
				assert.Equal(t, row.want, (<-e.result).event)
				assert.Equal(t, row.after, time.Since(begin))
				<-time.After(2 * time.Hour)
				assert.Empty(t, e.result)
			})
		})
	}
}

// timers counts those that are asked for.
type timers struct {
	SystemClock
	n int
}

func (c *timers) Timer(d time.Duration) (<-chan time.Time, func()) {
	c.n++
	return c.SystemClock.Timer(d)
}

func TestAnExecutionWithoutALimitThatReturnsHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &timers{}
		e := engineOf(t, c)
		x := e.newExecution(aLaunch(), Procedure{What: "tool", Call: func(context.Context) (json.RawMessage, error) { return nil, nil }})
		x.run()
		x.cancel(ErrStopping)
		synctest.Wait()
		assert.Equal(t, done3, (<-e.result).event)
		assert.Zero(t, c.n)
	})
}

// What is tried again is watched again, by its own attempt.
func TestAnExecutionThatIsTriedAgainIsLeftBehindInItsSecondAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOf(t, SystemClock{})
		tries := 0
		x := e.newExecution(aLaunch(), Procedure{What: "tool", Call: func(ctx context.Context) (json.RawMessage, error) {
			if tries++; tries == 1 {
				return nil, NotStarted(errors.New("no room"))
			}
			<-ctx.Done()
			<-time.After(time.Hour)
			return nil, nil
		}})
		go x.run()
		<-time.After(time.Minute)
		x.cancel(ErrCancelled)
		assert.Equal(t, core.ActionFail{Run: 3, Reason: "the tool did not return, and was left behind"}, (<-e.result).event)
		<-time.After(2 * time.Hour)
		assert.Empty(t, e.result)
		assert.Equal(t, 2, tries)
	})
}
