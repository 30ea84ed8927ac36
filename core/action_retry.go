package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// OnFailure says what becomes of an action whose run failed (G7, R19).
type OnFailure string

// Failure policies.
const (
	// FailureFail ends the action, or the cycle of one that recurs.
	FailureFail OnFailure = "fail"
	// FailureRetry runs the tool again after a wait, up to MaxAttempts, unless the failure is
	// permanent or one of Backoff.NoRetry: it must be safe to repeat.
	FailureRetry OnFailure = "retry"
)

// Backoff says how long an action waits after a failure before its next attempt, and which
// failures no attempt follows. The zero Backoff: 1 s, then twice as long each time, up to 1 hour.
// All times are in milliseconds.
type Backoff struct {
	InitialMS     int64  `json:"initial_ms,omitempty"`     // after the first attempt; 0: [DefaultInitialMS]
	FactorPercent uint32 `json:"factor_percent,omitempty"` // by which it grows with each further one, from 100; 0: 200, it doubles
	// MaxMS is the longest wait, also if the other side asks for a longer one (Retry-After); 0: 1 hour.
	MaxMS int64 `json:"max_ms,omitempty"`
	// JitterPercent shortens the wait by up to that part, by an amount that is derived from the
	// action and the attempt, never drawn.
	JitterPercent uint32 `json:"jitter_percent,omitempty"`
	// NoRetry are patterns of reasons after which no attempt follows, see [MatchPattern].
	NoRetry []string `json:"no_retry,omitempty"`
}

// DefaultInitialMS is the wait after the first attempt where the policy says nothing.
const DefaultInitialMS = 1000

// Causes for which an attempt did not succeed.
const (
	CauseFailed      = "failed"      // the tool said so
	CauseTimedOut    = "timed_out"   // it reached its time limit
	CauseInterrupted = "interrupted" // its holder was gone, or was stopped
)

// Bounds of what is kept of attempts.
const (
	MaxAttemptsKept   = 10      // of one cycle
	MaxAttemptText    = 1 << 10 // bytes of the reason, and of the output
	maxReadableResult = 1 << 20 // of a result of which the exit code and the output are taken
)

// Attempt is one run that did not succeed.
type Attempt struct {
	Number     uint32 `json:"number"` // in its cycle, from 1
	Cause      string `json:"cause"`
	Reason     string `json:"reason"` // its beginning
	StartedAt  Time   `json:"started_at"`
	FinishedAt Time   `json:"finished_at"` // when it was known that it had ended
	// ExitCode is the exit_code of the tool's result, if it has one.
	ExitCode *int64 `json:"exit_code,omitempty"`
	// Output is the end of the stderr of the tool's result, or else of its stdout, or else the
	// beginning of the result.
	Output string `json:"output,omitempty"`
}

// retry gives the arithmetic of the policy.
func (p RunPolicy) retry() Retry {
	r := Retry{MaxAttempts: p.MaxAttempts, BackoffMS: DefaultInitialMS}
	if b := p.Backoff; b != nil {
		if b.InitialMS > 0 {
			r.BackoffMS = b.InitialMS
		}
		r.FactorPercent, r.MaxBackoffMS, r.JitterPercent, r.NoRetry = b.FactorPercent, b.MaxMS, b.JitterPercent, b.NoRetry
	}
	return r
}

// repeats reports whether an attempt may follow another one that did not succeed.
func (p RunPolicy) repeats() bool {
	return p.OnFailure == FailureRetry || p.OnInterrupt == InterruptRetry
}

func (p RunPolicy) validateFailure() error {
	if p.OnFailure != "" && p.OnFailure != FailureFail && p.OnFailure != FailureRetry {
		return fmt.Errorf("policy.on_failure: %q is unknown: use %q or %q", clip(string(p.OnFailure)), FailureFail, FailureRetry)
	}
	b := p.Backoff
	if b == nil {
		return nil
	}
	if p.OnFailure != FailureRetry {
		return fmt.Errorf("policy.backoff: means something with policy.on_failure %q only: give that too, or leave it out", FailureRetry)
	}
	errs := []error{
		checkBetween("policy.backoff.initial_ms", b.InitialMS, 0, MaxBackoffMS),
		checkBetween("policy.backoff.max_ms", b.MaxMS, 0, MaxBackoffMS),
	}
	if b.FactorPercent != 0 {
		errs = append(errs, checkBetween("policy.backoff.factor_percent", int64(b.FactorPercent), 100, maxFactorPercent))
	}
	return errors.Join(append(errs,
		checkBetween("policy.backoff.jitter_percent", int64(b.JitterPercent), 0, 100),
		checkPatterns("policy.backoff.no_retry", b.NoRetry))...)
}

