package httpapi

import (
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) semaphoreRoutes() []route {
	semaphores := namedMachines[core.Semaphore, core.SemaphoreEvent]{
		s: s, what: "semaphore", get: s.engine.Semaphores().Get, send: s.engine.Semaphores().Send, remains: http.StatusOK,
	}
	return []route{
		{"GET", "/v1/semaphores", anyToken, listing[core.Semaphore, core.Semaphore]{
			find:  byStatus(s.engine.Semaphores().List),
			scope: func(m core.Semaphore) (string, string) { return m.Namespace, m.Tenant },
			out:   asItIs[core.Semaphore],
			size:  func(m core.Semaphore) int { return 1024 + 256*(len(m.Waiters)+len(m.Holders)) },
		}.page(func(l []core.Semaphore, next string) any {
			return wire.SemaphoreList{Semaphores: l, NextPageToken: next}
		})},
		{"GET", "/v1/semaphores/{name}", anyToken, semaphores.show},
		{"PUT", "/v1/semaphores/{name}", writingToken, tellNamed(semaphores, false, configureSemaphore)},
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

func acquireSlots(_ *call, n named, b *wire.AcquireSlotsRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreAcquire{
		Name: n.name, Namespace: n.Namespace, Tenant: n.Tenant, Holder: b.Holder, Slots: b.Slots, Total: b.Total, TTLMS: b.TTLMS,
	}, nil
}

func renewSlots(_ *call, _ named, b *wire.HolderRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreRenew{Holder: b.Holder, Token: b.Token, TTLMS: b.TTLMS}, nil
}

func releaseSlots(_ *call, _ named, b *wire.ReleaseRequest) (core.SemaphoreEvent, error) {
	return core.SemaphoreRelease{Holder: b.Holder, Token: b.Token}, nil
}

func breakSlots(c *call, _ named, b *wire.BreakSlotsRequest) (core.SemaphoreEvent, error) {
	if err := forAll(c); err != nil {
		return nil, err
	}
	if b.Reason == "" {
		b.Reason = "broken by " + c.actor
	}
	return core.SemaphoreBreak{Token: b.Token, Reason: b.Reason, By: c.actor}, nil
}
