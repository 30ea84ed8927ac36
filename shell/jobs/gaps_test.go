package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store"
)

// standing is the clock of a process that may be stopped for a while, and of a computer
// whose time may be set.
type standing struct {
	mu     sync.Mutex
	stood  time.Duration // in all
	set    time.Duration
	timers map[*time.Timer]time.Time // with when they fire, by the steady clock
}

func (c *standing) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.stood + c.set)
}

func (c *standing) Steady() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.stood)
}

func (c *standing) Timer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	t := time.AfterFunc(d, func() { ch <- time.Now() })
	c.timers[t] = time.Now().Add(c.stood + d)
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Stop()
		delete(c.timers, t)
	}
}

// stand has the process stand still for that long.
func (c *standing) stand(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood += d
	for t, at := range c.timers {
		if left := at.Sub(time.Now().Add(c.stood)); t.Stop() {
			t.Reset(max(left, 0))
		}
	}
}

// jump sets the computer's time.
func (c *standing) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set += d
}

// Whatever happens to the process and its clocks, for however long: a run whose pod goes on
// is not orphaned, one whose pod ends meanwhile ends as its pod did, and one whose runner
// hangs is orphaned.
func TestNoHealthyRunIsOrphanedByAnyGapAndAWedgedOneIs(t *testing.T) {
	clock := func(r *rig) *standing { return r.o.Clock.(*standing) }
	step := 1
	if raced.Detector { // each way has the same goroutines for each gap
		step = 7
	}
	for way, gap := range map[string]func(*rig, time.Duration){
		"stopped":                     func(r *rig, d time.Duration) { r.stop(); pass(d); r.start() },
		"killed":                      func(r *rig, d time.Duration) { r.kill(); pass(d); r.start() },
		"stood still":                 func(r *rig, d time.Duration) { clock(r).stand(d) },
		"clock forth":                 func(r *rig, d time.Duration) { clock(r).jump(d) },
		"clock back":                  func(r *rig, d time.Duration) { clock(r).jump(-d) },
		"killed, and the clock back":  func(r *rig, d time.Duration) { r.kill(); clock(r).jump(-d); r.start() },
		"killed, and the clock forth": func(r *rig, d time.Duration) { r.kill(); clock(r).jump(d); r.start() },
	} {
		for _, missed := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d may be missed", way, missed), func(t *testing.T) {
				slow := &runnertest.Fake{}
				withRig(t, func(r *rig) {
					r.o.Clock = &standing{timers: make(map[*time.Timer]time.Time)}
					r.o.Runners["slow"], r.o.DefaultRunner, r.o.MaxMissed = slow, "fake", missed
				}, func(t *testing.T, r *rig) {
					healthy, _ := r.started(job("healthy"))
					for s := 0; s <= 100; s += step {
						r.bridge(slow, healthy, time.Duration(s)*time.Second, gap)
					}
				})
			})
		}
	}
}

// bridge has a gap pass, and looks at what became of the runs.
func (r *rig) bridge(slow *runnertest.Fake, healthy core.Orchestrator, d time.Duration, gap func(*rig, time.Duration)) {
	r.t.Helper()
	const interval = core.DefaultHeartbeatIntervalMS * time.Millisecond
	ends, a := r.started(job("ends"))
	wedged := r.trigger(job("wedged", on("slow")))
	w, err := slow.Created(r.t.Context(), wedged.RunID, 0)
	require.NoError(r.t, err)
	slow.Start(w.Attempt)
	synctest.Wait()
	// Each gap begins at another time of the interval.
	pass(d % interval / 3)
	gap(r, d)
	r.fake.End(a, 0, "")
	pass(2 * time.Second) // the runners have looked
	slow.Hang(true)
	pass(time.Duration(r.maxMissed()+2) * interval)
	require.Equal(r.t, core.OrchestratorRunning, r.run(healthy.ID).State, "%s: %s", d, r.run(healthy.ID).Error)
	require.Equal(r.t, core.OrchestratorCompleted, r.run(ends.ID).State, "%s: %s", d, r.run(ends.ID).Error)
	require.Equal(r.t, core.OrchestratorOrphaned, r.run(wedged.ID).State, "%s", d)
	slow.Hang(false)
	require.NoError(r.t, slow.Gone(r.t.Context(), w.Attempt))
	synctest.Wait()
}

