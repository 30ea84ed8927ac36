package core_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// step is one transition of a machine, as the invariants see it.
type step struct {
	before, after core.State
	event         core.Event
	clock         core.Clock
	effs          []effects.Effect
}

func (s step) emits() int {
	n := 0
	for _, e := range s.effs {
		if emit, ok := e.(effects.Emit); ok && emit.Event.Kind.Action != "dispatched" && emit.Event.Kind.Action != "retry" { // of an action: who made it and its attempts, not its end
			n++
		}
	}
	return n
}

// sends lists the events of type E that the step sends.
func sends[E core.Event](s step) []E {
	var out []E
	for _, e := range s.effs {
		if send, ok := e.(effects.Send); ok {
			if ev, ok := send.Event.(E); ok {
				out = append(out, ev)
			}
		}
	}
	return out
}

// created lists the actions that the step makes, with or without dedup key.
func (s step) created() []core.ActionSpec {
	var specs []core.ActionSpec
	for _, e := range sends[core.ActionCreate](s) {
		specs = append(specs, e.Spec)
	}
	for _, e := range sends[core.DedupClaim](s) {
		specs = append(specs, e.Create)
	}
	return specs
}

// invariant is one sentence of a state's doc comment and what it means. The
// check gives "" where it holds.
type invariant struct {
	sentence string
	check    func(step) string
}

// on makes an invariant of one machine's typed check.
func on[S core.State](sentence string, check func(s step, before, after S) string) invariant {
	return invariant{sentence, func(s step) string { return check(s, s.before.(S), s.after.(S)) }}
}

