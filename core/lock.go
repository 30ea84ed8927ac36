package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Lock is held by one holder at a time (003 AcquireLock, D9). It is known by its
// name within a tenant, and exists as long as somebody holds it.
//
//	           acquire                  acquire of an owner: waits
//	(free) ───────────────▶ held ◀──┐ ◀─┐
//	   ▲                     │  │   │   │
//	   │                     │  └───┘   │ acquire of the holder, renew
//	   │   nobody waits      ▼          │
//	   └─────────────── release, due, break ── the next one gets it
//
// A lock that is free again is gone, but for one whose last token is ahead of the
// logical time, since it was granted several times in one step: that one is kept
// for a minute, so that no token is given twice.
//
// Invariants, held by property tests:
//   - A lock has at most one holder, who changes only with a grant, a release, a
//     lapse or a break.
//   - Each grant has a greater token than all before it, and renewing keeps it.
//   - What somebody has acquired for a holder from outside nobody else renews, nor
//     releases without force.
//   - Waiters are granted in the order in which they came.
//   - Nobody waits for a lock that is free, and at most MaxWaiters wait.
//   - Each grant is told once to its owner, and so is each loss that the owner
//     did not ask for.
//   - A lock that is due is not due at that instant after its due event.
//   - A lock that nobody holds is gone, or its last token is not behind the
//     logical time.
type Lock struct {
	ID        uuid.UUID    `json:"id"` // derived from tenant and name
	Namespace string       `json:"namespace"`
	Tenant    string       `json:"tenant"`
	Name      string       `json:"name"`
	Holder    string       `json:"holder"`       // empty: it is free
	Owner     Owner        `json:"owner"`        // the machine that holds it; nobody for a holder from outside
	By        string       `json:"by,omitempty"` // who acquired it for a holder from outside; empty: it was not said
	Token     uint64       `json:"token"`        // of the last grant: greater than all before it (fencing)
	TTLMS     int64        `json:"ttl_ms"`       // as asked for; 0: until it is released
	Since     Time         `json:"since"`        // of the grant
	Until     Time         `json:"until"`        // the lease lapses then; 0: never
	Waiters   []LockWaiter `json:"waiters"`
	CreatedAt Time         `json:"created_at"`
	ForgetAt  Time         `json:"forget_at"` // of a free lock
}

// LockWaiter is a machine that waits for a lock.
type LockWaiter struct {
	Holder string `json:"holder"`
	Owner  Owner  `json:"owner"`
	TTLMS  int64  `json:"ttl_ms"`
	Since  Time   `json:"since"`
}

// LockRef names the lock of that name.
func LockRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindLock, ID: namedID("lock", namespace, tenant, name)}
}

// Apply carries out one transition: that of a semaphore of one slot.
func (l Lock) Apply(e LockEvent, c Clock) (Lock, []effects.Effect) {
	t := &leaseTransition{transition: transition{clock: c, event: e}, Semaphore: l.semaphore(), leaseWords: lockWords}
	switch e := e.(type) {
	case LockAcquire:
		t.acquire(LockRef(e.Namespace, e.Tenant, e.Name), e.ofSemaphore())
	case LockRelease:
		t.release(claimant{e.Holder, e.Owner, e.By, e.Force}, e.Token)
	case LockRenew:
		t.renew(claimant{e.Holder, e.Owner, e.By, false}, e.Token, e.TTLMS)
	case LockDue:
		t.due()
	case LockBreak:
		t.takeAway(SemaphoreBreak{Reason: e.Reason, By: e.By})
	}
	return concluded(l, lockOf(t.Semaphore), t.transition)
}

// semaphore gives the lock as a semaphore of one slot.
func (l Lock) semaphore() Semaphore {
	s := Semaphore{
		ID: l.ID, Namespace: l.Namespace, Tenant: l.Tenant, Name: l.Name, Total: 1,
		Token: l.Token, CreatedAt: l.CreatedAt, ForgetAt: l.ForgetAt,
	}
	if l.held() {
		s.Holders = []SemaphoreHolder{{
			Holder: l.Holder, Owner: l.Owner, By: l.By, Slots: 1, Token: l.Token, TTLMS: l.TTLMS, Since: l.Since, Until: l.Until,
		}}
	}
	for _, w := range l.Waiters {
		s.Waiters = append(s.Waiters, SemaphoreWaiter{Holder: w.Holder, Owner: w.Owner, Slots: 1, TTLMS: w.TTLMS, Since: w.Since})
	}
	return s
}

// lockOf gives the lock that a semaphore of one slot stands for.
func lockOf(s Semaphore) Lock {
	l := Lock{ID: s.ID, Namespace: s.Namespace, Tenant: s.Tenant, Name: s.Name, Token: s.Token, CreatedAt: s.CreatedAt, ForgetAt: s.ForgetAt}
	for _, h := range s.Holders {
		l.Holder, l.Owner, l.By, l.TTLMS, l.Since, l.Until = h.Holder, h.Owner, h.By, h.TTLMS, h.Since, h.Until
	}
	for _, w := range s.Waiters {
		l.Waiters = append(l.Waiters, LockWaiter{Holder: w.Holder, Owner: w.Owner, TTLMS: w.TTLMS, Since: w.Since})
	}
	return l
}

func (l Lock) held() bool { return l.Holder != "" }

// Ref names the lock.
func (l Lock) Ref() effects.Ref { return refOf(KindLock, l.ID) }

// Deadline is when the lease lapses; of a free lock, when it is forgotten.
func (l Lock) Deadline() Time {
	if l.held() {
		return leaseDeadline(l.Until)
	}
	return leaseDeadline(l.ForgetAt)
}

// Terms lists the lock under all, and within its tenant under whether it is held.
func (l Lock) Terms() []effects.Term {
	return listed(l.CreatedAt, HeldTerm(l.held()), l.scope())
}

// AppendJSON appends the stored form.
func (l Lock) AppendJSON(b []byte) []byte { return appendMarshaled(b, l) }
