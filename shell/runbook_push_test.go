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

func pushPhase(wait bool) core.PhaseDef {
	return core.PhaseDef{Name: "push", Push: &core.PushPhase{Queue: "work", DedupKey: "d", Wait: wait}}
}

// What a queue refuses is not lost without a word. An item that is there already
// is as good as one that is pushed, but nobody can wait for another one's.
func TestAPushIntoAQueueThatHoldsItsDedupKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Minute})
		push(t, e, shell.PushOptions{DedupKey: "d"})
		goesOn, waits := begin(t, e, pushPhase(false)), begin(t, e, pushPhase(true))
		elapse(time.Minute)
		assert.Equal(t, core.PhaseDone, state(t, e, goesOn.ID).Phase.Type)
		got := state(t, e, waits.ID).Phase
		assert.Equal(t, core.PhaseFailure, got.Type)
		assert.Contains(t, got.Error, `dedup_key: "d" is held`)
		assert.Len(t, take(t, e, shell.TakeOptions{Max: 5}), 1)
	})
}

// An item that nobody waits for any more goes, unless a worker has it in hand.
func TestTheItemOfAPipelineThatIsCancelledGoesUnlessItWasTaken(t *testing.T) {
	for name, taken := range map[string]bool{"it waits": false, "a worker has it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Minute})
				p := begin(t, e, pushPhase(true))
				synctest.Wait()
				q, err := e.Queues().Get(bg(), "ns", "t", "work")
				require.NoError(t, err)
				require.EqualValues(t, 1, q.Ready)
				if taken {
					require.Len(t, take(t, e, shell.TakeOptions{}), 1)
				}
				_, err = e.Pipelines().Send(bg(), p.ID, core.PipelineCancel{})
				require.NoError(t, err)
				q, err = e.Queues().Get(bg(), "ns", "t", "work")
				require.NoError(t, err)
				want := map[bool]uint64{false: 0, true: 1}[taken]
				assert.Equal(t, want, q.Held())
				assert.Equal(t, 1-want, q.Cancelled)
				assert.Equal(t, core.PhaseCancelled, state(t, e, p.ID).Phase.Type)
			})
		})
	}
}
