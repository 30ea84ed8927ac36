package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
)

// NotStarted marks an error as one after which certainly nothing of what was to be
// carried out has begun, for want of something that the system may have again soon. The
// engine tries again by itself, as often as need be: it is no attempt.
func NotStarted(err error) error {
	if err == nil {
		return nil
	}
	return notStartedError{err}
}

// IsNotStarted reports whether an error says so: it, or one that it wraps, has a method
// NotStarted() bool that returns true.
func IsNotStarted(err error) bool {
	var n interface{ NotStarted() bool }
	return errors.As(err, &n) && n.NotStarted()
}

type notStartedError struct{ error }

// NotStarted is true.
func (notStartedError) NotStarted() bool { return true }

// Unwrap gives what was wrong.
func (e notStartedError) Unwrap() error { return e.error }

// Waits between the starts of one execution: the first, doubled with each, up to the last.
const (
	firstDefer = 250 * time.Millisecond
	lastDefer  = 15 * time.Second
	deferLines = time.Minute // between two lines of the log about starts that wait
)

// deferral is what the log says of starts that wait: once in a while, for all of them.
type deferral struct {
	mu    sync.Mutex
	said  time.Time
	since uint64 // starts that failed since then
}

// defers notes a start that failed, and waits until it may be tried again. It reports
// false where the execution is not wanted any more.
func (e *Engine) defers(ctx context.Context, x *execution, try int, why error) bool {
	wait := lastDefer
	if try < 10 {
		wait = min(firstDefer<<try, lastDefer)
	}
	e.stats.deferred.Add(1)
	e.stats.deferredNow.Add(1)
	defer e.stats.deferredNow.Add(-1)
	d := &e.deferral
	d.mu.Lock()
	d.since++
	if now := e.o.Clock.Steady(); d.said.IsZero() || now.Sub(d.said) >= deferLines {
		e.log.Warn("the system lacks what a start needs; it waits and is tried again", "ref", x.ref.String(), "error", why,
			"again_in", wait, "waiting", e.stats.deferredNow.Load(), "failed_starts", d.since)
		d.said, d.since = now, 0
	}
	d.mu.Unlock()
	if e.o.Scheduler != nil {
		x.sleep(wait)
		return ctx.Err() == nil
	}
	timer, stop := e.o.Clock.Timer(wait)
	defer stop()
	select {
	case <-timer:
		return true
	case <-ctx.Done():
		return false
	}
}

// sleep waits for a time, or until the execution is cancelled, which a [Scheduler] tells it, as it tells the end of the time: who is cancelled says so beside the loop,
// which would else hear it now, or only the next time. It does not count meanwhile.
func (x *execution) sleep(d time.Duration) {
	x.mu.Lock()
	asleep := make(chan struct{})
	x.asleep = asleep
	x.sleepFor(d)
	if x.ctx.Err() != nil {
		x.sleepFor(0)
	}
	x.mu.Unlock()
	x.e.activity.add(-1)
	<-asleep
}

// sleepFor has a sleep end after d. Its mu is held.
func (x *execution) sleepFor(d time.Duration) {
	if x.unsleep != nil {
		x.unsleep()
	}
	x.unsleep = x.e.o.Scheduler.AfterFunc("start/"+x.key.String(), d, x.wake)
}

// hurry ends a sleep as soon as may be.
func (x *execution) hurry() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asleep != nil {
		x.sleepFor(0)
	}
}

// wake ends a sleep, and has the execution counted again.
func (x *execution) wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asleep == nil {
		return
	}
	x.unsleep()
	x.unsleep = nil
	x.e.activity.add(1)
	close(x.asleep)
	x.asleep = nil
}

// undone is the event of an execution that was still waiting for its start when its
// context ended.
func undone(ctx context.Context, x *execution, why error) core.Event {
	if errors.Is(context.Cause(ctx), ErrStopping) {
		return core.HandBackEvent(x.ref.Kind, x.key.N)
	}
	return answer(ctx, x, nil, why)
}
