package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Semaphore is a stub.
type Semaphore struct {
	ID uuid.UUID `json:"id"`
}

// SemaphoreAcquire asks for slots, as [LockAcquire] asks for a lock.
type SemaphoreAcquire struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	Holder    string `json:"holder"`
	Owner     Owner  `json:"owner"`
	Slots     uint32 `json:"slots"` // wanted; 0: 1
	TTLMS     int64  `json:"ttl_ms"`
}

// SemaphoreRelease gives slots back, or ends the waiting for them.
type SemaphoreRelease struct {
	Holder string `json:"holder"`
	Owner  Owner  `json:"owner"`
}

// SemaphoreRef names the semaphore of that name.
func SemaphoreRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindSemaphore, ID: namedID("semaphore", namespace, tenant, name)}
}

func (SemaphoreAcquire) EventType() string            { return "acquire" }
func (SemaphoreRelease) EventType() string            { return "release" }
func (e SemaphoreAcquire) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
func (e SemaphoreRelease) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// SemaphoreEvent is an event of [Semaphore]. The set is closed.
//
//sumtype:decl
type SemaphoreEvent interface {
	Event
	semaphoreEvent()
}

func (SemaphoreAcquire) semaphoreEvent() {}
func (SemaphoreRelease) semaphoreEvent() {}

// Apply carries out one transition.
func (s Semaphore) Apply(e SemaphoreEvent, c Clock) (Semaphore, []effects.Effect) {
	return s, s.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the semaphore.
func (s Semaphore) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindSemaphore, ID: s.ID}
}

// Deadline is none.
func (s Semaphore) Deadline() Time { return 0 }

// Terms lists the semaphore under all.
func (s Semaphore) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (s Semaphore) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Semaphore) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(SemaphoreEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a semaphore takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Semaphore) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindSemaphore, ID: s.ID}, e, code, reason)
}

func decodeSemaphoreEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case SemaphoreAcquire{}.EventType():
		return decodeAs[SemaphoreAcquire](b)
	case SemaphoreRelease{}.EventType():
		return decodeAs[SemaphoreRelease](b)
	}
	return decodeShared(typ, b)
}
