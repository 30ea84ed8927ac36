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
	"github.com/orrery-go/orrery/store"
)

// Queues are the calls for queues and their items.
type Queues struct{ e *Engine }

// Queues gives the calls for queues and their items.
func (e *Engine) Queues() Queues { return Queues{e} }

// PushOptions say how an item is pushed. The zero value: no data, priority 0, at
// once.
type PushOptions struct {
	Data     json.RawMessage // at most core.MaxInputBytes; empty: null
	Priority int32           // the higher goes first
	Key      string          // items with the same key share limits and turns
	DedupKey string
	Delay    time.Duration // cut to milliseconds
}

// Push adds an item to a queue, which is made with the defaults where it was not
// declared. Where the dedup key is held, nothing is added: duplicate is true, and
// the item is the one that holds it, only its id where that has ended.
func (q Queues) Push(ctx context.Context, namespace, tenant, queue string, o PushOptions) (item core.QueueItem, duplicate bool, err error) {
	ref := core.QueueRef(namespace, tenant, queue)
	for {
		res, _, err := q.e.tellQueue(ctx, ref, core.QueuePush{
			Namespace: namespace, Tenant: tenant, Name: queue, Data: slices.Clone(o.Data), Priority: o.Priority,
			Key: o.Key, DedupKey: o.DedupKey, DelayMS: o.Delay.Milliseconds(),
		})
		if !refusedFor(err, effects.CodeExists) || o.DedupKey == "" {
			item, _ = res.Answer.(core.QueueItem)
			return item, false, err
		}
		item, err = q.e.holder(ctx, ref, o.DedupKey)
		if !errors.Is(err, ErrNotFound) { // else the key was let go of meanwhile
			return item, err == nil, err
		}
	}
}

// holder reads the item that holds a dedup key.
func (e *Engine) holder(ctx context.Context, queue effects.Ref, key string) (core.QueueItem, error) {
	s, err := e.read(ctx, core.QueueDedupRef(queue.ID, key))
	if err != nil {
		return core.QueueItem{}, err
	}
	d, _ := s.(core.QueueDedup)
	i, err := e.Queues().Item(ctx, queue, d.Item)
	if errors.Is(err, ErrNotFound) {
		return core.QueueItem{ID: d.Item, Queue: queue.ID, DedupKey: key}, nil
	}
	return i, err
}

