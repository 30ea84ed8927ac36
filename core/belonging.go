package core

import "github.com/orrery-go/orrery/effects"

// Belonging says in which partition a record has to be, of several that tenants are divided over: see [Partition].
type Belonging struct {
	// With is the machine in whose partition the record has to be; zero: none, Of decides.
	With effects.Ref
	// Of is the tenant in whose partition it has to be.
	Of Scope
	// Each says that each partition has a record of its own under the same id: neither With nor Of decides.
	Each bool
}

// StoredBelonging says in which partition the record of this stored form has to be.
//
//   - Most machines have a tenant. So has the common bus ([BusRef]): the one whose names are both empty.
//   - A dedup key is where the action is that holds it, a name where the machine is that has it, and the items, keys and dedup
//     keys of a queue are where the queue is. An occurrence that an early build has recorded is where its recurring action is.
//   - Each partition has schedulers, which keep the heartbeats of its own runs, digests of channels, and what stands in
//     [NotifyNamespace] and [NotifyTenant]: what channels are to tell of its own tenants.
func StoredBelonging(kind effects.Kind, b []byte) (Belonging, error) {
	switch kind {
	case KindScheduler, KindDigest:
		_, err := DecodeState(kind, b)
		return Belonging{Each: true}, err
	case KindDedup, KindName, KindQueueItem, KindQueueKey, KindQueueDedup, KindOccurrence:
		s, err := DecodeState(kind, b)
		if err != nil {
			return Belonging{}, err
		}
		if with := goesWith(s); !with.IsZero() {
			return Belonging{With: with}, nil
		}
		return belongsTo(ScopeOf(s)), nil
	}
	of, err := StoredScope(kind, b)
	return belongsTo(of), err
}

func belongsTo(of Scope) Belonging {
	return Belonging{Of: of, Each: of == Scope{NotifyNamespace, NotifyTenant}}
}

// goesWith names the machine in whose partition a record has to be that has no tenant; zero: none.
func goesWith(s State) effects.Ref {
	switch s := s.(type) {
	case Dedup:
		return effects.Ref{Kind: KindAction, ID: s.Holder}
	case Named:
		return effects.Ref{Kind: s.Kind, ID: s.Holder}
	case QueueItem:
		return effects.Ref{Kind: KindQueue, ID: s.Queue}
	case QueueKey:
		return effects.Ref{Kind: KindQueue, ID: s.Queue}
	case QueueDedup:
		return effects.Ref{Kind: KindQueue, ID: s.Queue}
	case Occurrence:
		if s.ofNobody() {
			return effects.Ref{Kind: KindRecurring, ID: s.RecurringID}
		}
	}
	return effects.Ref{}
}

// MergeSchedulers makes the scheduler of a partition of those parts of the schedulers under one id, of several partitions, whose runs it gets:
// each keeps the count that it had. With no part it is nil.
func MergeSchedulers(parts ...Scheduler) State {
	var all *Scheduler
	for _, p := range parts {
		if all == nil {
			merged := p
			merged.Runs = nil
			all = &merged
		}
		all.IntervalMS, all.MaxMissed = max(all.IntervalMS, p.IntervalMS), max(all.MaxMissed, p.MaxMissed)
		all.CreatedAt = min(all.CreatedAt, p.CreatedAt)
		if all.ReportedAt.IsZero() || p.ReportedAt.IsZero() {
			all.ReportedAt = 0 // the next due event, or report, begins all counts anew
		} else {
			all.ReportedAt = max(all.ReportedAt, p.ReportedAt)
		}
		for _, r := range p.Runs {
			if i, tracked := all.find(r.Run); !tracked {
				all.Runs = append(all.Runs[:i:i], append([]TrackedRun{r}, all.Runs[i:]...)...)
			}
		}
	}
	if all == nil {
		return nil
	}
	return *all
}
