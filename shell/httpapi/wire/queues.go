package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Queue is a queue with its configuration, the number of its items and its totals.
type Queue struct {
	ID        uuid.UUID        `json:"id"`
	Namespace string           `json:"namespace"`
	Tenant    string           `json:"tenant"`
	Name      string           `json:"name"`
	Config    core.QueueConfig `json:"config"`
	CreatedAt effects.Time     `json:"created_at"`
	Paused    bool             `json:"paused"`
	PausedBy  string           `json:"paused_by"`
	Reason    string           `json:"reason"`
	Items     QueueGauges      `json:"items"`
	Totals    QueueTotals      `json:"totals"`
	// OldestReadyAt is when the item that is ready and waits longest was pushed;
	// null if none is ready.
	OldestReadyAt      effects.Time `json:"oldest_ready_at"`
	OldestReadySeconds float64      `json:"oldest_ready_seconds"`

	Declared *DeclaredBy `json:"declared,omitempty"` // the set that owns it, where one alone is shown
}

// QueueGauges count the items that are there now, by their state; ready, waiting
// and delayed part those that are pending.
type QueueGauges struct {
	Ready      uint64 `json:"ready"`
	Waiting    uint64 `json:"waiting"`
	Delayed    uint64 `json:"delayed"`
	Processing uint64 `json:"processing"`
	Failed     uint64 `json:"failed"`
	Completed  uint64 `json:"completed"`
	Dead       uint64 `json:"dead"`
}

// QueueTotals count what has happened since the queue was made.
type QueueTotals struct {
	Pushed       uint64 `json:"pushed"`
	Taken        uint64 `json:"taken"`
	Completed    uint64 `json:"completed"`
	Failed       uint64 `json:"failed"`
	TimedOut     uint64 `json:"timed_out"`
	DeadLettered uint64 `json:"dead_lettered"`
	Cancelled    uint64 `json:"cancelled"`
	Redriven     uint64 `json:"redriven"`
}

// QueueList is a page of GET /v1/queues.
type QueueList struct {
	Queues        []Queue `json:"queues"`
	NextPageToken string  `json:"next_page_token"`
}

// RedriveRequest is the optional body of POST /v1/queues/{name}/redrive: one item, or as
// many as Limit says.
type RedriveRequest struct {
	Item  *string `json:"item,omitempty"`
	Limit uint32  `json:"limit,omitempty"`
}

// PurgeRequest is the optional body of POST /v1/queues/{name}/purge.
type PurgeRequest struct {
	States []core.ItemStateType `json:"states,omitempty"`
	Limit  uint32               `json:"limit,omitempty"`
	Reason *string              `json:"reason,omitempty"`
}

// ItemList is a page of GET /v1/queues/{name}/items.
type ItemList struct {
	Items         []ItemSummary `json:"items"`
	NextPageToken string        `json:"next_page_token"`
}

// PushRequest is the body of POST /v1/queues/{name}/items.
type PushRequest struct {
	Data     json.RawMessage `json:"data,omitempty"`
	Priority int32           `json:"priority,omitempty"`
	Key      *string         `json:"key,omitempty"`
	DedupKey *string         `json:"dedup_key,omitempty"`
	DelayMS  int64           `json:"delay_ms,omitempty"`
}

// PushBatchRequest is the body of POST /v1/queues/{name}/items/batch. Without a Mode it is
// [ModeAll].
type PushBatchRequest struct {
	Mode  string        `json:"mode,omitempty"`
	Items []PushRequest `json:"items" most:"1000"`
}

// PushBatch is the answer to POST /v1/queues/{name}/items/batch, in the order of the request.
type PushBatch struct {
	Results []PushResult `json:"results"`
}

// PushResult is what became of one item of a batch.
type PushResult struct {
	Status    int          `json:"status"`    // that POST /v1/queues/{name}/items would have been answered with
	Duplicate bool         `json:"duplicate"` // Item holds the dedup key already; only its id if it has ended
	Item      *ItemSummary `json:"item"`      // null if there is an error
	Error     string       `json:"error"`
}

// Pushed is the answer to a push. If another item holds the dedup key, Item is that one; it
// has only its id if it has ended.
type Pushed struct {
	Duplicate bool           `json:"duplicate"`
	Item      core.QueueItem `json:"item"`
}

// TakeRequest is the body of POST /v1/queues/{name}/take.
type TakeRequest struct {
	Holder       string `json:"holder"`
	Max          int64  `json:"max,omitempty"`
	VisibilityMS int64  `json:"visibility_ms,omitempty"`
	WaitSeconds  int64  `json:"wait_seconds,omitempty"`
}

// Taken is the answer to POST /v1/queues/{name}/take.
type Taken struct {
	Items []core.QueueItem `json:"items"`
}

// HoldRequest says who holds an item, and in which attempt: every answer of a holder says
// so. It is the whole body of POST heartbeat and release of an item.
type HoldRequest struct {
	Holder  string `json:"holder"`
	Attempt uint32 `json:"attempt"`
}

// Hold gives the part of a body that says who holds the item.
func (b *HoldRequest) Hold() *HoldRequest { return b }

// A Holder is a body that has a [HoldRequest].
type Holder interface{ Hold() *HoldRequest }

// CompleteRequest is the body of POST /v1/queues/{name}/items/{id}/complete.
type CompleteRequest struct {
	HoldRequest
	Result json.RawMessage `json:"result,omitempty"`
}

// FailRequest is the body of POST /v1/queues/{name}/items/{id}/fail.
type FailRequest struct {
	HoldRequest
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

// ExtendRequest is the body of POST /v1/queues/{name}/items/{id}/extend.
type ExtendRequest struct {
	HoldRequest
	VisibilityMS int64 `json:"visibility_ms,omitempty"`
}

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
type WorkerDeleteRequest core.WorkerDelete
