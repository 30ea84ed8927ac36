package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// Upcoming gives the next times at which the definition fires if nothing is changed
// meanwhile, at most n: those of its schedule that are not decided, before its end and as many
// as it may dispatch, each with its jitter. Of a disabled one they are those at which it would
// fire if it were resumed now, or at the end of its pause. What its calendars leave out is not
// among them, nor what is to be skipped by hand. It is empty for a schedule that this build refuses.
func (r RecurringAction) Upcoming(now Time, n int, calendars Calendars) []Time {
	s, err := r.schedule()
	if err != nil {
		return nil
	}
	s = s.with(calendars.of(r.Calendars))
	if !r.Enabled {
		r.LastDueAt = max(r.fromNow(now), now, r.PausedUntil-1) // what its jitter puts off was due before
	}
	n = max(n, 0)
	if r.MaxExecutions > 0 {
		n = int(min(uint64(n), r.MaxExecutions-min(r.Executions, r.MaxExecutions)))
	}
	skip := int(min(r.SkipNext, MaxSkipNext))
	end := effects.MaxTime + 1
	if !r.EndsAt.IsZero() {
		end = r.EndsAt
	}
	times := s.upcoming(max(r.LastDueAt, r.NextExecutionAt-1), now, end, n+skip)
	times = times[min(skip, len(times)):]
	for i, at := range times {
		times[i] = s.firesAt(at)
	}
	return times
}

// overdueUntil is the latest instant that may have times which were due.
func (r RecurringAction) overdueUntil(now Time) Time {
	if r.ended(now) {
		return r.EndsAt - 1
	}
	return now
}

// overdueSince is the first time that has come, before the end, and was not dispatched; zero:
// none has.
func (r RecurringAction) overdueSince(now Time) Time {
	if r.Enabled {
		now = r.overdueUntil(now)
	}
	return overdueIf(r.undecidedFrom(), now)
}

// actionAt builds the concrete action of one time from the template, with that payload. It has no
// id yet.
func (r RecurringAction) actionAt(due Time, payload json.RawMessage) ActionSpec {
	t := r.ActionTemplate
	return ActionSpec{
		Namespace:  r.Namespace,
		Tenant:     r.Tenant,
		Label:      r.Title(),
		ToolName:   t.Provider,
		ActionType: t.ActionType,
		ToolInput:  payload,
		Trigger:    Scheduled(due),
		Policy:     r.Policy,
		DedupKey:   r.expandDedupKey(due),
		Metadata:   marked(t.Metadata, r.ID),
		Labels:     r.Labels,
	}
}
