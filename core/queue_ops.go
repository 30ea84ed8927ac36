package core

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// create: (absent) → active.
func (r *queueRun) create(e QueueCreate) { r.make(e.Namespace, e.Tenant, e.Name, e.Config) }

func (r *queueRun) make(namespace, tenant, name string, config QueueConfig) bool {
	config = config.withDefaults()
	if err := errors.Join(
		checkName("namespace", namespace, false),
		checkName("tenant", tenant, false),
		checkScope(namespace, tenant),
		checkName("name", name, true),
		config.validate(name),
	); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return false
	}
	r.q = Queue{
		ID: QueueRef(namespace, tenant, name).ID, Namespace: namespace, Tenant: tenant, Name: name,
		Config: config, CreatedAt: r.c.Now,
	}
	r.recount()
	return true
}

// configure replaces the configuration.
func (r *queueRun) configure(e QueueConfigure) {
	config := e.Config.withDefaults()
	if err := config.validate(r.q.Name); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	r.q.Config = config
	r.q.Limited, r.readied = 0, true // who was given less may be given more now
	for range maxDueItems {          // and keys that the rate held back may run
		k, ok := r.v.firstKey(r.q.ID)
		if !ok {
			return
		}
		if may, at := r.mayRun(&k); !may && at == k.Until {
			return
		}
		r.settleKey(k, true)
	}
}

// unblock lets the first key that waits for its time run, where the rate was
// raised since that was set; it reports whether one did.
func (r *queueRun) unblock() bool {
	if r.q.KeyCount == 0 {
		return false
	}
	k, ok := r.v.firstKey(r.q.ID)
	if !ok {
		return false
	}
	may, _ := r.mayRun(&k)
	if may {
		r.settleKey(k, true)
	}
	return may
}

// push adds an item (003 push).
func (r *queueRun) push(e QueuePush) {
	e.Data = payload(e.Data)
	if err := r.checkPush(e); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	i := QueueItem{
		Data: e.Data, Priority: e.Priority, Key: e.Key, DedupKey: e.DedupKey, Owner: e.Owner,
	}
	var until Time
	if e.DelayMS > 0 {
		until = laterMS(r.c.Now, e.DelayMS)
	}
	if e.DedupKey != "" && !r.claimDedup(e) {
		return
	}
	r.pushed(e, r.enter(i, until))
}

// pushed tells who has pushed that the item is there.
func (r *queueRun) pushed(e QueuePush, item uuid.UUID) {
	if !e.Ack.IsZero() {
		r.send(e.Ack.Ref, QueuePushed{N: e.Ack.N, Item: item})
	}
}

// payload is what stands in state and journal for data from outside.
func payload(data json.RawMessage) json.RawMessage {
	if data = trimJSON(data); len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}

func (r *queueRun) checkPush(e QueuePush) error {
	if e.Namespace != r.q.Namespace || e.Tenant != r.q.Tenant || e.Name != r.q.Name {
		return fmt.Errorf("name: %q of tenant %q in namespace %q is not this queue, which is %q of %q in %q",
			clip(e.Name), clip(e.Tenant), clip(e.Namespace), clip(r.q.Name), clip(r.q.Tenant), clip(r.q.Namespace))
	}
	return errors.Join(
		checkJSON("data", e.Data, MaxInputBytes),
		checkName("key", e.Key, false),
		checkName("dedup_key", e.DedupKey, false),
		checkBetween("delay_ms", e.DelayMS, 0, MaxDelayMS),
	)
}

// claimDedup takes the dedup key for the item that comes next, or refuses it.
func (r *queueRun) claimDedup(e QueuePush) bool {
	key := e.DedupKey
	id := partID(r.q.ID, "dedup", key)
	d, there := r.v.dedup(id)
	held := there && d.Until > r.c.Now
	if there && d.Until.IsZero() {
		_, held = r.v.item(d.Item) // one that was lost did not free it
	}
	switch {
	case held && e.Owner.IsZero() && !e.Ack.IsZero():
		r.pushed(e, d.Item)
		return false
	case held:
		r.refuse(effects.CodeExists, fmt.Sprintf("dedup_key: %q is held by item %s", clip(key), d.Item))
		return false
	}
	if !there {
		up(&r.q.Windows)
	}
	d = QueueDedup{ID: id, Queue: r.q.ID, Key: key, Item: itemID(r.q.ID, r.q.Pushed+1, r.c.Step)}
	if w := r.q.Config.DedupWindowMS; w > 0 {
		d.Until = laterMS(r.c.Now, w)
		r.wakeAt(d.Until)
	}
	r.v.putDedup(d)
	return true
}

