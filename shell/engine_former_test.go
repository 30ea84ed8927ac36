package shell_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestAResultThatIsDecidedIsDeletedByAnOwnerThatStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := memory.NewCluster(), newGate()
		a := inherit(t, c, "a", g, nil)
		made := createCount(t, a.Engine, core.InterruptFail)
		a.leave(t)
		g.open()
		require.NoError(t, <-a.done)
		b := inherit(t, c, "b", g, alone)
		require.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, made.ID).Status.Type)
		b.over(t)
		_, left, err := b.Formers(bg(), 0, 10)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// overtaken is a database in which another process claims the partition just before the owner is noted as a former one.
type overtaken struct {
	store.Handover
	by *memory.Process
}

func (o overtaken) Remain(ctx context.Context, f store.Former) error {
	seen, err := o.by.Look(ctx, f.Partition)
	if err != nil {
		return err
	}
	if _, err := o.by.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "next"}); err != nil {
		return err
	}
	return o.Handover.Remain(ctx, f)
}

// halting is a clock that is asked so slowly, once armed, that everything else comes first.
type halting struct {
	engine.SystemClock
	armed *atomic.Bool
}

func (c halting) Steady() time.Time {
	if c.armed.Load() {
		<-time.After(time.Microsecond)
	}
	return c.SystemClock.Steady()
}

func TestAnOwnerThatWasReplacedUnawaresRemainsNoFormerOwner(t *testing.T) {
	replacedUnawares(t, false)
}

func TestAnOwnerThatWasReplacedUnawaresEndsAtOnceHoweverEarlyWhatItRunsReturns(t *testing.T) {
	replacedUnawares(t, true)
}

func replacedUnawares(t *testing.T, early bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		clock := halting{armed: new(atomic.Bool)}
		tool := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		next := c.Process()
		a := inherit(t, c, "a", tool, func(o *shell.Options) {
			o.Clock, o.Handover.Through = clock, overtaken{o.Handover.Through, next}
		})
		createCount(t, a.Engine, core.InterruptFail)
		clock.armed.Store(early)
		a.end()
		<-time.After(time.Second)
		synctest.Wait()
		select {
		case err := <-a.done:
			require.ErrorIs(t, err, store.ErrFenced)
			require.ErrorContains(t, err, "the store was taken over")
		default:
			require.Fail(t, "it waits for what runs, of which nothing can be stored")
		}
		all, _, err := next.Formers(bg(), 0, 10)
		require.NoError(t, err)
		assert.Empty(t, all)
		require.NoError(t, a.st.Close())
	})
}
