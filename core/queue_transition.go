package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// queueTransition is the application of one event to a queue under way: to its
// header, and to what the view shows of its items.
type queueTransition struct {
	transition
	Queue   // its header
	view    queueRecords
	moved   int  // bytes of data of the items that were moved
	readied bool // an item became takeable that was not just pushed
}

// emit announces something about an item, or about the queue itself.
func (t *queueTransition) emit(action string, item uuid.UUID) { t.emitReason(action, item, "", "") }

// emitReason announces it with a reason, as the member of that name.
func (t *queueTransition) emitReason(action string, item uuid.UUID, member, reason string) {
	o := begin(make([]byte, 0, 64+len(t.Name)+len(reason)))
	if item != uuid.Nil {
		o.id("item", item)
	}
	o.str("name", t.Name)
	if member != "" {
		o.str(member, reason)
	}
	t.announce("queue", "queue", action, t.ID, o.end())
}

// tellOwner tells the machine that waits for the item how it ended, once.
func (t *queueTransition) tellOwner(i *QueueItem, e ChildEnded) {
	e.Child = i.Ref()
	t.add(i.Owner.ended(e)...)
	i.Owner = Owner{}
}

// wakeAt makes the queue due no later than at.
func (t *queueTransition) wakeAt(at Time) {
	if !at.IsZero() && (t.Wake.IsZero() || at < t.Wake) {
		t.Wake = at
	}
}

func (t *queueTransition) nextPosition() uint32 {
	if t.live() == 0 {
		t.LastPosition = 0
	}
	t.LastPosition = min(t.LastPosition, maxPosition-1) + 1
	return t.LastPosition
}

// gauge is the counter of the items in that list.
func (q *Queue) gauge(l queueList) *uint64 {
	switch l {
	case listReady:
		return &q.Ready
	case listWaiting:
		return &q.Waiting
	case listDelayed:
		return &q.Delayed
	case listFlight:
		return &q.InFlight
	case listRetrying:
		return &q.Retrying
	case listKept:
		return &q.Kept
	case listBlocked:
		return &q.KeyCount
	case listWindow:
		return &q.Windows
	case listDead, listKey, listOrigin:
	}
	return &q.Dead
}

func increment(n *uint64) {
	if *n+1 != 0 {
		*n++
	}
}

func decrement(n *uint64) {
	if *n > 0 {
		*n--
	}
}

// head gives the first item of a list of the queue. If the gauge counts one and the
// list is empty, the item's record was set aside as unreadable: the gauge is
// corrected.
func (t *queueTransition) head(l queueList) (QueueItem, bool) {
	n := t.gauge(l)
	if *n == 0 && l != listOrigin {
		return QueueItem{}, false
	}
	i, ok := t.view.firstItem(l, t.ID)
	if !ok && l != listOrigin {
		*n = 0
	}
	return i, ok
}

// move takes an item from one state to another; nil: the item does not exist. It
// keeps gauges, lists, the wake time and the item's key consistent with the two.
func (t *queueTransition) move(before, after *QueueItem) {
	if before != nil {
		l, _ := before.list()
		full := t.Config.Concurrency > 0 && t.InFlight >= uint64(t.Config.Concurrency)
		decrement(t.gauge(l))
		t.readied = t.readied || full && l == listFlight
	}
	it := after
	if after != nil {
		t.moved += len(after.Data)
		l, at := after.list()
		increment(t.gauge(l))
		switch l {
		case listReady:
			t.readied = true
		case listDelayed, listFlight, listRetrying, listKept:
			t.wakeAt(at)
		case listWaiting, listKey, listDead, listOrigin, listBlocked, listWindow:
		}
		t.view.put(*after)
	} else {
		it = before
		t.moved += len(before.Data)
		t.view.drop(KindQueueItem, before.ID)
	}
	if it.Key != "" {
		t.moveInKey(it.ID, it.Key, before, after)
	}
}

// retryOrGiveUp follows a failed attempt: the item is pending at once, or waits for its
// back-off, or is given up.
func (t *queueTransition) retryOrGiveUp(before QueueItem, reason string, backoff, permanent bool) {
	i := before
	i.LastError = reason
	retry := t.Config.Retry
	switch {
	case permanent || i.Attempts >= retry.Attempts():
		t.giveUp(before, reason)
		return
	case backoff:
		if d := retry.Delay(i.ID, i.Attempts); d > 0 {
			i.State, i.ReadyPosition = ItemState{Type: ItemFailed, Error: reason, Until: laterMS(t.clock.Now, d)}, 0
			t.move(&before, &i)
			return
		}
	}
	i = pending(i, 0)
	t.move(&before, &i)
}

// giveUp ends an item as dead: it goes to the dead letter queue if one is configured,
// and else stays in this one.
func (t *queueTransition) giveUp(before QueueItem, reason string) {
	i := before
	i.State, i.ReadyPosition = ItemState{Type: ItemDead, Reason: reason, At: t.clock.Now}, 0
	t.releaseDedup(&i)
	t.tellOwner(&i, ChildEnded{Outcome: ChildFailed, Reason: reason})
	t.emitReason("dead", i.ID, "reason", reason)
	if to := t.Config.DeadLetterQueue; to != "" && i.origin().Hops < maxHops {
		increment(&t.DeadLettered)
		t.move(&before, nil)
		i.Origin = &QueueOrigin{
			Namespace: t.Namespace, Tenant: t.Tenant, Name: t.Name, To: to,
			Item: i.ID, Attempts: i.Attempts, Error: reason, DeadAt: t.clock.Now, Hops: i.origin().Hops + 1,
		}
		t.add(effects.DeadLetter{Queue: QueueRef(t.Namespace, t.Tenant, to), Item: i})
		return
	}
	t.move(&before, &i)
}

func (t *queueTransition) removeItem(i QueueItem, reason string) {
	if i.State.Type != ItemCompleted {
		increment(&t.Cancelled)
		t.releaseDedup(&i)
		t.tellOwner(&i, ChildEnded{Outcome: ChildCancelled, Reason: reason})
	}
	t.move(&i, nil)
}

// clipText keeps a text from outside within its limit.
func clipText(s string) string {
	if len(s) > MaxTextBytes {
		return validText(s[:MaxTextBytes])
	}
	return s
}
