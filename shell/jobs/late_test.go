package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// A process was frozen before its call, after the commit that says to make it.
func TestNoPodIsCreatedWhileAnotherProcessMayHaveTheDatabase(t *testing.T) {
	for at, unsure := range map[string]int64{"as the effect begins": 1, "as it has the lock of its run": 2, "as the runner is about to make the call": 3} {
		t.Run(at, func(t *testing.T) {
			var asked atomic.Int64
			withRig(t, func(r *rig) {
				r.holds = func() bool { return asked.Add(1) != unsure }
				r.fake.OnCreate = func(_ context.Context, run jobs.Run) error { return run.Confirm() }
			}, func(t *testing.T, r *rig) {
				o := r.trigger(job("nightly", retries(0)))
				synctest.Wait()
				require.Equal(t, unsure, asked.Load())
				require.Zero(t, r.fake.Creates(jobs.Attempt{Run: o.ID}), "another process may have carried out its run by now")
				require.Equal(t, core.OrchestratorContainerCreating, r.run(o.ID).State, "the attempt is not used up")
				pass(10 * time.Second)
				assert.Equal(t, 1, r.fake.Creates(jobs.Attempt{Run: o.ID}))
				assert.Equal(t, unsure+3, asked.Load(), "it begins anew")
			})
		})
	}
}

func TestNoPodThatHasWaitedForRoomIsCreatedWhileAnotherProcessMayHaveTheDatabase(t *testing.T) {
	var lost atomic.Bool
	withRig(t, func(r *rig) {
		roomFor(1, 0)(r)
		r.holds = func() bool { return !lost.Load() }
	}, func(t *testing.T, r *rig) {
		_, first := r.started(job("first"))
		next := r.trigger(job("next"))
		synctest.Wait()
		lost.Store(true)
		r.fake.End(first, 0, "")
		lost.Store(true)
		pass(5 * time.Second)
		require.Zero(t, r.fake.Creates(jobs.Attempt{Run: next.ID}))
		lost.Store(false)
		pass(time.Minute)
		assert.Equal(t, 1, r.fake.Creates(jobs.Attempt{Run: next.ID}))
	})
}
