package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Queues are the calls for queues and their items.
type Queues struct{ e *Engine }

// Queues gives the calls for queues and their items.
func (e *Engine) Queues() Queues { return Queues{e} }

// Configure declares a queue, or replaces the configuration of one.
func (q Queues) Configure(ctx context.Context, namespace, tenant, name string, c core.QueueConfig) (core.Queue, error) {
	c.Retry.NoRetry = slices.Clone(c.Retry.NoRetry)
	ref := core.QueueRef(namespace, tenant, name)
	send := func(ev core.QueueEvent) (core.Queue, error) {
		// Whichever of the two it was: who asks again does not know.
		s, err := q.e.loop.Do(ctx, engine.Request{Inputs: []core.Input{inputOf(ctx, ref, ev)}, Want: ref, As: "queue.put"})
		return as[core.Queue](s, err)
	}
	header, err := send(core.QueueConfigure{Config: c})
	if errors.Is(err, ErrNotFound) {
		header, err = send(core.QueueCreate{Namespace: namespace, Tenant: tenant, Name: name, Config: c})
		if refusedFor(err, effects.CodeExists) { // somebody else was quicker
			header, err = send(core.QueueConfigure{Config: c})
		}
	}
	return header, err
}

// Pause stops takes from a queue; all else goes on.
func (q Queues) Pause(ctx context.Context, queue effects.Ref, by, reason string) (core.Queue, error) {
	return q.change(ctx, queue, core.QueuePause{By: by, Reason: reason})
}

// Resume lets takes go on.
func (q Queues) Resume(ctx context.Context, queue effects.Ref) (core.Queue, error) {
	return q.change(ctx, queue, core.QueueResume{})
}

// Delete removes a queue that holds no item.
func (q Queues) Delete(ctx context.Context, queue effects.Ref) error {
	_, err := q.tell(ctx, queue, core.QueueDelete{})
	return err
}

// Get reads a queue's header: its configuration, counters and gauges.
func (q Queues) Get(ctx context.Context, namespace, tenant, name string) (core.Queue, error) {
	return readAs[core.Queue](ctx, q.e, core.QueueRef(namespace, tenant, name))
}

// QueueFilter chooses queues; zero fields choose all.
type QueueFilter struct {
	Scope  *Scope
	Paused *bool
}

// List lists queues, newest first.
func (q Queues) List(ctx context.Context, f QueueFilter, p Page) (queues []core.Queue, next string, err error) {
	of := filter{kind: core.KindQueue, scope: f.Scope, status: flagTerm(f.Paused, core.QueueStatusTerm)}
	return list(ctx, q.e, of, p, func(q core.Queue) bool {
		return f.Paused == nil || q.Paused == *f.Paused
	})
}

// tell sends an event to a queue, and gives what it was answered.
func (q Queues) tell(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.Result, error) {
	res, _, err := q.e.ask(ctx, queue, ev, 0)
	return res, err
}

// change sends an event to a queue, and gives its header afterwards.
func (q Queues) change(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.Queue, error) {
	_, s, err := q.e.ask(ctx, queue, ev, 0)
	header, _ := s.(core.Queue)
	return header, err
}

// PushOptions say how an item is pushed. The zero value: no data, priority 0, at
// once.
type PushOptions struct {
	Data     json.RawMessage // at most core.MaxInputBytes; empty: null
	Priority int32           // the higher goes first
	Key      string          // items with the same key share limits and rounds
	DedupKey string
	Delay    time.Duration // cut to milliseconds
}

// event gives the event that pushes the item, which shares nothing with the options.
func (o PushOptions) event(namespace, tenant, queue string) core.QueuePush {
	return core.QueuePush{
		Namespace: namespace, Tenant: tenant, Name: queue, Data: slices.Clone(o.Data), Priority: o.Priority,
		Key: o.Key, DedupKey: o.DedupKey, DelayMS: o.Delay.Milliseconds(),
	}
}

// Push adds an item to a queue, which is made with the defaults where it was not
// declared. Where the dedup key is held, nothing is added: duplicate is true, and
// the item is the one that holds it, only its id where that has ended.
func (q Queues) Push(ctx context.Context, namespace, tenant, queue string, o PushOptions) (item core.QueueItem, duplicate bool, err error) {
	ref := core.QueueRef(namespace, tenant, queue)
	for {
		res, err := q.tell(ctx, ref, o.event(namespace, tenant, queue))
		if !refusedFor(err, effects.CodeExists) || o.DedupKey == "" {
			item, _ = res.Answer.(core.QueueItem)
			return item, false, err
		}
		item, err = q.holder(ctx, ref, o.DedupKey)
		if !errors.Is(err, ErrNotFound) { // else the key was let go of meanwhile
			return item, err == nil, err
		}
	}
}

// holder reads the item that holds a dedup key.
func (q Queues) holder(ctx context.Context, queue effects.Ref, key string) (core.QueueItem, error) {
	d, err := readAs[core.QueueDedup](ctx, q.e, core.QueueDedupRef(queue.ID, key))
	if err != nil {
		return core.QueueItem{}, err
	}
	return q.itemOrID(ctx, queue, d)
}

// itemOrID reads the item that holds a dedup key; only its id if it has ended.
func (q Queues) itemOrID(ctx context.Context, queue effects.Ref, d core.QueueDedup) (core.QueueItem, error) {
	i, err := q.Item(ctx, queue, d.Item)
	if errors.Is(err, ErrNotFound) {
		return core.QueueItem{ID: d.Item, Queue: queue.ID, DedupKey: d.Key}, nil
	}
	return i, err
}

