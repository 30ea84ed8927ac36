package core

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// QueueEvent is an event of [Queue]. The set is closed.
//
//sumtype:decl
type QueueEvent interface {
	Event
	queueEvent()
}

// Bounds of the events of a queue.
const (
	MaxQueueTake  = 256  // items that one take gives
	MaxQueueBatch = 1000 // items that one purge or redrive moves
	MaxDelayMS    = 366 * 24 * 60 * 60 * 1000
	// MaxVisibilityMS is the longest time that an item is out of sight without a
	// sign of life.
	MaxVisibilityMS = 30 * 24 * 60 * 60 * 1000
	maxDueItems     = 128 // that one event lets happen because their time has come
	// maxMovedBytes bounds the data of the items that one event moves, beyond its
	// first one: it gives, removes or revives fewer where they are large.
	maxMovedBytes = 16 << 20
	maxHops       = 4 // dead letter queues that one item may pass through
	maxPosition   = 1<<31 - 1
)

type (
	// QueueCreate declares a queue. A push to one that was not declared makes it
	// with the defaults.
	QueueCreate struct {
		Namespace string      `json:"namespace"`
		Tenant    string      `json:"tenant"`
		Name      string      `json:"name"`
		Config    QueueConfig `json:"config"`
	}
	// QueueConfigure replaces the configuration. Items keep the times that they
	// were given; limits hold from the next take on. Where key_concurrency grows, a
	// key that waits for one of its own in flight has more once that ends.
	QueueConfigure struct {
		Config QueueConfig `json:"config"`
	}
	// QueuePush adds an item. The queue gives it its id, and answers with it
	// ([effects.Answer] of a [QueueItem]). Where an item with the same dedup key was
	// pushed, it is refused with [effects.CodeExists].
	QueuePush struct {
		Namespace string          `json:"namespace"`
		Tenant    string          `json:"tenant"`
		Name      string          `json:"name"`
		Data      json.RawMessage `json:"data"`      // at most MaxInputBytes
		Priority  int32           `json:"priority"`  // the higher goes first
		Key       string          `json:"key"`       // items with the same key share limits, and take part in the rotation as one; empty: none
		DedupKey  string          `json:"dedup_key"` // empty: none
		DelayMS   int64           `json:"delay_ms"`
		Owner     Owner           `json:"owner"` // told when the item is completed, dead or removed
		// Ack is a machine that is told at once, by [QueuePushed], that the item is
		// there, or else that it was refused. For one without an owner also the item
		// that holds the dedup key will do.
		Ack Owner `json:"ack,omitzero"`
	}
	// QueuePushed tells a machine that its item is in the queue.
	QueuePushed struct {
		N    uint32    `json:"n"`
		Item uuid.UUID `json:"item"`
	}
	// QueueTake takes up to Max items ([effects.Answer] of [QueueItems]). Where
	// there is none it is refused with [effects.CodeEmpty], and says why.
	QueueTake struct {
		Holder       string `json:"holder"`
		Max          uint32 `json:"max"`           // default 1, at most MaxQueueTake
		VisibilityMS int64  `json:"visibility_ms"` // 0: the queue's own
		Owner        Owner  `json:"owner"`         // a machine that takes gets the items by [QueueTaken], also none
	}
	// QueueTaken gives a machine the items that it took; none if none was ready.
	QueueTaken struct {
		N     uint32      `json:"n"`
		Items []QueueItem `json:"items"`
	}
	// QueueComplete says that an item is done.
	QueueComplete struct {
		Item    uuid.UUID       `json:"item"`
		Holder  string          `json:"holder"`
		Attempt uint32          `json:"attempt"` // of the take: a late answer is told by it
		Result  json.RawMessage `json:"result,omitempty"`
	}
	// QueueFail says that an attempt failed.
	QueueFail struct {
		Item      uuid.UUID `json:"item"`
		Holder    string    `json:"holder"`
		Attempt   uint32    `json:"attempt"`
		Error     string    `json:"error"`
		Permanent bool      `json:"permanent"` // no further attempt
	}
	// QueueExtend is a sign of life: the item stays out of sight from now on for as
	// long again.
	QueueExtend struct {
		Item         uuid.UUID `json:"item"`
		Holder       string    `json:"holder"`
		Attempt      uint32    `json:"attempt"`
		VisibilityMS int64     `json:"visibility_ms"` // 0: the queue's own
	}
	// QueueRelease gives an item back untouched: the attempt does not count.
	QueueRelease struct {
		Item    uuid.UUID `json:"item"`
		Holder  string    `json:"holder"`
		Attempt uint32    `json:"attempt"`
		// DelayMS: it is not ready again before. Workers that a limit of the tenant holds
		// back would hand it round among themselves.
		DelayMS int64 `json:"delay_ms,omitempty"`
	}
	// QueueCancelItem removes an item that is pending, failed or dead.
	QueueCancelItem struct {
		Item   uuid.UUID `json:"item"`
		Reason string    `json:"reason"`
	}
	// QueueRedrive gives items that were given up another chance, with no attempt
	// counted: dead ones here become pending, and those that came as dead letters go
	// back to the queue that they came from. Answered by [QueueMoved].
	QueueRedrive struct {
		Item  uuid.UUID `json:"item"`  // this one; zero: as many as Limit says, oldest first
		Limit uint32    `json:"limit"` // default and at most MaxQueueBatch
	}
	// QueuePause stops takes; all else goes on.
	QueuePause struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
	}
	// QueueResume lets takes go on.
	QueueResume struct{}
	// QueuePurge removes items, at most Limit. Answered by [QueueMoved].
	QueuePurge struct {
		States []ItemStateType `json:"states"` // none: all but processing
		Limit  uint32          `json:"limit"`  // default and at most MaxQueueBatch
		Reason string          `json:"reason"`
	}
	// QueueDelete removes a queue that holds no item.
	QueueDelete struct{}
	// QueueDue says that the queue's time has come.
	QueueDue struct{}
	// QueueDeadLetter hands over an item that another queue gave up.
	QueueDeadLetter struct {
		Item QueueItem `json:"item"`
	}
)

