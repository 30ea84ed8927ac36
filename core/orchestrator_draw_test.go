package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func drawJobSpec(t *rapid.T) core.JobSpec {
	config := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage(` {"a": "<"} `)})
	s := core.JobSpec{
		ID: rapid.SampledFrom([]string{"nightly", "nightly", "report"}).Draw(t, "id"), PodSpec: json.RawMessage(` {"containers": []}`),
		Schedule:         rapid.SampledFrom([]string{"", "* * * * *", "*/10 * * * * *", "0 3 * * *", "@every 90s", "* * * * * *"}).Draw(t, "schedule"),
		ConstraintConfig: config.Draw(t, "constraint_config"), ActionConfig: config.Draw(t, "action_config"),
		RetryConfig: core.RetryConfig{
			MaxRetries: rapid.SampledFrom([]uint32{0, 0, 1, 3}).Draw(t, "max_retries"), InitialDelayMS: rapid.SampledFrom([]int64{0, 1, 1000}).Draw(t, "delay"),
			BackoffMultiplier: rapid.SampledFrom([]core.Multiplier{0, 1, 1_500_000, 1_000_000_000}).Draw(t, "multiplier"), MaxDelayMS: rapid.SampledFrom([]int64{0, 1, 60_000}).Draw(t, "max_delay"),
		},
		Overlap: rapid.SampledFrom([]core.OverlapPolicy{
			"", core.OverlapAllow, core.OverlapForbid, core.OverlapReplace, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapTerminateOther,
		}).Draw(t, "overlap"),
		MaxConcurrentRuns: rapid.SampledFrom([]uint32{0, 1, 2}).Draw(t, "max_concurrent_runs"), StartDeadlineSeconds: rapid.SampledFrom([]int64{0, 1, 3600}).Draw(t, "start_deadline"),
		OrphanPolicy:     rapid.SampledFrom([]core.OrphanPolicy{"", core.OrphanAdopt}).Draw(t, "orphan_policy"),
		ConstraintErrors: rapid.SampledFrom([]core.ErrorPolicy{"", core.FailOpen}).Draw(t, "constraint_errors"), CreateAheadMS: rapid.SampledFrom([]int64{0, 1, 3_600_000}).Draw(t, "create_ahead"),
		Logs: core.LogPolicy{Discard: rapid.IntRange(0, 3).Draw(t, "discard") == 0},
	}
	s.Missed = rapid.SampledFrom([]core.MissedPolicy{"", core.MissedSkip, core.MissedLatest, core.MissedAll}).Draw(t, "missed")
	s.CatchUpSeconds = rapid.SampledFrom([]int64{0, 0, 600}).Draw(t, "window")
	s.CatchUpLimit = rapid.SampledFrom([]uint32{0, 1, 3}).Draw(t, "catch_up")
	s.CatchUpSpacingSeconds = rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "spacing")
	s.BufferLimit = rapid.SampledFrom([]uint32{0, 1, 2}).Draw(t, "buffer")
	s.MaxWaitSeconds = rapid.SampledFrom([]int64{0, 0, 30}).Draw(t, "max_wait")
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { s.ID = "a:b" },
			func() { s.ID = "" },
			func() { s.PodSpec = json.RawMessage("[") },
			func() { s.PodSpec = json.RawMessage(`"` + strings.Repeat("a", core.MaxPodSpecBytes) + `"`) },
			func() { s.ConstraintConfig = json.RawMessage("[]") },
			func() { s.Schedule = "61 * * * *" },
			func() { s.Schedule = "0 0 30 2 *" },
			func() { s.Timezone = "Mars/Olympus" },
			func() { s.Overlap = "pray" },
			func() { s.Name = "\xff" },
			func() { s.MaxConcurrentRuns = math.MaxUint32 },
			func() { s.RetryConfig.MaxRetries = math.MaxUint32 },
			func() { s.RetryConfig.BackoffMultiplier = -1 },
			func() { s.CreateAheadMS = -1 },
			func() { s.PodStartTimeoutMS = math.MaxInt64 },
			func() { s.Labels = map[string]string{"": "a"} },
			func() { s.Logs.TailBytes = -1 },
		}).Draw(t, "oddity")()
	}
	return s
}

func drawPod(t *rapid.T) core.Pod {
	return core.Pod{
		Name: drawText(t, "name"), Reason: rapid.SampledFrom([]string{"", "", "OOMKilled", "\xff"}).Draw(t, "reason"), Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "message"),
		ExitCode:  maybe(t, "exit_code", func() int32 { return rapid.SampledFrom([]int32{0, 0, 1, 137, -1}).Draw(t, "exit_code") }),
		StartedAt: rapid.SampledFrom([]core.Time{0, start, -1, math.MaxInt64}).Draw(t, "started_at"),
		Queued:    rapid.IntRange(0, 3).Draw(t, "queued") == 0,
	}
}

