package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Semaphore has a number of slots, of which each holder holds some
// (003 AcquireSemaphore, D9). It is known by its name within a tenant.
//
//	            configure, acquire with a total        acquire: takes slots, or waits
//	(undeclared) ──────────────────────────▶ declared ◀──┐
//	     ▲                                     │   └─────┘ release, renew, due, break:
//	     └───────── the last slot given back ──┘           those at the head get slots
//
// What was declared by a configuration stays until that is taken back; what was
// declared by the first use goes with the last. The head of the line blocks: a
// large request is not overtaken by small ones.
//
// Invariants, held by property tests:
//   - With each grant, the slots that are held are at most the total.
//   - Slots are taken from a holder only by a release, a lapse or a break.
//   - Each grant has a greater token than all before it, and renewing keeps it.
//   - Waiters are granted in the order in which they came, and nobody passes them.
//   - The head of the line waits only for slots that are not free.
//   - Each grant is told once to its owner, and so is each loss that the owner
//     did not ask for.
//   - Nobody holds and waits, or either of them twice.
//   - A semaphore that is due is not due at that instant after its due event.
//   - A semaphore that nobody uses is configured, gone, or its last token is not
//     behind the logical time.
type Semaphore struct {
	ID         uuid.UUID         `json:"id"` // derived from tenant and name
	Namespace  string            `json:"namespace"`
	Tenant     string            `json:"tenant"`
	Name       string            `json:"name"`
	Total      uint32            `json:"total"`      // slots; 0: not declared any more
	Configured bool              `json:"configured"` // declared by a configuration
	Token      uint64            `json:"token"`      // of the last grant
	Holders    []SemaphoreHolder `json:"holders"`    // in the order of their grants
	Waiters    []SemaphoreWaiter `json:"waiters"`    // in the order in which they came
	CreatedAt  Time              `json:"created_at"`
	ForgetAt   Time              `json:"forget_at"` // of one that nobody uses
}

// SemaphoreHolder holds slots.
type SemaphoreHolder struct {
	Holder string `json:"holder"`
	Owner  Owner  `json:"owner"` // nobody for a holder from outside
	Slots  uint32 `json:"slots"`
	Token  uint64 `json:"token"`
	TTLMS  int64  `json:"ttl_ms"`
	Since  Time   `json:"since"`
	Until  Time   `json:"until"` // the lease lapses then; 0: never
}

// SemaphoreWaiter is a machine that waits for slots.
type SemaphoreWaiter struct {
	Holder string `json:"holder"`
	Owner  Owner  `json:"owner"`
	Slots  uint32 `json:"slots"`
	TTLMS  int64  `json:"ttl_ms"`
	Since  Time   `json:"since"`
}

// SemaphoreRef names the semaphore of that name.
func SemaphoreRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindSemaphore, ID: namedID("semaphore", namespace, tenant, name)}
}

// semaphoreTransition is the application of one event to a semaphore under way.
type semaphoreTransition struct {
	transition
	Semaphore
}

// Apply carries out one transition.
func (s Semaphore) Apply(e SemaphoreEvent, c Clock) (Semaphore, []effects.Effect) {
	t := &semaphoreTransition{transition{clock: c, event: e}, s}
	switch e := e.(type) {
	case SemaphoreConfigure:
		t.configure(e)
	case SemaphoreAcquire:
		t.acquire(e)
	case SemaphoreRelease:
		t.release(e)
	case SemaphoreRenew:
		t.renew(e)
	case SemaphoreDue:
		t.due()
	case SemaphoreBreak:
		t.takeAway(e)
	}
	return concluded(s, t.Semaphore, t.transition)
}

// refuseAbsent refuses the event if the semaphore does not exist.
func (t *semaphoreTransition) refuseAbsent() bool {
	if t.ID == uuid.Nil {
		t.refuse(effects.CodeNotFound, "semaphore not found: "+howToDeclare)
	}
	return t.ID == uuid.Nil
}

const howToDeclare = "configure its slots, or give a total with the first acquire"

// Held gives the slots that are held.
func (s Semaphore) Held() uint64 {
	n := uint64(0)
	for _, h := range s.Holders {
		n += uint64(h.Slots)
	}
	return n
}

