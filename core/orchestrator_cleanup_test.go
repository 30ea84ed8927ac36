package core_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A run is never cancelled while its pod may live: its deletion is tried again, at growing
// intervals, whatever the reason is that it fails, and the locks stay held.
func TestARunWhosePodCannotBeDeletedStaysUntilItIs(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		o := runPhases(goldenJobSpec())[core.OrchestratorRunning]
		o.Locks = []string{"db"}
		now := start
		o, _ = o.Apply(core.OrchestratorCancel{Reason: "not needed"}, core.Clock{Now: now})
		var told []effects.Event
		var waits []time.Duration
		for n := range uint32(40) {
			var effs []effects.Effect
			o, effs = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "forbidden", Permanent: permanent}, core.Clock{Now: now})
			told = append(told, emitted(step{effs: effs}, "run:cleanup_failed")...)
			require.Equal(t, core.OrchestratorRunning, o.State)
			require.Equal(t, core.RunCleanup{FailedSince: start, Failures: n + 1, Error: "forbidden", RetryAt: o.Deadline()}, o.Cleanup)
			require.Equal(t, []string{"db"}, o.Locks)
			require.Empty(t, core.Outstanding(o))
			waits, now = append(waits, o.Deadline().Sub(now)), o.Deadline()
			o, _ = o.Apply(core.OrchestratorDue{}, core.Clock{Now: now})
			require.Equal(t, []effects.Outer{effects.DeleteRun{N: o.Pending.Last, Logs: true}}, core.Outstanding(o))
		}
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}, waits[:8])
		assert.Equal(t, time.Minute, waits[39])
		require.Len(t, told, 1, "once for all failures in a row")
		assert.JSONEq(t, `{"error":"forbidden"}`, string(told[0].Data))

		o, effs := o.Apply(core.EffectDone{N: o.Pending.Last}, core.Clock{Now: now})
		assert.Equal(t, core.OrchestratorCancelled, o.State)
		assert.Len(t, emitted(step{effs: effs}, "run:cleaned_up"), 1)
		assert.Zero(t, o.Cleanup)
		assert.Zero(t, o.Deadline())
	}
}

// What fails for an hour is tried ever more rarely: a thousand such runs must not fill the
// journal.
func TestACleanupThatFailsForLongIsTriedEveryQuarterOfAnHour(t *testing.T) {
	for rules, most := range map[core.Rules]time.Duration{0: 15 * time.Minute, 5: time.Minute} {
		now := start
		clock := func() core.Clock { return core.Clock{Now: now, Rules: rules} }
		o, _ := runPhases(goldenJobSpec())[core.OrchestratorRunning].Apply(core.OrchestratorCancel{}, clock())
		var before time.Duration
		tries := 0
		for ; now < start.Add(24*time.Hour); tries++ {
			o, _ = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "forbidden"}, clock())
			wait := o.Cleanup.RetryAt.Sub(now)
			require.GreaterOrEqual(t, wait, before)
			require.LessOrEqual(t, wait, most)
			require.True(t, wait <= time.Minute || now.Sub(start) > time.Hour, "%s after %s", wait, now.Sub(start))
			before, now = wait, o.Deadline()
			o, _ = o.Apply(core.OrchestratorDue{}, clock())
		}
		assert.Equal(t, most, before)
		assert.Equal(t, rules == 0, tries < 180, "%d tries", tries)
	}
}

