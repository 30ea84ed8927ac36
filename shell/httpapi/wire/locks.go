package wire

import (
	"github.com/orrery-go/orrery/core"
)

// LockList is a page of GET /v1/locks.
type LockList struct {
	Locks         []core.Lock `json:"locks"`
	NextPageToken string      `json:"next_page_token"`
}

// HolderRequest is the body of renew, of a lock and of a semaphore: who holds it, and the
// fencing token of the lease, which acquire has answered.
type HolderRequest struct {
	Holder string `json:"holder"`
	Token  uint64 `json:"token"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
}

// AcquireRequest is the body of POST /v1/locks/{name}/acquire.
type AcquireRequest struct {
	Holder string `json:"holder"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
}

// ReleaseRequest is the body of release, of a lock and of a semaphore. Force is an admin's
// way to release what somebody else has acquired, without the fencing token.
type ReleaseRequest struct {
	Holder string `json:"holder"`
	Token  uint64 `json:"token,omitempty"`
	Force  bool   `json:"force,omitempty"`
}

// SemaphoreList is a page of GET /v1/semaphores.
type SemaphoreList struct {
	Semaphores    []core.Semaphore `json:"semaphores"`
	NextPageToken string           `json:"next_page_token"`
}

// SlotsRequest is the body of PUT /v1/semaphores/{name}.
type SlotsRequest struct {
	Slots *uint32 `json:"slots"`
}

// AcquireSlotsRequest is the body of POST /v1/semaphores/{name}/acquire. Total declares a
// semaphore that does not exist yet.
type AcquireSlotsRequest struct {
	Holder string `json:"holder"`
	Slots  uint32 `json:"slots,omitempty"`
	Total  uint32 `json:"total,omitempty"`
	TTLMS  int64  `json:"ttl_ms,omitempty"`
}

// BreakSlotsRequest is the optional body of POST /v1/semaphores/{name}/break. Token names
// one holder; 0 means all of them.
type BreakSlotsRequest struct {
	Token  uint64 `json:"token,omitempty"`
	Reason string `json:"reason,omitempty"`
}
