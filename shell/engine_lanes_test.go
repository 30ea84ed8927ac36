package shell_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// whileItCommits lets do happen while the engine is busy with another batch, so
// that all of it meets in the next one.
func whileItCommits(t *testing.T, e *shell.Engine, s *slowStore, do func()) {
	t.Helper()
	slow := func(d time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take = d
	}
	created := make(chan error, 1)
	slow(time.Second)
	go func() {
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(1000 * time.Hour)})
		created <- err
	}()
	synctest.Wait()
	do()
	synctest.Wait()
	slow(0)
	require.NoError(t, <-created)
	synctest.Wait()
}

func TestANewcomerDoesNotOvertakeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		blocker := newGate()
		s := &slowStore{Store: inMemory(t), from: time.Now()}
		e := running(t, shell.Options{Store: s, Concurrency: map[string]int{"count": 1}, Tools: tools(blockedBy(blocker, &mu, &order))})
		create := func(label string) {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Label: label})
			assert.NoError(t, err)
		}
		create("blocker")
		create("who waits")
		whileItCommits(t, e, s, func() { // a place becomes free just as somebody comes
			go create("newcomer")
			blocker.open()
		})
		assert.Equal(t, []string{"blocker", "who waits", "newcomer"}, order)
	})
}

func TestWhatIsTriggeredAsTheEngineStopsRunsAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		s := &slowStore{Store: inMemory(t), from: time.Now()}
		o := shell.Options{Store: s, Tools: tools(c)}
		e, stop := start(t, o)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
		require.NoError(t, err)
		triggered, stopped := make(chan error, 1), make(chan error, 1)
		whileItCommits(t, e, s, func() {
			go func() {
				_, err := e.Actions().Trigger(bg(), a.ID)
				triggered <- err
			}()
			synctest.Wait()
			go func() { stopped <- stop() }()
		})
		require.NoError(t, <-triggered, "it came before the stop")
		require.NoError(t, <-stopped)
		assert.Zero(t, c.n.Load(), "nothing new is started")
		a = actionOf(t, e, a.ID)
		assert.Equal(t, core.StatusRunning, a.Status.Type)
		require.NoError(t, s.View(bg(), func(tx store.ReadTx) error {
			entry, err := tx.OutboxEntry(store.EffectKey{ID: a.ID, N: 1})
			assert.True(t, entry.Waiting())
			return err
		}))

		e = running(t, o)
		a, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, c.n.Load())
	})
}

func TestARunThatReturnsLateHasNoPartInALaterActionWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := make(chan error, 1)
		late, end := make(chan struct{}), make(chan struct{})
		var runs counting
		e := running(t, shell.Options{
			Store: inMemory(t), TickRate: 10 * time.Second, ActionRetention: time.Minute, AbandonAfter: 24 * time.Hour,
			Tools: tools(shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
				_, _ = runs.Run(ctx, c)
				if runs.n.Load() == 1 {
					<-late // whatever its context says
					return json.RawMessage(`"late"`), nil
				}
				select {
				case <-ctx.Done():
					cause <- context.Cause(ctx)
				case <-end:
				}
				return nil, context.Cause(ctx)
			})),
		})
		defer close(end)
		spec := core.ActionSpec{ID: uuid.New(), ToolName: "count"}
		_, err := e.Actions().Create(bg(), spec)
		require.NoError(t, err)
		synctest.Wait()
		_, err = e.Actions().Cancel(bg(), spec.ID, "")
		require.NoError(t, err)
		elapse(5 * time.Minute)
		_, err = e.Actions().Get(bg(), spec.ID)
		require.ErrorIs(t, err, shell.ErrNotFound, "it is forgotten after its retention")
		a, err := e.Actions().Create(bg(), spec)
		require.NoError(t, err)
		require.EqualValues(t, 1, a.Run, "the same run of the same id, by its numbers")
		synctest.Wait()
		close(late)
		synctest.Wait()
		a = actionOf(t, e, spec.ID)
		assert.Equal(t, core.StatusRunning, a.Status.Type, "the late result is not its own")

		_, err = e.Actions().Cancel(bg(), spec.ID, "")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, cause, 1, "its run is still known, and can be cancelled")
		require.ErrorIs(t, <-cause, shell.ErrCancelled)
	})
}
