package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// ErrLeaseLost is the cause with which a handler's context ends where its item
// is no longer its own: the visibility timeout ran out, or somebody took the item
// away. Whatever the handler returns then is dropped.
var ErrLeaseLost = errors.New("the item is no longer held: its visibility timeout ran out or it was taken away")

// Handler works on one item of a queue. A nil error completes the item with the
// result, which must be valid JSON or empty; an error fails the attempt, for good
// where it is [Permanent]. A panic is caught, and fails the attempt. The context
// ends when the lease is lost ([ErrLeaseLost]) or the worker is told to hurry with
// its stop ([ErrStopping]).
type Handler func(ctx context.Context, item core.QueueItem) (json.RawMessage, error)

// WorkOptions configure [Queues.Work]. The zero value is a sound default.
type WorkOptions struct {
	// Concurrency is how many items are worked on at a time (default 1).
	Concurrency int
	// Prefetch is how many more items are taken than are worked on (default 0): for
	// handlers that are quicker than a commit. What was taken and not begun is given
	// back at the end.
	Prefetch int
	// Holder names the worker to whoever looks at the queue (default: a fresh name
	// that begins with the engine's).
	Holder string
	// Visibility is how long an item is held without a sign of life; it is extended
	// at a third of that for as long as the handler works (default: the queue's).
	Visibility time.Duration
	// StopTimeout is how long handlers may go on once the context of Work has
	// ended; then theirs end, and what does not complete is given back (default
	// Options.StopTimeout of the engine).
	StopTimeout time.Duration
}

func (o WorkOptions) withDefaults(e *Engine) (WorkOptions, error) {
	if o.Concurrency < 0 || o.Concurrency > MaxWorkConcurrency {
		return o, fmt.Errorf("shell: WorkOptions.Concurrency is %d: it must be between 1 and %d", o.Concurrency, MaxWorkConcurrency)
	}
	if o.Prefetch < 0 || o.Prefetch > MaxWorkConcurrency {
		return o, fmt.Errorf("shell: WorkOptions.Prefetch is %d: it must be between 0 and %d", o.Prefetch, MaxWorkConcurrency)
	}
	if o.Visibility < 0 || o.StopTimeout < 0 {
		return o, fmt.Errorf("shell: WorkOptions.Visibility (%s) and StopTimeout (%s) must not be negative", o.Visibility, o.StopTimeout)
	}
	o.Concurrency = max(o.Concurrency, 1)
	o.StopTimeout = cmp.Or(o.StopTimeout, e.o.StopTimeout)
	if o.Holder == "" {
		id, err := uuid.NewRandom()
		if err != nil {
			return o, fmt.Errorf("make a name for the worker: %w", err)
		}
		o.Holder = "worker-" + id.String()
	}
	return o, nil
}

// MaxWorkConcurrency bounds WorkOptions.Concurrency and Prefetch.
const MaxWorkConcurrency = 4096

// worker is one call of Work.
type worker struct {
	e      *Engine
	queue  effects.Ref
	handle Handler
	o      WorkOptions

	free chan struct{} // a token for each item that may be taken
	run  chan struct{} // a token for each handler that may run
	wg   sync.WaitGroup
}

// Work takes items of the queue and hands them to the handler, until ctx ends;
// then it takes nothing new, waits for what runs, and returns nil. A queue that does
// not exist is waited for.
//
// It returns early, with the error, where a take is wrong in itself, and where the
// engine stops: nothing can be stored then, so that handlers are told to stop at
// once, and what they had will be taken again after its visibility timeout. End ctx
// and wait for Work to return before you stop the engine.
func (q Queues) Work(ctx context.Context, queue effects.Ref, h Handler, o WorkOptions) error {
	o, err := o.withDefaults(q.e)
	if err != nil {
		return err
	}
	w := &worker{
		e: q.e, queue: queue, handle: h, o: o,
		free: make(chan struct{}, o.Concurrency+o.Prefetch), run: make(chan struct{}, o.Concurrency),
	}
	for range o.Concurrency + o.Prefetch {
		w.free <- struct{}{}
	}
	for range o.Concurrency {
		w.run <- struct{}{}
	}
	// Handlers outlive ctx for up to StopTimeout.
	work, hurry := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hurry(nil)
	err = w.takeAll(ctx, work)
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	timer, stop := q.e.o.Clock.Timer(o.StopTimeout)
	defer stop()
	select {
	case <-done:
	case <-q.e.loop.Closing():
		hurry(ErrStopping)
	case <-timer:
		hurry(ErrStopping)
	}
	<-done
	return err
}

// takeAll takes as many items as there are free slots, for as long as ctx lasts.
func (w *worker) takeAll(ctx, work context.Context) error {
	for {
		n := 1
		select {
		case <-w.free:
		case <-ctx.Done():
			return nil
		case <-w.e.loop.Closing(): // also while all slots are in use
			return ErrStopped
		}
		for ; n < core.MaxQueueTake && len(w.free) > 0; n++ { // nobody else takes a slot
			<-w.free
		}
		items, err := w.e.Queues().Take(ctx, w.queue, TakeOptions{Holder: w.o.Holder, Max: n, Visibility: w.o.Visibility, Wait: workWait})
		for range n - len(items) {
			w.free <- struct{}{}
		}
		for _, item := range items {
			w.begin(ctx, work, item)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrStopped), refusedFor(err, effects.CodeInvalid):
			return err
		case refusedFor(err, effects.CodeNotFound): // it waited for the queue to come
		case err != nil:
			w.e.log.Error("take failed; trying again", "queue", w.queue.String(), "holder", w.o.Holder, "error", err)
			_ = w.e.wait(ctx, nil, workPause) // if ctx has ended or the engine stops, the next take says so
		}
	}
}

