package jobs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestARunIsCreatedWatchedAndCleanedUp(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		assert.Equal(t, core.OrchestratorContainerCreating, r.run(o.ID).State)
		assert.Equal(t, a.Name(), r.run(o.ID).Pod.Name)

		require.True(t, r.fake.Start(a))
		synctest.Wait()
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)

		r.fake.Write(a, "hello\n")
		require.True(t, r.fake.End(a, 0, ""))
		end := r.ended(o)

		assert.Equal(t, core.OrchestratorCompleted, end.State, end.Error)
		assert.EqualValues(t, 0, *end.Pod.ExitCode)
		assert.Equal(t, core.RunLogs{Stored: true, Bytes: 6}, end.Logs)
		assert.EqualValues(t, 3, end.Metrics.KubernetesAPICalls, "create, logs, delete")
		assert.Empty(t, r.fake.Attempts())
		text, err := r.logs.Log(t.Context(), o.ID, 0)
		require.NoError(t, err)
		assert.Equal(t, "hello\n", string(text))
	})
}

func TestARunnerIsToldAllOfAnAttempt(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", func(s *core.JobSpec) { s.Labels = map[string]string{"team": "data"} }))
		made, err := r.fake.Created(t.Context(), o.RunID, 0)
		require.NoError(t, err)
		require.NoError(t, made.Confirm())
		made.Confirm = nil
		assert.Equal(t, jobs.Run{
			Attempt: jobs.Attempt{Run: o.ID}, RunID: o.RunID, JobID: "nightly", Namespace: "default", Tenant: "default",
			ScheduledAt: o.ScheduledAt, Occurrence: o.Occurrence, Spec: o.Config,
		}, made)
		assert.NotZero(t, made.Occurrence)
		assert.Equal(t, "data", made.Spec.Labels["team"])
		assert.JSONEq(t, string(job("nightly").PodSpec), string(made.Spec.PodSpec))
	})
}

func TestAFailedRunIsTriedAgainUnderAnotherName(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = func(a jobs.Run) runnertest.Script {
			return runnertest.Script{Output: "attempt\n", Ends: true, Exit: 3 * (1 - int32(a.N))}
		}
		o := r.ended(r.trigger(job("nightly", retries(1))))
		assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
		assert.EqualValues(t, 1, o.RetryAttempt)
		for n := range uint32(2) {
			a := jobs.Attempt{Run: o.ID, N: n}
			assert.Equal(t, 1, r.fake.Creates(a))
			text, err := r.logs.Log(t.Context(), o.ID, n)
			require.NoError(t, err)
			assert.Equal(t, "attempt\n", string(text))
		}
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestARefusedCreationFailsTheRunForGoodWhereItIsPermanent(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		state core.OrchestratorStatus
		tries uint32
	}{
		"permanent": {permanent{errCluster}, core.OrchestratorFailed, 0},
		"transient": {errCluster, core.OrchestratorCompleted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, nil, func(t *testing.T, r *rig) {
				r.fake.Script = runnertest.Succeeds
				r.fake.OnCreate = func(_ context.Context, run jobs.Run) error {
					if run.N == 0 {
						return c.err
					}
					return nil
				}
				o := r.ended(r.trigger(job("nightly", retries(3))))
				assert.Equal(t, c.state, o.State, o.Error)
				assert.Equal(t, c.tries, o.RetryAttempt)
				assert.Empty(t, r.fake.Attempts())
				if c.state == core.OrchestratorFailed {
					assert.Equal(t, "creating the pod: the cluster says no", o.Error)
					assert.EqualValues(t, 2, o.Metrics.KubernetesAPICalls, "a call that failed counts too")
				}
			})
		})
	}
}

func TestTheCallsOfACreationThatItsPodHasOvertakenAreCounted(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		goOn := make(chan struct{})
		r.fake.OnCreate = func(context.Context, jobs.Run) error {
			<-goOn
			return errCluster // its answer was lost: it is there nevertheless
		}
		o := r.trigger(job("nightly"))
		synctest.Wait()
		a := jobs.Attempt{Run: o.ID}
		r.fake.Plant(a)
		require.True(t, r.fake.Start(a))
		synctest.Wait()
		require.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		close(goOn)
		synctest.Wait()
		running := r.run(o.ID)
		assert.Equal(t, core.OrchestratorRunning, running.State, "%s", running.Error)
		assert.EqualValues(t, 1, running.Metrics.KubernetesAPICalls)
		r.fake.End(a, 0, "")
		assert.EqualValues(t, 3, r.ended(o).Metrics.KubernetesAPICalls, "creation, logs, deletion")
	})
}

// After a crash a creation may wait for its turn while the pod that it has made runs,
// and is gone again when the turn comes.
func TestAPodThatWasSeenRunningIsNotCreatedAgain(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		answer, err := r.s.Interpreters()[effects.LaneRun].Carry(t.Context(), effects.Ref{Kind: core.KindOrchestrator, ID: o.ID}, effects.CreateRun{N: 9})
		require.NoError(t, err)
		assert.JSONEq(t, `{"api_calls":0}`, string(answer))
		assert.Equal(t, 1, r.fake.Creates(a))
		r.fake.End(a, 0, "")
		r.ended(o)
	})
}

func TestADeletionWaitsForACreationThatIsStillGoingOn(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		r.fake.OnCreate = func(context.Context, jobs.Run) error {
			close(begun)
			<-goOn // whatever becomes of the context: the request is with the cluster
			return nil
		}
		deleted := make(chan struct{})
		r.fake.OnDelete = func(context.Context, jobs.Attempt) error {
			close(deleted)
			return nil
		}
		o := r.trigger(job("nightly"))
		<-begun
		_, err := r.e.Runs().Send(t.Context(), o.ID, core.OrchestratorCancel{Reason: "test"})
		require.NoError(t, err)
		synctest.Wait()
		select {
		case <-deleted:
			t.Fatal("deleted while it was being created")
		default:
		}
		assert.False(t, r.run(o.ID).State.Terminal())
		close(goOn)
		assert.Equal(t, core.OrchestratorCancelled, r.ended(o).State)
		<-deleted
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestADeletionIsTriedAgain(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		failures := 2
		r.fake.OnDelete = func(context.Context, jobs.Attempt) error {
			if failures--; failures >= 0 {
				return errCluster
			}
			return nil
		}
		r.fake.Script = runnertest.Succeeds
		o := r.ended(r.trigger(job("nightly")))
		assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
		assert.Equal(t, core.RunCleanup{FailedSince: o.Cleanup.FailedSince, Failures: 1, Error: errCluster.Error(), RetryAt: o.Cleanup.RetryAt}, o.Cleanup,
			"the pod has ended: its run does not wait for the deletion")
		assert.Len(t, r.fake.Attempts(), 1)
		pass(4 * time.Second) // after 1 and 3 seconds
		assert.Empty(t, r.fake.Attempts())
		assert.False(t, r.run(o.ID).InCluster)
	})
}

func TestARunThatIsCancelledWhileItsDeletionIsSlowEndsOnceItIsGone(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.OnDelete = func(ctx context.Context, _ jobs.Attempt) error {
			timer := time.NewTimer(5 * time.Minute)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		began := time.Now()
		_, err := r.e.Runs().Send(t.Context(), o.ID, core.OrchestratorCancel{Reason: "test"})
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorCancelled, r.ended(o).State)
		assert.Equal(t, 5*time.Minute, time.Since(began))
	})
}
