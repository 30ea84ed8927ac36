package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestWhoAsksForLogsThatAreNotThereIsToldWhy(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = runnertest.Succeeds
		run := r.ended(r.trigger(job("nightly")))
		r.logs.m = map[jobs.Attempt][]byte{}
		for _, row := range []struct {
			name    string
			attempt uint32
			change  func(o *core.Orchestrator)
			want    string
		}{
			{"it has not begun", 1, func(o *core.Orchestrator) { o.State = core.OrchestratorRunning }, "it has not begun"},
			{"it never will", 1, func(*core.Orchestrator) {}, "has not begun"},
			{"it has no pod yet", 0, func(o *core.Orchestrator) { o.State = core.OrchestratorPending }, "there is no pod yet"},
			{"nor keeps it any", 0, func(o *core.Orchestrator) { o.State, o.Config.Logs.Discard = core.OrchestratorPending, true }, "there is no pod yet"},
			{"they could not be kept", 0, func(o *core.Orchestrator) { o.Logs.Error = "store the logs: full" }, "store the logs: full"},
			{"they are not kept", 0, func(o *core.Orchestrator) { o.Config.Logs.Discard = true }, "its job keeps no logs"},
			{"it has ended", 0, func(*core.Orchestrator) {}, "it has left none"},
			{"its pod did not start", 0, func(o *core.Orchestrator) { o.ExecutionStartedAt, o.Ran = 0, core.PodTimes{} }, "the pod did not start"},
			{"the pod of an earlier one did not start", 0, func(o *core.Orchestrator) {
				o.RetryAttempt, o.PastAttempts = 1, []core.PastAttempt{{Attempt: 0}}
			}, "the pod did not start"},
			{"the pod of an earlier one ran", 0, func(o *core.Orchestrator) {
				o.RetryAttempt, o.PastAttempts = 1, []core.PastAttempt{{Attempt: 0, StartedAt: 1}}
			}, "it has left none"},
			{"it waits for the next attempt", 0, func(o *core.Orchestrator) { o.State = core.OrchestratorRetrying }, "it has left none"},
			{"the next has begun, and could not keep its own", 0, func(o *core.Orchestrator) {
				o.State, o.RetryAttempt, o.Logs.Error = core.OrchestratorRunning, 1, "store the logs: full"
			}, "it has left none"},
		} {
			o := run
			row.change(&o)
			err := r.s.Logs(t.Context(), o, row.attempt, jobs.LogOptions{}, io.Discard)
			require.ErrorIs(t, err, jobs.ErrNoPod, row.name)
			require.ErrorContains(t, err, row.want, row.name)
		}
		run.InCluster, run.Config.Runner = true, "nowhere"
		require.ErrorContains(t, r.s.Logs(t.Context(), run, 0, jobs.LogOptions{}, io.Discard), `runner: "nowhere" is not configured`)
		r.logs.lost = errCluster
		require.ErrorIs(t, r.s.Logs(t.Context(), run, 0, jobs.LogOptions{}, io.Discard), errCluster, "they may be there")
	})
}

func TestTheLogsOfAPodThatDidNotStartInTimeSayThat(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(1)))
		for n := range uint32(2) {
			r.created(o, n)
		}
		o = r.ended(o)
		require.Contains(t, o.Error, "did not start within")
		for n := range uint32(2) {
			err := r.s.Logs(t.Context(), o, n, jobs.LogOptions{}, io.Discard)
			require.ErrorIs(t, err, jobs.ErrNoPod)
			require.EqualError(t, err, "the pod did not start")
		}
	})
}

func TestFollowingAnAttemptThatCannotComeEnds(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = runnertest.Succeeds
		o := r.ended(r.trigger(job("nightly")))
		require.ErrorIs(t, <-r.follow(t.Context(), o, 1).err, jobs.ErrNoPod)
		o.ID = uuid.New()
		require.ErrorIs(t, <-r.follow(t.Context(), o, 0).err, shell.ErrNotFound)
	})
}

