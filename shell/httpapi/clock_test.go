package httpapi_test

import (
	"sync"
	"time"
)

// clock is a [shell.Clock] that a test moves.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	steady time.Time // does not go back
	timers map[*timer]struct{}
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock {
	now := time.Date(2026, 2, 9, 15, 0, 0, 0, time.UTC) // a Monday, 10 AM in US/Eastern
	return &clock{now: now, steady: now, timers: make(map[*timer]struct{})}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Steady() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steady
}

func (c *clock) Timer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{at: c.steady.Add(d), c: make(chan time.Time, 1)}
	c.timers[t] = struct{}{}
	c.fire()
	return t.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

// advance moves the clock, and fires what is due by then. A clock that is set
// back fires nothing.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.steady = c.steady.Add(max(d, 0))
	c.fire()
}

func (c *clock) fire() {
	for t := range c.timers {
		if !t.at.After(c.steady) {
			t.c <- c.now
			delete(c.timers, t)
		}
	}
}
