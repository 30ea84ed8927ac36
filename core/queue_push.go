package core

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// push adds an item (003 push).
func (t *queueTransition) push(e QueuePush) {
	e.Data = payload(e.Data)
	if t.invalid(t.checkPush(e)) {
		return
	}
	i := QueueItem{
		Data: e.Data, Priority: e.Priority, Key: e.Key, DedupKey: e.DedupKey, Owner: e.Owner,
	}
	var until Time
	if e.DelayMS > 0 {
		until = laterMS(t.clock.Now, e.DelayMS)
	}
	if e.DedupKey != "" && !t.claimDedup(e) {
		return
	}
	t.pushed(e, t.insert(i, until))
}

// pushed tells the machine that has pushed, if one has, that the item is in the queue.
func (t *queueTransition) pushed(e QueuePush, item uuid.UUID) {
	if !e.Ack.IsZero() {
		t.send(e.Ack.Ref, QueuePushed{N: e.Ack.N, Item: item})
	}
}

// payload is what stands in state and journal for data from outside.
func payload(data json.RawMessage) json.RawMessage {
	if data = trimJSON(data); len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}

func (t *queueTransition) checkPush(e QueuePush) error {
	if e.Namespace != t.Namespace || e.Tenant != t.Tenant || e.Name != t.Name {
		return fmt.Errorf("name: %q of tenant %q in namespace %q is not this queue, which is %q of %q in %q",
			clip(e.Name), clip(e.Tenant), clip(e.Namespace), clip(t.Name), clip(t.Tenant), clip(t.Namespace))
	}
	return errors.Join(
		checkJSON("data", e.Data, MaxInputBytes),
		checkName("key", e.Key, false),
		checkName("dedup_key", e.DedupKey, false),
		checkBetween("delay_ms", e.DelayMS, 0, MaxDelayMS),
	)
}

// claimDedup gives the dedup key to the item that comes next, or refuses the push.
func (t *queueTransition) claimDedup(e QueuePush) bool {
	key := e.DedupKey
	id := partID(t.ID, "dedup", key)
	d, there := t.view.dedup(id)
	held := there && d.Until > t.clock.Now
	if there && d.Until.IsZero() {
		_, held = t.view.item(d.Item) // an item whose record was lost did not release it
	}
	switch {
	case held && e.Owner.IsZero() && !e.Ack.IsZero():
		t.pushed(e, d.Item)
		return false
	case held:
		t.refuse(effects.CodeExists, "dedup_key: %q is held by item %s", clip(key), d.Item)
		return false
	}
	if !there {
		increment(&t.Windows)
	}
	d = QueueDedup{ID: id, Queue: t.ID, Key: key, Item: itemID(t.ID, t.Pushed+1, t.clock.Step)}
	if w := t.Config.DedupWindowMS; w > 0 {
		d.Until = laterMS(t.clock.Now, w)
		t.wakeAt(d.Until)
	}
	t.view.put(d)
	return true
}

// releaseDedup releases the dedup key of an item that has ended, if the key has no
// window.
func (t *queueTransition) releaseDedup(i *QueueItem) {
	if i.DedupKey == "" {
		return
	}
	d, ok := t.view.dedup(partID(t.ID, "dedup", i.DedupKey))
	if ok && d.Item == i.ID && d.Until.IsZero() {
		t.dropDedup(d.ID)
	}
}

func (t *queueTransition) dropDedup(id uuid.UUID) {
	decrement(&t.Windows)
	t.view.drop(KindQueueDedup, id)
}

// insert gives a new item its id and its position, and answers with it.
func (t *queueTransition) insert(i QueueItem, until Time) uuid.UUID {
	readied := t.readied
	increment(&t.Pushed)
	i.ID = itemID(t.ID, t.Pushed, t.clock.Step)
	i.Queue, i.CreatedAt = t.ID, t.clock.Now
	i.Position = t.nextPosition()
	i = pending(i, until)
	t.move(nil, &i)
	t.readied = readied // a push tells by itself
	if now, ok := t.view.item(i.ID); ok {
		i = now // advanceKey may have put it into the ready line
	}
	t.answer(i)
	t.emit("push", i.ID)
	return i.ID
}

// pending gives an item in the state pending: until a time, or, without one, in the
// ready line. An item with a key enters that line once it is the first of its key.
func pending(i QueueItem, until Time) QueueItem {
	i.State = ItemState{Type: ItemPending, Until: until}
	i.ReadyPosition = 0
	if i.Key == "" && until.IsZero() {
		i.ReadyPosition = i.Position
	}
	return i
}

// deadLetter takes an item that another queue gave up. It must not refuse what a
// queue sends.
func (t *queueTransition) deadLetter(e QueueDeadLetter) {
	data := payload(e.Item.Data)
	if err := errors.Join(checkJSON("item.data", data, MaxInputBytes), checkName("item.key", e.Item.Key, false)); err != nil || e.Item.Origin == nil {
		t.refuse(effects.CodeInvalid, "item: not one that a queue gave up: %v", err)
		return
	}
	o := *e.Item.Origin
	o.Namespace, o.Tenant, o.Name, o.To, o.Error = validText(o.Namespace), validText(o.Tenant), validText(o.Name), validText(o.To), validText(o.Error)
	t.insert(QueueItem{Data: data, Priority: e.Item.Priority, Key: e.Item.Key, LastError: o.Error, Origin: &o}, 0)
}
