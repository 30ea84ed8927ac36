package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// KeptOccurrences is how many of the latest entries of each schedule the ledger keeps, however
// old they are: a monthly schedule has a history, too.
const KeptOccurrences = 50

// ledgerRules are those since which schedules keep a [Ledger].
const ledgerRules = 10

// Ledger is what a schedule knows of its entries in the ledger of occurrences (G1). Entries are
// numbered by the schedule's Sequence, and their ids follow from the number.
type Ledger struct {
	Epoch uint64 `json:"epoch"` // the step of the transition with which it began: no two ledgers have the same
	First uint64 `json:"first"` // the number of its first entry
	// Like is derived from verdict and reason of the last entry, if equal times that follow
	// belong to that entry; zero: they do not.
	Like uuid.UUID `json:"like,omitzero"`
	// LikeUntil is the last time of that entry, of a job; times that it does not neighbour are an
	// entry of their own.
	LikeUntil Time `json:"like_until,omitzero"`
}

// ledgerOwner is the schedule that an entry belongs to.
type ledgerOwner struct {
	ref   effects.Ref
	scope Scope
	name  string
}

// id gives the id of the entry of that number.
func (l Ledger) id(of ledgerOwner, number uint64) uuid.UUID {
	return ChildID(of.ref.ID, "occurrence", l.Epoch, number)
}

// record gives the effects that write an entry, or extend the last one if its verdict and
// reason are the same. It gives the ledger and the number of the last entry after that, and the
// id of the entry.
func (l Ledger) record(of ledgerOwner, last uint64, o Occurrence, c Clock) (Ledger, uint64, uuid.UUID, []effects.Effect) {
	o.Reason = validText(o.Reason)
	like := uuid.Nil
	if joins(o.Verdict) && !o.Manual && o.Backfill == uuid.Nil {
		like = namedID("like", string(o.Verdict), o.Reason)
	}
	if like != uuid.Nil && like == l.Like {
		id := l.id(of, last)
		return l, last, id, []effects.Effect{effects.Send{
			To: effects.Ref{Kind: KindOccurrence, ID: id}, Event: OccurrenceExtend{LastDueAt: o.LastDueAt, Count: o.Count, Capped: o.CountCapped},
		}}
	}
	last = saturatingAdd(last, 1)
	if l.Epoch == 0 && l.First == 0 {
		l.Epoch, l.First = c.Step, last
	}
	l.Like = like
	o.ID, o.RecurringID, o.DecidedAt = l.id(of, last), of.ref.ID, c.Now
	o.Schedule, o.Namespace, o.Tenant, o.Name = of.ref.Kind, of.scope.Namespace, of.scope.Tenant, of.name
	o.Number, o.Latest = last, true
	effs := []effects.Effect{effects.Send{To: effects.Ref{Kind: KindOccurrence, ID: o.ID}, Event: OccurrenceRecord{o}}}
	if last >= KeptOccurrences && last-KeptOccurrences >= l.First {
		effs = append(effs, l.outlived(of, last-KeptOccurrences))
	}
	return l, last, o.ID, effs
}

// close gives the effects by which the latest entries are kept no longer than others: their
// schedule is gone.
func (l Ledger) close(of ledgerOwner, last uint64) []effects.Effect {
	if l.First == 0 {
		return nil
	}
	first := l.First
	if last >= KeptOccurrences {
		first = max(first, last-KeptOccurrences+1)
	}
	var effs []effects.Effect
	for n := first; n <= last && n-first < KeptOccurrences; n++ {
		effs = append(effs, l.outlived(of, n))
	}
	return effs
}

func (l Ledger) outlived(of ledgerOwner, number uint64) effects.Effect {
	return effects.Send{To: effects.Ref{Kind: KindOccurrence, ID: l.id(of, number)}, Event: OccurrenceOutlived{}}
}
