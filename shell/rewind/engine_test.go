package rewind_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// working runs an engine whose only tool is do, until stop is called.
func working(t *testing.T, st store.Store, do shell.ToolFunc) (e *shell.Engine, stop func()) {
	t.Helper()
	e, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), Tools: map[string]shell.Tool{"t": do}, Concurrency: map[string]int{"t": 2},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// TestAnEngineInterruptsWhatMayHaveBegunAndGoesOn: nothing is asked for twice that must not be, and
// what was to come comes.
func TestAnEngineInterruptsWhatMayHaveBegunAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, release := memory.New(), make(chan struct{})
		e, stop := working(t, st, func(context.Context, shell.Call) (json.RawMessage, error) {
			<-release
			return nil, nil
		})
		add := func(on core.OnInterrupt) uuid.UUID {
			a, err := e.Actions().Create(t.Context(), core.ActionSpec{ToolName: "t", Policy: core.RunPolicy{OnInterrupt: on, MaxAttempts: 2}})
			require.NoError(t, err)
			return a.ID
		}
		fails, retries := add(core.InterruptFail), add(core.InterruptRetry)
		synctest.Wait()
		var then uint64
		view(t, st, func(tx store.ReadTx) {
			var err error
			then, err = tx.Seq()
			require.NoError(t, err)
		})
		late := add(core.InterruptFail)
		close(release)
		synctest.Wait()
		stop()

		back := memory.New()
		require.NoError(t, back.Import(t.Context(), rewind.New(st, rewind.Options{Batch: then})))
		var calls atomic.Int32
		e, stop = working(t, back, func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			calls.Add(1)
			assert.Equal(t, retries, c.ActionID, "only what may be done twice is done again")
			return nil, nil
		})
		synctest.Wait()
		for id, want := range map[uuid.UUID]core.StatusType{fails: core.StatusFailed, retries: core.StatusCompleted} {
			a, err := e.Actions().Get(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, want, a.Status.Type)
		}
		_, err := e.Actions().Get(t.Context(), late)
		require.ErrorIs(t, err, shell.ErrNotFound)
		list, _, err := e.Actions().List(t.Context(), shell.ActionFilter{Status: core.StatusFailed}, shell.Page{})
		require.NoError(t, err)
		assert.Len(t, list, 1, "the lists are those of this version")
		stop()
		assert.Equal(t, int32(1), calls.Load())
	})
}
