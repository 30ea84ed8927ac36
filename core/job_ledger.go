package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// ledgerOwner says whose the entries of the job are.
func (j Job) ledgerOwner() ledgerOwner {
	return ledgerOwner{ref: j.Ref(), scope: j.scope(), name: j.ID}
}

// decide records the verdict about the time of an active run, or what it is decided to be if it
// has waited, and gives the id of the entry.
func (t *jobTransition) decide(i int, v Verdict, reason string) uuid.UUID {
	a := &t.Active[i]
	o := Occurrence{
		DueAt: a.ScheduledAt, LastDueAt: a.ScheduledAt, Verdict: v, Count: 1, Manual: a.Manual, ActionID: a.Run, Reason: reason,
		Backfill: a.Owner.Ref.ID,
	}
	switch {
	case t.before10():
		return t.record(o)
	case a.Occurrence == uuid.Nil:
		a.Occurrence = t.record(o)
	default:
		t.count(o)
		t.send(effects.Ref{Kind: KindOccurrence, ID: a.Occurrence}, OccurrenceDecide{Verdict: v, Reason: reason, ActionID: a.Run})
		t.announceVerdict(o)
	}
	return a.Occurrence
}

// record writes an entry of the ledger, counts its verdict, and says what did not run.
func (t *jobTransition) record(o Occurrence) uuid.UUID {
	if t.before10() {
		return t.recordBefore10(o)
	}
	var ledger Ledger
	if t.Ledger != nil {
		ledger = *t.Ledger
	}
	if !t.before11() && !t.neighbours(ledger, o) {
		ledger.Like = uuid.Nil
	}
	ledger, last, id, effs := ledger.record(t.ledgerOwner(), t.Sequence, o, t.clock)
	if ledger.LikeUntil = 0; ledger.Like != uuid.Nil && !t.before11() {
		ledger.LikeUntil = o.LastDueAt
	}
	t.Ledger, t.Sequence = &ledger, last
	t.count(o)
	t.add(effs...)
	t.announceVerdict(o)
	return id
}

// count counts a verdict. One that waits has none yet.
func (t *jobTransition) count(o Occurrence) {
	if !o.Manual && o.Backfill == uuid.Nil {
		come := o.LastDueAt
		if !t.before11() { // else a run that is cancelled ahead of its time would end all times before it
			come = min(come, t.clock.Now)
		}
		t.LastVerdictAt = max(t.LastVerdictAt, come)
	}
	t.noteVerdict(o)
	n := &t.Counts.Dispatched
	switch o.Verdict {
	case VerdictMissed:
		n = &t.Counts.Missed
	case VerdictSkipped:
		n = &t.Counts.Skipped
	case VerdictCancelled:
		n = &t.Counts.VerdictCancelled
	case VerdictExpired:
		n = &t.Counts.VerdictExpired
	case VerdictDeduplicated:
		n = &t.Counts.Deduplicated
	case VerdictWaiting:
		return
	case VerdictDispatched:
	}
	*n = saturatingAdd(*n, o.Count)
}

// announceVerdict says what did not run.
func (t *jobTransition) announceVerdict(o Occurrence) {
	if o.Verdict == VerdictDispatched || o.Verdict == VerdictWaiting || o.Verdict == VerdictDeduplicated {
		return
	}
	t.announce(string(o.Verdict), announcementData(struct {
		ScheduledAt Time   `json:"scheduled_at"`
		Until       Time   `json:"until"`
		Count       uint64 `json:"count"`
		Reason      string `json:"reason"`
	}{o.DueAt, o.LastDueAt, o.Count, o.Reason}))
}

// pass records times that pass without a run.
func (t *jobTransition) pass(v Verdict, p passedTimes) {
	t.record(Occurrence{DueAt: p.First, LastDueAt: p.Last, Verdict: v, Count: p.Count, CountCapped: p.Capped, Reason: p.Reason})
}

// passAll records the times in [from, to] that have no run: what the schedule leaves out is
// skipped, the others get the verdict.
func (t *jobTransition) passAll(s *timetable, from, to Time, v Verdict, why missReason, excepted func(Time) bool) {
	for _, p := range s.passed(from, to, why, func(at Time) bool { return t.isTaken(at) || excepted(at) }) {
		if p.Verdict == VerdictMissed {
			p.Verdict = v
		}
		t.pass(p.Verdict, p)
	}
}