// workWait is how long one take waits for an item; then it asks again.
const workWait = time.Minute

// workPause is how long a fault is waited for before the next try.
const workPause = time.Second

// begin works on an item beside the others: as soon as the handler has returned
// another one may be taken, while the answer is being stored.
func (w *worker) begin(taking, work context.Context, item core.QueueItem) {
	ctx, cancel := context.WithCancelCause(work)
	holding, letGo := context.WithCancel(work)
	w.wg.Go(func() { w.keepLease(holding, item, cancel) })
	w.wg.Go(func() {
		defer cancel(nil)
		result, err := json.RawMessage(nil), errExited
		defer func() { // also where the handler ends its goroutine
			letGo()
			w.free <- struct{}{}
			w.answer(ctx, item, result, err)
		}()
		result, err = w.inSlot(ctx, taking, item)
	})
}

// errExited: the handler called runtime.Goexit, as a failing test does.
var errExited = errors.New("the handler ended its goroutine")

// errNotBegun: the item was taken, and the worker stops.
var errNotBegun = errors.New("the worker stops before the item was begun")

// inSlot calls the handler once it has a free slot.
func (w *worker) inSlot(ctx, taking context.Context, item core.QueueItem) (json.RawMessage, error) {
	select {
	case <-w.run:
	case <-taking.Done():
		return nil, errNotBegun
	case <-ctx.Done():
		return nil, errNotBegun
	}
	defer func() { w.run <- struct{}{} }()
	if taking.Err() != nil || ctx.Err() != nil { // both were ready
		return nil, errNotBegun
	}
	return w.call(ctx, item)
}

// call runs the handler; a panic becomes an error.
func (w *worker) call(ctx context.Context, item core.QueueItem) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.e.log.Error("handler panicked", "queue", w.queue.String(), "item", item.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return w.handle(ctx, item)
}

// answer tells the queue. It goes through also while the worker stops. What cannot
// be stored is kept and told again, as a tool's result is: the work is done, and
// must not be done anew because the disk was full for a moment.
func (w *worker) answer(ctx context.Context, item core.QueueItem, result json.RawMessage, err error) {
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		return // somebody else has it, or will
	}
	release := errors.Is(err, errNotBegun) || err != nil && errors.Is(context.Cause(ctx), ErrStopping)
	for {
		told := w.tell(context.WithoutCancel(ctx), item, result, err, release)
		if told == nil {
			return
		}
		w.e.log.Warn("the queue did not take the answer", "queue", w.queue.String(), "item", item.ID, "attempt", item.Attempts, "error", told)
		var refused *Refusal
		if errors.As(told, &refused) || errors.Is(told, ErrStopped) || w.e.wait(ctx, nil, workPause) != nil {
			return
		}
	}
}

func (w *worker) tell(ctx context.Context, item core.QueueItem, result json.RawMessage, err error, release bool) error {
	hold := HoldOf(item)
	switch {
	case release:
		return w.e.Queues().Release(ctx, hold)
	case err != nil:
		return w.e.Queues().Fail(ctx, hold, err.Error(), IsPermanent(err))
	case len(result) > 0 && !json.Valid(result):
		return w.e.Queues().Fail(ctx, hold, "the handler's result is not valid JSON", true)
	}
	told := w.e.Queues().Complete(ctx, hold, result)
	if refusedFor(told, effects.CodeInvalid) { // a further attempt would give the same
		return w.e.Queues().Fail(ctx, hold, "the handler's "+told.Error(), true)
	}
	return told
}

// keepLease extends the lease of an item at a third of its time, until ctx ends, and lets
// the handler know if the item is held no longer. Leases that are extended at once are
// committed together.
func (w *worker) keepLease(ctx context.Context, item core.QueueItem, cancel context.CancelCauseFunc) {
	clock, begin := w.e.o.Clock, w.e.o.Clock.Steady()
	every := third(item.State.Until.Sub(item.State.TakenAt))
	for {
		timer, stop := clock.Timer(begin.Add(every).Sub(clock.Steady()))
		select {
		case <-timer:
		case <-ctx.Done():
			stop()
			return
		}
		begin = clock.Steady()
		i, err := w.e.Queues().Extend(ctx, HoldOf(item), w.o.Visibility)
		if err == nil { // the queue's own timeout may be another one now
			every = third(i.State.Until.Sub(w.e.now())) // read now: it may have been set meanwhile
		} else if _, refused := errors.AsType[*Refusal](err); refused {
			cancel(ErrLeaseLost)
		}
	}
}

// third of a lease is how long after one sign of life the next one follows.
func third(lease time.Duration) time.Duration { return max(lease/3, 10*time.Millisecond) }
