package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// A process was frozen within its call; meanwhile another one has carried out what it was about.
func TestAPodWhoseCreationComesAfterItsRunHasEndedIsDeletedAsSoonAsItIsSeen(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.cancel(o)
		pass(time.Second)
		require.Equal(t, core.OrchestratorCancelled, r.run(o.ID).State)
		require.Empty(t, r.fake.Attempts())
		_, err := r.fake.Create(t.Context(), jobs.Run{Attempt: a})
		require.NoError(t, err)
		pass(time.Second) // they are compared every five minutes else
		assert.Empty(t, r.fake.Attempts())
		assert.Contains(t, r.log.String(), "a pod belongs to no run: deleting it")
		assert.Equal(t, core.OrchestratorCancelled, r.run(o.ID).State)
	})
}

func TestAPodWhoseCreationComesAfterTheNextAttemptHasBegunIsDeletedAndThatOneIsNot(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, first := r.started(job("nightly", retries(1)))
		r.fake.End(first, 1, "")
		second := r.created(o, 1)
		r.fake.Start(second)
		pass(time.Second)
		_, err := r.fake.Create(t.Context(), jobs.Run{Attempt: first})
		require.NoError(t, err)
		r.fake.Start(first)
		pass(time.Second)
		assert.Equal(t, []jobs.Attempt{second}, r.fake.Attempts())
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
	})
}

// What such a process has read is what was true before: the pod may be the next attempt's of its run.
func TestAProcessThatHasLostItsDatabaseDeletesNoPod(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		next := jobs.Attempt{Run: o.ID, N: a.N + 1}
		r.dead.gone.Store(true)
		r.fake.Plant(next)
		pass(3 * time.Minute)
		assert.Contains(t, r.fake.Attempts(), next)
		assert.Contains(t, r.log.String(), "it is not certain that the database is still this process's: leaving the pod alone")
	})
}