func (r *rig) maxMissed() int { return max(r.o.MaxMissed, 1) }

// lateWatch sees nothing for a while.
type lateWatch struct {
	*runnertest.Fake
	after time.Duration
}

func (r lateWatch) Watch(ctx context.Context, s jobs.Sink) error {
	timer := time.NewTimer(r.after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.Fake.Watch(ctx, s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The limit of a pod's start comes in time after a restart, and before its runner has looked:
// the pod ended well long ago.
func TestAfterARestartALimitWaitsUntilTheRunnerHasLooked(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Second, time.Minute, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			withRig(t, nil, func(t *testing.T, r *rig) {
				well := r.trigger(job("well", func(s *core.JobSpec) { s.PodStartTimeoutMS = 60_000 }))
				never := r.trigger(job("never", func(s *core.JobSpec) { s.PodStartTimeoutMS = 60_000 }))
				a := r.created(well, 0)
				r.created(never, 0)
				r.stop()
				r.fake.Start(a)
				r.fake.End(a, 0, "")
				pass(59 * time.Second)
				r.o.Runners["fake"] = lateWatch{r.fake, after}
				r.start()
				end := r.ended(well)
				require.Equal(t, core.OrchestratorCompleted, end.State, end.Error)
				end = r.ended(never)
				require.Equal(t, core.OrchestratorFailed, end.State)
				require.Equal(t, "the pod did not start within 1m0s", end.Error, "once it has looked, the limit counts")
			})
		})
	}
}

// journaled counts the events of a kind of machine in the journal, by their types.
func (r *rig) journaled(kind effects.Kind) map[string]int {
	r.t.Helper()
	out := make(map[string]int)
	require.NoError(r.t, r.store.View(r.t.Context(), func(tx store.ReadTx) error {
		return tx.Journal(0, func(_ uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			for _, in := range entry.Inputs {
				if in.To.Kind == kind {
					out[in.Event.EventType()]++
				}
			}
			return err
		})
	}))
	return out
}

// away is a runner whose cluster cannot be reached until then.
type away struct {
	*runnertest.Fake
	until time.Time
}

func (r away) await(ctx context.Context) error {
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r away) Watch(ctx context.Context, s jobs.Sink) error {
	if err := r.await(ctx); err != nil {
		return err
	}
	return r.Fake.Watch(ctx, s)
}

func (r away) Held(ctx context.Context) ([]jobs.Attempt, error) {
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r.Fake.Held(ctx)
}

// A runner that cannot look for an hour, as the cluster is away, keeps 100 runs waiting whose limits
// have come. They are decided as soon as it has looked. Reports of heartbeats are as many as
// without an outage.
func TestALongOutageAfterARestartFillsNoJournal(t *testing.T) {
	const runs = 100
	withRig(t, nil, func(t *testing.T, r *rig) {
		var late []core.Orchestrator
		for i := range runs {
			late = append(late, r.trigger(job(fmt.Sprintf("late-%d", i), func(s *core.JobSpec) { s.PodStartTimeoutMS = 60_000 })))
			r.created(late[i], 0)
		}
		r.stop()
		before, reports := r.journaled(core.KindOrchestrator)["due"], r.journaled(core.KindScheduler)["heartbeats"]
		r.o.Runners["fake"] = away{r.fake, time.Now().Add(time.Hour)}
		r.start()
		pass(time.Hour - time.Second)
		for _, o := range late {
			require.Equal(t, core.OrchestratorContainerCreating, r.run(o.ID).State)
		}
		require.Equal(t, 9*runs, r.journaled(core.KindOrchestrator)["due"]-before, "put off by 1, 2, 4, 8 and then 10 minutes at a time")
		shards := make(map[effects.Ref]bool)
		for _, o := range late {
			shards[core.SchedulerRef(o.ID)] = true
		}
		require.Equal(t, 360*len(shards), r.journaled(core.KindScheduler)["heartbeats"]-reports, "as many as ever")
		pass(32 * time.Second) // the longest wait between two looks
		for _, o := range late {
			require.Contains(t, r.run(o.ID).Error, "the pod did not start within 1m0s", "it does not wait for minutes more")
		}
	})
}

// doubting sees what there is and cannot say yet what became of it.
type doubting struct {
	*runnertest.Fake
	until time.Time
	of    jobs.Attempt
}

