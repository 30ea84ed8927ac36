package shell

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// TakeOptions say who takes how much. Holder is required.
type TakeOptions struct {
	Holder     string
	Max        int           // at most core.MaxQueueTake; 0: 1
	Visibility time.Duration // how long without a sign of life; 0: the queue's own
	Wait       time.Duration // how long to wait for the first item; 0: not at all
}

// takePoll is how often a taker looks for itself: another instance on the same
// store may have pushed.
const takePoll = 5 * time.Second

// Take takes the first items of a queue for a holder: none, and no error, if the
// queue has no item that is ready until the wait ends. They stay out of sight of others for the
// visibility timeout; the holder keeps them by [Queues.Extend] and ends with
// [Queues.Complete] or [Queues.Fail]. A queue that does not exist is waited for.
// While the engine is paused, no queue has an item that is ready.
//
// When ctx ends first, what was taken meanwhile is given back at once; only where
// the store does not answer within seconds, and under [WithOnce], it comes back with the visibility timeout.
func (q Queues) Take(ctx context.Context, queue effects.Ref, o TakeOptions) ([]core.QueueItem, error) {
	if o.Max < 0 || o.Max > core.MaxQueueTake {
		return nil, invalid(queue, "take", "max: %d is not between 0 and %d", o.Max, core.MaxQueueTake)
	}
	ev := core.QueueTake{Holder: o.Holder, Max: uint32(o.Max), VisibilityMS: o.Visibility.Milliseconds()}
	end := q.e.o.Clock.Steady().Add(o.Wait)
	if resumed, err := q.e.awaitTake(ctx, o.Wait); err != nil || !resumed {
		if err == nil {
			return q.e.takeNothing(ctx, queue)
		}
		return nil, err
	}
	for {
		var woken chan struct{}
		if o.Wait > 0 {
			woken = q.e.takes.add(queue.ID)
		}
		res, s, err := q.e.ask(ctx, queue, ev, takeLinger)
		if gone := ctx.Err(); gone != nil {
			q.e.takes.remove(queue.ID, woken)
			if OnceFrom(ctx) == nil { // else its caller comes back for it
				q.e.giveBack(ctx, res)
			}
			return nil, gone
		}
		empty := refusedFor(err, effects.CodeEmpty)
		nothing := empty || refusedFor(err, effects.CodeNotFound)
		left := end.Sub(q.e.o.Clock.Steady())
		if !nothing || left <= 0 {
			q.e.takes.remove(queue.ID, woken)
			if empty {
				return nil, nil
			}
			items, _ := res.Answer.(core.QueueItems)
			return items, err
		}
		header, _ := s.(core.Queue)
		err = q.e.wait(ctx, woken, min(left, q.e.untilTake(header)))
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
	ctx = context.WithoutCancel(ctx)
	items, _ := taken.Answer.(core.QueueItems)
	for _, i := range items {
		ev := core.QueueRelease{Item: i.ID, Holder: i.State.Holder, Attempt: i.Attempts}
		ref := effects.Ref{Kind: core.KindQueue, ID: i.Queue}
		if !e.loop.Post(ctx, engine.Request{Inputs: []core.Input{inputOf(ctx, ref, ev)}, Want: ref}) {
			return
		}
	}
}

// untilTake is when to look again without being told.
func (e *Engine) untilTake(q core.Queue) time.Duration {
	now := e.now()
	if at := q.NextTake(now); at > now {
		return min(at.Sub(now), takePoll)
	}
	return takePoll
}

// wait waits until woken (nil: nobody wakes), or for as long as most. The error says why
// nothing comes any more: ctx has ended, or the engine stops.
func (e *Engine) wait(ctx context.Context, woken <-chan struct{}, most time.Duration) error {
	timer, stop := e.o.Clock.Timer(most)
	defer stop()
	select {
	case <-woken:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.loop.Closing():
		return ErrStopped
	}
	return nil
}

// takers wakes those who wait for an item: one for each item that was pushed, in
// the order in which they came, and all where many items may have become ready.
type takers struct {
	mu sync.Mutex
	m  map[uuid.UUID][]chan struct{}
}

func (t *takers) init() { t.m = make(map[uuid.UUID][]chan struct{}) }

// add lets somebody wait, from before he looks: so that nothing is missed.
func (t *takers) add(queue uuid.UUID) chan struct{} {
	c := make(chan struct{}, 1)
	t.mu.Lock()
	t.m[queue] = append(t.m[queue], c)
	t.mu.Unlock()
	return c
}

// remove ends a taker's waiting at c. A taker that was woken and took nothing wakes the
// next taker: it may have looked before the item was there, or its caller has gone.
func (t *takers) remove(queue uuid.UUID, c chan struct{}) {
	if c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.m[queue], c); i >= 0 {
		t.m[queue] = slices.Delete(t.m[queue], i, i+1)
	}
	select {
	case <-c:
		t.wake(queue, 1)
	default:
	}
	if len(t.m[queue]) == 0 {
		delete(t.m, queue)
	}
}

// readied is how many items an announcement of a queue may have made ready.
var readied = map[string]int{"push": 1, "ready": math.MaxInt}

// hear wakes who is concerned by an announcement of a queue.
func (t *takers) hear(ev effects.Event) {
	if n := readied[ev.Kind.Action]; n > 0 {
		t.mu.Lock()
		t.wake(ev.Source.ID, n)
		t.mu.Unlock()
	}
}

func (t *takers) wake(queue uuid.UUID, n int) {
	list := t.m[queue]
	n = min(n, len(list))
	for _, c := range list[:n] {
		c <- struct{}{} // buffered, and woken once
	}
	if t.m[queue] = list[n:]; len(list) == n {
		delete(t.m, queue)
	}
}
