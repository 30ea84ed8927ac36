package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func adopting(s *core.JobSpec) { s.OrphanPolicy = core.OrphanAdopt }

func TestTheRunsOfARunnerThatHangsAreOrphanedAndTheirPodsDeleted(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		hanging := r.trigger(job("hanging"))
		r.fake.Start(r.created(hanging, 0))
		synctest.Wait()
		r.fake.Hang(true)
		o := r.ended(hanging)
		assert.Equal(t, core.OrchestratorOrphaned, o.State)
		assert.Contains(t, o.Error, "3 were missed")
		assert.Empty(t, r.fake.Attempts(), "its pod is deleted afterwards")
	})
}

func TestARunThatWaitsForItsTimeBeatsAlsoWhileARunnerHangs(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		hanging := r.trigger(job("hanging"))
		r.fake.Start(r.created(hanging, 0))
		_, err := r.e.Jobs().Apply(t.Context(), job("waiting", func(s *core.JobSpec) { s.Schedule, s.CreateAheadMS = "0 0 * * *", 3_600_000 }))
		require.NoError(t, err)
		pass(23*time.Hour + 30*time.Minute) // of the test's own clock: the day began at midnight
		r.fake.Hang(true)
		pass(time.Minute)
		runs, _, err := r.e.Runs().List(t.Context(), shell.JobRunFilter{Scope: &scope, Job: "waiting"}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		assert.Equal(t, core.OrchestratorPreRun, runs[0].State)
		assert.Equal(t, core.OrchestratorOrphaned, r.run(hanging.ID).State)
	})
}

// hang has the pod start and its runner hang for long enough that the run is orphaned.
func (r *rig) hang(a jobs.Attempt) {
	r.fake.Start(a)
	synctest.Wait()
	r.fake.Hang(true)
	pass(time.Minute)
}

func TestAnAdoptedPodIsWatchedToItsEnd(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", adopting))
		a := r.created(o, 0)
		r.hang(a)
		require.Equal(t, core.OrchestratorOrphaned, r.run(o.ID).State)
		r.fake.Hang(false)
		pass(20 * time.Minute) // the reconciliation leaves it alone
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())

		r.fake.Write(a, "done\n")
		r.fake.End(a, 5, "")
		end := r.ended(o)
		assert.Equal(t, core.OrchestratorOrphaned, end.State)
		require.NotNil(t, end.Pod.ExitCode, "%+v", end)
		assert.EqualValues(t, 5, *end.Pod.ExitCode)
		assert.True(t, end.Logs.Stored)
		assert.Empty(t, r.fake.Attempts())
	})
}

func TestAnAdoptedPodThatVanishesIsNoticed(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", adopting))
		a := r.created(o, 0)
		r.hang(a)
		r.fake.Hang(false)
		r.fake.Vanish(a)
		assert.Equal(t, core.OrchestratorOrphaned, r.ended(o).State)
	})
}

