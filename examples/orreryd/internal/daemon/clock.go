package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// sharedClock is the time of the database: daemons that follow one another see one clock, however their machines' differ. Only the wall
// clock is the database's; what a daemon waits for it measures itself.
type sharedClock struct {
	shell.SystemClock
	ahead atomic.Int64 // nanoseconds that the database's clock is ahead of this machine's
	log   *slog.Logger
}

// Now implements [shell.Clock].
func (c *sharedClock) Now() time.Time { return c.SystemClock.Now().Add(time.Duration(c.ahead.Load())) }

// Bounds of what is taken for a difference of the clocks, and of what is told.
const (
	clockNoise = 100 * time.Millisecond
	clockTold  = time.Second
)

// follow measures how far the clocks are apart, and goes by it if that is more than what the measuring may be wrong by.
func (c *sharedClock) follow(ctx context.Context, measure func(context.Context) (by, within time.Duration, err error)) error {
	by, within, err := measure(ctx)
	if err != nil {
		return err
	}
	was := time.Duration(c.ahead.Load())
	if (by - was).Abs() <= clockNoise+2*within {
		return nil
	}
	c.ahead.Store(int64(by))
	if by.Abs() >= clockTold || was.Abs() >= clockTold {
		c.log.Warn("this machine's clock and the database's differ; the database's counts", "database_ahead", by.Round(time.Millisecond))
	}
	return nil
}
