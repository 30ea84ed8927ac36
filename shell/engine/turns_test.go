package engine_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store/memory"
)

// Five requests of one actor take 40 ms each to decide. One of another actor, who comes
// when the first is under way, waits for that one and for two more, and not for all.
func TestWhoAsksForLittleIsNotKeptWaitingByWhoAsksForMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, many = 40 * time.Millisecond, 5
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		synctest.Wait()
		start := time.Now()
		var wg sync.WaitGroup
		last := make(chan time.Duration, many)
		for range many {
			wg.Go(func() {
				r := acquire("bully")
				r.Inputs[0].Actor = "bully"
				r.If = func(core.State) error { <-time.After(long); return nil }
				_, _ = e.Ask(t.Context(), r)
				last <- time.Since(start)
			})
		}
		synctest.Wait() // the loop decides on the first, the others wait

		r := acquire("ann")
		r.Inputs[0].Actor = "ann"
		_, err := e.Ask(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, 3*long, time.Since(start))

		wg.Wait()
		close(last)
		var ends []time.Duration
		for d := range last {
			ends = append(ends, d)
		}
		assert.Equal(t, []time.Duration{long, 2 * long, 3 * long, 4 * long, 5 * long}, ends, "each is answered once it is committed")
	})
}
