package core

import (
	"encoding/json"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// Hold is a lock, or slots of a semaphore, that a pipeline has or waits for.
type Hold struct {
	Name      string `json:"name"`
	Semaphore bool   `json:"semaphore,omitempty"`
	Slots     uint32 `json:"slots,omitempty"`
	TTLMS     int64  `json:"ttl_ms,omitempty"`
	N         uint32 `json:"n"`
	Granted   bool   `json:"granted,omitempty"`
	Token     uint64 `json:"token,omitempty"` // the fencing token
	Until     Time   `json:"until,omitempty"`
}

// same reports whether both are of the same lock or semaphore.
func (h Hold) same(o Hold) bool { return o.Name == h.Name && o.Semaphore == h.Semaphore }

// result is what the phase that took the lock gives.
func (h Hold) result() json.RawMessage {
	o := begin(nil)
	o.str("name", h.Name)
	o.num("token", h.Token)
	return canonical(o.end())
}

// acquire requests a lock or slots, under the number that it gives.
func (t *pipelineTransition) acquire(h Hold) uint32 {
	h.N, h.Granted, h.Token, h.Until = t.number(), false, 0, 0
	t.Holds = slices.Concat(t.Holds, []Hold{h})
	holder := "pipeline:" + t.ID.String()
	if h.Semaphore {
		t.add(effects.AcquireSemaphore{Name: h.Name, Namespace: t.Namespace, Tenant: t.Tenant, Holder: holder, N: h.N, Slots: h.Slots, TTLMS: h.TTLMS})
	} else {
		t.add(effects.AcquireLock{Name: h.Name, Namespace: t.Namespace, Tenant: t.Tenant, Holder: holder, N: h.N, TTLMS: h.TTLMS})
	}
	return h.N
}

// release gives back a lock or slots, or ends the waiting for them.
func (t *pipelineTransition) release(h Hold) {
	if h.Semaphore {
		t.add(effects.ReleaseSemaphore{Name: h.Name, Namespace: t.Namespace, Tenant: t.Tenant, N: h.N})
	} else {
		t.add(effects.ReleaseLock{Name: h.Name, Namespace: t.Namespace, Tenant: t.Tenant, N: h.N})
	}
}

// unlock releases what has that name.
func (t *pipelineTransition) unlock(name string) {
	var kept []Hold
	for _, h := range t.Holds {
		if h.Name == name {
			t.release(h)
		} else {
			kept = append(kept, h)
		}
	}
	t.Holds = kept
	regain := slices.DeleteFunc(slices.Clone(t.Regain), func(h Hold) bool { return h.Name == name })
	t.Regain = nilIfEmpty(regain, len(regain))
}

// releaseLocks gives back all locks and slots; a retry regains them.
func (t *pipelineTransition) releaseLocks() {
	for _, h := range t.Holds {
		t.noteRegain(h)
		t.release(h)
	}
	t.Holds = nil
}

// noteRegain notes what a retry is to regain first.
func (t *pipelineTransition) noteRegain(h Hold) {
	if len(t.Regain) >= MaxHolds || slices.ContainsFunc(t.Regain, h.same) {
		return
	}
	t.Regain = slices.Concat(t.Regain, []Hold{{Name: h.Name, Semaphore: h.Semaphore, Slots: h.Slots, TTLMS: h.TTLMS}})
}

// regainLocks begins an attempt once the pipeline has regained the locks and slots
// that it had when the last one failed: one after the other, in the order in which it
// took them first, so that no two pipelines wait for each other that would not have
// done so then. Phases that clean up go without.
func (t *pipelineTransition) regainLocks() outcome {
	if len(t.Regain) == 0 || t.Failing != nil || t.numbersRunOut() {
		return t.beginAction()
	}
	t.Waiting = Waiting{For: WaitRegain, Deadline: t.attemptLimit(t.phase())}
	return t.regainNext()
}

// regainNext requests the next of the locks and slots to be regained. The list stays
// whole until all are, so that whatever comes between keeps its order.
func (t *pipelineTransition) regainNext() outcome {
	if slices.ContainsFunc(t.Holds, func(h Hold) bool { return !h.Granted }) {
		return outcome{waits: true}
	}
	for _, h := range t.Regain {
		if !slices.ContainsFunc(t.Holds, h.same) {
			t.acquire(h)
			return outcome{waits: true}
		}
	}
	t.Regain = nil
	return t.beginAction()
}