// TakeOptions say who takes how much. Holder is required.
type TakeOptions struct {
	Holder     string
	Max        int           // at most core.MaxQueueTake; 0: 1
	Visibility time.Duration // how long without a sign of life; 0: the queue's own
	Wait       time.Duration // how long to wait for the first item; 0: not at all
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

// takePoll is how often a taker looks for itself: another instance on the same
// store may have pushed.
const takePoll = 5 * time.Second

// Take takes the first items of a queue for a holder: none, and no error, where
// there is none until the wait is over. They stay out of sight of others for the
// visibility timeout; the holder keeps them by [Queues.Extend] and ends with
// [Queues.Complete] or [Queues.Fail]. A queue that does not exist is waited for.
//
// When ctx ends first, what was taken meanwhile is given back at once; only where
// the store does not answer within seconds it comes back with the visibility timeout.
func (q Queues) Take(ctx context.Context, queue effects.Ref, o TakeOptions) ([]core.QueueItem, error) {
	if o.Max < 0 || o.Max > core.MaxQueueTake {
		return nil, &Refusal{To: queue, Event: "take", Code: effects.CodeInvalid, Reason: fmt.Sprintf("max: %d is not between 0 and %d", o.Max, core.MaxQueueTake)}
	}
	ev := core.QueueTake{Holder: o.Holder, Max: uint32(o.Max), VisibilityMS: o.Visibility.Milliseconds()}
	end := q.e.o.Clock.Steady().Add(o.Wait)
	for {
		var woken chan struct{}
		if o.Wait > 0 {
			woken = q.e.takes.add(queue.ID)
		}
		res, s, err := q.e.askQueue(ctx, queue, ev, takeLinger)
		if gone := ctx.Err(); gone != nil {
			q.e.takes.remove(queue.ID, woken)
			q.e.giveBack(ctx, res)
			return nil, gone
		}
		var r *Refusal
		nothing := errors.As(err, &r) && (r.Code == effects.CodeEmpty || r.Code == effects.CodeNotFound)
		left := end.Sub(q.e.o.Clock.Steady())
		if !nothing || left <= 0 {
			q.e.takes.remove(queue.ID, woken)
			if nothing && r.Code == effects.CodeEmpty {
				return nil, nil
			}
			items, _ := res.Answer.(core.QueueItems)
			return items, err
		}
		header, _ := s.(core.Queue)
		err = q.e.awaitItem(ctx, woken, min(left, q.e.untilTake(header)))
		q.e.takes.remove(queue.ID, woken)
		if err != nil {
			return nil, err
		}
	}
}

// takeLinger is how long a take waits for what became of it when its caller has
// gone.
const takeLinger = 5 * time.Second

// giveBack releases what was taken for a caller who has gone: else it would be out
// of sight for the visibility timeout, and an attempt less.
func (e *Engine) giveBack(ctx context.Context, taken core.Result) {
	items, _ := taken.Answer.(core.QueueItems)
	for _, i := range items {
		ev := core.QueueRelease{Item: i.ID, Holder: i.State.Holder, Attempt: i.Attempts}
		ref := effects.Ref{Kind: core.KindQueue, ID: i.Queue}
		// Nobody waits for the answer: the loop alone must have it.
		r := &request{ctx: context.WithoutCancel(ctx), done: make(chan reply, 1), inputs: []core.Input{{To: ref, Actor: ActorFrom(ctx), Event: ev}}, want: ref}
		select {
		case e.inbox <- r:
		case <-e.closing:
			return
		}
	}
}

// untilTake is when to look again without being told.
func (e *Engine) untilTake(q core.Queue) time.Duration {
	now := wall(e.o.Clock.Now())
	if at := q.NextTake(now); at > now {
		return min(at.Sub(now), takePoll)
	}
	return takePoll
}

func (e *Engine) awaitItem(ctx context.Context, woken <-chan struct{}, most time.Duration) error {
	timer, stop := e.o.Clock.Timer(most)
	defer stop()
	select {
	case <-woken:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return ErrStopped
	}
	return nil
}

// Complete says that an item is done.
func (q Queues) Complete(ctx context.Context, h Hold, result json.RawMessage) error {
	_, _, err := q.e.tellQueue(ctx, h.Queue, core.QueueComplete{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, Result: slices.Clone(result)})
	return err
}

// Fail says that an attempt failed; permanent that no further one is to be made.
func (q Queues) Fail(ctx context.Context, h Hold, reason string, permanent bool) error {
	_, _, err := q.e.tellQueue(ctx, h.Queue, core.QueueFail{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, Error: reason, Permanent: permanent})
	return err
}

// Extend keeps an item out of sight of others from now on; 0: for the queue's
// own visibility timeout. A refusal says that the item is held no longer.
func (q Queues) Extend(ctx context.Context, h Hold, visibility time.Duration) (core.QueueItem, error) {
	res, _, err := q.e.tellQueue(ctx, h.Queue, core.QueueExtend{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt, VisibilityMS: visibility.Milliseconds()})
	i, _ := res.Answer.(core.QueueItem)
	return i, err
}

// Release gives an item back untouched: its attempt does not count.
func (q Queues) Release(ctx context.Context, h Hold) error {
	_, _, err := q.e.tellQueue(ctx, h.Queue, core.QueueRelease{Item: h.Item, Holder: h.Holder, Attempt: h.Attempt})
	return err
}

// CancelItem removes an item that is pending, failed or dead.
func (q Queues) CancelItem(ctx context.Context, queue effects.Ref, item uuid.UUID, reason string) error {
	_, _, err := q.e.tellQueue(ctx, queue, core.QueueCancelItem{Item: item, Reason: reason})
	return err
}

// Redrive gives items that were given up another chance: one, or where that is
// zero up to limit of them (0: core.MaxQueueBatch). None is no error.
func (q Queues) Redrive(ctx context.Context, queue effects.Ref, item uuid.UUID, limit uint32) (core.QueueMoved, error) {
	return q.e.moveItems(ctx, queue, core.QueueRedrive{Item: item, Limit: limit})
}

// Purge removes up to limit items (0: core.MaxQueueBatch) in those states;
// none: in all but processing. Ask again while there are more.
func (q Queues) Purge(ctx context.Context, queue effects.Ref, states []core.ItemStateType, limit uint32, reason string) (core.QueueMoved, error) {
	return q.e.moveItems(ctx, queue, core.QueuePurge{States: slices.Clone(states), Limit: limit, Reason: reason})
}

func (e *Engine) moveItems(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.QueueMoved, error) {
	res, _, err := e.tellQueue(ctx, queue, ev)
	var r *Refusal
	if errors.As(err, &r) && r.Code == effects.CodeEmpty {
		return core.QueueMoved{}, nil
	}
	m, _ := res.Answer.(core.QueueMoved)
	return m, err
}

// Configure declares a queue, or replaces the configuration of one.
func (q Queues) Configure(ctx context.Context, namespace, tenant, name string, c core.QueueConfig) (core.Queue, error) {
	c.Retry.NoRetry = slices.Clone(c.Retry.NoRetry)
	ref := core.QueueRef(namespace, tenant, name)
	_, s, err := q.e.tellQueue(ctx, ref, core.QueueConfigure{Config: c})
	if errors.Is(err, ErrNotFound) {
		_, s, err = q.e.tellQueue(ctx, ref, core.QueueCreate{Namespace: namespace, Tenant: tenant, Name: name, Config: c})
		var r *Refusal
		if errors.As(err, &r) && r.Code == effects.CodeExists { // somebody else was quicker
			_, s, err = q.e.tellQueue(ctx, ref, core.QueueConfigure{Config: c})
		}
	}
	return asQueue(s, err)
}

// Pause stops takes from a queue; all else goes on.
func (q Queues) Pause(ctx context.Context, queue effects.Ref, by, reason string) (core.Queue, error) {
	_, s, err := q.e.tellQueue(ctx, queue, core.QueuePause{By: by, Reason: reason})
	return asQueue(s, err)
}

// Resume lets takes go on.
func (q Queues) Resume(ctx context.Context, queue effects.Ref) (core.Queue, error) {
	_, s, err := q.e.tellQueue(ctx, queue, core.QueueResume{})
	return asQueue(s, err)
}

// Delete removes a queue that holds no item.
func (q Queues) Delete(ctx context.Context, queue effects.Ref) error {
	_, _, err := q.e.tellQueue(ctx, queue, core.QueueDelete{})
	return err
}

func asQueue(s core.State, err error) (core.Queue, error) {
	q, _ := s.(core.Queue)
	return q, err
}

// tellQueue sends an event, and gives what it was answered and the queue's
// header afterwards.
func (e *Engine) tellQueue(ctx context.Context, queue effects.Ref, ev core.QueueEvent) (core.Result, core.State, error) {
	return e.askQueue(ctx, queue, ev, 0)
}

func (e *Engine) askQueue(ctx context.Context, queue effects.Ref, ev core.QueueEvent, linger time.Duration) (core.Result, core.State, error) {
	rep, err := e.ask(ctx, &request{inputs: []core.Input{{To: queue, Actor: ActorFrom(ctx), Event: ev}}, want: queue, linger: linger})
	if err != nil {
		return core.Result{}, nil, err
	}
	s, err := rep.answer()
	return rep.result, s, notFound(err)
}

// Get reads a queue's header: its configuration, counters and gauges.
func (q Queues) Get(ctx context.Context, namespace, tenant, name string) (core.Queue, error) {
	s, err := q.e.read(ctx, core.QueueRef(namespace, tenant, name))
	return asQueue(s, err)
}

// Item reads one item of a queue.
func (q Queues) Item(ctx context.Context, queue effects.Ref, item uuid.UUID) (core.QueueItem, error) {
	s, err := q.e.read(ctx, effects.Ref{Kind: core.KindQueueItem, ID: item})
	i, _ := s.(core.QueueItem)
	if err == nil && i.Queue != queue.ID {
		return core.QueueItem{}, fmt.Errorf("item %s of %s %w", item, queue, ErrNotFound)
	}
	return i, err
}

// maxPriorities bounds how many priorities [Queues.OldestReady] looks at.
const maxPriorities = 64

// OldestReady gives the item that waits longest, by its push, of the first ones
// of each priority; ok is false where none is ready.
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

// QueueFilter chooses queues; zero fields choose all.
type QueueFilter struct {
	Scope  *Scope
	Paused *bool
}

// List lists queues, newest first.
func (q Queues) List(ctx context.Context, f QueueFilter, p Page) (list []core.Queue, next string, err error) {
	term := core.TermAll
	switch {
	case f.Scope != nil:
		term = core.ScopeTerm(f.Scope.Namespace, f.Scope.Tenant)
	case f.Paused != nil:
		term = core.QueueStatusTerm(*f.Paused)
	}
	return page(ctx, q.e.store, core.KindQueue, term, p, func(q core.Queue) bool {
		return f.Paused == nil || q.Paused == *f.Paused
	})
}

// Items lists the items of a queue in one state, one of
// core.QueueItemLists, in the order in which their turn comes.
func (q Queues) Items(ctx context.Context, queue effects.Ref, state string, p Page) (list []core.QueueItem, next string, err error) {
	if !slices.Contains(core.QueueItemLists[:], state) {
		return nil, "", &Refusal{To: queue, Event: "list", Code: effects.CodeInvalid, Reason: fmt.Sprintf("state: %q is unknown: use one of %v", state, core.QueueItemLists)}
	}
	limit := p.Limit
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	term := core.QueueItemTerm(queue.ID, state)
	from, err := parseToken(core.KindQueueItem, term, p.Token)
	if err != nil {
		return nil, "", err
	}
	list = make([]core.QueueItem, 0, min(limit, DefaultPage))
	err = q.e.store.View(ctx, func(tx store.ReadTx) error {
		entries, err := tx.Scan(core.KindQueueItem, term, from, false, limit)
		if err != nil {
			return err
		}
		size, full := 0, len(entries) == limit
		for _, c := range entries {
			if size >= maxPageBytes {
				full = true
				break
			}
			i, n, err := decodeAs[core.QueueItem](tx, core.KindQueueItem, c.ID)
			if err != nil {
				return err
			}
			size += n
			if i != nil {
				list = append(list, *i)
			}
			from = c
		}
		if full {
			next = token(core.KindQueueItem, term, from)
		}
		return nil
	})
	return list, next, err
}
