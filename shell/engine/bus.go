package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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

// Subscribe listens to the events for which matches returns true, as that of package
// shell.
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

func (b *bus) publish(events []effects.Event) {
	if len(events) == 0 {
		return
	}
	b.mu.Lock()
	subs := slices.Collect(maps.Keys(b.subs)) // matches is called unlocked: it may close its subscription
	b.mu.Unlock()
	for _, s := range subs {
		for _, ev := range events {
			if s.wants(ev) {
				s.offer(ev)
			}
		}
	}
}
