package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Lock is held by one holder at a time (003 AcquireLock, D9). It is known by its
// name within a tenant, and exists as long as somebody holds it.
//
//	           acquire                  acquire of an owner: waits its turn
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

// Apply carries out one transition.
func (l Lock) Apply(e LockEvent, c Clock) (Lock, []effects.Effect) {
	if acquire, ok := e.(LockAcquire); ok {
		return l.acquire(acquire, c)
	}
	if l.ID == uuid.Nil {
		return l, l.refuse(e, effects.CodeNotFound, "lock not found: nobody holds it")
	}
	switch e := e.(type) {
	case LockRelease:
		return l.release(e, c)
	case LockRenew:
		return l.renew(e, c)
	case LockDue:
		return l.due(e, c)
	case LockBreak:
		return l.broken(e, c)
	case LockAcquire:
	}
	return l, l.refuse(e, effects.CodeInvalid, fmt.Sprintf("a lock takes no event %q", e.EventType()))
}

func (l Lock) held() bool { return l.Holder != "" }

func (l Lock) heldBy(c claimant) bool { return l.held() && c.is(claimant{l.Holder, l.Owner}) }

func (l Lock) waits(c claimant) int {
	return slices.IndexFunc(l.Waiters, func(w LockWaiter) bool { return c.is(claimant{w.Holder, w.Owner}) })
}

// acquire: free → held; held → held, and an owner waits, or the holder's lease
// lasts from now on.
func (l Lock) acquire(e LockAcquire, c Clock) (Lock, []effects.Effect) {
	ref := LockRef(e.Namespace, e.Tenant, e.Name)
	if err := e.validate(); err != nil {
		return l, refused(ref, e, effects.CodeInvalid, err.Error())
	}
	if l.ID != uuid.Nil && l.ID != ref.ID {
		return l, l.refuse(e, effects.CodeInvalid, fmt.Sprintf("name: %q is not the name of this lock, which is %q", clip(e.Name), clip(l.Name)))
	}
	who := e.claimant()
	next := LockWaiter{Holder: who.named(), Owner: e.Owner, TTLMS: e.TTLMS, Since: c.Now}
	switch {
	case !l.held():
		if l.ID == uuid.Nil {
			l = Lock{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: c.Now}
		}
		l, effs := l.grant(next, c)
		return l, append(effs, l.answer(e.Owner)...)
	case e.Owner.IsZero() && l.heldBy(who):
		l.TTLMS, l.Until = e.TTLMS, leaseEnd(c.Now, e.TTLMS)
		return l, l.answer(e.Owner)
	case e.Owner.IsZero():
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q is held by %q%s", clip(l.Name), clip(l.Holder), untilText(l.Until)))
	case l.heldBy(who):
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("owner: %s holds lock %q already under number %d", e.Owner.Ref, clip(l.Name), e.Owner.N))
	case l.waits(who) >= 0:
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("owner: %s waits for lock %q already under number %d", e.Owner.Ref, clip(l.Name), e.Owner.N))
	case len(l.Waiters) >= MaxWaiters:
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q: %d wait for it already, which is the limit", clip(l.Name), len(l.Waiters)))
	}
	l.Waiters = append(slices.Clip(l.Waiters), next)
	return l, nil
}

// answer gives the lock to a holder from outside, whom no event can reach.
func (l Lock) answer(o Owner) []effects.Effect {
	if !o.IsZero() {
		return nil
	}
	return []effects.Effect{effects.Answer{Value: l}}
}

// grant: free → held by the one who is next.
func (l Lock) grant(w LockWaiter, c Clock) (Lock, []effects.Effect) {
	l.Holder, l.Owner, l.TTLMS = w.Holder, w.Owner, w.TTLMS
	l.Token, l.Since, l.Until, l.ForgetAt = nextToken(l.Token, c), c.Now, leaseEnd(c.Now, w.TTLMS), 0
	return l, append(l.announce("acquired", ""), w.Owner.granted(l.Name, l.Token, l.Until)...)
}

// passOn: held → held by the next one, or free.
func (l Lock) passOn(c Clock) (Lock, []effects.Effect) {
	l.Holder, l.Owner, l.TTLMS, l.Since, l.Until = "", Owner{}, 0, 0, 0
	if len(l.Waiters) > 0 {
		next := l.Waiters[0]
		l.Waiters = without(l.Waiters, 0)
		return l.grant(next, c)
	}
	if forgettable(l.Token, c) {
		return Lock{}, nil
	}
	l.ForgetAt = leaseEnd(c.Now, forgetAfterMS)
	return l, nil
}

