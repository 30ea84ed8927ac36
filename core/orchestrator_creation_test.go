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

// told is a run after an event at a time, which it takes.
func told(t *testing.T, o core.Orchestrator, at core.Time, e core.OrchestratorEvent) core.Orchestrator {
	t.Helper()
	o, effs := o.Apply(e, core.Clock{Now: at})
	require.Nil(t, refusal(effs))
	return o
}

func creationOf(o core.Orchestrator) effects.CreateRun {
	for _, e := range core.Outstanding(o) {
		if e, ok := e.(effects.CreateRun); ok {
			return e
		}
	}
	return effects.CreateRun{}
}

// The time of the pod to start begins when the cluster is known to have something of it,
// by whichever way that is known first.
func TestTheTimeOfAPodToStartBeginsWhenItsJobExists(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating] // its pods have a minute to start
	asked := creating.CreationAskedAt
	answered := core.EffectDone{N: creationOf(creating).N, Result: json.RawMessage(`{"api_calls":1}`)}
	seen := core.PodCreated{Pod: core.Pod{Name: "p", Reason: "Pending"}}
	late := asked.Add(4 * time.Minute)
	for name, tc := range map[string]struct{ first, second core.OrchestratorEvent }{
		"answered, then seen": {answered, seen},
		"seen, then answered": {seen, answered},
	} {
		t.Run(name, func(t *testing.T) {
			o := told(t, creating, late, tc.first)
			assert.Equal(t, late, o.ThereAt)
			assert.Zero(t, o.CreateBy)
			o = told(t, o, late.Add(30*time.Second), tc.second)
			assert.Equal(t, late, o.ThereAt)
			assert.Equal(t, late.Add(time.Minute), o.Deadline())
			o = told(t, o, o.Deadline(), core.OrchestratorDue{})
			assert.Contains(t, o.Exit.Reason, "the pod did not start within 1m0s")
		})
	}
	unseen := told(t, told(t, creating, late, answered), late.Add(time.Minute), core.OrchestratorDue{})
	assert.Equal(t, "the pod did not start within 1m0s: Accepted: its runner has taken it, and told nothing of it yet", unseen.Exit.Reason)
	assert.Zero(t, unseen.Pod, "what was noted of no pod is none")
	runs := told(t, creating, late, core.PodRunning{Pod: podAt()})
	assert.Equal(t, late, runs.ThereAt)
	assert.EqualValues(t, late.Sub(asked)/time.Millisecond, runs.Metrics.PodStartLatencyMS, "whoever waits has waited from the beginning")
}

func TestAClusterThatIsNotReachedFailsTheAttemptWithThatReasonAndItIsTriedAgain(t *testing.T) {
	for limit, want := range map[int64]time.Duration{60_000: 5 * time.Minute, 900_000: 15 * time.Minute} {
		job := goldenJobSpec()
		job.PodStartTimeoutMS = limit
		creating := runPhases(job)[core.OrchestratorContainerCreating]
		by := creating.CreationAskedAt.Add(want)
		require.Equal(t, by, creating.Deadline())
		o := told(t, creating, by, core.OrchestratorDue{})
		assert.Equal(t, "the cluster was not reached within "+want.String()+": Asked: its runner has not answered yet", o.Exit.Reason)
		require.Len(t, core.Outstanding(o), 1)
		assert.IsType(t, effects.DeleteRun{}, core.Outstanding(o)[0], "it may be there all the same")
		o = told(t, o, by, core.EffectDone{N: core.Outstanding(o)[0].Number()})
		assert.Equal(t, core.OrchestratorRetrying, o.State)
		assert.Zero(t, o.CreateBy)
	}
}

// A run that asks again has not waited long for its cluster, nor has one that could not ask.
func TestTheClustersTimeToBeReachedBeginsAgainWithEachAsking(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	n, later := creationOf(creating).N, creating.Deadline().Add(20*time.Minute)
	for name, e := range map[string]core.OrchestratorEvent{
		"its holder is gone": core.EffectInterrupted{N: n, Reason: core.ReasonRecovered},
		"handed back":        core.EffectHandedBack{N: n},
		"nobody was there":   core.OrchestratorDue{},
	} {
		t.Run(name, func(t *testing.T) {
			o := told(t, creating, later, e)
			assert.Equal(t, core.OrchestratorContainerCreating, o.State)
			assert.Empty(t, o.Exit.To)
			assert.Equal(t, later.Add(5*time.Minute), o.Deadline())
		})
	}
	late := told(t, told(t, creating, later, core.OrchestratorDue{}), later.Add(time.Hour), core.OrchestratorDue{})
	assert.Equal(t, "the cluster was not reached in the 1h25m0s since its pod was asked for, at "+creating.CreationAskedAt.String()+
		": Asked: its runner has not answered yet", late.Exit.Reason, "a late due event puts it off once")

	interrupted := told(t, creating, later, core.EffectInterrupted{N: n, Reason: core.ReasonRecovered})
	interrupted = told(t, interrupted, interrupted.Deadline(), core.OrchestratorDue{})
	assert.Contains(t, interrupted.Exit.Reason, "the cluster was not reached in the 30m0s since its pod was asked for, at "+creating.CreationAskedAt.String(),
		"not within 5 minutes: they have begun anew")
}

// A look has found nothing of a pod that is only asked for: it may be made a moment later.
func TestALookDoesNotDecideWhetherTheClusterWasReached(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	by := creating.Deadline()
	o := told(t, creating, by, core.OrchestratorDue{Unseen: true})
	_, effs := o.Apply(core.OrchestratorDue{Seen: true}, core.Clock{Now: by.Add(time.Second)})
	require.NotNil(t, refusal(effs))
	o = told(t, o, by.Add(2*time.Second), core.EffectDone{N: creationOf(o).N})
	assert.Equal(t, by.Add(2*time.Second+time.Minute), o.Deadline())
}

// A replay of what an earlier build decided finds the same deadline and the same bytes.
func TestUnderEarlierRulesTheTimeOfAPodToStartBeginsAsItIsAskedFor(t *testing.T) {
	checking := runPhases(goldenJobSpec())[core.OrchestratorConditionRunning]
	clock := core.Clock{Now: start, Rules: 4}
	o, effs := checking.Apply(core.EffectDone{N: 1, Result: report(true)}, clock)
	require.Nil(t, refusal(effs))
	require.Equal(t, core.OrchestratorContainerCreating, o.State)
	assert.Equal(t, start.Add(time.Minute), o.Deadline())
	clock.Now = start.Add(30 * time.Second)
	o, effs = o.Apply(core.EffectDone{N: creationOf(o).N}, clock)
	require.Nil(t, refusal(effs))
	assert.Equal(t, start.Add(time.Minute), o.Deadline())
	assert.NotContains(t, string(o.AppendJSON(nil)), "there_at")
	assert.NotContains(t, string(o.AppendJSON(nil)), "create_by")
}
