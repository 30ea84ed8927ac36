package fleet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store/memory"
)

// counting is a Scheduler that lets time go by.
type counting struct {
	runs atomic.Int64
	less atomic.Bool // there were less than none
}

func (c *counting) Add(delta int) {
	if c.runs.Add(int64(delta)) < 0 {
		c.less.Store(true)
	}
}

func (c *counting) Sleep(ctx context.Context, _ string, d time.Duration) {
	c.Add(-1)
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	c.Add(1)
}

func TestASchedulerKnowsWhatOfAMemberRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{}
		s.Add(1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		o := fleet.Options{Cluster: memory.NewCluster().Process(), Name: "a", Lease: lease, Scheduler: s}
		go func() {
			done <- fleet.Run(ctx, o, func(ctx context.Context, _ fleet.Term) error {
				s.Sleep(ctx, "works", time.Hour)
				return context.Cause(ctx)
			})
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Zero(t, s.runs.Load(), "all of it sleeps")
		stop()
		require.NoError(t, <-done)
		assert.Equal(t, int64(1), s.runs.Load(), "what has called Run")
		assert.False(t, s.less.Load())
	})
}
