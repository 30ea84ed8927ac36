package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// everyRun gives a run of each of the 14 states. In two of them no run rests: they
// are passed within a transition. Here they are as a stored record could have them.
func everyRun() map[core.OrchestratorStatus]core.Orchestrator {
	job := goldenJobSpec()
	job.OrphanPolicy = core.OrphanDelete
	out := runPhases(job)
	checking, acting := out[core.OrchestratorConditionRunning], out[core.OrchestratorActionRunning]
	checking.PreviousState, checking.State = core.OrchestratorPending, core.OrchestratorConditionPending
	acting.PreviousState, acting.State = core.OrchestratorConditionRunning, core.OrchestratorActionPending
	out[checking.State], out[acting.State] = checking, acting
	return out
}

func TestEveryStateAndEventIsDecidedAsTheTableSays(t *testing.T) {
	runs := everyRun()
	var lines [][]byte
	for _, state := range core.OrchestratorStatuses() {
		before := runs[state]
		require.Equal(t, state, before.State)
		clock := core.Clock{Now: start.Add(time.Hour)}
		if at := before.Deadline(); !at.IsZero() {
			clock.Now = at
		}
		n := uint32(1)
		if open := core.Outstanding(before); len(open) > 0 {
			n = open[0].Number()
		}
		for _, e := range []core.Event{
			core.OrchestratorCreate{Spec: before.RunSpec}, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.OrchestratorConfigure{Config: before.Config},
			core.EffectDone{N: n, Result: report(true)}, core.EffectFailed{N: n, Reason: "no"}, core.EffectInterrupted{N: n}, core.EffectHandedBack{N: n},
			core.PodCreated{Pod: core.Pod{Name: "p"}}, core.PodRunning{Pod: podAt()}, core.PodEnded{Pod: podAt(0)}, core.PodLost{},
			core.OrchestratorCancel{}, core.OrchestratorAbandon{}, core.OrchestratorRetry{}, core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3}, core.OrchestratorHeartbeats{Sent: 1},
			core.ChildEnded{Child: core.JobRef("", "", "a"), Outcome: core.ChildRefused}, core.OrchestratorExpire{},
		} {
			after, effs := checkedApply(t, before, e, clock)
			path := []string{string(state)}
			for _, to := range entered(step{effs: effs}) {
				require.Contains(t, mapOf004[core.OrchestratorStatus(path[len(path)-1])], to, "%s × %s", state, e.EventType())
				path = append(path, string(to))
			}
			what := strings.Join(path, " → ")
			switch r := refusal(effs); {
			case r != nil:
				what += ", refused: " + string(r.Code)
			case !exists(after):
				what = "gone"
			case len(core.Outstanding(after)) > 0:
				what += ", waits for " + strings.TrimPrefix(fmt.Sprintf("%T", core.Outstanding(after)[0]), "effects.")
			}
			lines = append(lines, fmt.Appendf(nil, "%-18s × %-18s %s", state, e.EventType(), what))
		}
	}
	kinds := map[string]bool{}
	for _, e := range goldenRunEvents() {
		kinds[e.EventType()] = true
	}
	require.Len(t, lines, len(core.OrchestratorStatuses())*len(kinds), "every pair")
	golden(t, "orchestrator_table.txt", lines)
}

func TestARunIsRefusedWhereItIsNotThatOfItsJobAndTime(t *testing.T) {
	for want, change := range map[string]func(*core.RunSpec){
		"scheduled_at: missing":                 func(s *core.RunSpec) { s.ScheduledAt = 0 },
		`config: it is of job "nightly"`:        func(s *core.RunSpec) { s.JobID = "other" },
		"run_id: ":                              func(s *core.RunSpec) { s.RunID = "nightly:now" },
		"id: " + id(1).String() + " is not ":    func(s *core.RunSpec) { s.ID = id(1) },
		"pod_spec: missing: give a JSON object": func(s *core.RunSpec) { s.Config.PodSpec = nil },
	} {
		spec := runSpec(goldenJobSpec(), start)
		change(&spec)
		after, effs := core.Orchestrator{}.Apply(core.OrchestratorCreate{Spec: spec}, core.Clock{Now: start})
		require.NotNil(t, refusal(effs), want)
		assert.Contains(t, refusal(effs).Reason, want)
		assert.False(t, exists(after))
	}
	assert.Equal(t, "nightly:2026-02-10T14:00:00.000Z", core.RunID("nightly", start), `004: "jobID:timestamp"`)
}

