package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// leaseTransition is the application of one event under way to a semaphore, or to a
// lock, which is a semaphore of one slot.
type leaseTransition struct {
	transition
	Semaphore
	leaseWords
}

// leaseWords are the words in which locks and semaphores differ.
type leaseWords struct {
	kind   string // of the machine
	goods  string // what a holder has, before the name
	absent string // why the machine is not found
}

// read-only: the words of each machine that grants leases.
var (
	lockWords      = leaseWords{"lock", "lock", "nobody holds it"}
	semaphoreWords = leaseWords{"semaphore", "slots of semaphore", howToDeclare}
)

// isLock reports whether the machine is a lock.
func (t *leaseTransition) isLock() bool { return t.leaseWords == lockWords }

// lockText says who holds the lock: what a refusal begins with.
func (t *leaseTransition) lockText() string {
	if len(t.Holders) == 0 {
		return fmt.Sprintf("lock %q is free", clip(t.Name))
	}
	h := t.Holders[0]
	return fmt.Sprintf("lock %q is held by %q%s", clip(t.Name), clip(h.Holder), untilText(h.Until))
}

// refuseAbsent refuses the event if the machine does not exist.
func (t *leaseTransition) refuseAbsent() bool {
	if t.ID == uuid.Nil {
		t.refuse(effects.CodeNotFound, "%s not found: %s", t.kind, t.absent)
	}
	return t.ID == uuid.Nil
}

func (t *leaseTransition) refuseName(name string) {
	t.refuse(effects.CodeInvalid, "name: %q is not the name of this %s, which is %q", clip(name), t.kind, clip(t.Name))
}

// acquire: slots are taken, or an owner waits for them, or a holder's lease is
// renewed.
func (t *leaseTransition) acquire(ref effects.Ref, e SemaphoreAcquire) {
	who := claimant{e.Holder, e.Owner, e.By, false}
	switch {
	case t.invalid(e.validate()):
	case t.ID != uuid.Nil && t.ID != ref.ID:
		t.refuseName(e.Name)
	case t.holder(who) >= 0:
		t.renewByAcquire(e, t.holder(who))
	case t.waiter(who) >= 0:
		t.refuse(effects.CodeConflict, "owner: %s waits for %s %q already under number %d", e.Owner.Ref, t.kind, clip(t.Name), e.Owner.N)
	case t.Total == 0 && e.Total == 0:
		t.refuse(effects.CodeNotFound, "semaphore %q is not declared: %s", clip(e.Name), howToDeclare)
	default:
		t.declare(e, ref)
		t.grantOrWait(SemaphoreWaiter{Holder: who.named(), Owner: e.Owner, Slots: max(e.Slots, 1), TTLMS: e.TTLMS, Since: t.clock.Now}, e.By)
	}
}

// declare gives a machine that does not exist, or is undeclared, the total of its
// first use.
func (t *leaseTransition) declare(e SemaphoreAcquire, ref effects.Ref) {
	if t.ID == uuid.Nil {
		t.Semaphore = Semaphore{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: t.clock.Now}
	}
	if t.Total == 0 {
		t.Total = e.Total
	}
}

// grantOrWait grants a request, or lets its owner wait; it refuses what can never be
// granted, and what cannot wait.
func (t *leaseTransition) grantOrWait(w SemaphoreWaiter, by string) {
	waits := len(t.Waiters) > 0 || !t.fits(w.Slots)
	switch {
	case w.Slots > t.Total:
		t.refuse(effects.CodeInvalid, "slots: %d are more than the %d that semaphore %q has", w.Slots, t.Total, clip(t.Name))
	case waits && w.Owner.IsZero() && t.isLock():
		t.refuse(effects.CodeConflict, "%s", t.lockText())
	case waits && w.Owner.IsZero():
		t.refuse(effects.CodeConflict, "semaphore %q: %d of %d slots are held by %d and %d wait for some: there is no room for %d", clip(t.Name), t.Held(), t.Total, len(t.Holders), len(t.Waiters), w.Slots)
	case waits && len(t.Waiters) >= MaxWaiters:
		t.refuse(effects.CodeConflict, "%s %q: %d wait for it already, which is the limit", t.kind, clip(t.Name), len(t.Waiters))
	case waits:
		t.Waiters = append(slices.Clip(t.Waiters), w)
	default:
		t.grant(w, by)
		t.answer(w.Owner)
	}
}

