package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// due: the times that have come are decided, a pause is over, what waits goes on, or the end has
// come.
func (t *recurringTransition) due(e RecurringDue) {
	now := t.clock.Now
	switch at := t.Deadline(); {
	case at.IsZero():
		t.conflict("recurring action %s is disabled", t.ID)
		return
	case at.After(now):
		t.conflict("recurring action %s is due at %s, after %s", t.ID, at, now)
		return
	}
	t.UpdatedAt = now
	t.expireWaiting()
	if until := t.PausedUntil; !t.Enabled && !until.IsZero() && !until.After(now) {
		t.recordPaused(until - 1)
		t.LastDueAt = max(t.LastDueAt, until-1) // what came while the schedule had ended is not due now
		t.Enabled, t.DisabledReason, t.PausedUntil = true, "", 0
		t.tell("resumed")
		t.next()
	}
	switch {
	case !t.Enabled:
	case t.ended(now):
		t.recordUndecided("ends_at was reached before it was dispatched", e.Absences)
		t.disable(fmt.Sprintf("ends_at %s was reached", t.EndsAt))
		t.tell("expired")
	case t.spent():
		t.disable(exhaustedReason(t.Executions))
		t.tell("expired")
	default:
		t.occur(e)
	}
	t.startWaiting()
}

// occur decides the times from NextExecutionAt on that have come.
func (t *recurringTransition) occur(e RecurringDue) {
	s, err := t.schedule()
	if err != nil { // stored by a build that took this expression
		t.disable("cron_expr: " + err.Error())
		t.tell("no_next")
		return
	}
	first, until := t.NextExecutionAt, s.comeBy(t.NextExecutionAt, t.clock.Now)
	if first.IsZero() || first.After(until) {
		return
	}
	first = t.skipByHand(s, first, until)
	deadline := t.startDeadline().Milliseconds()
	chosen := t.chosen(s, first, until, t.clock.Now, deadline)
	why := t.missReason(t.clock, e.Absences, chosen, "is dispatched", deadline)
	t.LastDueAt = max(t.LastDueAt, until)
	for i, at := range chosen {
		t.passAll(s, first, at-1, why)
		t.decide(at, i, e.Refusal)
		first = at + 1
	}
	t.passAll(s, first, until, why)
	t.next()
}

// passAll records all times of a span, which pass without a dispatch.
func (t *recurringTransition) passAll(s *timetable, first, until Time, why missReason) {
	if first > until {
		return
	}
	for _, p := range s.passed(first, until, why, never) {
		t.pass(p)
	}
}

// skipByHand skips the first times of a span, as many as were to be skipped by hand, and gives where
// the rest begins. What the schedule leaves out is none of them.
func (t *recurringTransition) skipByHand(s *timetable, first, until Time) Time {
	if t.SkipNext == 0 {
		return first
	}
	var passed []passedTimes
	walked := 0
	for at := range s.Due(first-1, until) {
		if walked++; t.SkipNext == 0 || walked > maxWalked {
			break
		}
		reason := s.leftOut(at)
		if reason == "" {
			t.SkipNext--
			reason = "by hand: the next time was to be skipped"
		}
		if n := len(passed); n == 0 || passed[n-1].Reason != reason {
			passed = append(passed, passedTimes{Verdict: VerdictSkipped, First: at, Reason: reason})
		}
		last := &passed[len(passed)-1]
		last.Last, last.Count = at, last.Count+1
		first = at + 1
	}
	for _, p := range passed {
		t.pass(p)
	}
	return first
}

// next computes the next time of the schedule, which is disabled if none follows.
func (t *recurringTransition) next() {
	s, err := t.schedule()
	if err != nil {
		return // the next due event says so
	}
	next, ok := s.Next(t.LastDueAt)
	if !ok {
		t.disable(fmt.Sprintf("cron_expr %q has no occurrence after %s", clip(t.CronExpr), t.clock.Now))
		t.tell("no_next")
		return
	}
	t.NextExecutionAt = next
}

