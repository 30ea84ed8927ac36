package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// bus hands what machines announce to subscribers in this process, after the
// transaction that made it true is durable.
type bus struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Subscription receives events of the bus. Delivery is at most once: events of
// before the subscription, of after Close and of beyond its buffer are not
// delivered; Dropped counts the last.
type Subscription struct {
	C       <-chan effects.Event
	c       chan effects.Event
	matches func(effects.Event) bool
	dropped atomic.Uint64
	bus     *bus
	mu      sync.Mutex // guards closed, and c against a send after its close
	closed  bool
}

// Subscribe listens to the events for which matches returns true; nil matches
// all. matches is called by the engine's loop and must be quick; if it
// panics, the event counts as dropped. The buffer is at least 1.
func (e *Engine) Subscribe(matches func(effects.Event) bool, buffer int) *Subscription {
	c := make(chan effects.Event, max(buffer, 1))
	s := &Subscription{C: c, c: c, matches: matches, bus: &e.bus}
	e.bus.mu.Lock()
	defer e.bus.mu.Unlock()
	if e.bus.subs == nil {
		e.bus.subs = make(map[*Subscription]struct{})
	}
	e.bus.subs[s] = struct{}{}
	return s
}

// Dropped tells how many events the subscriber was too slow for.
func (s *Subscription) Dropped() uint64 { return s.dropped.Load() }

// Close ends the subscription and closes C. It may be called more than once.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	delete(s.bus.subs, s)
	s.bus.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.c)
	}
}

// offer delivers an event if the buffer has room.
func (s *Subscription) offer(ev effects.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	select {
	case s.c <- ev:
	default:
		s.dropped.Add(1)
	}
}

// wants asks the subscriber, whose panic must not stop the loop.
func (s *Subscription) wants(ev effects.Event) (wants bool) {
	if s.matches == nil {
		return true
	}
	defer func() {
		if recover() != nil {
			s.dropped.Add(1)
		}
	}()
	return s.matches(ev)
}

// publish tells subscribers in this process what a batch has announced.
func (e *Engine) publish(committed Committed) {
	if len(committed.Events) == 0 {
		return
	}
	e.bus.mu.Lock()
	subs := slices.Collect(maps.Keys(e.bus.subs)) // matches is called unlocked: it may close its subscription
	e.bus.mu.Unlock()
	if len(subs) == 0 {
		return
	}
	for _, ev := range committed.Events {
		if told := e.o.Hooks.Published; told != nil {
			ev = told(committed, ev)
		}
		for _, s := range subs {
			if s.wants(ev) {
				s.offer(ev)
			}
		}
	}
}

// waitPoll is how often those who wait look for themselves, all at once: another instance on
// the same store may end the machine.
const waitPoll = 10 * time.Second

// waiters wakes those who wait for a machine's end.
type waiters struct {
	mu   sync.Mutex
	m    map[effects.Ref]*Waiter // the last one to come; the others by their next
	look chan struct{}           // closed when those who wait are to look for themselves
	last time.Time               // when they were last to
}

func (w *waiters) init() {
	w.m = make(map[effects.Ref]*Waiter)
	w.look = make(chan struct{})
}

func (w *waiters) add(to *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to.next = w.m[to.ref]
	w.m[to.ref] = to
}

func (w *waiters) remove(gone *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.m[gone.ref]
	if first == gone {
		if first = gone.next; first == nil {
			delete(w.m, gone.ref)
		} else {
			w.m[gone.ref] = first
		}
		return
	}
	for ; first != nil; first = first.next {
		if first.next == gone {
			first.next = gone.next
			return
		}
	}
}

func (w *waiters) wake(s core.State) {
	ref := s.Ref()
	w.mu.Lock()
	first := w.m[ref]
	delete(w.m, ref)
	w.mu.Unlock()
	for first != nil {
		next := first.next // nobody else changes it: it is in the map no more
		first.state = s
		close(first.ended)
		first = next
	}
}

// lookNow has all who wait look for themselves, if it is time; the loop calls it often.
func (w *waiters) lookNow(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) < waitPoll {
		return
	}
	w.last = now
	if len(w.m) > 0 {
		close(w.look)
		w.look = make(chan struct{})
	}
}

// looking gives what is closed when those who wait are to look for themselves.
func (w *waiters) looking() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.look
}

// Waiter waits for the end of one machine, from before it exists if need be.
type Waiter struct {
	e     *Engine
	ref   effects.Ref
	next  *Waiter       // who waits for the same; guarded by waiters.mu
	ended chan struct{} // closed once the machine has ended, in this
	state core.State
}

// NewWaiter begins to wait for the machine's end: what happens from now on is not
// missed. Stop it when it is no longer needed.
func (e *Engine) NewWaiter(ref effects.Ref) *Waiter {
	w := &Waiter{e: e, ref: ref, ended: make(chan struct{})}
	e.wait.add(w)
	return w
}

// Stop ends the waiting.
func (w *Waiter) Stop() { w.e.wait.remove(w) }

// Wait returns the machine's state once it has ended, or the last one seen if ctx
// ends or the engine stops before. last is the state that the caller knows.
func (w *Waiter) Wait(ctx context.Context, last core.State) (core.State, error) {
	for {
		look := w.e.wait.looking()
		select {
		case <-w.ended:
			return w.state, nil
		case <-ctx.Done():
			return last, ctx.Err()
		case <-w.e.stopped:
			return last, ErrStopped
		case <-look:
		}
		now, err := w.e.Read(ctx, w.ref)
		if err != nil {
			return last, err
		}
		if _, ended := core.EndedAt(now); ended {
			return now, nil
		}
		last = now
	}
}

// WaitFor returns the machine's state once it has ended: at once if it has already.
func (e *Engine) WaitFor(ctx context.Context, ref effects.Ref) (core.State, error) {
	w := e.NewWaiter(ref)
	defer w.Stop()
	s, err := e.Read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if _, ended := core.EndedAt(s); ended {
		return s, nil
	}
	return w.Wait(ctx, s)
}
