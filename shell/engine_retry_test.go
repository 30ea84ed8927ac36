package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

// scripted is a tool whose runs end as its script says, one after the other; after its end they
// succeed. It notes when each began, and with which call.
type scripted struct {
	mu    sync.Mutex
	ends  []error
	began []time.Duration // since the first
	first time.Time
	calls []shell.Call
}

func (s *scripted) tool() shell.Tool {
	return shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.first.IsZero() {
			s.first = time.Now()
		}
		s.began, s.calls = append(s.began, time.Since(s.first)), append(s.calls, c)
		if n := len(s.began); n <= len(s.ends) && s.ends[n-1] != nil {
			return json.RawMessage(fmt.Sprintf(`{"exit_code":%d,"stdout":"","stderr":"line %d"}`, n, n)), s.ends[n-1]
		}
		return json.RawMessage(`"done"`), nil
	})
}

// starts gives when it was called, since the first time.
func (s *scripted) starts() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began)
}

// seen gives the calls.
func (s *scripted) seen() []shell.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

var retrying = core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 4}

// G7: a run that failed is tried again after a wait that grows, with the same idempotency key and
// for the same time, and its end is told once.
func TestAFailedRunIsTriedAgainAfterAWaitThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		fault := errors.New("no route")
		s := &scripted{ends: []error{fault, fault, shell.RetryAfter(fault, 90*time.Second+time.Nanosecond)}}
		e := running(t, shell.Options{Store: st, Tools: tools(s.tool())})
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k", Policy: retrying})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 93*time.Second + time.Millisecond}, s.starts(), "no earlier than the other side asked for")
		require.Len(t, a.Attempts, 3)
		calls := s.seen()
		for i, c := range calls {
			assert.EqualValues(t, i+1, c.Attempt)
			assert.Equal(t, calls[0].IdempotencyKey, c.IdempotencyKey)
			assert.Equal(t, calls[0].DueAt, c.DueAt)
		}
		third := a.Attempts[2]
		assert.EqualValues(t, 3, third.Number)
		assert.Equal(t, core.CauseFailed, third.Cause)
		assert.Equal(t, "no route", third.Reason)
		assert.Equal(t, "line 3", third.Output)
		if assert.NotNil(t, third.ExitCode) {
			assert.EqualValues(t, 3, *third.ExitCode)
		}
		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 3, stats.ActionRetries)
		assert.EqualValues(t, 1, stats.ActionsCompleted)
		assert.Zero(t, stats.ActionsFailed, "it has not failed")
	})
}

func TestNoAttemptFollowsAFailureThatLasts(t *testing.T) {
	for name, tc := range map[string]struct {
		tool   shell.Tool
		reason string
	}{
		"a permanent error":        {(&scripted{ends: []error{shell.Permanent(errors.New("no such user"))}}).tool(), "no such user"},
		"a pattern of the policy":  {(&scripted{ends: []error{errors.New("LASTING: disk gone")}}).tool(), "LASTING: disk gone"},
		"a result that is no JSON": {shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return json.RawMessage("{"), nil }), "the tool's result is not valid JSON"},
		"a tool that is not there": {nil, `tool "count" is not configured`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shell.Options{Store: inMemory(t), Tools: tools(tc.tool)}
				policy := retrying
				policy.Backoff = &core.Backoff{NoRetry: []string{"^lasting"}}
				if tc.tool == nil {
					o.Tools = nil
				}
				e := running(t, o)
				begin := time.Now()
				a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Policy: policy})
				if tc.tool == nil && err != nil {
					assert.ErrorContains(t, err, "count")
					return // it is refused before
				}
				require.NoError(t, err)
				assert.Equal(t, core.StatusFailed, a.Status.Type)
				assert.Equal(t, tc.reason, a.Status.Reason)
				assert.Zero(t, time.Since(begin))
				require.Len(t, a.Attempts, 1)
			})
		})
	}
}

