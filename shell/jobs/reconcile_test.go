package jobs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store"
)

// A cluster that does not answer has not lost its pods, at the first look nor at the
// second one.
func TestARunnerThatCannotSayWhatItHoldsHasLostNothing(t *testing.T) {
	for name, fails := range map[string]func(look int32) bool{
		"never":            func(int32) bool { return true },
		"at first":         func(look int32) bool { return look%2 == 1 },
		"at a second look": func(look int32) bool { return look%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			var looks atomic.Int32
			var broken atomic.Bool
			withRig(t, func(r *rig) {
				everyMinute(r)
				r.fake.OnHeld = func(context.Context) error {
					if broken.Load() && fails(looks.Add(1)) {
						return errCluster
					}
					return nil
				}
			}, func(t *testing.T, r *rig) {
				o, a := r.started(job("nightly"))
				broken.Store(true)
				pass(10 * time.Minute)
				assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
				assert.Contains(t, r.log.String(), "could not compare the cluster with the store")
				assert.Contains(t, r.log.String(), errCluster.Error())
				broken.Store(false)
				r.fake.Vanish(a)
				assert.Equal(t, "the pod is gone, and nobody saw it end", r.ended(o).Error, "then it is noticed")
			})
		})
	}
}

func TestWhatIsMissingForAMomentAloneIsNotLost(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		pass(55 * time.Second)
		r.fake.Vanish(a)
		pass(10 * time.Second) // the first look comes, and the second one is 10 s later
		r.fake.Plant(a)
		pass(20 * time.Second)
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		pass(30 * time.Second)
		r.fake.Vanish(a)
		pass(time.Minute)
		assert.Equal(t, core.OrchestratorFailed, r.run(o.ID).State, "missing at two looks")
	})
}

// Two runners may have a pod under one name: that of the run's own runner counts.
func TestARunOfAnotherRunnerIsNotLostByThisOne(t *testing.T) {
	other := &runnertest.Fake{}
	withRig(t, func(r *rig) {
		everyMinute(r)
		r.o.Runners = map[string]jobs.Runner{"fake": r.fake, "other": other}
	}, func(t *testing.T, r *rig) {
		one, two := r.trigger(job("one", on("fake"))), r.trigger(job("two", on("other")))
		r.fake.Start(r.created(one, 0))
		made, err := other.Created(t.Context(), two.RunID, 0)
		require.NoError(t, err)
		other.Start(made.Attempt)
		r.fake.Plant(made.Attempt) // this runner's is a stray
		pass(5 * time.Minute)
		assert.Equal(t, core.OrchestratorRunning, r.run(one.ID).State)
		assert.Equal(t, core.OrchestratorRunning, r.run(two.ID).State)
		assert.Equal(t, []jobs.Attempt{{Run: one.ID}}, r.fake.Attempts())
		assert.Equal(t, []jobs.Attempt{{Run: two.ID}}, other.Attempts())
	})
}

// A later attempt is looked for under its own number.
func TestALaterAttemptThatVanishedIsLost(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(2)))
		r.fake.End(r.created(o, 0), 1, "")
		second := r.created(o, 1)
		r.fake.Explain(second, "ImagePullBackOff", "no such image")
		synctest.Wait()
		assert.Equal(t, "ImagePullBackOff", r.run(o.ID).Pod.Reason)
		r.fake.Start(second)
		pass(5 * time.Minute)
		run := r.run(o.ID)
		assert.EqualValues(t, 1, run.RetryAttempt, "it is there")
		assert.Equal(t, core.OrchestratorRunning, run.State)
		assert.Equal(t, second.Name(), run.Pod.Name)
		r.fake.Vanish(second)
		r.fake.End(r.created(o, 2), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}