func TestFollowingEndsWithAnErrorOfTheRunner(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.OnLogs = func(context.Context, jobs.Attempt) error { return errCluster }
		r.fake.Start(r.created(o, 0))
		err := <-r.follow(t.Context(), o, 0).err
		require.ErrorIs(t, err, errCluster)
		require.ErrorContains(t, err, "runner fake: ")
	})
}

func TestFollowingEndsWithTheEngine(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.OnCreate = func(ctx context.Context, _ jobs.Run) error { <-ctx.Done(); return ctx.Err() }
		to := r.follow(t.Context(), r.trigger(job("nightly")), 0)
		synctest.Wait()
		r.stop()
		require.ErrorIs(t, <-to.err, shell.ErrStopped)
	})
}

func TestLogsWaitForTheServiceNoLongerThanTheirContext(t *testing.T) {
	s, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"fake": &runnertest.Fake{}}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, s.Logs(ctx, core.Orchestrator{}, 0, jobs.LogOptions{}, io.Discard), "the service of job runs does not run")
}

// oneContainer gives those who want one container's logs less than others, and notes
// what was wanted.
type oneContainer struct {
	*runnertest.Fake
	mu    sync.Mutex
	asked []jobs.LogOptions
}

func (f *oneContainer) Logs(ctx context.Context, a jobs.Attempt, o jobs.LogOptions, w io.Writer) (int, error) {
	f.mu.Lock()
	f.asked = append(f.asked, o)
	f.mu.Unlock()
	if o.Container == "" {
		return f.Fake.Logs(ctx, a, o, w)
	}
	var all bytes.Buffer
	calls, err := f.Fake.Logs(ctx, a, o, &all)
	for line := range strings.Lines(all.String()) {
		if name, text, _ := strings.Cut(line, " "); name == o.Container {
			_, _ = io.WriteString(w, text)
		}
	}
	return calls, err
}

func TestFollowingOneContainerGivesNothingOfTheOthers(t *testing.T) {
	var one *oneContainer
	withRig(t, func(r *rig) {
		one = &oneContainer{Fake: r.fake}
		r.o.Runners = map[string]jobs.Runner{"fake": one}
	}, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		to := &reader{err: make(chan error, 1)}
		go func() { to.err <- r.s.Logs(t.Context(), o, 0, jobs.LogOptions{Follow: true, Container: "b"}, to) }()
		pass(time.Second)
		r.fake.Write(a, "a one\nb two\na three\nb four\n")
		synctest.Wait() // he has read it: the pod may be gone in no time
		r.fake.End(a, 0, "")
		require.NoError(t, <-to.err)
		assert.Equal(t, "two\nfour\n", to.String())
		one.mu.Lock()
		defer one.mu.Unlock()
		assert.Equal(t, jobs.LogOptions{Follow: true, Container: "b"}, one.asked[0])
	})
}

func TestWhoHasFollowedALongLogToItsEndIsNotSentToTheStoredOne(t *testing.T) {
	withRig(t, func(r *rig) { r.o.LogHeadBytes, r.o.LogTailBytes = 10, 10 }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.Start(a)
		to := r.follow(t.Context(), o, 0)
		text := strings.Repeat("a line\n", 100)
		r.fake.Write(a, text)
		synctest.Wait() // he has read it: the pod may be gone in no time
		r.fake.End(a, 0, "")
		require.NoError(t, <-to.err)
		assert.Equal(t, text, to.String())
	})
}

