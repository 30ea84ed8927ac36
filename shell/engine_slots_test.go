package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// busy counts how many of its runs are under way at a time, each of which takes a while.
type busy struct{ now, most, runs atomic.Int64 }

func (b *busy) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	n := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	b.runs.Add(1)
	return nil, ctx.Err()
}

func sharing(t *testing.T, slots *shell.Slots, run func(context.Context, shell.Call) (json.RawMessage, error)) shell.Options {
	return shell.Options{Store: inMemory(t), Slots: slots, Concurrency: map[string]int{"count": 4}, Tools: tools(shell.ToolFunc(run))}
}

func createMany(t *testing.T, e *shell.Engine, n int) {
	t.Helper()
	for i := range n {
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Namespace: "n", Tenant: fmt.Sprint(i % 3)})
		require.NoError(t, err)
	}
}

func TestEnginesThatShareSlotsRunNoMoreThanOneWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots shell.Slots
		b := &busy{}
		var engines []*shell.Engine
		for range 3 {
			e := running(t, sharing(t, &slots, b.Run))
			createMany(t, e, 9)
			engines = append(engines, e)
		}
		for range 6 {
			synctest.Wait()
			assert.EqualValues(t, 4, b.now.Load())
			<-time.After(time.Minute)
		}
		<-time.After(time.Minute) // of the last three
		synctest.Wait()
		assert.Zero(t, b.now.Load())
		assert.EqualValues(t, 4, b.most.Load())
		for _, e := range engines {
			list, _, err := e.Actions().List(bg(), shell.ActionFilter{Status: core.StatusCompleted}, shell.Page{Limit: 100})
			require.NoError(t, err)
			assert.Len(t, list, 9)
		}
	})
}

func TestASlotThatAnEngineGivesBackIsAnothersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots shell.Slots
		first, second := &busy{}, &busy{}
		createMany(t, running(t, sharing(t, &slots, first.Run)), 4)
		synctest.Wait()
		createMany(t, running(t, sharing(t, &slots, second.Run)), 4)
		synctest.Wait()
		assert.EqualValues(t, 4, first.now.Load())
		assert.Zero(t, second.now.Load(), "all are taken")
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Zero(t, first.now.Load())
		assert.EqualValues(t, 4, second.now.Load(), "it need not look for itself")
	})
}

// A tenant that may have no more than a part of the lane waits for what others hold, also while slots are free: in whichever engine.
func TestATenantThatWaitsForItsPartIsToldOfASlotThatAnotherEngineGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots shell.Slots
		first, second := &busy{}, &busy{}
		half := func(run func(context.Context, shell.Call) (json.RawMessage, error)) shell.Options {
			o := sharing(t, &slots, run)
			o.Limits.MaxLaneShare = 0.5
			return o
		}
		e := running(t, half(first.Run))
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Namespace: "n", Tenant: "a"})
		require.NoError(t, err)
		synctest.Wait()
		<-time.After(30 * time.Second)
		o := running(t, half(second.Run))
		for range 2 {
			_, err := o.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Namespace: "n", Tenant: "b"})
			require.NoError(t, err)
		}
		synctest.Wait()
		assert.EqualValues(t, 1, second.now.Load(), "half of the three that others do not hold")
		<-time.After(30 * time.Second)
		synctest.Wait()
		assert.Zero(t, first.now.Load())
		assert.EqualValues(t, 2, second.now.Load())
	})
}

func TestWhatAnEngineLeavesBehindAsItStopsHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots shell.Slots
		blocker, b := newGate(), &busy{}
		defer blocker.open()
		e, stop := start(t, sharing(t, &slots, func(context.Context, shell.Call) (json.RawMessage, error) {
			<-blocker.c
			return nil, nil
		}))
		createMany(t, e, 4)
		createMany(t, running(t, sharing(t, &slots, b.Run)), 4)
		synctest.Wait()
		assert.Zero(t, b.now.Load())
		_ = stop() // it says that not all has returned
		synctest.Wait()
		assert.EqualValues(t, 4, b.now.Load())
	})
}