// checkGiven bounds the patterns of a policy that comes from outside, see [Given].
func (p RunPolicy) checkGiven() error {
	if p.Backoff == nil {
		return nil
	}
	return Retry{NoRetry: p.Backoff.NoRetry}.checkGiven("policy.backoff")
}

// fail: running → pending again, with a wait, where the policy says retry, attempts remain and
// the failure is none that lasts; otherwise as [Action.finish].
func (a *Action) fail(e *ActionFail, c Clock) []effects.Effect {
	status := Status{Type: StatusFailed, Reason: reasonOr(e.Reason, "failed without a reason"), Result: storedResult(e.Result)}
	cause := CauseFailed
	if e.TimedOut {
		cause = CauseTimedOut
	}
	a.keepAttempt(cause, status.Reason, status.Result, c)
	retry := a.Policy.retry()
	if a.Policy.OnFailure != FailureRetry || a.Attempt >= a.Policy.MaxAttempts || e.Permanent || retry.Permanent(status.Reason) {
		return a.finish(status, c)
	}
	wait := max(retry.Delay(a.ID, a.Attempt), min(max(e.RetryAfterMS, 0), retry.longest()))
	a.Status = Status{Type: StatusPending}
	a.RetryAt = laterMS(c.Now, wait)
	a.FinishedAt, a.UpdatedAt = c.Now, c.Now
	return []effects.Effect{announcement("action", "action", "retry", a.ID, announcementData(struct {
		Attempt uint32 `json:"attempt"`
		Cause   string `json:"cause"`
		Reason  string `json:"reason"`
		RetryAt Time   `json:"retry_at"`
	}{a.Attempt, cause, texts.Bound(status.Reason, MaxAttemptText), a.RetryAt}))}
}

// keepAttempt notes a run that did not succeed, if its policy lets any be tried again.
func (a *Action) keepAttempt(cause, reason string, result json.RawMessage, c Clock) {
	if !a.Policy.repeats() || c.Rules.before(8) {
		return
	}
	n := Attempt{Number: a.Attempt, Cause: cause, Reason: texts.Bound(reason, MaxAttemptText), StartedAt: a.StartedAt, FinishedAt: c.Now}
	n.ExitCode, n.Output = outputOf(result)
	kept := a.Attempts[max(0, len(a.Attempts)+1-MaxAttemptsKept):]
	a.Attempts = append(slices.Clone(kept), n) // the list from before is never written to
}

// Output is the end of what was printed, as the tool's result has it; see [Attempt.Output].
func (s Status) Output() string {
	_, output := outputOf(s.Result)
	return output
}

// outputOf gives what a result says of how its run went: of the tool "command" its exit code and
// the end of what it printed, of another one the beginning of the result.
func outputOf(result json.RawMessage) (code *int64, output string) {
	if len(result) == 0 || string(result) == "null" || len(result) > maxReadableResult {
		return nil, ""
	}
	var r struct {
		ExitCode json.RawMessage `json:"exit_code"`
		Stdout   json.RawMessage `json:"stdout"`
		Stderr   json.RawMessage `json:"stderr"`
	}
	if json.Unmarshal(result, &r) == nil {
		var n int64
		if string(r.ExitCode) != "null" && json.Unmarshal(r.ExitCode, &n) == nil { // what is no whole number is none
			code = &n
		}
		for _, printed := range []json.RawMessage{r.Stderr, r.Stdout} {
			var text string
			if json.Unmarshal(printed, &text) == nil && text != "" {
				return code, texts.Tail(text, MaxAttemptText)
			}
		}
	}
	return code, texts.Bound(string(result), MaxAttemptText)
}