// holder gives the index of who holds slots; -1: that one holds none.
func (s Semaphore) holder(c claimant) int {
	return slices.IndexFunc(s.Holders, func(h SemaphoreHolder) bool { return c.is(claimant{h.Holder, h.Owner}) })
}

// waiter gives the index of the claimant among the waiters; -1: it does not wait.
func (s Semaphore) waiter(c claimant) int {
	return slices.IndexFunc(s.Waiters, func(w SemaphoreWaiter) bool { return c.is(claimant{w.Holder, w.Owner}) })
}

// fits reports whether a request could be granted if it were the first.
func (s Semaphore) fits(slots uint32) bool {
	return s.Held()+uint64(slots) <= uint64(s.Total) && len(s.Holders) < MaxHolders
}

// configure: undeclared → declared; declared → with another total, or declared only
// for as long as it is used.
func (t *semaphoreTransition) configure(e SemaphoreConfigure) {
	ref := SemaphoreRef(e.Namespace, e.Tenant, e.Name)
	switch err := e.validate(); {
	case err != nil:
		t.refuse(effects.CodeInvalid, "%v", err)
		return
	case t.ID == uuid.Nil && e.Slots == 0:
		t.refuse(effects.CodeNotFound, "slots: semaphore %q is not there: give at least 1 to declare it", clip(e.Name))
		return
	case t.ID == uuid.Nil:
		t.Semaphore = Semaphore{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: t.clock.Now}
	case t.ID != ref.ID:
		t.refuseName(e.Name)
		return
	}
	t.Total, t.Configured = e.Slots, e.Slots > 0
	t.emit("configured", SemaphoreHolder{Slots: e.Slots}, "")
	var rest []SemaphoreWaiter
	for _, w := range t.Waiters { // who wants more than there ever is would wait for ever
		if w.Slots <= t.Total {
			rest = append(rest, w)
			continue
		}
		t.add(w.Owner.lost(t.Name, fmt.Sprintf("it waits for %d slots, and there are %d by now", w.Slots, t.Total))...)
	}
	t.Waiters = rest
	t.grantWaiters()
	if t.ID != uuid.Nil {
		t.add(effects.Answer{Value: t.Semaphore})
	}
}

// acquire: slots are taken, or an owner waits for them, or a holder's lease is
// renewed.
func (t *semaphoreTransition) acquire(e SemaphoreAcquire) {
	ref := SemaphoreRef(e.Namespace, e.Tenant, e.Name)
	who := e.claimant()
	switch err := e.validate(); {
	case err != nil:
		t.refuse(effects.CodeInvalid, "%v", err)
	case t.ID != uuid.Nil && t.ID != ref.ID:
		t.refuseName(e.Name)
	case t.holder(who) >= 0:
		t.renewByAcquire(e, t.holder(who))
	case t.waiter(who) >= 0:
		t.refuse(effects.CodeConflict, "owner: %s waits for semaphore %q already under number %d", e.Owner.Ref, clip(t.Name), e.Owner.N)
	case t.Total == 0 && e.Total == 0:
		t.refuse(effects.CodeNotFound, "semaphore %q is not declared: %s", clip(e.Name), howToDeclare)
	default:
		t.declare(e, ref)
		t.grantOrWait(e, SemaphoreWaiter{Holder: who.named(), Owner: e.Owner, Slots: max(e.Slots, 1), TTLMS: e.TTLMS, Since: t.clock.Now})
	}
}

// declare gives an undeclared semaphore the total of its first use.
func (t *semaphoreTransition) declare(e SemaphoreAcquire, ref effects.Ref) {
	if t.ID == uuid.Nil {
		t.Semaphore = Semaphore{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: t.clock.Now}
	}
	if t.Total == 0 {
		t.Total = e.Total
	}
}

