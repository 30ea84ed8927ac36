package core

import (
	"fmt"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// occur decides the times from NextExecutionAt to now: the last one is
// dispatched unless it is later than the start deadline, or its action was
// refused; all others are missed (C5).
func (r RecurringAction) occur(s *schedule.Schedule, refusal string, c Clock) (RecurringAction, []effects.Effect) {
	first := r.NextExecutionAt
	earliest := c.Now.Add(-r.startDeadline())
	last, found := lastWithin(s, max(first, earliest), c.Now)
	until := c.Now
	if found {
		until = last - 1
	}
	r, effs := r.miss(s, first, until, fmt.Sprintf("not dispatched within the start deadline of %s", r.startDeadline()), c)
	r.LastDueAt = c.Now
	if !found {
		return r, append(effs, r.announce("missed"))
	}
	var decided []effects.Effect
	if refusal == "" {
		r, decided = r.dispatch(last, false, c)
		return r, append(effs, decided...)
	}
	r, decided = r.miss(s, last, last, "its action was refused: "+validText(refusal), c)
	return r, append(append(effs, decided...), r.announce("missed"))
}

// lastWithin gives the last time of s in [from, to]. The span is at most a
// start deadline long, and a schedule has at most one time a second.
func lastWithin(s *schedule.Schedule, from, to Time) (last Time, found bool) {
	for t := range s.Due(from-1, to) {
		last, found = t, true
	}
	return last, found
}

// Upcoming gives the next times at which the definition fires if nothing is changed
// meanwhile, at most n: those of its schedule that are not decided, before its end. Of a
// disabled one they are those at which it would fire if it were resumed now. It is empty
// for a schedule that this build refuses.
func (r RecurringAction) Upcoming(now Time, n int) []Time {
	s, err := r.schedule()
	if err != nil {
		return nil
	}
	if !r.Enabled {
		r = r.fromNow(Clock{Now: now})
	}
	until := effects.MaxTime
	if !r.EndsAt.IsZero() {
		until = r.EndsAt - 1
	}
	times, _ := s.Between(max(now, r.LastDueAt), until, n)
	return times
}

// overdue records the times that have come, before the end, and were not yet
// dispatched when the definition is paused, changed or deleted, or ends: they
// will not be.
func (r RecurringAction) overdue(reason string, c Clock) (RecurringAction, []effects.Effect) {
	until := c.Now
	if r.ended(c.Now) {
		until = r.EndsAt - 1
	}
	if !r.Enabled || r.NextExecutionAt.IsZero() || r.NextExecutionAt.After(until) {
		return r, nil
	}
	s, err := r.schedule()
	if err != nil {
		return r, nil // it has no times
	}
	r, effs := r.miss(s, r.NextExecutionAt, until, reason, c)
	r.LastDueAt = max(r.LastDueAt, until)
	return r, effs
}

// miss records the times in [from, to], which pass without a dispatch, as one
// occurrence.
func (r RecurringAction) miss(s *schedule.Schedule, from, to Time, reason string, c Clock) (RecurringAction, []effects.Effect) {
	n, last, capped := uint64(0), Time(0), false
	for t := range s.Due(from-1, to) {
		if capped = n == MaxMissedCounted; capped {
			last = to // not a time of the schedule, but none after it was missed
			break
		}
		n, last = n+1, t
	}
	if n == 0 {
		return r, nil
	}
	r.MissedCount = saturatingAdd(r.MissedCount, n)
	r.Sequence++
	id := ChildID(r.ID, "occurrence", c.Step, r.Sequence)
	return r, []effects.Effect{effects.Send{
		To: effects.Ref{Kind: KindOccurrence, ID: id},
		Event: OccurrenceRecord{Occurrence{
			ID: id, RecurringID: r.ID, DueAt: from, LastDueAt: last, DecidedAt: c.Now,
			Verdict: VerdictMissed, Count: n, CountCapped: capped, Reason: reason,
		}},
	}}
}

// dispatch makes the action of one time, by way of its dedup key where it has
// one (C3, C4).
func (r RecurringAction) dispatch(due Time, manual bool, c Clock) (RecurringAction, []effects.Effect) {
	r.Sequence++
	before := r.LastExecutedAt
	r.LastExecutedAt, r.UpdatedAt = c.Now, c.Now
	r.ExecutionCount = saturatingAdd(r.ExecutionCount, 1)
	occurrence := ChildID(r.ID, "occurrence", c.Step, r.Sequence)
	spec := r.actionAt(due, c)
	spec.Occurrence = occurrence
	record := Occurrence{
		ID: occurrence, RecurringID: r.ID, DueAt: due, LastDueAt: due, DecidedAt: c.Now,
		Verdict: VerdictDispatched, Count: 1, Manual: manual, ActionID: spec.ID,
	}
	create := effects.Send{To: effects.Ref{Kind: KindAction, ID: spec.ID}, Event: ActionCreate{Spec: spec}}
	if spec.DedupKey != "" {
		create = effects.Send{To: DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey), Event: DedupClaim{Create: spec, LastExecutedAt: before}}
	}
	return r, []effects.Effect{
		effects.Send{To: effects.Ref{Kind: KindOccurrence, ID: occurrence}, Event: OccurrenceRecord{record}},
		create,
	}
}

// actionAt builds the concrete action of one time from the template.
func (r RecurringAction) actionAt(due Time, c Clock) ActionSpec {
	t := r.ActionTemplate
	label := r.Description
	if label == "" {
		label = t.ActionType
	}
	return ActionSpec{
		ID:         ChildID(r.ID, "action", c.Step, r.Sequence),
		Namespace:  r.Namespace,
		Tenant:     r.Tenant,
		Label:      label,
		ToolName:   t.Provider,
		ActionType: t.ActionType,
		ToolInput:  t.Payload,
		Trigger:    Scheduled(due),
		Policy:     r.Policy,
		DedupKey:   r.expandDedupKey(due),
		Metadata:   marked(t.Metadata, r.ID),
		Labels:     r.Labels,
	}
}