func TestTheMetricsOfARunThatWasTriedTwiceHaveEveryFieldOf004(t *testing.T) {
	job := goldenJobSpec()
	now := start.Add(-30 * time.Second)
	o, _ := core.Orchestrator{}.Apply(core.OrchestratorCreate{Spec: runSpec(job, start)}, core.Clock{Now: now})
	var said []effects.Event
	then := func(after time.Duration, e core.OrchestratorEvent) {
		t.Helper()
		now = now.Add(after)
		var effs []effects.Effect
		o, effs = o.Apply(e, core.Clock{Now: now})
		require.Nil(t, refusal(effs), "%v", effs)
		said = append(said, emitted(step{effs: effs}, "run:metrics")...)
	}
	met := core.ConstraintCheck{Name: "a", Met: true}
	then(30*time.Second, core.OrchestratorDue{})
	then(5*time.Second, core.OrchestratorAdmit{Occurrence: id(5)})
	then(time.Second, core.EffectDone{N: 1, Result: report(true, met, violated(core.ActionRequest{Type: "webhook", ContinueOnError: true}))})
	then(time.Second, core.EffectFailed{N: 2, Reason: "503"})
	then(time.Second, core.EffectDone{N: 3, Result: json.RawMessage(`{"api_calls":2}`)})
	then(2*time.Second, core.PodRunning{Pod: core.Pod{Name: "p"}})
	then(10*time.Second, core.PodEnded{Pod: core.Pod{Name: "p", ExitCode: new(int32(1))}})
	then(time.Second, core.EffectDone{N: 4, Result: json.RawMessage(`{"api_calls":1,"logs":{"stored":true}}`)})
	then(time.Second, core.EffectDone{N: 5, Result: json.RawMessage(`{"api_calls":1}`)})
	then(time.Second, core.EffectDone{N: 6, Result: report(true)})
	require.Equal(t, core.OrchestratorRetrying, o.State)
	then(time.Second, core.OrchestratorDue{})
	then(time.Second, core.EffectDone{N: 7, Result: report(true, met)})
	then(4*time.Second, core.PodRunning{Attempt: 1, Pod: core.Pod{Name: "q"}})
	then(20*time.Second, core.PodEnded{Attempt: 1, Pod: core.Pod{Name: "q", ExitCode: new(int32)}})
	then(time.Second, core.EffectDone{N: 9, Result: json.RawMessage(`{"api_calls":1,"logs":{"stored":true}}`)})
	then(time.Second, core.EffectDone{N: 10, Result: json.RawMessage(`{"api_calls":1}`)})
	then(time.Second, core.EffectDone{N: 11, Result: report(true)})
	require.Equal(t, core.OrchestratorCompleted, o.State)
	require.Empty(t, said, "the heartbeats are missing yet")
	then(0, core.OrchestratorHeartbeats{Sent: 9})

	require.Len(t, said, 1)
	var got core.OrchestratorMetrics
	require.NoError(t, json.Unmarshal(said[0].Data, &got))
	zero := int32(0)
	assert.Equal(t, core.OrchestratorMetrics{
		RunID: core.RunID("nightly", start), JobID: "nightly", Namespace: "reports", Tenant: "tenant-1", ScheduledAt: start,
		PreRunDurationMS: 35_000, ConstraintCheckDurationMS: 5_000 + 5_000, ExecutionDurationMS: 10_000 + 20_000, TerminationDurationMS: 3_000 + 3_000,
		TotalDurationMS:    now.Sub(start.Add(-30 * time.Second)).Milliseconds(), // with the wait before the second attempt
		ConstraintsChecked: 3, ConstraintsViolated: 1, ActionsExecuted: 1, ActionsFailed: 1, RetryAttempt: 1, MaxRetries: 2,
		KubernetesAPICalls: 6, PodStartLatencyMS: 4_000, PodExitCode: &zero, HeartbeatsSent: 9, FinalState: core.OrchestratorCompleted, Success: true,
	}, got)
	reflected := reflect.TypeFor[core.OrchestratorMetrics]()
	for _, field := range []string{
		"RunID", "JobID", "ScheduledAt", "PreRunDuration", "ConstraintCheckDuration", "ExecutionDuration", "TerminationDuration", "TotalDuration",
		"ConstraintsChecked", "ConstraintsViolated", "ActionsExecuted", "ActionsFailed", "RetryAttempt", "MaxRetries", "KubernetesAPICalls",
		"PodStartLatency", "PodExitCode", "HeartbeatsSent", "FinalState", "Success", "ErrorMessage",
	} {
		_, plain := reflected.FieldByName(field)
		_, inMS := reflected.FieldByName(field + "MS")
		assert.True(t, plain || inMS, "004 has %s", field)
	}
}

