package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Bus is a stub.
type Bus struct {
	ID uuid.UUID `json:"id"`
}

// BusRef names the one event bus.
func BusRef() effects.Ref {
	return effects.Ref{Kind: KindBus, ID: namedID("bus", "", "", "")}
}

// Route gives what the subscribers make of an event (003 EventBus). It is pure:
// the effects are carried out by whoever asked.
func (s Bus) Route(e effects.Event) []effects.Effect { return nil }

// BusEvent is an event of [Bus]. The set is closed.
//
//sumtype:decl
type BusEvent interface {
	Event
	busEvent()
}

// Apply carries out one transition.
func (s Bus) Apply(e BusEvent, c Clock) (Bus, []effects.Effect) {
	return s, s.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the bus.
func (s Bus) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindBus, ID: s.ID}
}

// Deadline is none.
func (s Bus) Deadline() Time { return 0 }

// Terms lists the bus under all.
func (s Bus) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (s Bus) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Bus) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(BusEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a bus takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Bus) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindBus, ID: s.ID}, e, code, reason)
}

func decodeBusEvent(typ string, b []byte) (Event, error) {
	switch typ {
	}
	return decodeShared(typ, b)
}