// enter gives a new item its id and its turn, and answers with it.
func (r *queueRun) enter(i QueueItem, until Time) uuid.UUID {
	readied := r.readied
	up(&r.q.Pushed)
	i.ID = itemID(r.q.ID, r.q.Pushed, r.c.Step)
	i.Queue, i.CreatedAt = r.q.ID, r.c.Now
	i.Turn = r.nextTurn()
	i = pending(i, until)
	r.move(nil, &i)
	r.readied = readied // a push tells by itself
	if now, ok := r.v.item(i.ID); ok {
		i = now // it may stand in line
	}
	r.answer(i)
	r.emit("push", i.ID)
	return i.ID
}

// deadLetter takes an item that another queue gave up. It must not refuse what a
// queue sends.
func (r *queueRun) deadLetter(e QueueDeadLetter) {
	data := payload(e.Item.Data)
	if err := errors.Join(checkJSON("item.data", data, MaxInputBytes), checkName("item.key", e.Item.Key, false)); err != nil || e.Item.Origin == nil {
		r.refuse(effects.CodeInvalid, fmt.Sprintf("item: not one that a queue gave up: %v", err))
		return
	}
	o := *e.Item.Origin
	o.Namespace, o.Tenant, o.Name, o.To, o.Error = validText(o.Namespace), validText(o.Tenant), validText(o.Name), validText(o.To), validText(o.Error)
	r.enter(QueueItem{Data: data, Priority: e.Item.Priority, Key: e.Item.Key, LastError: o.Error, Origin: &o}, 0)
}

// take gives the first items in the order to a holder (003 take).
func (r *queueRun) take(e QueueTake) {
	most := max(e.Max, 1)
	if err := errors.Join(
		checkName("holder", e.Holder, true),
		checkBetween("max", int64(e.Max), 0, MaxQueueTake),
		checkBetween("visibility_ms", e.VisibilityMS, 0, MaxVisibilityMS),
	); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	r.sweep()
	readied := r.readied
	taken, why := r.takeUpTo(e, int(most))
	r.readied = readied
	if !e.Owner.IsZero() {
		r.send(e.Owner.Ref, QueueTaken{N: e.Owner.N, Items: taken})
		if at := r.q.Config.Rate.next(r.q.RateTAT, r.c.Now); len(taken) < int(most) && at > r.c.Now {
			r.q.Limited = at
			r.wakeAt(at)
		}
		return
	}
	if len(taken) == 0 {
		r.refuse(effects.CodeEmpty, fmt.Sprintf("queue %q gives nothing at the moment: %s", clip(r.q.Name), why))
		return
	}
	r.answer(QueueItems(taken))
}

func (r *queueRun) takeUpTo(e QueueTake, most int) (taken []QueueItem, why string) {
	if r.q.Paused {
		return nil, "it is paused"
	}
	visible := e.VisibilityMS
	if visible == 0 {
		visible = r.q.Config.VisibilityTimeoutMS
	}
	until := laterMS(r.c.Now, visible)
	for range most + maxDueItems {
		if len(taken) == most || len(taken) > 0 && r.moved >= maxMovedBytes {
			return taken, ""
		}
		if n := r.q.Config.Concurrency; n > 0 && r.q.InFlight >= uint64(n) {
			return taken, fmt.Sprintf("its concurrency of %d is used up", n)
		}
		if at := r.q.Config.Rate.next(r.q.RateTAT, r.c.Now); at > r.c.Now {
			return taken, fmt.Sprintf("its rate allows the next item at %s", at)
		}
		i, ok := r.first(listReady)
		if !ok && r.unblock() {
			continue
		}
		if !ok {
			return taken, fmt.Sprintf("no item is ready, %d wait behind their key, %d for their time, %d are in flight", r.q.Waiting, r.q.Delayed+r.q.Retrying, r.q.InFlight)
		}
		if i, ok = r.takeOne(i, e.Holder, until); ok {
			taken = append(taken, i)
		}
	}
	return taken, "many items are past their attempts: ask again"
}

func (r *queueRun) takeOne(before QueueItem, holder string, until Time) (QueueItem, bool) {
	if before.Key != "" { // the limits may have been lowered since it stands in line
		k, ok := r.v.key(partID(r.q.ID, "key", before.Key))
		if may, _ := r.mayRun(&k); ok && !may {
			r.settleKey(k, true)
			return before, false
		}
	}
	if before.Attempts >= r.q.Config.Retry.Attempts() {
		r.die(before, fmt.Sprintf("max_attempts is %d now, and %d were made", r.q.Config.Retry.Attempts(), before.Attempts))
		return before, false
	}
	i := before
	i.Attempts++
	i.Place = 0
	i.State = ItemState{Type: ItemProcessing, Holder: holder, TakenAt: r.c.Now, Until: until}
	r.q.RateTAT = r.q.Config.Rate.took(r.q.RateTAT, r.c.Now)
	up(&r.q.Taken)
	r.move(&before, &i)
	r.emit("take", i.ID)
	return i, true
}

