package core

import (
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// podCreated takes what is known of a pod that does not run yet.
func (o Orchestrator) podCreated(e PodCreated, c Clock) (Orchestrator, []effects.Effect) {
	pod := e.Pod.bounded()
	if o.State != OrchestratorContainerCreating || e.Attempt != o.RetryAttempt || o.Pod == pod {
		return o, o.refuseNow(e)
	}
	o.Pod, o.UpdatedAt = pod, c.Now
	return o, nil
}

// podRunning: container_creating → running.
func (o Orchestrator) podRunning(e PodRunning, c Clock) (Orchestrator, []effects.Effect) {
	if o.State != OrchestratorContainerCreating || e.Attempt != o.RetryAttempt || o.Leaving.To != "" {
		return o, o.refuseNow(e)
	}
	o.Pod = e.Pod.bounded()
	return o.run(nil, c)
}

func (o Orchestrator) run(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.ExecutionStartedAt = c.Now
	o.Metrics.PodStartLatencyMS = betweenMS(o.CreationAskedAt, c.Now)
	o, effs = o.to(OrchestratorRunning, effs, c)
	return o, append(effs, o.update("started"))
}

// podEnded: running → terminating. A pod that nobody saw running has run.
func (o Orchestrator) podEnded(e PodEnded, c Clock) (Orchestrator, []effects.Effect) {
	here := o.State == OrchestratorContainerCreating || o.State == OrchestratorRunning
	if !here || e.Attempt != o.RetryAttempt || o.Leaving.To != "" {
		return o, o.refuseNow(e)
	}
	var effs []effects.Effect
	o.Pod = e.Pod.bounded()
	if o.State == OrchestratorContainerCreating {
		o, effs = o.run(nil, c)
	}
	return o.terminate(o.Pod.failure(), effs, c)
}

// failure says how a pod that has ended failed; empty: it did not.
func (p Pod) failure() string {
	why := p.why()
	switch {
	case p.ExitCode == nil && why == "":
		return "the pod ended without an exit code"
	case p.ExitCode == nil:
		return why
	case *p.ExitCode == 0:
		return ""
	case why == "":
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	return firstText(fmt.Sprintf("exit code %d: %s", *p.ExitCode, why))
}

// podLost: the pod is gone, and nobody knows how it would have ended.
func (o Orchestrator) podLost(e PodLost, c Clock) (Orchestrator, []effects.Effect) {
	if e.Attempt != o.RetryAttempt || o.Leaving.To != "" {
		return o, o.refuseNow(e)
	}
	reason := boundedReason(e.Reason, "the pod is gone")
	switch o.State {
	case OrchestratorContainerCreating:
		return o.fail(reason, false, nil, c)
	case OrchestratorRunning:
		o.Logs.Error = "the pod is gone"
		return o.terminate(reason, nil, c)
	}
	return o, o.refuseNow(e)
}

// overrun: the pod has run for longer than it may (R15): running → terminating,
// where it is killed.
func (o Orchestrator) overrun(c Clock) (Orchestrator, []effects.Effect) {
	return o.terminate("it ran for longer than maxAllowedRunTime, "+lengthText(o.MaxAllowedRunTimeMS), nil, c)
}

// terminate: running → terminating. First what the pod wrote is fetched, then it
// is deleted, then the constraints are checked.
func (o Orchestrator) terminate(failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.Error, o.ExecutionEndedAt = failure, c.Now
	o, effs = o.to(OrchestratorTerminating, effs, c)
	return o.fetchLogs(effs)
}

// fetchLogs asks for what the pod wrote, where that is wanted and there may be
// some; then what is in the cluster is deleted.
func (o Orchestrator) fetchLogs(effs []effects.Effect) (Orchestrator, []effects.Effect) {
	if o.Config.Logs.Discard || o.Logs.Stored || o.Logs.Error != "" || o.ExecutionStartedAt.IsZero() {
		return o.cleanUp(effs)
	}
	o.Step = StepLogs
	return o.ask(effects.FetchLogs{N: o.Asked.next(), Attempt: o.RetryAttempt}, effs)
}

func (o Orchestrator) cleanUp(effs []effects.Effect) (Orchestrator, []effects.Effect) {
	o.Step = StepDeleting
	return o.ask(effects.DeleteRun{N: o.Asked.next(), Attempt: o.RetryAttempt}, effs)
}

// cleaned: nothing is left in the cluster.
func (o Orchestrator) cleaned(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.InCluster, o.Step, o.UpdatedAt = false, StepNone, c.Now
	switch {
	case o.State.Terminal():
		return o, effs
	case o.Leaving.To != "":
		return o.arrive(effs, c)
	case len(o.Config.ConstraintConfig) == 0:
		return o.finish(effs, c)
	}
	o.Step = StepChecking
	return o.ask(effects.CheckConstraints{N: o.Asked.next(), Phase: effects.CheckPost}, effs)
}

// fail ends the attempt: another follows while one remains, unless this is final.
func (o Orchestrator) fail(reason string, final bool, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	return o.leave(Leaving{To: OrchestratorFailed, Reason: reason, Final: final}, effs, c)
}

// leave goes to an end, or to the next attempt, once nothing is left in the
// cluster.
func (o Orchestrator) leave(l Leaving, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	asked, withdrawn := o.Asked.withdrawn()
	o.Asked, o.Leaving, o.ToTake, o.UpdatedAt = asked, l, nil, c.Now
	effs = append(effs, withdrawn...)
	if !o.InCluster {
		return o.arrive(effs, c)
	}
	return o.fetchLogs(effs)
}

// arrive goes where the run was about to go.
func (o Orchestrator) arrive(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	l := o.Leaving
	o.Leaving, o.Error = Leaving{}, l.Reason
	if l.To == OrchestratorFailed {
		return o.failed(l.Final, effs, c)
	}
	return o.end(l.To, effs, c)
}

// failed: → retrying while an attempt remains, and else → failed. Where the map
// knows no way to retrying, nothing was tried yet.
func (o Orchestrator) failed(final bool, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if final || !o.Config.RetryConfig.ShouldRetry(o.RetryAttempt) {
		return o.end(OrchestratorFailed, effs, c)
	}
	if _, err := o.transitionTo(OrchestratorRetrying); err != nil {
		return o.end(OrchestratorFailed, effs, c)
	}
	o.RetryAt = laterMS(c.Now, o.Config.RetryConfig.Delay(o.RetryAttempt))
	o.Step = StepNone
	return o.to(OrchestratorRetrying, effs, c)
}

// finish: terminating → completed, failed or retrying.
func (o Orchestrator) finish(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.Step = StepNone
	switch d := o.Decision; d.Verdict {
	case RunFail:
		o.Error = reasonOr(d.Reason, "an action of a constraint failed it")
		return o.failed(true, effs, c)
	case RunRetry, RunStop:
		if o.Error == "" {
			o.Error = reasonOr(d.Reason, "a post-execution constraint is violated")
		}
	case RunSkip, RunProceed, "":
	}
	if o.Error != "" {
		return o.failed(false, effs, c)
	}
	return o.end(OrchestratorCompleted, effs, c)
}

// end: → a terminal state. Job, scheduler and bus are told.
func (o Orchestrator) end(state OrchestratorStatus, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.CompletedAt, o.Leaving, o.ToTake = c.Now, Leaving{}, nil
	o, effs = o.to(state, effs, c)
	o.Metrics = o.measured()
	effs = append(effs, o.update("ended"), effects.Send{To: o.job(), Event: JobRunEnded{
		Run: o.ID, RunID: o.RunID, State: o.State, ScheduledAt: o.ScheduledAt, ExitCode: o.Pod.ExitCode, Error: o.Error,
	}})
	if state != OrchestratorOrphaned { // which the scheduler has forgotten itself
		effs = append(effs, effects.Send{To: o.scheduler(), Event: SchedulerForget{Run: o.ID}})
	}
	return o, effs
}

// measured fills in what is known at the end alone. A boundary that was not
// reached gives no length of time.
func (o Orchestrator) measured() OrchestratorMetrics {
	m := o.Metrics
	between := func(from, to Time) int64 {
		if from.IsZero() || to.IsZero() {
			return 0
		}
		return betweenMS(from, to)
	}
	or := func(t Time) Time {
		if t.IsZero() {
			return o.CompletedAt
		}
		return t
	}
	m.PreRunDurationMS = between(o.CreatedAt, or(o.ConstraintCheckStarted))
	m.ConstraintCheckDurationMS = between(o.ConstraintCheckStarted, or(o.ExecutionStartedAt))
	m.ExecutionDurationMS = between(o.ExecutionStartedAt, or(o.ExecutionEndedAt))
	m.TerminationDurationMS = between(o.ExecutionEndedAt, o.CompletedAt)
	m.TotalDurationMS = between(o.CreatedAt, o.CompletedAt)
	m.PodExitCode, m.FinalState, m.Success, m.ErrorMessage = o.Pod.ExitCode, o.State, o.State == OrchestratorCompleted, o.Error
	return m
}

// afterEnd: what may still come after the end.
func (o Orchestrator) afterEnd(e OrchestratorEvent, c Clock) (Orchestrator, []effects.Effect) {
	switch e := e.(type) {
	case OrchestratorExpire:
		if len(o.Asked.Open) == 0 {
			return Orchestrator{}, nil
		}
	case OrchestratorHeartbeats:
		if o.Metrics.HeartbeatsSent == 0 {
			o.Metrics.HeartbeatsSent = e.Sent
			return o, []effects.Effect{o.announce("metrics", jsonOf(o.Metrics))}
		}
	case PodEnded:
		if o.State == OrchestratorOrphaned && o.Config.OrphanPolicy == OrphanAdopt && o.Pod.ExitCode == nil && e.Attempt == o.RetryAttempt {
			o.Pod, o.Step, o.UpdatedAt = e.Pod.bounded(), StepLogs, c.Now
			o.Metrics.PodExitCode = o.Pod.ExitCode
			return o.fetchLogs(nil)
		}
	case EffectDone:
		return o.effectDone(e, c)
	case EffectFailed:
		return o.effectFailed(e, c)
	case EffectInterrupted:
		return o.effectInterrupted(e, c)
	case EffectHandedBack:
		return o.effectHandedBack(e, c)
	}
	return o, o.refuseNow(e)
}

// announce says something of the run on the bus.
func (o Orchestrator) announce(action string, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "run", Action: action},
		Source: effects.EventSource{Component: "orchestrator", ID: o.ID},
		Data:   data,
	}}
}

// update announces an important change (004 JobRunUpdate, E8).
func (o Orchestrator) update(what string) effects.Effect {
	return o.announce("update", jsonOf(JobRunUpdate{
		UpdateID: hashID(fmt.Appendf(nil, "update\x1f%s\x1f%d\x1f%s", o.ID, o.RetryAttempt, what)),
		RunID:    o.RunID, JobID: o.JobID, ScheduledAt: o.ScheduledAt, StartedAt: o.ExecutionStartedAt, CompletedAt: o.CompletedAt,
		Status: o.State, Success: o.State == OrchestratorCompleted, ExitCode: o.Pod.ExitCode, Error: o.Error, RetryAttempt: o.RetryAttempt,
	}))
}

// jsonOf encodes what an announcement says: strings, numbers and times always do.
func jsonOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// owner is how the run waits for a refusal of what one of its actions asks for.
func (o Orchestrator) owner() Owner {
	return Owner{Ref: effects.Ref{Kind: KindOrchestrator, ID: o.ID}, N: uint32(len(o.Actions))}
}