// The outcome of a run whose pod has ended waits for nothing: what is left is deleted after
// the run's end, and the run's record stays until it is.
func TestWhatIsLeftOfAPodThatHasEndedDoesNotHoldTheRunUp(t *testing.T) {
	job := byHand()
	job.Logs.Discard = true
	o := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.EffectDone{N: 1}, core.PodRunning{Pod: podAt()}, core.PodEnded{Pod: podAt(0)})
	o.Locks = []string{"db"}
	o, effs := o.Apply(core.EffectFailed{N: 2, Reason: "forbidden", Permanent: true}, core.Clock{Now: start})
	assert.Equal(t, core.OrchestratorCompleted, o.State)
	assert.True(t, o.InCluster)
	assert.Len(t, sends[core.LockRelease](step{effs: effs}), 1)
	_, ended := core.EndedAt(o)
	assert.True(t, ended, "callers that wait for the end hear of it")
	kept, effs := o.Apply(core.OrchestratorExpire{}, core.Clock{Now: start})
	assert.Equal(t, o, kept)
	assert.NotNil(t, refusal(effs))

	now := o.Deadline()
	assert.Equal(t, start.Add(time.Second), now)
	o, _ = o.Apply(core.OrchestratorDue{}, core.Clock{Now: now})
	assert.Equal(t, []effects.Outer{effects.DeleteRun{N: 3}}, core.Outstanding(o))
	o, effs = o.Apply(core.EffectDone{N: 3}, core.Clock{Now: now})
	assert.Equal(t, core.OrchestratorCompleted, o.State)
	assert.False(t, o.InCluster)
	assert.Len(t, emitted(step{effs: effs}, "run:cleaned_up"), 1)
	assert.Empty(t, sends[core.LockRelease](step{effs: effs}))
	gone, _ := o.Apply(core.OrchestratorExpire{}, core.Clock{Now: now})
	assert.Zero(t, gone.ID)
}

// An outage that is longer than the limit of an effect must not cost the logs of a pod that
// ended just before: it is there until it is deleted.
func TestLogsThatCouldNotBeFetchedAreReadByTheDeletion(t *testing.T) {
	job := byHand()
	ended := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.EffectDone{N: 1}, core.PodRunning{Pod: podAt()}, core.PodEnded{Pod: podAt(0)})
	unread := core.EffectFailed{N: 2, Reason: "i/o timeout"}
	o, _ := ended.Apply(unread, core.Clock{Now: start})
	assert.Equal(t, core.RunLogs{Error: "i/o timeout", ToRead: true}, o.Logs)
	now := start
	for n := range uint32(3) {
		require.Equal(t, []effects.Outer{effects.DeleteRun{N: 3 + n, Logs: true}}, core.Outstanding(o))
		o, _ = o.Apply(core.EffectFailed{N: 3 + n, Reason: "i/o timeout"}, core.Clock{Now: now})
		require.Equal(t, core.OrchestratorCompleted, o.State, "nobody has to wait for them")
		require.Empty(t, core.Outstanding(o), "not before its time")
		now = o.Deadline()
		o, _ = o.Apply(core.OrchestratorDue{}, core.Clock{Now: now})
	}
	read, _ := o.Apply(core.EffectDone{N: 6, Result: json.RawMessage(`{"logs":{"stored":true,"bytes":10}}`)}, core.Clock{Now: now})
	assert.Equal(t, core.RunLogs{Stored: true, Bytes: 10}, read.Logs)
	assert.False(t, read.InCluster)
	gone, _ := o.Apply(core.EffectDone{N: 6}, core.Clock{Now: now})
	assert.Equal(t, core.RunLogs{Error: "i/o timeout"}, gone.Logs, "there will be none")

	unread.Permanent = true
	o, _ = ended.Apply(unread, core.Clock{Now: start})
	assert.Equal(t, core.RunLogs{Error: "i/o timeout"}, o.Logs)
	assert.Equal(t, []effects.Outer{effects.DeleteRun{N: 3}}, core.Outstanding(o))
	unread.Permanent = false
	o, _ = ended.Apply(unread, core.Clock{Now: start, Rules: 5})
	assert.Equal(t, core.RunLogs{Error: "i/o timeout"}, o.Logs)
}

// An orphaned run that cannot delete its pod hears that it has ended: then nothing of it can
// run any more.
func TestAnOrphanedRunHearsOfTheEndOfAPodThatItCannotDelete(t *testing.T) {
	job := byHand()
	orphaned := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.EffectDone{N: 1}, core.PodRunning{Pod: podAt()}, core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3})
	orphaned.Locks = []string{"db"}
	failed := core.EffectFailed{N: 2, Reason: "forbidden", Permanent: true}
	ended := core.PodEnded{Pod: podAt(7)}
	for name, events := range map[string][]core.OrchestratorEvent{
		"before its next try":                      {failed, ended},
		"while it is deleted, and that then fails": {ended, failed},
	} {
		o, released := orphaned, 0
		for _, e := range events {
			var effs []effects.Effect
			o, effs = o.Apply(e, core.Clock{Now: start})
			require.Nil(t, refusal(effs), name)
			released += len(sends[core.LockRelease](step{effs: effs}))
		}
		assert.EqualValues(t, 7, *o.Pod.ExitCode, name)
		assert.Equal(t, 1, released, name)
		assert.Equal(t, []effects.Outer{effects.FetchLogs{N: 3}}, core.Outstanding(o), name)
		assert.True(t, o.InCluster, "what is left of it is deleted all the same")
		_, effs := o.Apply(ended, core.Clock{Now: start})
		assert.NotNil(t, refusal(effs), "once")
	}
	waits, _ := orphaned.Apply(failed, core.Clock{Now: start})
	_, effs := waits.Apply(ended, core.Clock{Now: start, Rules: 5})
	assert.NotNil(t, refusal(effs))
}

