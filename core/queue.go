package core

import (
	"errors"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Queue holds work items with order, visibility and retry (003 Queue).
//
//	 create, push,              pause
//	 dead_letter   ┌────────┐ ─────────▶ ┌────────┐
//	──────────────▶│ active │            │ paused │
//	               └────────┘ ◀───────── └────────┘
//	                            resume
//
// delete leads from both out of existence, once no item is left. What happens
// to an item is drawn at [QueueItem].
//
// A queue is one machine and pure over all that it holds. But no transition
// needs more than a few of its items: a [Batch] keeps items, keys and dedup keys as
// records of their own, and gives a transition those that it asks for. A property
// test holds that what comes out is the same as with all of them. The stored
// record of a queue is its header: it has neither items nor keys nor dedup keys.
//
// Invariants, held by property tests:
//   - Every gauge equals what a count over all items gives.
//   - An item is held by at most one holder, and only a take gives it to one.
//   - No item is lost or duplicated: one comes by push or dead_letter, and goes by complete,
//     cancel_item, purge or redrive, as a dead letter, or once it was kept long enough.
//   - A take never lets the attempts of an item exceed max_attempts.
//   - What is taken comes first in the order: the highest priority, and within it the first
//     pushed of those that may run.
//   - A take leaves no more items in flight than concurrency and key_concurrency allow.
//   - Of each key at most one item stands in line, and it is the first of those that wait.
//   - A dedup key without a window is held only by an item that has not ended.
//   - The deadline is never after the first time at which something is to happen.
type Queue struct {
	ID        uuid.UUID   `json:"id"`
	Namespace string      `json:"namespace"`
	Tenant    string      `json:"tenant"`
	Name      string      `json:"name"`
	Config    QueueConfig `json:"config"`
	CreatedAt Time        `json:"created_at"`
	Paused    bool        `json:"paused"`
	PausedBy  string      `json:"paused_by"`
	Reason    string      `json:"reason"` // of the pause

	// LastPosition is the last position that was given to an item: items of one
	// priority are taken in the order of their positions. It begins at 0 whenever the
	// queue has no item that may be taken now or later.
	LastPosition uint32 `json:"turn"`
	// RateTAT is when the next take would conform to the rate without any burst, in
	// microseconds since 1970.
	RateTAT int64 `json:"rate_tat"`
	// Limited is when the rate lets the next item go, where a machine was given
	// less than it asked for.
	Limited Time `json:"limited"`
	// Wake is a lower bound of the first time at which something is to happen here.
	Wake Time `json:"wake"`

	// Counters of what has happened. They saturate.
	Pushed       uint64 `json:"pushed"` // also numbers the items
	Taken        uint64 `json:"taken"`
	Completed    uint64 `json:"completed"`
	Failed       uint64 `json:"failed"` // attempts
	TimedOut     uint64 `json:"timed_out"`
	DeadLettered uint64 `json:"dead_lettered"` // moved to the dead letter queue
	Cancelled    uint64 `json:"cancelled"`     // by cancel_item and purge
	Redriven     uint64 `json:"redriven"`

	// Gauges of what is here now.
	Ready    uint64 `json:"ready"`     // pending, in line
	Waiting  uint64 `json:"waiting"`   // pending, behind another one of their key
	Delayed  uint64 `json:"delayed"`   // pending, until their time
	InFlight uint64 `json:"in_flight"` // processing
	Retrying uint64 `json:"retrying"`  // failed, until their back-off has passed
	Kept     uint64 `json:"kept"`      // completed
	Dead     uint64 `json:"dead"`
	KeyCount uint64 `json:"keys_count"`
	Windows  uint64 `json:"dedups_count"`

	// What a stored header leaves out, see [Queue].
	Items  []QueueItem  `json:"items,omitempty"`  // ordered by id, which is the order of their push
	Keys   []QueueKey   `json:"keys,omitempty"`   // ordered by id
	Dedups []QueueDedup `json:"dedups,omitempty"` // ordered by id
}

// QueueRef names the queue of that name.
func QueueRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindQueue, ID: namedID("queue", namespace, tenant, name)}
}

