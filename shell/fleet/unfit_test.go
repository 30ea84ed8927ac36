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
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// The race detector tells here, too: the first work ends while the group looks for who is to have the partition.
func TestWorkThatTellsThatItIsNotPossibleOnceItHasGivenThePartitionBackLeavesThatToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		var begun, told atomic.Int64
		g, err := fleet.NewGroup(fleet.Options{Cluster: c.Process(), Name: "a", Lease: lease, Events: func(e fleet.Event) {
			if e.Kind == fleet.EventUnfit {
				told.Add(1)
			}
		}}, store.Layout{Partitions: 1, Rule: layout.Rule})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- g.Run(ctx, func(ctx context.Context, term fleet.Term) error {
				if begun.Add(1) > 1 {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				assert.NoError(t, term.Handover.GiveBack())
				<-time.After(lease) // its tools run on
				return fleet.ErrUnfit
			})
		}()
		pass(lease / 2)
		require.EqualValues(t, 2, begun.Load(), "nobody else is there to have it")
		pass(lease)
		assert.EqualValues(t, 1, told.Load())
		assert.True(t, g.Member(0).State().Works, "the work that is possible goes on")
		stop()
		require.NoError(t, <-done)
	})
}
