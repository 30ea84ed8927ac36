package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// clock is the time of the database: processes that follow one another see one clock, however those of their machines differ. Only the
// wall clock is the database's; what a process waits for it measures itself.
type clock struct {
	engine.Clock
	ahead atomic.Int64 // nanoseconds
}

// Now implements [engine.Clock].
func (c *clock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// Suspended implements [engine.SuspendClock].
func (c *clock) Suspended() time.Duration {
	if s, ok := c.Clock.(engine.SuspendClock); ok {
		return s.Suspended()
	}
	return -1
}

// Bounds of what is taken for a difference of the clocks, and of what is told.
const (
	clockNoise = 100 * time.Millisecond
	clockTold  = time.Second
)

// followClock measures how far the clocks are apart, if the database tells ([store.Timed]), and goes by it if that is more than what
// the measuring may be wrong by.
func (p *process) followClock(ctx context.Context) error {
	timed, ok := p.o.Cluster.(store.Timed)
	if !ok {
		return nil
	}
	limit, cancel := p.limited(ctx, p.o.Lease/2)
	defer cancel()
	by, within, err := timed.Ahead(limit)
	if err != nil {
		return err
	}
	was := time.Duration(p.clock.ahead.Load())
	if (by - was).Abs() <= clockNoise+2*within {
		return nil
	}
	p.clock.ahead.Store(int64(by))
	if by.Abs() >= clockTold || was.Abs() >= clockTold {
		p.pass(Event{Kind: EventClock, State: p.about(), Ahead: by})
	}
	return nil
}

// Clock is that of the database, as far as it tells its time ([store.Timed]): an engine that goes by it sees no jump when another process
// takes over. Nothing of it can be waited for but what this machine's clock measures.
func (m *Member) Clock() engine.Clock { return m.clock }

// Clock is that of the database: see [Member.Clock].
func (g *Group) Clock() engine.Clock { return g.clock }
