package core_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A run is started as often as an account in integers says, whatever mix of failures,
// interruptions, shutdowns, hand-backs and triggers there is, and never more than max_attempts times
// beside those that were handed back.
func TestNoMixOfEndingsMakesMoreAttemptsThanThePolicyAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := core.RunPolicy{
			OnInterrupt: rapid.SampledFrom([]core.OnInterrupt{core.InterruptFail, core.InterruptRetry}).Draw(t, "on_interrupt"),
			OnFailure:   rapid.SampledFrom([]core.OnFailure{core.FailureFail, core.FailureRetry}).Draw(t, "on_failure"),
			MaxAttempts: rapid.Uint32Range(1, 6).Draw(t, "max_attempts"),
		}
		initial := int64(core.DefaultInitialMS)
		if policy.OnFailure == core.FailureRetry && rapid.Bool().Draw(t, "backoff?") {
			initial = rapid.Int64Range(1, 5000).Draw(t, "initial_ms")
			policy.Backoff = &core.Backoff{InitialMS: initial, FactorPercent: 300, MaxMS: 40_000, NoRetry: []string{"^lasting"}}
		}
		clock := core.Clock{Now: start}
		a, effs := core.Action{}.Apply(core.ActionCreate{Spec: core.ActionSpec{
			ID: id(1), ToolName: "http", Trigger: core.Scheduled(start), DedupKey: "k", Occurrence: id(2), Policy: policy,
		}}, clock)
		require.Nil(t, refusal(effs))

		var used, told uint32
		ended := false
		for range 40 {
			require.Equal(t, ended, a.Status.Type.Terminal())
			if ended {
				break
			}
			if rapid.Bool().Draw(t, "trigger") {
				a, effs = a.Apply(core.ActionTrigger{}, clock)
			} else {
				clock.Now = max(clock.Now, a.Deadline())
				a, effs = a.Apply(core.ActionDue{}, clock)
			}
			require.Nil(t, refusal(effs))
			used++
			require.LessOrEqual(t, used, policy.MaxAttempts, "attempts")
			require.Equal(t, used, a.Attempt)
			left := used < policy.MaxAttempts
			clock.Now += core.Time(rapid.Int64Range(0, 1000).Draw(t, "takes"))

			var wait int64
			switch rapid.SampledFrom([]string{"fail", "fail", "permanent", "lasting", "interrupt", "hand_back", "complete"}).Draw(t, "ending") {
			case "fail":
				asked := rapid.SampledFrom([]int64{0, 17_000, 90_000}).Draw(t, "retry_after_ms")
				a, effs = a.Apply(core.ActionFail{Run: a.Run, Reason: "exit 1", RetryAfterMS: asked}, clock)
				ended = policy.OnFailure != core.FailureRetry || !left
				factor, most := int64(2), int64(3_600_000)
				if policy.Backoff != nil {
					factor, most = 3, 40_000
				}
				wait = initial
				for range used - 1 {
					wait = min(wait*factor, most)
				}
				wait = max(wait, min(asked, most))
			case "permanent":
				a, effs = a.Apply(core.ActionFail{Run: a.Run, Reason: "exit 1", Permanent: true}, clock)
				ended = true
			case "lasting":
				a, effs = a.Apply(core.ActionFail{Run: a.Run, Reason: "lasting: no such user"}, clock)
				ended = policy.OnFailure != core.FailureRetry || !left || policy.Backoff != nil
				wait = initial << (used - 1)
			case "interrupt":
				a, effs = a.Apply(core.ActionInterrupt{Run: a.Run}, clock)
				ended = policy.OnInterrupt != core.InterruptRetry || !left
			case "hand_back":
				a, effs = a.Apply(core.ActionHandBack{Run: a.Run}, clock)
				used--
			case "complete":
				a, effs = a.Apply(core.ActionComplete{Run: a.Run}, clock)
				ended = true
			}
			require.Nil(t, refusal(effs))
			if ended {
				require.Empty(t, a.RetryAt)
			} else {
				due := clock.Now + core.Time(wait)
				if wait == 0 {
					due = start // it is due at once
				}
				require.Equal(t, due, a.Deadline())
			}
			for _, e := range effs {
				if send, ok := e.(effects.Send); ok {
					if _, ok := send.Event.(core.DedupRelease); ok {
						told++
					}
				}
			}
		}
		if ended {
			require.EqualValues(t, 1, told, "its dedup key is held until the end")
		} else {
			require.Zero(t, told, "its dedup key is held until the end")
		}
	})
}