func (r doubting) Doubtful() []jobs.Attempt {
	if time.Now().Before(r.until) {
		return []jobs.Attempt{r.of}
	}
	return nil
}

func TestAnAttemptThatItsRunnerDoubtsIsNotLookedAtYet(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("doubtful", func(s *core.JobSpec) { s.PodStartTimeoutMS = 60_000 }))
		a := r.created(o, 0)
		r.stop()
		pass(50 * time.Second)
		r.o.Runners["fake"] = doubting{r.fake, time.Now().Add(40 * time.Second), a}
		r.start()
		pass(30 * time.Second)
		require.Equal(t, core.OrchestratorContainerCreating, r.run(o.ID).State, "its limit has come, and it is in doubt")
		pass(9 * time.Second)
		r.fake.Start(a)
		r.fake.End(a, 0, "")
		require.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
	})
}

// An engine that stops waits for a deletion: meanwhile the runs beat, and nothing else is
// taken.
func TestRunsBeatWhileTheEngineStops(t *testing.T) {
	withRig(t, func(r *rig) { r.stops = time.Hour }, func(t *testing.T, r *rig) {
		other, _ := r.started(job("other"))
		deleting, a := r.started(job("deleting"))
		let := make(chan struct{})
		r.fake.OnDelete = func(context.Context, jobs.Attempt) error { <-let; return nil }
		r.fake.End(a, 0, "")
		synctest.Wait()
		require.Equal(t, core.StepDeleting, r.run(deleting.ID).Step)
		before := r.beatsOf(other)
		r.end()
		pass(5*time.Minute + time.Second)
		require.GreaterOrEqual(t, r.beatsOf(other), before+29)
		_, err := r.e.Jobs().Trigger(t.Context(), scope, "other", shell.TriggerOptions{By: "test"})
		require.ErrorIs(t, err, shell.ErrStopped)
		close(let)
		<-r.e.Stopped()
		require.Equal(t, core.OrchestratorRunning, r.run(other.ID).State)
		require.Equal(t, core.OrchestratorCompleted, r.run(deleting.ID).State)
	})
}

// A run whose runner works is orphaned by itself where nobody has it in hand any more: what it
// waits for is lost.
func TestAWedgedRunIsOrphanedThoughItsRunnerWorks(t *testing.T) {
	t.Run("its turn for room is lost", func(t *testing.T) {
		withRig(t, func(r *rig) { r.o.MaxPods = map[string]int{"fake": 1} }, func(t *testing.T, r *rig) {
			first, _ := r.started(job("first"))
			second, third := r.trigger(job("second")), r.trigger(job("third"))
			pass(10 * time.Minute)
			require.True(t, r.run(second.ID).Pod.Queued && r.run(third.ID).Pod.Queued)
			jobs.LoseTurn(r.s, "fake", jobs.Attempt{Run: second.ID})
			pass(time.Minute)
			require.Equal(t, core.OrchestratorOrphaned, r.run(second.ID).State)
			require.Equal(t, core.OrchestratorContainerCreating, r.run(third.ID).State, "it waits for as long as it takes")
			require.Equal(t, core.OrchestratorRunning, r.run(first.ID).State)
		})
	})
	t.Run("its effect is lost", func(t *testing.T) {
		withRig(t, nil, func(t *testing.T, r *rig) {
			healthy, _ := r.started(job("healthy"))
			r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { <-ctx.Done(); return ctx.Err() }
			lost := r.trigger(job("lost", func(s *core.JobSpec) { s.PodStartTimeoutMS = 86_400_000 }))
			synctest.Wait()
			r.kill()
			require.NoError(t, r.store.Update(t.Context(), func(tx store.Tx) error {
				return tx.DeleteOutbox(store.EffectKey{ID: lost.ID, N: r.openEffect(lost)})
			}))
			r.start()
			pass(10 * time.Minute) // it might be carried out for as long
			require.Equal(t, core.OrchestratorContainerCreating, r.run(lost.ID).State)
			pass(2 * time.Minute)
			require.Equal(t, core.OrchestratorOrphaned, r.run(lost.ID).State)
			require.Equal(t, core.OrchestratorRunning, r.run(healthy.ID).State)
		})
	})
}