// A pod that no runner was asked for is not deleted: its runner may not even be configured.
func TestARunWhosePodWasNeverAskedForEndsWithoutADeletion(t *testing.T) {
	failed := core.EffectFailed{N: 1, Reason: "no runner", Permanent: true, Result: json.RawMessage(`{"not_created":true}`)}
	asked := madeRun(byHand(), core.OrchestratorDue{}, core.OrchestratorAdmit{})
	o, _ := asked.Apply(failed, core.Clock{Now: start})
	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.False(t, o.InCluster)

	repeated, _ := asked.Apply(core.EffectInterrupted{N: 1}, core.Clock{Now: start})
	failed.N = 2
	o, _ = repeated.Apply(failed, core.Clock{Now: start})
	assert.Equal(t, core.OrchestratorContainerCreating, o.State)
	assert.Equal(t, []effects.Outer{effects.DeleteRun{N: 3}}, core.Outstanding(o), "the creation that was interrupted may have made one")
}

// Builds before version 5 gave a deletion up: a replay of what they decided does so too.
func TestABuildBeforeVersion5GaveADeletionUp(t *testing.T) {
	before := core.Clock{Now: start, Rules: 4}
	o := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	o, _ = o.Apply(core.OrchestratorCancel{Reason: "not needed"}, before)
	var told []effects.Event
	n := 0
	for ; o.InCluster; n++ {
		var effs []effects.Effect
		o, effs = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "connection refused"}, before)
		told = append(told, emitted(step{effs: effs}, "run:cleanup_failed")...)
	}
	assert.Equal(t, core.MaxEffectRepeats+1, n)
	assert.Equal(t, core.OrchestratorCancelled, o.State)
	assert.Zero(t, o.Cleanup)
	require.Len(t, told, 1)

	running := runPhases(goldenJobSpec())[core.OrchestratorRunning]
	running, _ = running.Apply(core.OrchestratorCancel{}, before)
	assert.Equal(t, []effects.Outer{effects.FetchLogs{N: 3}}, core.Outstanding(running), "it fetched the logs before the deletion")
}

// failing is a run that cannot delete what it has in its cluster.
func failing(t *testing.T, o core.Orchestrator, events ...core.OrchestratorEvent) core.Orchestrator {
	t.Helper()
	for _, e := range events {
		var effs []effects.Effect
		o, effs = o.Apply(e, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	o, _ = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "its runner is gone", Permanent: true}, core.Clock{Now: start})
	require.True(t, o.Cleanup.Failing())
	return o
}

