package page

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
)

// policyFacts show what becomes of a run of a tool that fails or is interrupted.
func policyFacts(p core.RunPolicy) []fact {
	var attempts cell // none where the policy has no run tried again: the action has one attempt then, whatever bound the policy names
	if p.OnFailure == core.FailureRetry || p.OnInterrupt == core.InterruptRetry {
		attempts = count(uint64(p.MaxAttempts))
	}
	return facts(
		fact{"After a failure", textOf(string(cmp.Or(p.OnFailure, core.FailureFail)))}, fact{"After an interruption", textOf(string(p.OnInterrupt))}, fact{"Attempts at most", attempts},
		fact{"Time limit of a run", millis(p.TimeoutMS)}, fact{"Wait before another attempt", backoffCell(p.Backoff)},
	)
}

// backoffCell shows how long is waited before another attempt.
func backoffCell(b *core.Backoff) (c cell) {
	if b == nil {
		return cell{}
	}
	line := func(text string, v cell) {
		if v.Text != "" {
			c.Lines = append(c.Lines, text+" "+v.Text)
		}
	}
	line("at first", millis(b.InitialMS))
	if b.FactorPercent > 0 {
		c.Lines = append(c.Lines, "each "+strconv.FormatUint(uint64(b.FactorPercent), 10)+" % of the one before")
	}
	line("at most", millis(b.MaxMS))
	if b.JitterPercent > 0 {
		c.Lines = append(c.Lines, "shorter by up to "+strconv.FormatUint(uint64(b.JitterPercent), 10)+" %")
	}
	if len(b.NoRetry) > 0 {
		c.Lines = append(c.Lines, "none after "+clip(strings.Join(b.NoRetry, ", "), 300))
	}
	return c
}

// scheduleFacts show what recurring actions and jobs have alike: when their times come, and what becomes of those that pass.
func (q *visit) scheduleFacts(o core.ScheduleOptions) []fact {
	return facts(
		fact{"Missed policy", textOf(string(o.Missed))}, fact{"Caught up within", ofSeconds(o.CatchUpSeconds)}, fact{"Caught up at most", count(uint64(o.CatchUpLimit))},
		fact{"Between those caught up", ofSeconds(o.CatchUpSpacingSeconds)}, fact{"Times that wait at most", count(uint64(o.BufferLimit))}, fact{"Each waits at most", ofSeconds(o.MaxWaitSeconds)},
		fact{"Clock changes", textOf(string(o.DST))}, fact{"Days match", textOf(string(o.DayMatch))}, fact{"Later by up to", ofSeconds(o.JitterSeconds)},
		fact{"Starts", q.at(o.StartsAt)}, fact{"At most", count(o.MaxExecutions)}, fact{"Calendars", textOf(strings.Join(o.Calendars, ", "))}, fact{"Alerts", textOf(strings.Join(o.Alerts.Words(), ", "))},
	)
}

// count shows a number; nothing if it is 0.
func count(n uint64) cell {
	if n == 0 {
		return cell{}
	}
	return number(n)
}

// ofSeconds shows a length in seconds; nothing if there is none.
func ofSeconds(n int64) cell { return millis(n * int64(time.Second/time.Millisecond)) }
