package shell_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

var tenant = shell.Scope{Namespace: "ns", Tenant: "t"}

// nightly is a job that is triggered by hand.
func nightly() core.JobSpec {
	return core.JobSpec{
		ID: "nightly", Namespace: tenant.Namespace, Tenant: tenant.Tenant, PodSpec: json.RawMessage(`{"containers":[]}`),
		ConstraintConfig: json.RawMessage(`{"constraints":[]}`), RetryConfig: core.RetryConfig{InitialDelayMS: 1000},
		Labels: map[string]string{"team": "a"},
	}
}

func applied(t testing.TB, e *shell.Engine, spec core.JobSpec) core.Job {
	t.Helper()
	j, err := e.Jobs().Apply(bg(), spec)
	require.NoError(t, err)
	return j
}

func triggered(t testing.TB, e *shell.Engine, id string) uuid.UUID {
	t.Helper()
	made, err := e.Jobs().Trigger(bg(), tenant, id, shell.TriggerOptions{By: "ann"})
	require.NoError(t, err)
	return made.Run
}

func runOf(t testing.TB, e *shell.Engine, run uuid.UUID) core.Orchestrator {
	t.Helper()
	o, err := e.Runs().Get(bg(), run)
	require.NoError(t, err)
	return o
}

func exitCode(n int32) core.Pod { return core.Pod{Name: "p", ExitCode: &n} }

// 004, the happy path, with a second attempt.
func TestAJobRunsAtItsTimeAndItsLogsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.runFor = 10 * time.Second
		c.exit = func(_ uuid.UUID, attempt uint32) int32 { return 1 - int32(attempt) } // the first one fails
		c.report = core.ConstraintReport{
			ShouldProceed: true, Locks: []string{"db"},
			Checks: []core.ConstraintCheck{{Name: "timeWindow", Message: "outside", Actions: []core.ActionRequest{{Type: "log"}}}},
		}
		e := c.use(running(t, c.options(inBolt(t))))
		spec := nightly()
		spec.Schedule, spec.RetryConfig.MaxRetries = "@every 10m", 1
		j := applied(t, e, spec)
		due := j.NextRunAt
		elapse(due.Sub(effects.TimeOf(time.Now())) - time.Second)
		id := core.RunRef("ns", "t", core.RunID("nightly", due)).ID
		o := runOf(t, e, id)
		assert.Equal(t, core.OrchestratorPreRun, o.State)

		_, err := e.Locks().Send(bg(), tenant, "db", core.LockAcquire{Name: "db", Namespace: "ns", Tenant: "t", Holder: core.RunLockHolder(id)})
		require.NoError(t, err)
		o, err = e.Runs().Wait(bg(), id)
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorCompleted, o.State, "%s", o.Error)
		assert.EqualValues(t, 1, o.RetryAttempt)
		synctest.Wait()
		assert.Equal(t, []string{
			"CheckConstraints", "TakeAction", "CreateRun", "FetchLogs", "DeleteRun", "CheckConstraints", "TakeAction",
			"CheckConstraints", "TakeAction", "CreateRun", "FetchLogs", "DeleteRun", "CheckConstraints", "TakeAction",
		}, c.done())
		assert.Zero(t, c.podCount())
		for attempt := range uint32(2) {
			text, err := e.Runs().Log(bg(), id, attempt)
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("attempt %d said so\n", attempt), string(text))
		}
		lock, err := e.Locks().Get(bg(), tenant, "db")
		require.True(t, errors.Is(err, shell.ErrNotFound) || lock.Holder == "", "%+v", lock)
		once := onlyOccurrence(t, e, core.JobRef("ns", "t", "nightly").ID)
		assert.EqualValues(t, core.StatusCompleted, once.Outcome)

		s, err := e.JobStats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, s.Jobs)
		assert.Zero(t, s.JobsPaused+s.InCluster+s.Triggered+s.ConstraintErrors+s.CleanupsFailed)
		assert.Len(t, s.Runs, len(core.OrchestratorStatuses()))
		assert.EqualValues(t, 1, s.Runs[core.OrchestratorCompleted])
		assert.Equal(t, map[core.OrchestratorStatus]uint64{core.OrchestratorCompleted: 1}, s.Ended)
		assert.EqualValues(t, 1, s.Verdicts[core.VerdictDispatched])
		assert.Equal(t, []uint64{1, 4, 4, 4, 0, 6}, []uint64{s.Retries, s.ConstraintsChecked, s.ConstraintsViolated, s.ActionsExecuted, s.ActionsFailed, s.KubernetesAPICalls})
		assert.Equal(t, o.Metrics.HeartbeatsSent, s.Heartbeats)
		assert.Positive(t, s.Heartbeats)
		assert.InDelta(t, 4, s.PodStart.Sum, 0.01, "two pods of 2 seconds")
		assert.InDelta(t, 20, s.Execution.Sum, 0.01)
		assert.InDelta(t, o.Metrics.TotalDurationMS/1000, s.Total[core.OrchestratorCompleted].Sum, 1)
	})
}

