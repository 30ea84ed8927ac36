package shell_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
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

func TestAnOwnerThatWasReplacedUnawaresRemainsNoFormerOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		tool := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		a := inherit(t, c, "a", tool, nil)
		createCount(t, a.Engine, core.InterruptFail)
		next := c.Process()
		seen, err := next.Look(bg(), 0)
		require.NoError(t, err)
		o, err := next.Claim(bg(), store.PartitionClaim{Seen: seen, Owner: "next"})
		require.NoError(t, err)
		a.end()
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
		require.NoError(t, o.Close())
	})
}
