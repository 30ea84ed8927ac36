package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const (
	aLock      = "lock"
	aSemaphore = "semaphore"
)

func (s *Server) lockRoutes() []route {
	return []route{
		{"GET", "/v1/locks", reading, s.listLocks},
		{"GET", "/v1/locks/{name}", reading, s.getLock},
		{"POST", "/v1/locks/{name}/acquire", writing, s.acquireLock},
		{"POST", "/v1/locks/{name}/renew", writing, s.renewLock},
		{"POST", "/v1/locks/{name}/release", writing, s.releaseLock},
		{"POST", "/v1/locks/{name}/break", writing, s.breakLock},

		{"GET", "/v1/semaphores", reading, s.listSemaphores},
		{"GET", "/v1/semaphores/{name}", reading, s.getSemaphore},
		{"PUT", "/v1/semaphores/{name}", writing, s.putSemaphore},
		{"POST", "/v1/semaphores/{name}/acquire", writing, s.acquireSemaphore},
		{"POST", "/v1/semaphores/{name}/renew", writing, s.renewSemaphore},
		{"POST", "/v1/semaphores/{name}/release", writing, s.releaseSemaphore},
		{"POST", "/v1/semaphores/{name}/break", writing, s.breakSemaphore},
	}
}

// forAll refuses a token that is bound to tools what it could do to machines that
// it may not see: their locks are not its own to break, nor its to count.
func forAll(c *call) error {
	if len(c.token.Tools) > 0 {
		return failf(http.StatusForbidden, "token: %q is bound to some tools: this is about what others do, too", c.token.Name)
	}
	return nil
}

func (s *Server) listLocks(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := lister[core.Lock, core.Lock]{
		list:  s.engine.Locks().List,
		scope: func(l core.Lock) (string, string) { return l.Namespace, l.Tenant },
		sees:  func(_ context.Context, t *Token, l core.Lock) bool { return t.seesScope(l.Namespace, l.Tenant) },
		out:   func(l core.Lock) core.Lock { return l },
		size:  func(l core.Lock) int { return 1024 + 256*len(l.Waiters) },
	}.page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.LockList{Locks: list, NextPageToken: next})
}

func (s *Server) getLock(w http.ResponseWriter, r *http.Request, c *call) error {
	n, err := namedOf(r, c)
	if err != nil {
		return err
	}
	l, err := s.engine.Locks().Get(r.Context(), n.Scope, n.name)
	if err != nil {
		return notFound(aLock, err)
	}
	return writeJSON(w, http.StatusOK, l)
}

// read reads the name in the path and the body of a request about it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, c *call, body any, optional bool) (named, error) {
	n, err := namedOf(r, c)
	if err != nil {
		return n, err
	}
	return n, explain(s.decode(w, r, body, optional), madeHere)
}

// notOfRun refuses to act in the name of a run. Other machines hold locks as what
// they are; a run is known by its name, which others could give too.
func notOfRun(holder string) error {
	if _, ok := core.RunOfLockHolder(holder); ok {
		return failf(http.StatusBadRequest, "holder: %q is a run of a job, which gives its locks back itself: use another name, or break the lock", clip(holder))
	}
	return nil
}

// tellLock answers with the lock; one that nobody holds any more with 204.
func (s *Server) tellLock(w http.ResponseWriter, r *http.Request, n named, ev core.LockEvent) error {
	l, err := s.engine.Locks().Send(r.Context(), n.Scope, n.name, ev)
	if err != nil {
		return err
	}
	if l.Name == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, l)
}

// acquireLock takes a lock that is free; one that another one holds is answered
// with 409, and is not waited for.
func (s *Server) acquireLock(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.AcquireRequest
	n, err := s.read(w, r, c, &b, false)
	if err == nil {
		err = notOfRun(b.Holder)
	}
	if err != nil {
		return err
	}
	return s.tellLock(w, r, n, core.LockAcquire{Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Holder: b.Holder, TTLMS: b.TTLMS})
}

func (s *Server) renewLock(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.HolderRequest
	n, err := s.read(w, r, c, &b, false)
	if err == nil {
		err = notOfRun(b.Holder)
	}
	if err != nil {
		return err
	}
	return s.tellLock(w, r, n, core.LockRenew{Holder: b.Holder, Token: b.Token, TTLMS: b.TTLMS})
}