// Whoever deletes a pod is not told by the reconciliation that it is gone.
func TestAPodThatItsRunIsDeletingIsNotLost(t *testing.T) {
	withRig(t, everyMinute, func(t *testing.T, r *rig) {
		goOn := make(chan struct{})
		r.fake.OnDelete = func(_ context.Context, a jobs.Attempt) error {
			r.fake.Vanish(a)
			<-goOn
			return nil
		}
		o := r.trigger(job("nightly"))
		r.fake.End(r.created(o, 0), 0, "")
		pass(5 * time.Minute)
		assert.Equal(t, core.OrchestratorTerminating, r.run(o.ID).State)
		assert.Empty(t, r.run(o.ID).Error)
		close(goOn)
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}

// More runs than one page of the store has: all are looked at.
func TestTheRunsOfLaterPagesAreLookedAtToo(t *testing.T) {
	withRig(t, func(r *rig) {
		everyMinute(r)
		r.page = 3
	}, func(t *testing.T, r *rig) {
		var all []core.Orchestrator
		for n := range 10 {
			o := r.trigger(job(fmt.Sprintf("job-%d", n)))
			r.fake.Start(r.created(o, 0))
			all = append(all, o)
		}
		r.fake.Plant(jobs.Attempt{Run: uuid.Max})
		for _, o := range all {
			r.fake.Vanish(jobs.Attempt{Run: o.ID})
		}
		pass(2 * time.Minute)
		for _, o := range all {
			assert.Equal(t, core.OrchestratorFailed, r.run(o.ID).State, o.RunID)
		}
		assert.Empty(t, r.fake.Attempts())
	})
}

// breakable is a store in which one record can be unreadable to those who look.
type breakable struct {
	store.Store
	id atomic.Pointer[uuid.UUID]
}

func (b *breakable) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return b.Store.View(ctx, func(tx store.ReadTx) error { return fn(breakableTx{tx, b.id.Load()}) })
}

type breakableTx struct {
	store.ReadTx
	id *uuid.UUID
}

func (t breakableTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	rec, err := t.ReadTx.Get(kind, id)
	if t.id != nil && *t.id == id {
		rec.State = []byte("{")
	}
	return rec, err
}

// What is damaged may be mended, and then the pod has its run again.
func TestAPodWhoseRunCannotBeReadIsLeftAlone(t *testing.T) {
	st := &breakable{}
	withRig(t, func(r *rig) {
		everyMinute(r)
		st.Store, r.store = r.store, st
	}, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		st.id.Store(&o.ID)
		pass(5 * time.Minute)
		st.id.Store(nil)
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		assert.Contains(t, r.log.String(), "could not find out which run the pod belongs to")
	})
}

// The locks of a run that goes on, or whose pod does, are its own.
func TestOnlyTheLocksOfRunsThatAreOverAreReleasedWhereverTheyStand(t *testing.T) {
	withRig(t, func(r *rig) {
		everyMinute(r)
		r.page = 2
	}, func(t *testing.T, r *rig) {
		adopted := r.trigger(job("adopted", adopting))
		r.fake.Start(r.created(adopted, 0))
		synctest.Wait()
		r.fake.Hang(true)
		pass(2 * time.Minute)
		r.fake.Hang(false)
		require.Equal(t, core.OrchestratorOrphaned, r.run(adopted.ID).State)
		waiting := r.trigger(job("waiting")) // for its pod
		r.created(waiting, 0)
		for n := range 4 {
			r.lock(fmt.Sprintf("gone-%d", n), "run:"+uuid.UUID{1, byte(n + 1)}.String())
		}
		r.lock("adopted", "run:"+adopted.ID.String())
		r.lock("waiting", "run:"+waiting.ID.String())
		pass(3 * time.Minute)
		assert.ElementsMatch(t, []string{"adopted", "waiting"}, r.locked())
	})
}

func TestTheRunnersOfRunsThatAreNotConfiguredAnyMoreAreNamed(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		for n := range 2 {
			r.fake.Start(r.created(r.trigger(job(fmt.Sprint("job-", n), on("fake"))), 0))
		}
		synctest.Wait()
		r.stop()
		r.o.Runners = map[string]jobs.Runner{"other": &runnertest.Fake{}}
		r.start()
		synctest.Wait()
		assert.Contains(t, r.log.String(), `runs have pods with a runner that is not configured: they have no heartbeats, and their pods stay" runner=fake runs=2 configured=other`)
	})
}

// A runner of another computer has begun the pod, and this process works on the run now.
func TestARunWhosePodHasAnotherHomeLosesItAndIsTriedAgainHere(t *testing.T) {
	withRig(t, func(r *rig) { r.o.Home, r.fake.Home = "a", "a" }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(1)))
		never := r.trigger(job("once"))
		r.fake.Start(r.created(o, 0))
		r.fake.Start(r.created(never, 0))
		synctest.Wait()
		require.Equal(t, "a", r.run(o.ID).Pod.Home)
		r.stop()
		r.start() // the same one is back
		pass(time.Minute)
		require.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		r.stop()

		first := r.fake
		r.fake = &runnertest.Fake{Home: "b"}
		r.o.Home, r.o.Runners = "b", map[string]jobs.Runner{"fake": r.fake}
		r.start()
		second := r.created(o, 1)
		assert.Equal(t, `the pod is out of reach: its home is the instance "a", and another one works on the run now`, r.run(o.ID).LastFailure)
		assert.Equal(t, core.OrchestratorFailed, r.ended(never).State)
		r.fake.Start(second)
		r.fake.End(second, 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		assert.Equal(t, "b", r.run(o.ID).Pod.Home)
		assert.Len(t, first.Attempts(), 2, "who comes back ends what is left, not who took over")
	})
}
