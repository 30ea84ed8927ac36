package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// present reports whether an event about a pod is about the present one, while the
// run waits for it.
func (o Orchestrator) present(attempt uint32) bool {
	waits := o.State == OrchestratorContainerCreating || o.State == OrchestratorRunning
	return waits && attempt == o.RetryAttempt && o.Leaving.To == ""
}

// podCreated takes what is known of a pod that does not run yet.
func (o Orchestrator) podCreated(e PodCreated, c Clock) (Orchestrator, []effects.Effect) {
	pod := e.Pod.bounded()
	switch {
	case o.present(e.Attempt) && o.Pod.replacedBy(pod):
		return o.replaced(pod, c)
	case o.State != OrchestratorContainerCreating || !o.present(e.Attempt) || o.Pod == pod:
		return o, o.refuseNow(e)
	}
	o.Pod, o.UpdatedAt = pod, c.Now
	return o, nil
}

// podRunning: container_creating → running.
func (o Orchestrator) podRunning(e PodRunning, c Clock) (Orchestrator, []effects.Effect) {
	pod := e.Pod.bounded()
	switch {
	case o.present(e.Attempt) && o.Pod.replacedBy(pod):
		return o.replaced(pod, c)
	case o.State != OrchestratorContainerCreating || !o.present(e.Attempt):
		return o, o.refuseNow(e)
	}
	o.Pod = pod
	return o.run(c)
}

// replacedBy reports whether it is another pod than the one that is known.
func (p Pod) replacedBy(pod Pod) bool { return p.UID != "" && pod.UID != "" && p.UID != pod.UID }

// replaced: the attempt's pod is gone, and the cluster has made another, which does
// not count: an attempt is never run by two pods.
func (o Orchestrator) replaced(by Pod, c Clock) (Orchestrator, []effects.Effect) {
	return o.podLost(PodLost{Attempt: o.RetryAttempt, Reason: fmt.Sprintf(
		"the pod is gone, and the cluster has made another, %s, which is not followed: an attempt has one pod", by.Name)}, c)
}

// run: container_creating → running. Where the creation was not answered yet, its
// answer decides nothing any more, but is waited for: it tells of its API calls.
func (o Orchestrator) run(c Clock) (Orchestrator, []effects.Effect) {
	o.ExecutionStartedAt = c.Now
	o.Metrics.PodStartLatencyMS = betweenMS(o.CreationAskedAt, c.Now)
	o, effs := o.to(OrchestratorRunning, nil, c)
	return o, append(effs, o.update(updateStarted, ""))
}