func (s *Server) releaseLock(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.ReleaseRequest
	n, err := s.read(w, r, c, &b, false)
	if err == nil {
		err = notOfRun(b.Holder)
	}
	if err != nil {
		return err
	}
	return s.tellLock(w, r, n, core.LockRelease{Holder: b.Holder, Token: b.Token})
}

func (s *Server) breakLock(w http.ResponseWriter, r *http.Request, c *call) error {
	n, err := namedOf(r, c)
	if err != nil {
		return err
	}
	if err := forAll(c); err != nil {
		return err
	}
	reason, err := s.reason(w, r, c, "broken")
	if err != nil {
		return err
	}
	return s.tellLock(w, r, n, core.LockBreak{Reason: reason, By: c.actor})
}

func (s *Server) listSemaphores(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := lister[core.Semaphore, core.Semaphore]{
		list:  s.engine.Semaphores().List,
		scope: func(m core.Semaphore) (string, string) { return m.Namespace, m.Tenant },
		sees:  func(_ context.Context, t *Token, m core.Semaphore) bool { return t.seesScope(m.Namespace, m.Tenant) },
		out:   func(m core.Semaphore) core.Semaphore { return m },
		size:  func(m core.Semaphore) int { return 1024 + 256*(len(m.Waiters)+len(m.Holders)) },
	}.page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.SemaphoreList{Semaphores: list, NextPageToken: next})
}

func (s *Server) getSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	n, err := namedOf(r, c)
	if err != nil {
		return err
	}
	m, err := s.engine.Semaphores().Get(r.Context(), n.Scope, n.name)
	if err != nil {
		return notFound(aSemaphore, err)
	}
	return writeJSON(w, http.StatusOK, m)
}

// tellSemaphore answers with the semaphore; one that is gone with 204.
func (s *Server) tellSemaphore(w http.ResponseWriter, r *http.Request, n named, ev core.SemaphoreEvent) error {
	m, err := s.engine.Semaphores().Send(r.Context(), n.Scope, n.name, ev)
	if err != nil {
		return err
	}
	if m.Name == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, http.StatusOK, m)
}

// putSemaphore declares a semaphore, or changes its slots; with 0 it goes once
// the last one is given back.
func (s *Server) putSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.SlotsRequest
	n, err := s.read(w, r, c, &b, false)
	if err == nil {
		err = forAll(c)
	}
	switch {
	case err != nil:
		return err
	case b.Slots == nil:
		return failf(http.StatusBadRequest, "slots: missing: give a number; 0 takes the declaration back")
	}
	return s.tellSemaphore(w, r, n, core.SemaphoreConfigure{Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Slots: *b.Slots})
}

func (s *Server) acquireSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.AcquireSlotsRequest
	n, err := s.read(w, r, c, &b, false)
	if err != nil {
		return err
	}
	return s.tellSemaphore(w, r, n, core.SemaphoreAcquire{
		Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Holder: b.Holder, Slots: b.Slots, Total: b.Total, TTLMS: b.TTLMS,
	})
}

func (s *Server) renewSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.HolderRequest
	n, err := s.read(w, r, c, &b, false)
	if err != nil {
		return err
	}
	return s.tellSemaphore(w, r, n, core.SemaphoreRenew{Holder: b.Holder, Token: b.Token, TTLMS: b.TTLMS})
}

func (s *Server) releaseSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.ReleaseRequest
	n, err := s.read(w, r, c, &b, false)
	if err != nil {
		return err
	}
	return s.tellSemaphore(w, r, n, core.SemaphoreRelease{Holder: b.Holder, Token: b.Token})
}

func (s *Server) breakSemaphore(w http.ResponseWriter, r *http.Request, c *call) error {
	var b wire.BreakSlotsRequest
	n, err := s.read(w, r, c, &b, true)
	if err == nil {
		err = forAll(c)
	}
	if err != nil {
		return err
	}
	if b.Reason == "" {
		b.Reason = "broken by " + c.actor
	}
	return s.tellSemaphore(w, r, n, core.SemaphoreBreak{Token: b.Token, Reason: b.Reason, By: c.actor})
}