// Held is how many items the queue has in whatever state.
func (q Queue) Held() uint64 {
	return q.live() + q.Kept + q.Dead
}

// live counts the items that may be taken now or later.
func (q Queue) live() uint64 {
	return q.Ready + q.Waiting + q.Delayed + q.InFlight + q.Retrying
}

// Apply carries out one transition.
func (q Queue) Apply(e QueueEvent, c Clock) (Queue, []effects.Effect) {
	w := wholeOf(q)
	next, effs := q.header().applyTo(w, e, c)
	if refusal(effs) != nil {
		return q, effs
	}
	next.Items, next.Keys, next.Dedups = recordsOf[QueueItem](w), recordsOf[QueueKey](w), recordsOf[QueueDedup](w)
	return next, effs
}

// header is the queue without what a stored header leaves out.
func (q Queue) header() Queue {
	q.Items, q.Keys, q.Dedups = nil, nil, nil
	return q
}

// Ref names the queue.
func (q Queue) Ref() effects.Ref { return refOf(KindQueue, q.ID) }

// Deadline is when something is to happen here by itself, or before: an item's
// delay, back-off or visibility ends, a key may run again, or what is kept is to
// be forgotten.
func (q Queue) Deadline() Time { return q.Wake }

// NextTake is when the rate of the queue allows the next take; zero where it has
// none, and not after now where that may come at once.
func (q Queue) NextTake(now Time) Time { return q.Config.Rate.next(q.RateTAT, now) }

// QueueDedupRef names the record of a dedup key of a queue.
func QueueDedupRef(queue uuid.UUID, key string) effects.Ref {
	return effects.Ref{Kind: KindQueueDedup, ID: partID(queue, "dedup", key)}
}

// QueueKeyRef names the record of a key of a queue.
func QueueKeyRef(queue uuid.UUID, key string) effects.Ref {
	return effects.Ref{Kind: KindQueueKey, ID: partID(queue, "key", key)}
}

// QueueStatusTerm is the list term of the queues that are paused, or not.
func QueueStatusTerm(paused bool) string {
	if paused {
		return "status:paused"
	}
	return "status:active"
}

// Terms lists the queue under all, and under its status within its tenant.
func (q Queue) Terms() []effects.Term {
	return listed(q.CreatedAt, QueueStatusTerm(q.Paused), q.scope())
}

// applyTo applies an event to a header and to the items that the view shows. If the
// event is refused, what was written to the view is to be dropped.
func (q Queue) applyTo(v queueView, e QueueEvent, c Clock) (Queue, []effects.Effect) {
	t := &queueTransition{transition: transition{clock: c, event: e}, Queue: q, view: queueRecords{v}}
	if q.ID == uuid.Nil {
		t.applyAbsent(e)
	} else {
		t.applyPresent(e)
	}
	if t.readied && t.Ready > 0 && !t.Paused {
		t.emit("ready", uuid.Nil)
	}
	return concluded(q, t.Queue, t.transition)
}

// applyAbsent: create, push and dead_letter lead out of not existing.
func (t *queueTransition) applyAbsent(e QueueEvent) {
	switch e := e.(type) {
	case QueueCreate:
		t.create(e)
	case QueuePush:
		if t.declare(e.Namespace, e.Tenant, e.Name, QueueConfig{}) {
			t.push(e)
		}
	case QueueDeadLetter:
		if o := e.Item.origin(); t.declare(o.Namespace, o.Tenant, o.To, QueueConfig{}) {
			t.deadLetter(e)
		}
	case QueueTake:
		if !e.Owner.IsZero() { // who waits for items of a queue to come gets none
			t.send(e.Owner.Ref, QueueTaken{N: e.Owner.N})
			return
		}
		t.refuse(effects.CodeNotFound, "queue not found")
	case QueueMend:
		t.mendAbsent(e)
	case QueueConfigure, QueueComplete, QueueFail, QueueExtend, QueueRelease, QueueCancelItem,
		QueueRedrive, QueuePause, QueueResume, QueuePurge, QueueDelete, QueueDue:
		t.refuse(effects.CodeNotFound, "queue not found")
	}
}