func TestAnOptionOfTheServiceThatCannotBeIsNamed(t *testing.T) {
	one := map[string]jobs.Runner{"a": &runnertest.Fake{}}
	for _, row := range []struct {
		o    jobs.Options
		want string
	}{
		{jobs.Options{}, "Options.Runners is empty"},
		{jobs.Options{Runners: map[string]jobs.Runner{"": &runnertest.Fake{}}}, `Options.Runners[""]`},
		{jobs.Options{Runners: map[string]jobs.Runner{"a": nil}}, `Options.Runners["a"]`},
		{jobs.Options{Runners: one, DefaultRunner: "b"}, `Options.DefaultRunner is "b", which is not in Runners: use one of a`},
		{jobs.Options{Runners: one, HeartbeatInterval: -1}, "HeartbeatInterval is -1ns"},
		{jobs.Options{Runners: one, HeartbeatInterval: time.Microsecond}, "HeartbeatInterval is 1µs: it must be between 1ms and 24h0m0s"},
		{jobs.Options{Runners: one, HeartbeatInterval: 24*time.Hour + 1}, "HeartbeatInterval"},
		{jobs.Options{Runners: one, MaxMissed: -1}, "MaxMissed is -1: it must be between 1 and 1000"},
		{jobs.Options{Runners: one, MaxMissed: 1001}, "MaxMissed"},
		{jobs.Options{Runners: one, ReconcileEvery: -1}, "ReconcileEvery is -1ns"},
		{jobs.Options{Runners: one, LogHeadBytes: -1}, "LogHeadBytes (-1)"},
		{jobs.Options{Runners: one, LogTailBytes: -1}, "LogTailBytes (-1)"},
		{jobs.Options{Runners: one, LogHeadBytes: 4 << 20}, "together at most 4190208"},
		{jobs.Options{Runners: one, LogHeadBytes: 1, LogTailBytes: 4<<20 - 4<<10}, "together at most 4190208"},
	} {
		_, err := jobs.New(row.o)
		require.ErrorContains(t, err, row.want)
	}
	for _, o := range []jobs.Options{
		{Runners: one}, {Runners: one, DefaultRunner: "a"}, {Runners: one, HeartbeatInterval: time.Millisecond, MaxMissed: 1},
		{Runners: one, HeartbeatInterval: 24 * time.Hour, MaxMissed: 1000, ReconcileEvery: 1, LogHeadBytes: 1, LogTailBytes: 4<<20 - 4<<10 - 1},
	} {
		_, err := jobs.New(o)
		require.NoError(t, err)
	}
}

func TestAJobThatNamesNoRunnerIsRunByTheDefaultOrTheOnlyOne(t *testing.T) {
	spec := job("nightly")
	check := func(o jobs.Options) error {
		s, err := jobs.New(o)
		require.NoError(t, err)
		return s.Check(spec)
	}
	no := &runnertest.Fake{OnCheck: func(core.JobSpec) error { return errCluster }}
	two := map[string]jobs.Runner{"a": &runnertest.Fake{}, "b": no}
	require.NoError(t, check(jobs.Options{Runners: map[string]jobs.Runner{"a": &runnertest.Fake{}}}))
	require.ErrorIs(t, check(jobs.Options{Runners: map[string]jobs.Runner{"b": no}}), errCluster)
	require.NoError(t, check(jobs.Options{Runners: two, DefaultRunner: "a"}))
	require.ErrorIs(t, check(jobs.Options{Runners: two, DefaultRunner: "b"}), errCluster)
	require.EqualError(t, check(jobs.Options{Runners: two}), "runner: missing, and there is no default one: use one of a, b")
	spec.Runner = "c"
	require.EqualError(t, check(jobs.Options{Runners: two}), `runner: "c" is not configured: use one of a, b`)
	spec.Runner = "a"
	require.NoError(t, check(jobs.Options{Runners: two, DefaultRunner: "b"}))
}

func TestAServiceRunsOnceAndWithAnEngine(t *testing.T) {
	s, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"a": &runnertest.Fake{}}})
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(t.Context(), nil), "needs an engine")
	withRig(t, nil, func(t *testing.T, r *rig) {
		synctest.Wait()
		require.ErrorContains(t, r.s.Run(t.Context(), r.e), "called before")
	})
}

// goneMidway is a runner whose pod cannot be followed beyond "one".
type goneMidway struct{ *runnertest.Fake }