// The states in which a run waits for something outside, and how it comes there.
func TestARunGoesOnAfterARestartInEachState(t *testing.T) {
	stopHere := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	type reached struct {
		state core.OrchestratorStatus
		step  core.RunStep
	}
	for name, c := range map[string]struct {
		at    reached
		block func(*rig, *checker)
		drive func(*rig, jobs.Attempt)
	}{
		"before it is created": {
			at: reached{state: core.OrchestratorContainerCreating},
			block: func(r *rig, _ *checker) {
				r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { return stopHere(ctx) }
			},
		},
		"while constraints are checked": {
			at:    reached{state: core.OrchestratorConditionRunning},
			block: func(_ *rig, k *checker) { k.pre = stopHere },
		},
		"while an action is taken": {
			at:    reached{state: core.OrchestratorActionRunning},
			block: func(_ *rig, k *checker) { k.take = stopHere },
		},
		"while its pod is created": {
			at:    reached{state: core.OrchestratorContainerCreating},
			drive: func(*rig, jobs.Attempt) {},
		},
		"while its pod runs": {
			at:    reached{state: core.OrchestratorRunning},
			drive: func(r *rig, a jobs.Attempt) { r.fake.Start(a) },
		},
		"while its logs are fetched": {
			at: reached{core.OrchestratorTerminating, core.StepLogs},
			block: func(r *rig, _ *checker) {
				r.fake.OnLogs = func(ctx context.Context, _ jobs.Attempt) error { return stopHere(ctx) }
			},
			drive: func(r *rig, a jobs.Attempt) { r.fake.End(a, 0, "") },
		},
		"while its pod is deleted": {
			at: reached{core.OrchestratorTerminating, core.StepDeleting},
			block: func(r *rig, _ *checker) {
				r.fake.OnDelete = func(ctx context.Context, _ jobs.Attempt) error { return stopHere(ctx) }
			},
			drive: func(r *rig, a jobs.Attempt) { r.fake.End(a, 0, "") },
		},
		"while constraints are checked afterwards": {
			at:    reached{core.OrchestratorTerminating, core.StepChecking},
			block: func(_ *rig, k *checker) { k.post = stopHere },
			drive: func(r *rig, a jobs.Attempt) { r.fake.End(a, 0, "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var k *checker
			withRig(t, func(r *rig) {
				k = newChecker()
				r.o.Checker, r.o.Actions = k, k
				if c.block != nil {
					c.block(r, k)
				}
			}, func(t *testing.T, r *rig) {
				o := r.trigger(job("nightly", constrained))
				if c.drive != nil {
					c.drive(r, r.created(o, 0))
				}
				synctest.Wait()
				now := r.run(o.ID)
				require.Equal(t, c.at.state, now.State)
				require.Equal(t, c.at.step, now.Step)

				r.stop()
				k.pre, k.post, k.take = nil, nil, nil
				r.fake.OnCreate, r.fake.OnLogs, r.fake.OnDelete = nil, nil, nil
				r.fake.Script = runnertest.Succeeds
				for _, a := range r.fake.Attempts() { // what happens while nobody watches
					r.fake.End(a, 0, "")
				}
				r.start()

				end := r.ended(o)
				assert.Equal(t, core.OrchestratorCompleted, end.State, end.Error)
				assert.EqualValues(t, 0, end.RetryAttempt, "a restart is no failure")
				assert.Empty(t, r.fake.Attempts())
			})
		})
	}
}

func TestAPodThatVanishedWhileNobodyWatchedIsLost(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.stop()
		r.fake.Vanish(a)
		r.start()
		end := r.ended(o)
		assert.Equal(t, core.OrchestratorFailed, end.State)
		assert.Equal(t, "the pod is gone, and nobody saw it end", end.Error)
	})
}

func TestAPodThatIsDeletedByHandIsLostAtOnce(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(1)))
		r.fake.Lose(r.created(o, 0), "somebody deleted it")
		r.fake.End(r.created(o, 1), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}

func TestARunWhosePodIsNotKnownYetIsNotLost(t *testing.T) {
	withRig(t, func(r *rig) { r.o.ReconcileEvery = 20 * time.Second }, func(t *testing.T, r *rig) {
		goOn := make(chan struct{})
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error {
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		o := r.trigger(job("nightly"))
		pass(2 * time.Minute) // the creation was not answered
		assert.Equal(t, core.OrchestratorContainerCreating, r.run(o.ID).State)
		close(goOn)
		r.fake.End(r.created(o, 0), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}

func TestStraysAreDeletedAndNothingElse(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		ended := r.trigger(job("other"))
		r.fake.End(r.created(ended, 0), 0, "")
		r.ended(ended)
		r.fake.Plant(jobs.Attempt{Run: uuid.Max})              // of no run
		r.fake.Plant(jobs.Attempt{Run: o.ID, N: 1})            // of an attempt that has not begun
		r.fake.Plant(jobs.Attempt{Run: ended.ID})              // of a run that has ended
		r.stop()                                               // also at the start
		r.fake.Plant(jobs.Attempt{Run: uuid.UUID{1: 1}, N: 7}) // of another life
		r.start()
		pass(2 * time.Minute)
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
	})
}

func TestAnAttemptThatIsNotWantedAnyMoreIsNotCreated(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(1)))
		first := r.created(o, 0)
		r.fake.Start(first)
		r.fake.End(first, 1, "")
		r.created(o, 1)
		for _, n := range []uint32{0, 2} {
			_, err := r.s.Interpreters()[effects.LaneRun].Carry(t.Context(), effects.Ref{Kind: core.KindOrchestrator, ID: o.ID}, effects.CreateRun{Attempt: n})
			assert.True(t, shell.IsPermanent(err), "%v", err)
			assert.ErrorContains(t, err, "is not wanted any more")
		}
		assert.Equal(t, []jobs.Attempt{{Run: o.ID, N: 1}}, r.fake.Attempts())
		r.fake.Start(jobs.Attempt{Run: o.ID, N: 1})
		r.fake.End(jobs.Attempt{Run: o.ID, N: 1}, 0, "")
		r.ended(o)
		synctest.Wait()
		assert.Zero(t, jobs.LockedRuns(r.s), "nothing is kept of a run that has ended")
	})
}

