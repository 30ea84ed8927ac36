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

// Apply carries out one transition.
func (s Semaphore) Apply(e SemaphoreEvent, c Clock) (Semaphore, []effects.Effect) {
	if configure, ok := e.(SemaphoreConfigure); ok {
		return s.configure(configure, c)
	}
	if acquire, ok := e.(SemaphoreAcquire); ok {
		return s.acquire(acquire, c)
	}
	if s.ID == uuid.Nil {
		return s, s.refuse(e, effects.CodeNotFound, "semaphore not found: "+howToDeclare)
	}
	switch e := e.(type) {
	case SemaphoreRelease:
		return s.release(e, c)
	case SemaphoreRenew:
		return s.renew(e, c)
	case SemaphoreDue:
		return s.due(e, c)
	case SemaphoreBreak:
		return s.broken(e, c)
	case SemaphoreConfigure, SemaphoreAcquire:
	}
	return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a semaphore takes no event %q", e.EventType()))
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

func (s Semaphore) holds(c claimant) int {
	return slices.IndexFunc(s.Holders, func(h SemaphoreHolder) bool { return c.is(claimant{h.Holder, h.Owner}) })
}

func (s Semaphore) waits(c claimant) int {
	return slices.IndexFunc(s.Waiters, func(w SemaphoreWaiter) bool { return c.is(claimant{w.Holder, w.Owner}) })
}

// fits reports whether a request could be granted if it were at the head.
func (s Semaphore) fits(slots uint32) bool {
	return s.Held()+uint64(slots) <= uint64(s.Total) && len(s.Holders) < MaxHolders
}

// configure: undeclared → declared; declared → with another total, or as long as
// it is used.
func (s Semaphore) configure(e SemaphoreConfigure, c Clock) (Semaphore, []effects.Effect) {
	ref := SemaphoreRef(e.Namespace, e.Tenant, e.Name)
	if err := e.validate(); err != nil {
		return s, refused(ref, e, effects.CodeInvalid, err.Error())
	}
	switch {
	case s.ID == uuid.Nil && e.Slots == 0:
		return s, refused(ref, e, effects.CodeNotFound, fmt.Sprintf("slots: semaphore %q is not there: give at least 1 to declare it", clip(e.Name)))
	case s.ID == uuid.Nil:
		s = Semaphore{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: c.Now}
	case s.ID != ref.ID:
		return s, s.refuseName(e, e.Name)
	}
	s.Total, s.Configured = e.Slots, e.Slots > 0
	effs := []effects.Effect{s.announce("configured", SemaphoreHolder{Slots: e.Slots}, "")}
	var rest []SemaphoreWaiter
	for _, w := range s.Waiters { // who wants more than there ever is would wait for ever
		if w.Slots <= s.Total {
			rest = append(rest, w)
			continue
		}
		effs = append(effs, w.Owner.lost(s.Name, fmt.Sprintf("it waits for %d slots, and there are %d by now", w.Slots, s.Total))...)
	}
	s.Waiters = rest
	s, more := s.settle(c)
	effs = append(effs, more...)
	if s.ID != uuid.Nil {
		effs = append(effs, effects.Answer{Value: s})
	}
	return s, effs
}

// acquire: slots are taken, or an owner waits for them, or a holder's lease lasts
// from now on.
func (s Semaphore) acquire(e SemaphoreAcquire, c Clock) (Semaphore, []effects.Effect) {
	ref := SemaphoreRef(e.Namespace, e.Tenant, e.Name)
	if err := e.validate(); err != nil {
		return s, refused(ref, e, effects.CodeInvalid, err.Error())
	}
	if s.ID != uuid.Nil && s.ID != ref.ID {
		return s, s.refuseName(e, e.Name)
	}
	who := e.claimant()
	if i := s.holds(who); i >= 0 {
		return s.again(e, i, c)
	}
	if s.waits(who) >= 0 {
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("owner: %s waits for semaphore %q already under number %d", e.Owner.Ref, clip(s.Name), e.Owner.N))
	}
	was := s
	if s.Total == 0 {
		if e.Total == 0 {
			return s, refused(ref, e, effects.CodeNotFound, fmt.Sprintf("semaphore %q is not declared: %s", clip(e.Name), howToDeclare))
		}
		if s.ID == uuid.Nil {
			s = Semaphore{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Name: e.Name, CreatedAt: c.Now}
		}
		s.Total = e.Total
	}
	next := SemaphoreWaiter{Holder: who.named(), Owner: e.Owner, Slots: max(e.Slots, 1), TTLMS: e.TTLMS, Since: c.Now}
	if effs := s.refuseRequest(e, next); effs != nil {
		return was, effs
	}
	if len(s.Waiters) == 0 && s.fits(next.Slots) {
		s, effs := s.grant(next, c)
		return s, append(effs, s.answer(e.Owner)...)
	}
	s.Waiters = append(slices.Clip(s.Waiters), next)
	return s, nil
}