func TestAnAnswerToACreationThatThePodHasOvertakenCountsItsCallsAndChangesNothingElse(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	n := core.Outstanding(creating)[0].Number()
	calls := json.RawMessage(`{"api_calls":3}`)
	running, effs := creating.Apply(core.PodRunning{Pod: podAt()}, core.Clock{Now: start})
	require.NotContains(t, effs, effects.Effect(effects.Withdraw{N: n}), "004 KubernetesAPICalls: its answer tells of them")
	want := running
	want.Pending.Open, want.Metrics.KubernetesAPICalls = nil, 3
	for name, answer := range map[string]core.OrchestratorEvent{
		"it was created": core.EffectDone{N: n, Result: calls},
		"a creation that timed out has created it":  core.EffectFailed{N: n, Reason: "time-out", Result: calls},
		"one that failed for good has created it":   core.EffectFailed{N: n, Reason: "no", Permanent: true, Result: calls},
		"one that was interrupted is not repeated":  core.EffectInterrupted{N: n, Reason: "crash"},
		"one that was handed back is not asked for": core.EffectHandedBack{N: n},
	} {
		after, effs := running.Apply(answer, core.Clock{Now: start})
		assert.Empty(t, effs, name)
		if _, told := answer.(core.EffectDone); !told && answer.EventType() != "effect_failed" {
			after.Metrics.KubernetesAPICalls = 3
		}
		after.UpdatedAt = want.UpdatedAt
		assert.Equal(t, want, after, name)
	}
	ended, effs := running.Apply(core.PodEnded{Pod: podAt(0)}, core.Clock{Now: start})
	assert.Contains(t, effs, effects.Effect(effects.Withdraw{N: n}), "a pod that has ended must not be created again")
	assert.Len(t, core.Outstanding(ended), 1)
}

func TestTheCallsOfARunAreCountedUpToWhatTheirNumberHolds(t *testing.T) {
	o := runPhases(goldenJobSpec())[core.OrchestratorTerminating]
	o, _ = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "no", Result: json.RawMessage(`{"api_calls":4294967295}`)}, core.Clock{Now: start})
	o, _ = o.Apply(core.EffectDone{N: core.Outstanding(o)[0].Number(), Result: json.RawMessage(`{"api_calls":4294967295}`)}, core.Clock{Now: start})
	assert.Equal(t, uint32(math.MaxUint32), o.Metrics.KubernetesAPICalls)
}

func TestARunThatItsJobDoesNotKnowIsCancelledInsteadOfWaitingForEver(t *testing.T) {
	job := core.JobSpec{ID: "nightly", PodSpec: json.RawMessage(`{}`), Overlap: core.OverlapReplace}
	spec := runSpec(job, start)
	ref := effects.Ref{Kind: core.KindOrchestrator, ID: spec.ID}
	w, seq := world{}, uint64(0)
	w.send(t, ref, core.OrchestratorCreate{Spec: spec}, start, &seq)
	w.fire(t, start, &seq)
	o := load[core.Orchestrator](w, core.KindOrchestrator)[ref]
	assert.Equal(t, core.OrchestratorCancelled, o.State)
	assert.Equal(t, "its job does not know it: job not found", o.Error)
	assert.True(t, o.Reported, "its metrics were handed over")
}