// applyPresent: what may happen to a queue that exists.
func (t *queueTransition) applyPresent(e QueueEvent) {
	switch e := e.(type) {
	case QueueCreate:
		t.refuse(effects.CodeExists, "name: queue %q exists already", clip(t.Name))
	case QueueConfigure:
		t.configure(e)
	case QueuePush:
		t.push(e)
	case QueueTake:
		t.take(e)
	case QueueComplete:
		t.complete(e)
	case QueueFail:
		t.fail(e)
	case QueueExtend:
		t.extend(e)
	case QueueRelease:
		t.release(e)
	case QueueCancelItem:
		t.cancelItem(e)
	case QueueRedrive:
		t.redrive(e)
	case QueuePause:
		t.pause(e)
	case QueueResume:
		t.resume()
	case QueuePurge:
		t.purge(e)
	case QueueDelete:
		t.delete()
	case QueueDue:
		t.due()
	case QueueDeadLetter:
		t.deadLetter(e)
	case QueueMend:
		t.mend(e)
	}
}

// create: (absent) → active.
func (t *queueTransition) create(e QueueCreate) { t.declare(e.Namespace, e.Tenant, e.Name, e.Config) }

func (t *queueTransition) declare(namespace, tenant, name string, config QueueConfig) bool {
	config = config.withDefaults()
	if t.invalid(errors.Join(
		checkTenant("", namespace, tenant),
		checkName("name", name, true),
		config.validate(name),
	)) {
		return false
	}
	t.Queue = Queue{
		ID: QueueRef(namespace, tenant, name).ID, Namespace: namespace, Tenant: tenant, Name: name,
		Config: config, CreatedAt: t.clock.Now,
	}
	t.recount()
	return true
}

// configure: the configuration is replaced.
func (t *queueTransition) configure(e QueueConfigure) {
	config := e.Config.withDefaults()
	if t.invalid(config.validate(t.Name)) {
		return
	}
	t.Config = config
	t.Limited, t.readied = 0, true // a worker that was given fewer items than it asked for may get more
	for range maxDueItems {        // and keys that the rate held back may run
		k, ok := t.view.firstKey(t.ID)
		if !ok {
			return
		}
		if may, at := t.keyMayRun(&k); !may && at == k.Until {
			return
		}
		t.advanceKey(k, true)
	}
}

// pause: active → paused.
func (t *queueTransition) pause(e QueuePause) {
	if t.invalid(errors.Join(checkName("by", e.By, false), checkText("reason", e.Reason))) {
		return
	}
	if t.Paused {
		t.refuse(effects.CodeConflict, "queue %q is paused already", clip(t.Name))
		return
	}
	t.Paused, t.PausedBy, t.Reason = true, e.By, e.Reason
}

// resume: paused → active.
func (t *queueTransition) resume() {
	if !t.Paused {
		t.refuse(effects.CodeConflict, "queue %q is not paused", clip(t.Name))
		return
	}
	t.Paused, t.PausedBy, t.Reason = false, "", ""
	t.readied = true
}

// delete: active, paused → (absent), once no item is left.
func (t *queueTransition) delete() {
	switch n := t.Held(); {
	case n > 0 && n == t.Kept:
		t.refuse(effects.CodeConflict, "queue %q keeps %d items that are completed: purge them first", clip(t.Name), n)
		return
	case n > 0:
		t.refuse(effects.CodeConflict, "queue %q holds %d items: purge or finish them first", clip(t.Name), n)
		return
	}
	for range MaxQueueBatch {
		d, ok := t.view.firstDedup(t.ID)
		if !ok {
			break
		}
		t.dropDedup(d.ID)
	}
	for range MaxQueueBatch {
		k, ok := t.view.firstKey(t.ID)
		if !ok {
			break
		}
		t.putKey(k, true, false)
	}
	_, keys := t.view.firstKey(t.ID)
	if _, windows := t.view.firstDedup(t.ID); keys || windows {
		t.refuse(effects.CodeConflict, "queue %q remembers %d keys and %d dedup keys: purge it first", clip(t.Name), t.KeyCount, t.Windows)
		return
	}
	t.Queue, t.readied = Queue{}, false
}
