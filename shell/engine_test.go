package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// running starts an engine that is stopped, and whose journal is verified, when
// the test ends.
func running(t testing.TB, o shell.Options) *shell.Engine {
	t.Helper()
	e, stop := start(t, o)
	t.Cleanup(func() {
		require.NoError(t, stop())
		verify(t, o.Store)
	})
	return e
}

func start(t testing.TB, o shell.Options) (e *shell.Engine, stop func() error) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	e, err := shell.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() error {
		cancel()
		return <-done
	}
}

func verify(t testing.TB, st store.Store) {
	t.Helper()
	rep, err := replay.Verify(context.Background(), st, replay.Options{})
	require.NoError(t, err)
	for _, d := range rep.Divergences {
		t.Errorf("replay: %s", d)
	}
}

func inMemory(t testing.TB) store.Store {
	t.Helper()
	st := memory.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func inBolt(t testing.TB) store.Store {
	t.Helper()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// openBolt opens the database at a path that was made outside of the bubble.
func openBolt(t testing.TB, path string) store.Store {
	t.Helper()
	st, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	return st
}

// counting is a tool that counts its runs.
type counting struct {
	n  atomic.Int64
	mu sync.Mutex
	at []time.Time
}

func (c *counting) Run(context.Context, shell.Call) (json.RawMessage, error) {
	c.n.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
	return json.RawMessage(`{"ok":true}`), nil
}

func (c *counting) times() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Time(nil), c.at...)
}

func tools(t shell.Tool) map[string]shell.Tool { return map[string]shell.Tool{"count": t} }

func at(d time.Duration) core.Trigger { return core.Scheduled(effects.TimeOf(time.Now().Add(d))) }

// elapse lets the bubble's time pass, and waits until all that it set off has
// been done.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func bg() context.Context { return context.Background() }

// actionOf gives an action as it is now.
func actionOf(t testing.TB, e *shell.Engine, id uuid.UUID) core.Action {
	t.Helper()
	a, err := e.Actions().Get(bg(), id)
	require.NoError(t, err)
	return a
}

// onlyOccurrence gives the one occurrence that a recurring action, or a job, has had.
func onlyOccurrence(t testing.TB, e *shell.Engine, of uuid.UUID) core.Occurrence {
	t.Helper()
	history, _, err := e.Recurring().History(bg(), of, shell.Page{})
	require.NoError(t, err)
	require.Len(t, history, 1)
	return history[0]
}

// blockedBy is a tool that notes the labels of what it runs, in order, and holds what is
// called "blocker" up at the gate.
func blockedBy(g *gate, mu *sync.Mutex, order *[]string) shell.Tool {
	return shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
		mu.Lock()
		*order = append(*order, c.Label)
		mu.Unlock()
		if c.Label == "blocker" {
			return g.Run(ctx, c)
		}
		return nil, nil
	})
}

// B8, the gate of 001.
func TestTwoActionsScheduled100msApartBothFireWithATickOf500ms(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict_tick=%v", strict), func(t *testing.T) {
			c := &counting{}
			e := running(t, shell.Options{Store: inBolt(t), Tools: tools(c), TickRate: 500 * time.Millisecond, StrictTick: strict})
			var ids []uuid.UUID
			for _, d := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
				a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(d)})
				require.NoError(t, err)
				ids = append(ids, a.ID)
			}
			for _, id := range ids {
				a, err := e.Actions().Wait(bg(), id)
				require.NoError(t, err)
				assert.Equal(t, core.StatusCompleted, a.Status.Type)
				assert.JSONEq(t, `{"ok":true}`, string(a.Status.Result))
			}
			assert.EqualValues(t, 2, c.n.Load())
		})
	}
}

func TestAnActionRunsAtItsTimeNotAtTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), TickRate: time.Minute})
		begin := time.Now()
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(10 * time.Second)})
		require.NoError(t, err)
		assert.Equal(t, core.StatusPending, a.Status.Type)
		_, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(begin))
	})
}

func TestWithAStrictTickAnActionWaitsForTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), TickRate: time.Minute, StrictTick: true})
		begin := time.Now()
		synctest.Wait() // the first tick has passed
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(10 * time.Second)})
		require.NoError(t, err)
		_, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

var errBoom = errors.New("boom")

func TestAFailingToolFailsItsActionWithTheReason(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(shell.ToolFunc(
		func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errBoom }))})
	a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
	require.NoError(t, err)
	a, err = e.Actions().Wait(bg(), a.ID)
	require.NoError(t, err)
	assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: "boom"}, a.Status)
}
