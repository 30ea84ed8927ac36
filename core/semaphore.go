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
//   - What somebody has acquired for a holder from outside nobody else renews, nor
//     releases without force.
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
	Owner  Owner  `json:"owner"`        // nobody for a holder from outside
	By     string `json:"by,omitempty"` // who acquired them for a holder from outside; empty: it was not said
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

// Apply carries out one transition.
func (s Semaphore) Apply(e SemaphoreEvent, c Clock) (Semaphore, []effects.Effect) {
	t := &leaseTransition{transition: transition{clock: c, event: e}, Semaphore: s, leaseWords: semaphoreWords}
	switch e := e.(type) {
	case SemaphoreConfigure:
		t.configure(e)
	case SemaphoreAcquire:
		t.acquire(SemaphoreRef(e.Namespace, e.Tenant, e.Name), e)
	case SemaphoreRelease:
		t.release(claimant{e.Holder, e.Owner, e.By, e.Force}, e.Token)
	case SemaphoreRenew:
		t.renew(claimant{e.Holder, e.Owner, e.By, false}, e.Token, e.TTLMS)
	case SemaphoreDue:
		t.due()
	case SemaphoreBreak:
		t.takeAway(e)
	}
	return concluded(s, t.Semaphore, t.transition)
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
	return slices.IndexFunc(s.Holders, func(h SemaphoreHolder) bool { return c.is(claimant{holder: h.Holder, owner: h.Owner}) })
}

// waiter gives the index of the claimant among the waiters; -1: it does not wait.
func (s Semaphore) waiter(c claimant) int {
	return slices.IndexFunc(s.Waiters, func(w SemaphoreWaiter) bool { return c.is(claimant{holder: w.Holder, owner: w.Owner}) })
}

// fits reports whether a request could be granted if it were the first.
func (s Semaphore) fits(slots uint32) bool {
	return s.Held()+uint64(slots) <= uint64(s.Total) && len(s.Holders) < MaxHolders
}

func (s Semaphore) used() bool { return s.Configured || len(s.Holders)+len(s.Waiters) > 0 }

// configure: undeclared → declared; declared → with another total, or declared only
// for as long as it is used.
func (t *leaseTransition) configure(e SemaphoreConfigure) {
	ref := SemaphoreRef(e.Namespace, e.Tenant, e.Name)
	switch {
	case t.invalid(e.validate()):
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

// Terms lists the semaphore under all, and within its tenant under whether slots are held.
func (s Semaphore) Terms() []effects.Term {
	return listed(s.CreatedAt, HeldTerm(len(s.Holders) > 0), s.scope())
}

// AppendJSON appends the stored form.
func (s Semaphore) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }
