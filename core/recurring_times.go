package core

import (
	"fmt"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// occur decides the times from NextExecutionAt to now: the last one is
// dispatched unless it is later than the start deadline, or its action was
// refused; all others are missed (C5).
func (r RecurringAction) occur(s *schedule.Schedule, e RecurringDue, c Clock) (RecurringAction, []effects.Effect) {
	first := r.NextExecutionAt
	earliest := c.Now.Add(-r.startDeadline())
	last, found := lastWithin(s, max(first, earliest), c.Now)
	until := c.Now
	if found {
		until = last - 1
	}
	why := lateReason(c,
		fmt.Sprintf("of the times that passed only the latest is dispatched, and only within the start deadline of %s", r.startDeadline()),
		fmt.Sprintf("not dispatched within the start deadline of %s", r.startDeadline()), e.Absences)
	r, effs := r.miss(s, first, until, why, c)
	r.LastDueAt = c.Now
	switch {
	case found && e.Refusal == "":
		var decided []effects.Effect
		r, decided = r.dispatch(last, false, c)
		return r, append(effs, decided...)
	case found:
		var decided []effects.Effect
		r, decided = r.miss(s, last, last, missReason{fixed: "its action was refused: " + validText(e.Refusal)}, c)
		effs = append(effs, decided...)
	}
	if c.Rules.before(absenceRules) {
		effs = append(effs, r.announce("missed"))
	}
	return r, effs
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
func (r RecurringAction) overdue(reason string, absences []Absence, c Clock) (RecurringAction, []effects.Effect) {
	if r.overdueSince(c.Now).IsZero() {
		return r, nil
	}
	until := r.overdueUntil(c.Now)
	s, err := r.schedule()
	if err != nil {
		return r, nil // it has no times
	}
	r, effs := r.miss(s, r.NextExecutionAt, until, lateReason(c, reason, reason, absences), c)
	r.LastDueAt = max(r.LastDueAt, until)
	return r, effs
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
	if !r.Enabled {
		return 0
	}
	return overdueIf(r.NextExecutionAt, r.overdueUntil(now))
}

// miss records the times in [from, to], which pass without a dispatch, as one
// occurrence for each of the reasons.
func (r RecurringAction) miss(s *schedule.Schedule, from, to Time, why missReason, c Clock) (RecurringAction, []effects.Effect) {
	var effs []effects.Effect
	for i, m := range why.missed(s, from, to, func(Time) bool { return false }) {
		if i == 0 {
			m.First = from
		}
		r.MissedCount = saturatingAdd(r.MissedCount, m.Count)
		r.Sequence++
		id := ChildID(r.ID, "occurrence", c.Step, r.Sequence)
		effs = append(effs, effects.Send{
			To: effects.Ref{Kind: KindOccurrence, ID: id},
			Event: OccurrenceRecord{Occurrence{
				ID: id, RecurringID: r.ID, DueAt: m.First, LastDueAt: m.Last, DecidedAt: c.Now,
				Verdict: VerdictMissed, Count: m.Count, CountCapped: m.Capped, Reason: m.Reason,
			}},
		})
		if !c.Rules.before(absenceRules) {
			effs = append(effs, announcement("recurring", "recurring", "missed", r.ID, announcementData(struct {
				DueAt  Time   `json:"due_at"`
				Until  Time   `json:"until"`
				Count  uint64 `json:"count"`
				Reason string `json:"reason"`
			}{m.First, m.Last, m.Count, m.Reason})))
		}
	}
	return r, effs
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
