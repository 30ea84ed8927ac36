package core

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// formerRecurring is a recurring action under the rules before [ledgerRules]: what an earlier build
// decided replays as it decided it. Nothing here changes any more.
type formerRecurring struct{ RecurringAction }

// applyFormer carries out one transition under those rules.
func (r RecurringAction) applyFormer(e RecurringEvent, c Clock) (RecurringAction, []effects.Effect) {
	after, effs := formerRecurring{r}.apply(e, c)
	return after.RecurringAction, effs
}

func (r formerRecurring) apply(e RecurringEvent, c Clock) (formerRecurring, []effects.Effect) {
	if create, ok := e.(RecurringCreate); ok {
		return r.create(create, c)
	}
	if r.ID == uuid.Nil {
		return r, refused(r.Ref(), e, effects.CodeNotFound, "recurring action not found")
	}
	switch e := e.(type) {
	case RecurringDue:
		return r.due(e, c)
	case RecurringUpdate:
		return r.update(e, c)
	case RecurringPause:
		return r.pause(e, c)
	case RecurringResume:
		return r.resume(e, c)
	case RecurringTrigger:
		return r.trigger(c)
	case RecurringDelete:
		r, effs := r.overdue("deleted before it was dispatched", e.Absences, c)
		return formerRecurring{}, append(effs, r.announce("deleted"))
	case RecurringDeduplicated:
		return r.deduplicated(e)
	case RecurringCreate, RecurringSkipNext, RecurringCancelWaiting, ChildEnded, BackfillTime:
	}
	return r, refused(r.Ref(), e, effects.CodeInvalid, "a recurring action takes no event %q", e.EventType())
}

// create: (absent) → enabled or disabled.
func (r formerRecurring) create(e RecurringCreate, c Clock) (formerRecurring, []effects.Effect) {
	if r.ID != uuid.Nil {
		return r, refused(r.Ref(), e, effects.CodeExists, "id: recurring action %s exists already", r.ID)
	}
	spec := e.Spec.withDefaults()
	n := formerRecurring{RecurringAction{RecurringSpec: spec, CreatedAt: c.Now, UpdatedAt: c.Now}}
	n, err := n.scheduled(c)
	if err != nil {
		return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
	}
	if !n.Enabled {
		n.DisabledReason = "created disabled"
	}
	return n, []effects.Effect{n.announce("created")}
}

// scheduled validates the definition and computes its next time from now.
func (r formerRecurring) scheduled(c Clock) (formerRecurring, error) {
	if err := r.validate(c); err != nil {
		return r, err
	}
	s, err := r.timetable(r.CreatedAt)
	if err != nil {
		return r, err
	}
	if err := r.checkExecutions(); err != nil {
		return r, err
	}
	next, ok := s.Next(max(c.Now, r.LastDueAt))
	if !ok {
		return r, fmt.Errorf("cron_expr: %q never fires after %s", clip(r.CronExpr), c.Now)
	}
	r.compiled = s
	r.NextExecutionAt = 0
	if r.Enabled {
		r.NextExecutionAt = next
		r.DisabledReason = ""
	}
	return r, nil
}

// due: one occurrence, or the end.
func (r formerRecurring) due(e RecurringDue, c Clock) (formerRecurring, []effects.Effect) {
	at := r.Deadline()
	switch {
	case at.IsZero():
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s is disabled", r.ID)
	case at.After(c.Now):
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s is due at %s, after %s", r.ID, at, c.Now)
	}
	r.UpdatedAt = c.Now
	if r.ended(c.Now) {
		return r.expire(e, c)
	}
	if r.exhausted() {
		return r.disable(exhaustedReason(r.Executions)), []effects.Effect{r.announce("expired")}
	}
	s, err := r.schedule()
	if err != nil { // stored by a build that took this expression
		return r.disable("cron_expr: " + err.Error()), []effects.Effect{r.announce("no_next")}
	}
	r, effs := r.occur(s, e, c)
	next, ok := s.Next(r.LastDueAt)
	if !ok {
		r = r.disable(fmt.Sprintf("cron_expr %q has no occurrence after %s", clip(r.CronExpr), c.Now))
		return r, append(effs, r.announce("no_next"))
	}
	r.NextExecutionAt = next
	return r, effs
}

// trigger: an occurrence outside of the schedule, which stays as it is.
func (r formerRecurring) trigger(c Clock) (formerRecurring, []effects.Effect) {
	return r.dispatch(c.Now, true, c)
}

// deduplicated takes the last dispatch back, which was none.
func (r formerRecurring) deduplicated(e RecurringDeduplicated) (formerRecurring, []effects.Effect) {
	if r.ExecutionCount == 0 {
		return r, refused(r.Ref(), e, effects.CodeConflict, "recurring action %s has dispatched nothing", r.ID)
	}
	r.ExecutionCount--
	r.LastExecutedAt = e.LastExecutedAt
	r.DeduplicatedCount = saturatingAdd(r.DeduplicatedCount, 1)
	if !e.Manual && r.Executions > 0 {
		r.Executions--
	}
	return r, nil
}

// pause: enabled → disabled. A disabled one stays as it is, but for a new reason.
func (r formerRecurring) pause(e RecurringPause, c Clock) (formerRecurring, []effects.Effect) {
	if !r.Enabled && e.Reason == "" {
		return r, []effects.Effect{r.announce("paused")}
	}
	reason := "paused"
	if e.By != "" {
		reason += " by " + reasonOr(e.By, "")
	}
	if e.Reason != "" {
		reason += ": " + reasonOr(e.Reason, "")
	}
	r, effs := r.overdue("paused before it was dispatched", e.Absences, c)
	r.UpdatedAt = c.Now
	return r.disable(reason), append(effs, r.announce("paused"))
}

