package core

import (
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// carryRequest carries the inner effects that 003 names, which are events for other
// machines.
func (t *Batch) carryRequest(from effects.Ref, e effects.Inner) error {
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
		t.send(from, e.Worker, WorkerWake{})
	case effects.Checkpoint:
		t.send(from, effects.Ref{Kind: KindPipeline, ID: e.Pipeline}, PipelineCheckpoint{Message: e.Message})
	default:
		return fmt.Errorf("%s asks for %T, which nobody carries out", from, e)
	}
	return nil
}
