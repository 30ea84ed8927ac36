package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// pause: enabled → paused.
func (t *jobTransition) pause(e JobPause) {
	switch {
	case t.Paused:
		t.conflict("job %s is paused already: %s", clip(t.ID), t.PausedReason)
		return
	case !e.Until.IsZero() && t.invalid(t.checkUntil(e.Until)):
		return
	}
	t.missOverdue("paused before it was dispatched", e.Absences)
	from := t.NextRunAt
	t.PausedBy, t.PausedUntil = firstText(e.By), e.Until
	t.stopFor(boundedReason(e.Reason, t.pausedBy()))
	if t.before10() {
		t.announce("paused", nil)
		return
	}
	t.cancelWaiting(t.pausedText())
	t.PausedFrom = t.firstPaused(max(from, t.LastDueAt+1))
	t.announce("paused", nil)
	t.fillSlots() // a run by hand may have waited behind those that do not wait any more
}

func (t *jobTransition) checkUntil(until Time) error {
	if err := checkTime("until", until); err != nil {
		return err
	}
	if !until.After(t.clock.Now) {
		return fmt.Errorf("until: %s is not in the future; it is %s", until, t.clock.Now)
	}
	return nil
}

// stopFor: → paused.
func (t *jobTransition) stopFor(reason string) {
	t.Paused, t.PausedReason, t.NextRunAt, t.UpdatedAt = true, reason, 0, t.clock.Now
}

// firstPaused is the first time from an instant on that passes because of the pause; zero: none
// does.
func (t *jobTransition) firstPaused(from Time) Time {
	s, err := t.times()
	if err != nil || s == nil || t.exhausted() {
		return 0
	}
	next, _ := s.Next(from - 1)
	return next
}

// pausedAt reports whether a time that has come is one of the pause. The end of the pause and a run
// of that instant are due together, and the run may be first.
func (t *jobTransition) pausedAt(at Time) bool {
	over := !t.PausedUntil.IsZero() && !t.PausedUntil.After(min(at, t.clock.Now))
	return t.Paused && !over
}

// pausedBy says that the job is paused, and by whom.
func (j Job) pausedBy() string {
	if j.PausedBy == "" {
		return "paused"
	}
	return firstText("paused by " + j.PausedBy)
}

// pausedText is the reason of the times that pass while the job is paused.
func (j Job) pausedText() string {
	by := j.pausedBy()
	if j.PausedReason == "" || j.PausedReason == by {
		return by
	}
	return firstText(by + ": " + j.PausedReason)
}

// recordPaused records the times until an instant that have passed because of the pause, those of
// runs that were made before it included.
func (t *jobTransition) recordPaused(to Time) {
	if !t.Paused || t.before10() {
		return
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		if a.Stage != StageWaiting || !a.scheduled() || a.begins().After(to) {
			continue
		}
		verdict, why := VerdictSkipped, t.pausedText()
		if a.Dropped && !t.before11() {
			verdict, why = t.dropped(a)
		}
		t.denyRun(i, verdict, why)
	}
	from := t.PausedFrom
	if from.IsZero() || from.After(to) {
		return
	}
	s, err := t.times()
	if err != nil || s == nil {
		return // it has no times
	}
	t.passAll(s, from, to, VerdictSkipped, missReason{fixed: t.pausedText()}, never)
	t.LastDueAt, t.PausedFrom = max(t.LastDueAt, to), t.firstPaused(to+1)
}

// resume: paused → enabled.
func (t *jobTransition) resume() {
	if !t.Paused {
		t.refuse(effects.CodeConflict, "job %s is not paused", clip(t.ID))
		return
	}
	if t.exhausted() {
		t.refuse(effects.CodeConflict, "cannot resume: max_executions: %s: give more, or 0", exhaustedReason(t.Executions))
		return
	}
	t.recordPaused(t.clock.Now)
	until := t.decidedUntil()
	t.enable()
	if err := t.scheduleNext(until); err != nil {
		t.refuse(effects.CodeConflict, "cannot resume: %s", err)
		return
	}
	t.announce("resumed", nil)
}

// enable: → enabled.
func (t *jobTransition) enable() {
	t.Paused, t.PausedReason, t.UpdatedAt = false, "", t.clock.Now
	t.PausedBy, t.PausedUntil, t.PausedFrom = "", 0, 0
	t.forgetWrongClock()
}

// resumeBySelf: paused → enabled: the pause has ended. A time at its end, or behind it, is one
// of the schedule again, also if that has passed by now.
func (t *jobTransition) resumeBySelf(s *timetable) {
	until, said := t.PausedUntil, announcementTexts("by", "the end of the pause", "reason", t.PausedReason)
	t.recordPaused(until - 1)
	decided := until - 1
	if !t.clockWasWrong() {
		decided = max(decided, t.LastDueAt)
	}
	t.enable()
	if next, ok := s.Next(decided); ok && !t.exhausted() {
		t.NextRunAt = next
	}
	t.announce("resumed", said)
}

// cancelWaiting cancels the runs of the schedule that wait for a slot: their times had come.
func (t *jobTransition) cancelWaiting(reason string) {
	if t.before10() {
		return
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		if a.Stage == StageAsked && a.scheduled() {
			t.denyRun(i, VerdictCancelled, reason)
		}
	}
}
