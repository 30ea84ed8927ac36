package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// execution is an outer effect that is being carried out. It takes one goroutine: a timer is
// started only where the procedure has a limit, or once the context has ended and the
// procedure does not return.
type execution struct {
	e       *Engine
	key     store.EffectKey
	ref     effects.Ref
	queue   string // whose slot it holds
	p       Procedure
	cut     bool // it was cancelled since it kept the store from another process; the loop's alone
	dropped bool // withdrawn or fenced: nobody wants the result; the loop's alone

	ctx context.Context //nolint:containedctx // the execution's own, which begins and ends with it
	end context.CancelCauseFunc

	mu       sync.Mutex    // guards what follows
	attempts int           // how many have begun
	calling  bool          // the procedure is being called
	watched  chan struct{} // closed when that call returns; nil: nobody waits for it
	unwatch  func()        // ends the timer of who waits, with a [Scheduler]
	answered bool          // what came of that call is delivered, or is about to be: once
	killed   chan struct{} // closed once it is to end at once; made when somebody asks for it
	kill     bool          // it is to end at once
	asleep   chan struct{} // closed when it is to go on; nil: it does not wait for a start, or nobody counts what runs
	unsleep  func()        // takes back what ends that
}

type executionKey struct{}

// Killed gives a channel that is closed once the execution whose context that is must end
// without any time to end by itself, as another instance has taken over ([ErrFenced]) or somebody
// has said so ([ErrKilled]): also where the context had ended before for another reason, so that
// its cause does not tell. It is nil, and never closed, for a context that is of no execution.
func Killed(ctx context.Context) <-chan struct{} {
	x, ok := ctx.Value(executionKey{}).(*execution)
	if !ok {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.killing()
}

// killing gives the channel of [Killed]; x.mu is held.
func (x *execution) killing() <-chan struct{} {
	if x.killed == nil {
		x.killed = make(chan struct{})
		if x.kill {
			close(x.killed)
		}
	}
	return x.killed
}

// endAtOnce tells [Killed].
func (x *execution) endAtOnce() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.kill && x.killed != nil {
		close(x.killed)
	}
	x.kill = true
}

func (e *Engine) newExecution(s launch, p Procedure) *execution {
	x := &execution{e: e, key: s.key, ref: s.State.Ref(), queue: s.queue, p: p}
	x.ctx, x.end = context.WithCancelCause(context.WithValue(context.Background(), executionKey{}, x))
	return x
}

// cancel ends the context for that reason. A procedure that does not return then is left
// behind after a while.
func (x *execution) cancel(why error) {
	if errors.Is(why, ErrKilled) || errors.Is(why, ErrFenced) {
		x.endAtOnce()
	}
	x.end(why)
	x.hurry()
	if x.p.Limit <= 0 || x.e.o.Scheduler != nil { // else the attempt watches its own context
		x.watch(x.ctx, 0)
	}
}

// run carries the effect out and hands the outcome to the loop, exactly once. What could not
// be started is tried again: its slot stays taken meanwhile, so that nothing else fails in its
// place.
func (x *execution) run() {
	defer x.e.activity.add(-1)
	defer x.end(nil)
	for try := 0; ; try++ {
		err := x.attempt()
		if err == nil {
			return
		}
		if !x.e.defers(x.ctx, x, try, err) {
			x.deliver(undone(x.ctx, x, err))
			return
		}
	}
}

// deliver hands the outcome of an execution to the loop.
func (x *execution) deliver(ev core.Event) {
	o := outcome{of: x, event: ev}
	if x.p.Wrote != nil {
		o.write = x.p.Wrote()
	}
	x.e.activity.message(ofWork, 1)
	select {
	case x.e.result <- o:
	case <-x.e.stopped:
		x.e.activity.message(ofWork, -1)
		o.write.done()
	}
}

// attempt follows the procedure, and delivers its outcome: also if it does not return
// after its context has ended. An error says that it was not started, and that nothing
// was delivered.
func (x *execution) attempt() error {
	n, ctx := x.begin(), x.ctx
	if s := x.e.o.Scheduler; s != nil && x.p.Limit > 0 {
		limited, end := context.WithCancelCause(ctx)
		ctx = limited
		defer end(nil)
		defer s.AfterFunc("limit/"+x.key.String(), x.p.Limit, func() {
			end(ErrTimeLimit)
			x.watch(limited, n)
		})()
	} else if x.p.Limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, x.p.Limit, ErrTimeLimit)
		defer stop()
		unwatch := context.AfterFunc(ctx, func() { x.watch(ctx, n) })
		defer unwatch()
	}
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), ErrStopping) { // cancelled before it was begun
			x.returned()
			x.answer(core.HandBackEvent(x.ref.Kind, x.key.N))
			return nil
		}
		x.watch(ctx, n) // who has ended it may have done so before it was being called
	}
	result, err := x.call(ctx)
	x.returned()
	if err != nil && IsNotStarted(err) && ctx.Err() == nil {
		if x.claim() {
			return err
		}
		return nil
	}
	x.answer(answer(ctx, x, result, err))
	return nil
}

// call begins the procedure, unless another process may be the one that decides by now what becomes of the effect: this one may have been frozen since the commit
// that says to begin it.
func (x *execution) call(ctx context.Context) (json.RawMessage, error) {
	if err := x.e.Confirm(); err != nil {
		return nil, err
	}
	return x.p.Call(ctx)
}

// begin notes that the procedure is about to be called, and numbers the attempt, from 1.
func (x *execution) begin() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts++
	x.calling, x.answered = true, false
	return x.attempts
}

// returned notes that the procedure has returned, and ends who waits for that.
func (x *execution) returned() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calling = false
	if x.watched != nil {
		close(x.watched)
		x.watched = nil
		if x.unwatch != nil {
			x.unwatch()
		}
	}
}

// claim reports whether the caller is the one who says what came of the present attempt.
func (x *execution) claim() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	mine := !x.answered
	x.answered = true
	return mine
}

// answer delivers what came of the present attempt, unless that was done before.
func (x *execution) answer(ev core.Event) {
	if x.claim() {
		x.deliver(ev)
	}
}

// watch sees to it that a procedure that is being called although its context has ended is
// left behind if it does not return; with a number, only if that is its attempt.
func (x *execution) watch(ctx context.Context, attempt int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.calling || x.watched != nil || attempt != 0 && attempt != x.attempts {
		return
	}
	x.watched = make(chan struct{})
	if s := x.e.o.Scheduler; s != nil {
		watched := x.watched
		x.unwatch = s.AfterFunc("abandon/"+x.key.String(), x.e.o.AbandonAfter, func() { x.abandon(ctx, watched) })
		return
	}
	go x.leaveBehind(ctx, x.watched)
}

// leaveBehind answers for a procedure that does not return for too long.
func (x *execution) leaveBehind(ctx context.Context, returned chan struct{}) {
	c, stop := x.e.o.Clock.Timer(x.e.o.AbandonAfter)
	defer stop()
	select {
	case <-returned:
		return
	case <-c:
	}
	x.abandon(ctx, returned)
}

// abandon answers for a procedure that has not returned yet.
func (x *execution) abandon(ctx context.Context, returned chan struct{}) {
	x.mu.Lock()
	mine := x.watched == returned && !x.answered // else it has returned meanwhile
	x.answered = x.answered || mine
	x.mu.Unlock()
	if mine {
		err := fmt.Errorf("the %s did not return, and was left behind", x.p.What)
		if x.p.Lasting {
			err = Permanent(err)
		}
		x.deliver(answer(ctx, x, nil, err))
	}
}
