package core

import "slices"

// decidedRules are those since which a job knows what is decided ahead of its schedule, and an
// entry of its ledger stands for neighbours alone.
const decidedRules = 11

// before11 reports whether a build decided that knew nothing of [Job].Decided.
func (t *jobTransition) before11() bool { return t.clock.Rules.before(decidedRules) }

// removeRun takes a run out of the active ones.
func (t *jobTransition) removeRun(i int) {
	a := t.Active[i]
	t.Active = slices.Concat(t.Active[:i], t.Active[i+1:])
	if a.scheduled() {
		t.keepDecided(a.ScheduledAt)
	}
}

// keepDecided keeps a time of the schedule that has no run any more, if the schedule may come to
// it: a change of the schedule goes back behind the times of the runs that were made ahead.
func (t *jobTransition) keepDecided(at Time) {
	if !t.before11() && !slices.Contains(t.Decided, at) && t.mayCome(at) {
		t.Decided = appendLast(t.Decided, MaxActiveRuns, at)
	}
}

// mayCome reports whether a time is ahead of the clock, or of the schedule.
func (t *jobTransition) mayCome(at Time) bool {
	next := t.NextRunAt
	if t.Paused {
		next = t.PausedFrom
	}
	return at.After(t.clock.Now) || !next.IsZero() && !at.Before(next)
}

// forgetDecided forgets the times to which the schedule cannot come any more.
func (t *jobTransition) forgetDecided() {
	if len(t.Decided) == 0 {
		return
	}
	var kept []Time
	for _, at := range t.Decided {
		if !at.After(t.clock.Now) {
			t.LastVerdictAt = max(t.LastVerdictAt, at)
		}
		if t.mayCome(at) {
			kept = append(kept, at)
		}
	}
	t.Decided = kept
}

// isTaken reports whether a time has a run that has not ended, or a verdict although it is ahead of
// the schedule.
func (j Job) isTaken(at Time) bool { return j.hasRunAt(at) || slices.Contains(j.Decided, at) }

// neighbours reports whether times directly follow those of the last entry of the ledger: no other
// time lies between, decided or not, also if the schedule was changed meanwhile.
func (t *jobTransition) neighbours(l Ledger, o Occurrence) bool {
	if l.LikeUntil.IsZero() || t.LastVerdictAt.After(l.LikeUntil) {
		return false
	}
	between := func(at Time) bool { return at.After(l.LikeUntil) && at.Before(o.DueAt) }
	if slices.ContainsFunc(t.Decided, between) || slices.ContainsFunc(t.Active, func(a ActiveRun) bool { return between(a.ScheduledAt) }) {
		return false
	}
	s, err := t.times()
	if err != nil || s == nil {
		return false
	}
	next, ok := s.Next(l.LikeUntil)
	return ok && next == o.DueAt
}

// takenAfter counts the times after one that are taken.
func (j Job) takenAfter(after Time) (n int) {
	for _, a := range j.Active {
		if a.ScheduledAt.After(after) {
			n++
		}
	}
	for _, at := range j.Decided {
		if at.After(after) {
			n++
		}
	}
	return n
}
