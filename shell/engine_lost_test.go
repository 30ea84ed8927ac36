package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// losable is a store that another process may take over.
type losable struct {
	store.Store
	taken atomic.Bool
	gone  chan struct{} // closed once it knows; nil: it never tells by itself
}

func (l *losable) Update(ctx context.Context, fn func(store.Tx) error) error {
	if l.taken.Load() {
		return store.ErrFenced
	}
	return l.Store.Update(ctx, fn)
}

func (l *losable) Failed() <-chan struct{} { return l.gone }

func (l *losable) Failure() error {
	if l.taken.Load() {
		return store.ErrFenced
	}
	return errors.New("the disk has failed")
}

// until runs until its context ends, and says why.
type untilEnd struct{ why chan error }

func (u untilEnd) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	<-ctx.Done()
	u.why <- context.Cause(ctx)
	return nil, ctx.Err()
}

func TestAnEngineEndsOnceAnotherProcessHasItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, tool := &losable{Store: inMemory(t)}, untilEnd{make(chan error, 1)}
		e, err := shell.New(shell.Options{Store: st, Tools: tools(tool), Logger: quiet, StopTimeout: time.Hour})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- e.Run(bg()) }()
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		begun := time.Now()

		st.taken.Store(true)
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.ErrorIs(t, err, store.ErrFenced)
		require.NotErrorIs(t, err, store.ErrUnconfirmed, "nothing of it is stored")
		require.ErrorIs(t, <-tool.why, shell.ErrFenced)
		err = <-done
		require.ErrorIs(t, err, store.ErrFenced)
		assert.EqualError(t, err, "the store was taken over: fenced: the claim was taken over")
		assert.Less(t, time.Since(begun), time.Second, "StopTimeout is for what may still be stored")
		require.ErrorIs(t, e.Health(bg()), shell.ErrStopped)
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.ErrorIs(t, err, shell.ErrStopped)

		st.taken.Store(false) // as the other process sees it
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			rec, err := tx.Get(core.KindAction, a.ID)
			require.NoError(t, err)
			s, err := core.DecodeState(core.KindAction, rec.State)
			require.NoError(t, err)
			assert.Equal(t, core.StatusRunning, s.(core.Action).Status.Type, "it tells the machine what it makes of a run whose holder is gone")
			return nil
		}))
	})
}

func TestAnEngineThatHasNothingToDoIsToldThatItsStoreIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []bool{true, false} {
			st := &losable{Store: inMemory(t), gone: make(chan struct{})}
			ctx, cancel := context.WithCancel(bg())
			e, err := shell.New(shell.Options{Store: st, Tools: tools(&counting{}), Logger: quiet, TickRate: time.Hour, LeaseTTL: time.Hour})
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			synctest.Wait()
			begun := time.Now()
			st.taken.Store(lost)
			close(st.gone)
			synctest.Wait()
			if lost {
				require.ErrorIs(t, <-done, store.ErrFenced)
				assert.Zero(t, time.Since(begun))
			} else { // it goes on refusing, which is for its caller to see
				require.NoError(t, e.Health(bg()))
				cancel()
				require.NoError(t, <-done)
			}
			cancel()
		}
	})
}

// stubborn does not end with its context.
type stubborn struct{ end chan struct{} }

func (s stubborn) Run(context.Context, shell.Call) (json.RawMessage, error) {
	<-s.end
	return nil, nil
}

func TestALostStoreWaitsForNoToolThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, tool := &losable{Store: inMemory(t), gone: make(chan struct{})}, stubborn{make(chan struct{})}
		ctx, cancel := context.WithCancel(bg())
		e, err := shell.New(shell.Options{Store: st, Tools: tools(tool), Logger: quiet, AbandonAfter: 3 * time.Second})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		begun := time.Now()
		st.taken.Store(true)
		close(st.gone)
		synctest.Wait()
		cancel() // nothing is stopped cleanly any more
		require.ErrorIs(t, <-done, store.ErrFenced)
		assert.Equal(t, 3*time.Second, time.Since(begun))
		close(tool.end)
	})
}
