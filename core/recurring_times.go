package core

import (
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// occur decides the times from NextExecutionAt on that have come: the last one is dispatched
// unless it is later than the start deadline, or its action was refused; those that the schedule
// leaves out are skipped, all others are missed (C5).
func (r RecurringAction) occur(s *timetable, e RecurringDue, c Clock) (RecurringAction, []effects.Effect) {
	first, until := r.NextExecutionAt, s.comeBy(r.NextExecutionAt, c.Now)
	r, effs := r.leaveOut(s, first, until, c)
	last, found := r.inTime(s, first, until, c.Now)
	missedUntil := until
	if found {
		missedUntil = last - 1
	}
	why := lateReason(c,
		fmt.Sprintf("of the times that passed only the latest is dispatched, and only within the start deadline of %s", r.startDeadline()),
		fmt.Sprintf("not dispatched within the start deadline of %s", r.startDeadline()), e.Absences)
	r, missed := r.miss(s, first, missedUntil, why, c)
	effs = append(effs, missed...)
	r.LastDueAt = max(r.LastDueAt, until)
	switch {
	case found && e.Refusal == "":
		if r.MaxExecutions > 0 {
			r.Executions++
		}
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

// inTime gives the last time in [from, to] if it can still be dispatched within its start
// deadline.
func (r RecurringAction) inTime(s *timetable, from, to, now Time) (at Time, ok bool) {
	for _, at := range s.last(from, to, 1) {
		return at, !s.firesAt(at).Before(now.Add(-r.startDeadline()))
	}
	return 0, false
}

// Upcoming gives the next times at which the definition fires if nothing is changed
// meanwhile, at most n: those of its schedule that are not decided, before its end and as many
// as it may dispatch, each with its jitter. Of a disabled one they are those at which it would
// fire if it were resumed now. It is empty for a schedule that this build refuses.
func (r RecurringAction) Upcoming(now Time, n int) []Time {
	s, err := r.schedule()
	if err != nil {
		return nil
	}
	if !r.Enabled {
		r = r.fromNow(Clock{Now: now})
		r.LastDueAt = max(r.LastDueAt, now) // what its jitter puts off was due before
	}
	if r.MaxExecutions > 0 {
		n = int(min(uint64(max(n, 0)), r.MaxExecutions-min(r.Executions, r.MaxExecutions)))
	}
	end := effects.MaxTime + 1
	if !r.EndsAt.IsZero() {
		end = r.EndsAt
	}
	times := s.upcoming(max(r.LastDueAt, r.NextExecutionAt-1), now, end, n)
	for i, at := range times {
		times[i] = s.firesAt(at)
	}
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
	first := r.NextExecutionAt
	r, effs := r.leaveOut(s, first, until, c)
	r, missed := r.miss(s, first, until, lateReason(c, reason, reason, absences), c)
	r.LastDueAt = max(r.LastDueAt, until)
	return r, append(effs, missed...)
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
func (r RecurringAction) miss(s *timetable, from, to Time, why missReason, c Clock) (RecurringAction, []effects.Effect) {
	var effs []effects.Effect
	for i, m := range why.missed(s, from, to, func(at Time) bool { return s.leftOut(at) != "" }) {
		if i == 0 && !s.leavesOut() {
			m.First = from
		}
		r.MissedCount = saturatingAdd(r.MissedCount, m.Count)
		var recorded []effects.Effect
		r, recorded = r.pass(VerdictMissed, m, c)
		effs = append(effs, recorded...)
	}
	return r, effs
}

// leaveOut records the times in [from, to] that the schedule leaves out.
func (r RecurringAction) leaveOut(s *timetable, from, to Time, c Clock) (RecurringAction, []effects.Effect) {
	var effs []effects.Effect
	for _, p := range s.allLeftOut(from, to) {
		r.SkippedCount = saturatingAdd(r.SkippedCount, p.Count)
		var recorded []effects.Effect
		r, recorded = r.pass(VerdictSkipped, p, c)
		effs = append(effs, recorded...)
	}
	return r, effs
}

// pass records times that pass without a dispatch, and announces them.
func (r RecurringAction) pass(v Verdict, p passedTimes, c Clock) (RecurringAction, []effects.Effect) {
	r.Sequence++
	id := ChildID(r.ID, "occurrence", c.Step, r.Sequence)
	effs := []effects.Effect{effects.Send{
		To: effects.Ref{Kind: KindOccurrence, ID: id},
		Event: OccurrenceRecord{Occurrence{
			ID: id, RecurringID: r.ID, DueAt: p.First, LastDueAt: p.Last, DecidedAt: c.Now,
			Verdict: v, Count: p.Count, CountCapped: p.Capped, Reason: p.Reason,
		}},
	}}
	if !c.Rules.before(absenceRules) {
		effs = append(effs, announcement("recurring", "recurring", string(v), r.ID, announcementData(struct {
			DueAt  Time   `json:"due_at"`
			Until  Time   `json:"until"`
			Count  uint64 `json:"count"`
			Reason string `json:"reason"`
		}{p.First, p.Last, p.Count, p.Reason})))
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
		create = effects.Send{To: DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey), Event: DedupClaim{Create: spec, LastExecutedAt: before, Manual: manual}}
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