// grantOrWait grants a request, or lets its owner wait; it refuses what can never be
// granted, and what cannot wait.
func (t *semaphoreTransition) grantOrWait(e SemaphoreAcquire, w SemaphoreWaiter) {
	waits := len(t.Waiters) > 0 || !t.fits(w.Slots)
	switch {
	case w.Slots > t.Total:
		t.refuse(effects.CodeInvalid, "slots: %d are more than the %d that semaphore %q has", w.Slots, t.Total, clip(t.Name))
	case waits && w.Owner.IsZero():
		t.refuse(effects.CodeConflict, "semaphore %q: %d of %d slots are held by %d and %d wait for some: there is no room for %d", clip(t.Name), t.Held(), t.Total, len(t.Holders), len(t.Waiters), w.Slots)
	case waits && len(t.Waiters) >= MaxWaiters:
		t.refuse(effects.CodeConflict, "semaphore %q: %d wait for it already, which is the limit", clip(t.Name), len(t.Waiters))
	case waits:
		t.Waiters = append(slices.Clip(t.Waiters), w)
	default:
		t.grant(w)
		t.answer(e.Owner)
	}
}

// renewByAcquire: a holder from outside that asks for what it holds renews its lease.
func (t *semaphoreTransition) renewByAcquire(e SemaphoreAcquire, i int) {
	h := t.Holders[i]
	switch {
	case !e.Owner.IsZero():
		t.refuse(effects.CodeConflict, "owner: %s holds slots of semaphore %q already under number %d", e.Owner.Ref, clip(t.Name), e.Owner.N)
	case e.Slots != 0 && e.Slots != h.Slots:
		t.refuse(effects.CodeConflict, "slots: %q holds %d of semaphore %q, not %d: release them first", clip(h.Holder), h.Slots, clip(t.Name), e.Slots)
	default:
		t.renewLease(i, e.TTLMS)
		t.answer(e.Owner)
	}
}

// renewLease gives a holder a whole lease from now on.
func (t *semaphoreTransition) renewLease(i int, ttl int64) {
	t.Holders = slices.Clone(t.Holders)
	t.Holders[i].TTLMS, t.Holders[i].Until = ttl, leaseEnd(t.clock.Now, ttl)
}

// answer gives the semaphore to a holder from outside, whom no event can reach.
func (t *semaphoreTransition) answer(o Owner) {
	if o.IsZero() {
		t.add(effects.Answer{Value: t.Semaphore})
	}
}

// grant gives a waiter its slots.
func (t *semaphoreTransition) grant(w SemaphoreWaiter) {
	t.Token, t.ForgetAt = nextToken(t.Token, t.clock), 0
	h := SemaphoreHolder{Holder: w.Holder, Owner: w.Owner, Slots: w.Slots, Token: t.Token, TTLMS: w.TTLMS, Since: t.clock.Now, Until: leaseEnd(t.clock.Now, w.TTLMS)}
	t.Holders = append(slices.Clip(t.Holders), h)
	t.emit("acquired", h, "")
	t.add(h.Owner.granted(t.Name, h.Token, h.Until)...)
}