// Hold names an item and who holds it: what all answers of a holder must say.
type Hold struct {
	Queue   effects.Ref
	Item    uuid.UUID
	Holder  string
	Attempt uint32
}

// HoldOf gives the hold of an item that was taken.
func HoldOf(i core.QueueItem) Hold {
	return Hold{Queue: effects.Ref{Kind: core.KindQueue, ID: i.Queue}, Item: i.ID, Holder: i.State.Holder, Attempt: i.Attempts}
}

// Complete says that an item is done.
func (q Queues) Complete(ctx context.Context, h Hold, result json.RawMessage) error {
	_, err := q.tell(ctx, h.Queue, core.QueueComplete{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, Result: slices.Clone(result)})
	return err
}

// Fail says that an attempt failed; permanent that no further one is to be made.
func (q Queues) Fail(ctx context.Context, h Hold, reason string, permanent bool) error {
	_, err := q.tell(ctx, h.Queue, core.QueueFail{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, Error: reason, Permanent: permanent})
	return err
}

// Extend keeps an item out of sight of others from now on; 0: for the queue's
// own visibility timeout. A refusal says that the item is held no longer.
func (q Queues) Extend(ctx context.Context, h Hold, visibility time.Duration) (core.QueueItem, error) {
	res, err := q.tell(ctx, h.Queue, core.QueueExtend{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, VisibilityMS: visibility.Milliseconds()})
	i, _ := res.Answer.(core.QueueItem)
	return i, err
}

// Release gives an item back untouched: its attempt does not count.
func (q Queues) Release(ctx context.Context, h Hold) error {
	_, err := q.tell(ctx, h.Queue, core.QueueRelease{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt})
	return err
}

// CancelItem removes an item that is pending, failed or dead.
func (q Queues) CancelItem(ctx context.Context, queue effects.Ref, item uuid.UUID, reason string) error {
	_, err := q.tell(ctx, queue, core.QueueCancelItem{Item: item, Reason: reason})
	return err
}

// Redrive gives items that were given up another chance: one, or if item is zero up to
// limit of them (0: core.MaxQueueBatch). No item is no error.
func (q Queues) Redrive(ctx context.Context, queue effects.Ref, item uuid.UUID, limit uint32) (core.QueueMoved, error) {
	return q.move(ctx, queue, core.QueueRedrive{Item: item, Limit: limit})
}

// Purge removes up to limit items (0: core.MaxQueueBatch) in those states;
// none: in all but processing. Ask again while there are more.
func (q Queues) Purge(ctx context.Context, queue effects.Ref, states []core.ItemStateType, limit uint32, reason string) (core.QueueMoved, error) {
	return q.move(ctx, queue, core.QueuePurge{States: slices.Clone(states), Limit: limit, Reason: reason})
}

func (q Queues) move(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.QueueMoved, error) {
	res, err := q.tell(ctx, queue, ev)
	if refusedFor(err, effects.CodeEmpty) {
		return core.QueueMoved{}, nil
	}
	m, _ := res.Answer.(core.QueueMoved)
	return m, err
}

// Item reads one item of a queue.
func (q Queues) Item(ctx context.Context, queue effects.Ref, item uuid.UUID) (core.QueueItem, error) {
	i, err := readAs[core.QueueItem](ctx, q.e, effects.Ref{Kind: core.KindQueueItem, ID: item})
	if err == nil && i.Queue != queue.ID {
		return core.QueueItem{}, fmt.Errorf("item %s of %s %w", item, queue, ErrNotFound)
	}
	return i, err
}

// maxPriorities bounds how many priorities [Queues.OldestReady] looks at.
const maxPriorities = 64

// OldestReady gives the item that waits longest, by its push, of the first ones
// of each priority; ok is false if the queue has no item that is ready.
func (q Queues) OldestReady(ctx context.Context, queue effects.Ref) (oldest core.QueueItem, ok bool, err error) {
	term := core.QueueItemTerm(queue.ID, "ready")
	err = q.e.store.View(ctx, func(tx store.ReadTx) error {
		var from store.Cursor
		for range maxPriorities {
			first, err := tx.Scan(core.KindQueueItem, term, from, false, 1)
			if err != nil || len(first) == 0 {
				return err
			}
			i, _, err := decodeAs[core.QueueItem](tx, core.KindQueueItem, first[0].ID)
			if err != nil {
				return err
			}
			if i != nil && (!ok || i.CreatedAt < oldest.CreatedAt) {
				oldest, ok = *i, true
			}
			from = store.Cursor(core.BelowPriority(core.Cursor(first[0])))
		}
		return nil
	})
	return oldest, ok, err
}

// Items lists the items of a queue in one state, one of
// core.QueueItemLists, in the order in which they are taken.
func (q Queues) Items(ctx context.Context, queue effects.Ref, state string, p Page) (list []core.QueueItem, next string, err error) {
	if !slices.Contains(core.QueueItemLists[:], state) {
		return nil, "", invalid(queue, "list", "state: %q is unknown: use one of %v", state, core.QueueItemLists)
	}
	return page[core.QueueItem](ctx, q.e.store, inLine(core.KindQueueItem, core.QueueItemTerm(queue.ID, state)), p, nil)
}