// A8, A9: the process is killed in each of the states in which a run waits, and
// started again.
func TestARunGoesOnAfterACrashInEachState(t *testing.T) {
	for state, held := range map[string]effects.Outer{
		"pre_run": nil, "pending": nil, "retrying": nil, "running": nil,
		"condition_running": effects.CheckConstraints{}, "action_running": effects.TakeAction{}, "container_creating": effects.CreateRun{},
		"terminating, logs": effects.FetchLogs{}, "terminating, deleting": effects.DeleteRun{}, "terminating, checking": nil,
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, c := memory.NewSession("first"), newCluster()
				c.runFor = time.Minute
				c.report.Checks = []core.ConstraintCheck{{Name: "w", Actions: []core.ActionRequest{{Type: "log"}}}}
				c.exit = func(_ uuid.UUID, attempt uint32) int32 { return 1 - int32(attempt) }
				o := c.options(st)
				o.RecoverAfter = 10 * time.Second
				spec := nightly()
				spec.RetryConfig = core.RetryConfig{MaxRetries: 1, InitialDelayMS: 300_000}
				var run uuid.UUID
				release := func() {}
				crashed(t, o, func(e *shell.Engine) {
					c.use(e)
					if held != nil {
						release = c.hold(held)
					}
					run = madeFor(t, e, spec, state)
					if state == "terminating, checking" { // the second evaluation, not the first one
						reach(t, e, run, "running")
						release = c.hold(effects.CheckConstraints{})
					}
					reach(t, e, run, state)
				})
				release()
				o.Store = st.Reopen("second")
				e := running(t, o)
				synctest.Wait() // what was held is taken up before the cluster has this engine
				c.use(e)
				elapse(20 * time.Minute)
				if state == "pending" { // it waits for the place of the other one
					elapse(20 * time.Minute)
				}
				got := runOf(t, e, run)
				assert.Equal(t, core.OrchestratorCompleted, got.State, "%s", got.Error)
				assert.Zero(t, c.podCount(), "nothing is left behind")
				assert.Empty(t, got.Pending.Open)
				job, err := e.Jobs().Get(bg(), tenant, "nightly")
				require.NoError(t, err)
				for _, a := range job.Active {
					assert.NotEqual(t, run, a.Run, "its place is free")
				}
				for attempt := range got.RetryAttempt + 1 {
					_, err := e.Runs().Log(bg(), run, attempt)
					require.NoError(t, err, "attempt %d", attempt)
				}
			})
		})
	}
}

// madeFor makes a run that can reach a state.
func madeFor(t *testing.T, e *shell.Engine, spec core.JobSpec, state string) uuid.UUID {
	t.Helper()
	if state == "pre_run" {
		spec.Schedule = "@every 10m"
	}
	spec.MaxConcurrentRuns = 1
	j := applied(t, e, spec)
	switch state {
	case "pre_run":
		elapse(j.NextRunAt.Sub(effects.TimeOf(time.Now())) - 10*time.Second)
		return core.RunRef("ns", "t", core.RunID("nightly", j.NextRunAt)).ID
	case "pending": // it waits for the place of another one
		triggered(t, e, "nightly")
	}
	return triggered(t, e, "nightly")
}

