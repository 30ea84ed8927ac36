package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// clockWasWrong: see [maxClockLead].
func (t *jobTransition) clockWasWrong() bool {
	return t.LastDueAt.After(t.clock.Now.Add(maxClockLead))
}

// decidedUntil is the time until which a schedule that begins has no say: now, or, if
// the clock went back, the latest time that has a verdict or is about to have one.
// Runs that wait for their times do not count: their times are ahead.
func (t *jobTransition) decidedUntil() Time {
	until := t.clock.Now
	if !t.clockWasWrong() {
		until = max(until, t.LastVerdictAt)
		for _, a := range t.Active {
			if !a.Manual && a.Stage == StageAsked {
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

// reschedule begins a new schedule, and marks the runs that wait for times which it
// does not have.
func (t *jobTransition) reschedule() error {
	until := t.decidedUntil()
	t.LastDueAt = min(t.LastDueAt, until)
	if err := t.scheduleNext(until); err != nil {
		return err
	}
	t.Active = slices.Clone(t.Active)
	for i, a := range t.Active {
		t.Active[i].Dropped = a.Stage == StageWaiting && !a.Manual && !t.isTime(a.ScheduledAt)
	}
	return nil
}

// scheduleNext computes the next time after those that are decided.
func (t *jobTransition) scheduleNext(decided Time) error {
	s, err := t.schedule()
	if err != nil {
		return err
	}
	t.compiled, t.NextRunAt = s, 0
	if s == nil || t.Paused || t.exhausted() {
		return nil // an edit may give it more executions
	}
	next, ok := s.Next(max(decided, t.LastDueAt))
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
func (j Job) isTime(at Time) bool {
	s, err := j.schedule()
	if err != nil || s == nil {
		return false
	}
	return s.isDue(at) && s.leftOut(at) == ""
}

// inTime gives the last time from NextRunAt on that has come, if its run can still begin within
// the start deadline.
func (j Job) inTime(s *timetable, now Time) (at Time, ok bool) {
	for _, at := range s.last(j.NextRunAt, now, 1) {
		return at, betweenMS(s.firesAt(at), now) <= j.startDeadline()
	}
	return 0, false
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
	s, err := j.schedule()
	return err == nil && s != nil && s.leftOut(j.NextRunAt) != ""
}

// undecided counts the runs of the schedule that have no verdict yet.
func (j Job) undecided() uint64 {
	n := uint64(0)
	for _, a := range j.Active {
		if !a.Manual && (a.Stage == StageWaiting || a.Stage == StageAsked) {
			n++
		}
	}
	return n
}

// Upcoming gives the next times at which the job runs if nothing is changed meanwhile, at
// most n: those of the runs that wait for their time, and those of its schedule for which no
// run was made, each with its jitter. Of a paused job they are those at which it would run if
// it were resumed now. Times that are to be skipped are among them. It is empty for a job without a
// schedule, and for one whose schedule this build refuses.
func (j Job) Upcoming(now Time, n int) []Time {
	s, err := j.schedule()
	if err != nil || s == nil || n <= 0 {
		return nil
	}
	after := max(now, j.LastDueAt)
	if j.Paused && j.LastDueAt.After(now.Add(maxClockLead)) {
		after = now
	}
	var times []Time
	for _, a := range j.Active {
		if a.Stage == StageWaiting && !a.Manual && !a.Dropped && s.firesAt(a.ScheduledAt).After(now) {
			times = append(times, s.firesAt(a.ScheduledAt))
		}
	}
	slices.Sort(times)
	if j.MaxExecutions > 0 {
		n = int(min(uint64(n), j.MaxExecutions-min(j.Executions, j.MaxExecutions)))
	}
	times = times[:min(n, len(times))]
	for _, at := range s.upcoming(after, now, effects.MaxTime+1, n-len(times)) {
		times = append(times, s.firesAt(at))
	}
	return times
}

// makeScheduled makes the run of a time, unless an edit of the schedule has left one.
func (t *jobTransition) makeScheduled(s *timetable, due Time) {
	switch {
	case t.hasRunAt(due):
	case len(t.Active) >= MaxActiveRuns:
		t.recordVerdict(VerdictSkipped, ActiveRun{ScheduledAt: due}, fmt.Sprintf("%d runs have not ended", len(t.Active)))
	default:
		run := runOf(t.JobSpec, due, false)
		if at := s.firesAt(due); at != due {
			run.NotBefore = at
		}
		t.makeRun(run)
	}
}

func (j Job) hasRunAt(at Time) bool {
	return slices.ContainsFunc(j.Active, func(a ActiveRun) bool { return a.ScheduledAt == at })
}

// missOverdue records the times that have come, and for which no run was made, when
// the job is paused, deleted or gets another schedule: none will be.
func (t *jobTransition) missOverdue(reason string, absences []Absence) {
	if t.overdueSince(t.clock.Now).IsZero() {
		return
	}
	s, err := t.schedule()
	if err != nil || s == nil {
		return // the job has no times
	}
	t.leaveOut(s, t.NextRunAt, t.clock.Now)
	t.miss(s, t.NextRunAt, t.clock.Now, lateReason(t.clock, reason, reason, absences))
	t.LastDueAt = max(t.LastDueAt, t.clock.Now)
}

// overdueSince is the first time that has come, and for which no run was made; zero: none has.
func (j Job) overdueSince(now Time) Time {
	if j.Paused {
		return 0
	}
	return overdueIf(j.NextRunAt, now)
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

// pass records times that pass without a run.
func (t *jobTransition) pass(v Verdict, p passedTimes) {
	t.record(Occurrence{DueAt: p.First, LastDueAt: p.Last, Verdict: v, Count: p.Count, CountCapped: p.Capped, Reason: p.Reason})
}
