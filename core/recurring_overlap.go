package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// applyOverlap dispatches a time, or lets the overlap policy decide; startWaiting must follow. entry
// is the number of its entry if it has waited, else 0.
func (t *recurringTransition) applyOverlap(at Time, entry uint64) {
	policy := t.Overlap.Plain()
	stops := policy == OverlapCancelOther || policy == OverlapTerminateOther // the last of the transition alone begins
	if policy == OverlapAllow || !stops && !t.busy() {
		t.start(at, entry)
		return
	}
	waits := t.buffered()
	switch policy {
	case OverlapAllow, OverlapForbid, OverlapReplace: // above, and by their plain names
	case OverlapSkip:
		t.giveVerdict(at, entry, VerdictSkipped, fmt.Sprintf("overlap is %q, and %s", t.Overlap, t.holdsUp()))
	case OverlapBufferOne:
		if len(waits) > 0 {
			t.giveVerdict(at, entry, VerdictSkipped, fmt.Sprintf("buffer full: overlap is %q, and the time %s waits already", t.Overlap, waits[0].DueAt))
			return
		}
		t.waitForRunning(at, entry)
	case OverlapBufferAll:
		if most := t.bufferLimit(); len(waits) >= most {
			t.giveVerdict(at, entry, VerdictSkipped, fmt.Sprintf("buffer full: overlap is %q, and buffer_limit lets %d wait", t.Overlap, most))
			return
		}
		t.waitForRunning(at, entry)
	case OverlapCancelOther, OverlapTerminateOther:
		for _, w := range waits {
			t.endWaiting(w, VerdictCancelled, fmt.Sprintf("overlap is %q, and the time %s took its place", t.Overlap, at))
		}
		t.stopRunning(at)
		t.waitForRunning(at, entry)
	}
}

// live reports whether a dispatch counts for the overlap of the schedule's times: those of
// backfills hold up none.
func (n RunningTime) live() bool { return n.For.IsZero() }

// busy reports whether what earlier times started has not ended.
func (t *recurringTransition) busy() bool { return slices.ContainsFunc(t.Running, RunningTime.live) }

// holdsUp names what has not ended.
func (t *recurringTransition) holdsUp() string {
	i := slices.IndexFunc(t.Running, RunningTime.live)
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("action %s of %s has not ended", t.Running[i].Action, t.Running[i].DueAt)
}

// buffered lists the times that wait for what runs to end.
func (t *recurringTransition) buffered() []WaitingTime {
	return slices.DeleteFunc(slices.Clone(t.Waiting), func(w WaitingTime) bool { return !w.NotBefore.IsZero() })
}

// stopRunning cancels what earlier times started, since another one is to begin.
func (t *recurringTransition) stopRunning(at Time) {
	mode := CancelAwait
	if t.Overlap.Plain() == OverlapTerminateOther {
		mode = CancelKill
	}
	t.Running = slices.Clone(t.Running)
	for i, n := range t.Running {
		if n.live() && (!n.Stopping || mode == CancelKill) {
			t.Running[i].Stopping = true
			t.send(effects.Ref{Kind: KindAction, ID: n.Action}, ActionCancel{Reason: fmt.Sprintf("overlap is %q, and the time %s begins", t.Overlap, at), Mode: mode})
		}
	}
}

// start dispatches a time of the schedule.
func (t *recurringTransition) start(at Time, entry uint64) {
	if entry == 0 && t.MaxExecutions > 0 { // one that has waited was counted then
		t.Executions++
	}
	t.dispatch(dispatching{at: at, entry: entry, payload: t.ActionTemplate.Payload})
}

// waitForRunning lets a time wait until what runs has ended.
func (t *recurringTransition) waitForRunning(at Time, entry uint64) {
	if entry == 0 {
		t.beginWaiting(at, 0)
		return
	}
	t.Waiting = append(slices.Clip(t.Waiting), WaitingTime{N: entry, DueAt: at, Since: t.clock.Now})
}

