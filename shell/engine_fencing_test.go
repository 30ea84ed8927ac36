package shell_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// claims lists which claims of instances are held.
func claims(t *testing.T, st store.Store) (names []string) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		list, err := tx.Claims("instance/")
		for _, c := range list {
			names = append(names, c.Name)
		}
		return err
	}))
	return names
}

// withheld is a store whose disk, once it is full, has room for one thing only:
// to give a claim back.
type withheld struct {
	store.Store
	full atomic.Bool
}

type releases struct {
	store.Tx
	released bool
}

func (r *releases) Release(name string, token uint64) error {
	r.released = true
	return r.Tx.Release(name, token)
}

func (w *withheld) Update(ctx context.Context, fn func(store.Tx) error) error {
	return w.Store.Update(ctx, func(tx store.Tx) error {
		seen := &releases{Tx: tx}
		if err := fn(seen); err != nil {
			return err
		}
		if w.full.Load() && !seen.released {
			return errors.New("no space left on device")
		}
		return nil
	})
}

// R5: a claim's name is used again, its token never.
func TestARunOfAnEarlierHolderOfTheSameClaimIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, g := inMemory(t), newGate()
		w := &withheld{Store: st}
		first, stop := start(t, shell.Options{Store: w, Tools: tools(g), TickRate: time.Second, StopTimeout: time.Second, AbandonAfter: time.Second})
		a, err := first.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"instance/0"}, claims(t, st))
		w.full.Store(true)
		require.NoError(t, stop(), "it stops although it could not store how the run ended")
		require.Empty(t, claims(t, st))

		second := running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Second})
		elapse(5 * time.Second)
		require.Equal(t, []string{"instance/0"}, claims(t, st))
		a = actionOf(t, second, a.ID)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: core.ReasonRecovered}, a.Status)
	})
}

// A9.
func TestMoreLostRunsThanABatchMayHoldAreSettledAtOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.NewSession("first")
		o := shell.Options{Store: st, Tools: tools(newGate()), TickRate: 10 * time.Second, MaxBatch: 4}
		crashed(t, o, func(e *shell.Engine) {
			for range 30 {
				_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
				require.NoError(t, err)
			}
		})
		o.Store, o.Tools = st.Reopen("second"), tools(&counting{})
		e := running(t, o)
		elapse(21 * time.Second) // recover_after is 20 s
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 30, s.ActionsByStatus[core.StatusFailed])
	})
}

// C8: recover_after says when somebody is gone, not the lease alone.
func TestANewcomerLeavesTheLapsedClaimOfAStalledInstanceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, g := inMemory(t), newGate()
		f := &frozen{Store: st, gone: make(chan struct{}), thaw: make(chan struct{})}
		o := shell.Options{Store: f, Tools: tools(g), TickRate: time.Second, LeaseTTL: time.Minute, RecoverAfter: 10 * time.Minute}
		stalled, stop := start(t, o)
		a, err := stalled.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		close(f.gone)
		elapse(2 * time.Minute) // its lease has lapsed

		o.Store = st
		newcomer := running(t, o)
		elapse(2 * time.Minute)
		assert.Equal(t, []string{"instance/0", "instance/1"}, claims(t, st))
		g.open()
		close(f.thaw)
		elapse(time.Second)
		a = actionOf(t, newcomer, a.ID)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, "it came back in time")
		assert.JSONEq(t, `"through"`, string(a.Status.Result))
		require.NoError(t, stop())
	})
}

// stalling is a store whose engine stalls before one of its transactions.
type stalling struct {
	store.Store
	left atomic.Int64 // transactions that still go through
	thaw chan struct{}
}

func (s *stalling) Update(ctx context.Context, fn func(store.Tx) error) error {
	if s.left.Add(-1) == -1 {
		<-s.thaw
	}
	return s.Store.Update(ctx, fn)
}

func TestAnInstanceThatIsTakenOverAsItStopsHasStoppedCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		s := &stalling{Store: st, thaw: make(chan struct{})}
		s.left.Store(1000)
		_, stop := start(t, shell.Options{Store: s, Tools: tools(&counting{})})
		synctest.Wait()
		running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Second})
		synctest.Wait()
		s.left.Store(1) // its last batch, but not the return of its claim
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		elapse(2 * time.Minute)
		require.Equal(t, []string{"instance/1"}, claims(t, st))
		close(s.thaw)
		require.NoError(t, <-stopped)
	})
}

// R5.
func TestAResultOfBeforeATakeoverIsNotTakenForThatOfALaterActionWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		f := &frozen{Store: st, gone: make(chan struct{}), thaw: make(chan struct{})}
		early, late := newGate(), newGate()
		stalled, stop := start(t, shell.Options{Store: f, Tools: tools(early), TickRate: time.Second})
		spec := core.ActionSpec{ID: uuid.New(), ToolName: "count"}
		_, err := stalled.Actions().Create(bg(), spec)
		require.NoError(t, err)
		synctest.Wait()
		close(f.gone)
		early.open() // it stalls as it stores this result
		synctest.Wait()

		other := running(t, shell.Options{Store: st, Tools: tools(late), TickRate: time.Second, ActionRetention: time.Minute})
		elapse(10 * time.Minute)
		_, err = other.Actions().Get(bg(), spec.ID)
		require.ErrorIs(t, err, shell.ErrNotFound, "settled, and forgotten after its retention")
		a, err := other.Actions().Create(bg(), spec)
		require.NoError(t, err)
		require.EqualValues(t, 1, a.Run, "the same run of the same id, by its numbers")
		close(f.thaw)
		elapse(10 * time.Second)
		require.Len(t, claims(t, st), 2, "it has registered anew")
		a = actionOf(t, other, spec.ID)
		assert.Equal(t, core.StatusRunning, a.Status.Type)
		assert.EqualValues(t, 1, late.n.Load())
		late.open()
		require.NoError(t, stop())
	})
}

func TestAnInstanceThatRegistersAnewHelpsAtOnceWithWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, g := inMemory(t), &counting{}, newGate()
		f := &frozen{Store: st, gone: make(chan struct{}), thaw: make(chan struct{})}
		_, stop := start(t, shell.Options{Store: f, Tools: tools(c), TickRate: time.Hour})
		synctest.Wait()
		close(f.gone)
		other := running(t, shell.Options{Store: st, Tools: tools(g), TickRate: time.Second, Concurrency: map[string]int{"count": 1}})
		elapse(2 * time.Minute)
		require.Equal(t, []string{"instance/1"}, claims(t, st))
		for range 2 { // one runs, one waits
			_, err := other.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
		}
		require.Zero(t, c.n.Load())
		close(f.thaw)
		elapse(time.Second)
		require.Len(t, claims(t, st), 2)
		assert.EqualValues(t, 1, c.n.Load())
		assert.EqualValues(t, 1, g.n.Load())
		g.open()
		require.NoError(t, stop())
	})
}

func TestWhatWaitedForAPlaceOfAnInstanceThatIsGoneIsRunByOneThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), &counting{}
		e := running(t, shell.Options{Store: st, Tools: tools(c), TickRate: 10 * time.Second})
		synctest.Wait()
		var waits uuid.UUID
		o := shell.Options{Store: st, Tools: tools(newGate()), TickRate: 10 * time.Second, Concurrency: map[string]int{"count": 1}}
		crashed(t, o, func(lost *shell.Engine) {
			for range 2 {
				a, err := lost.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
				require.NoError(t, err)
				waits = a.ID
			}
		})
		elapse(2 * time.Minute)
		a := actionOf(t, e, waits)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.EqualValues(t, 1, c.n.Load(), "the other one was begun, and has failed")
	})
}
