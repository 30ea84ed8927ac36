package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// carry puts one effect where it belongs.
func (t *Batch) carry(from effects.Ref, e effects.Effect, res *Result) error {
	switch e := e.(type) {
	case effects.Send:
		ev, ok := e.Event.(Event)
		if !ok {
			return fmt.Errorf("%s sends %T, which is no event of a machine", from, e.Event)
		}
		t.send(from, e.To, ev)
	case effects.Emit:
		return t.emit(e.Event, res)
	case effects.Withdraw:
		// An effect of this very batch has not left yet: it just goes.
		mine := func(o OuterEffect) bool { return o.From == from && o.Effect.Number() == e.N }
		if i := slices.IndexFunc(t.outer, mine); i >= 0 {
			t.outer = slices.Delete(slices.Clone(t.outer), i, i+1)
			return nil
		}
		t.withdraw = append(t.withdraw, WithdrawnEffect{From: from, N: e.N})
	case effects.Answer: // taken by deliver
	case effects.Refused:
		return errors.New("a refusal stands beside other effects")
	case effects.AcquireLock, effects.ReleaseLock, effects.AcquireSemaphore, effects.ReleaseSemaphore,
		effects.DeadLetter, effects.WakeWorker, effects.Checkpoint:
		return t.translate(from, e.(effects.Inner)) // all of them are
	case effects.RunTool, effects.Spawn, effects.SendInput, effects.Kill, effects.Nudge,
		effects.WorktreeAdd, effects.WorktreeRemove, effects.Merge, effects.Notify,
		effects.CheckConstraints, effects.TakeAction, effects.CreateRun, effects.FetchLogs, effects.DeleteRun:
		t.outer = append(t.outer, OuterEffect{From: from, Effect: e.(effects.Outer)})
	}
	return nil
}

// emit gives an announcement its id and time, and routes it on the bus (003).
func (t *Batch) emit(ev effects.Event, res *Result) error {
	ev = t.announce(ev)
	s, err := t.slot(BusRef())
	if err != nil {
		return err
	}
	bus, ok := s.now.(Bus)
	if !ok {
		return nil
	}
	routed := bus.Route(ev)
	if len(routed) == 0 {
		return nil
	}
	if t.hops == MaxRoutings {
		t.announce(bus.escalate(ev))
		return nil
	}
	t.hops++
	defer func() { t.hops-- }()
	for _, e := range routed {
		if err := t.carry(BusRef(), e, res); err != nil {
			return err
		}
	}
	return nil
}

// announce gives an announcement its id and time.
func (t *Batch) announce(ev effects.Event) effects.Event {
	ev.ID = t.eventID(len(t.events))
	ev.Timestamp = t.clock.Now
	t.events = append(t.events, ev)
	return ev
}

// translate turns the inner effects that 003 names into the events that they
// are for other machines.
func (t *Batch) translate(from effects.Ref, e effects.Inner) error {
	switch e := e.(type) {
	case effects.AcquireLock:
		t.send(from, LockRef(e.Namespace, e.Tenant, e.Name), LockAcquire{
			Name: e.Name, Namespace: e.Namespace, Tenant: e.Tenant, Holder: e.Holder, Owner: Owner{Ref: from, N: e.N}, TTLMS: e.TTLMS,
		})
	case effects.ReleaseLock:
		t.send(from, LockRef(e.Namespace, e.Tenant, e.Name), LockRelease{Owner: Owner{Ref: from, N: e.N}})
	case effects.AcquireSemaphore:
		t.send(from, SemaphoreRef(e.Namespace, e.Tenant, e.Name), SemaphoreAcquire{
			Name: e.Name, Namespace: e.Namespace, Tenant: e.Tenant, Holder: e.Holder, Owner: Owner{Ref: from, N: e.N}, Slots: e.Slots, Total: e.Total, TTLMS: e.TTLMS,
		})
	case effects.ReleaseSemaphore:
		t.send(from, SemaphoreRef(e.Namespace, e.Tenant, e.Name), SemaphoreRelease{Owner: Owner{Ref: from, N: e.N}})
	case effects.DeadLetter:
		item, ok := e.Item.(QueueItem)
		if !ok {
			return fmt.Errorf("%s dead-letters %T, which is no item of a queue", from, e.Item)
		}
		t.send(from, e.Queue, QueueDeadLetter{Item: item})
	case effects.WakeWorker:
		t.wake(from, e.Worker)
	case effects.Checkpoint:
		t.send(from, effects.Ref{Kind: KindPipeline, ID: e.Pipeline}, PipelineCheckpoint{Message: e.Message})
	default:
		return fmt.Errorf("%s asks for %T, which nobody carries out", from, e)
	}
	return nil
}

// wake wakes a worker once, however many items call for it: it looks at the queue
// only then. A thousand items that come back at once would otherwise leave room for
// ten wakes each, see [MaxDeliveries].
func (t *Batch) wake(from, worker effects.Ref) {
	if t.waking[worker] {
		return
	}
	if t.waking == nil {
		t.waking = make(map[effects.Ref]bool)
	}
	t.waking[worker] = true
	t.send(from, worker, WorkerWake{})
}

// eventID derives the id of an announcement (UUID version 8): 48 bits of the
// batch's number, then the place in the batch.
func (t *Batch) eventID(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], t.seq<<16)
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	id[6] = 0x80
	id[8] = 0x80
	return id
}