// decide decides a time that is early enough, or is caught up: it is the i-th of those.
func (t *recurringTransition) decide(at Time, i int, refusal string) {
	switch {
	case refusal != "":
		t.passOne(VerdictMissed, at, "its action was refused: "+validText(refusal))
	case t.exhausted():
		t.passOne(VerdictSkipped, at, "limit: "+t.exhaustedReason())
	case i > 0 && t.CatchUpSpacingSeconds > 0:
		t.beginWaiting(at, laterMS(t.clock.Now, int64(i)*t.CatchUpSpacingSeconds*1000))
	default:
		t.applyOverlap(at, 0)
	}
}

// passOne records one time that is not dispatched.
func (t *recurringTransition) passOne(v Verdict, at Time, reason string) {
	t.pass(passedTimes{Verdict: v, First: at, Last: at, Count: 1, Reason: reason})
}

// pass records times that pass without a dispatch, and announces them.
func (t *recurringTransition) pass(p passedTimes) {
	t.count(p.Verdict, p.Count)
	t.record(Occurrence{DueAt: p.First, LastDueAt: p.Last, Verdict: p.Verdict, Count: p.Count, CountCapped: p.Capped, Reason: p.Reason})
	t.tellPassed(p)
	t.noteMissed(p)
}

func (t *recurringTransition) tellPassed(p passedTimes) {
	what := string(p.Verdict)
	if p.Verdict == VerdictExpired {
		what = "wait_expired" // "expired" says that the schedule has ended
	}
	t.add(announcement("recurring", "recurring", what, t.ID, announcementData(struct {
		DueAt  Time   `json:"due_at"`
		Until  Time   `json:"until"`
		Count  uint64 `json:"count"`
		Reason string `json:"reason"`
	}{p.First, p.Last, p.Count, p.Reason})))
}

func (t *recurringTransition) count(v Verdict, n uint64) {
	var c *uint64
	switch v {
	case VerdictMissed:
		c = &t.MissedCount
	case VerdictSkipped:
		c = &t.SkippedCount
	case VerdictCancelled:
		c = &t.CancelledCount
	case VerdictExpired:
		c = &t.ExpiredCount
	case VerdictDeduplicated:
		c = &t.DeduplicatedCount
	case VerdictDispatched, VerdictWaiting:
		return
	}
	*c = saturatingAdd(*c, n)
}

func (r RecurringAction) ledgerOwner() ledgerOwner {
	return ledgerOwner{r.Ref(), r.scope(), texts.Bound(r.Title(), MaxNameBytes)}
}

// record writes an entry of the ledger, and gives its id.
func (t *recurringTransition) record(o Occurrence) uuid.UUID {
	var l Ledger
	if t.Ledger != nil {
		l = *t.Ledger
	}
	l, last, id, effs := l.record(t.ledgerOwner(), t.Sequence, o, t.clock)
	t.Ledger, t.Sequence = &l, last
	t.add(effs...)
	return id
}

// entryID is the id of an entry of the ledger.
func (t *recurringTransition) entryID(n uint64) uuid.UUID {
	if t.Ledger == nil {
		return uuid.Nil
	}
	return t.Ledger.id(t.ledgerOwner(), n)
}

// updateEntry gives an entry that waits, or whose action was refused, its verdict.
func (t *recurringTransition) updateEntry(n uint64, v Verdict, reason string, action uuid.UUID) {
	t.send(effects.Ref{Kind: KindOccurrence, ID: t.entryID(n)}, OccurrenceDecide{Verdict: v, Reason: reason, ActionID: action})
}

// dispatching is a time that is about to be dispatched.
type dispatching struct {
	at      Time
	entry   uint64 // its entry in the ledger, if it has waited
	manual  bool
	owner   Owner // the backfill that asks for it
	payload []byte
}