// An operator knows that a cluster is gone for good: the run ends, and never says that its
// pod is gone, nor makes another.
func TestARunWhoseCleanupIsAbandonedEndsAndSaysWhatItLeft(t *testing.T) {
	job := byHand()
	job.RetryConfig.MaxRetries = 1
	running := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.EffectDone{N: 1}, core.PodRunning{Pod: podAt()})
	creating := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{})
	running.Locks = []string{"db"}
	discards := running
	discards.Config.Logs.Discard = true
	for name, c := range map[string]struct {
		run   core.Orchestrator
		state core.OrchestratorStatus
		error string
	}{
		"cancelled": {failing(t, running, core.OrchestratorCancel{Reason: "not needed"}), core.OrchestratorCancelled, "abandoned: its pod orrery-1-0 may still run; not needed"},
		"it would make another attempt": {failing(t, running, core.PodLost{Reason: "the node is gone"}), core.OrchestratorFailed,
			"abandoned: its pod orrery-1-0 may still run; the node is gone"},
		"its pod was only asked for": {failing(t, creating, core.EffectFailed{N: 1, Reason: "no answer"}), core.OrchestratorFailed,
			"abandoned: its pod may still run; creating the pod: no answer"},
		"orphaned": {failing(t, running, core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3}), core.OrchestratorOrphaned,
			"abandoned: its pod orrery-1-0 may still run; no heartbeat since 2026-02-10T14:00:00.000Z: 3 were missed"},
		"its pod has ended":                      {failing(t, discards, core.PodEnded{Pod: podAt(0)}), core.OrchestratorCompleted, ""},
		"its pod has ended, and another follows": {failing(t, discards, core.PodEnded{Pod: podAt(1)}), core.OrchestratorRetrying, "exit code 1: Error"},
	} {
		tried, _ := c.run.Apply(core.OrchestratorDue{}, core.Clock{Now: c.run.Deadline()})
		for what, before := range map[string]core.Orchestrator{name: c.run, name + ", while it is tried again": tried} {
			now := start.Add(time.Minute)
			o, effs := before.Apply(core.OrchestratorAbandon{Reason: "the cluster is gone"}, core.Clock{Now: now})
			require.Nil(t, refusal(effs), what)
			assert.Equal(t, c.state, o.State, what)
			assert.Equal(t, c.error, o.Error, what)
			assert.False(t, o.InCluster || o.Cleanup.Failing(), what)
			assert.Equal(t, now, o.Cleanup.AbandonedAt, "it keeps saying so: %s", what)
			assert.Equal(t, "its runner is gone", o.Cleanup.Error, what)
			assert.Empty(t, core.Outstanding(o), what)
			assert.Len(t, emitted(step{effs: effs}, "run:cleanup_abandoned"), 1, what)
			assert.True(t, len(o.Locks) == 0 || o.State == core.OrchestratorRetrying, what)
			if o.State.Terminal() {
				_, effs = o.Apply(core.OrchestratorAbandon{}, core.Clock{Now: now})
				assert.Contains(t, refusal(effs).Reason, "was abandoned already, at 2026-02-10T14:01:00.000Z")
				gone, _ := o.Apply(core.OrchestratorExpire{}, core.Clock{Now: now})
				assert.Zero(t, gone.ID, "nothing keeps its record")
			}
		}
	}
	limited := failing(t, runPhases(goldenJobSpec())[core.OrchestratorRunning], core.PodLost{Reason: "the node is gone"})
	o, _ := limited.Apply(core.OrchestratorAbandon{}, core.Clock{Now: start})
	require.Equal(t, core.StepChecking, o.Step, "its post-execution constraints are checked as ever")
	o, _ = o.Apply(core.EffectDone{N: core.Outstanding(o)[0].Number(), Result: report(false, violated(core.ActionRequest{Type: core.ActionRetryRun}))}, core.Clock{Now: start})
	assert.Equal(t, core.OrchestratorFailed, o.State, "whatever they demand, there is no second pod")
	assert.Equal(t, "abandoned: its pod orrery-1-0 may still run; the node is gone", o.Error)
}

func TestOnlyACleanupThatFailsCanBeAbandoned(t *testing.T) {
	phases := runPhases(goldenJobSpec())
	cancelling, _ := phases[core.OrchestratorRunning].Apply(core.OrchestratorCancel{}, core.Clock{Now: start})
	for want, o := range map[string]core.Orchestrator{
		"is running: cancel it first; it can be abandoned once its pod cannot be deleted":              phases[core.OrchestratorRunning],
		"is completed, and has nothing in a cluster: there is nothing to abandon":                      phases[core.OrchestratorCompleted],
		"is orphaned: cancel it first; it can be abandoned once its pod cannot be deleted":             phases[core.OrchestratorOrphaned],
		"is being cleaned up, and that has not failed: it can be abandoned once a deletion has failed": cancelling,
	} {
		after, effs := o.Apply(core.OrchestratorAbandon{}, core.Clock{Now: start})
		require.NotNil(t, refusal(effs))
		assert.Contains(t, refusal(effs).Reason, want)
		assert.Equal(t, o, after)
	}
}
