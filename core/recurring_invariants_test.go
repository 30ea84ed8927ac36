package core_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// recurringInvariants are those of a recurring action, in the words and the order of its doc comment.
var recurringInvariants = []invariant{
	on("A deadline exists while enabled, and then comes no later than EndsAt; while disabled only for the end of a pause, and for times that wait.", func(_ step, _, a core.RecurringAction) string {
		waits := slices.ContainsFunc(a.Waiting, func(w core.WaitingTime) bool { return !w.NotBefore.IsZero() || a.MaxWaitSeconds > 0 })
		ok := a.Deadline().IsZero() == (a.PausedUntil.IsZero() && !waits)
		if a.Enabled {
			ok = !a.Deadline().IsZero() && (a.EndsAt.IsZero() || a.Deadline() <= max(a.EndsAt, a.LastDueAt)) && a.PausedUntil.IsZero()
		}
		return unless(ok, "deadline %s, enabled %t, ends at %s", a.Deadline(), a.Enabled, a.EndsAt)
	}),
	on("No time of the schedule at or after EndsAt is decided: neither dispatched nor missed.", func(s step, b, _ core.RecurringAction) string {
		for _, o := range recordedBy(s.effs) {
			if !o.Manual && o.Backfill == uuid.Nil && !b.EndsAt.IsZero() && o.LastDueAt >= b.EndsAt {
				return fmt.Sprintf("%s of %s to %s, which ends at %s", o.Verdict, o.DueAt, o.LastDueAt, b.EndsAt)
			}
		}
		for _, e := range sends[core.OccurrenceExtend](s) {
			if !b.EndsAt.IsZero() && e.LastDueAt >= b.EndsAt {
				return fmt.Sprintf("one more at %s, which ends at %s", e.LastDueAt, b.EndsAt)
			}
		}
		return ""
	}),
	on("NextExecutionAt, with its jitter, is later than the clock reading of the transition that computed it: no edit, resume or outage makes a past instant due (R18, C5).", func(s step, b, a core.RecurringAction) string {
		ended := !b.EndsAt.IsZero() && b.EndsAt <= s.clock.Now && a.EndsAt != b.EndsAt // what it held back must not be due either
		if a.NextExecutionAt == b.NextExecutionAt && !ended || a.NextExecutionAt.IsZero() {
			return ""
		}
		a.Waiting, a.MaxExecutions = nil, 0 // which have deadlines of their own
		return unless(a.Deadline() > s.clock.Now, "%s computed at %s", a.NextExecutionAt, s.clock.Now)
	}),
	on("NextExecutionAt is later than LastDueAt: what was decided never becomes due again, even where the clock jumps back; where it had been ahead by more than 48 hours, until somebody resumes or edits the schedule.", func(s step, b, a core.RecurringAction) string {
		_, resumed := s.event.(core.RecurringResume)
		_, edited := s.event.(core.RecurringUpdate)
		grows := a.LastDueAt >= b.LastDueAt || (resumed || edited) && a.LastDueAt == s.clock.Now && b.LastDueAt > s.clock.Now.Add(48*time.Hour)
		ok := (a.NextExecutionAt.IsZero() || a.NextExecutionAt > a.LastDueAt) && (!exists(a) || grows)
		return unless(ok, "next %s, last %s → %s", a.NextExecutionAt, b.LastDueAt, a.LastDueAt)
	}),
	on("ExecutionCount + DeduplicatedCount grows by one with each action that is sent (R13), and shrinks by one with each that was refused.", func(s step, b, a core.RecurringAction) string {
		if !exists(a) {
			return unless(len(s.created()) == 0, "sent by one that is gone")
		}
		refused := uint64(0)
		if e, ok := s.event.(core.ChildEnded); ok && e.Outcome == core.ChildRefused && refusal(s.effs) == nil {
			refused = 1
		}
		was, is := b.ExecutionCount+b.DeduplicatedCount, a.ExecutionCount+a.DeduplicatedCount
		return unless(is+refused == was+uint64(len(s.created())), "%d → %d with %d sent", was, is, len(s.created()))
	}),
	on("What it records is numbered without a gap; the counts grow by what the entries stand for.", func(s step, b, a core.RecurringAction) string {
		if !exists(a) || refusal(s.effs) != nil {
			return ""
		}
		stands := map[core.Verdict]uint64{}
		for i, o := range recordedBy(s.effs) {
			stands[o.Verdict] += o.Count
			number := b.Sequence + uint64(i) + 1
			if o.Number != number || o.ID != core.ChildID(a.ID, "occurrence", a.Ledger.Epoch, number) || o.Count == 0 || !o.Latest {
				return fmt.Sprintf("occurrence %+v is not number %d", o, number)
			}
		}
		if n := b.Sequence + uint64(len(recordedBy(s.effs))); a.Sequence != n {
			return fmt.Sprintf("sequence %d, want %d", a.Sequence, n)
		}
		for _, e := range sends[core.OccurrenceDecide](s) {
			stands[e.Verdict]++
		}
		if _, ok := s.event.(core.RecurringDeduplicated); ok {
			stands[core.VerdictDeduplicated]++
		}
		extended := uint64(0)
		for _, e := range sends[core.OccurrenceExtend](s) {
			extended += e.Count
		}
		grown := map[core.Verdict]uint64{
			core.VerdictMissed: a.MissedCount - b.MissedCount, core.VerdictSkipped: a.SkippedCount - b.SkippedCount, core.VerdictCancelled: a.CancelledCount - b.CancelledCount,
			core.VerdictExpired: a.ExpiredCount - b.ExpiredCount, core.VerdictDeduplicated: a.DeduplicatedCount - b.DeduplicatedCount,
		}
		more := uint64(0)
		for v, n := range grown { // order-free: a sum
			if n < stands[v] {
				return fmt.Sprintf("%s grew by %d, and the entries stand for %d", v, n, stands[v])
			}
			more += n - stands[v]
		}
		return unless(more == extended, "the counts grew by %d more than the new entries stand for, the last entry by %d", more, extended)
	}),
	on("Every action that is sent is a valid one, and its end is waited for. It is due at once, but at its time if that has waited and the clock was set back meanwhile.", func(s step, b, a core.RecurringAction) string {
		for _, spec := range s.created() {
			if _, effs := (core.Action{}).Apply(core.ActionCreate{Spec: spec}, s.clock); refusal(effs) != nil {
				return refusal(effs).Reason
			}
			waited := slices.ContainsFunc(b.Waiting, func(w core.WaitingTime) bool { return w.DueAt == spec.Trigger.KeyTime() && w.DueAt <= w.Since })
			if spec.Trigger.KeyTime() > s.clock.Now && !waited {
				return fmt.Sprintf("due at %s", spec.Trigger.KeyTime())
			}
			waits := slices.ContainsFunc(a.Running, func(n core.RunningTime) bool { return n.Action == spec.ID && uint32(n.N) == spec.Owner.N })
			if spec.Owner.Ref != a.Ref() || !waits {
				return fmt.Sprintf("its end is told to %v, and what runs is %+v", spec.Owner, a.Running)
			}
		}
		return ""
	}),
	on("No time waits twice. Those that wait for what runs go on in the order in which they began to; with overlap buffer_one, cancel_other and terminate_other at most one of them does, with buffer_all as many as its limit, with skip and allow none.", func(_ step, b, a core.RecurringAction) string {
		was, is := buffered(b), buffered(a)
		most := map[core.OverlapPolicy]int{core.OverlapBufferOne: 1, core.OverlapCancelOther: 1, core.OverlapTerminateOther: 1, core.OverlapBufferAll: core.DefaultBufferLimit}
		if a.BufferLimit > 0 {
			most[core.OverlapBufferAll] = int(a.BufferLimit)
		}
		if len(is) > most[a.Overlap.Plain()] || len(a.Waiting) > core.MaxWaiting {
			return fmt.Sprintf("with %s %d wait", a.Overlap, len(is))
		}
		stay := slices.DeleteFunc(slices.Clone(was), func(n uint64) bool { return !slices.Contains(is, n) })
		if !slices.Equal(stay, is[:min(len(stay), len(is))]) {
			return fmt.Sprintf("%v → %v", was, is)
		}
		for i, w := range a.Waiting {
			if slices.ContainsFunc(a.Waiting[:i], func(o core.WaitingTime) bool { return o.N == w.N }) {
				return fmt.Sprintf("%s waits twice", w.DueAt)
			}
		}
		return ""
	}),
	on("With another overlap than allow no time is dispatched while what an earlier one started has not ended.", func(_ step, b, a core.RecurringAction) string {
		if a.Overlap.Plain() == core.OverlapAllow {
			return ""
		}
		live := slices.DeleteFunc(slices.Clone(a.Running), func(n core.RunningTime) bool { return !n.For.IsZero() })
		for _, n := range live {
			before := slices.ContainsFunc(b.Running, func(o core.RunningTime) bool { return o.N == n.N })
			if !before && !n.Manual && len(live) > 1 {
				return fmt.Sprintf("%s is one of %d", n.DueAt, len(live))
			}
		}
		return ""
	}),
	on("A disabled one says why (C6), and a pause without a reason of its own does not wipe that out.", func(s step, b, a core.RecurringAction) string {
		if p, ok := s.event.(core.RecurringPause); ok && exists(b) && !b.Enabled && p.Reason == "" && p.Until.IsZero() && a.DisabledReason != b.DisabledReason {
			return fmt.Sprintf("%q → %q", b.DisabledReason, a.DisabledReason)
		}
		return unless(!exists(a) || a.Enabled == (a.DisabledReason == ""), "enabled %t, reason %q", a.Enabled, a.DisabledReason)
	}),
}

// buffered lists the numbers of the times that wait for what runs to end.
func buffered(r core.RecurringAction) (n []uint64) {
	for _, w := range r.Waiting {
		if w.NotBefore.IsZero() {
			n = append(n, w.N)
		}
	}
	return n
}

// recurringOwner is a backfill that asks for a time.
var recurringOwner = core.Owner{Ref: effects.Ref{Kind: core.KindAction, ID: id(9)}, N: 1}
