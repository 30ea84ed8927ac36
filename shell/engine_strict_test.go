package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// R2.
func TestWithAStrictTickAnActionForNowWaitsForTheTickToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), TickRate: time.Minute, StrictTick: true})
		synctest.Wait() // the first tick has passed
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.StatusPending, a.Status.Type)
		elapse(59 * time.Second)
		assert.Zero(t, c.n.Load())
		elapse(time.Second)
		assert.EqualValues(t, 1, c.n.Load())
	})
}

// C9.
func TestADisabledRecurringActionThatIsTriggeredDispatchesThatOneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), DisableRecurring: true})
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		elapse(10*time.Minute + 30*time.Second)
		got, err := e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err)
		assert.Equal(t, r.NextExecutionAt, got.NextExecutionAt, "its times are left where they are")
		assert.Zero(t, got.MissedCount)
		elapse(10 * time.Minute)
		assert.EqualValues(t, 1, c.n.Load())
		once := onlyOccurrence(t, e, r.ID)
		assert.True(t, once.Manual)
	})
}

// C9.
func TestDisabledRecurringActionsDoNotWakeTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: inMemory(t), from: time.Now()}
		e := running(t, shell.Options{Store: s, Tools: tools(&counting{}), TickRate: time.Hour, LeaseTTL: 24 * time.Hour, DisableRecurring: true})
		elapse(10 * time.Minute)
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		require.Less(t, r.NextExecutionAt, effects.TimeOf(time.Now().Add(2*time.Minute)))
		begun := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.at)
		}
		before := begun()
		elapse(49 * time.Minute)
		assert.Equal(t, before, begun(), "transactions until the next tick")
	})
}

// R2.
func TestACheckOfRecurringActionsBetweenTwoTicksFiresNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &counting{}, &slowStore{Store: inMemory(t), from: time.Now()}
		e := running(t, shell.Options{Store: s, Tools: tools(c), TickRate: time.Hour, StrictTick: true, LeaseTTL: 24 * time.Hour})
		_, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		elapse(54 * time.Second)
		s.mu.Lock()
		s.take = 20 * time.Second
		s.mu.Unlock()
		later := make(chan error, 1)
		go func() {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(10 * time.Hour)})
			later <- err
		}()
		elapse(2 * time.Second) // the batch is being stored; the next one holds the check and the request below
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Label: "for now"})
		require.NoError(t, err)
		require.NoError(t, <-later)
		s.mu.Lock()
		s.take = 0
		s.mu.Unlock()
		elapse(30 * time.Second)
		list, _, err := e.Actions().List(bg(), shell.ActionFilter{Status: core.StatusPending}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, "for now", list[0].Label, "it waits for the tick")
		assert.GreaterOrEqual(t, c.n.Load(), int64(1), "the recurring one has fired")
	})
}