func (g goneMidway) Logs(ctx context.Context, a jobs.Attempt, o jobs.LogOptions, w io.Writer) (int, error) {
	if !o.Follow {
		return g.Fake.Logs(ctx, a, o, w)
	}
	_, err := io.WriteString(w, "one\n")
	return 1, errors.Join(err, jobs.ErrNoPod)
}

func TestAFollowerWhosePodIsGoneReadsOnInWhatIsStored(t *testing.T) {
	const elsewhere = "one\n… the rest is in the stored logs …\n"
	for _, row := range []struct {
		tail          int64
		writes, wants string
	}{
		{100, "one\ntwo\nthree\nfour\n", "one\ntwo\nthree\nfour\n"},
		{100, "one\n", "one\n"},
		{100, "one", elsewhere},
		{1, "one\ntwo\nthree\nfour\n", elsewhere},
		{100, "==> side <==\nready\n==> main <==\none\ntwo\n", elsewhere},
	} {
		withRig(t, func(r *rig) {
			r.o.LogHeadBytes, r.o.LogTailBytes = 1, row.tail
			r.o.Runners = map[string]jobs.Runner{"fake": goneMidway{r.fake}}
		}, func(t *testing.T, r *rig) {
			o := r.trigger(job("nightly"))
			a := r.created(o, 0)
			r.fake.Start(a)
			to := r.follow(t.Context(), o, 0)
			pass(time.Minute) // he looks again and again
			assert.Equal(t, "one\n", to.String(), "and gets nothing twice")
			r.fake.Write(a, row.writes)
			r.fake.End(a, 0, "")
			require.NoError(t, <-to.err)
			assert.Equal(t, row.wants, to.String())
		})
	}
}

func TestAFollowerWhosePodIsGoneBeforeAnyOfItIsStoredEnds(t *testing.T) {
	withRig(t, func(r *rig) { r.o.Runners = map[string]jobs.Runner{"fake": goneMidway{r.fake}} }, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", func(s *core.JobSpec) { s.Logs.Discard = true }))
		a := r.created(o, 0)
		r.fake.Start(a)
		to := r.follow(t.Context(), o, 0)
		synctest.Wait()
		r.fake.End(a, 0, "")
		require.NoError(t, <-to.err)
		assert.Equal(t, "one\n", to.String())
	})
}

// The pod is gone, and what was stored before its end is a part.
func TestAFollowerWhoBeginsAsThePodIsGoneWaitsForTheRest(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		goOn := make(chan struct{})
		o, a := r.started(job("nightly"))
		r.fake.OnLogs = func(context.Context, jobs.Attempt) error { return jobs.ErrNoPod }
		r.fake.OnDelete = func(context.Context, jobs.Attempt) error { <-goOn; return nil }
		require.NoError(t, r.logs.PutLog(t.Context(), o.ID, 0, []byte("one\n")))
		r.cancel(o)
		synctest.Wait()
		to := r.follow(t.Context(), o, 0)
		pass(20 * time.Second)
		assert.Empty(t, to.String())
		require.NoError(t, r.logs.PutLog(t.Context(), o.ID, 0, []byte("one\ntwo\n")))
		close(goOn)
		require.NoError(t, <-to.err)
		assert.Equal(t, "one\ntwo\n", to.String())
		assert.Empty(t, r.fake.Creates(jobs.Attempt{Run: o.ID, N: 1}), a.Name())
	})
}

func TestAFollowerDoesNotWaitForWhatCannotBeDeletedOfAnEndedRun(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		forbidden := r.forbid()
		r.fake.Write(a, "one\n")
		to := r.follow(t.Context(), o, 0)
		synctest.Wait()
		r.fake.End(a, 0, "")
		require.NoError(t, <-to.err)
		assert.Equal(t, "one\n", to.String())
		now := r.run(o.ID)
		assert.Equal(t, core.OrchestratorCompleted, now.State)
		assert.True(t, now.Cleanup.Failing())
		forbidden.Store(false)
		pass(2 * time.Minute)
		assert.False(t, r.run(o.ID).InCluster)
	})
}