func TestAnActionThatIsRefusedFailsTheRunBeforeItsPodIsCreated(t *testing.T) {
	job := core.JobSpec{ID: "nightly", PodSpec: json.RawMessage(`{}`), ConstraintConfig: json.RawMessage(`{}`)}
	w, seq := world{}, uint64(0)
	key := core.JobRef("", "", "nightly")
	w.send(t, key, core.JobApply{Spec: job}, start, &seq)
	res := w.send(t, key, core.JobTrigger{}, start, &seq)
	ref := effects.Ref{Kind: core.KindOrchestrator, ID: res.Answer.(core.JobTriggered).Run}
	w.fire(t, start, &seq)
	seq++
	batch := core.NewBatch(w, core.Clock{Now: start}, seq)
	_, err := batch.Apply(core.Input{To: ref, Event: core.EffectDone{N: 1, Result: report(true, violated(core.ActionRequest{Type: core.ActionKickOffJob, Config: json.RawMessage(`{"job":"gone"}`)}))}})
	require.NoError(t, err)
	w.store(batch)
	o := load[core.Orchestrator](w, core.KindOrchestrator)[ref]
	assert.Equal(t, core.RunExit{To: core.OrchestratorFailed, Reason: "action kickOffJob of constraint timeWindow: job not found", Final: true}, o.Exit)
	for _, out := range batch.Outer() {
		_, creates := out.Effect.(effects.CreateRun)
		assert.False(t, creates, "it must not leave the process")
	}
	w.send(t, ref, core.EffectDone{N: core.Outstanding(o)[0].Number()}, start, &seq)
	o = load[core.Orchestrator](w, core.KindOrchestrator)[ref]
	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.EqualValues(t, 1, o.Metrics.ActionsFailed)
}