// beginWaiting records a time that waits, until then or until what runs has ended.
func (t *recurringTransition) beginWaiting(at, notBefore Time) {
	if len(t.Waiting) >= MaxWaiting {
		t.passOne(VerdictSkipped, at, fmt.Sprintf("buffer full: %d times wait already", len(t.Waiting)))
		return
	}
	t.record(Occurrence{DueAt: at, LastDueAt: at, Verdict: VerdictWaiting, Count: 1})
	if t.MaxExecutions > 0 {
		t.Executions++
	}
	t.Waiting = append(slices.Clip(t.Waiting), WaitingTime{N: t.Sequence, DueAt: at, Since: t.clock.Now, NotBefore: notBefore})
}

// giveVerdict gives a time that is not dispatched its verdict: one that waits, or one that has just come.
func (t *recurringTransition) giveVerdict(at Time, entry uint64, v Verdict, reason string) {
	if entry == 0 {
		t.passOne(v, at, reason)
		return
	}
	if t.MaxExecutions > 0 && t.Executions > 0 {
		t.Executions--
	}
	t.count(v, 1)
	t.updateEntry(entry, v, reason, uuid.Nil)
	t.tellPassed(passedTimes{Verdict: v, First: at, Last: at, Count: 1, Reason: reason})
}

// endWaiting ends the waiting of a time that is not dispatched.
func (t *recurringTransition) endWaiting(w WaitingTime, v Verdict, reason string) {
	t.stopWaiting(w)
	t.giveVerdict(w.DueAt, w.N, v, reason)
}

// stopWaiting takes a time out of those that wait.
func (t *recurringTransition) stopWaiting(w WaitingTime) {
	t.Waiting = slices.DeleteFunc(slices.Clone(t.Waiting), func(o WaitingTime) bool { return o.N == w.N })
	t.Waiting = nilIfEmpty(t.Waiting, len(t.Waiting))
}

// cancelWaiting cancels all times that wait.
func (t *recurringTransition) cancelWaiting(reason string) {
	waiting := t.Waiting
	t.Waiting = nil // at once: there may be many
	for _, w := range waiting {
		t.giveVerdict(w.DueAt, w.N, VerdictCancelled, "it waited, and "+reason)
	}
}

// cancelOne cancels one time that waits.
func (t *recurringTransition) cancelOne(e RecurringCancelWaiting) {
	for _, w := range t.Waiting {
		if t.entryID(w.N) == e.Occurrence {
			t.UpdatedAt = t.clock.Now
			t.endWaiting(w, VerdictCancelled, boundedReason(e.Reason, "cancelled by hand"))
			return
		}
	}
	t.conflict("occurrence %s does not wait", e.Occurrence)
}

// expireWaiting ends the waiting of the times that have waited too long.
func (t *recurringTransition) expireWaiting() {
	for _, w := range t.Waiting {
		if at := t.expiresAt(w); !at.IsZero() && !at.After(t.clock.Now) {
			t.endWaiting(w, VerdictExpired, fmt.Sprintf("its turn did not come within max_wait_seconds, %d", t.MaxWaitSeconds))
		}
	}
}

// expiresAt is when a time has waited too long; zero: never. The wait of one that is caught up
// later begins with its turn.
func (r RecurringAction) expiresAt(w WaitingTime) Time {
	if r.MaxWaitSeconds == 0 {
		return 0
	}
	return laterMS(max(w.Since, w.NotBefore), r.MaxWaitSeconds*1000)
}

// waitingDeadline is when a time that waits may go on, or has waited too long.
func (r RecurringAction) waitingDeadline() (at Time) {
	for _, w := range r.Waiting {
		at = earliest(at, earliest(w.NotBefore, r.expiresAt(w)))
	}
	return at
}

// startWaiting dispatches the times that wait and whose turn has come, as far as the overlap policy
// lets them.
func (t *recurringTransition) startWaiting() {
	for _, w := range t.Waiting {
		if !w.NotBefore.IsZero() && !w.NotBefore.After(t.clock.Now) {
			t.stopWaiting(w)
			t.applyOverlap(w.DueAt, w.N)
		}
	}
	for !t.busy() {
		waits := t.buffered()
		if len(waits) == 0 {
			return
		}
		t.stopWaiting(waits[0])
		t.start(waits[0].DueAt, waits[0].N)
	}
}

