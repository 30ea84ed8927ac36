package replay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store/memory"
)

// Leases lapse in the engine's loop, and tokens come from the journal's own
// logical time: a replay gives the same ones.
func TestLocksAndSemaphoresOfAnEngineReplayByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		lock, semaphore := core.LockRef("", "", "merge"), core.SemaphoreRef("", "", "build")
		worked(t, st, func(e *shell.Engine) {
			acquire := func(holder string) uint64 {
				s, err := e.Send(t.Context(), lock, core.LockAcquire{Name: "merge", Holder: holder, TTLMS: 60_000})
				require.NoError(t, err)
				return s.(core.Lock).Token
			}
			first := acquire("ann")
			_, err := e.Send(t.Context(), lock, core.LockAcquire{Name: "merge", Holder: "bob"})
			require.ErrorContains(t, err, `lock "merge" is held by "ann" until`)
			_, err = e.Send(t.Context(), semaphore, core.SemaphoreAcquire{Name: "build", Holder: "ann", Slots: 2, Total: 3, TTLMS: 1000})
			require.NoError(t, err)
			<-time.After(2 * time.Hour)
			synctest.Wait()

			assert.Greater(t, acquire("bob"), first, "the lease has lapsed")
			s, err := e.Send(t.Context(), semaphore, core.SemaphoreConfigure{Name: "build", Slots: 5})
			require.NoError(t, err)
			assert.Empty(t, s.(core.Semaphore).Holders)
		})
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.Zero(t, rep.Untouched)
	})
}
