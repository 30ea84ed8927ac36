package keymutex

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneCallerAtATimeHoldsTheMutexOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Map[string]
		unlock, err := m.Lock(t.Context(), "a")
		require.NoError(t, err)
		other, ok := m.TryLock("b")
		require.True(t, ok, "other keys are not concerned")
		other()
		_, ok = m.TryLock("a")
		require.False(t, ok)

		holds := 0
		for range 3 {
			go func() {
				unlock, err := m.Lock(t.Context(), "a")
				assert.NoError(t, err)
				holds++
				assert.Equal(t, 1, holds)
				holds--
				unlock()
			}()
		}
		synctest.Wait()
		unlock()
		synctest.Wait()
		assert.Zero(t, m.Len(), "nothing is kept of a key that nobody uses")
	})
}

func TestWaitingForAMutexEndsWithTheContext(t *testing.T) {
	var m Map[int]
	unlock, err := m.Lock(t.Context(), 1)
	require.NoError(t, err)
	why := errors.New("not wanted any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = m.Lock(ctx, 1)
	require.ErrorIs(t, err, why)
	assert.Equal(t, 1, m.Len())
	unlock()
	assert.Zero(t, m.Len())
}