// resume: disabled → enabled, with the next time computed from now (R18). An
// enabled one stays as it is.
func (r formerRecurring) resume(e RecurringResume, c Clock) (formerRecurring, []effects.Effect) {
	if r.Enabled {
		return r, []effects.Effect{r.announce("resumed")}
	}
	n := r.fromNow(c)
	n.Enabled = true
	n.UpdatedAt = c.Now
	n, err := n.scheduled(c)
	if err != nil {
		return r, refused(r.Ref(), e, effects.CodeConflict, "cannot resume: %s", err)
	}
	return n, []effects.Effect{n.announce("resumed")}
}

// fromNow lets a definition that a wrong clock has led years ahead start again
// when somebody resumes or edits it, instead of staying silent for years.
func (r formerRecurring) fromNow(c Clock) formerRecurring {
	if r.LastDueAt.After(c.Now.Add(maxClockLead)) {
		r.LastDueAt = c.Now
	}
	return r
}

// update changes the given fields; a changed time, zone or state is scheduled
// from now (R18).
func (r formerRecurring) update(e RecurringUpdate, c Clock) (formerRecurring, []effects.Effect) {
	n := r
	n.RecurringSpec = e.Patch.apply(r.RecurringSpec)
	if n.MaxExecutions == 0 {
		n.Executions = 0
	}
	n.UpdatedAt = c.Now
	var effs []effects.Effect
	lifted := r.Enabled && r.ended(c.Now) && n.EndsAt != r.EndsAt // what the end held back must not be due now
	if n.CronExpr != r.CronExpr || n.Timezone != r.Timezone || n.Enabled != r.Enabled || !n.sameTimes(r.ScheduleOptions) || lifted {
		var was formerRecurring
		was, effs = r.overdue("the schedule was changed before it was dispatched", e.Absences, c)
		n.MissedCount, n.SkippedCount, n.Sequence, n.LastDueAt = was.MissedCount, was.SkippedCount, was.Sequence, was.LastDueAt
		var err error
		if n, err = n.fromNow(c).scheduled(c); err != nil {
			return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
		}
	} else if err := n.validatePatched(r, c); err != nil {
		return r, refused(r.Ref(), e, effects.CodeInvalid, "%s", err)
	} else if n.EndsAt != r.EndsAt {
		n.RecurringAction = n.withCompiled()
	}
	if r.Enabled && !n.Enabled {
		n.DisabledReason = "disabled by an update"
	}
	return n, append(effs, n.announce("updated"))
}

// validatePatched checks a definition whose schedule stays; an end that was
// reached meanwhile does not stand in the way of another change.
func (r formerRecurring) validatePatched(before formerRecurring, c Clock) error {
	if r.EndsAt == before.EndsAt {
		r.EndsAt = 0
	}
	return errors.Join(r.validate(c), r.checkExecutions())
}

// expire: the end is reached (C6). A time that was due before the end and not
// dispatched by then is missed.
func (r formerRecurring) expire(e RecurringDue, c Clock) (formerRecurring, []effects.Effect) {
	r, effs := r.overdue("ends_at was reached before it was dispatched", e.Absences, c)
	r = r.disable(fmt.Sprintf("ends_at %s was reached", r.EndsAt))
	return r, append(effs, r.announce("expired"))
}

func (r formerRecurring) disable(reason string) formerRecurring {
	r.Enabled = false
	r.NextExecutionAt = 0
	r.DisabledReason = reason
	return r
}

// occur decides the times from NextExecutionAt on that have come: the last one is dispatched
// unless it is later than the start deadline, or its action was refused; those that the schedule
// leaves out are skipped, all others are missed (C5).
func (r formerRecurring) occur(s *timetable, e RecurringDue, c Clock) (formerRecurring, []effects.Effect) {
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
func (r formerRecurring) inTime(s *timetable, from, to, now Time) (at Time, ok bool) {
	for _, at := range s.last(from, to, 1) {
		return at, !s.firesAt(at).Before(now.Add(-r.startDeadline()))
	}
	return 0, false
}

// overdue records the times that have come, before the end, and were not yet
// dispatched when the definition is paused, changed or deleted, or ends: they
// will not be.
func (r formerRecurring) overdue(reason string, absences []Absence, c Clock) (formerRecurring, []effects.Effect) {
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

// miss records the times in [from, to], which pass without a dispatch, as one
// occurrence for each of the reasons.
func (r formerRecurring) miss(s *timetable, from, to Time, why missReason, c Clock) (formerRecurring, []effects.Effect) {
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
func (r formerRecurring) leaveOut(s *timetable, from, to Time, c Clock) (formerRecurring, []effects.Effect) {
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
func (r formerRecurring) pass(v Verdict, p passedTimes, c Clock) (formerRecurring, []effects.Effect) {
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
func (r formerRecurring) dispatch(due Time, manual bool, c Clock) (formerRecurring, []effects.Effect) {
	r.Sequence++
	before := r.LastExecutedAt
	r.LastExecutedAt, r.UpdatedAt = c.Now, c.Now
	r.ExecutionCount = saturatingAdd(r.ExecutionCount, 1)
	occurrence := ChildID(r.ID, "occurrence", c.Step, r.Sequence)
	spec := r.actionAt(due, r.ActionTemplate.Payload)
	spec.ID, spec.Occurrence = ChildID(r.ID, "action", c.Step, r.Sequence), occurrence
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
