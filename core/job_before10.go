package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// What builds before core.Version 10 decided, as their journals replay.

// dueBefore10 makes the run of the next time. Of the times that have passed, the last one
// gets a run unless it is too late; all others are missed.
func (t *jobTransition) dueBefore10(s *timetable, e JobDue) {
	now := t.clock.Now
	due, found := t.NextRunAt, true
	if !due.After(now) {
		due, found = t.inTime(s, now)
		until := now
		if found {
			until = due - 1
		}
		t.leaveOut(s, t.NextRunAt, now)
		t.miss(s, t.NextRunAt, until, t.lateReason(e.Absences))
	}
	if found {
		t.makeScheduled(due, s.firesAt(due))
	} else {
		due = now
	}
	t.nextAfter(s, due)
}

// inTime gives the last time from NextRunAt on that has come, if its run can still begin within
// the start deadline.
func (j Job) inTime(s *timetable, now Time) (at Time, ok bool) {
	for _, at := range s.last(j.NextRunAt, now, 1) {
		return at, betweenMS(s.firesAt(at), now) <= j.startDeadline()
	}
	return 0, false
}

// lateReason is why a time passes that is decided about too late.
func (t *jobTransition) lateReason(absences []Absence) missReason {
	deadline := lengthText(t.startDeadline())
	return lateReason(t.clock,
		"of the times that passed only the latest gets a run, and only within the start deadline of "+deadline,
		"no run was made within the start deadline of "+deadline, absences)
}

// miss records the times in [from, to] that have no run as one occurrence for each of the
// reasons. A run gets a verdict of its own.
func (t *jobTransition) miss(s *timetable, from, to Time, why missReason) {
	for _, m := range why.missed(s, from, to, func(at Time) bool { return t.hasRunAt(at) || s.leftOut(at) != "" }) {
		t.pass(VerdictMissed, m)
	}
}

// leaveOut records the times in [from, to] that the schedule leaves out.
func (t *jobTransition) leaveOut(s *timetable, from, to Time) {
	for _, p := range s.allLeftOut(from, to) {
		t.pass(VerdictSkipped, p)
	}
}

// denyBefore10 says why a run is skipped; empty: it is not. A run by hand is never skipped.
func (t *jobTransition) denyBefore10(a ActiveRun) string {
	switch {
	case a.Manual:
		return ""
	case a.Dropped:
		return droppedReason
	case t.exhausted():
		return exhaustedReason(t.Executions)
	case t.Paused:
		return "the job is paused: " + t.PausedReason
	case t.SkipNext > 0:
		t.SkipNext--
		return "skipNext"
	}
	if i := slices.IndexFunc(t.Active, ActiveRun.arrived); t.Overlap == OverlapForbid && i >= 0 {
		return fmt.Sprintf("overlap is %s, and run %s has not ended", OverlapForbid, t.Active[i].RunID)
	}
	return ""
}

// replaceOthersBefore10 cancels all runs whose time has come but one.
func (t *jobTransition) replaceOthersBefore10(a ActiveRun) {
	if t.Overlap != OverlapReplace {
		return
	}
	for _, other := range t.Active {
		if other.Run != a.Run && other.arrived() {
			t.cancelRun(other, "replaced by run "+a.RunID)
		}
	}
}

// recordBefore10 records an entry under an id of its own transition.
func (t *jobTransition) recordBefore10(o Occurrence) uuid.UUID {
	t.Sequence++
	o.ID, o.RecurringID, o.DecidedAt = ChildID(t.Key, "occurrence", t.clock.Step, t.Sequence), t.Key, t.clock.Now
	t.count(o)
	t.send(effects.Ref{Kind: KindOccurrence, ID: o.ID}, OccurrenceRecord{o})
	t.announceVerdict(o)
	return o.ID
}