// renewByAcquire: a holder from outside that asks for what it holds renews its lease.
func (t *leaseTransition) renewByAcquire(e SemaphoreAcquire, i int) {
	h := t.Holders[i]
	switch {
	case h.By != e.By && h.By != "" && e.By != "":
		t.refuseOther(h)
	case !e.Owner.IsZero():
		t.refuse(effects.CodeConflict, "owner: %s holds %s %q already under number %d", e.Owner.Ref, t.goods, clip(t.Name), e.Owner.N)
	case e.Slots != 0 && e.Slots != h.Slots:
		t.refuse(effects.CodeConflict, "slots: %q holds %d of semaphore %q, not %d: release them first", clip(h.Holder), h.Slots, clip(t.Name), e.Slots)
	default:
		t.renewLease(i, e.TTLMS)
		t.answer(e.Owner)
	}
}

// renewLease gives a holder a whole lease from now on.
func (t *leaseTransition) renewLease(i int, ttl int64) {
	t.Holders = slices.Clone(t.Holders)
	t.Holders[i].TTLMS, t.Holders[i].Until = ttl, leaseEnd(t.clock.Now, ttl)
}

// answer gives the machine to a holder from outside, whom no event can reach.
func (t *leaseTransition) answer(o Owner) {
	switch {
	case !o.IsZero():
	case t.isLock():
		t.transition.answer(lockOf(t.Semaphore))
	default:
		t.transition.answer(t.Semaphore)
	}
}

// grant gives a waiter its slots.
func (t *leaseTransition) grant(w SemaphoreWaiter, by string) {
	t.Token, t.ForgetAt = nextToken(t.Token, t.clock), 0
	h := SemaphoreHolder{Holder: w.Holder, Owner: w.Owner, By: by, Slots: w.Slots, Token: t.Token, TTLMS: w.TTLMS, Since: t.clock.Now, Until: leaseEnd(t.clock.Now, w.TTLMS)}
	t.Holders = append(slices.Clip(t.Holders), h)
	t.emit("acquired", h, "")
	t.add(h.Owner.granted(t.Name, h.Token, h.Until)...)
}

// grantWaiters grants slots to the first waiters for as long as they suffice. A
// machine that nobody uses and no configuration declares is gone.
func (t *leaseTransition) grantWaiters() {
	for len(t.Waiters) > 0 && t.fits(t.Waiters[0].Slots) {
		first := t.Waiters[0]
		t.Waiters = without(t.Waiters, 0)
		t.grant(first, "")
	}
	switch {
	case t.used():
		t.ForgetAt = 0
	case forgettable(t.Token, t.clock):
		t.Semaphore = Semaphore{}
	default: // the next first use declares it anew
		t.Total, t.ForgetAt = 0, leaseEnd(t.clock.Now, forgetAfterMS)
	}
}

// release: slots are given back; a waiter stops waiting.
func (t *leaseTransition) release(who claimant, token uint64) {
	if t.refuseAbsent() {
		return
	}
	if i := t.waiter(who); i >= 0 {
		t.Waiters = without(t.Waiters, i)
		t.grantWaiters() // it may have been the first, which blocked others
		return
	}
	i, ok := t.findHolder(who, token)
	if !ok {
		return
	}
	reason := ""
	if who.force {
		reason = "forced by " + validText(who.by)
	}
	t.emit("released", t.Holders[i], reason)
	t.Holders = without(t.Holders, i)
	t.grantWaiters()
}

// renew: the holder has a whole lease from now on, by default as long as the last.
func (t *leaseTransition) renew(who claimant, token uint64, ttl int64) {
	if t.refuseAbsent() {
		return
	}
	if t.invalid(checkTTL(ttl)) {
		return
	}
	if i, ok := t.findHolder(who, token); ok {
		t.renewLease(i, cmp.Or(ttl, t.Holders[i].TTLMS))
		t.answer(who.owner)
	}
}