// held gives an item that a holder says it holds, or refuses.
func (r *queueRun) held(id uuid.UUID, holder string, attempt uint32) (QueueItem, bool) {
	i, ok := r.ownItem(id)
	switch {
	case !ok:
	case i.State.Type != ItemProcessing:
		r.refuse(effects.CodeConflict, fmt.Sprintf("item %s is %s: nobody holds it; who held it was too slow, or has answered already", id, i.State.Type))
	case i.State.Holder != holder:
		r.refuse(effects.CodeConflict, fmt.Sprintf("holder: item %s is held by %q, not by %q", id, clip(i.State.Holder), clip(holder)))
	case i.Attempts != attempt:
		r.refuse(effects.CodeConflict, fmt.Sprintf("attempt: item %s is held for attempt %d, not for %d", id, i.Attempts, attempt))
	default:
		return i, true
	}
	return i, false
}

func (r *queueRun) ownItem(id uuid.UUID) (QueueItem, bool) {
	i, ok := r.v.item(id)
	if !ok || i.Queue != r.q.ID {
		r.refuse(effects.CodeNotFound, fmt.Sprintf("item: %s is not in queue %q: it has ended, or never was there", id, clip(r.q.Name)))
		return i, false
	}
	return i, true
}

// complete ends an item (003 complete).
func (r *queueRun) complete(e QueueComplete) {
	before, ok := r.held(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	result := storedResult(e.Result)
	if len(result) > MaxInputBytes {
		r.refuse(effects.CodeInvalid, fmt.Sprintf("result: %d bytes is more than %d", len(result), MaxInputBytes))
		return
	}
	i := before
	i.State = ItemState{Type: ItemCompleted, At: r.c.Now, Result: result}
	up(&r.q.Completed)
	r.freeDedup(&i)
	r.ended(&i, ChildEnded{Outcome: ChildSucceeded, Result: result})
	r.emit("complete", i.ID)
	if keep := r.q.Config.KeepCompletedMS; keep > 0 {
		i.State.Until = laterMS(r.c.Now, keep)
		r.move(&before, &i)
		return
	}
	r.move(&before, nil)
}

// fail ends an attempt (003 fail).
func (r *queueRun) fail(e QueueFail) {
	i, ok := r.held(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	reason := clipText(reasonOr(e.Error, "failed without a reason"))
	up(&r.q.Failed)
	r.emitWhy("fail", i.ID, "error", reason)
	r.again(i, reason, true, e.Permanent || r.q.Config.Retry.Permanent(reason))
}

// clipText keeps a text from outside within its limit.
func clipText(s string) string {
	if len(s) > MaxTextBytes {
		return validText(s[:MaxTextBytes])
	}
	return s
}

// extend keeps an item out of sight.
func (r *queueRun) extend(e QueueExtend) {
	before, ok := r.held(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	if err := checkBetween("visibility_ms", e.VisibilityMS, 0, MaxVisibilityMS); err != nil {
		r.refuse(effects.CodeInvalid, err.Error())
		return
	}
	visible := e.VisibilityMS
	if visible == 0 {
		visible = r.q.Config.VisibilityTimeoutMS
	}
	i := before
	i.State.Until = laterMS(r.c.Now, visible)
	r.move(&before, &i)
	r.readied = false // it is held as before
	r.answer(i)
}

// release gives an item back as it was before the take.
func (r *queueRun) release(e QueueRelease) {
	before, ok := r.held(e.Item, e.Holder, e.Attempt)
	if !ok {
		return
	}
	i := pending(before, 0)
	i.Attempts = max(i.Attempts, 1) - 1
	r.move(&before, &i)
}

// cancelItem removes an item that is not held.
func (r *queueRun) cancelItem(e QueueCancelItem) {
	i, ok := r.ownItem(e.Item)
	if !ok {
		return
	}
	if t := i.State.Type; t == ItemProcessing || t == ItemCompleted {
		r.refuse(effects.CodeConflict, fmt.Sprintf("item %s is %s: only one that is pending, failed or dead can be removed", i.ID, t))
		return
	}
	r.discard(i, clipText(reasonOr(e.Reason, "cancelled")))
}

func (r *queueRun) discard(i QueueItem, reason string) {
	if i.State.Type != ItemCompleted {
		up(&r.q.Cancelled)
		r.freeDedup(&i)
		r.ended(&i, ChildEnded{Outcome: ChildCancelled, Reason: reason})
	}
	r.move(&i, nil)
}
