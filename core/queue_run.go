package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// queueView is what a transition sees of the items, keys and dedup keys of its
// queue, and writes to: all of them, or those that a [Batch] looks up.
type queueView interface {
	item(id uuid.UUID) (QueueItem, bool)
	key(id uuid.UUID) (QueueKey, bool)
	dedup(id uuid.UUID) (QueueDedup, bool)
	// The first of a list; of is the queue, or for listKey the key.
	firstItem(l queueList, of uuid.UUID) (QueueItem, bool)
	firstKey(of uuid.UUID) (QueueKey, bool)
	firstDedup(of uuid.UUID) (QueueDedup, bool)
	// All places of a list, in its order, as the index has them: for what is lost.
	places(l queueList, of uuid.UUID) []Cursor

	putItem(i QueueItem)
	putKey(k QueueKey)
	putDedup(d QueueDedup)
	dropItem(id uuid.UUID)
	dropKey(id uuid.UUID)
	dropDedup(id uuid.UUID)
}

// queueRun is one transition of a queue under way.
type queueRun struct {
	q       Queue // its header
	v       queueView
	c       Clock
	ev      QueueEvent
	effs    []effects.Effect
	refusal []effects.Effect
	moved   int  // bytes of data of the items that were moved
	readied bool // something became takeable that was not just pushed
}

func (r *queueRun) refuse(code effects.Code, reason string) {
	r.refusal = refused(effects.Ref{Kind: KindQueue, ID: r.q.ID}, r.ev, code, reason)
}

func (r *queueRun) send(to effects.Ref, e Event) {
	r.effs = append(r.effs, effects.Send{To: to, Event: e})
}

func (r *queueRun) answer(v effects.Value) { r.effs = append(r.effs, effects.Answer{Value: v}) }

// emit announces something about an item, or about the queue itself.
func (r *queueRun) emit(action string, item uuid.UUID) { r.emitWhy(action, item, "", "") }

// emitWhy announces it with a reason, as the member of that name.
func (r *queueRun) emitWhy(action string, item uuid.UUID, member, why string) {
	o := begin(make([]byte, 0, 64+len(r.q.Name)+len(why)))
	if item != uuid.Nil {
		o.id("item", item)
	}
	o.str("name", r.q.Name)
	if member != "" {
		o.str(member, why)
	}
	r.effs = append(r.effs, effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "queue", Action: action},
		Source: effects.EventSource{Component: "queue", ID: r.q.ID},
		Data:   o.end(),
	}})
}

// ended tells who waits for the item, once.
func (r *queueRun) ended(i *QueueItem, e ChildEnded) {
	e.Child = i.Ref()
	r.effs = append(r.effs, i.Owner.ended(e)...)
	i.Owner = Owner{}
}

// wakeAt lets the queue wake no later than then.
func (r *queueRun) wakeAt(at Time) {
	if !at.IsZero() && (r.q.Wake.IsZero() || at < r.q.Wake) {
		r.q.Wake = at
	}
}

func (r *queueRun) nextTurn() uint32 {
	if r.q.live() == 0 {
		r.q.Turn = 0
	}
	r.q.Turn = min(r.q.Turn, maxTurn-1) + 1
	return r.q.Turn
}

// gauge is where an item in that list is counted.
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

func up(n *uint64) {
	if *n+1 != 0 {
		*n++
	}
}

func down(n *uint64) {
	if *n > 0 {
		*n--
	}
}

// first gives the first item of a list of the queue. Where the gauge says that
// there is one and there is none, its record was set aside as unreadable, and the
// gauge is put right.
func (r *queueRun) first(l queueList) (QueueItem, bool) {
	n := r.q.gauge(l)
	if *n == 0 && l != listOrigin {
		return QueueItem{}, false
	}
	i, ok := r.v.firstItem(l, r.q.ID)
	if !ok && l != listOrigin {
		*n = 0
	}
	return i, ok
}

// move takes an item from one state to another; nil: it is not there. All that
// counts items and orders them follows from the two.
func (r *queueRun) move(before, after *QueueItem) {
	if before != nil {
		l, _ := before.list()
		full := r.q.Config.Concurrency > 0 && r.q.InFlight >= uint64(r.q.Config.Concurrency)
		down(r.q.gauge(l))
		r.readied = r.readied || full && l == listFlight
	}
	it := after
	if after != nil {
		r.moved += len(after.Data)
		l, at := after.list()
		up(r.q.gauge(l))
		switch l {
		case listReady:
			r.readied = true
		case listDelayed, listFlight, listRetrying, listKept:
			r.wakeAt(at)
		case listWaiting, listKey, listDead, listOrigin, listBlocked, listWindow:
		}
		r.v.putItem(*after)
	} else {
		it = before
		r.moved += len(before.Data)
		r.v.dropItem(before.ID)
	}
	if it.Key != "" {
		r.moveInKey(it.ID, it.Key, before, after)
	}
}

