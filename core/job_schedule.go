package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// clockWasWrong: see [maxClockLead].
func (t *jobTransition) clockWasWrong() bool {
	latest := t.LastDueAt
	if !t.before11() {
		latest = max(latest, t.LastVerdictAt)
	}
	return latest.After(t.clock.Now.Add(maxClockLead))
}

// forgetWrongClock lets what was decided by a clock that was wrong hold back no times.
func (t *jobTransition) forgetWrongClock() {
	if !t.clockWasWrong() {
		return
	}
	t.LastDueAt = min(t.LastDueAt, t.clock.Now)
	if !t.before11() {
		t.LastVerdictAt, t.Decided = min(t.LastVerdictAt, t.clock.Now), nil
	}
}

// decidedUntil is the time until which a schedule that begins has no say: now, or, if
// the clock went back, the latest time that has a verdict or is about to have one.
// Runs that wait for their times do not count: their times are ahead.
func (t *jobTransition) decidedUntil() Time {
	until := t.clock.Now
	if !t.clockWasWrong() {
		until = max(until, t.LastVerdictAt)
		for _, a := range t.Active {
			if a.scheduled() && a.Stage == StageAsked {
				until = max(until, a.ScheduledAt)
			}
		}
	}
	return until
}

// reschedules reports whether a configuration has other times than the one before it.
func (s JobSpec) reschedules(was JobSpec) bool {
	return s.Schedule != was.Schedule || s.Timezone != was.Timezone || s.EndsAt != was.EndsAt || !s.sameTimes(was.ScheduleOptions)
}

// schedule is the compiled schedule; nil if the job has none.
func (j Job) schedule() (*timetable, error) {
	if j.compiled != nil {
		return j.compiled, nil
	}
	return j.scheduleFrom(j.CreatedAt)
}

// times is the compiled schedule with the calendars as they are now; nil: the job has none.
func (t *jobTransition) times() (*timetable, error) {
	s, err := t.schedule()
	if err != nil || s == nil {
		return nil, err
	}
	t.compiled = s
	return s.with(t.named(t.calendars)), nil
}

// named gives those of the calendars that the job names.
func (j Job) named(calendars Calendars) calendarSet {
	if calendars == nil {
		return nil
	}
	return calendars.of(j.Calendars)
}

// useCalendars tells calendars which of them the job names now, and which it named before.
func (t *jobTransition) useCalendars(was, is []string) {
	t.add(calendarUses(t.scope(), was, is, t.calendars)...)
}

// reschedule begins a new schedule, and marks the runs that wait for times which it
// does not have.
func (t *jobTransition) reschedule() error {
	until := t.decidedUntil()
	t.forgetWrongClock()
	t.LastDueAt = min(t.LastDueAt, until)
	if err := t.scheduleNext(until); err != nil {
		return err
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		t.Active[i].Dropped = a.Stage == StageWaiting && a.scheduled() && !t.isTime(a.ScheduledAt)
	}
	return nil
}

// scheduleNext computes the next time after those that are decided.
func (t *jobTransition) scheduleNext(decided Time) error {
	s, err := t.times()
	if err != nil {
		return err
	}
	t.NextRunAt, t.PausedFrom = 0, 0
	if s == nil || t.exhausted() || t.Paused && t.before10() {
		return nil // an edit may give it more executions
	}
	next, ok := s.Next(max(decided, t.LastDueAt))
	if t.Paused { // none, if the schedule has ended meanwhile
		t.PausedFrom = next
		return nil
	}
	if !ok && !t.EndsAt.IsZero() && !t.EndsAt.After(t.clock.Now) {
		return fmt.Errorf("ends_at: %s is not in the future; it is %s", t.EndsAt, t.clock.Now)
	}
	if !ok {
		return fmt.Errorf("schedule: %q never fires after %s", clip(t.Schedule), decided)
	}
	t.NextRunAt = next
	return nil
}

// isTime reports whether it is a time of the schedule at which a run is made.
func (t *jobTransition) isTime(at Time) bool {
	s, err := t.times()
	if err != nil || s == nil {
		return false
	}
	return s.isDue(at) && s.leftOut(at) == ""
}

// exhausted reports whether the schedule has dispatched as many runs as it may.
func (j Job) exhausted() bool { return j.exhaustedBy(j.Executions) }

