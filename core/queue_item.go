package core

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// ItemStateType tells the states of an item apart.
type ItemStateType string

// States of an item (003 ItemState).
const (
	ItemPending    ItemStateType = "pending"
	ItemProcessing ItemStateType = "processing"
	ItemCompleted  ItemStateType = "completed"
	ItemFailed     ItemStateType = "failed" // it waits for its back-off
	ItemDead       ItemStateType = "dead"
)

// ItemState says how far an item is (003 ItemState): a tagged union of
// pending{until}, processing{holder, taken_at, until}, completed{at, until,
// result}, failed{error, until} and dead{reason, at}. Attempts belong to the item
// (R9).
type ItemState struct {
	Type ItemStateType `json:"type"`
	// Until is when a delayed item becomes ready, one that is held may be taken by
	// another, a failed one is tried again, a completed one is forgotten.
	Until   Time            `json:"until"`
	Holder  string          `json:"holder"`
	TakenAt Time            `json:"taken_at"`
	At      Time            `json:"at"` // when it was completed, or given up
	Error   string          `json:"error"`
	Reason  string          `json:"reason"`
	Result  json.RawMessage `json:"result"`
}

// QueueItem is one item (003 QueueItem).
//
//	          push
//	           │
//	           ▼         take
//	┌─────▶ pending ───────────▶ processing ──── complete ──▶ completed ──▶ (gone)
//	│        ▲   ▲                │  │  │
//	│ redrive│   └── release, ────┘  │  │
//	│        │       timed out       │  │ fail
//	│       dead ◀───────────────────┘  ▼
//	│             no attempt left      failed
//	└───────────────────────────────────┘
//	            back-off has passed
//
// A dead item goes to the dead letter queue, if its queue has one.
type QueueItem struct {
	ID            uuid.UUID       `json:"id"`
	Queue         uuid.UUID       `json:"queue"`
	Data          json.RawMessage `json:"data"`
	Priority      int32           `json:"priority"`
	Key           string          `json:"key"`
	DedupKey      string          `json:"dedup_key"`
	CreatedAt     Time            `json:"created_at"`
	Attempts      uint32          `json:"attempts"` // takes, but for those that were given back
	State         ItemState       `json:"state"`
	LastError     string          `json:"last_error"` // of the last attempt that failed
	Position      uint32          `json:"turn"`       // among the items of its priority, or of its key
	ReadyPosition uint32          `json:"place"`      // in the ready line; 0: not in it
	Owner         Owner           `json:"owner"`
	Origin        *QueueOrigin    `json:"origin"` // of one that came as a dead letter
}

// QueueOrigin says where a dead letter comes from.
type QueueOrigin struct {
	Namespace string    `json:"namespace"`
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"` // of the queue that gave it up
	To        string    `json:"to"`   // the name of its dead letter queue
	Item      uuid.UUID `json:"item"` // its id there
	Attempts  uint32    `json:"attempts"`
	Error     string    `json:"error"`
	DeadAt    Time      `json:"dead_at"`
	Hops      uint32    `json:"hops"` // dead letter queues that it went through
}

// QueueItems are items in the order in which they were taken.
type QueueItems []QueueItem

// QueueKey is what the items of one queue with the same key share: limits and
// its part in the rotation.
type QueueKey struct {
	ID       uuid.UUID `json:"id"`
	Queue    uuid.UUID `json:"queue"`
	Key      string    `json:"key"`
	InFlight uint64    `json:"in_flight"`
	Waiting  uint64    `json:"waiting"`  // pending, also the one in line
	Front    uuid.UUID `json:"front"`    // the one that stands in line; zero: none may run
	RateTAT  int64     `json:"rate_tat"` // as that of the queue
	Until    Time      `json:"until"`    // when the rate lets the next one run, or the key can be forgotten
}

// QueueDedup holds the dedup key of an item that was pushed.
type QueueDedup struct {
	ID    uuid.UUID `json:"id"`
	Queue uuid.UUID `json:"queue"`
	Key   string    `json:"key"`
	Item  uuid.UUID `json:"item"`
	Until Time      `json:"until"` // 0: while the item lives
}

// itemID derives the id of an item (UUID version 8): 48 bits of its number in
// the queue, so that the order of ids is that of the pushes, then a hash of the
// queue and of the step, so that none repeats where a queue is deleted and made
// again.
func itemID(queue uuid.UUID, number, step uint64) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], min(number, 1<<48-1)<<16)
	h := mix(mix(binary.BigEndian.Uint64(queue[:8])^number) ^ binary.BigEndian.Uint64(queue[8:]) ^ mix(step))
	binary.BigEndian.PutUint64(id[8:], h)
	id[6] = 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// mix scatters a number (SplitMix64).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// partID names what a queue keeps under a name: a key or a dedup key.
func partID(queue uuid.UUID, role, name string) uuid.UUID {
	var buf [128]byte
	b := append(append(append(buf[:0], queue[:]...), role...), 0x1f)
	return hashID(append(b, name...))
}

// order is the key of an item in a list of waiting items: by priority, then by position.
func order(priority int32, position uint32) Time {
	return Time((int64(math.MaxInt32)-int64(priority))<<31 | int64(min(position, maxPosition)))
}

// BelowPriority gives the cursor after all ready items of the priority of the one
// at p: a list of ready items that goes on from there begins with the first item
// of the next lower priority.
func BelowPriority(p Cursor) Cursor {
	return Cursor{At: (p.At>>31+1)<<31 - 1, ID: uuid.Max}
}

// queueList is an order in which a queue looks at what it keeps.
type queueList uint8

