package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// The crash suite found it: a batch that both deletes a recurring action and
// finds it due took its due entry for one that leads nowhere, and could then
// not be committed, for any of its callers.
func TestADeleteThatMeetsItsOwnDueTimeInOneBatchIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: inMemory(t), from: time.Now()}
		e := running(t, shell.Options{Store: s, Tools: tools(&counting{})})
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		elapse(time.Until(r.NextExecutionAt.Std()) - 10*time.Second)

		s.mu.Lock()
		s.take = 20 * time.Second
		s.mu.Unlock()
		created, deleted := make(chan error, 1), make(chan error, 1)
		go func() { // keeps the loop busy until after the time has come
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			created <- err
		}()
		synctest.Wait()
		go func() { deleted <- e.Recurring().Delete(bg(), r.ID) }()
		require.NoError(t, <-created)
		require.NoError(t, <-deleted)

		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.Zero(t, stats.CommitErrors)
		assert.Zero(t, stats.Quarantined)
		_, err = e.Recurring().Get(bg(), r.ID)
		assert.ErrorIs(t, err, shell.ErrNotFound)
		s.mu.Lock()
		s.take = 0
		s.mu.Unlock()
	})
}