// A pod that is gone is missed by the next heartbeat, and its run told: it is not orphaned.
func TestAPodThatIsGoneIsMissedByTheNextHeartbeat(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("gone", retries(1)))
		pass(time.Minute)
		r.fake.Vanish(a)
		pass(25 * time.Second)
		r.fake.End(r.created(o, 1), 0, "")
		require.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		require.Equal(t, "the pod is gone, and nobody saw it end", r.run(o.ID).LastFailure)
	})
}

// A process that stood still has heard nothing meanwhile, also not of a runner that takes its time to
// answer: the count begins anew.
func TestARunnerThatAnswersLateHasItsTimeAfterTheProcessStoodStill(t *testing.T) {
	for phase := range 10 {
		withRig(t, func(r *rig) {
			r.o.Clock = &standing{timers: make(map[*time.Timer]time.Time)}
			r.o.Runners["fake"], r.o.MaxMissed = lateRunner{r.fake, 7 * time.Second}, 1
		}, func(t *testing.T, r *rig) {
			o, _ := r.started(job("healthy"))
			pass(time.Minute + time.Duration(phase)*time.Second)
			r.o.Clock.(*standing).stand(time.Minute)
			pass(time.Minute)
			require.Equal(t, core.OrchestratorRunning, r.run(o.ID).State, "%d s: %s", phase, r.run(o.ID).Error)
		})
	}
}

// openEffect is the number of the effect that the run waits for.
func (r *rig) openEffect(o core.Orchestrator) uint32 {
	open := r.run(o.ID).Pending.Open
	require.Len(r.t, open, 1)
	return open[0].Effect.Number()
}

// Nobody has lost a run whose deletion failed and is to be tried again: its time comes.
func TestARunWhoseCleanupWaitsForItsNextTryBeatsThoughItsRunnerHoldsNothing(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		forbidden := r.forbid()
		r.cancel(o)
		pass(2 * time.Minute)
		r.fake.Vanish(a)
		pass(30 * time.Minute)
		waits := r.run(o.ID)
		require.Equal(t, core.OrchestratorRunning, waits.State, waits.Error)
		require.True(t, waits.Cleanup.Failing())
		forbidden.Store(false)
		require.Equal(t, core.OrchestratorCancelled, r.ended(o).State)
	})
}

// The limit of an effect begins when somebody carries it out.
func TestARunThatWaitsForASlotOfItsLaneBeatsForAsLongAsThatTakes(t *testing.T) {
	withRig(t, func(r *rig) { r.lanes = map[string]int{effects.LaneRun: 1} }, func(t *testing.T, r *rig) {
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { <-ctx.Done(); return ctx.Err() }
		var runs []core.Orchestrator
		for _, id := range []string{"a", "b", "c", "d"} {
			runs = append(runs, r.trigger(job(id, func(s *core.JobSpec) { s.PodStartTimeoutMS = 86_400_000 })))
		}
		pass(29 * time.Minute)
		waits := r.run(runs[3].ID)
		require.Equal(t, core.OrchestratorContainerCreating, waits.State, waits.Error)
		for _, o := range runs {
			require.NotEqual(t, core.OrchestratorOrphaned, r.run(o.ID).State, o.JobID)
		}
	})
}

// several is a store of which other processes may have parts: no session tells that one is gone.
type several struct{ store.Store }

func (several) Session() string { return "" }

// However long the lease of the process that had asked for a pod, and died, the run waits for
// it: nobody has asked for its pod meanwhile.
func TestARunWaitsForTheLeaseOfWhoHadAskedForItsPod(t *testing.T) {
	for _, lease := range []time.Duration{time.Minute, 8 * time.Minute} {
		t.Run(lease.String(), func(t *testing.T) {
			withRig(t, func(r *rig) { r.store, r.lease = several{r.store}, lease }, func(t *testing.T, r *rig) {
				r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { <-ctx.Done(); return ctx.Err() }
				o := r.trigger(job("waits", func(s *core.JobSpec) { s.PodStartTimeoutMS = 30_000 }))
				synctest.Wait()
				r.kill()
				r.fake.OnCreate = nil
				r.start()
				pass(lease - time.Minute/2)
				waits := r.run(o.ID)
				require.Equal(t, core.OrchestratorContainerCreating, waits.State, waits.Error)
				require.Empty(t, waits.Exit.To, waits.Exit.Reason)
				r.fake.End(r.created(o, 0), 0, "")
				require.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
				require.Zero(t, r.run(o.ID).RetryAttempt)
			})
		})
	}
}