// refuseRequest refuses what can never be granted, and what cannot wait.
func (s Semaphore) refuseRequest(e SemaphoreAcquire, w SemaphoreWaiter) []effects.Effect {
	waits := len(s.Waiters) > 0 || !s.fits(w.Slots)
	switch {
	case w.Slots > s.Total:
		return s.refuse(e, effects.CodeInvalid, fmt.Sprintf("slots: %d are more than the %d that semaphore %q has", w.Slots, s.Total, clip(s.Name)))
	case waits && w.Owner.IsZero():
		return s.refuse(e, effects.CodeConflict, fmt.Sprintf("semaphore %q: %d of %d slots are held by %d and %d wait for some: there is no room for %d", clip(s.Name), s.Held(), s.Total, len(s.Holders), len(s.Waiters), w.Slots))
	case waits && len(s.Waiters) >= MaxWaiters:
		return s.refuse(e, effects.CodeConflict, fmt.Sprintf("semaphore %q: %d wait for it already, which is the limit", clip(s.Name), len(s.Waiters)))
	}
	return nil
}

// again: a holder from outside that asks for what it holds renews its lease.
func (s Semaphore) again(e SemaphoreAcquire, i int, c Clock) (Semaphore, []effects.Effect) {
	h := s.Holders[i]
	switch {
	case !e.Owner.IsZero():
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("owner: %s holds slots of semaphore %q already under number %d", e.Owner.Ref, clip(s.Name), e.Owner.N))
	case e.Slots != 0 && e.Slots != h.Slots:
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("slots: %q holds %d of semaphore %q, not %d: release them first", clip(h.Holder), h.Slots, clip(s.Name), e.Slots))
	}
	s = s.prolonged(i, e.TTLMS, c)
	return s, s.answer(e.Owner)
}

// prolonged lets a holder's lease last from now on.
func (s Semaphore) prolonged(i int, ttl int64, c Clock) Semaphore {
	s.Holders = slices.Clone(s.Holders)
	s.Holders[i].TTLMS, s.Holders[i].Until = ttl, leaseEnd(c.Now, ttl)
	return s
}

// answer gives the semaphore to a holder from outside, whom no event can reach.
func (s Semaphore) answer(o Owner) []effects.Effect {
	if !o.IsZero() {
		return nil
	}
	return []effects.Effect{effects.Answer{Value: s}}
}

func (s Semaphore) grant(w SemaphoreWaiter, c Clock) (Semaphore, []effects.Effect) {
	s.Token, s.ForgetAt = nextToken(s.Token, c), 0
	h := SemaphoreHolder{Holder: w.Holder, Owner: w.Owner, Slots: w.Slots, Token: s.Token, TTLMS: w.TTLMS, Since: c.Now, Until: leaseEnd(c.Now, w.TTLMS)}
	s.Holders = append(slices.Clip(s.Holders), h)
	effs := []effects.Effect{s.announce("acquired", h, "")}
	return s, append(effs, h.Owner.granted(s.Name, h.Token, h.Until)...)
}

// settle grants slots to the head of the line for as long as they suffice. What
// nobody uses and nobody has configured is gone.
func (s Semaphore) settle(c Clock) (Semaphore, []effects.Effect) {
	var effs []effects.Effect
	for len(s.Waiters) > 0 && s.fits(s.Waiters[0].Slots) {
		next := s.Waiters[0]
		s.Waiters = without(s.Waiters, 0)
		granted, more := s.grant(next, c)
		s, effs = granted, append(effs, more...)
	}
	switch {
	case s.used():
		s.ForgetAt = 0
	case forgettable(s.Token, c):
		return Semaphore{}, effs
	default: // the next first use declares it again
		s.Total, s.ForgetAt = 0, leaseEnd(c.Now, forgetAfterMS)
	}
	return s, effs
}

func (s Semaphore) used() bool { return s.Configured || len(s.Holders)+len(s.Waiters) > 0 }

// release: slots are given back; a waiter waits no longer.
func (s Semaphore) release(e SemaphoreRelease, c Clock) (Semaphore, []effects.Effect) {
	who := e.claimant()
	if i := s.waits(who); i >= 0 {
		s.Waiters = without(s.Waiters, i)
		return s.settle(c) // it may have been the head, which blocked others
	}
	i, effs := s.find(e, who, e.Token)
	if effs != nil {
		return s, effs
	}
	effs = []effects.Effect{s.announce("released", s.Holders[i], "")}
	s.Holders = without(s.Holders, i)
	s, more := s.settle(c)
	return s, append(effs, more...)
}

