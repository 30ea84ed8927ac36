package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// RetentionClass says by which of the engine's settings a machine that has ended is
// forgotten.
type RetentionClass int

// The classes of retention.
const (
	RetainMachines RetentionClass = iota // actions, runbooks, runs
	RetainHistory                        // occurrences
)

// Retention is a kind whose machines are forgotten some time after their end, by
// their [ExpireEvent].
type Retention struct {
	Kind  effects.Kind
	Class RetentionClass
}

// Retentions lists the kinds that are forgotten, in the order in which the engine
// walks through them.
func Retentions() []Retention {
	return []Retention{
		{KindAction, RetainMachines}, {KindOccurrence, RetainHistory},
		{KindPipeline, RetainMachines}, {KindTask, RetainMachines}, {KindStrategy, RetainMachines},
		{KindOrchestrator, RetainMachines},
	}
}

// Cacheable reports whether a machine is likely to be read again soon: not after its
// end, and not what is read at most once more.
func Cacheable(s State) bool {
	if _, ended := EndedAt(s); ended {
		return false
	}
	switch s := s.(type) {
	case Occurrence, QueueDedup:
		return false
	case QueueItem:
		return s.State.Type != ItemCompleted && s.State.Type != ItemDead
	}
	return true
}

// Paced reports whether machines of that kind are woken at a pace of their own: that
// of the recurring check (002), between the ticks.
func Paced(kind effects.Kind) bool { return kind == KindRecurring }

// PacedWith reports whether a machine that is due is woken along with those that are
// [Paced]: they have dispatched it.
func PacedWith(s State) bool {
	a, ok := s.(Action)
	return ok && a.Occurrence != uuid.Nil
}

// KeepsLogs reports whether the store keeps logs for machines of that kind, which go
// with the machine's record.
func KeepsLogs(kind effects.Kind) bool { return kind == KindOrchestrator }

// OuterEffectKinds lists the kinds whose machines ask for outer effects. The most
// frequent one stands last: who looks for the machine of an id asks for the others
// first.
func OuterEffectKinds() []effects.Kind {
	return []effects.Kind{KindPipeline, KindTask, KindStrategy, KindOrchestrator, KindAction}
}

// Shortened is the event as the journal has it: one that comes often is said in
// fewer words if the machine, which is in the state s, takes them for the same.
func Shortened(s State, e Event) Event {
	beats, ok := e.(SchedulerHeartbeats)
	if !ok {
		return e
	}
	if s, ok := s.(Scheduler); ok {
		return s.Shortened(beats)
	}
	return e
}

// Shortens reports whether [Shortened] may say the event in fewer words.
func Shortens(e Event) bool {
	_, ok := e.(SchedulerHeartbeats)
	return ok
}
