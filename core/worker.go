package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Worker is a stub.
type Worker struct {
	ID uuid.UUID `json:"id"`
}

// WorkerWake lets a worker look for work (003 WakeWorker).
type WorkerWake struct{}

// WorkerRef names the worker of that name.
func WorkerRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindWorker, ID: namedID("worker", namespace, tenant, name)}
}

func (WorkerWake) EventType() string            { return "wake" }
func (e WorkerWake) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// WorkerEvent is an event of [Worker]. The set is closed.
//
//sumtype:decl
type WorkerEvent interface {
	Event
	workerEvent()
}

func (WorkerWake) workerEvent() {}
func (QueueTaken) workerEvent() {}
func (ChildEnded) workerEvent() {}

// Apply carries out one transition.
func (w Worker) Apply(e WorkerEvent, c Clock) (Worker, []effects.Effect) {
	return w, w.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the worker.
func (w Worker) Ref() effects.Ref {
	if w.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindWorker, ID: w.ID}
}

// Deadline is none.
func (w Worker) Deadline() Time { return 0 }

// Terms lists the worker under all.
func (w Worker) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (w Worker) AppendJSON(b []byte) []byte { return appendMarshaled(b, w) }

func (w Worker) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(WorkerEvent)
	if !ok {
		return w, w.refuse(e, effects.CodeInvalid, fmt.Sprintf("a worker takes no event %q", e.EventType()))
	}
	return w.Apply(own, c)
}

func (w Worker) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindWorker, ID: w.ID}, e, code, reason)
}

func decodeWorkerEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case WorkerWake{}.EventType():
		return decodeAs[WorkerWake](b)
	case QueueTaken{}.EventType():
		return decodeAs[QueueTaken](b)
	}
	return decodeShared(typ, b)
}
