package core

import (
	"slices"

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
	Holder    string       `json:"holder"` // empty: it is free
	Owner     Owner        `json:"owner"`  // the machine that holds it; nobody for a holder from outside
	Token     uint64       `json:"token"`  // of the last grant: greater than all before it (fencing)
	TTLMS     int64        `json:"ttl_ms"` // as asked for; 0: until it is released
	Since     Time         `json:"since"`  // of the grant
	Until     Time         `json:"until"`  // the lease lapses then; 0: never
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

// lockTransition is the application of one event to a lock under way.
type lockTransition struct {
	transition
	Lock
}

// Apply carries out one transition.
func (l Lock) Apply(e LockEvent, c Clock) (Lock, []effects.Effect) {
	t := &lockTransition{transition{clock: c, event: e}, l}
	switch e := e.(type) {
	case LockAcquire:
		t.acquire(e)
	case LockRelease:
		t.release(e)
	case LockRenew:
		t.renew(e)
	case LockDue:
		t.due()
	case LockBreak:
		t.takeAway(e)
	}
	return concluded(l, t.Lock, t.transition)
}

// refuseAbsent refuses the event if nobody holds the lock or waits for it.
func (t *lockTransition) refuseAbsent() bool {
	if t.ID == uuid.Nil {
		t.refuse(effects.CodeNotFound, "lock not found: nobody holds it")
	}
	return t.ID == uuid.Nil
}

func (l Lock) held() bool { return l.Holder != "" }

func (l Lock) heldBy(c claimant) bool { return l.held() && c.is(claimant{l.Holder, l.Owner}) }

// waiter gives the index of the claimant among the waiters; -1: it does not wait.
func (l Lock) waiter(c claimant) int {
	return slices.IndexFunc(l.Waiters, func(w LockWaiter) bool { return c.is(claimant{w.Holder, w.Owner}) })
}

// acquire: free → held; held → held, and an owner waits, or the holder's lease is
// renewed.
func (t *lockTransition) acquire(e LockAcquire) {
	ref := LockRef(e.Namespace, e.Tenant, e.Name)
	who := e.claimant()
	next := LockWaiter{Holder: who.named(), Owner: e.Owner, TTLMS: e.TTLMS, Since: t.clock.Now}
	switch err := e.validate(); {
	case err != nil:
		t.refuse(effects.CodeInvalid, "%v", err)
	case t.ID != uuid.Nil && t.ID != ref.ID:
		t.refuse(effects.CodeInvalid, "name: %q is not the name of this lock, which is %q", clip(e.Name), clip(t.Name))
	case !t.held():
		if t.ID == uuid.Nil {
			t.Lock = Lock{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: t.clock.Now}
		}
		t.grant(next)
		t.answer(e.Owner)
	case e.Owner.IsZero() && t.heldBy(who):
		t.TTLMS, t.Until = e.TTLMS, leaseEnd(t.clock.Now, e.TTLMS)
		t.answer(e.Owner)
	case e.Owner.IsZero():
		t.refuse(effects.CodeConflict, "lock %q is held by %q%s", clip(t.Name), clip(t.Holder), untilText(t.Until))
	case t.heldBy(who):
		t.refuse(effects.CodeConflict, "owner: %s holds lock %q already under number %d", e.Owner.Ref, clip(t.Name), e.Owner.N)
	case t.waiter(who) >= 0:
		t.refuse(effects.CodeConflict, "owner: %s waits for lock %q already under number %d", e.Owner.Ref, clip(t.Name), e.Owner.N)
	case len(t.Waiters) >= MaxWaiters:
		t.refuse(effects.CodeConflict, "lock %q: %d wait for it already, which is the limit", clip(t.Name), len(t.Waiters))
	default:
		t.Waiters = append(slices.Clip(t.Waiters), next)
	}
}

// answer gives the lock to a holder from outside, whom no event can reach.
func (t *lockTransition) answer(o Owner) {
	if o.IsZero() {
		t.add(effects.Answer{Value: t.Lock})
	}
}

// grant: free → held by the first waiter.
func (t *lockTransition) grant(w LockWaiter) {
	t.Holder, t.Owner, t.TTLMS = w.Holder, w.Owner, w.TTLMS
	t.Token, t.Since, t.Until, t.ForgetAt = nextToken(t.Token, t.clock), t.clock.Now, leaseEnd(t.clock.Now, w.TTLMS), 0
	t.emit("acquired", "")
	t.add(w.Owner.granted(t.Name, t.Token, t.Until)...)
}

// passOn: held → held by the first waiter, or free.
func (t *lockTransition) passOn() {
	t.Holder, t.Owner, t.TTLMS, t.Since, t.Until = "", Owner{}, 0, 0, 0
	switch {
	case len(t.Waiters) > 0:
		first := t.Waiters[0]
		t.Waiters = without(t.Waiters, 0)
		t.grant(first)
	case forgettable(t.Token, t.clock):
		t.Lock = Lock{}
	default:
		t.ForgetAt = leaseEnd(t.clock.Now, forgetAfterMS)
	}
}

// release: held → passed on; a waiter stops waiting.
func (t *lockTransition) release(e LockRelease) {
	who := e.claimant()
	if t.refuseAbsent() {
		return
	}
	if i := t.waiter(who); i >= 0 {
		t.Waiters = without(t.Waiters, i)
		return
	}
	if t.refuseStranger(who, e.Token) {
		return
	}
	t.emit("released", "")
	t.passOn()
}

// renew: held → held, for a whole lease from now on.
func (t *lockTransition) renew(e LockRenew) {
	if t.refuseAbsent() {
		return
	}
	if err := checkTTL(e.TTLMS); err != nil {
		t.refuse(effects.CodeInvalid, "%v", err)
		return
	}
	if t.refuseStranger(e.claimant(), e.Token) {
		return
	}
	if e.TTLMS != 0 {
		t.TTLMS = e.TTLMS
	}
	t.Until = leaseEnd(t.clock.Now, t.TTLMS)
	t.answer(e.Owner)
}

// refuseStranger refuses who does not hold the lock, or no longer under that token.
func (t *lockTransition) refuseStranger(who claimant, token uint64) bool {
	switch {
	case !t.held():
		t.refuse(effects.CodeConflict, "lock %q is free: %s does not hold it", clip(t.Name), who)
	case !t.heldBy(who):
		t.refuse(effects.CodeConflict, "lock %q is held by %q%s: %s does not hold it", clip(t.Name), clip(t.Holder), untilText(t.Until), who)
	case token != 0 && token != t.Token:
		t.refuse(effects.CodeConflict, "token: %d is not that of %s, who holds lock %q by %d", token, who, clip(t.Name), t.Token)
	default:
		return false
	}
	return true
}

// due: a lease that has lapsed → passed on; a free lock → gone.
func (t *lockTransition) due() {
	switch {
	case t.refuseAbsent():
	case !lapsed(t.Deadline(), t.clock.Now):
		t.refuse(effects.CodeConflict, "lock %q is not due at %s", clip(t.Name), t.clock.Now)
	case !t.held():
		t.passOn()
	default:
		t.emit("expired", "")
		t.add(t.Owner.lost(t.Name, "the lease lapsed at "+t.Until.String())...)
		t.passOn()
	}
}

// takeAway: held → passed on, whatever the holder says.
func (t *lockTransition) takeAway(e LockBreak) {
	if t.refuseAbsent() {
		return
	}
	if err := e.validate(); err != nil {
		t.refuse(effects.CodeInvalid, "%v", err)
		return
	}
	if !t.held() {
		t.refuse(effects.CodeConflict, "lock %q is free: there is nothing to break", clip(t.Name))
		return
	}
	reason := brokenReason(e.By, e.Reason)
	t.emit("broken", reason)
	t.add(t.Owner.lost(t.Name, reason)...)
	t.passOn()
}

// emit announces what became of the holder.
func (t *lockTransition) emit(action, reason string) {
	data := begin(nil)
	data.str("namespace", t.Namespace)
	data.str("tenant", t.Tenant)
	data.str("name", t.Name)
	data.str("holder", t.Holder)
	data.num("token", t.Token)
	if reason != "" {
		data.str("reason", reason)
	}
	t.announce("lock", "lock", action, t.ID, data.end())
}

// Ref names the lock.
func (l Lock) Ref() effects.Ref { return refOf(KindLock, l.ID) }

// Deadline is when the lease lapses; of a free lock, when it is forgotten.
func (l Lock) Deadline() Time {
	if l.held() {
		return leaseDeadline(l.Until)
	}
	return leaseDeadline(l.ForgetAt)
}

// Terms lists the lock under all, its tenant, and whether it is held.
func (l Lock) Terms() []effects.Term {
	return listed(l.CreatedAt, HeldTerm(l.held()), l.Namespace, l.Tenant)
}

// AppendJSON appends the stored form.
func (l Lock) AppendJSON(b []byte) []byte { return appendMarshaled(b, l) }