func drawReport(t *rapid.T) json.RawMessage {
	if rapid.IntRange(0, 9).Draw(t, "odd report") == 0 {
		return drawJSON(t, "report")
	}
	r := core.ConstraintReport{ShouldProceed: rapid.IntRange(0, 3).Draw(t, "proceed") > 0, MaxAllowedRunTimeMS: rapid.SampledFrom([]int64{0, 1, 60_000, math.MaxInt64, -1}).Draw(t, "max_allowed")}
	r.Locks = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "größe", "", "\xff", "a\n"}), 0, 4).Draw(t, "locks")
	if rapid.IntRange(0, 19).Draw(t, "many locks") == 0 {
		for n := range core.MaxRunLocks + 1 {
			r.Locks = append(r.Locks, fmt.Sprint(n))
		}
	}
	for range rapid.SampledFrom([]int{0, 1, 2, 2, core.MaxConstraints + 1}).Draw(t, "checks") {
		check := core.ConstraintCheck{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Met: rapid.Bool().Draw(t, "met")}
		for range rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "actions") {
			check.Actions = append(check.Actions, core.ActionRequest{
				Type: rapid.SampledFrom([]string{
					"webhook", "webhook", "log", core.ActionSkip, core.ActionFailRun, core.ActionRetryRun, core.ActionSkipNext, core.ActionKickOffJob, core.ActionCancelRun,
					core.ActionKillLatest, core.ActionKillAll, core.ActionEnqueue, core.ActionStartPipeline, "",
				}).Draw(t, "type"),
				Config: rapid.SampledFrom([]json.RawMessage{
					nil, json.RawMessage(`{"job":"nightly","run_id":"r","queue":"q","reason":"<r>"}`), json.RawMessage(` {"job": 1}`), json.RawMessage(`[]`),
				}).Draw(t, "config"),
				ContinueOnError: rapid.Bool().Draw(t, "continue"),
			})
		}
		r.Checks = append(r.Checks, check)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drawRunAnswer answers what a run waits for, mostly as it expects.
func drawRunAnswer(t *rapid.T, o core.Orchestrator) core.Event {
	open := core.Outstanding(o)
	if len(open) == 0 || rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return drawAnswer(t, o)
	}
	return drawDone(t, open[0])
}

func drawDone(t *rapid.T, e effects.Outer) core.Event {
	switch e.(type) {
	case effects.CheckConstraints:
		return core.EffectDone{N: e.Number(), Result: drawReport(t)}
	case effects.FetchLogs, effects.DeleteRun:
		return core.EffectDone{N: e.Number(), Result: json.RawMessage(`{"api_calls": 1, "logs": {"stored": true, "bytes": 5}}`)}
	}
	return core.EffectDone{N: e.Number(), Result: json.RawMessage(`{"api_calls": 4294967295}`)}
}

func drawRunSpec(t *rapid.T, c core.Clock) core.RunSpec {
	s := runSpec(drawJobSpec(t), c.Now.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 30, -60, -7200}).Draw(t, "ahead"))*time.Second))
	s.Manual = rapid.IntRange(0, 3).Draw(t, "manual") == 0
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { s.ID = id(9) }, func() { s.RunID = "a" }, func() { s.JobID = "b" }, func() { s.ScheduledAt = 0 },
		}).Draw(t, "oddity")()
	}
	return s
}

func drawRunEvent(t *rapid.T, state core.State, c core.Clock) core.Event {
	o := state.(core.Orchestrator)
	if !exists(o) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.OrchestratorCreate{Spec: drawRunSpec(t, c)}
	}
	attempt := rapid.SampledFrom([]uint32{o.RetryAttempt, o.RetryAttempt, o.RetryAttempt, o.RetryAttempt + 1, 0}).Draw(t, "attempt")
	events := []string{"due", "due", "answer", "answer", "answer", "answer", "created", "running", "running", "ended", "ended", "lost", "cancel", "abandon", "abandon", "retry", "orphan", "configure", "heartbeats", "child", "expire", "create"}
	if o.State == core.OrchestratorPending || rapid.IntRange(0, 9).Draw(t, "stray admit") == 0 {
		events = []string{"admit", "admit", "due"}
	}
	switch rapid.SampledFrom(events).Draw(t, "event") {
	case "due":
		return core.OrchestratorDue{Unseen: rapid.IntRange(0, 3).Draw(t, "unseen") == 0, Seen: rapid.IntRange(0, 3).Draw(t, "seen") == 0}
	case "admit":
		return core.OrchestratorAdmit{Occurrence: drawID(t, "occurrence")}
	case "answer":
		return drawRunAnswer(t, o)
	case "created":
		return core.PodCreated{Attempt: attempt, Pod: drawPod(t)}
	case "running":
		return core.PodRunning{Attempt: attempt, Pod: drawPod(t)}
	case "ended":
		return core.PodEnded{Attempt: attempt, Pod: drawPod(t)}
	case "lost":
		return core.PodLost{Attempt: attempt, Reason: drawText(t, "reason"), Refused: rapid.Bool().Draw(t, "refused"), Final: rapid.Bool().Draw(t, "final")}
	case "cancel":
		return core.OrchestratorCancel{Reason: drawText(t, "reason")}
	case "abandon":
		return core.OrchestratorAbandon{Reason: drawText(t, "reason")}
	case "retry":
		return core.OrchestratorRetry{}
	case "orphan":
		return core.OrchestratorOrphan{LastHeartbeat: drawTime(t, c), Missed: 3}
	case "configure":
		spec := drawJobSpec(t)
		spec.ID = rapid.SampledFrom([]string{o.JobID, o.JobID, "other"}).Draw(t, "job")
		return core.OrchestratorConfigure{Config: spec}
	case "heartbeats":
		return core.OrchestratorHeartbeats{Sent: rapid.Uint64().Draw(t, "sent")}
	case "child":
		return core.ChildEnded{
			Child: core.JobRef("", "", "nightly"), N: rapid.SampledFrom([]uint32{0, 1, o.Metrics.ActionsExecuted, math.MaxUint32}).Draw(t, "n"),
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildRefused, core.ChildRefused, core.ChildSucceeded, "lost"}).Draw(t, "outcome"), Reason: drawText(t, "reason"),
		}
	case "expire":
		return core.OrchestratorExpire{}
	}
	return core.OrchestratorCreate{Spec: drawRunSpec(t, c), Owner: drawOwner(t)}
}

