package jobs_test

import (
	"context"
	"sync"
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

// database takes updates and metrics.
type database struct {
	mu      sync.Mutex
	updates []core.JobRunUpdate
	metrics []core.OrchestratorMetrics
	sizes   []int
	fails   int // so many calls about updates
	loses   int // so many about metrics
}

func refuses(n *int) bool {
	*n--
	return *n >= 0
}

func (d *database) Sync(_ context.Context, u []core.JobRunUpdate) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if refuses(&d.fails) {
		return errCluster
	}
	d.updates, d.sizes = append(d.updates, u...), append(d.sizes, len(u))
	return nil
}

func (d *database) Collect(_ context.Context, m []core.OrchestratorMetrics) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if refuses(&d.loses) {
		return errCluster
	}
	d.metrics = append(d.metrics, m...)
	return nil
}

// of lists the updates of a run, each id once.
func (d *database) of(run string) (list []core.JobRunUpdate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := map[uuid.UUID]bool{}
	for _, u := range d.updates {
		if u.RunID == run && !known[u.UpdateID] {
			known[u.UpdateID] = true
			list = append(list, u)
		}
	}
	return list
}

func (d *database) statuses(run string) (list []core.OrchestratorStatus) {
	for _, u := range d.of(run) {
		list = append(list, u.Status)
	}
	return list
}

func (d *database) metricsOf(run string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.metrics {
		if m.RunID == run {
			n++
		}
	}
	return n
}

func fed(d *database) func(*rig) {
	return func(r *rig) { r.o.Syncer, r.o.Stats = d, d }
}

func TestADatabaseIsToldOfStartsRetriesAndEndsInOrder(t *testing.T) {
	d := &database{}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = func(a jobs.Run) runnertest.Script { return runnertest.Script{Ends: true, Exit: 1 - int32(a.N)} }
		o := r.ended(r.trigger(job("nightly", retries(1))))
		pass(5 * time.Second)
		assert.Equal(t, []core.OrchestratorStatus{
			core.OrchestratorRunning, core.OrchestratorPending, core.OrchestratorRunning, core.OrchestratorCompleted,
		}, d.statuses(o.RunID))
		last := d.of(o.RunID)[3]
		assert.True(t, last.Success)
		assert.EqualValues(t, 1, last.RetryAttempt)
		assert.Equal(t, "exit code 1", d.of(o.RunID)[1].Error)
		assert.Equal(t, 1, d.metricsOf(o.RunID))
	})
}

func TestUpdatesComeInBatches(t *testing.T) {
	d := &database{}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = runnertest.Succeeds
		o := r.trigger(job("nightly"))
		for range 299 {
			_, err := r.e.Jobs().Trigger(t.Context(), scope, "nightly", shell.TriggerOptions{By: "test"})
			require.NoError(t, err)
		}
		r.ended(o)
		pass(time.Minute)
		d.mu.Lock()
		defer d.mu.Unlock()
		assert.Len(t, d.updates, 600)
		assert.LessOrEqual(t, len(d.sizes), 6)
		for _, n := range d.sizes {
			assert.LessOrEqual(t, n, 256)
		}
	})
}

func TestADatabaseThatIsDownIsToldLater(t *testing.T) {
	d := &database{fails: 4, loses: 4}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = runnertest.Succeeds
		o := r.ended(r.trigger(job("nightly")))
		pass(5 * time.Minute)
		assert.Equal(t, []core.OrchestratorStatus{core.OrchestratorRunning, core.OrchestratorCompleted}, d.statuses(o.RunID))
		assert.Equal(t, 1, d.metricsOf(o.RunID))
	})
}

func TestWhatTheBusHasDroppedIsReadFromTheRuns(t *testing.T) {
	d := &database{}
	withRig(t, func(r *rig) {
		fed(d)(r)
		r.hears = 3
	}, func(t *testing.T, r *rig) {
		pass(time.Minute)
		d.mu.Lock()
		d.fails = 3 // nobody takes anything for a while
		d.mu.Unlock()
		r.fake.Script = runnertest.Succeeds
		first := r.trigger(job("nightly"))
		var runs []core.Orchestrator
		for range 50 {
			made, err := r.e.Jobs().Trigger(t.Context(), scope, "nightly", shell.TriggerOptions{By: "test"})
			require.NoError(t, err)
			runs = append(runs, r.run(made.Run))
		}
		for _, o := range append(runs, first) {
			r.ended(o)
		}
		pass(5 * time.Minute)
		for _, o := range runs {
			require.Equal(t, []core.OrchestratorStatus{core.OrchestratorRunning, core.OrchestratorCompleted}, d.statuses(o.RunID))
			require.Positive(t, d.metricsOf(o.RunID))
		}
	})
}