func TestAPodThatHasFailedSaysHow(t *testing.T) {
	job := byHand()
	running := madeRun(job, core.OrchestratorDue{}, core.OrchestratorAdmit{}, core.EffectDone{N: 1}, core.PodRunning{})
	zero, one := int32(0), int32(1)
	for want, pod := range map[string]core.Pod{
		"":                                   {ExitCode: &zero, Reason: "Completed"},
		"exit code 1":                        {ExitCode: &one},
		"exit code 1: OOMKilled":             {ExitCode: &one, Reason: "OOMKilled"},
		"exit code 1: Error: no such file":   {ExitCode: &one, Reason: "Error", Message: "no such file"},
		"Evicted: the node was low on disk":  {Reason: "Evicted", Message: "the node was low on disk"},
		"the pod ended without an exit code": {},
	} {
		after, effs := running.Apply(core.PodEnded{Pod: pod}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
		assert.Equal(t, want, after.Error)
	}
}

func TestAnActionIsInterruptedOnlySoOftenBeforeItHasFailed(t *testing.T) {
	o := runPhases(goldenJobSpec())[core.OrchestratorActionRunning]
	n := 0
	for ; o.State == core.OrchestratorActionRunning; n++ {
		var effs []effects.Effect
		o, effs = o.Apply(core.EffectInterrupted{N: core.Outstanding(o)[0].Number(), Reason: "crash"}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	assert.Equal(t, core.MaxEffectRepeats+1, n)
	assert.Equal(t, core.OrchestratorFailed, o.State)
	assert.Equal(t, "action webhook of constraint timeWindow: crash", o.Error)
}

func TestAnEvaluationThatIsTooLargeFailsTheRun(t *testing.T) {
	checking := runPhases(goldenJobSpec())[core.OrchestratorConditionRunning]
	check := violated(core.ActionRequest{Type: "log"}, core.ActionRequest{Type: "log"}, core.ActionRequest{Type: "log"})
	var fewer, more []core.ConstraintCheck
	for range core.MaxConstraints {
		fewer, more = append(fewer, check), append(more, core.ConstraintCheck{Met: true})
	}
	for want, checks := range map[string][]core.ConstraintCheck{
		"the constraints have 192 actions, more than 128": fewer,
		"the job has 65 constraints, more than 64":        append(more, core.ConstraintCheck{}),
	} {
		o, effs := checking.Apply(core.EffectDone{N: 1, Result: report(true, checks...)}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
		assert.Equal(t, core.OrchestratorFailed, o.State)
		assert.Equal(t, want, o.Error)
		assert.Len(t, o.Checks, core.MaxConstraints)
	}
}

// A due event that comes late says that nobody watched: the pod may have started in
// time. But a daemon that is late each time does not keep the run for ever.
func TestALateDueEventSparesAPodOnceAlone(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	creating, _ = creating.Apply(core.EffectDone{N: creationOf(creating).N}, core.Clock{Now: start})
	for _, row := range []struct {
		late, spared time.Duration
		rules        core.Rules
	}{
		{0, 0, 0},
		{time.Second, 0, 0},
		{time.Second + time.Millisecond, 10 * time.Second, 0},
		{10 * time.Second, 10 * time.Second, 0},
		{10*time.Second + time.Millisecond, time.Minute, 0},
		{time.Hour, time.Minute, 0},
		{10 * time.Second, 0, 5},
		{time.Hour, 30 * time.Second, 5},
	} {
		clock := core.Clock{Now: creating.Deadline().Add(row.late), Rules: row.rules}
		o, effs := creating.Apply(core.OrchestratorDue{}, clock)
		require.Nil(t, refusal(effs))
		if row.spared > 0 {
			require.Empty(t, effs)
			require.Equal(t, clock.Now.Add(row.spared), o.Deadline(), "late by %s", row.late)
			assert.Equal(t, row.rules == 0, strings.Contains(string(o.AppendJSON(nil)), "spared_ms"))
			clock.Now = o.Deadline().Add(time.Hour)
			o, effs = o.Apply(core.OrchestratorDue{}, clock)
			require.Nil(t, refusal(effs))
		}
		assert.Contains(t, o.Exit.Reason, "the pod did not start within 1m0s", "late by %s", row.late)
	}
}

// Whether a pod has started or ended in time, its runner alone can say: as long as it has not
// looked, no limit counts, however often its time comes. The waits grow, so that a long outage
// fills no journal, and end with the look.
func TestALimitOfAPodDoesNotCountBeforeItsRunnerHasLooked(t *testing.T) {
	there := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	there = told(t, there, start, core.EffectDone{N: creationOf(there).N})
	for _, rules := range []core.Rules{0, 5} {
		for state, o := range map[core.OrchestratorStatus]core.Orchestrator{
			core.OrchestratorContainerCreating: there,
			core.OrchestratorRunning:           limitedRun(t),
		} {
			waits := []int{60, 120, 240, 480, 600, 600} // seconds
			if rules != 0 {
				waits = []int{30, 30, 30}
			}
			for _, wait := range waits {
				at := o.Deadline()
				next, effs := o.Apply(core.OrchestratorDue{Unseen: true}, core.Clock{Now: at, Rules: rules})
				require.Nil(t, refusal(effs))
				require.Empty(t, effs)
				require.Equal(t, at.Add(time.Duration(wait)*time.Second), next.Deadline(), "strictly later: nobody is woken in a circle")
				o = next
			}
			for name, due := range map[string]struct {
				core.OrchestratorDue
				at core.Time
			}{"its time": {core.OrchestratorDue{}, o.Deadline()}, "the look": {core.OrchestratorDue{Seen: true}, o.SparedAt.Add(time.Second)}} {
				ended, effs := o.Apply(due.OrchestratorDue, core.Clock{Now: due.at})
				require.Nil(t, refusal(effs), name)
				require.NotEmpty(t, effs, "%s, %s: once it has looked, the limit counts", state, name)
				require.True(t, ended.Deadline().IsZero())

			}
		}
	}
	early := limitedRun(t)
	_, effs := early.Apply(core.OrchestratorDue{Seen: true}, core.Clock{Now: early.Deadline().Add(-time.Second)})
	assert.NotNil(t, refusal(effs), "a look brings no limit forward")
}

// limitedRun is a run whose pod runs, and has a limit.
func limitedRun(t *testing.T) core.Orchestrator {
	t.Helper()
	o := runPhases(goldenJobSpec())[core.OrchestratorRunning]
	o.MaxAllowedRunTimeMS = 60_000
	require.False(t, o.Deadline().IsZero())
	return o
}

// A runner without room is no pod that does not start.
func TestTheTimeOfAPodToStartDoesNotRunWhileItsRunnerHasNoRoom(t *testing.T) {
	creating := runPhases(goldenJobSpec())[core.OrchestratorContainerCreating]
	tell := func(o core.Orchestrator, at core.Time, e core.OrchestratorEvent) core.Orchestrator {
		t.Helper()
		o, effs := o.Apply(e, core.Clock{Now: at})
		require.Nil(t, refusal(effs))
		return o
	}
	asked := creating.CreationAskedAt
	waits := core.PodCreated{Attempt: creating.RetryAttempt, Pod: core.Pod{Name: "p", Reason: "Queued", Queued: true}}
	queued := tell(creating, asked.Add(time.Second), waits)
	assert.Zero(t, queued.Deadline())
	_, effs := queued.Apply(core.OrchestratorDue{}, core.Clock{Now: asked.Add(24 * time.Hour)})
	require.NotNil(t, refusal(effs))
	room := asked.Add(48 * time.Hour)
	waits.Pod = core.Pod{Name: "p"}
	made := tell(queued, room, waits)
	assert.Equal(t, room.Add(time.Minute), made.Deadline(), "as long as podStartTimeout, from then on")
	runs := tell(made, room.Add(2*time.Second), core.PodRunning{Attempt: creating.RetryAttempt, Pod: core.Pod{Name: "p", Queued: true}})
	assert.False(t, runs.Pod.Queued, "what runs does not wait")
	assert.EqualValues(t, 2000, runs.Metrics.PodStartLatencyMS, "the wait for room is no start")
	assert.Zero(t, tell(queued, room, core.PodRunning{Attempt: creating.RetryAttempt, Pod: podAt()}).RoomAt)
}

// E10, overlap: the runs that it replaces are about to end, however long they clean up.
func TestARunThatReplacesOthersWaitsForItsPlaceAsLongAsItTakes(t *testing.T) {
	for overlap, want := range map[core.OverlapPolicy]core.Time{
		core.OverlapForbid: start.Add(10 * time.Minute), core.OverlapAllow: start.Add(10 * time.Minute), core.OverlapReplace: 0,
	} {
		job := goldenJobSpec()
		job.Overlap = overlap
		assert.Equal(t, want, runPhases(job)[core.OrchestratorPending].Deadline(), overlap)
	}
}

// R15: where the checker cannot tell how long the pod may run, and the job says to go
// on, it is not bound by what an attempt before was told.
func TestTheLimitOfAnAttemptIsNotThatOfTheOneBefore(t *testing.T) {
	o := runPhases(goldenJobSpec())[core.OrchestratorRetrying]
	require.NotZero(t, o.MaxAllowedRunTimeMS)
	o, _ = o.Apply(core.OrchestratorRetry{}, core.Clock{Now: start})
	o, _ = o.Apply(core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "no"}, core.Clock{Now: start})
	assert.Equal(t, core.OrchestratorContainerCreating, o.State)
	assert.Zero(t, o.MaxAllowedRunTimeMS)
}

// The run that ends gives its place to one that it has just had cancelled, as the job
// cannot know yet: that one's occurrence is told nevertheless how it ended.
func TestAPlaceThatIsGivenToARunAsItIsCancelledIsSettled(t *testing.T) {
	for name, action := range map[string]core.ActionRequest{
		"killAll":   {Type: core.ActionKillAll},
		"cancelRun": {Type: core.ActionCancelRun, Config: json.RawMessage(`{"run_id":"nightly:2026-02-10T14:00:00.001Z"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			spec := byHand()
			spec.MaxConcurrentRuns, spec.ConstraintConfig = 1, json.RawMessage(`{}`)
			w, key, seq := jobWorld(t, spec)
			for range 2 {
				w.send(t, key, core.JobTrigger{}, start, &seq)
			}
			w.fire(t, start.Add(time.Second), &seq)
			active := load[core.Job](w, core.KindJob)[key].Active
			require.Equal(t, core.StageAsked, active[1].Stage)
			res := w.send(t, refOf(active[0].Run), core.EffectDone{N: 1, Result: report(false, violated(action))}, start.Add(time.Second), &seq)
			require.Nil(t, res.Refused)

			runs := load[core.Orchestrator](w, core.KindOrchestrator)
			assert.Equal(t, core.OrchestratorFailed, runs[refOf(active[0].Run)].State)
			assert.Equal(t, core.OrchestratorCancelled, runs[refOf(active[1].Run)].State)
			job := load[core.Job](w, core.KindJob)[key]
			assert.Empty(t, job.Active)
			assert.Equal(t, core.JobCounts{Dispatched: 2, Failed: 1, Cancelled: 1}, job.Counts)
			outcomes := map[uuid.UUID]string{}
			for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: by run
				outcomes[o.ActionID] = o.Outcome
			}
			assert.Equal(t, map[uuid.UUID]string{active[0].Run: "failed", active[1].Run: "cancelled"}, outcomes)
		})
	}
}
