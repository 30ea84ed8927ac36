package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func roomFor(n int, share float64) func(*rig) {
	return func(r *rig) { r.o.MaxPods, r.o.PodShare = map[string]int{"fake": n}, share }
}

// jobsOf triggers runs of n jobs of a tenant, one after the other.
func (r *rig) jobsOf(tenant string, n int, change ...func(*core.JobSpec)) (runs []core.Orchestrator) {
	r.t.Helper()
	for i := range n {
		spec := job(fmt.Sprintf("%s-%d", tenant, i), append(change, func(s *core.JobSpec) { s.Tenant = tenant })...)
		_, err := r.e.Jobs().Apply(r.t.Context(), spec)
		require.NoError(r.t, err)
		made, err := r.e.Jobs().Trigger(r.t.Context(), shell.Scope{Namespace: "default", Tenant: tenant}, spec.ID, shell.TriggerOptions{By: "test"})
		require.NoError(r.t, err)
		pass(time.Millisecond)
		synctest.Wait()
		runs = append(runs, r.run(made.Run))
	}
	return runs
}

// pods counts what lives and what waits.
func (r *rig) pods() jobs.Pods {
	synctest.Wait()
	return r.s.Pods()["fake"]
}

// living gives those of the runs whose pods were created.
func (r *rig) living(runs []core.Orchestrator) (n int) {
	for _, o := range runs {
		n += r.fake.Creates(jobs.Attempt{Run: o.ID})
	}
	return n
}

func TestWhatIsBeyondTheRoomOfARunnerWaitsAndIsNotFailedForIt(t *testing.T) {
	withRig(t, roomFor(2, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 4, retries(0))
		assert.Equal(t, jobs.Pods{Max: 2, Living: 2, Waiting: 2}, r.pods())
		for _, o := range runs[:2] {
			r.fake.Start(jobs.Attempt{Run: o.ID})
		}
		pass(time.Hour) // longer than any pod may take to start
		for _, o := range runs[2:] {
			now := r.run(o.ID)
			require.Equal(t, core.OrchestratorContainerCreating, now.State, now.Error)
			assert.True(t, now.Pod.Queued)
			assert.Equal(t, "Queued", now.Pod.Reason)
			assert.Equal(t, `runner "fake" has room for 2 pods at a time`, now.Pod.Message)
		}
		assert.Equal(t, 2, r.living(runs))
		r.fake.End(jobs.Attempt{Run: runs[0].ID}, 0, "")
		r.fake.Start(r.created(runs[2], 0))
		synctest.Wait()
		next := r.run(runs[2].ID)
		assert.Equal(t, core.OrchestratorRunning, next.State)
		assert.False(t, next.Pod.Queued)
		assert.Equal(t, jobs.Pods{Max: 2, Living: 2, Waiting: 1}, r.pods(), "in the order in which they came")
		pass(time.Hour)
		r.fake.End(jobs.Attempt{Run: runs[1].ID}, 0, "")
		a := r.created(runs[3], 0)
		pass(6 * time.Minute)
		assert.Contains(t, r.ended(runs[3]).Error, "the pod did not start within 5m0s", "from when there was room")
		require.NoError(t, r.fake.Gone(t.Context(), a))
		r.fake.End(jobs.Attempt{Run: runs[2].ID}, 0, "")
		for _, o := range runs[:3] {
			assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		}
		assert.Equal(t, jobs.Pods{Max: 2}, r.pods())
	})
}

func TestOneTenantDoesNotHoldAllTheRoomOfARunner(t *testing.T) {
	withRig(t, roomFor(4, 0.75), func(t *testing.T, r *rig) {
		many := r.jobsOf("a", 8)
		assert.Equal(t, jobs.Pods{Max: 4, Living: 3, Waiting: 5}, r.pods())
		assert.Contains(t, r.run(many[7].ID).Pod.Message, "has room for 4 pods at a time, and for 3 of one tenant at most")
		few := r.jobsOf("b", 2)
		assert.Equal(t, 1, r.living(few), "the last place is free for who has none")
		end := func(o core.Orchestrator) {
			r.fake.Start(jobs.Attempt{Run: o.ID})
			r.fake.End(jobs.Attempt{Run: o.ID}, 0, "")
			r.ended(o)
			synctest.Wait()
		}
		end(many[0])
		assert.Equal(t, []int{3, 1}, []int{r.living(many), r.living(few)}, "the last place still is")
		end(many[1])
		end(many[2])
		assert.Equal(t, []int{4, 2}, []int{r.living(many), r.living(few)}, "of those with one each, both have their turn")
	})
}