// unless gives "" where it holds, otherwise the message.
func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// invariants of each machine, in the words and the order of its doc comment.
// TestTheInvariantsAreThoseOfTheDocComments holds that neither has one more.
var invariants = map[effects.Kind][]invariant{
	core.KindAction: {
		on("Only a pending action has a deadline, and it is retry_at while it waits for its next attempt, else its trigger's key time.", func(_ step, _, a core.Action) string {
			want := a.RetryAt
			if a.Status.Type == core.StatusPending && want.IsZero() {
				want = a.Trigger.KeyTime()
			}
			return unless(a.Deadline() == want, "deadline %s of a %s action, want %s", a.Deadline(), a.Status.Type, want)
		}),
		on("Run never decreases, and grows by one with each entry into running, which alone emits [effects.RunTool], carrying the new Run.", func(s step, b, a core.Action) string {
			if !exists(a) {
				return ""
			}
			enters := a.Status.Type == core.StatusRunning && b.Status.Type != core.StatusRunning
			want := b.Run
			var effs []effects.Effect
			if enters {
				want++
				effs = append(effs, effects.RunTool{Run: want, Tool: a.ToolName})
			}
			runs := slices.DeleteFunc(slices.Clone(s.effs), func(e effects.Effect) bool { _, ok := e.(effects.RunTool); return !ok })
			return unless(a.Run == want && slices.Equal(runs, effs), "run %d → %d with %v, want %d with %v", b.Run, a.Run, runs, want, effs)
		}),
		on("Attempt is at most Policy.MaxAttempts, and at least 1 while running.", func(_ step, _, a core.Action) string {
			least := uint32(0)
			if a.Status.Type == core.StatusRunning {
				least = 1
			}
			return unless(a.Attempt >= least && a.Attempt <= a.Policy.MaxAttempts, "attempt %d of %d while %s", a.Attempt, a.Policy.MaxAttempts, a.Status.Type)
		}),
		on("It begins to wait for its next attempt only with a failure that is not permanent, under on_failure retry and with attempts left; no longer than its policy's max_ms.", func(s step, b, a core.Action) string {
			fail, failed := s.event.(core.ActionFail)
			failed = failed && refusal(s.effs) == nil
			waits := failed && !fail.Permanent && b.Policy.OnFailure == core.FailureRetry && b.Attempt < b.Policy.MaxAttempts && !noRetry(b.Policy, fail.Reason) && b.Cancelling == ""
			if begins := !a.RetryAt.IsZero() && (failed || a.RetryAt != b.RetryAt); begins != waits {
				return fmt.Sprintf("waits until %s after %s, want %t", a.RetryAt, s.event.EventType(), waits)
			}
			if !waits {
				return ""
			}
			most := int64(60 * 60 * 1000)
			if b.Policy.Backoff != nil && b.Policy.Backoff.MaxMS > 0 {
				most = b.Policy.Backoff.MaxMS
			}
			wait, now := int64(a.RetryAt-s.clock.Now), s.clock.Now
			edge := now < effects.MinTime || int64(now) > int64(effects.MaxTime)-most // where all times end
			ok := wait >= 0 && wait <= most && wait >= min(fail.RetryAfterMS, most)
			return unless((ok || edge) && a.Status.Type == core.StatusPending, "waits for %d ms while %s", wait, a.Status.Type)
		}),
		on("Attempts are the last ones of the present cycle that did not succeed, in order, at most [MaxAttemptsKept], and none of an action that is never tried again.", func(s step, b, a core.Action) string {
			if !exists(b) || !exists(a) {
				return ""
			}
			want := b.Attempts
			fail, failed := s.event.(core.ActionFail)
			_, interrupted := s.event.(core.ActionInterrupt)
			cause := core.CauseFailed
			switch {
			case interrupted:
				cause = core.CauseInterrupted
			case fail.TimedOut:
				cause = core.CauseTimedOut
			}
			repeats := a.Policy.OnFailure == core.FailureRetry || a.Policy.OnInterrupt == core.InterruptRetry
			if (failed || interrupted) && refusal(s.effs) == nil && repeats && b.Cancelling == "" {
				n := core.Attempt{Number: b.Attempt, Cause: cause, StartedAt: b.StartedAt, FinishedAt: s.clock.Now}
				want = append(slices.Clone(want), n)
				want = want[max(0, len(want)-core.MaxAttemptsKept):]
			}
			got := a.Attempts
			if a.Cycle > b.Cycle {
				got = a.LastRun.Attempts
				if len(a.Attempts) > 0 {
					return fmt.Sprintf("the new cycle has the attempts %v", a.Attempts)
				}
			}
			if len(got) != len(want) {
				return fmt.Sprintf("%v, want %v", got, want)
			}
			for i, g := range got {
				if len(g.Reason) > core.MaxAttemptText || len(g.Output) > core.MaxAttemptText {
					return fmt.Sprintf("attempt %d has %d and %d bytes of text", g.Number, len(g.Reason), len(g.Output))
				}
				g.ExitCode, g.Output, g.Reason = nil, "", ""
				w := want[i]
				w.ExitCode, w.Output, w.Reason = nil, "", ""
				if g != w {
					return fmt.Sprintf("attempt %+v, want %+v", g, w)
				}
			}
			return ""
		}),
		on("An answer (complete, fail, interrupt, hand_back) changes something only while running, and only where it carries the current Run.", func(s step, b, _ core.Action) string {
			var run uint32
			switch e := s.event.(type) {
			case core.ActionComplete:
				run = e.Run
			case core.ActionFail:
				run = e.Run
			case core.ActionInterrupt:
				run = e.Run
			case core.ActionHandBack:
				run = e.Run
			default:
				return ""
			}
			current := b.Status.Type == core.StatusRunning && b.Run == run
			return unless(current == (refusal(s.effs) == nil), "%s of run %d taken is %t in run %d while %s", s.event.EventType(), run, !current, b.Run, b.Status.Type)
		}),
		on("Cancelling is set only while running, with one [effects.Stop] of the present run: from then on each answer to that run ends the action as cancelled, for that reason.", func(s step, b, a core.Action) string {
			if a.Cancelling != "" && a.Status.Type != core.StatusRunning {
				return fmt.Sprintf("%s with %q", a.Status.Type, a.Cancelling)
			}
			var want []effects.Effect
			if a.Cancelling != b.Cancelling && a.Cancelling != "" {
				want = append(want, effects.Stop{N: a.Run})
			}
			stops := slices.DeleteFunc(slices.Clone(s.effs), func(e effects.Effect) bool { _, ok := e.(effects.Stop); return !ok })
			if !slices.Equal(stops, want) {
				return fmt.Sprintf("%q → %q with %v", b.Cancelling, a.Cancelling, stops)
			}
			if _, cancel := s.event.(core.ActionCancel); cancel || b.Cancelling == "" || refusal(s.effs) != nil {
				return ""
			}
			is := a.Status.Type == core.StatusCancelled && a.Status.Reason == b.Cancelling && len(a.Status.Result) == 0
			return unless(is, "%q → %+v after %s", b.Cancelling, a.Status, s.event.EventType())
		}),
		on("A terminal status is never left, but for expire.", func(s step, b, a core.Action) string {
			if _, ok := s.event.(core.ActionExpire); ok || !b.Status.Type.Terminal() {
				return ""
			}
			return unless(encoded(a) == encoded(b), "%s → %s", encoded(b), encoded(a))
		}),
		on("The end is told once to the bus, to the occurrence and to the dedup key: with the entry into a terminal status.", func(s step, b, a core.Action) string {
			ends := a.Status.Type.Terminal() && !b.Status.Type.Terminal()
			settles, releases := 0, 0
			if ends && a.Occurrence != uuid.Nil {
				settles = 1
			}
			if ends && a.DedupKey != "" {
				releases = 1
			}
			if b.Ledger != nil && b.Ledger.Entry != uuid.Nil && (a.Ledger == nil || a.Ledger.Entry == uuid.Nil) {
				settles++ // the entry of a cycle
			}
			cycled := a.Cycle > b.Cycle && exists(b)
			told := s.emits() == 1
			return unless(told == (ends || cycled) && len(sends[core.OccurrenceSettle](s)) == settles && len(sends[core.DedupRelease](s)) == releases,
				"%s → %s with %v", b.Status.Type, a.Status.Type, s.effs)
		}),
		on("Each cycle of a recurring action is recorded with its first run and settled with its end, both once.", func(s step, b, a core.Action) string {
			var began, ended uuid.UUID
			for _, r := range sends[core.OccurrenceRecord](s) {
				if r.Occurrence.Verdict == core.VerdictDispatched {
					began = r.Occurrence.ID
				}
			}
			for _, e := range s.effs {
				if send, ok := e.(effects.Send); ok && send.To.ID != a.Occurrence {
					if _, settles := send.Event.(core.OccurrenceSettle); settles {
						ended = send.To.ID
					}
				}
			}
			entry := func(a core.Action) uuid.UUID {
				if a.Ledger == nil {
					return uuid.Nil
				}
				return a.Ledger.Entry
			}
			var wantBegan, wantEnded uuid.UUID
			if !b.Recurrence.IsZero() && a.Run > b.Run && b.Attempt == 0 && entry(b) == uuid.Nil {
				wantBegan = entry(a)
			}
			if over := a.Cycle > b.Cycle || a.Status.Type.Terminal(); exists(b) && exists(a) && over {
				wantEnded = entry(b)
			}
			return unless(began == wantBegan && ended == wantEnded && (wantBegan == uuid.Nil) == (entry(a) == entry(b) || entry(a) == uuid.Nil),
				"began %s, want %s; ended %s, want %s; entry %s → %s", began, wantBegan, ended, wantEnded, entry(b), entry(a))
		}),
		on("Once created, of the spec only the trigger's time changes: with a trigger before it, and with a cycle.", func(s step, b, a core.Action) string {
			if !exists(b) || !exists(a) {
				return ""
			}
			if _, ok := s.event.(core.ActionTrigger); ok && b.Trigger.KeyTime().After(s.clock.Now) || a.Cycle > b.Cycle {
				a.Trigger = b.Trigger
			}
			was, is := string(b.ActionSpec.AppendJSON(nil)), string(a.ActionSpec.AppendJSON(nil))
			return unless(was == is, "%s → %s", was, is)
		}),
		on("The time that a recurring action stands for, resume_at or else its key time, never goes back, and each cycle that was not triggered moves it on.", func(_ step, b, a core.Action) string {
			if !exists(b) || !exists(a) || a.Recurrence.IsZero() {
				return ""
			}
			was, is := standsFor(b), standsFor(a)
			moved := a.Cycle == b.Cycle || !b.ResumeAt.IsZero() || was < is
			return unless(was <= is && moved, "%s → %s", was, is)
		}),
	},
	core.KindRecurring: recurringInvariants,
	core.KindOccurrence: {
		on("The verdict is written once, but for one that waits, and for a dispatch that turns out to be deduplicated or refused.", func(_ step, b, a core.Occurrence) string {
			changed := exists(b) && exists(a) && a.Verdict != b.Verdict
			dispatched := b.Verdict == core.VerdictDispatched && b.Outcome == "" && a.Verdict != core.VerdictWaiting
			return unless(!changed || b.Verdict == core.VerdictWaiting || dispatched, "%s → %s", b.Verdict, a.Verdict)
		}),
		on("The outcome is written once, and only to a dispatched one.", func(_ step, b, a core.Occurrence) string {
			changed := exists(b) && exists(a) && a.Outcome != b.Outcome
			return unless(!changed || b.Outcome == "" && b.Verdict == core.VerdictDispatched, "%s: %q → %q", b.Verdict, b.Outcome, a.Outcome)
		}),
		on("One that waits, and a dispatched one without outcome, never expires, nor does one of the latest of its schedule.", func(_ step, b, a core.Occurrence) string {
			open := b.Verdict == core.VerdictDispatched && b.Outcome == "" || b.Verdict == core.VerdictWaiting
			return unless(!exists(b) || exists(a) || !open && !b.Latest, "gone")
		}),
		on("It says nothing to others.", func(s step, _, _ core.Occurrence) string {
			return unless(len(s.effs) == 0 || refusal(s.effs) != nil, "%v", s.effs)
		}),
	},
	core.KindDedup: {
		on("A key has at most one holder, and never changes it.", func(_ step, b, a core.Dedup) string {
			return unless(!exists(b) || !exists(a) || a == b, "%v → %v", b, a)
		}),
		on("Only the holder's release frees it.", func(s step, b, a core.Dedup) string {
			r, _ := s.event.(core.DedupRelease)
			return unless(!exists(b) || exists(a) || r.Holder == b.Holder, "%s freed by %s", b.Holder, r.Holder)
		}),
		on("An action is made exactly with the step from free to held, and it is the holder; where it cannot be made, the [Batch] undoes the step.", func(s step, b, a core.Dedup) string {
			made := s.created()
			took := !exists(b) && exists(a)
			if took && len(made) == 1 {
				action, effs := core.Action{}.Apply(core.ActionCreate{Spec: made[0]}, s.clock)
				return unless(refusal(effs) == nil && action.ID == a.Holder, "%v", effs)
			}
			return unless(!took && len(made) == 0, "%v → %v made %v", b, a, made)
		}),
		on("A held key stands in the list of its holder, and in no other.", func(_ step, _, a core.Dedup) string {
			var want []effects.Term
			if exists(a) {
				want = []effects.Term{{Name: core.HolderTerm(a.Holder), At: a.Since}}
			}
			return unless(slices.Equal(a.Terms(), want), "%v", a.Terms())
		}),
	},
}

// noRetry reports whether a policy says that no attempt follows a reason.
func noRetry(p core.RunPolicy, reason string) bool {
	return p.Backoff != nil && slices.ContainsFunc(p.Backoff.NoRetry, func(pattern string) bool {
		return core.MatchPattern(pattern, strings.ToValidUTF8(reason, "\uFFFD"))
	})
}

// standsFor gives the time of the schedule at which a recurring action is.
func standsFor(a core.Action) core.Time {
	if !a.ResumeAt.IsZero() {
		return a.ResumeAt
	}
	return a.Trigger.KeyTime()
}