// perhapsNone reports whether it is not certain ahead of the next time that it gets a run: the
// schedule leaves it out, or the runs that were made before use up what it may dispatch.
func (j Job) perhapsNone() bool {
	if j.exhaustedBy(j.Executions + j.undecided()) {
		return true
	}
	if !j.ScheduleOptions.leavesOut() {
		return false
	}
	if len(j.Calendars) > 0 { // which may change until then
		return true
	}
	s, err := j.schedule()
	return err == nil && s != nil && s.leftOut(j.NextRunAt) != ""
}

// undecided counts the runs of the schedule that have no verdict yet.
func (j Job) undecided() uint64 {
	n := uint64(0)
	for _, a := range j.Active {
		if a.scheduled() && (a.Stage == StageWaiting || a.Stage == StageAsked) {
			n++
		}
	}
	return n
}

// Upcoming gives the next times at which the job runs if nothing is changed meanwhile, at
// most n: those of the runs that wait for their time, and those of its schedule for which no
// run was made, each with its jitter, and without those that the calendars leave out. Of a
// paused job they are those at which it would run if it were resumed now, or when its pause ends. Times
// that are to be skipped by hand are not among them. It is empty for a job without a schedule, and for one
// whose schedule this build refuses. A calendar that the job names, and that is not given, leaves
// out all times, as one does that is gone.
func (j Job) Upcoming(now Time, n int, calendars Calendars) []Time {
	s, err := j.schedule()
	if err != nil || s == nil || n <= 0 {
		return nil
	}
	s = s.with(calendars.of(j.Calendars))
	after := max(now, j.LastDueAt)
	if j.Paused && j.LastDueAt.After(now.Add(maxClockLead)) {
		after = now
	}
	if j.Paused {
		after = max(after, j.PausedUntil-1)
	}
	var times []Time
	skip := int(min(j.SkipNext, MaxSkipNext))
	for _, a := range j.Active {
		if a.Stage != StageWaiting || !a.scheduled() || a.Dropped {
			continue
		}
		begins := max(s.firesAt(a.ScheduledAt), a.NotBefore)
		switch {
		case begins.After(now) && !begins.Before(j.PausedUntil):
			times = append(times, begins)
		case !begins.After(now) && !j.Paused: // it is about to be skipped
			skip = max(skip-1, 0)
		}
	}
	if j.MaxExecutions > 0 {
		n = int(min(uint64(n), j.MaxExecutions-min(j.Executions, j.MaxExecutions)))
	}
	for _, at := range s.upcoming(after, max(now, j.PausedUntil-1), effects.MaxTime+1, n+skip+j.takenAfter(after)) {
		if !j.isTaken(at) {
			times = append(times, s.firesAt(at))
		}
	}
	slices.Sort(times)
	times = times[:min(n+skip, len(times))]
	return times[min(skip, len(times)):]
}

// NextTimes gives the next times at which the job runs, see [Job.Upcoming], at most
// [NextTimesShown], as they stand beside the job and in [JobApplied]; none, but never nil, of a job
// that is paused until somebody resumes it.
func (j Job) NextTimes(now Time, calendars Calendars) []Time {
	if j.Paused && j.PausedUntil.IsZero() {
		return []Time{}
	}
	return append([]Time{}, j.Upcoming(now, NextTimesShown, calendars)...)
}

// due decides about the next times: one that is ahead gets its run, and of those that have come
// the policies choose.
func (t *jobTransition) due(e JobDue) {
	if !t.isDue("job "+clip(t.ID), t.Deadline()) {
		return
	}
	s, err := t.times()
	if err != nil || s == nil { // stored by a build that took this schedule
		t.PausedUntil = 0
		t.stopFor(firstText(fmt.Sprintf("schedule: %q cannot be read: %v", t.Schedule, err)))
		t.announce("paused", nil)
		return
	}
	t.UpdatedAt = t.clock.Now
	if t.before10() {
		t.dueBefore10(s, e)
		return
	}
	if t.Paused {
		t.resumeBySelf(s)
	}
	switch at := t.Deadline(); {
	case at.IsZero() || at.After(t.clock.Now):
	case t.NextRunAt.After(t.clock.Now):
		t.makeScheduled(t.NextRunAt, s.firesAt(t.NextRunAt))
		t.nextAfter(s, t.NextRunAt)
	default:
		t.catchUp(s, e.Absences)
	}
}

