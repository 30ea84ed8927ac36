package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// ActionLedger is what an action that recurs knows of its entries in the ledger of occurrences
// (G1). Each cycle is an entry, and so are the times that pass without one: those that came before
// the cycle could begin are missed, those that came before it had ended are skipped.
type ActionLedger struct {
	Ledger
	Last uint64 `json:"last"` // the number of the last entry
	// Entry is that of the present cycle, once the cycle has begun.
	Entry uuid.UUID `json:"entry,omitzero"`
	// DecidedUntil is up to when all times have their verdicts, while a cycle is under way.
	DecidedUntil Time `json:"decided_until,omitzero"`
	// LastSuccessAt is when the last cycle ended that completed; null: none did.
	LastSuccessAt Time `json:"last_success_at,omitzero"`
}

// Reasons of the times of an action that recurs.
const (
	actionMissed  = "of the times that passed before it could begin, an action runs for the first"
	actionOverlap = "overlap: the cycle before had not ended"
)

// keepsLedger reports whether the action records its cycles.
func (a *Action) keepsLedger(c Clock) bool {
	return !a.Recurrence.IsZero() && !c.Rules.before(ledgerRules)
}

// record records an entry of the action.
func (a *Action) record(o Occurrence, c Clock) (uuid.UUID, []effects.Effect) {
	l := ActionLedger{}
	if a.Ledger != nil {
		l = *a.Ledger // which the state before shares
	}
	of := ledgerOwner{a.Ref(), a.scope(), texts.Bound(a.Label, MaxNameBytes)}
	var id uuid.UUID
	var effs []effects.Effect
	l.Ledger, l.Last, id, effs = l.record(of, l.Last, o, c)
	a.Ledger = &l
	return id, effs
}

// cycleTime is the time of the schedule that the next cycle stands for.
func (a *Action) cycleTime() Time { return a.Trigger.KeyTime() }

// startDue starts the cycle whose time has come, or its next attempt.
func (a *Action) startDue(e ActionDue, c Clock) []effects.Effect {
	if !a.keepsLedger(c) {
		return a.start(c)
	}
	effs := a.beginCycle(lateReason(c, actionMissed, actionMissed, e.Absences), c)
	return append(effs, a.start(c)...)
}

// startByHand starts a cycle, or its next attempt, before its time.
func (a *Action) startByHand(c Clock) []effects.Effect {
	if !a.keepsLedger(c) {
		return a.start(c)
	}
	effs := a.beginCycle(missReason{fixed: actionMissed}, c)
	return append(effs, a.start(c)...)
}

// beginCycle records the cycle that begins, unless it has begun already, and the times that have
// passed meanwhile. One that was triggered before its time stands beside the schedule.
func (a *Action) beginCycle(why missReason, c Clock) []effects.Effect {
	if a.Attempt > 0 || a.Ledger != nil && a.Ledger.Entry != uuid.Nil {
		return nil
	}
	due, manual := a.cycleTime(), !a.ResumeAt.IsZero()
	id, effs := a.record(Occurrence{DueAt: due, LastDueAt: due, Verdict: VerdictDispatched, Count: 1, Manual: manual, ActionID: a.ID}, c)
	var decided Time
	if !manual {
		effs = append(effs, a.pass(VerdictMissed, a.passed(due, c.Now, why), c)...)
		decided = max(due, c.Now)
	}
	a.Ledger.Entry, a.Ledger.DecidedUntil = id, decided
	return effs
}

// endCycle settles the entry of the present cycle, and records the times that came before the
// cycle had ended, up to the given one. A cycle that began under earlier rules has no entry.
func (a *Action) endCycle(status Status, until Time, c Clock) []effects.Effect {
	if !a.keepsLedger(c) || a.Ledger == nil || a.Ledger.Entry == uuid.Nil {
		return nil
	}
	l := *a.Ledger
	effs := []effects.Effect{effects.Send{
		To:    effects.Ref{Kind: KindOccurrence, ID: l.Entry},
		Event: OccurrenceSettle{Outcome: status.Type, Reason: status.Reason, StartedAt: a.StartedAt, FinishedAt: c.Now},
	}}
	from := l.DecidedUntil
	if !a.ResumeAt.IsZero() {
		from = a.ResumeAt - 1 // what a trigger by hand put aside has no verdict yet
	}
	l.Entry, l.DecidedUntil = uuid.Nil, 0
	if status.Type == StatusCompleted {
		l.LastSuccessAt = c.Now
	}
	a.Ledger = &l
	return append(effs, a.pass(VerdictSkipped, a.passed(from, until, missReason{fixed: actionOverlap}), c)...)
}

// closeLedger lets the latest entries go in their time: the action has ended. If it waited for its
// next cycle, that is cancelled.
func (a *Action) closeLedger(waited bool, status Status, c Clock) []effects.Effect {
	if !a.keepsLedger(c) {
		return nil
	}
	var effs []effects.Effect
	if begun := a.Ledger != nil && a.Ledger.Entry != uuid.Nil; begun {
		effs = a.endCycle(status, 0, c)
	} else if waited && a.Attempt == 0 {
		due, reason := a.cycleTime(), "the action was cancelled"
		if status.Reason != reasonCancelled {
			reason += ": " + status.Reason
		}
		next := passedTimes{First: due, Last: due, Count: 1, Reason: reason}
		effs = a.pass(VerdictCancelled, append([]passedTimes{next}, a.passed(due, c.Now, missReason{fixed: reason})...), c)
	}
	if a.Ledger == nil {
		return effs
	}
	return append(effs, a.Ledger.close(ledgerOwner{ref: a.Ref()}, a.Ledger.Last)...)
}

// pass records times that pass without a cycle.
func (a *Action) pass(v Verdict, passed []passedTimes, c Clock) (all []effects.Effect) {
	for _, p := range passed {
		_, effs := a.record(Occurrence{DueAt: p.First, LastDueAt: p.Last, Verdict: v, Count: p.Count, CountCapped: p.Capped, Reason: p.Reason}, c)
		all = append(all, effs...)
	}
	return all
}

// passed lists the times of the recurrence in (after, until], by their reasons. It looks for none
// if the first one is later, which is the usual case.
func (a *Action) passed(after, until Time, why missReason) []passedTimes {
	if until <= after {
		return nil
	}
	anchor := a.cycleTime()
	if !a.ResumeAt.IsZero() {
		anchor = a.ResumeAt // its times count from the one that was put aside
	}
	if first, ok := a.Recurrence.next(anchor, max(after, anchor-1)); !ok || first > until {
		return nil
	}
	t, err := a.Recurrence.timetable(anchor)
	if err != nil {
		return nil // a stored expression that a later build refuses: it has no times
	}
	return why.missed(t, after+1, until, func(Time) bool { return false })
}

// timetable gives the times of the recurrence; those of a period count from the anchor.
func (r Recurrence) timetable(anchor Time) (*timetable, error) {
	if r.Period == 0 {
		s, err := r.compile(anchor)
		return &timetable{due: s}, err
	}
	s, err := schedule.Every(r.Period, anchor)
	return &timetable{due: s}, err
}

// overdueSince is the time of a cycle that has come and has not begun; zero: none has. See
// [Informed].
func (a Action) overdueSince(now Time) Time {
	if a.Status.Type != StatusPending || a.Recurrence.IsZero() || a.Ledger != nil && a.Ledger.Entry != uuid.Nil {
		return 0
	}
	return overdueIf(a.Trigger.KeyTime(), now)
}

func (ActionDue) informed(absences []Absence) Event { return ActionDue{absences} }
