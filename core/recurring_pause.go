package core

import (
	"errors"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

// pause: enabled → disabled. A disabled one stays as it is, but for a new reason or end.
func (t *recurringTransition) pause(e RecurringPause) {
	if !e.Until.IsZero() && !e.Until.After(t.clock.Now) {
		t.refuse(effects.CodeInvalid, "until: %s is not in the future; it is %s", e.Until, t.clock.Now)
		return
	}
	if !e.Until.IsZero() && t.invalid(checkTime("until", e.Until)) {
		return
	}
	if !t.Enabled && e.Reason == "" && e.Until.IsZero() {
		t.tell("paused")
		return
	}
	reason := "paused"
	if e.By != "" {
		reason += " by " + firstText(e.By)
	}
	if e.Reason != "" {
		reason += ": " + firstText(e.Reason)
	}
	t.recordUndecided("paused before it was dispatched", e.Absences)
	t.cancelWaiting("the schedule was paused")
	t.UpdatedAt = t.clock.Now
	t.disable(reason)
	t.PausedAt, t.PausedUntil = t.clock.Now, e.Until
	t.tell("paused")
}

// resume: disabled → enabled, with the next time computed from now (R18). An
// enabled one stays as it is.
func (t *recurringTransition) resume() {
	if t.Enabled {
		t.tell("resumed")
		return
	}
	t.recordPaused(t.clock.Now)
	t.LastDueAt = t.fromNow(t.clock.Now)
	t.Enabled, t.UpdatedAt = true, t.clock.Now
	if err := t.begin(); err != nil {
		t.conflict("cannot resume: %s", err)
		return
	}
	t.tell("resumed")
	t.startWaiting()
}

// recordUndecided records the times that have come and were not decided, as the schedule is about to
// change, to be paused or to end: they are missed for that reason, those of a pause skipped.
func (t *recurringTransition) recordUndecided(reason string, absences []Absence) {
	if !t.Enabled {
		t.recordPaused(t.clock.Now)
		return
	}
	first, until := t.overdueSince(t.clock.Now), t.overdueUntil(t.clock.Now)
	if first.IsZero() {
		return
	}
	s, err := t.schedule()
	if err != nil {
		return // it has no times
	}
	first = t.skipByHand(s, first, until)
	t.passAll(s, first, until, missReason{policy: reason, absences: absences, until: t.clock.Now})
	t.LastDueAt = max(t.LastDueAt, until)
}

func never(Time) bool { return false }

// recordPaused records the times up to an instant that came while somebody had disabled the schedule.
func (t *recurringTransition) recordPaused(until Time) {
	if t.PausedAt.IsZero() {
		return
	}
	from := max(t.PausedAt, t.LastDueAt) + 1
	t.PausedAt = 0
	if !t.EndsAt.IsZero() {
		until = min(until, t.EndsAt-1)
	}
	s, err := t.schedule()
	if err != nil || from > until {
		return
	}
	reason := t.DisabledReason
	if !strings.HasPrefix(reason, "paused") && !strings.Contains(reason, "disabled") {
		reason = "disabled: " + reason
	}
	for _, p := range s.passed(from, until, missReason{fixed: reason}, never) {
		p.Verdict = VerdictSkipped
		t.pass(p)
	}
	t.LastDueAt = max(t.LastDueAt, until)
}

// disable takes the definition out of the due index, until somebody enables it.
func (t *recurringTransition) disable(reason string) {
	t.Enabled = false
	t.NextExecutionAt = 0
	t.DisabledReason = reason
	t.PausedAt, t.PausedUntil = 0, 0
}

// update changes the given fields; a changed time, zone or state is scheduled
// from now (R18). What waits is cancelled if the times or the policies are others.
func (t *recurringTransition) update(e RecurringUpdate) {
	was, now := t.RecurringAction, t.clock.Now
	is := e.Patch.apply(was.RecurringSpec)
	if e.Patch.Calendars != nil && t.invalid(t.calendars.of(is.Calendars).missing()) {
		return
	}
	lifted := was.Enabled && was.ended(now) && is.EndsAt != was.EndsAt // what the end held back must not be due now
	times := is.CronExpr != was.CronExpr || is.Timezone != was.Timezone || is.Enabled != was.Enabled || !is.sameTimes(was.ScheduleOptions) || lifted
	if times {
		t.recordUndecided("the schedule was changed before it was dispatched", e.Absences)
	}
	if times || is.Overlap.Plain() != was.Overlap.Plain() || is.MaxExecutions != was.MaxExecutions || !is.samePolicies(was.ScheduleOptions) {
		t.cancelWaiting("the schedule was changed")
	}
	t.RecurringSpec, t.UpdatedAt = is, now
	if t.MaxExecutions == 0 {
		t.Executions = 0
	}
	if times {
		t.LastDueAt = t.fromNow(now)
		if t.invalid(t.begin()) {
			return
		}
	} else if t.invalid(t.validatePatched(was)) {
		return
	} else if is.EndsAt != was.EndsAt {
		t.RecurringAction = t.withCompiled()
	}
	if !t.Enabled && times {
		t.PausedAt = now
	}
	if was.Enabled && !t.Enabled {
		t.DisabledReason = updatedDisabled
	}
	t.add(calendarUses(t.scope(), was.Calendars, t.Calendars, t.calendars)...)
	t.tell("updated")
	t.answer(RecurringChanged{NextTimesBefore: was.Upcoming(now, NextTimesShown, t.calendars), NextTimes: t.Upcoming(now, NextTimesShown, t.calendars)})
	t.startWaiting()
}

// RecurringChanged answers a [RecurringUpdate]: the next times, see [RecurringAction.Upcoming], at
// most [NextTimesShown], as they were before and as they are now.
type RecurringChanged struct {
	NextTimesBefore []Time `json:"next_times_before"`
	NextTimes       []Time `json:"next_times"`
}

// AppendJSON appends it as JSON.
func (c RecurringChanged) AppendJSON(b []byte) []byte { return appendMarshaled(b, c) }

// validatePatched checks a definition whose schedule stays; an end that was
// reached meanwhile does not stand in the way of another change.
func (t *recurringTransition) validatePatched(before RecurringAction) error {
	r := t.RecurringAction
	if r.EndsAt == before.EndsAt {
		r.EndsAt = 0
	}
	return errors.Join(r.validate(t.clock), r.checkExecutions())
}

// stored: see [AppendEvent].
func (e RecurringTrigger) stored() Event {
	if len(e.Payload) == 0 {
		return RecurringTrigger{}
	}
	return RecurringTrigger{Payload: compacted(trimJSON(e.Payload))}
}

// PausedByHand reports whether somebody has paused it, and not its definition, which may say that it
// is disabled, nor its end.
func (r RecurringAction) PausedByHand() bool {
	return !r.Enabled && !r.PausedAt.IsZero() && strings.HasPrefix(r.DisabledReason, "paused")
}

// DisabledByDefinition reports whether its definition says that it is disabled.
func (r RecurringAction) DisabledByDefinition() bool {
	return !r.Enabled && (r.DisabledReason == createdDisabled || r.DisabledReason == updatedDisabled)
}

// Why a definition is not enabled that says so itself.
const (
	createdDisabled = "created disabled"
	updatedDisabled = "disabled by an update"
)
