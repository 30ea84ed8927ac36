package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store/memory"
)

// beatsOf tells how many heartbeats of a run there were.
func (r *rig) beatsOf(o core.Orchestrator) uint64 {
	r.t.Helper()
	list, err := r.e.Runs().Schedulers(r.t.Context())
	require.NoError(r.t, err)
	for _, s := range list {
		for _, tracked := range s.Runs {
			if tracked.Run == o.ID {
				return tracked.Sent
			}
		}
	}
	return 0
}

func TestARunBeatsOnceInAnIntervalAndTellsHowOften(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		first := r.beatsOf(o) // it may have come in time for the first interval
		pass(time.Minute)
		synctest.Wait()
		assert.Equal(t, first+6, r.beatsOf(o))
		r.fake.End(a, 0, "")
		assert.Equal(t, first+6, r.ended(o).Metrics.HeartbeatsSent)
	})
}

func TestTheConfiguredIntervalIsThatOfTheScheduler(t *testing.T) {
	withRig(t, func(r *rig) { r.o.HeartbeatInterval, r.o.MaxMissed = time.Second, 7 }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		pass(10*time.Second + 500*time.Millisecond) // between two heartbeats: nothing happens at the moment of a look
		list, err := r.e.Runs().Schedulers(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.EqualValues(t, 1000, list[0].IntervalMS)
		assert.EqualValues(t, 7, list[0].MaxMissed)
		r.fake.Hang(true)
		pass(6 * time.Second)
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		pass(3 * time.Second)
		assert.Equal(t, core.OrchestratorOrphaned, r.run(o.ID).State)
	})
}

func TestTheRunsOfOtherRunnersBeatWhileOneHangs(t *testing.T) {
	slow := &runnertest.Fake{}
	withRig(t, func(r *rig) { r.o.Runners["slow"], r.o.DefaultRunner = slow, "fake" }, func(t *testing.T, r *rig) {
		stuck := r.trigger(job("stuck", on("slow")))
		_, err := slow.Created(t.Context(), stuck.RunID, 0)
		require.NoError(t, err)
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		slow.Hang(true)
		pass(5 * time.Minute)
		assert.Equal(t, core.OrchestratorOrphaned, r.run(stuck.ID).State)
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		assert.GreaterOrEqual(t, r.beatsOf(o), uint64(29), "of thirty, the last of which may be under way")
	})
}

func TestARunnerThatAnswersLateStillBeats(t *testing.T) {
	withRig(t, func(r *rig) { r.o.Runners["fake"] = lateRunner{r.fake, 7 * time.Second} }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		pass(5 * time.Minute)
		assert.Equal(t, core.OrchestratorRunning, r.run(o.ID).State)
		assert.Greater(t, r.beatsOf(o), uint64(25))
	})
}

// lateRunner answers to Beat after a while.
type lateRunner struct {
	*runnertest.Fake
	after time.Duration
}

func (r lateRunner) Beat(ctx context.Context) error {
	timer := time.NewTimer(r.after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.Fake.Beat(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestARunnerThatSaysItDoesNotWorkDoesNotBeat(t *testing.T) {
	withRig(t, func(r *rig) { r.o.Runners["fake"] = brokenRunner{r.fake} }, func(t *testing.T, r *rig) {
		synctest.Wait() // else the run may have been there before
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		assert.Equal(t, core.OrchestratorOrphaned, r.ended(o).State)
	})
}

type brokenRunner struct{ *runnertest.Fake }

func (brokenRunner) Beat(context.Context) error { return errors.New("it is broken") }

func TestAWatchThatEndsIsBegunAgain(t *testing.T) {
	failing := &endingRunner{Fake: &runnertest.Fake{}, ends: 3}
	withRig(t, func(r *rig) { r.fake, r.o.Runners["fake"] = failing.Fake, failing }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.End(r.created(o, 0), 0, "")
		assert.Equal(t, core.OrchestratorCompleted, r.ended(o).State)
		assert.Zero(t, failing.ends)
	})
}

// endingRunner has watches that end.
type endingRunner struct {
	*runnertest.Fake
	ends int
}

func (r *endingRunner) Watch(ctx context.Context, s jobs.Sink) error {
	if r.ends > 0 {
		r.ends--
		return errors.New("410 Gone")
	}
	return r.Fake.Watch(ctx, s)
}

// waitingRuns is how many runs the benchmark has.
const waitingRuns = 10_000

// BenchmarkHeartbeats sends the heartbeats of 10 thousand runs in each interval, of
// which half wait for their time and half have pods.
func BenchmarkHeartbeats(b *testing.B) {
	st := memory.New()
	defer st.Close()
	fake := &runnertest.Fake{Script: func(jobs.Run) runnertest.Script { return runnertest.Script{Starts: true} }}
	s, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"fake": fake}, HeartbeatInterval: 24 * time.Hour, Logger: quiet})
	require.NoError(b, err)
	e, err := shell.New(shell.Options{Store: st, Interpreters: s.Interpreters(), Logger: quiet, Concurrency: map[string]int{"@run": 256}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = e.Run(ctx); done <- struct{}{} }()
	go func() { _ = s.Run(ctx, e); done <- struct{}{} }()
	defer func() { cancel(); <-done; <-done }()

	before := measured()
	fill(b, e)
	after := measured()
	jobs.Interval(ctx, s) // finds out where the runs are
	for b.Loop() {
		jobs.Interval(ctx, s)
	}
	b.ReportMetric(float64(after.goroutines-before.goroutines)/waitingRuns, "goroutines/run")
	b.ReportMetric(float64(after.heap-before.heap)/waitingRuns, "heap-bytes/run")
}

type measure struct{ goroutines, heap int64 }

func measured() measure {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return measure{int64(runtime.NumGoroutine()), int64(m.HeapAlloc)}
}

// fill makes the runs, and waits until half of them run.
func fill(b *testing.B, e *shell.Engine) {
	b.Helper()
	const perJob = core.MaxActiveRuns
	for n := range waitingRuns / perJob {
		spec := core.JobSpec{
			ID: fmt.Sprintf("job-%d", n), Namespace: "default", Tenant: "default",
			PodSpec: json.RawMessage(`{"containers":[{"name":"main","image":"busybox"}]}`),
		}
		if n%2 == 0 {
			spec.MaxConcurrentRuns = 1 // all but one wait for a place
		}
		_, err := e.Jobs().Apply(b.Context(), spec)
		require.NoError(b, err)
		for range perJob {
			_, err := e.Jobs().Trigger(b.Context(), shell.Scope{Namespace: "default", Tenant: "default"}, spec.ID, shell.TriggerOptions{By: "bench"})
			require.NoError(b, err)
		}
	}
	deadline := time.Now().Add(10 * time.Minute)
	for {
		runs, _, err := e.Runs().List(b.Context(), shell.JobRunFilter{Status: core.OrchestratorRunning}, shell.Page{Limit: 1})
		require.NoError(b, err)
		ids, err := e.Runs().InCluster(b.Context())
		require.NoError(b, err)
		creating, _, err := e.Runs().List(b.Context(), shell.JobRunFilter{Status: core.OrchestratorContainerCreating}, shell.Page{Limit: 1})
		require.NoError(b, err)
		if len(runs) > 0 && len(creating) == 0 && len(ids) >= waitingRuns/2 {
			return
		}
		require.True(b, time.Now().Before(deadline), "%d runs are in the cluster", len(ids))
		runtime.Gosched()
	}
}