func TestPlacesGoToTenantsByTheirWeights(t *testing.T) {
	withRig(t, func(r *rig) {
		roomFor(4, 0)(r)
		r.o.PodWeights = map[shell.Scope]int{{Namespace: "default", Tenant: "b"}: 3}
	}, func(t *testing.T, r *rig) {
		first := r.jobsOf("z", 4)
		a, b := r.jobsOf("a", 8), r.jobsOf("b", 8)
		for _, o := range first {
			r.fake.Start(jobs.Attempt{Run: o.ID})
			r.fake.End(jobs.Attempt{Run: o.ID}, 0, "")
			r.ended(o)
		}
		synctest.Wait()
		assert.Equal(t, []int{1, 3}, []int{r.living(a), r.living(b)})
	})
}

func TestARunThatWaitsForRoomCanBeCancelled(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 3)
		_, err := r.e.Runs().Send(t.Context(), runs[1].ID, core.OrchestratorCancel{Reason: "not wanted"})
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorCancelled, r.ended(runs[1]).State)
		assert.Equal(t, jobs.Pods{Max: 1, Living: 1, Waiting: 1}, r.pods())
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		r.fake.End(r.created(runs[2], 0), 0, "")
		r.ended(runs[2])
		assert.Zero(t, r.fake.Creates(jobs.Attempt{Run: runs[1].ID}), "it never was")
	})
}

func TestAfterARestartWhatLivesCountsAndWhatWaitsGoesOn(t *testing.T) {
	for name, room := range map[string]int{"the same room": 2, "less room": 1} {
		t.Run(name, func(t *testing.T) {
			withRig(t, roomFor(2, 0), func(t *testing.T, r *rig) {
				runs := r.jobsOf("a", 5)
				for _, o := range runs[:2] {
					r.fake.Start(jobs.Attempt{Run: o.ID})
				}
				synctest.Wait()
				r.stop()
				roomFor(room, 0)(r)
				r.start()
				pass(time.Hour)
				assert.Equal(t, jobs.Pods{Max: room, Living: 2, Waiting: 3}, r.pods())
				assert.Equal(t, 2, r.living(runs))
				r.fake.End(jobs.Attempt{Run: runs[0].ID}, 0, "")
				r.fake.End(jobs.Attempt{Run: runs[1].ID}, 0, "")
				for _, o := range runs[2:] {
					a := r.created(o, 0)
					assert.LessOrEqual(t, r.pods().Living, room)
					r.fake.Start(a)
					r.fake.End(a, 0, "")
				}
				for _, o := range runs {
					assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
				}
			})
		})
	}
}

func TestWhatEndedWhileNobodyWatchedHoldsNoRoom(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2)
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		synctest.Wait()
		r.stop()
		r.fake.End(a, 0, "")
		r.start()
		r.fake.End(r.created(runs[1], 0), 0, "")
		r.ended(runs[1])
	})
}

func TestWhatWaitedForRoomBeginsOnceThereIsNoBound(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 3)
		r.stop()
		r.o.MaxPods = nil
		r.fake.Script = runnertest.Succeeds
		r.start()
		for _, o := range runs[1:] {
			assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		}
		assert.Empty(t, r.s.Pods())
	})
}

// The pod is there, and its run has not heard of that.
func TestACreationThatWasCutOffByARestartIsMadeOnce(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2)
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		second := r.created(runs[1], 0)
		r.restart()
		synctest.Wait()
		assert.Equal(t, jobs.Pods{Max: 1, Living: 1}, r.pods())
		r.fake.End(second, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(runs[1]).State)
	})
}

// The daemon was killed within the creation, which is asked for again; what lives becomes known, and this pod with it, while the run is being
// told that it waits until then.
func TestACreationThatWasCutOffIsMadeAlsoIfWhatLivesBecomesKnownAsItBeginsToWait(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		synctest.Wait()
		require.True(t, r.s.Known("fake"), "else it would wait now, too")
		r.fake.OnCreate = func(context.Context, jobs.Run) error {
			r.dead.gone.Store(true) // what it answers is not stored any more
			return nil
		}
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.kill()

		r.fake.OnCreate = nil
		listed, told := make(chan struct{}), make(chan struct{})
		r.fake.OnHeld = func(context.Context) error { <-listed; return nil }
		r.first = func() {
			if now := r.past(o.ID); now.Pending.Last > 1 && !now.Pod.Queued {
				<-told
			}
		}
		r.start()
		pass(10 * time.Second) // the former instance counts as gone by then
		synctest.Wait()
		require.EqualValues(t, 2, r.past(o.ID).Pending.Last, "the pod is asked for once more")
		require.False(t, r.s.Known("fake"))
		close(listed)
		synctest.Wait()
		require.True(t, r.s.Known("fake"))
		close(told)
		synctest.Wait()
		now := r.run(o.ID)
		assert.NotZero(t, now.RoomAt, "it was told that it waits")
		assert.False(t, now.Pod.Queued)
		assert.Empty(t, now.Pending.Open)
		assert.Equal(t, 2, r.fake.Creates(a), "it was asked for by the second one, too")
		assert.Equal(t, jobs.Pods{Max: 1, Living: 1}, r.pods())
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		assert.Equal(t, jobs.Pods{Max: 1}, r.pods(), "its place is free")
	})
}