// grantWaiters grants slots to the first waiters for as long as they suffice. A
// semaphore that nobody uses and no configuration declares is gone.
func (t *semaphoreTransition) grantWaiters() {
	for len(t.Waiters) > 0 && t.fits(t.Waiters[0].Slots) {
		first := t.Waiters[0]
		t.Waiters = without(t.Waiters, 0)
		t.grant(first)
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

func (s Semaphore) used() bool { return s.Configured || len(s.Holders)+len(s.Waiters) > 0 }

// release: slots are given back; a waiter stops waiting.
func (t *semaphoreTransition) release(e SemaphoreRelease) {
	who := e.claimant()
	if t.refuseAbsent() {
		return
	}
	if i := t.waiter(who); i >= 0 {
		t.Waiters = without(t.Waiters, i)
		t.grantWaiters() // it may have been the first, which blocked others
		return
	}
	i, ok := t.findHolder(who, e.Token)
	if !ok {
		return
	}
	t.emit("released", t.Holders[i], "")
	t.Holders = without(t.Holders, i)
	t.grantWaiters()
}

// renew: the holder has a whole lease from now on.
func (t *semaphoreTransition) renew(e SemaphoreRenew) {
	if t.refuseAbsent() {
		return
	}
	if err := checkTTL(e.TTLMS); err != nil {
		t.refuse(effects.CodeInvalid, "%v", err)
		return
	}
	i, ok := t.findHolder(e.claimant(), e.Token)
	if !ok {
		return
	}
	ttl := e.TTLMS
	if ttl == 0 {
		ttl = t.Holders[i].TTLMS
	}
	t.renewLease(i, ttl)
	t.answer(e.Owner)
}

// findHolder gives the index of a holder; it refuses who holds no slots, or no longer
// under that token.
func (t *semaphoreTransition) findHolder(who claimant, token uint64) (i int, ok bool) {
	i = t.holder(who)
	switch {
	case i < 0:
		t.refuse(effects.CodeConflict, "%s holds no slots of semaphore %q", who, clip(t.Name))
	case token != 0 && token != t.Holders[i].Token:
		t.refuse(effects.CodeConflict, "token: %d is not that of %s, who holds slots of semaphore %q by %d", token, who, clip(t.Name), t.Holders[i].Token)
	default:
		return i, true
	}
	return i, false
}

// due: the slots of lapsed leases are given back; a semaphore that nobody uses is gone.
func (t *semaphoreTransition) due() {
	switch {
	case t.refuseAbsent():
	case !lapsed(t.Deadline(), t.clock.Now):
		t.refuse(effects.CodeConflict, "semaphore %q is not due at %s", clip(t.Name), t.clock.Now)
	default:
		t.takeSlots("expired", func(h SemaphoreHolder) (string, bool) {
			return "the lease lapsed at " + h.Until.String(), lapsed(leaseDeadline(h.Until), t.clock.Now)
		})
	}
}

// takeAway: slots are given back, whatever their holder says.
func (t *semaphoreTransition) takeAway(e SemaphoreBreak) {
	if t.refuseAbsent() {
		return
	}
	meant := func(h SemaphoreHolder) (string, bool) {
		return brokenReason(e.By, e.Reason), e.Token == 0 || e.Token == h.Token
	}
	switch err := e.validate(); {
	case err != nil:
		t.refuse(effects.CodeInvalid, "%v", err)
	case len(t.Holders) == 0:
		t.refuse(effects.CodeConflict, "nobody holds slots of semaphore %q: there is nothing to break", clip(t.Name))
	case !slices.ContainsFunc(t.Holders, func(h SemaphoreHolder) bool { _, ok := meant(h); return ok }):
		t.refuse(effects.CodeConflict, "token: nobody holds slots of semaphore %q by %d", clip(t.Name), e.Token)
	default:
		t.takeSlots("broken", meant)
	}
}

// takeSlots takes the slots of some holders away.
func (t *semaphoreTransition) takeSlots(action string, from func(SemaphoreHolder) (reason string, taken bool)) {
	var rest []SemaphoreHolder
	for _, h := range t.Holders {
		reason, taken := from(h)
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
func (t *semaphoreTransition) emit(action string, h SemaphoreHolder, reason string) {
	data := begin(nil)
	data.str("namespace", t.Namespace)
	data.str("tenant", t.Tenant)
	data.str("name", t.Name)
	data.str("holder", h.Holder)
	data.num("slots", uint64(h.Slots))
	data.num("token", h.Token)
	if reason != "" {
		data.str("reason", reason)
	}
	t.announce("semaphore", "semaphore", action, t.ID, data.end())
}

func (t *semaphoreTransition) refuseName(name string) {
	t.refuse(effects.CodeInvalid, "name: %q is not the name of this semaphore, which is %q", clip(name), clip(t.Name))
}

// Ref names the semaphore.
func (s Semaphore) Ref() effects.Ref { return refOf(KindSemaphore, s.ID) }

// Deadline is when the first lease lapses; of one that nobody uses, when it is
// forgotten.
func (s Semaphore) Deadline() Time {
	first := leaseDeadline(s.ForgetAt)
	for _, h := range s.Holders {
		if at := leaseDeadline(h.Until); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// Terms lists the semaphore under all, its tenant, and whether slots are held.
func (s Semaphore) Terms() []effects.Term {
	return listed(s.CreatedAt, HeldTerm(len(s.Holders) > 0), s.Namespace, s.Tenant)
}

// AppendJSON appends the stored form.
func (s Semaphore) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }
