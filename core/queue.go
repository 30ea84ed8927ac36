package core

import (
	"fmt"

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

	// Turn is the last turn that was given out: a place in the line of what waits,
	// within its priority. It begins again when nothing waits and nothing can come
	// back.
	Turn uint32 `json:"turn"`
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
	w := whole{items: q.Items, keys: q.Keys, dedups: q.Dedups}
	next, effs := q.header().over(&w, e, c)
	if refusal(effs) != nil {
		return q, effs
	}
	next.Items, next.Keys, next.Dedups = w.items, w.keys, w.dedups
	return next, effs
}

// header is the queue without what a stored header leaves out.
func (q Queue) header() Queue {
	q.Items, q.Keys, q.Dedups = nil, nil, nil
	return q
}

// over carries out one transition of a header over what the view shows of its
// items, and writes to. Where it gives a refusal, what was written to the view is
// to be dropped.
func (q Queue) over(v queueView, e QueueEvent, c Clock) (Queue, []effects.Effect) {
	r := queueRun{q: q, v: v, c: c, ev: e}
	if q.ID == uuid.Nil {
		r.absent(e)
	} else {
		r.present(e)
	}
	if r.refusal != nil {
		return q, r.refusal
	}
	if r.readied && r.q.Ready > 0 && !r.q.Paused {
		r.emit("ready", uuid.Nil)
	}
	return r.q, r.effs
}

// absent: create, push and dead_letter lead out of not existing.
func (r *queueRun) absent(e QueueEvent) {
	switch e := e.(type) {
	case QueueCreate:
		r.create(e)
	case QueuePush:
		if r.make(e.Namespace, e.Tenant, e.Name, QueueConfig{}) {
			r.push(e)
		}
	case QueueDeadLetter:
		if o := e.Item.origin(); r.make(o.Namespace, o.Tenant, o.To, QueueConfig{}) {
			r.deadLetter(e)
		}
	case QueueTake:
		if !e.Owner.IsZero() { // who waits for items of a queue to come gets none
			r.send(e.Owner.Ref, QueueTaken{N: e.Owner.N})
			return
		}
		r.refuse(effects.CodeNotFound, "queue not found")
	case QueueMend:
		r.forget(e)
	case QueueConfigure, QueueComplete, QueueFail, QueueExtend, QueueRelease, QueueCancelItem,
		QueueRedrive, QueuePause, QueueResume, QueuePurge, QueueDelete, QueueDue:
		r.refuse(effects.CodeNotFound, "queue not found")
	}
}

func (r *queueRun) present(e QueueEvent) {
	switch e := e.(type) {
	case QueueCreate:
		r.refuse(effects.CodeExists, fmt.Sprintf("name: queue %q exists already", clip(r.q.Name)))
	case QueueConfigure:
		r.configure(e)
	case QueuePush:
		r.push(e)
	case QueueTake:
		r.take(e)
	case QueueComplete:
		r.complete(e)
	case QueueFail:
		r.fail(e)
	case QueueExtend:
		r.extend(e)
	case QueueRelease:
		r.release(e)
	case QueueCancelItem:
		r.cancelItem(e)
	case QueueRedrive:
		r.redrive(e)
	case QueuePause:
		r.pause(e)
	case QueueResume:
		r.resume()
	case QueuePurge:
		r.purge(e)
	case QueueDelete:
		r.remove()
	case QueueDue:
		r.due()
	case QueueDeadLetter:
		r.deadLetter(e)
	case QueueMend:
		r.mend(e)
	}
}

// Ref names the queue.
func (q Queue) Ref() effects.Ref {
	if q.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindQueue, ID: q.ID}
}

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

// Terms lists the queue under all, its status and its tenant.
func (q Queue) Terms() []effects.Term {
	return []effects.Term{
		{Name: TermAll, At: q.CreatedAt, Counted: true},
		{Name: QueueStatusTerm(q.Paused), At: q.CreatedAt, Counted: true},
		{Name: ScopeTerm(q.Namespace, q.Tenant), At: q.CreatedAt},
	}
}

func (q Queue) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(QueueEvent)
	if !ok {
		return q, refused(effects.Ref{Kind: KindQueue, ID: q.ID}, e, effects.CodeInvalid, fmt.Sprintf("a queue takes no event %q", e.EventType()))
	}
	return q.Apply(own, c)
}
