package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// Retention says for how long a machine is kept after its end.
type Retention uint8

// Retentions.
const (
	RetainedForever   Retention = iota // until it is deleted
	RetainedAsAction                   // as long as ended actions are
	RetainedAsHistory                  // as long as the history of schedules is
)

// RetainedKind is a kind of machine that is forgotten some time after its end, by
// its [ExpireEvent].
type RetainedKind struct {
	Kind      effects.Kind
	Retention Retention
}

// RetainedKinds lists the kinds of machines that are forgotten some time after
// their end, in the order in which they are looked through.
func RetainedKinds() []RetainedKind {
	var out []RetainedKind
	for _, k := range kindTable {
		if k.retention != RetainedForever {
			out = append(out, RetainedKind{k.name, k.retention})
		}
	}
	return out
}

// zero gives the state of a machine that does not exist.
func zero(kind effects.Kind) State { return kinds[kind].zero }

// DueEvent is the event that tells a machine of that kind that its deadline has
// come; nil for a kind that waits for nothing.
func DueEvent(kind effects.Kind) Event { return kinds[kind].due }

// ExpireEvent is the event that ends the retention of a machine of that kind;
// nil for a kind that is kept until it is deleted.
func ExpireEvent(kind effects.Kind) Event { return kinds[kind].expire }

// InterruptEvent is the event that tells a machine that the holder of its outer
// effect is gone; nil for a kind that has no outer effects.
func InterruptEvent(kind effects.Kind, n uint32, reason string) Event {
	if o := kinds[kind].outer; o != nil {
		return o.interrupted(n, reason)
	}
	return nil
}

// HandBackEvent is the event that gives back an outer effect that was not
// begun; nil for a kind that has no outer effects.
func HandBackEvent(kind effects.Kind, n uint32) Event {
	if o := kinds[kind].outer; o != nil {
		return o.handedBack(n)
	}
	return nil
}

// AnswerEvent is the event that answers an outer effect of a machine of that
// kind; permanent says that trying again is pointless. A result beside a reason
// is what there is in spite of the failure. It is nil for a kind that has no outer
// effects.
func AnswerEvent(kind effects.Kind, n uint32, result json.RawMessage, reason string, permanent bool) Event {
	switch o := kinds[kind].outer; {
	case o == nil:
		return nil
	case reason == "":
		return o.done(n, result)
	default:
		return o.failed(n, reason, result, permanent)
	}
}

// KindsWithOuterEffects lists the kinds of machines that ask for outer effects.
func KindsWithOuterEffects() []effects.Kind {
	var out []effects.Kind
	for _, k := range kindTable {
		if k.outer != nil {
			out = append(out, k.name)
		}
	}
	return out
}

// KeepsLogs reports whether the store keeps logs with a machine of that kind, which
// go when it does.
func KeepsLogs(kind effects.Kind) bool { return kinds[kind].keepsLogs }

// PartOf gives the kind of machine whose records those of that kind are; empty for
// a machine.
func PartOf(kind effects.Kind) effects.Kind { return kinds[kind].partOf }

// WokenByCheck reports whether machines of that kind are woken by the check for
// recurring actions, which has a pace of its own and can be switched off (C10).
func WokenByCheck(kind effects.Kind) bool { return kinds[kind].checked }

// DispatchedBySchedule reports whether a machine was made by one that [WokenByCheck]:
// the check then wakes it too.
func DispatchedBySchedule(s State) bool {
	d, ok := s.(interface{ dispatchedBySchedule() bool })
	return ok && d.dispatchedBySchedule()
}

// Cacheable reports whether it is worth keeping a state in memory after its batch:
// one that has ended, or that is read again at most once, is not.
func Cacheable(s State) bool {
	if _, ended := EndedAt(s); ended {
		return false
	}
	passing := kinds[s.Ref().Kind].passing
	return passing == nil || !passing(s)
}

// Compacted gives an event that does the same to a machine in that state, in fewer
// words, where the journal has events of its type often.
func Compacted(s State, e Event) Event {
	if s == nil {
		return e
	}
	if compact := kinds[s.Ref().Kind].compact; compact != nil {
		return compact(s, e)
	}
	return e
}

// EndedAt tells whether a machine has come to its end, and when: from then on it
// only waits for its retention to end. The shell forgets it by [ExpireEvent].
func EndedAt(s State) (Time, bool) {
	if e, ok := s.(interface{ endedAt() (Time, bool) }); ok {
		return e.endedAt()
	}
	return 0, false
}
