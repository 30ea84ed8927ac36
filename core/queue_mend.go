package core

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// QueueMend says that a record of a queue could not be read, and was set aside:
// an item, a key, a dedup key, or the queue's own, its header. The queue drops
// it where it still has it, as in a replay, and puts right all that was counted
// with it, so that the rest of the line goes on.
//
// A lost header takes the configuration along. The queue is gone until a create
// or a push makes it again; what it held is there, and is counted then.
type QueueMend struct {
	Kind effects.Kind `json:"kind"`
	ID   uuid.UUID    `json:"id"`
	// What is known of an item, from the lists in which it stood and from what could
	// be read of it.
	List  string    `json:"list,omitempty"` // where it was counted: one of [QueueItemLists]
	Key   uuid.UUID `json:"key,omitzero"`   // the record of its key
	Dedup uuid.UUID `json:"dedup,omitzero"` // the record of its dedup key
	Owner Owner     `json:"owner"`          // who waits for it, and is told
}

func (QueueMend) queueEvent() {}

// EventType gives the discriminator in the journal.
func (QueueMend) EventType() string { return "mend" }

// MendQueue gives the event that tells a queue of the loss of one of its records:
// from the index terms under which the record stood, and its bytes. Bytes that are no JSON
// any more tell nothing: of an item in flight they alone know the key.
func MendQueue(queue uuid.UUID, lost effects.Ref, terms []effects.Term, raw []byte) QueueMend {
	e := QueueMend{Kind: lost.Kind, ID: lost.ID}
	if lost.Kind != KindQueueItem {
		return e
	}
	was := salvage(raw)
	e.Owner = was.Owner
	if was.Key != "" {
		e.Key = partID(queue, "key", was.Key)
	}
	if was.DedupKey != "" {
		e.Dedup = partID(queue, "dedup", was.DedupKey)
	}
	for _, term := range terms {
		list, of, _ := strings.Cut(term.Name, ":")
		id, err := uuid.Parse(of)
		switch {
		case err != nil:
		case list+":" == listNames[listKey]:
			e.Key = id
		case slices.Contains(QueueItemLists[:], list):
			e.List = list
		}
	}
	return e
}

// mend: a record of the queue was lost.
func (t *queueTransition) mend(e QueueMend) {
	switch e.Kind {
	case KindQueue:
		t.Queue, t.readied = Queue{}, false
	case KindQueueItem:
		t.mendItem(e)
	case KindQueueKey:
		t.view.drop(KindQueueKey, e.ID)
		decrement(&t.KeyCount)
		t.mendKey(e.ID)
	case KindQueueDedup:
		t.dropDedup(e.ID)
	default:
		t.refuse(effects.CodeInvalid, "kind: %q is no kind of what a queue keeps", clip(string(e.Kind)))
	}
}

// mendAbsent: a record of a queue was lost whose header is lost, too.
func (t *queueTransition) mendAbsent(e QueueMend) {
	switch e.Kind {
	case KindQueue:
	case KindQueueItem:
		t.mendItem(QueueMend{Kind: e.Kind, ID: e.ID, Owner: e.Owner})
	case KindQueueKey:
		t.view.drop(KindQueueKey, e.ID)
	case KindQueueDedup:
		t.view.drop(KindQueueDedup, e.ID)
	default:
		t.refuse(effects.CodeNotFound, "queue not found")
	}
}

// mendItem takes an item out that is lost: its key's next one may stand in line.
func (t *queueTransition) mendItem(e QueueMend) {
	t.view.drop(KindQueueItem, e.ID)
	if l := slices.Index(listNames[:], e.List+":"); l >= 0 && slices.Contains(QueueItemLists[:], e.List) {
		full := t.Config.Concurrency > 0 && t.InFlight >= uint64(t.Config.Concurrency)
		decrement(t.gauge(queueList(l)))
		t.readied = full && queueList(l) == listFlight
	}
	if e.Key != uuid.Nil {
		t.mendKey(e.Key)
	}
	if e.Dedup != uuid.Nil {
		if d, ok := t.view.dedup(e.Dedup); ok && d.Item == e.ID && d.Until.IsZero() {
			t.dropDedup(d.ID)
		}
	}
	child := refOf(KindQueueItem, e.ID)
	t.add(e.Owner.ended(ChildEnded{Child: child, Outcome: ChildFailed, Reason: ReasonUnreadable, Interrupted: true})...)
}

// mendKey counts again what stands under a key, whose record may be lost.
func (t *queueTransition) mendKey(id uuid.UUID) {
	k, there := t.view.key(id)
	if there && k.Queue != t.ID {
		return
	}
	k.ID, k.Queue = id, t.ID
	k.Waiting, k.InFlight = uint64(len(t.view.cursors(listKey, id))), 0
	first, waits := t.view.firstItem(listKey, id)
	if waits {
		k.Key = first.Key
	}
	for _, p := range t.view.cursors(listFlight, t.ID) {
		if i, ok := t.view.item(p.ID); ok && i.Key != "" && partID(t.ID, "key", i.Key) == id {
			k.Key = i.Key
			increment(&k.InFlight)
		}
	}
	if _, ok := t.view.item(k.Front); !ok {
		k.Front = uuid.Nil
	}
	if k.Front == uuid.Nil && waits && first.ReadyPosition > 0 {
		k.Front = first.ID
	}
	if there || k.Key != "" {
		t.advanceKey(k, there)
	}
}

// recount counts what a queue finds that is made: nothing, unless its header was
// lost. The keys and dedup keys are only bounded: that many there are at most,
// until nothing is left.
func (t *queueTransition) recount() {
	for _, l := range [...]queueList{listReady, listWaiting, listDelayed, listFlight, listRetrying, listKept, listDead} {
		cursors := t.view.cursors(l, t.ID)
		*t.gauge(l) = uint64(len(cursors))
		for _, c := range cursors {
			if l == listReady || l == listWaiting {
				t.LastPosition = max(t.LastPosition, uint32(c.At&maxPosition)) // see order
			}
		}
	}
	t.KeyCount = uint64(len(t.view.cursors(listBlocked, t.ID))) + t.Ready + t.Waiting + t.InFlight
	t.Windows = uint64(len(t.view.cursors(listWindow, t.ID))) + t.live()
	if t.Held()+t.KeyCount+t.Windows > 0 {
		t.wakeAt(max(t.clock.Now, effects.MinTime))
	}
}
