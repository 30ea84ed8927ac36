package core

// Ended reports whether no time of the schedule is to come, also if it were resumed: its end has come, it has dispatched as
// many times as it may, or its expression names no further time before that. One that is enabled has not ended: its due event decides.
func (r RecurringAction) Ended(now Time) bool {
	switch s, err := r.schedule(); {
	case r.Enabled || err != nil:
		return false
	case r.ended(now) || r.spent():
		return true
	default:
		next, more := s.Next(max(now, r.fromNow(now)))
		return !more || !r.EndsAt.IsZero() && !next.Before(r.EndsAt)
	}
}

// Ended reports whether the job has a schedule of which no time is to come, as for [RecurringAction.Ended]. It may have runs that wait or run.
func (j Job) Ended(now Time) bool {
	switch s, err := j.schedule(); {
	case err != nil || s == nil || !j.NextRunAt.IsZero():
		return false
	case j.exhausted() || !j.EndsAt.IsZero() && !j.EndsAt.After(now):
		return true
	default:
		_, more := s.Next(now) // before its end
		return !more
	}
}