const (
	listReady    queueList = iota // items in line
	listWaiting                   // items behind another one of their key
	listKey                       // items of one key, of which the first may stand in line
	listDelayed                   // by the end of the delay
	listFlight                    // by the end of the visibility timeout
	listRetrying                  // by the end of the back-off
	listKept                      // by the time at which they are forgotten
	listDead                      // by the time at which they were given up
	listOrigin                    // dead letters that can go back, by their arrival
	listBlocked                   // keys by their time
	listWindow                    // dedup keys by their end
)

// listNames stand in the names of the list terms.
//
// read-only: a table
var listNames = [...]string{
	listReady: "ready:", listWaiting: "waiting:", listKey: "key:", listDelayed: "delayed:", listFlight: "processing:",
	listRetrying: "failed:", listKept: "completed:", listDead: "dead:", listOrigin: "origin:", listBlocked: "blocked:", listWindow: "window:",
}

func (l queueList) kind() effects.Kind {
	switch l {
	case listBlocked:
		return KindQueueKey
	case listWindow:
		return KindQueueDedup
	case listReady, listWaiting, listKey, listDelayed, listFlight, listRetrying, listKept, listDead, listOrigin:
	}
	return KindQueueItem
}

// term names the list index: of the queue, or for listKey of the key.
func (l queueList) term(of uuid.UUID) string {
	var buf [64]byte
	b := append(buf[:0], listNames[l]...)
	b = appendID(b, of)
	i := len(listNames[l])
	b = append(b[:i], b[i+1:len(b)-1]...) // without the quotes
	return string(b)
}

// QueueItemTerm is the list term of the items of a queue in one state; ready,
// waiting and delayed part those that are pending.
func QueueItemTerm(queue uuid.UUID, state string) string { return state + ":" + queue.String() }

// QueueItemLists are the names that [QueueItemTerm] takes.
//
// read-only: a table
var QueueItemLists = [...]string{"ready", "waiting", "delayed", "processing", "failed", "completed", "dead"}

// list gives the list of the item's state, and its key in that list.
func (i *QueueItem) list() (queueList, Time) {
	switch i.State.Type {
	case ItemPending:
		switch {
		case !i.State.Until.IsZero():
			return listDelayed, i.State.Until
		case i.ReadyPosition > 0:
			return listReady, order(i.Priority, i.ReadyPosition)
		}
		return listWaiting, order(i.Priority, i.Position)
	case ItemProcessing:
		return listFlight, i.State.Until
	case ItemFailed:
		return listRetrying, i.State.Until
	case ItemCompleted:
		return listKept, i.State.Until
	case ItemDead:
	}
	return listDead, i.State.At
}

// queued reports whether the item stands in the list of its key.
func (i *QueueItem) queued() bool {
	return i.Key != "" && i.State.Type == ItemPending && i.State.Until.IsZero()
}

// returnable reports whether the item is a dead letter that can go back.
func (i *QueueItem) returnable() bool {
	return i.Origin != nil && i.State.Type != ItemProcessing && i.State.Type != ItemCompleted
}

func (i *QueueItem) origin() QueueOrigin {
	if i.Origin == nil {
		return QueueOrigin{}
	}
	return *i.Origin
}

// at reports whether the item stands in that list of the queue or key, and by which key.
func (i *QueueItem) at(l queueList, of uuid.UUID) (Time, bool) {
	switch l {
	case listKey:
		return order(i.Priority, i.Position), i.queued() // the key of an item never changes
	case listOrigin:
		return i.CreatedAt, i.returnable() && i.Queue == of
	case listReady, listWaiting, listDelayed, listFlight, listRetrying, listKept, listDead, listBlocked, listWindow:
	}
	in, at := i.list()
	return at, in == l && i.Queue == of
}

// Ref names the item.
func (i QueueItem) Ref() effects.Ref { return refOf(KindQueueItem, i.ID) }

// Ref names the key's record.
func (k QueueKey) Ref() effects.Ref { return refOf(KindQueueKey, k.ID) }

// Ref names the dedup key's record.
func (d QueueDedup) Ref() effects.Ref { return refOf(KindQueueDedup, d.ID) }

// Deadline is none: its queue wakes it.
func (i QueueItem) Deadline() Time { return 0 }

// Deadline is none: its queue wakes it.
func (k QueueKey) Deadline() Time { return 0 }

// Deadline is none: its queue wakes it.
func (d QueueDedup) Deadline() Time { return 0 }

// Terms lists the item under its state; one with a key also under that, a dead
// letter under those that can go back.
func (i QueueItem) Terms() []effects.Term {
	l, at := i.list()
	out := append(make([]effects.Term, 0, 2), effects.Term{Name: l.term(i.Queue), At: at})
	if i.queued() {
		out = append(out, effects.Term{Name: listKey.term(partID(i.Queue, "key", i.Key)), At: order(i.Priority, i.Position)})
	}
	if i.returnable() {
		out = append(out, effects.Term{Name: listOrigin.term(i.Queue), At: i.CreatedAt})
	}
	return out
}

// Terms lists the key by its time, where it waits for one.
func (k QueueKey) Terms() []effects.Term { return untilTerm(listBlocked, k.Queue, k.Until) }

// Terms lists the dedup key by its end, where it has one.
func (d QueueDedup) Terms() []effects.Term { return untilTerm(listWindow, d.Queue, d.Until) }

func untilTerm(l queueList, queue uuid.UUID, until Time) []effects.Term {
	if until.IsZero() {
		return nil
	}
	return []effects.Term{{Name: l.term(queue), At: until}}
}

// passingItem reports whether an item has ended: see [Cacheable].
func passingItem(s State) bool {
	i, ok := s.(QueueItem)
	return ok && (i.State.Type == ItemCompleted || i.State.Type == ItemDead)
}
