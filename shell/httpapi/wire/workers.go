package wire

import (
	"github.com/orrery-go/orrery/core"
)

// WorkerRequest is the body of PUT /v1/workers/{name}.
type WorkerRequest struct {
	Queue       string        `json:"queue"`
	Concurrency uint32        `json:"concurrency,omitempty"`
	PollMS      int64         `json:"poll_ms,omitempty"`
	Do          core.WorkerDo `json:"do"`
}

// WorkerList is a page of GET /v1/workers.
type WorkerList struct {
	Workers       []core.Worker `json:"workers"`
	NextPageToken string        `json:"next_page_token"`
}

// WorkerDeleteRequest is the optional body of DELETE /v1/workers/{name}. Drain lets the
// worker finish what it has in hand.
type WorkerDeleteRequest struct {
	Drain bool `json:"drain,omitempty"`
}