func TestWhoWaitsSinceWhatLivesIsNotKnownIsToldSo(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		r.stop()
		listed := make(chan struct{})
		r.fake.OnHeld = func(context.Context) error { <-listed; return nil }
		r.start()
		o := r.trigger(job("nightly"))
		synctest.Wait()
		assert.Equal(t, `runner "fake" has just been started, and what pods it has is not known yet`, r.run(o.ID).Pod.Message)
		close(listed)
		r.fake.Start(r.created(o, 0))
		r.fake.End(r.created(o, 0), 0, "")
		r.ended(o)
	})
}

func TestACreationThatFailsAfterItsWaitFailsTheAttempt(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2)
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			return errCluster
		}
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		o := r.ended(runs[1])
		assert.Equal(t, core.OrchestratorFailed, o.State)
		assert.Equal(t, "creating the pod: it takes too long: the cluster says no", o.Error)
		assert.Equal(t, jobs.Pods{Max: 1}, r.pods(), "its place is free again")
	})
}

func TestTheRoomOfARunnerIsChecked(t *testing.T) {
	runners := map[string]jobs.Runner{"fake": &runnertest.Fake{}}
	for want, o := range map[string]jobs.Options{
		`MaxPods["other"] is 1: it must not be negative, and name one of the runners fake`: {MaxPods: map[string]int{"other": 1}},
		`MaxPods["fake"] is -1`:                             {MaxPods: map[string]int{"fake": -1}},
		`PodShare is 1.5: it must be above 0 and at most 1`: {PodShare: 1.5},
	} {
		o.Runners = runners
		_, err := jobs.New(o)
		require.ErrorContains(t, err, want)
	}
}

// The cluster is away when there is room: that is told, and is no pod that could be lost.
func TestWhatCouldNotBeAskedForAfterItsWaitIsNotLostAndIsAskedForAfterAKill(t *testing.T) {
	withRig(t, func(r *rig) { roomFor(1, 0)(r); everyMinute(r) }, func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2, retries(0))
		a, waits := jobs.Attempt{Run: runs[0].ID}, jobs.Attempt{Run: runs[1].ID}
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { <-ctx.Done(); return ctx.Err() }
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		synctest.Wait()
		_, err := r.e.Runs().Send(t.Context(), waits.Run, core.PodCreated{Pod: core.Pod{Reason: core.PodCreateRetried, Message: "refused"}})
		require.NoError(t, err)
		pass(4 * time.Minute)
		now := r.run(waits.Run)
		require.Equal(t, core.OrchestratorContainerCreating, now.State, now.Error)
		assert.Equal(t, "refused", now.Pod.Message)
		assert.True(t, now.Pod.Queued)
		r.kill()
		r.fake.OnCreate = nil
		r.start()
		r.fake.End(r.created(runs[1], 0), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(runs[1]).State)
	})
}

func TestAfterItsWaitACreationHasAsLongAsOneThatHasNotWaited(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2, retries(0), func(s *core.JobSpec) { s.PodStartTimeoutMS = 10_000 })
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error {
			select {
			case <-time.After(4 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		second := r.created(runs[1], 0)
		r.fake.Start(second)
		r.fake.End(second, 0, "")
		end := r.ended(runs[1])
		assert.Equal(t, core.OrchestratorCompleted, end.State, end.Error)
	})
}

func TestACreationThatIsRefusedForGoodAfterItsWaitIsNotTriedAgain(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2, retries(3))
		r.fake.OnCreate = func(context.Context, jobs.Run) error { return permanent{errCluster} }
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		end := r.ended(runs[1])
		assert.Equal(t, "creating the pod: the cluster says no", end.Error)
		assert.Zero(t, end.RetryAttempt)
		assert.Equal(t, jobs.Pods{Max: 1}, r.pods(), "its place is free again")
	})
}

func TestAnAttemptWhoseRunCannotBeReadInItsTurnHasAnotherOne(t *testing.T) {
	st := &breakable{}
	withRig(t, func(r *rig) { roomFor(1, 0)(r); st.Store, r.store = r.store, st }, func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2)
		st.id.Store(&runs[1].ID)
		a := jobs.Attempt{Run: runs[0].ID}
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		pass(10 * time.Second)
		assert.Contains(t, r.log.String(), "could not read a run that has waited for room; trying again")
		st.id.Store(nil)
		r.fake.End(r.created(runs[1], 0), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(runs[1]).State)
	})
}