// moveInKey does for the item's key what move does for the queue.
func (r *queueRun) moveInKey(id uuid.UUID, key string, before, after *QueueItem) {
	keyID := partID(r.q.ID, "key", key)
	k, there := r.v.key(keyID)
	if !there {
		k = QueueKey{ID: keyID, Queue: r.q.ID, Key: key}
	}
	was := before != nil && before.State.Type == ItemProcessing
	is := after != nil && after.State.Type == ItemProcessing
	switch {
	case was && !is:
		down(&k.InFlight)
	case is && !was:
		up(&k.InFlight)
		k.RateTAT = r.q.Config.KeyRate.took(k.RateTAT, r.c.Now)
	}
	if before != nil && before.queued() {
		down(&k.Waiting)
		if k.Front == id {
			k.Front = uuid.Nil
		}
	}
	if after != nil && after.queued() {
		up(&k.Waiting)
	}
	r.settleKey(k, there)
}

// mayRun reports whether an item of the key may be taken, and where only the
// rate forbids it, when.
func (r *queueRun) mayRun(k *QueueKey) (ok bool, at Time) {
	if most := r.q.Config.KeyConcurrency; most > 0 && k.InFlight >= uint64(most) {
		return false, 0
	}
	at = r.q.Config.KeyRate.next(k.RateTAT, r.c.Now)
	return at <= r.c.Now, at
}

// settleKey lets the first item of the key stand in line where one may run, and
// none else: so the keys take turns. A key of which nothing is left goes.
func (r *queueRun) settleKey(k QueueKey, there bool) {
	var first QueueItem
	waits := false
	if k.Waiting > 0 {
		if first, waits = r.v.firstItem(listKey, k.ID); !waits {
			k.Waiting = 0 // its record was set aside
		}
	}
	may, at := r.mayRun(&k)
	place := uint32(0)
	if k.Front != uuid.Nil && (!may || !waits || k.Front != first.ID) {
		place = r.stepBack(k.Front)
		k.Front = uuid.Nil
	}
	k.Until = 0
	switch {
	case waits && may && k.Front == uuid.Nil:
		if place == 0 { // else it takes the place of the one that it has overtaken
			place = first.Turn
			if first.Turn != r.q.Turn {
				place = r.nextTurn()
			}
			r.readied = true
		}
		first.Place = place
		down(&r.q.Waiting)
		up(&r.q.Ready)
		k.Front = first.ID
		r.v.putItem(first)
	case waits && !may:
		k.Until = at // 0: one that is in flight gives way
	case !waits && k.InFlight == 0 && at > r.c.Now:
		k.Until = at // its rate must not be forgotten before
	}
	r.wakeAt(k.Until)
	r.putKey(k, there, waits || k.InFlight > 0 || !k.Until.IsZero())
}

// stepBack takes the item of a key out of the line, and gives its place.
func (r *queueRun) stepBack(id uuid.UUID) uint32 {
	i, ok := r.v.item(id)
	if !ok || !i.queued() || i.Place == 0 {
		return 0
	}
	place := i.Place
	i.Place = 0
	down(&r.q.Ready)
	up(&r.q.Waiting)
	r.v.putItem(i)
	return place
}

func (r *queueRun) putKey(k QueueKey, there, keep bool) {
	switch {
	case keep && !there:
		up(&r.q.KeyCount)
	case there && !keep:
		down(&r.q.KeyCount)
	}
	switch {
	case keep:
		r.v.putKey(k)
	case there:
		r.v.dropKey(k.ID)
	}
}

// pending lets an item wait: for a time, or in line. One with a key stands in
// line once it is the first of its key.
func pending(i QueueItem, until Time) QueueItem {
	i.State = ItemState{Type: ItemPending, Until: until}
	i.Place = 0
	if i.Key == "" && until.IsZero() {
		i.Place = i.Turn
	}
	return i
}

// freeDedup gives the dedup key of an item that has ended free, where it was
// held for as long.
func (r *queueRun) freeDedup(i *QueueItem) {
	if i.DedupKey == "" {
		return
	}
	d, ok := r.v.dedup(partID(r.q.ID, "dedup", i.DedupKey))
	if ok && d.Item == i.ID && d.Until.IsZero() {
		r.dropDedup(d.ID)
	}
}

func (r *queueRun) dropDedup(id uuid.UUID) {
	down(&r.q.Windows)
	r.v.dropDedup(id)
}