func TestAPolicyThatMeansNothingIsRefusedWithItsField(t *testing.T) {
	backoff := func(b core.Backoff) core.RunPolicy {
		return core.RunPolicy{OnFailure: core.FailureRetry, Backoff: &b}
	}
	for want, policy := range map[string]core.RunPolicy{
		`policy.on_failure: "never" is unknown: use "fail" or "retry"`:                                        {OnFailure: "never"},
		`policy.backoff: means something with policy.on_failure "retry" only: give that too, or leave it out`: {Backoff: &core.Backoff{}},
		"policy.backoff.initial_ms: -1 is not between 0 and 2592000000":                                       backoff(core.Backoff{InitialMS: -1}),
		"policy.backoff.max_ms: 2592000001 is not between 0 and 2592000000":                                   backoff(core.Backoff{MaxMS: core.MaxBackoffMS + 1}),
		"policy.backoff.factor_percent: 99 is not between 100 and 10000":                                      backoff(core.Backoff{FactorPercent: 99}),
		"policy.backoff.jitter_percent: 101 is not between 0 and 100":                                         backoff(core.Backoff{JitterPercent: 101}),
		"policy.backoff.no_retry[0]: ":                                                                        backoff(core.Backoff{NoRetry: []string{"("}}),
	} {
		spec := core.ActionSpec{ID: id(1), ToolName: "http", Trigger: core.Scheduled(start), Policy: policy}
		a, effs := core.Action{}.Apply(core.ActionCreate{Spec: spec}, core.Clock{Now: start})
		assert.False(t, exists(a))
		if r := refusal(effs); assert.NotNil(t, r, want) {
			assert.Contains(t, r.Reason, want)
		}
	}
}

// What is compared with patterns is bounded before the journal, whoever asks.
func TestTheNoRetryPatternsOfAPolicyAreBoundedWhereTheyComeIn(t *testing.T) {
	policy := core.RunPolicy{OnFailure: core.FailureRetry, Backoff: &core.Backoff{NoRetry: []string{strings.Repeat("a?", 200)}}}
	spec := core.ActionSpec{ID: id(1), ToolName: "http", Policy: policy}
	for _, e := range []core.Event{
		core.ActionCreate{Spec: spec}, core.DedupClaim{Create: spec}, core.RecurringCreate{Spec: core.RecurringSpec{Policy: policy}},
		core.RecurringUpdate{Patch: core.RecurringPatch{Policy: &policy}},
	} {
		_, err := core.Given(core.Input{Event: e})
		assert.ErrorContains(t, err, "policy.backoff.no_retry[0]", "%T", e)
	}
}

func TestAnAttemptKeepsTheExitCodeAndTheOutputThatItsResultTells(t *testing.T) {
	code := int64(3)
	long := strings.Repeat("ä", 1000)
	for result, want := range map[string]core.Attempt{
		``:     {},
		`null`: {},
		`{"exit_code":3,"stdout":"out","stderr":"err"}`: {ExitCode: &code, Output: "err"},
		`{"exit_code":3,"stdout":"out","stderr":""}`:    {ExitCode: &code, Output: "out"},
		`{"exit_code":3.5,"stdout":7}`:                  {Output: `{"exit_code":3.5,"stdout":7}`},
		`{"status":503,"body":"busy"}`:                  {Output: `{"status":503,"body":"busy"}`},
		`[1,2]`:                                         {Output: "[1,2]"},
		`{"stderr":"x` + long + `"}`:                    {Output: strings.Repeat("ä", 512)},
	} {
		a := core.Action{}
		a, _ = a.Apply(core.ActionCreate{Spec: core.ActionSpec{
			ID: id(1), ToolName: "http", Trigger: core.Scheduled(start), Policy: core.RunPolicy{OnFailure: core.FailureRetry},
		}}, core.Clock{Now: start})
		a, _ = a.Apply(core.ActionDue{}, core.Clock{Now: start})
		a, effs := a.Apply(core.ActionFail{Run: 1, Reason: "r", Result: json.RawMessage(result)}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
		require.Len(t, a.Attempts, 1)
		got := a.Attempts[0]
		assert.Equal(t, want.ExitCode, got.ExitCode, result)
		assert.Equal(t, want.Output, got.Output, result)
	}
}

// R19: what an earlier build decided is decided as it did, without attempts, so that its journal
// replays byte for byte.
func TestByEarlierRulesNoAttemptIsKept(t *testing.T) {
	clock := core.Clock{Now: start, Rules: 7}
	a, _ := core.Action{}.Apply(core.ActionCreate{Spec: core.ActionSpec{
		ID: id(1), ToolName: "http", Trigger: core.Scheduled(start), Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry},
	}}, clock)
	a, _ = a.Apply(core.ActionDue{}, clock)
	a, _ = a.Apply(core.ActionInterrupt{Run: 1}, clock)
	assert.Equal(t, core.StatusPending, a.Status.Type)
	assert.Empty(t, a.Attempts)
	a, _ = a.Apply(core.ActionDue{}, clock)
	a, _ = a.Apply(core.ActionFail{Run: 2, Reason: "exit 1"}, clock)
	assert.Equal(t, core.StatusFailed, a.Status.Type)
	assert.Empty(t, a.Attempts)
}
