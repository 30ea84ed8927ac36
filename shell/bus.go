package shell

import (
	"sync"
	"sync/atomic"

	"github.com/orrery-go/orrery/effects"
)

// bus hands what machines announce to subscribers in this process, after the
// transaction that made it true is durable.
type bus struct {
	mu   sync.RWMutex
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
}

// Subscribe listens to the events for which matches returns true; nil matches
// all. matches is called by the engine's loop and must be quick; where it
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
	defer s.bus.mu.Unlock()
	if _, ok := s.bus.subs[s]; ok {
		delete(s.bus.subs, s)
		close(s.c)
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
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.subs {
		for _, ev := range events {
			if !s.wants(ev) {
				continue
			}
			select {
			case s.c <- ev:
			default:
				s.dropped.Add(1)
			}
		}
	}
}
