package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

// keeper leaves all that it was to delete until a time.
type keeper struct {
	*runnertest.Fake
	until time.Time
}

func (k *keeper) Keeps(jobs.Attempt) time.Time { return k.until }

func (k *keeper) Delete(ctx context.Context, a jobs.Attempt) (int, error) {
	if time.Now().Before(k.until) {
		return 0, nil
	}
	return k.Fake.Delete(ctx, a)
}

// The pod of the first attempt is kept; that of the second one is lost, and nobody is told.
func TestAnAttemptThatIsKeptDoesNotBeatForTheNextOne(t *testing.T) {
	k := &keeper{}
	withRig(t, func(r *rig) {
		k.Fake, k.until = r.fake, time.Now().Add(24*time.Hour)
		r.o.Runners = map[string]jobs.Runner{"fake": k}
		r.o.MaxPods = map[string]int{"fake": 2}
	}, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly", retries(1)))
		other, _ := r.started(job("other"))
		third := r.trigger(job("third"))
		pass(time.Minute)
		r.fake.End(a, 5, "")
		r.created(third, 0)
		pass(10 * time.Second)
		second := jobs.Attempt{Run: o.ID, N: 1}
		require.True(t, r.run(o.ID).Pod.Queued)
		jobs.LoseTurn(r.s, "fake", second)
		pass(time.Minute)
		assert.Equal(t, core.OrchestratorOrphaned, r.run(o.ID).State)
		assert.Equal(t, core.OrchestratorRunning, r.run(other.ID).State)
	})
}

func TestWhatARunnerKeepsIsNoStrayUntilItsTimeIsOver(t *testing.T) {
	k := &keeper{}
	withRig(t, func(r *rig) {
		everyMinute(r)
		k.Fake, k.until = r.fake, time.Now().Add(time.Hour)
		r.o.Runners = map[string]jobs.Runner{"fake": k}
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Ends: true, Exit: 5} }
	}, func(t *testing.T, r *rig) {
		o := r.ended(r.trigger(job("nightly", retries(1))))
		assert.Equal(t, core.OrchestratorFailed, o.State, "it does not wait for what is kept")
		assert.Len(t, r.fake.Attempts(), 2)
		pass(30 * time.Minute)
		r.restart()
		pass(20 * time.Minute)
		assert.Len(t, r.fake.Attempts(), 2, "both stay, also over a restart")
		for n := range uint32(2) {
			assert.Equal(t, 1, r.fake.Creates(jobs.Attempt{Run: o.ID, N: n}), "an attempt has one pod")
		}
		pass(12 * time.Minute)
		assert.Empty(t, r.fake.Attempts())
		assert.NotContains(t, r.log.String(), "belongs to no run")
		assert.Contains(t, r.log.String(), "the time of a pod that was kept is over")
	})
}