// podEnded: running → terminating. A pod that nobody saw running has run. One that
// ends while it is deleted changes nothing but what is known of it.
func (o Orchestrator) podEnded(e PodEnded, c Clock) (Orchestrator, []effects.Effect) {
	pod := e.Pod.bounded()
	switch {
	case o.present(e.Attempt) && o.Pod.replacedBy(pod):
		return o.replaced(pod, c)
	case o.present(e.Attempt):
	case o.InCluster && e.Attempt == o.RetryAttempt && o.Pod.ExitCode == nil && pod.ExitCode != nil && !o.Pod.replacedBy(pod):
		o.Pod, o.UpdatedAt = pod, c.Now
		return o, nil
	default:
		return o, o.refuseNow(e)
	}
	var effs []effects.Effect
	o.Pod = pod
	if o.State == OrchestratorContainerCreating {
		o, effs = o.run(c)
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
	if !o.present(e.Attempt) {
		return o, o.refuseNow(e)
	}
	reason := boundedReason(e.Reason, "the pod is gone")
	o.Logs.Error = "the pod is gone"
	if o.State == OrchestratorContainerCreating {
		return o.fail(reason, false, nil, c)
	}
	return o.terminate(reason, nil, c)
}

// overrun: the pod has run for longer than it may (R15): running → terminating,
// where it is killed.
func (o Orchestrator) overrun(c Clock) (Orchestrator, []effects.Effect) {
	return o.terminate("it ran for longer than maxAllowedRunTime, "+lengthText(o.MaxAllowedRunTimeMS), nil, c)
}

// terminate: running → terminating. First what the pod wrote is fetched, then it
// is deleted, then the constraints are checked.
func (o Orchestrator) terminate(failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	asked, withdrawn := o.Asked.withdrawn()
	o.Asked, o.Error, o.ExecutionEndedAt, effs = asked, failure, c.Now, append(effs, withdrawn...)
	o, effs = o.to(OrchestratorTerminating, effs, c)
	return o.fetchLogs(effs)
}

// fetchLogs asks for what the pod wrote, where that is wanted and there may be
// some; then what is in the cluster is deleted. A pod that still runs is asked for
// what it wrote up to now: deleting it would take that along.
func (o Orchestrator) fetchLogs(effs []effects.Effect) (Orchestrator, []effects.Effect) {
	ran := !o.ExecutionStartedAt.IsZero() || o.Pod.ExitCode != nil
	if o.Config.Logs.Discard || o.Logs.Stored || o.Logs.Error != "" || !ran {
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
		return o.unlocked(effs)
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
	return o.leave(Leaving{To: OrchestratorFailed, Reason: firstText(reason), Final: final}, effs, c)
}

// leave goes to an end, or to the next attempt, once nothing is left in the
// cluster. Cleaning up that goes on already goes on.
func (o Orchestrator) leave(l Leaving, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.Leaving, o.UpdatedAt = l, c.Now
	if o.Step == StepLogs || o.Step == StepDeleting {
		return o, effs
	}
	asked, withdrawn := o.Asked.withdrawn()
	o.Asked, o.ToTake, effs = asked, nil, append(effs, withdrawn...)
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

// failed: → retrying while an attempt remains, and else → failed.
func (o Orchestrator) failed(final bool, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if final || !o.Config.RetryConfig.ShouldRetry(o.RetryAttempt) {
		return o.end(OrchestratorFailed, effs, c)
	}
	if _, err := o.transitionTo(OrchestratorRetrying); err != nil { // nothing was tried yet
		return o.end(OrchestratorFailed, effs, c)
	}
	o = o.measured(c.Now)
	o.RetryAt, o.Step = laterMS(c.Now, o.Config.RetryConfig.Delay(o.RetryAttempt)), StepNone
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

// end: → a terminal state. Bus, job, scheduler and occurrence are told.
func (o Orchestrator) end(state OrchestratorStatus, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if _, err := o.transitionTo(state); err != nil {
		return o.to(state, effs, c) // which says so
	}
	if o.State != OrchestratorRetrying { // whose attempt is over
		o = o.measured(c.Now)
	}
	o.CompletedAt, o.Step, o.Leaving, o.ToTake = c.Now, StepNone, Leaving{}, nil
	o, effs = o.to(state, effs, c)
	o.Metrics.TotalDurationMS = betweenMS(o.CreatedAt, o.CompletedAt)
	o.Metrics.PodExitCode, o.Metrics.FinalState = o.Pod.ExitCode, o.State
	o.Metrics.Success, o.Metrics.ErrorMessage = o.State == OrchestratorCompleted, o.Error
	effs = append(effs, o.update(updateEnded, o.Error), effects.Send{To: o.job(), Event: JobRunEnded{
		Run: o.ID, State: o.State, ExitCode: o.Pod.ExitCode, Error: o.Error,
	}})
	if o.Occurrence != uuid.Nil {
		effs = append(effs, o.settle())
	}
	if state != OrchestratorOrphaned { // which the scheduler has forgotten itself
		effs = append(effs, effects.Send{To: o.scheduler(), Event: SchedulerForget{Run: o.ID}})
	}
	if o.InCluster { // of an orphaned run something goes on
		return o, effs
	}
	return o.unlocked(effs)
}

// settle tells the occurrence how the run ended.
func (o Orchestrator) settle() effects.Effect {
	return effects.Send{To: effects.Ref{Kind: KindOccurrence, ID: o.Occurrence}, Event: OccurrenceSettle{
		Outcome: StatusType(o.State), Reason: o.Error, StartedAt: o.ExecutionStartedAt, FinishedAt: o.CompletedAt,
	}}
}

// measured adds the lengths of the attempt's phases, which ends now: a boundary
// that was not reached is now, and a phase that did not begin has no length. With
// one attempt these are 004's formulas, but that the execution ends with the pod.
func (o Orchestrator) measured(now Time) Orchestrator {
	or := func(t Time) Time {
		if t.IsZero() {
			return now
		}
		return t
	}
	m := &o.Metrics
	if o.RetryAttempt == 0 {
		m.PreRunDurationMS = betweenMS(o.CreatedAt, or(o.ConstraintCheckStarted))
	}
	if !o.ConstraintCheckStarted.IsZero() {
		m.ConstraintCheckDurationMS += betweenMS(o.ConstraintCheckStarted, or(o.ExecutionStartedAt))
	}
	if !o.ExecutionStartedAt.IsZero() {
		m.ExecutionDurationMS += betweenMS(o.ExecutionStartedAt, or(o.ExecutionEndedAt))
	}
	if !o.ExecutionEndedAt.IsZero() {
		m.TerminationDurationMS += betweenMS(o.ExecutionEndedAt, now)
	}
	return o
}

// afterEnd: what may still come after the end.
func (o Orchestrator) afterEnd(e OrchestratorEvent, c Clock) (Orchestrator, []effects.Effect) {
	switch e := e.(type) {
	case OrchestratorExpire:
		if o.over() {
			return Orchestrator{}, nil
		}
	case OrchestratorHeartbeats:
		if !o.Reported {
			o.Metrics.HeartbeatsSent, o.Reported = e.Sent, true
			return o, []effects.Effect{o.announce("metrics", announcementData(o.Metrics))}
		}
	case OrchestratorAdmit: // a place was given to it as it was cancelled
		if o.Occurrence == uuid.Nil && e.Occurrence != uuid.Nil {
			o.Occurrence = e.Occurrence
			return o, []effects.Effect{o.settle()}
		}
	case OrchestratorCreate:
		return o, o.refuse(e, effects.CodeExists, fmt.Sprintf("run_id: run %s exists already", clip(o.RunID)))
	case ChildEnded:
		return o.childEnded(e, c)
	case PodEnded:
		switch {
		case o.Step != StepAdopted || e.Attempt != o.RetryAttempt:
		case o.Pod.replacedBy(e.Pod.bounded()):
			return o.adoptedLost("", c)
		default:
			return o.adoptedEnded(e, c)
		}
	case PodLost:
		if o.Step == StepAdopted && e.Attempt == o.RetryAttempt {
			return o.adoptedLost(e.Reason, c)
		}
	case OrchestratorCancel:
		if o.Step == StepAdopted {
			o.UpdatedAt = c.Now
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
	case OrchestratorDue, OrchestratorConfigure, OrchestratorRetry, OrchestratorOrphan, PodCreated, PodRunning:
	}
	return o, o.refuseNow(e)
}

// adoptedLost: the pod of an orphaned run is gone, and nobody saw it end.
func (o Orchestrator) adoptedLost(reason string, c Clock) (Orchestrator, []effects.Effect) {
	o.Logs.Error, o.UpdatedAt = boundedReason(reason, "the pod is gone"), c.Now
	return o.cleanUp(nil)
}

// adoptedEnded: the pod of an orphaned run has ended. Where it has an exit code there
// is something to tell.
func (o Orchestrator) adoptedEnded(e PodEnded, c Clock) (Orchestrator, []effects.Effect) {
	o.Pod, o.UpdatedAt = e.Pod.bounded(), c.Now
	o, effs := o.fetchLogs(nil)
	if o.wasAdopted() {
		effs = slices.Insert(effs, 0, o.update(updateAdopted, o.Error))
	}
	return o, effs
}

// announce says something of the run on the bus.
func (o Orchestrator) announce(action string, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "run", Action: action},
		Source: effects.EventSource{Component: "orchestrator", ID: o.ID},
		Data:   data,
	}}
}

// update announces an important change (004 JobRunUpdate, E8). What it is about
// and the attempt make its id: the same change always has the same.
func (o Orchestrator) update(what, failure string) effects.Effect {
	exit := o.Pod.ExitCode
	if what == updateStarted { // also where the pod has ended before anybody heard that it runs
		exit = nil
	}
	return o.announce("update", announcementData(JobRunUpdate{
		UpdateID: updateID(o.ID, o.RetryAttempt, what),
		RunID:    o.RunID, JobID: o.JobID, Namespace: o.Namespace, Tenant: o.Tenant, ScheduledAt: o.ScheduledAt, StartedAt: o.ExecutionStartedAt, CompletedAt: o.CompletedAt,
		Status: o.State, Success: o.State == OrchestratorCompleted, ExitCode: exit, Error: failure, RetryAttempt: o.RetryAttempt,
	}))
}