func hostileRun(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 0, 1, math.MaxUint32}).Draw(t, label)
	}
	spec := drawRunSpec(t, c)
	if rapid.Bool().Draw(t, "exists") && spec.ID == uuid.Nil {
		spec.ID = id(1)
	}
	asked := drawPending(t)
	asked.Open = rapid.SliceOfN(rapid.SampledFrom([]core.PendingEffect{
		{Effect: effects.CheckConstraints{N: 1}}, {Effect: effects.TakeAction{N: 1}}, {Effect: effects.CreateRun{N: 1}}, {Effect: effects.FetchLogs{N: 1}}, {Effect: effects.DeleteRun{N: 1}}, {Effect: effects.DeleteRun{N: 1, Logs: true}}, {Effect: effects.Kill{N: 1}},
	}), 0, 3).Draw(t, "open")
	return core.Orchestrator{
		RunSpec: spec, Pending: asked,
		State:         rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "odd")).Draw(t, "state"),
		PreviousState: rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "odd")).Draw(t, "previous_state"),
		RetryAttempt:  count("attempt"), Admitted: rapid.Bool().Draw(t, "admitted"), InCluster: rapid.Bool().Draw(t, "in_cluster"), Repeats: count("repeats"),
		Step: rapid.SampledFrom([]core.RunStep{core.StepNone, core.StepLogs, core.StepChecking, core.StepActing, core.StepDeleting, core.StepAdopted, "odd"}).Draw(t, "step"),
		Cleanup: core.RunCleanup{
			FailedSince: rapid.SampledFrom([]core.Time{0, 0, start, math.MinInt64}).Draw(t, "failed_since"), Failures: count("failures"),
			RetryAt: rapid.SampledFrom([]core.Time{0, 0, start, -1, math.MaxInt64}).Draw(t, "cleanup_at"),
		},
		Exit:      core.RunExit{To: rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "", "", "odd")).Draw(t, "leaving")},
		Actions:   rapid.SliceOfN(rapid.Just(core.ActionRecord{N: 1}), 0, 2).Draw(t, "actions"),
		ToTake:    rapid.SliceOfN(rapid.SampledFrom([]core.ActionRequest{{Type: "webhook"}, {Type: core.ActionSkip}, {Type: core.ActionKickOffJob, Config: json.RawMessage("{")}}), 0, 2).Draw(t, "to_take"),
		Decision:  core.Decision{Verdict: rapid.SampledFrom([]core.RunVerdict{"", "odd", core.RunFail, core.RunSkip, core.RunRetry, core.RunStop, core.RunProceed}).Draw(t, "verdict")},
		Locks:     rapid.SliceOfN(rapid.SampledFrom([]string{"a", "", "\xff", strings.Repeat("l", 1000)}), 0, 100).Draw(t, "locks"),
		CreatedAt: drawTime(t, c), CreationAskedAt: drawTime(t, c), ExecutionStartedAt: drawTime(t, c), ExecutionEndedAt: drawTime(t, c), RetryAt: drawTime(t, c), SparedAt: drawTime(t, c),
		SparedMS:            rapid.SampledFrom([]int64{0, 10_000, 600_000, math.MaxInt64, math.MinInt64}).Draw(t, "spared"),
		MaxAllowedRunTimeMS: rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64}).Draw(t, "max_allowed"),
		Metrics:             core.OrchestratorMetrics{KubernetesAPICalls: count("calls"), ActionsExecuted: count("executed")},
	}
}