// findHolder gives the index of a holder; it refuses who holds nothing, or no longer
// under that token.
func (t *leaseTransition) findHolder(who claimant, token uint64) (i int, ok bool) {
	i = t.holder(who)
	switch {
	case i < 0 && t.isLock():
		t.refuse(effects.CodeConflict, "%s: %s does not hold it", t.lockText(), who)
	case i < 0:
		t.refuse(effects.CodeConflict, "%s holds no slots of semaphore %q", who, clip(t.Name))
	case who.force:
		return i, true
	case who.by != "" && t.Holders[i].By != "" && who.by != t.Holders[i].By:
		t.refuseOther(t.Holders[i])
	case who.by != "" && token != t.Holders[i].Token:
		t.refuse(effects.CodeConflict, "token: %d is not the one by which %s holds %s %q: give the token that acquire has answered", token, who, t.goods, clip(t.Name))
	case token != 0 && token != t.Holders[i].Token:
		t.refuse(effects.CodeConflict, "token: %d is not that of %s, who holds %s %q by %d", token, who, t.goods, clip(t.Name), t.Holders[i].Token)
	default:
		return i, true
	}
	return i, false
}

// refuseOther refuses what somebody asks in the name of a holder for whom another one has
// acquired it.
func (t *leaseTransition) refuseOther(h SemaphoreHolder) {
	t.refuse(effects.CodeConflict, "%s %q: somebody else has acquired under the name %q, and alone may renew and release: use another name", t.goods, clip(t.Name), clip(h.Holder))
}

// due: the slots of lapsed leases are given back; a machine that nobody uses is gone.
func (t *leaseTransition) due() {
	switch {
	case t.refuseAbsent():
	case !lapsed(t.Deadline(), t.clock.Now):
		t.refuse(effects.CodeConflict, "%s %q is not due at %s", t.kind, clip(t.Name), t.clock.Now)
	default:
		t.takeSlots("expired", func(h SemaphoreHolder) (string, bool) {
			return "the lease lapsed at " + h.Until.String(), lapsed(leaseDeadline(h.Until), t.clock.Now)
		})
	}
}

// takeAway: slots are given back, whatever their holder says.
func (t *leaseTransition) takeAway(e SemaphoreBreak) {
	if t.refuseAbsent() {
		return
	}
	meant := func(h SemaphoreHolder) (string, bool) {
		return brokenReason(e.By, e.Reason), e.Token == 0 || e.Token == h.Token
	}
	switch {
	case t.invalid(e.validate()):
	case len(t.Holders) == 0 && t.isLock():
		t.refuse(effects.CodeConflict, "%s: there is nothing to break", t.lockText())
	case len(t.Holders) == 0:
		t.refuse(effects.CodeConflict, "nobody holds slots of semaphore %q: there is nothing to break", clip(t.Name))
	case !slices.ContainsFunc(t.Holders, func(h SemaphoreHolder) bool { _, ok := meant(h); return ok }):
		t.refuse(effects.CodeConflict, "token: nobody holds slots of semaphore %q by %d", clip(t.Name), e.Token)
	default:
		t.takeSlots("broken", meant)
	}
}

// takeSlots takes the slots of those holders away that loses chooses.
func (t *leaseTransition) takeSlots(action string, loses func(SemaphoreHolder) (reason string, taken bool)) {
	var rest []SemaphoreHolder
	for _, h := range t.Holders {
		reason, taken := loses(h)
		if !taken {
			rest = append(rest, h)
			continue
		}
		t.emit(action, h, reason)
		t.add(h.Owner.lost(t.Name, reason)...)
	}
	t.Holders = rest
	t.grantWaiters()
}

// emit announces what became of a holder.
func (t *leaseTransition) emit(action string, h SemaphoreHolder, reason string) {
	data := begin(nil)
	data.str("namespace", t.Namespace)
	data.str("tenant", t.Tenant)
	data.str("name", t.Name)
	data.str("holder", h.Holder)
	if !t.isLock() {
		data.num("slots", uint64(h.Slots))
	}
	data.num("token", h.Token)
	if reason != "" && (action != "expired" || !t.isLock()) { // a lock's lapse has none
		data.str("reason", reason)
	}
	t.announce(t.kind, t.kind, action, t.ID, data.end())
}
