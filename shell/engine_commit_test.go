package shell_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// On one processor, whose turns are the scheduler's alone. It is the last one that
// the scheduler lets run who asks first: with a commit for him alone, the others
// would wait for the one after it.
func TestThoseWhoAreAnsweredTogetherAndAskAgainShareTheNextCommit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), TickRate: time.Hour})
		const callers, times = 4, 100
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range times {
					_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, callers*times, s.Inputs)
		assert.Less(t, s.Batches, uint64(times*3/2), "and not twice as many: one for the first of them, one for the rest")
	})
}
