package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// RunExit says where a run goes once its cluster is cleaned up.
type RunExit struct {
	To     OrchestratorStatus `json:"to"` // empty: nowhere yet
	Reason string             `json:"reason"`
	// Final: no other attempt follows a failure.
	Final bool `json:"final"`
	// NoGrace: its pod is killed at once.
	NoGrace bool `json:"no_grace,omitempty"`
}

// cancel: any state that is not terminal → cancelled, once the cluster is cleaned up. A
// deletion that failed is tried again at once. Without grace a deletion that goes on is begun
// anew. A pending run that has missed its start → failed.
func (t *orchestratorTransition) cancel(e OrchestratorCancel) {
	if t.Exit.To == OrchestratorCancelled && !t.cleanupDue().IsZero() {
		t.retryCleanup()
		return
	}
	if e.NoGrace && t.Exit.To == OrchestratorCancelled && !t.Exit.NoGrace && t.Step == StepDeleting {
		t.Exit.NoGrace, t.UpdatedAt = true, t.clock.Now
		t.withdraw(&t.Pending)
		t.delete(t.wantsLogs())
		return
	}
	if t.Exit.To == OrchestratorCancelled {
		t.conflict("run %s is being cancelled already", clip(t.RunID))
		return
	}
	if e.Missed && t.State == OrchestratorPending {
		t.fail(boundedReason(e.Reason, "missed"), true)
		return
	}
	t.endWith(RunExit{To: OrchestratorCancelled, Reason: boundedReason(e.Reason, "cancelled"), NoGrace: e.NoGrace})
}

// orphan: any state that is not terminal → orphaned. A pod that runs goes on if the
// job adopts it. All else is deleted: nobody may ever hear of a pod that was only
// asked for.
func (t *orchestratorTransition) orphan(e OrchestratorOrphan) {
	adopts := t.State == OrchestratorRunning && t.Exit.To == "" && t.Config.OrphanPolicy == OrphanAdopt
	t.withdraw(&t.Pending)
	t.Error = fmt.Sprintf("no heartbeat since %s: %d were missed", min(max(e.LastHeartbeat, 0), maxTime), e.Missed)
	t.enterTerminal(OrchestratorOrphaned)
	switch {
	case !t.InCluster:
	case adopts:
		t.Step = StepAdopted
	default:
		t.fetchLogs()
	}
}

// fail ends the attempt: another follows while one remains, unless this is final.
func (t *orchestratorTransition) fail(reason string, final bool) {
	t.endWith(RunExit{To: OrchestratorFailed, Reason: firstText(reason), Final: final})
}

// endWith takes an exit once nothing is left in the cluster. A run that is cleaning up
// already goes on with that.
func (t *orchestratorTransition) endWith(exit RunExit) {
	t.Exit, t.UpdatedAt = exit, t.clock.Now
	t.expectNone()
	if !t.cleanupDue().IsZero() {
		t.retryCleanup()
		return
	}
	if t.Step == StepLogs || t.Step == StepDeleting {
		return
	}
	t.withdraw(&t.Pending)
	t.ToTake = nil
	if !t.InCluster {
		t.takeExit()
		return
	}
	t.fetchLogs()
}

// takeExit goes where the run was about to go.
func (t *orchestratorTransition) takeExit() {
	exit := t.Exit
	t.Exit, t.Error = RunExit{}, exit.Reason
	if exit.To == OrchestratorFailed {
		t.retryOrFail(exit.Final)
		return
	}
	t.enterTerminal(exit.To)
}

// retryOrFail: → retrying while an attempt remains, and else → failed. The map has no
// edge to retrying from the states in which nothing was tried yet.
func (t *orchestratorTransition) retryOrFail(final bool) {
	retries := t.Config.RetryConfig
	if final || t.abandonedAlive() || !retries.ShouldRetry(t.RetryAttempt) || validateTransition(t.State, OrchestratorRetrying) != nil {
		t.enterTerminal(OrchestratorFailed)
		return
	}
	if t.InCluster {
		t.awaitCleanup()
		return
	}
	t.measureAttempt()
	t.RetryAt, t.Step = laterMS(t.clock.Now, retries.Delay(t.RetryAttempt)), StepNone
	t.to(OrchestratorRetrying)
}

// endAttempt: terminating → completed, failed or retrying, as the pod has ended and the
// post-execution constraints have decided.
func (t *orchestratorTransition) endAttempt() {
	t.Step = StepNone
	switch d := t.Decision; d.Verdict {
	case RunFail:
		t.Error = reasonOr(d.Reason, "an action of a constraint failed it")
		t.retryOrFail(true)
		return
	case RunRetry, RunStop:
		if t.Error == "" {
			t.Error = reasonOr(d.Reason, "a post-execution constraint is violated")
		}
	case RunSkip, RunProceed, "":
	}
	if t.Error != "" {
		t.retryOrFail(false)
		return
	}
	t.enterTerminal(OrchestratorCompleted)
}

// enterTerminal: → a terminal state. Bus, job, scheduler and occurrence are told. The
// scheduler forgets a run itself that it declares orphaned.
func (t *orchestratorTransition) enterTerminal(state OrchestratorStatus) {
	t.noteAbandoned()
	if !t.to(state) {
		return
	}
	if t.PreviousState != OrchestratorRetrying { // its attempt was measured when it failed
		t.measureAttempt()
	}
	t.measureRun()
	t.CompletedAt, t.Step, t.Exit, t.ToTake = t.clock.Now, StepNone, RunExit{}, nil
	t.announce("update", t.update(updateEnded, t.Error))
	t.send(t.job(), JobRunEnded{Run: t.ID, State: t.State, ExitCode: t.Pod.ExitCode, Error: t.Error, RanMS: t.Metrics.ExecutionDurationMS})
	if t.Occurrence != uuid.Nil {
		t.settleOccurrence()
	}
	if state != OrchestratorOrphaned {
		t.send(t.scheduler(), SchedulerForget{Run: t.ID})
	}
	if !t.InCluster || t.leavesRemains() { // the pod of an orphaned run may go on, under its locks
		t.releaseLocks()
	}
}

// settleOccurrence tells the occurrence how the run ended.
func (t *orchestratorTransition) settleOccurrence() {
	t.send(effects.Ref{Kind: KindOccurrence, ID: t.Occurrence}, OccurrenceSettle{
		Outcome: StatusType(t.State), Reason: t.Error, StartedAt: t.startedAt(), FinishedAt: t.CompletedAt,
	})
}