// A run that reaches its time limit is told so, and is tried again; one that cannot be stopped is
// not, since two would be under way at once.
func TestARunThatReachesItsTimeLimitIsTriedAgainUnlessItIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := running(t, shell.Options{Store: inMemory(t), AbandonAfter: time.Minute, Tools: map[string]shell.Tool{
			"polite": shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
				if c.Attempt > 1 {
					return nil, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			"deaf": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { <-release; return nil, nil }),
		}})
		policy := retrying
		policy.TimeoutMS = 5000
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "polite", Policy: policy})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		require.Len(t, a.Attempts, 1)
		assert.Equal(t, core.CauseTimedOut, a.Attempts[0].Cause)
		a, err = e.Actions().Execute(bg(), core.ActionSpec{ToolName: "deaf", Policy: policy})
		require.NoError(t, err)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.Contains(t, a.Status.Reason, "left behind")
		assert.EqualValues(t, 1, a.Attempt)
		close(release)
	})
}

// R19: what was stored before says nothing about failures.
func TestMaxAttemptsAloneStartsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{ends: []error{errors.New("no route")}}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(s.tool())})
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{MaxAttempts: 5, OnInterrupt: core.InterruptRetry}})
		require.NoError(t, err)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		elapse(48 * time.Hour)
		assert.Len(t, s.starts(), 1)
	})
}

func TestWhatWaitsForItsNextAttemptIsTriggeredCancelledAndKeepsItsDedupKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("no route")
		s := &scripted{ends: []error{fault, fault, fault}}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(s.tool())})
		policy := retrying
		policy.Backoff = &core.Backoff{InitialMS: time.Hour.Milliseconds()}
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k", Policy: policy})
		require.NoError(t, err)
		synctest.Wait()
		a, err = e.Actions().Get(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusPending, a.Status.Type)
		assert.Equal(t, a.FinishedAt.Add(time.Hour), a.RetryAt)
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
		require.ErrorContains(t, err, "which has not ended")
		_, err = e.Actions().Trigger(bg(), a.ID)
		require.NoError(t, err)
		synctest.Wait()
		assert.Len(t, s.starts(), 2)
		a, err = e.Actions().Cancel(bg(), a.ID, "enough")
		require.NoError(t, err)
		assert.Equal(t, core.StatusCancelled, a.Status.Type)
		elapse(48 * time.Hour)
		assert.Len(t, s.starts(), 2)
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", DedupKey: "k"})
		require.NoError(t, err)
	})
}

// The occurrence of a recurring action is settled by the end of its last attempt, and the policy is
// that of the definition.
func TestAnActionOfARecurringOneIsTriedAgainAndItsOccurrenceIsOpenUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("no route")
		s := &scripted{ends: []error{fault, fault}}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(s.tool())})
		policy := core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2}
		r, err := e.Recurring().Create(bg(), core.RecurringSpec{
			CronExpr: "0 0 1 1 *", Enabled: true, Policy: policy,
			ActionTemplate: core.RecurringActionTemplate{Provider: "count", ActionType: "x"},
		})
		require.NoError(t, err)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err)
		synctest.Wait()
		history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
		require.NoError(t, err)
		require.Len(t, history, 1)
		assert.Empty(t, history[0].Outcome)
		elapse(time.Minute)
		history, _, err = e.Recurring().History(bg(), r.ID, shell.Page{})
		require.NoError(t, err)
		assert.EqualValues(t, core.StatusFailed, history[0].Outcome)
		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.RecurringErrors)
		assert.EqualValues(t, 1, stats.ActionRetries)
	})
}

// A crash counts as an attempt, and the wait outlives the process.
func TestAWaitForTheNextAttemptOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.NewSession("first")
		s := &scripted{ends: []error{errors.New("no route")}}
		o := shell.Options{Store: st, Tools: tools(s.tool()), TickRate: time.Second, LeaseTTL: time.Minute}
		policy := retrying
		policy.Backoff = &core.Backoff{InitialMS: time.Hour.Milliseconds()}
		crashed(t, o, func(e *shell.Engine) {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: policy})
			require.NoError(t, err)
			synctest.Wait()
		})
		again := st.Reopen("second")
		o.Store = again
		e, stop := start(t, o)
		elapse(59 * time.Minute)
		assert.Len(t, s.starts(), 1)
		elapse(2 * time.Minute)
		assert.Len(t, s.starts(), 2)
		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.ActionsByStatus[core.StatusCompleted])
		require.NoError(t, stop())
		verify(t, again)
	})
}