// catchUp decides about all times that have come and have no run.
func (t *jobTransition) catchUp(s *timetable, absences []Absence) {
	now, deadline := t.clock.Now, t.startDeadline()
	from := t.skipByHand(s, t.NextRunAt, now)
	chosen := slices.DeleteFunc(t.chosen(s, from, now, now, deadline), t.isTaken)
	why := t.missReason(t.clock, absences, chosen, "gets a run", deadline)
	for _, at := range chosen { // no entry spans a time that gets a run
		t.passAll(s, from, at-1, VerdictMissed, why, never)
		from = at + 1
	}
	t.passAll(s, from, now, VerdictMissed, why, never)
	for i, at := range chosen {
		begins := s.firesAt(at)
		if betweenMS(begins, now) > deadline {
			begins = now
		}
		if t.CatchUpSpacingSeconds > 0 && t.catchesUp() {
			begins = max(begins, laterMS(now, int64(i)*t.CatchUpSpacingSeconds*1000))
		}
		t.makeScheduled(at, begins)
	}
	t.nextAfter(s, now)
}

// catchesUp reports whether times are dispatched that are later than the start deadline.
func (o ScheduleOptions) catchesUp() bool { return o.Missed == MissedLatest || o.Missed == MissedAll }

// nextAfter computes the next time once all until one are decided, or have a run.
func (t *jobTransition) nextAfter(s *timetable, due Time) {
	t.LastDueAt, t.NextRunAt = max(t.LastDueAt, due), 0
	if next, ok := s.Next(max(t.clock.Now, t.LastDueAt)); ok && !t.exhausted() {
		t.NextRunAt = next
	}
}

// skipByHand records as many of the times in [from, to] as somebody has asked to skip, but for
// those that runs are to take which wait for earlier times, and gives the instant behind them.
func (t *jobTransition) skipByHand(s *timetable, from, to Time) Time {
	left := int64(t.SkipNext)
	for _, a := range t.Active {
		if a.Stage == StageWaiting && a.scheduled() && !a.Dropped && a.ScheduledAt < from {
			left--
		}
	}
	last, skipped := from-1, uint32(0)
	for at := range s.Due(from-1, to) {
		if int64(skipped) >= left || skipped >= maxWalked {
			break
		}
		if !t.isTaken(at) && s.leftOut(at) == "" {
			last, skipped = at, skipped+1
		}
	}
	if skipped > 0 {
		t.passAll(s, from, last, VerdictSkipped, missReason{fixed: skippedByHand}, never)
		t.SkipNext -= skipped
	}
	return last + 1
}

// makeScheduled makes the run of a time, unless an edit of the schedule has left one.
func (t *jobTransition) makeScheduled(due, begins Time) {
	switch {
	case t.isTaken(due):
	case len(t.Active) >= MaxActiveRuns:
		t.recordVerdict(VerdictSkipped, ActiveRun{ScheduledAt: due}, fmt.Sprintf("%d runs have not ended", len(t.Active)))
		t.keepDecided(due)
	default:
		run := runOf(t.JobSpec, due, false)
		if begins != due {
			run.NotBefore = begins
		}
		t.makeRun(run, Owner{})
	}
}

func (j Job) hasRunAt(at Time) bool {
	return slices.ContainsFunc(j.Active, func(a ActiveRun) bool { return a.ScheduledAt == at })
}

// missOverdue records the times that have come, and for which no run was made, when
// the job is paused, deleted or gets another schedule: none will be.
func (t *jobTransition) missOverdue(reason string, absences []Absence) {
	if t.Paused || t.overdueSince(t.clock.Now).IsZero() { // of a paused one recordPaused records them
		return
	}
	s, err := t.times()
	if err != nil || s == nil {
		return // the job has no times
	}
	if t.before10() {
		t.leaveOut(s, t.NextRunAt, t.clock.Now)
		t.miss(s, t.NextRunAt, t.clock.Now, lateReason(t.clock, reason, reason, absences))
	} else {
		from := t.skipByHand(s, t.NextRunAt, t.clock.Now)
		t.passAll(s, from, t.clock.Now, VerdictMissed, lateReason(t.clock, reason, reason, absences), never)
	}
	t.LastDueAt = max(t.LastDueAt, t.clock.Now)
}

// overdueSince is the first time that has come, and for which no run was made; zero: none has.
func (j Job) overdueSince(now Time) Time { return overdueIf(j.undecidedFrom(), now) }
