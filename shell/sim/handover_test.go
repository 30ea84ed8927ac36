package sim_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/shell/sim"
)

// handing gives the options of a run in which partitions are handed over: processes that are stopped are started again, and tools of some seconds run. A third has several partitions, which
// move although nobody is stopped.
func handing(seed uint64) sim.Options {
	o := sim.Options{Fleet: true, Instances: 3, Faults: 16}
	if seed%3 == 0 {
		o.Partitions = 4
	}
	return o
}

func TestPartitionsAreHandedOverWhileToolsRunAndTheGuaranteesHold(t *testing.T) {
	n := uint64(60)
	if checks, err := strconv.ParseUint(os.Getenv("RAPID_CHECKS"), 10, 64); err == nil {
		n = max(n, 4*checks) // as in a soak
	}
	if raced.Detector {
		n = 10
	}
	first, counts := seedtest.Seed(t), map[string]int{}
	for seed := first; seed < first+n; seed++ {
		rep, err := sim.Run(seed, handing(seed))
		require.NoError(t, err, "seed %d", seed)
		if rep.Failed() {
			small, err := sim.Shrink(rep, func() sim.Options { return handing(seed) }, 100)
			require.NoError(t, err)
			require.Fail(t, "a guarantee is broken", "%s\nall of it: %s\nrepeat: %s=%d go test ./shell/sim -run '^%s$'", small, rep, seedtest.Env, seed, t.Name())
		}
		for k, c := range rep.Counts {
			counts[k] += c
		}
	}
	t.Logf("%d seeds", n)
	if !raced.Detector {
		assert.Positive(t, counts[sim.CountHandedOver], "or the seeds do not reach that")
		assert.Positive(t, counts[sim.CountReported], "or the seeds do not reach that")
	}
}

func TestASeedOfAHandoverIsARunByteForByte(t *testing.T) {
	first := seedtest.Seed(t)
	for seed := first; seed < first+10; seed++ {
		was, err := sim.Run(seed, handing(seed))
		require.NoError(t, err)
		is, err := sim.Run(seed, handing(seed))
		require.NoError(t, err)
		require.Equal(t, was.Trace, is.Trace, "seed %d", seed)
	}
}

// An owner that had lost its store while a tool ran on went round and round, and virtual time stood still.
func TestAnOwnerThatLosesItsStoreWhileAToolRunsOnComesToRest(t *testing.T) {
	const seed = 70161594849148287
	rep, err := sim.Run(seed, handing(seed))
	require.NoError(t, err)
	require.False(t, rep.Failed(), "%s", rep)
}