// childEnded: what was dispatched has ended, or could not be made.
func (t *recurringTransition) childEnded(e ChildEnded) {
	i := t.runningOf(e)
	switch {
	case i < 0 && t.Overlap.Plain() == OverlapAllow && e.Outcome == ChildSucceeded && uint64(e.N) <= t.Sequence:
		t.LastSuccessAt = t.clock.Now // of one that was forgotten, see forgetOldest
		t.noteEnded(RunningTime{StartedAt: t.clock.Now, Action: e.Child.ID}, e)
		return
	case i < 0:
		t.conflict("recurring action %s does not wait for %s", t.ID, e.Child)
		return
	}
	n := t.Running[i]
	t.Running = without(t.Running, i)
	t.noteEnded(n, e)
	switch e.Outcome {
	case ChildRefused:
		t.undo(n, e)
	case ChildSucceeded:
		t.LastSuccessAt = t.clock.Now
		t.Durations = appendLast(t.Durations, MaxDurations, betweenMS(n.StartedAt, t.clock.Now))
	case ChildFailed, ChildCancelled:
	}
	t.tellBackfill(n, e)
	t.startWaiting()
}

// runningOf is the index of the dispatch that has ended, or -1. The action counts beside the
// number: a schedule that was deleted and made anew under its id begins again with the numbers.
func (t *recurringTransition) runningOf(e ChildEnded) int {
	return slices.IndexFunc(t.Running, func(n RunningTime) bool {
		return uint32(n.N) == e.N && (e.Child.Kind != KindAction || e.Child.ID == n.Action)
	})
}

// tellBackfill passes on how a dispatch has ended that a backfill waits for.
func (t *recurringTransition) tellBackfill(n RunningTime, e ChildEnded) {
	t.add(n.For.ended(ChildEnded{Child: e.Child, Outcome: e.Outcome, Reason: e.Reason, Limited: e.Limited})...)
}

// undo takes a dispatch of the schedule back whose action was refused. One by hand or of a backfill
// is undone by the [Batch], see Whole of [ActionCreate].
func (t *recurringTransition) undo(n RunningTime, e ChildEnded) {
	t.takeBack(n)
	if key := t.expandDedupKey(n.DueAt); key != "" && e.Child.Kind == KindAction {
		t.send(DedupRef(t.Namespace, t.Tenant, key), DedupRelease{Holder: n.Action})
	}
	p := passedTimes{Verdict: VerdictMissed, First: n.DueAt, Last: n.DueAt, Count: 1, Reason: "its action was refused: " + validText(e.Reason)}
	if e.Limited {
		p.Verdict, p.Reason = VerdictSkipped, "limit: "+validText(e.Reason)
	}
	t.count(p.Verdict, 1)
	t.updateEntry(n.N, p.Verdict, p.Reason, uuid.Nil)
	t.tellPassed(p)
	t.noteMissed(p)
}

// takeBack counts a dispatch no longer whose action was not made.
func (t *recurringTransition) takeBack(n RunningTime) {
	if t.ExecutionCount > 0 {
		t.ExecutionCount--
	}
	if t.LastExecutedAt == n.StartedAt && !slices.ContainsFunc(t.Running, func(o RunningTime) bool { return o.StartedAt == n.StartedAt }) {
		t.LastExecutedAt = n.Before
	}
	if !n.Manual && n.live() && t.MaxExecutions > 0 && t.Executions > 0 {
		t.Executions--
	}
}

// deduplicated takes a dispatch back whose dedup key is held.
func (t *recurringTransition) deduplicated(e RecurringDeduplicated) {
	i := slices.IndexFunc(t.Running, func(n RunningTime) bool { return uint32(n.N) == e.N })
	if i < 0 || t.ExecutionCount == 0 {
		t.conflict("recurring action %s has dispatched nothing under number %d", t.ID, e.N)
		return
	}
	n := t.Running[i]
	t.Running = without(t.Running, i)
	t.takeBack(n)
	t.count(VerdictDeduplicated, 1)
	t.tellBackfill(n, ChildEnded{Child: effects.Ref{Kind: KindAction, ID: n.Action}, Outcome: ChildRefused, Reason: "another action holds its dedup key"})
	t.startWaiting()
}