// reach lets time pass until a run is in a state.
func reach(t *testing.T, e *shell.Engine, run uuid.UUID, state string) {
	t.Helper()
	for range 60 {
		o := runOf(t, e, run)
		at := string(o.State)
		if at == "terminating" {
			at += ", " + string(o.Step)
		}
		if at == state {
			return
		}
		elapse(2 * time.Second)
	}
	require.Fail(t, "it is not "+state, "%+v", runOf(t, e, run))
}

func TestRunsAndTheirLogsAreForgottenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inBolt(t), newCluster()
		c.runFor = time.Second
		o := c.options(st)
		o.TickRate, o.LeaseTTL, o.ActionRetention = time.Hour, 12*time.Hour, 24*time.Hour
		e := c.silent(running(t, o))
		applied(t, e, nightly())
		old := triggered(t, e, "nightly")
		elapse(12 * time.Hour)
		young := triggered(t, e, "nightly")
		elapse(14 * time.Hour)
		_, err := e.Runs().Get(bg(), old)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Runs().Log(bg(), old, 0)
		require.ErrorIs(t, err, shell.ErrNotFound)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			_, err := tx.RunLog(old, 0)
			require.ErrorIs(t, err, store.ErrNotFound)
			return nil
		}))
		_, err = e.Runs().Log(bg(), young, 0)
		require.NoError(t, err)
	})
}

func TestALogIsKeptOfARunThatIsThereAndNoLongerThanItMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		e := c.use(running(t, c.options(inMemory(t))))
		applied(t, e, nightly())
		run := triggered(t, e, "nightly")
		text := []byte("said")
		require.NoError(t, e.Runs().PutLog(bg(), run, 0, text))
		text[0] = 'X'
		got, err := e.Runs().Log(bg(), run, 0)
		require.NoError(t, err)
		assert.Equal(t, "said", string(got))
		require.NoError(t, e.Runs().PutLog(bg(), run, 0, nil))
		got, err = e.Runs().Log(bg(), run, 0)
		require.NoError(t, err, "an empty one is one")
		assert.Empty(t, got)

		require.ErrorIs(t, e.Runs().PutLog(bg(), id(9), 0, text), shell.ErrNotFound)
		_, err = e.Runs().Log(bg(), id(9), 0)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Runs().Log(bg(), run, 1)
		require.ErrorIs(t, err, shell.ErrNotFound)
		var refusal *shell.Refusal
		require.ErrorAs(t, e.Runs().PutLog(bg(), run, 1, text), &refusal)
		assert.Equal(t, "attempt: 1 is to come: the run is at attempt 0", refusal.Reason)
		require.ErrorAs(t, e.Runs().PutLog(bg(), run, 0, make([]byte, shell.MaxRunLog+1)), &refusal)
		assert.Equal(t, "text: 4194305 bytes are more than 4194304: keep its head and its tail", refusal.Reason)
		ctx, cancel := context.WithCancel(bg())
		cancel()
		require.ErrorIs(t, e.Runs().PutLog(ctx, run, 0, text), context.Canceled)
	})
}

// Logs that are read slowly fill their own lane only.
func TestReadingLogsDelaysNoCreationAndNoDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.runFor = time.Second
		o := c.options(inMemory(t))
		o.DefaultConcurrency = 2
		e := c.use(running(t, o))
		release := c.hold(effects.FetchLogs{})
		spec := nightly()
		spec.ConstraintConfig = nil
		applied(t, e, spec)
		for range 4 {
			triggered(t, e, "nightly")
		}
		elapse(10 * time.Second)
		spec.ID, spec.Logs.Discard = "quick", true
		applied(t, e, spec)
		run := triggered(t, e, "quick")
		elapse(10 * time.Second)
		assert.Equal(t, core.OrchestratorCompleted, runOf(t, e, run).State)
		release()
		elapse(10 * time.Second)
		s, err := e.JobStats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 5, s.Runs[core.OrchestratorCompleted])
	})
}

func TestJobsAndRunsAreFoundByWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		e := c.use(running(t, c.options(inMemory(t))))
		first, second := nightly(), nightly()
		second.ID, second.Tenant, second.Labels = "report", "other", map[string]string{"team": "b"}
		applied(t, e, first)
		j := applied(t, e, second)
		assert.Equal(t, core.OverlapAllow, j.Overlap, "defaults are filled in")
		other := shell.Scope{Namespace: "ns", Tenant: "other"}
		_, err := e.Jobs().Send(bg(), other, "report", core.JobPause{Reason: "holidays"})
		require.NoError(t, err)
		run := triggered(t, e, "nightly")
		elapse(time.Second)
		made, err := e.Jobs().Trigger(bg(), other, "report", shell.TriggerOptions{By: "ann"})
		require.NoError(t, err, "by hand it runs though it is paused")
		_, err = e.Runs().Send(bg(), made.Run, core.OrchestratorCancel{Reason: "no"})
		require.NoError(t, err)
		elapse(time.Second)

		jobs := func(f shell.JobFilter) (ids []string) {
			list, _, err := e.Jobs().List(bg(), f, shell.Page{})
			require.NoError(t, err)
			for _, j := range list {
				ids = append(ids, j.ID)
			}
			return ids
		}
		yes, no := true, false
		assert.Equal(t, []string{"report", "nightly"}, jobs(shell.JobFilter{}))
		assert.Equal(t, []string{"report"}, jobs(shell.JobFilter{Paused: &yes}))
		assert.Equal(t, []string{"nightly"}, jobs(shell.JobFilter{Paused: &no, Labels: map[string]string{"team": "a"}}))
		assert.Empty(t, jobs(shell.JobFilter{Scope: &other, Paused: &no}))
		assert.Equal(t, []string{"report"}, jobs(shell.JobFilter{Labels: map[string]string{"team": "b"}}))

		runs := func(f shell.JobRunFilter) (ids []uuid.UUID) {
			list, _, err := e.Runs().List(bg(), f, shell.Page{})
			require.NoError(t, err)
			for _, r := range list {
				ids = append(ids, r.ID)
			}
			return ids
		}
		assert.Equal(t, []uuid.UUID{made.Run, run}, runs(shell.JobRunFilter{}))
		assert.Equal(t, []uuid.UUID{run}, runs(shell.JobRunFilter{Scope: &tenant, Job: "nightly"}))
		assert.Empty(t, runs(shell.JobRunFilter{Scope: &tenant, Job: "report"}))
		assert.Equal(t, []uuid.UUID{made.Run}, runs(shell.JobRunFilter{Status: core.OrchestratorCancelled}))
		assert.Empty(t, runs(shell.JobRunFilter{Scope: &tenant, Status: core.OrchestratorCancelled}))
		assert.Equal(t, []uuid.UUID{run}, runs(shell.JobRunFilter{InCluster: true}))
		_, _, err = e.Runs().List(bg(), shell.JobRunFilter{Job: "nightly"}, shell.Page{})
		require.ErrorContains(t, err, `JobRunFilter.Job is "nightly": it needs a Scope`)

		_, err = e.Jobs().Trigger(bg(), tenant, "none", shell.TriggerOptions{By: "ann"})
		require.ErrorIs(t, err, shell.ErrNotFound)
		bad := nightly()
		bad.Schedule = "61 * * * *"
		var refusal *shell.Refusal
		_, err = e.Jobs().Apply(bg(), bad)
		require.ErrorAs(t, err, &refusal)
		assert.Contains(t, refusal.Reason, "schedule")
	})
}