// die gives an item up: into the dead letter queue, where there is one, else it
// stays here.
func (r *queueRun) die(before QueueItem, reason string) {
	i := before
	i.State, i.Place = ItemState{Type: ItemDead, Reason: reason, At: r.c.Now}, 0
	r.freeDedup(&i)
	r.ended(&i, ChildEnded{Outcome: ChildFailed, Reason: reason})
	r.emitWhy("dead", i.ID, "reason", reason)
	if to := r.q.Config.DeadLetterQueue; to != "" && i.origin().Hops < maxHops {
		up(&r.q.DeadLettered)
		r.move(&before, nil)
		i.Origin = &QueueOrigin{
			Namespace: r.q.Namespace, Tenant: r.q.Tenant, Name: r.q.Name, To: to,
			Item: i.ID, Attempts: i.Attempts, Error: reason, DeadAt: r.c.Now, Hops: i.origin().Hops + 1,
		}
		r.effs = append(r.effs, effects.DeadLetter{Queue: QueueRef(r.q.Namespace, r.q.Tenant, to), Item: i})
		return
	}
	r.move(&before, &i)
}

// again is what follows an attempt that came to nothing: back to pending at once
// or after a back-off, or the end.
func (r *queueRun) again(before QueueItem, reason string, backoff, permanent bool) {
	i := before
	i.LastError = reason
	retry := r.q.Config.Retry
	switch {
	case permanent || i.Attempts >= retry.Attempts():
		r.die(before, reason)
		return
	case backoff:
		if d := retry.Delay(i.ID, i.Attempts); d > 0 {
			i.State, i.Place = ItemState{Type: ItemFailed, Error: reason, Until: r.c.Now.Add(ms(d))}, 0
			r.move(&before, &i)
			return
		}
	}
	i = pending(i, 0)
	r.move(&before, &i)
}

// sweep lets happen what has come due, a bounded number of things, and finds the
// next time.
func (r *queueRun) sweep() {
	if r.q.Wake.IsZero() || r.q.Wake > r.c.Now {
		return
	}
	for n := 0; n < maxDueItems && r.moved < maxMovedBytes; n++ {
		at, l := r.nextTimed()
		if at.IsZero() || at > r.c.Now {
			r.q.Wake = at
			return
		}
		r.happen(l)
	}
	r.q.Wake, _ = r.nextTimed()
	if !r.q.Wake.IsZero() { // the rest is for another event, which must not come at this very instant
		r.q.Wake = max(r.q.Wake, r.c.Now.Add(ms(1)))
	}
}

// listTimed stands for the time of the queue's own, in nextTimed.
const listTimed = listOrigin

// nextTimed is the first time at which something is to happen, and the list in
// which that stands.
func (r *queueRun) nextTimed() (at Time, l queueList) {
	earlier := func(t Time, in queueList) {
		if !t.IsZero() && (at.IsZero() || t < at) {
			at, l = t, in
		}
	}
	for _, in := range []queueList{listDelayed, listFlight, listRetrying, listKept} {
		if i, ok := r.first(in); ok {
			earlier(max(i.State.Until, 1), in)
		}
	}
	if r.q.KeyCount > 0 {
		if k, ok := r.v.firstKey(r.q.ID); ok {
			earlier(k.Until, listBlocked)
		} else if r.q.live() == 0 { // see recount
			r.q.KeyCount = 0
		}
	}
	if r.q.Windows > 0 {
		if d, ok := r.v.firstDedup(r.q.ID); ok {
			earlier(d.Until, listWindow)
		} else if r.q.live() == 0 {
			r.q.Windows = 0
		}
	}
	earlier(r.q.Limited, listTimed)
	return at, l
}

// happen lets the first of a list happen.
func (r *queueRun) happen(l queueList) {
	switch l {
	case listDelayed, listRetrying:
		i, _ := r.first(l)
		after := pending(i, 0)
		r.move(&i, &after)
		r.readied = true
	case listFlight:
		i, _ := r.first(l)
		up(&r.q.TimedOut)
		r.again(i, fmt.Sprintf("holder %q gave no sign of life until %s", clip(i.State.Holder), i.State.Until), false, false)
	case listKept:
		i, _ := r.first(l)
		r.move(&i, nil)
	case listBlocked:
		k, _ := r.v.firstKey(r.q.ID)
		r.settleKey(k, true)
	case listWindow:
		d, _ := r.v.firstDedup(r.q.ID)
		r.dropDedup(d.ID)
	case listTimed:
		r.q.Limited = 0
		r.readied = true
	case listReady, listWaiting, listKey, listDead:
	}
}

// due: what has come due happens.
func (r *queueRun) due() {
	if r.q.Wake.IsZero() || r.q.Wake > r.c.Now {
		r.refuse(effects.CodeConflict, fmt.Sprintf("queue %q is due at %s, after %s", clip(r.q.Name), r.q.Wake, r.c.Now))
		return
	}
	r.sweep()
}