func TestWhatNobodyWasToldBeforeACrashIsToldAfterwards(t *testing.T) {
	d := &database{fails: 1 << 30, loses: 1 << 30}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = runnertest.Succeeds
		o := r.ended(r.trigger(job("nightly")))
		r.fake.Script = nil
		running := r.trigger(job("other"))
		r.fake.Start(r.created(running, 0))
		synctest.Wait()
		r.stop()
		d.fails, d.loses = 0, 0
		r.start()
		pass(5 * time.Second)
		assert.Equal(t, []core.OrchestratorStatus{core.OrchestratorRunning, core.OrchestratorCompleted}, d.statuses(o.RunID))
		assert.Equal(t, 1, d.metricsOf(o.RunID))
		require.Len(t, d.metrics, 1, "of a run that goes on there are none yet")
		assert.Equal(t, core.OrchestratorCompleted, d.metrics[0].FinalState)
	})
}

func TestEachUpdateOfEachAttemptBeforeACrashIsToldAfterwards(t *testing.T) {
	d := &database{fails: 1 << 30, loses: 1 << 30}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Ends: true, Exit: 5} }
		ended := r.ended(r.trigger(job("nightly", retries(3))))
		r.fake.Script = func(a jobs.Run) runnertest.Script { return runnertest.Script{Ends: a.N == 0, Starts: true, Exit: 5} }
		running := r.trigger(job("other", retries(3)))
		pass(10 * time.Second) // its second attempt runs
		r.stop()
		d.fails, d.loses = 0, 0
		r.start()
		pass(5 * time.Second)
		const runs, again = core.OrchestratorRunning, core.OrchestratorPending
		assert.Equal(t, []core.OrchestratorStatus{runs, again, runs, again, runs, again, runs, core.OrchestratorFailed}, d.statuses(ended.RunID))
		assert.Equal(t, []core.OrchestratorStatus{runs, again, runs}, d.statuses(running.RunID))
		assert.Equal(t, "exit code 5", d.of(ended.RunID)[5].Error)
		assert.Equal(t, 1, d.metricsOf(ended.RunID))
	})
}

func TestWhatWasToldIsNotToldAgainAfterARestart(t *testing.T) {
	d := &database{}
	withRig(t, fed(d), func(t *testing.T, r *rig) {
		pass(time.Minute) // what comes while it begins may be told twice
		r.fake.Script = runnertest.Succeeds
		r.ended(r.trigger(job("nightly")))
		pass(time.Minute) // a watermark is stored
		r.restart()
		pass(time.Minute)
		assert.Len(t, d.updates, 2)
		assert.Len(t, d.metrics, 1)
	})
}

func TestUpdatesThatAreMadeAgainFromTheStateHaveTheIdsOfThoseAnnounced(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		sub := r.e.Subscribe(func(ev effects.Event) bool { return ev.Kind.String() == "run:update" }, 100)
		defer sub.Close()
		r.fake.Script = func(a jobs.Run) runnertest.Script {
			switch a.JobID {
			case "adopted":
				return runnertest.Script{Starts: true}
			case "succeeds":
				return runnertest.Script{Ends: true}
			}
			return runnertest.Script{Ends: true, Exit: 2}
		}
		adopted := r.trigger(job("adopted", adopting))
		r.ended(r.trigger(job("succeeds")))
		r.ended(r.trigger(job("fails", retries(1))))
		synctest.Wait()
		r.fake.Hang(true)
		pass(time.Minute)
		r.fake.Hang(false)
		r.fake.End(jobs.Attempt{Run: adopted.ID}, 4, "")
		r.ended(adopted)
		synctest.Wait()

		announced := map[uuid.UUID]core.JobRunUpdate{}
		for range len(sub.C) {
			ev := <-sub.C
			u := decoded[core.JobRunUpdate](t, ev.Data)
			announced[u.UpdateID] = u
		}
		runs := 0
		for _, name := range []string{"adopted", "succeeds", "fails"} {
			o := r.latest(name)
			for _, u := range o.Updates() {
				was, known := announced[u.UpdateID]
				require.True(t, known, "%s: %+v was not announced", name, u)
				assert.Equal(t, was, u, name)
				runs++
			}
		}
		assert.Equal(t, 3+2+4, runs)
	})
}