// dispatch makes the action of a time, by way of its dedup key where it has one (C3, C4). The end
// of the action is told by [ChildEnded].
func (t *recurringTransition) dispatch(d dispatching) {
	now := t.clock.Now
	spec := t.actionAt(d.at, d.payload)
	var id uuid.UUID // of the entry
	if d.entry == 0 {
		o := Occurrence{DueAt: d.at, LastDueAt: d.at, Verdict: VerdictDispatched, Count: 1, Manual: d.manual, Backfill: d.owner.Ref.ID}
		spec.ID = t.actionID(d, saturatingAdd(t.Sequence, 1))
		o.ActionID = spec.ID
		id = t.record(o)
		d.entry = t.Sequence
	} else {
		spec.ID = t.actionID(d, d.entry)
		id = t.entryID(d.entry)
		t.updateEntry(d.entry, VerdictDispatched, "", spec.ID)
	}
	spec.Occurrence, spec.Owner = id, Owner{Ref: t.Ref(), N: uint32(d.entry)}
	n := RunningTime{N: d.entry, Action: spec.ID, DueAt: d.at, StartedAt: now, Before: t.executedBefore(now), Manual: d.manual, For: d.owner}
	t.Running = append(slices.Clip(t.Running), n)
	t.fresh++
	t.forgetOldest()
	t.LastExecutedAt, t.UpdatedAt = now, now
	t.ExecutionCount = saturatingAdd(t.ExecutionCount, 1)
	t.noteDispatched(n)
	whole := d.manual || !d.owner.IsZero()
	if spec.DedupKey != "" {
		t.send(DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey), DedupClaim{Create: spec, LastExecutedAt: n.Before, Manual: d.manual, Whole: whole})
		return
	}
	t.send(effects.Ref{Kind: KindAction, ID: spec.ID}, ActionCreate{Spec: spec, Whole: whole})
}

// forgetOldest lets the oldest dispatch go, if dispatches may overlap and more than
// [MaxRunningKept] have not ended. Those of backfills all stay, since somebody waits for their ends,
// and do not count; so do those of this transition, whose actions may still be refused.
func (t *recurringTransition) forgetOldest() {
	if t.Overlap.Plain() != OverlapAllow {
		return
	}
	live, oldest := 0, 0
	for i, n := range slices.Backward(t.Running) {
		if n.live() {
			live, oldest = live+1, i
		}
	}
	if live > max(MaxRunningKept, t.fresh) {
		t.Running = without(t.Running, oldest)
	}
}

// executedBefore is LastExecutedAt as it was before all that is dispatched at an instant.
func (r RecurringAction) executedBefore(now Time) Time {
	i := slices.IndexFunc(r.Running, func(n RunningTime) bool { return n.StartedAt == now })
	if i < 0 || r.LastExecutedAt != now {
		return r.LastExecutedAt
	}
	return r.Running[i].Before
}

// actionID is the id of the action that is made. That of a backfill follows from the time, so that
// no time is backfilled twice.
func (t *recurringTransition) actionID(d dispatching, entry uint64) uuid.UUID {
	if !d.owner.IsZero() {
		return ChildID(t.ID, "backfill", uint64(t.CreatedAt), uint64(d.at))
	}
	return ChildID(t.ID, "action", t.clock.Step, entry)
}

// backfill dispatches a time that has passed, beside the live ones.
func (t *recurringTransition) backfill(e BackfillTime) {
	s, err := t.schedule()
	switch {
	case e.Owner.IsZero():
		t.refuse(effects.CodeInvalid, "owner: must name the backfill that asks")
	case err != nil:
		t.conflict("cron_expr: %s", err)
	case e.At.After(t.clock.Now):
		t.conflict("at: %s is not past; it is %s", e.At, t.clock.Now)
	case !t.undecidedFrom().IsZero() && !e.At.Before(t.undecidedFrom()):
		t.conflict("at: %s is not decided about yet", e.At)
	case !s.isDue(e.At), t.ended(e.At):
		t.conflict("at: %s is no time of the schedule", e.At)
	case s.leftOut(e.At) != "":
		t.conflict("at: %s is left out: %s", e.At, s.leftOut(e.At))
	case slices.ContainsFunc(t.Waiting, func(w WaitingTime) bool { return w.DueAt == e.At }):
		t.conflict("at: %s waits for its turn already", e.At)
	case slices.ContainsFunc(t.Running, func(n RunningTime) bool { return n.DueAt == e.At && !n.Manual }):
		t.conflict("at: %s was dispatched, and has not ended", e.At)
	case !t.tooMany():
		t.dispatch(dispatching{at: e.At, owner: e.Owner, payload: t.ActionTemplate.Payload})
	}
}

// tooMany refuses one more dispatch beside the schedule if as many as may be have not ended.
func (t *recurringTransition) tooMany() bool {
	if len(t.Running) < MaxUnended {
		return false
	}
	t.conflict("%d actions of recurring action %s have not ended: no more are made by hand or by a backfill", len(t.Running), t.ID)
	return true
}
