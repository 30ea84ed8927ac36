package core

import (
	"errors"
	"fmt"
)

// SemaphoreEvent is an event of [Semaphore]. The set is closed.
//
//sumtype:decl
type SemaphoreEvent interface {
	Event
	semaphoreEvent()
}

type (
	// SemaphoreConfigure declares a semaphore, or changes its total. A lower total
	// takes no slots away. With 0 slots it is declared no longer: it goes when the
	// last slot is given back.
	SemaphoreConfigure struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Tenant    string `json:"tenant"`
		Slots     uint32 `json:"slots"` // in total
	}
	// SemaphoreAcquire asks for slots, as [LockAcquire] asks for a lock.
	SemaphoreAcquire struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Tenant    string `json:"tenant"`
		Holder    string `json:"holder"`
		Owner     Owner  `json:"owner"`
		Slots     uint32 `json:"slots"` // wanted; 0: 1
		// Total declares the semaphore for as long as it is used, where it was not
		// declared; otherwise it is ignored.
		Total uint32 `json:"total"`
		TTLMS int64  `json:"ttl_ms"`
		By    string `json:"by,omitempty"` // as [LockAcquire.By]
	}
	// SemaphoreRelease gives slots back, or ends the waiting for them.
	SemaphoreRelease struct {
		Holder string `json:"holder"`
		Owner  Owner  `json:"owner"`
		Token  uint64 `json:"token,omitempty"` // 0: whichever the holder has
		By     string `json:"by,omitempty"`    // as [LockRelease.By]
		Force  bool   `json:"force,omitempty"` // as [LockRelease.Force]
	}
	// SemaphoreRenew lets a lease last from now on, as [LockRenew].
	SemaphoreRenew struct {
		Holder string `json:"holder"`
		Owner  Owner  `json:"owner"`
		Token  uint64 `json:"token"`
		TTLMS  int64  `json:"ttl_ms"`
		By     string `json:"by,omitempty"` // as [LockRenew.By]
	}
	// SemaphoreDue says that a lease has lapsed, or that a free semaphore can be
	// forgotten.
	SemaphoreDue struct{}
	// SemaphoreBreak takes the slots of one holder away, or those of all.
	SemaphoreBreak struct {
		Token  uint64 `json:"token"` // of the holder; 0: all of them
		Reason string `json:"reason"`
		By     string `json:"by"` // the operator
	}
)

func (SemaphoreConfigure) semaphoreEvent() {}
func (SemaphoreAcquire) semaphoreEvent()   {}
func (SemaphoreRelease) semaphoreEvent()   {}
func (SemaphoreRenew) semaphoreEvent()     {}
func (SemaphoreDue) semaphoreEvent()       {}
func (SemaphoreBreak) semaphoreEvent()     {}

// EventType gives the discriminator in the journal.
func (SemaphoreConfigure) EventType() string { return "configure" }
func (SemaphoreAcquire) EventType() string   { return "acquire" }
func (SemaphoreRelease) EventType() string   { return "release" }
func (SemaphoreRenew) EventType() string     { return "renew" }
func (SemaphoreDue) EventType() string       { return "due" }
func (SemaphoreBreak) EventType() string     { return "break" }

// owner is who is told where the slots are refused.
func (e SemaphoreAcquire) owner() Owner { return e.Owner }

func (e SemaphoreConfigure) validate() error {
	return errors.Join(checkLockName(e.Name, e.Namespace, e.Tenant), checkSlots("slots", e.Slots))
}

func (e SemaphoreAcquire) validate() error {
	return errors.Join(checkLockName(e.Name, e.Namespace, e.Tenant), claimant{holder: e.Holder, owner: e.Owner}.validate(), checkTTL(e.TTLMS),
		checkSlots("slots", e.Slots), checkSlots("total", e.Total), checkName("by", e.By, false))
}

func (e SemaphoreBreak) validate() error {
	return errors.Join(checkName("by", e.By, false), checkText("reason", e.Reason))
}

func checkSlots(field string, n uint32) error {
	if n > MaxSemaphoreSlots {
		return fmt.Errorf("%s: %d are more than %d", field, n, MaxSemaphoreSlots)
	}
	return nil
}

// semaphoreEvents are the events of Semaphore, as the journal has them.
var semaphoreEvents = []eventType{
	event[SemaphoreConfigure](), event[SemaphoreAcquire](), event[SemaphoreRelease](), event[SemaphoreRenew](),
	event[SemaphoreDue](), event[SemaphoreBreak](),
}
