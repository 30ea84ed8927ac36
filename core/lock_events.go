package core

// LockEvent is an event of [Lock]. The set is closed.
//
//sumtype:decl
type LockEvent interface {
	Event
	lockEvent()
}

type (
	// LockAcquire asks for a lock. With an owner it waits in line and is told by
	// [Granted]; without one it is refused with [effects.CodeConflict] while another
	// one holds it, and answered with the lock otherwise ([effects.Answer] of a
	// [Lock]). A holder without owner that holds it already renews its lease, and
	// keeps its token.
	LockAcquire struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Tenant    string `json:"tenant"`
		Holder    string `json:"holder"` // of an owner it may be empty
		Owner     Owner  `json:"owner"`
		TTLMS     int64  `json:"ttl_ms"` // 0: until it is released
		// By is who asks for a holder from outside: from then on nobody else renews or
		// releases in its name. Empty: whoever gives the holder's name may.
		By string `json:"by,omitempty"`
	}
	// LockRelease gives a lock back, or ends the waiting for it.
	LockRelease struct {
		Holder string `json:"holder"`
		Owner  Owner  `json:"owner"`
		Token  uint64 `json:"token,omitempty"` // 0: whichever the holder has
		By     string `json:"by,omitempty"`    // who asks; empty: nobody is compared with
		// Force releases a lock that By has not acquired, without its token.
		Force bool `json:"force,omitempty"`
	}
	// LockRenew lets a lease last from now on. Without owner it is answered with
	// the lock.
	LockRenew struct {
		Holder string `json:"holder"`
		Owner  Owner  `json:"owner"`
		Token  uint64 `json:"token"`        // 0: whichever the holder has
		TTLMS  int64  `json:"ttl_ms"`       // 0: as long as it was asked for
		By     string `json:"by,omitempty"` // who asks; empty: nobody is compared with
	}
	// LockDue says that the lease has lapsed, or that a free lock can be forgotten.
	LockDue struct{}
	// LockBreak takes a lock away from its holder: an operator's last resort.
	LockBreak struct {
		Reason string `json:"reason"`
		By     string `json:"by"` // the operator
	}
)

func (LockAcquire) lockEvent() {}
func (LockRelease) lockEvent() {}
func (LockRenew) lockEvent()   {}
func (LockDue) lockEvent()     {}
func (LockBreak) lockEvent()   {}

// EventType gives the discriminator in the journal.
func (LockAcquire) EventType() string { return "acquire" }
func (LockRelease) EventType() string { return "release" }
func (LockRenew) EventType() string   { return "renew" }
func (LockDue) EventType() string     { return "due" }
func (LockBreak) EventType() string   { return "break" }

// owner is who is told where the lock is refused.
func (e LockAcquire) owner() Owner { return e.Owner }

// ofSemaphore is the request for the one slot of a semaphore that the lock is.
func (e LockAcquire) ofSemaphore() SemaphoreAcquire {
	return SemaphoreAcquire{
		Name: e.Name, Namespace: e.Namespace, Tenant: e.Tenant, Holder: e.Holder, Owner: e.Owner, Total: 1, TTLMS: e.TTLMS, By: e.By,
	}
}

// lockEvents are the events of Lock, as the journal has them.
var lockEvents = []eventType{
	event[LockAcquire](), event[LockRelease](), event[LockRenew](), event[LockDue](), event[LockBreak](),
}
