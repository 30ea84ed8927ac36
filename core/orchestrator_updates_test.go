package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// updatesOf applies events and gives the updates that they announce.
func updatesOf(t *testing.T, o core.Orchestrator, events ...core.OrchestratorEvent) (out []core.JobRunUpdate, after core.Orchestrator) {
	t.Helper()
	clock := core.Clock{Now: start}
	for _, e := range events {
		if at := o.Deadline(); e.EventType() == "due" {
			clock.Now = max(clock.Now, at)
		}
		var effs []effects.Effect
		o, effs = o.Apply(e, clock)
		require.Nil(t, refusal(effs), "%v", effs)
		for _, said := range emitted(step{effs: effs}, "run:update") {
			var u core.JobRunUpdate
			require.NoError(t, json.Unmarshal(said.Data, &u))
			out = append(out, u)
		}
	}
	return out, o
}

func TestTheUpdatesOfARunHaveIdsThatAreTheSameOnlyForTheSameChange(t *testing.T) {
	job := goldenJobSpec()
	job.ConstraintConfig, job.Logs.Discard = nil, true
	events := []core.OrchestratorEvent{core.OrchestratorDue{}, core.OrchestratorAdmit{}}
	n := uint32(1)
	for attempt := range uint32(3) {
		events = append(events, core.EffectDone{N: n}, core.PodRunning{Attempt: attempt, Pod: podAt()}, core.PodEnded{Attempt: attempt, Pod: podAt(7)}, core.EffectDone{N: n + 1})
		if n += 2; attempt < 2 {
			events = append(events, core.OrchestratorDue{})
		}
	}
	created, _ := core.Orchestrator{}.Apply(core.OrchestratorCreate{Spec: runSpec(job, start)}, core.Clock{Now: start})
	updates, o := updatesOf(t, created, events...)
	require.Equal(t, core.OrchestratorFailed, o.State)

	var told []string
	ids := map[string]bool{}
	for _, u := range updates {
		ids[u.UpdateID.String()] = true
		told = append(told, fmt.Sprintf("%s %d: success %t, error %q, started %t, completed %t", u.Status, u.RetryAttempt, u.Success, u.Error, !u.StartedAt.IsZero(), !u.CompletedAt.IsZero()))
		assert.Equal(t, core.RunID("nightly", start), u.RunID)
		assert.Equal(t, "nightly", u.JobID)
		assert.Equal(t, start, u.ScheduledAt)
		assert.Equal(t, u.Status == core.OrchestratorFailed, u.ExitCode != nil)
	}
	assert.Equal(t, []string{
		`running 0: success false, error "", started true, completed false`,
		`pending 1: success false, error "exit code 7: Error", started false, completed false`,
		`running 1: success false, error "", started true, completed false`,
		`pending 2: success false, error "exit code 7: Error", started false, completed false`,
		`running 2: success false, error "", started true, completed false`,
		`failed 2: success false, error "exit code 7: Error", started true, completed true`,
	}, told)
	assert.Len(t, ids, len(updates), "each change has an id of its own")
	again, _ := updatesOf(t, created, events...)
	assert.Equal(t, updates, again)
	assert.Equal(t, updates, o.Updates(), "the state knows those of all attempts, in their order")
}

// Whoever missed an announcement is told of the change by the stored state (004
// JobStateSyncer): nothing of the present attempt is told otherwise, or left out.
func TestUpdatesThatAreMadeAgainFromTheStateAreThoseThatWereAnnounced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, clock := core.Orchestrator{}, core.Clock{Now: start}
		announced := map[uuid.UUID]core.JobRunUpdate{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock.Now = clock.Now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "seconds")) * time.Second)
			after, effs := o.Apply(drawRunEvent(t, o, clock).(core.OrchestratorEvent), clock)
			if o = after; !exists(o) {
				announced = map[uuid.UUID]core.JobRunUpdate{}
			}
			for _, said := range emitted(step{effs: effs}, "run:update") {
				var u core.JobRunUpdate
				require.NoError(t, json.Unmarshal(said.Data, &u))
				require.NotContains(t, announced, u.UpdateID)
				announced[u.UpdateID] = u
			}
			again := map[uuid.UUID]core.JobRunUpdate{}
			for _, u := range o.Updates() {
				again[u.UpdateID] = u
			}
			for id, u := range announced { // order-free: each by itself
				if made, known := again[id]; known || o.RetryAttempt-u.RetryAttempt <= core.MaxPastAttempts {
					require.Equal(t, u, made, "%s", encoded(o))
				}
			}
			require.LessOrEqual(t, len(again), len(announced))
		}
	})
}

func TestHowAnAdoptedPodEndedIsToldWhereItHasAnExitCode(t *testing.T) {
	orphan := runPhases(goldenJobSpec())[core.OrchestratorOrphaned]
	require.Equal(t, core.StepAdopted, orphan.Step)
	told, after := updatesOf(t, orphan, core.PodEnded{Pod: podAt(3)})
	require.Len(t, told, 1)
	assert.EqualValues(t, 3, *told[0].ExitCode)
	assert.Contains(t, after.Updates(), told[0])
	told, _ = updatesOf(t, orphan, core.PodEnded{Pod: core.Pod{Reason: "Evicted"}})
	assert.Empty(t, told, "the update of its end says all that is known")
}
