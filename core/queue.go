package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Queue is a stub.
type Queue struct {
	ID uuid.UUID `json:"id"`
}

// QueueConfig bounds a queue (003 QueueConfig). Times are in milliseconds.
type QueueConfig struct {
	VisibilityTimeoutMS int64     `json:"visibility_timeout_ms"` // default 30 s
	Retry               Retry     `json:"retry"`                 // max_attempts: default 3
	DeadLetterQueue     string    `json:"dead_letter_queue"`     // its name in the same tenant; empty: dead items stay here
	Concurrency         uint32    `json:"concurrency"`           // items in flight at once; 0: any number
	KeyConcurrency      uint32    `json:"key_concurrency"`       // the same for each key
	Rate                QueueRate `json:"rate"`                  // of takes
	KeyRate             QueueRate `json:"key_rate"`
	KeepCompletedMS     int64     `json:"keep_completed_ms"` // how long completed items are kept; 0: not at all
	DedupWindowMS       int64     `json:"dedup_window_ms"`   // how long a dedup key is held after the push; 0: while its item lives
}

// QueueRate bounds takes: at most Limit in any stretch of PerMS, spread evenly
// but for a burst of Burst. The zero QueueRate: no bound.
type QueueRate struct {
	Limit uint32 `json:"limit,omitempty"`
	PerMS int64  `json:"per_ms,omitempty"`
	Burst uint32 `json:"burst,omitempty"` // default 1
}

// QueuePush adds an item. The queue gives it its id, and answers with it
// ([effects.Answer] of a [QueueItem]).
type QueuePush struct {
	Namespace string          `json:"namespace"`
	Tenant    string          `json:"tenant"`
	Name      string          `json:"name"`
	Data      json.RawMessage `json:"data"`
	Priority  int32           `json:"priority"`
	Key       string          `json:"key"`       // items with the same key share limits and turns; empty: none
	DedupKey  string          `json:"dedup_key"` // empty: none
	DelayMS   int64           `json:"delay_ms"`
	Owner     Owner           `json:"owner"` // told when the item is completed or dead
}

// QueueTake takes up to Max items ([effects.Answer] of [QueueItems]). Where
// there is none it is refused with [effects.CodeEmpty].
type QueueTake struct {
	Holder       string `json:"holder"`
	Max          uint32 `json:"max"`           // default 1
	VisibilityMS int64  `json:"visibility_ms"` // 0: the queue's own
	Owner        Owner  `json:"owner"`         // a machine that takes gets the items by [QueueTaken]
}

// QueueTaken gives a machine the items that it took; none where there was none.
type QueueTaken struct {
	N     uint32      `json:"n"`
	Items []QueueItem `json:"items"`
}

// QueueComplete says that an item is done.
type QueueComplete struct {
	Item    uuid.UUID       `json:"item"`
	Holder  string          `json:"holder"`
	Attempt uint32          `json:"attempt"` // of the take: a late answer is told by it
	Result  json.RawMessage `json:"result,omitempty"`
}

// QueueFail says that an attempt failed.
type QueueFail struct {
	Item      uuid.UUID `json:"item"`
	Holder    string    `json:"holder"`
	Attempt   uint32    `json:"attempt"`
	Error     string    `json:"error"`
	Permanent bool      `json:"permanent"` // no further attempt
}

// QueueDeadLetter hands over an item that another queue gave up.
type QueueDeadLetter struct {
	Item QueueItem `json:"item"`
}

// QueueItem is one item (003 QueueItem).
type QueueItem struct {
	ID        uuid.UUID       `json:"id"`
	Queue     uuid.UUID       `json:"queue_id"`
	Data      json.RawMessage `json:"data"`
	Priority  int32           `json:"priority"`
	Key       string          `json:"key"`
	Attempts  uint32          `json:"attempts"`
	CreatedAt Time            `json:"created_at"`
}

// QueueItems are items in the order in which they were taken.
type QueueItems []QueueItem

// AppendJSON appends the stored form.
func (i QueueItem) AppendJSON(b []byte) []byte { return appendMarshaled(b, i) }

// AppendJSON appends a list of stored forms.
func (s QueueItems) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

// QueueRef names the queue of that name.
func QueueRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindQueue, ID: namedID("queue", namespace, tenant, name)}
}

func (QueuePush) EventType() string                  { return "push" }
func (QueueTake) EventType() string                  { return "take" }
func (QueueTaken) EventType() string                 { return "queue_taken" }
func (QueueComplete) EventType() string              { return "complete" }
func (QueueFail) EventType() string                  { return "fail" }
func (QueueDeadLetter) EventType() string            { return "dead_letter" }
func (e QueuePush) AppendJSON(b []byte) []byte       { return appendEvent(b, e.EventType(), e) }
func (e QueueTake) AppendJSON(b []byte) []byte       { return appendEvent(b, e.EventType(), e) }
func (e QueueTaken) AppendJSON(b []byte) []byte      { return appendEvent(b, e.EventType(), e) }
func (e QueueComplete) AppendJSON(b []byte) []byte   { return appendEvent(b, e.EventType(), e) }
func (e QueueFail) AppendJSON(b []byte) []byte       { return appendEvent(b, e.EventType(), e) }
func (e QueueDeadLetter) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// QueueEvent is an event of [Queue]. The set is closed.
//
//sumtype:decl
type QueueEvent interface {
	Event
	queueEvent()
}

func (QueuePush) queueEvent()       {}
func (QueueTake) queueEvent()       {}
func (QueueComplete) queueEvent()   {}
func (QueueFail) queueEvent()       {}
func (QueueDeadLetter) queueEvent() {}

// Apply carries out one transition.
func (q Queue) Apply(e QueueEvent, c Clock) (Queue, []effects.Effect) {
	return q, q.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the queue.
func (q Queue) Ref() effects.Ref {
	if q.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindQueue, ID: q.ID}
}

// Deadline is none.
func (q Queue) Deadline() Time { return 0 }

// Terms lists the queue under all.
func (q Queue) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (q Queue) AppendJSON(b []byte) []byte { return appendMarshaled(b, q) }

func (q Queue) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(QueueEvent)
	if !ok {
		return q, q.refuse(e, effects.CodeInvalid, fmt.Sprintf("a queue takes no event %q", e.EventType()))
	}
	return q.Apply(own, c)
}

func (q Queue) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindQueue, ID: q.ID}, e, code, reason)
}

func decodeQueueEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case QueuePush{}.EventType():
		return decodeAs[QueuePush](b)
	case QueueTake{}.EventType():
		return decodeAs[QueueTake](b)
	case QueueComplete{}.EventType():
		return decodeAs[QueueComplete](b)
	case QueueFail{}.EventType():
		return decodeAs[QueueFail](b)
	case QueueDeadLetter{}.EventType():
		return decodeAs[QueueDeadLetter](b)
	}
	return decodeShared(typ, b)
}
