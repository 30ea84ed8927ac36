package sim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/shell/sim"
)

// losing draws options of runs in which commits are lost often: of one process after another, of a fleet, and of one of several partitions.
func losing(seed uint64) sim.Options {
	o := sim.Options{Losses: true, Faults: 24, Fleet: seed%3 > 0}
	if seed%3 == 2 {
		o.Partitions = 1 + int(seed/3%3)
	}
	return o
}

func TestAPartitionThatLosesCommitsIsStoppedAndGoesOnOnceThatIsAccepted(t *testing.T) {
	first, n := seedtest.Seed(t), uint64(60)
	if raced.Detector {
		n = 9
	}
	counts := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		rep, err := sim.Run(seed, losing(seed))
		require.NoError(t, err, "seed %d", seed)
		require.False(t, rep.Failed(), "%s", rep)
		for k, c := range rep.Counts {
			counts[k] += c
		}
	}
	if raced.Detector {
		return // they are too few to reach all
	}
	for _, k := range []string{sim.CountLost, sim.CountStopped, sim.CountAccepted} {
		assert.Positive(t, counts[k], "or the seeds do not reach: %s", k)
	}
	t.Log(counts)
}