func (QueueCreate) queueEvent()     {}
func (QueueConfigure) queueEvent()  {}
func (QueuePush) queueEvent()       {}
func (QueueTake) queueEvent()       {}
func (QueueComplete) queueEvent()   {}
func (QueueFail) queueEvent()       {}
func (QueueExtend) queueEvent()     {}
func (QueueRelease) queueEvent()    {}
func (QueueCancelItem) queueEvent() {}
func (QueueRedrive) queueEvent()    {}
func (QueuePause) queueEvent()      {}
func (QueueResume) queueEvent()     {}
func (QueuePurge) queueEvent()      {}
func (QueueDelete) queueEvent()     {}
func (QueueDue) queueEvent()        {}
func (QueueDeadLetter) queueEvent() {}

// owner is who waits for the item: told where it is refused.
func (e QueuePush) owner() Owner {
	if e.Owner.IsZero() {
		return e.Ack
	}
	return e.Owner
}

// owner is who waits for items: told where the take itself is wrong.
func (e QueueTake) owner() Owner { return e.Owner }

// EventType gives the discriminator in the journal.
func (QueueCreate) EventType() string     { return "create" }
func (QueueConfigure) EventType() string  { return "configure" }
func (QueuePush) EventType() string       { return "push" }
func (QueueTake) EventType() string       { return "take" }
func (QueuePushed) EventType() string     { return "queue_pushed" }
func (QueueTaken) EventType() string      { return "queue_taken" }
func (QueueComplete) EventType() string   { return "complete" }
func (QueueFail) EventType() string       { return "fail" }
func (QueueExtend) EventType() string     { return "extend" }
func (QueueRelease) EventType() string    { return "release" }
func (QueueCancelItem) EventType() string { return "cancel_item" }
func (QueueRedrive) EventType() string    { return "redrive" }
func (QueuePause) EventType() string      { return "pause" }
func (QueueResume) EventType() string     { return "resume" }
func (QueuePurge) EventType() string      { return "purge" }
func (QueueDelete) EventType() string     { return "delete" }
func (QueueDue) EventType() string        { return "due" }
func (QueueDeadLetter) EventType() string { return "dead_letter" }

// QueueMoved answers a purge or a redrive.
type QueueMoved struct {
	Moved uint32 `json:"moved"` // how many items
	More  bool   `json:"more"`  // there may be more: ask again
}

// AppendJSON appends it as JSON.
func (m QueueMoved) AppendJSON(b []byte) []byte { return appendMarshaled(b, m) }

var _ effects.Value = QueueMoved{}

// queueEvents are the events of Queue, as the journal has them.
var queueEvents = []eventType{
	event[QueueCreate](), event[QueueConfigure](), event[QueuePush](), event[QueueTake](), event[QueueComplete](),
	event[QueueFail](), event[QueueExtend](), event[QueueRelease](), event[QueueCancelItem](), event[QueueRedrive](),
	event[QueuePause](), event[QueueResume](), event[QueuePurge](), event[QueueDelete](), event[QueueDue](),
	event[QueueDeadLetter](), event[QueueMend](),
}

// Names gives the records beside its machine that an event names: a batch is going to read them.
func Names(e Event) []effects.Ref {
	var item uuid.UUID
	switch e := e.(type) {
	case QueueComplete:
		item = e.Item
	case QueueFail:
		item = e.Item
	case QueueExtend:
		item = e.Item
	case QueueRelease:
		item = e.Item
	default:
		return nil
	}
	return []effects.Ref{{Kind: KindQueueItem, ID: item}}
}