func TestStraysThatCannotBeDeletedKeepNothingElseUp(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		r.fake.OnDelete = func(ctx context.Context, a jobs.Attempt) error {
			if a.N != 99 {
				return nil
			}
			<-ctx.Done() // a finalizer that nobody takes away
			return context.Cause(ctx)
		}
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		var others []jobs.Attempt
		for n := range 20 {
			r.fake.Plant(jobs.Attempt{Run: uuid.UUID{byte(n + 1)}, N: 99})
			others = append(others, jobs.Attempt{Run: uuid.UUID{byte(n + 1), 1}})
			r.fake.Plant(others[n])
		}
		pass(90 * time.Second)
		r.fake.Vanish(a)
		pass(3 * time.Minute)
		assert.Equal(t, core.OrchestratorFailed, r.run(o.ID).State, "its pod is gone")
		pass(20 * time.Minute)
		for _, other := range others {
			assert.NotContains(t, r.fake.Attempts(), other)
		}
	})
}

func TestARunWhoseRunnerIsGoneIsOrphanedAndItsPodLeftThere(t *testing.T) {
	other := &runnertest.Fake{}
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		r.stop()
		r.o.Runners = map[string]jobs.Runner{"other": other}
		r.start()
		end := r.ended(o)
		// Its job names no runner, so that it is looked for with the default one.
		assert.Equal(t, core.OrchestratorFailed, end.State)
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())
	})
}

func TestARunThatNamesARunnerThatIsGone(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly", on("fake")))
		r.stop()
		first := r.o.Runners
		r.o.Runners = map[string]jobs.Runner{"other": &runnertest.Fake{}}
		r.start()

		assert.Equal(t, core.OrchestratorOrphaned, r.ended(o).State)
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())

		made, err := r.e.Jobs().Trigger(t.Context(), scope, "nightly", shell.TriggerOptions{By: "test"})
		require.NoError(t, err)
		next, err := r.e.Runs().Wait(t.Context(), made.Run)
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorFailed, next.State)
		assert.Equal(t, `creating the pod: runner: "fake" is not configured: use one of other`, next.Error)

		r.stop()
		r.o.Runners = first
		r.start()
		require.NoError(t, r.fake.Gone(t.Context(), a), "its run still wants it deleted")
		synctest.Wait()
		assert.False(t, r.run(o.ID).InCluster)
	})
}

func TestALockThatWasTakenForARunThatHadGoneIsReleased(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		r.fake.Script = runnertest.Succeeds
		ended := r.ended(r.trigger(job("nightly")))
		r.fake.Script = nil
		running := r.trigger(job("other"))
		r.fake.Start(r.created(running, 0))
		for name, holder := range map[string]string{
			"of-ended": "run:" + ended.ID.String(), "of-none": "run:" + uuid.Max.String(),
			"of-running": "run:" + running.ID.String(), "of-somebody": "ann",
		} {
			r.lock(name, holder)
		}
		pass(2 * time.Minute)
		assert.ElementsMatch(t, []string{"of-running", "of-somebody"}, r.locked())
	})
}

func TestARunnerMayObserveFarMoreThanIsKeptAtATime(t *testing.T) {
	withRig(t, func(r *rig) { r.room = 4 }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		for n := range 50 {
			r.fake.Explain(a, "Waiting", fmt.Sprint("for ", n))
		}
		r.fake.End(a, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}