// release: held → passed on; a waiter waits no longer.
func (l Lock) release(e LockRelease, c Clock) (Lock, []effects.Effect) {
	who := e.claimant()
	if i := l.waits(who); i >= 0 {
		l.Waiters = without(l.Waiters, i)
		return l, nil
	}
	if effs := l.refuseStranger(e, who, e.Token); effs != nil {
		return l, effs
	}
	effs := l.announce("released", "")
	l, more := l.passOn(c)
	return l, append(effs, more...)
}

// renew: held → held, from now on.
func (l Lock) renew(e LockRenew, c Clock) (Lock, []effects.Effect) {
	if err := checkTTL(e.TTLMS); err != nil {
		return l, l.refuse(e, effects.CodeInvalid, err.Error())
	}
	if effs := l.refuseStranger(e, e.claimant(), e.Token); effs != nil {
		return l, effs
	}
	if e.TTLMS != 0 {
		l.TTLMS = e.TTLMS
	}
	l.Until = leaseEnd(c.Now, l.TTLMS)
	return l, l.answer(e.Owner)
}

// refuseStranger refuses who does not hold the lock, or no longer under that
// token; nil for the holder.
func (l Lock) refuseStranger(e LockEvent, who claimant, token uint64) []effects.Effect {
	switch {
	case !l.held():
		return l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q is free: %s does not hold it", clip(l.Name), who))
	case !l.heldBy(who):
		return l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q is held by %q%s: %s does not hold it", clip(l.Name), clip(l.Holder), untilText(l.Until), who))
	case token != 0 && token != l.Token:
		return l.refuse(e, effects.CodeConflict, fmt.Sprintf("token: %d is not that of %s, who holds lock %q by %d", token, who, clip(l.Name), l.Token))
	}
	return nil
}

// due: a lease that has lapsed → passed on; a free lock → gone.
func (l Lock) due(e LockDue, c Clock) (Lock, []effects.Effect) {
	switch {
	case !lapsed(l.Deadline(), c.Now):
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q is not due at %s", clip(l.Name), c.Now))
	case !l.held():
		return l.passOn(c)
	}
	reason := "the lease lapsed at " + l.Until.String()
	effs := append(l.announce("expired", ""), l.Owner.lost(l.Name, reason)...)
	l, more := l.passOn(c)
	return l, append(effs, more...)
}

// broken: held → passed on, whatever the holder says.
func (l Lock) broken(e LockBreak, c Clock) (Lock, []effects.Effect) {
	if err := e.validate(); err != nil {
		return l, l.refuse(e, effects.CodeInvalid, err.Error())
	}
	if !l.held() {
		return l, l.refuse(e, effects.CodeConflict, fmt.Sprintf("lock %q is free: there is nothing to break", clip(l.Name)))
	}
	reason := brokenReason(e.By, e.Reason)
	effs := append(l.announce("broken", reason), l.Owner.lost(l.Name, reason)...)
	l, more := l.passOn(c)
	return l, append(effs, more...)
}

// announce says on the bus what became of the holder.
func (l Lock) announce(action, reason string) []effects.Effect {
	data := begin(nil)
	data.str("namespace", l.Namespace)
	data.str("tenant", l.Tenant)
	data.str("name", l.Name)
	data.str("holder", l.Holder)
	data.num("token", l.Token)
	if reason != "" {
		data.str("reason", reason)
	}
	return []effects.Effect{effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "lock", Action: action},
		Source: effects.EventSource{Component: "lock", ID: l.ID},
		Data:   data.end(),
	}}}
}

// Ref names the lock.
func (l Lock) Ref() effects.Ref {
	if l.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindLock, ID: l.ID}
}

// Deadline is when the lease lapses; of a free lock, when it is forgotten.
func (l Lock) Deadline() Time {
	if l.held() {
		return leaseDeadline(l.Until)
	}
	return leaseDeadline(l.ForgetAt)
}

// Terms lists the lock under all, its tenant, and whether it is held.
func (l Lock) Terms() []effects.Term {
	return []effects.Term{
		{Name: TermAll, At: l.CreatedAt, Counted: true},
		{Name: HeldTerm(l.held()), At: l.CreatedAt, Counted: true},
		{Name: ScopeTerm(l.Namespace, l.Tenant), At: l.CreatedAt},
	}
}

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
