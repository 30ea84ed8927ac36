package fleet_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store/memory"
)

// worker is a process that runs an engine while it owns the partition.
type worker struct {
	*fleet.Member
	stop context.CancelFunc
	done chan error

	mu     sync.Mutex
	engine *shell.Engine
}

// minute is a tool of a minute.
var minute = shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	select {
	case <-time.After(time.Minute):
		return json.RawMessage(`"done"`), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
})

func employ(t *testing.T, c *memory.Cluster, name string) *worker {
	t.Helper()
	w := &worker{done: make(chan error, 1)}
	var err error
	w.Member, err = fleet.New(fleet.Options{Cluster: c.Process(), Name: name, Lease: lease})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.done <- w.Run(ctx, w.work) }()
	return w
}

func (w *worker) work(ctx context.Context, t fleet.Term) error {
	e, err := shell.New(shell.Options{
		Store: t.Store, Clock: t.Clock, Handover: t.Handover, Tools: map[string]shell.Tool{"minute": minute}, StopTimeout: 2 * time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.engine = e
	w.mu.Unlock()
	return e.Run(ctx)
}

func (w *worker) at() *shell.Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engine
}

func TestAPartitionMovesWithinASecondOfACleanStopAlthoughToolsOfAMinuteRunAndTheyCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		a := employ(t, c, "a")
		pass(0)
		b := employ(t, c, "b")
		pass(lease)
		made, err := a.at().Actions().Create(t.Context(), core.ActionSpec{ToolName: "minute"})
		require.NoError(t, err)
		pass(time.Second)
		a.stop()
		pass(time.Second)
		assert.Equal(t, "b", b.State().Owner)
		_, err = b.at().Actions().Create(t.Context(), core.ActionSpec{ToolName: "minute"})
		require.NoError(t, err, "it takes requests")
		is, err := b.at().Actions().Get(t.Context(), made.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusRunning, is.Status.Type)
		all, err := b.Instances(t.Context())
		require.NoError(t, err)
		assert.Len(t, all, 2, "it leaves the list last")
		require.NoError(t, <-a.done)
		pass(time.Second)
		is, err = b.at().Actions().Get(t.Context(), made.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, is.Status.Type)
		assert.EqualValues(t, 1, is.Attempt)

		other, err := b.at().Actions().Create(t.Context(), core.ActionSpec{ToolName: "minute"})
		require.NoError(t, err)
		pass(time.Second)
		b.stop() // nobody is there to take it
		pass(time.Second)
		assert.True(t, b.State().Works)
		is, err = b.at().Actions().Get(t.Context(), other.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusRunning, is.Status.Type)
		require.NoError(t, <-b.done)
	})
}
