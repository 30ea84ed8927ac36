package httpapi

import (
	"cmp"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// A token that is bound to tools acquires, renews and releases locks and slots of its tenant, as
// its pipelines do; it breaks none, and configures no semaphores. It sees who holds them, but no
// machine by its id, and no fencing token but its own.

func (s *Server) lockRoutes() []route {
	locks := namedMachines[core.Lock, core.LockEvent]{s: s, what: "lock", get: s.engine.Locks().Get, send: s.engine.Locks().Send, out: shownLock, remains: http.StatusOK}
	breaking := locks // the token is refused before its body is read
	breaking.may = forAll
	return []route{
		{"GET", "/v1/locks", anyToken | lists, listing[core.Lock, core.Lock]{
			find:  byStatus(s.engine.Locks().List),
			scope: func(l core.Lock) (string, string) { return l.Namespace, l.Tenant },
			out:   shownTo(shownLock),
			size:  func(l core.Lock) int { return 1024 + 256*len(l.Waiters) },
		}.page(s, "locks")},
		{"GET", "/v1/locks/{name}", anyToken, locks.show},
		{"POST", "/v1/locks/{name}/acquire", writingToken, tellNamed(locks, false, acquireLock)},
		{"POST", "/v1/locks/{name}/renew", writingToken, tellNamed(locks, false, renewLock)},
		{"POST", "/v1/locks/{name}/release", writingToken, tellNamed(locks, false, releaseLock)},
		{"POST", "/v1/locks/{name}/break", writingToken, tellNamed(breaking, true, breakLock)},
	}
}

// forAll refuses a token that is bound to tools what affects machines that the token does not
// see: it may not break their locks, nor change how many of them may go on.
func forAll(c *call) error {
	return c.token.notBoundToTools("break leases or configure semaphores, which others use too")
}

// notOfRun refuses to act in the name of a run. Other machines hold locks as what
// they are; a run is known by its name, which others could give too.
func notOfRun(holder string) error {
	if _, ok := core.RunOfLockHolder(holder); ok {
		return failf(http.StatusBadRequest, "holder: %q is a run of a job, which releases its locks itself: use another name, or break the lock", clip(holder))
	}
	return nil
}

// acquireLock acquires a lock that is free. A lock that another one holds is answered
// with 409, and is not waited for.
func acquireLock(c *call, n named, b *wire.AcquireRequest) (core.LockEvent, error) {
	return core.LockAcquire{Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Holder: b.Holder, TTLMS: b.TTLMS, By: c.actor}, notOfRun(b.Holder)
}

func renewLock(c *call, _ named, b *wire.HolderRequest) (core.LockEvent, error) {
	return core.LockRenew{Holder: b.Holder, Token: b.Token, TTLMS: b.TTLMS, By: c.actor}, cmp.Or(notOfRun(b.Holder), withToken(b.Token))
}

func releaseLock(c *call, _ named, b *wire.ReleaseRequest) (core.LockEvent, error) {
	return core.LockRelease{Holder: b.Holder, Token: b.Token, By: c.actor, Force: b.Force}, cmp.Or(notOfRun(b.Holder), mayRelease(c, b))
}

// withToken refuses what is asked in the name of a holder without the fencing token: anybody
// can read the name.
func withToken(token uint64) error {
	if token == 0 {
		return failf(http.StatusBadRequest, `token: missing: give the fencing token that acquire has answered as "token"`)
	}
	return nil
}

// mayRelease asks for the fencing token, which an admin may do without by force.
func mayRelease(c *call, b *wire.ReleaseRequest) error {
	switch {
	case !b.Force:
		return withToken(b.Token)
	case !c.token.Admin:
		return failf(http.StatusForbidden, "force: token: %q is not an admin's: give the fencing token instead", c.token.Name)
	}
	return nil
}

func breakLock(c *call, _ named, b *wire.Reason) (core.LockEvent, error) {
	reason, err := reasonOr(*b, "broken", c)
	return core.LockBreak{Reason: reason, By: c.actor}, err
}

func (s *Server) semaphoreRoutes() []route {
	semaphores := namedMachines[core.Semaphore, core.SemaphoreEvent]{
		s: s, what: "semaphore", get: s.engine.Semaphores().Get, send: s.engine.Semaphores().Send, out: shownSemaphore, remains: http.StatusOK,
	}
	return []route{
		{"GET", "/v1/semaphores", anyToken | lists, listing[core.Semaphore, core.Semaphore]{
			find:  byStatus(s.engine.Semaphores().List),
			scope: func(m core.Semaphore) (string, string) { return m.Namespace, m.Tenant },
			out:   shownTo(shownSemaphore),
			size:  func(m core.Semaphore) int { return 1024 + 256*(len(m.Waiters)+len(m.Holders)) },
		}.page(s, "semaphores")},
		{"GET", "/v1/semaphores/{name}", anyToken, func(w http.ResponseWriter, r *http.Request, c *call) error {
			m, _, err := semaphores.visible(r, c)
			if err != nil {
				return err
			}
			c.tag(w, r, m)
			by, err := s.declaredBy(r.Context(), m.Ref(), "")
			return reply(w, wire.SemaphoreDetail{Semaphore: semaphores.shown(c, m), Declared: by}, err)
		}},
		{"PUT", "/v1/semaphores/{name}", writingToken | edits, tellNamed(semaphores, false, configureSemaphore)},
		{"POST", "/v1/semaphores/{name}/acquire", writingToken, tellNamed(semaphores, false, acquireSlots)},
		{"POST", "/v1/semaphores/{name}/renew", writingToken, tellNamed(semaphores, false, renewSlots)},
		{"POST", "/v1/semaphores/{name}/release", writingToken, tellNamed(semaphores, false, releaseSlots)},
		{"POST", "/v1/semaphores/{name}/break", writingToken, tellNamed(semaphores, true, breakSlots)},
	}
}

// configureSemaphore declares a semaphore, or changes its slots; with 0 it is gone once
// the last slot is given back.
func configureSemaphore(c *call, n named, b *wire.SlotsRequest) (core.SemaphoreEvent, error) {
	if err := forAll(c); err != nil {
		return nil, err
	}
	if b.Slots == nil {
		return nil, failf(http.StatusBadRequest, "slots: missing: give a number; 0 removes the declaration")
	}
	return core.SemaphoreConfigure{Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Slots: *b.Slots}, nil
}

func acquireSlots(c *call, n named, b *wire.AcquireSlotsRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreAcquire{
		Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Holder: b.Holder, Slots: b.Slots, Total: b.Total, TTLMS: b.TTLMS, By: c.actor,
	}, nil
}

func renewSlots(c *call, _ named, b *wire.HolderRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreRenew{Holder: b.Holder, Token: b.Token, TTLMS: b.TTLMS, By: c.actor}, withToken(b.Token)
}

func releaseSlots(c *call, _ named, b *wire.ReleaseRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreRelease{Holder: b.Holder, Token: b.Token, By: c.actor, Force: b.Force}, mayRelease(c, b)
}

func breakSlots(c *call, _ named, b *wire.BreakSlotsRequest) (core.SemaphoreEvent, error) {
	if err := forAll(c); err != nil {
		return nil, err
	}
	return core.SemaphoreBreak{Token: b.Token, Reason: cmp.Or(b.Reason, "broken by "+c.actor), By: c.actor}, nil
}