// renew: a lease lasts from now on.
func (s Semaphore) renew(e SemaphoreRenew, c Clock) (Semaphore, []effects.Effect) {
	if err := checkTTL(e.TTLMS); err != nil {
		return s, s.refuse(e, effects.CodeInvalid, err.Error())
	}
	i, effs := s.find(e, e.claimant(), e.Token)
	if effs != nil {
		return s, effs
	}
	ttl := e.TTLMS
	if ttl == 0 {
		ttl = s.Holders[i].TTLMS
	}
	s = s.prolonged(i, ttl, c)
	return s, s.answer(e.Owner)
}

// find gives the place of a holder, or the refusal of who is none, or is no
// longer under that token.
func (s Semaphore) find(e SemaphoreEvent, who claimant, token uint64) (int, []effects.Effect) {
	i := s.holds(who)
	switch {
	case i < 0:
		return i, s.refuse(e, effects.CodeConflict, fmt.Sprintf("%s holds no slots of semaphore %q", who, clip(s.Name)))
	case token != 0 && token != s.Holders[i].Token:
		return i, s.refuse(e, effects.CodeConflict, fmt.Sprintf("token: %d is not that of %s, who holds slots of semaphore %q by %d", token, who, clip(s.Name), s.Holders[i].Token))
	}
	return i, nil
}

// due: the slots of lapsed leases are given back; one that nobody uses is gone.
func (s Semaphore) due(e SemaphoreDue, c Clock) (Semaphore, []effects.Effect) {
	if !lapsed(s.Deadline(), c.Now) {
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("semaphore %q is not due at %s", clip(s.Name), c.Now))
	}
	return s.take(c, "expired", func(h SemaphoreHolder) (string, bool) {
		return "the lease lapsed at " + h.Until.String(), lapsed(leaseDeadline(h.Until), c.Now)
	})
}

// broken: slots are given back, whatever their holder says.
func (s Semaphore) broken(e SemaphoreBreak, c Clock) (Semaphore, []effects.Effect) {
	if err := e.validate(); err != nil {
		return s, s.refuse(e, effects.CodeInvalid, err.Error())
	}
	meant := func(h SemaphoreHolder) (string, bool) {
		return brokenReason(e.By, e.Reason), e.Token == 0 || e.Token == h.Token
	}
	switch {
	case len(s.Holders) == 0:
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("nobody holds slots of semaphore %q: there is nothing to break", clip(s.Name)))
	case !slices.ContainsFunc(s.Holders, func(h SemaphoreHolder) bool { _, ok := meant(h); return ok }):
		return s, s.refuse(e, effects.CodeConflict, fmt.Sprintf("token: nobody holds slots of semaphore %q by %d", clip(s.Name), e.Token))
	}
	return s.take(c, "broken", meant)
}

// take takes the slots of some holders away.
func (s Semaphore) take(c Clock, action string, from func(SemaphoreHolder) (reason string, taken bool)) (Semaphore, []effects.Effect) {
	var effs []effects.Effect
	var rest []SemaphoreHolder
	for _, h := range s.Holders {
		reason, taken := from(h)
		if !taken {
			rest = append(rest, h)
			continue
		}
		effs = append(effs, s.announce(action, h, reason))
		effs = append(effs, h.Owner.lost(s.Name, reason)...)
	}
	s.Holders = rest
	s, more := s.settle(c)
	return s, append(effs, more...)
}

// announce says on the bus what became of a holder.
func (s Semaphore) announce(action string, h SemaphoreHolder, reason string) effects.Effect {
	data := begin(nil)
	data.str("namespace", s.Namespace)
	data.str("tenant", s.Tenant)
	data.str("name", s.Name)
	data.str("holder", h.Holder)
	data.num("slots", uint64(h.Slots))
	data.num("token", h.Token)
	if reason != "" {
		data.str("reason", reason)
	}
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "semaphore", Action: action},
		Source: effects.EventSource{Component: "semaphore", ID: s.ID},
		Data:   data.end(),
	}}
}

// Ref names the semaphore.
func (s Semaphore) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindSemaphore, ID: s.ID}
}

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
	return []effects.Term{
		{Name: TermAll, At: s.CreatedAt, Counted: true},
		{Name: HeldTerm(len(s.Holders) > 0), At: s.CreatedAt, Counted: true},
		{Name: ScopeTerm(s.Namespace, s.Tenant), At: s.CreatedAt},
	}
}

// AppendJSON appends the stored form.
func (s Semaphore) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Semaphore) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(SemaphoreEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a semaphore takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Semaphore) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindSemaphore, ID: s.ID}, e, code, reason)
}

func (s Semaphore) refuseName(e Event, name string) []effects.Effect {
	return s.refuse(e, effects.CodeInvalid, fmt.Sprintf("name: %q is not the name of this semaphore, which is %q", clip(name), clip(s.Name)))
}
