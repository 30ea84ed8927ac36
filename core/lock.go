package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Lock is a stub.
type Lock struct {
	ID uuid.UUID `json:"id"`
}

// LockAcquire asks for a lock. With an owner it waits its turn and is told by
// [Granted]; without one it is refused with [effects.CodeConflict] while another
// one holds it.
type LockAcquire struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	Holder    string `json:"holder"`
	Owner     Owner  `json:"owner"`
	TTLMS     int64  `json:"ttl_ms"` // 0: until it is released
}

// LockRelease gives a lock back, or ends the waiting for it.
type LockRelease struct {
	Holder string `json:"holder"`
	Owner  Owner  `json:"owner"`
}

// LockRef names the lock of that name.
func LockRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindLock, ID: namedID("lock", namespace, tenant, name)}
}

func (LockAcquire) EventType() string            { return "acquire" }
func (LockRelease) EventType() string            { return "release" }
func (e LockAcquire) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
func (e LockRelease) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// LockEvent is an event of [Lock]. The set is closed.
//
//sumtype:decl
type LockEvent interface {
	Event
	lockEvent()
}

func (LockAcquire) lockEvent() {}
func (LockRelease) lockEvent() {}

// Apply carries out one transition.
func (l Lock) Apply(e LockEvent, c Clock) (Lock, []effects.Effect) {
	return l, l.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the lock.
func (l Lock) Ref() effects.Ref {
	if l.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindLock, ID: l.ID}
}

// Deadline is none.
func (l Lock) Deadline() Time { return 0 }

// Terms lists the lock under all.
func (l Lock) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (l Lock) AppendJSON(b []byte) []byte { return appendMarshaled(b, l) }

func (l Lock) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(LockEvent)
	if !ok {
		return l, l.refuse(e, effects.CodeInvalid, fmt.Sprintf("a lock takes no event %q", e.EventType()))
	}
	return l.Apply(own, c)
}

func (l Lock) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindLock, ID: l.ID}, e, code, reason)
}

func decodeLockEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case LockAcquire{}.EventType():
		return decodeAs[LockAcquire](b)
	case LockRelease{}.EventType():
		return decodeAs[LockRelease](b)
	}
	return decodeShared(typ, b)
}
