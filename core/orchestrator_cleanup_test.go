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
