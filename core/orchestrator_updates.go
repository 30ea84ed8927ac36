package core

import (
	"fmt"

	"github.com/google/uuid"
)

// JobRunUpdate tells a database of runs of an important change (004
// JobRunUpdate): the run starts to execute, begins another attempt, or has ended. It is
// announced on the bus as run:update.
type JobRunUpdate struct {
	UpdateID     uuid.UUID          `json:"update_id"` // the same for the same change
	RunID        string             `json:"run_id"`
	JobID        string             `json:"job_id"`
	Namespace    string             `json:"namespace"`
	Tenant       string             `json:"tenant"`
	ScheduledAt  Time               `json:"scheduled_at"`
	StartedAt    Time               `json:"started_at"` // of the pod, see [PodTimes]
	CompletedAt  Time               `json:"completed_at"`
	Status       OrchestratorStatus `json:"status"`
	Success      bool               `json:"success"`
	ExitCode     *int32             `json:"exit_code"`
	Error        string             `json:"error"`
	RetryAttempt uint32             `json:"retry_attempt"`
}

// What an update is about; it makes its id, see [updateID].
const (
	updateRetry   = "retry"
	updateStarted = "started"
	updateEnded   = "ended"
	updateAdopted = "adopted"
)

// updateID is the same for the same change of a run: whoever takes updates tells
// by it what came twice (004 deterministic update IDs).
func updateID(run uuid.UUID, attempt uint32, what string) uuid.UUID {
	return hashID(fmt.Appendf(nil, "update\x1f%s\x1f%d\x1f%s", run, attempt, what))
}

// MaxPastAttempts is how many attempts before the present one a run knows.
const MaxPastAttempts = 16

// PastAttempt is what a run knows of an attempt that failed, and that another followed: when
// its pod ran and how it ended, and what its updates need.
type PastAttempt struct {
	Attempt   uint32 `json:"attempt"`    // 0 for the first
	StartedAt Time   `json:"started_at"` // when Orrery heard that its pod runs; zero: none ran
	Failure   string `json:"failure"`    // why it failed
	// Ran is when its pod ran; zero of what a version before 5 noted, and if none ran.
	Ran      PodTimes `json:"ran,omitzero"`
	Pod      string   `json:"pod,omitempty"`    // its name
	Node     string   `json:"node,omitempty"`   // where it was
	Reason   string   `json:"reason,omitempty"` // of its end, "OOMKilled", say
	ExitCode *int32   `json:"exit_code,omitempty"`
}

// notePast notes the present attempt before another begins.
func (t *orchestratorTransition) notePast() {
	if t.clock.Rules.before(5) {
		return
	}
	t.PastAttempts = appendLast(t.PastAttempts, MaxPastAttempts, PastAttempt{
		Attempt: t.RetryAttempt, StartedAt: t.ExecutionStartedAt, Failure: t.Error,
		Ran: t.Ran, Pod: t.Pod.Name, Node: t.Pod.Node, Reason: t.Pod.Reason, ExitCode: t.Pod.ExitCode,
	})
}

// Updates makes the announced updates anew, in their order and with their ids, for whoever
// may have missed them: those of the present attempt, and of the last [MaxPastAttempts] before
// it. Those of attempts before are not known any more.
func (o Orchestrator) Updates() []JobRunUpdate {
	if o.ID == uuid.Nil {
		return nil
	}
	var list []JobRunUpdate
	for i, past := range o.PastAttempts {
		before := o
		before.RetryAttempt, before.ExecutionStartedAt, before.Ran = past.Attempt, past.StartedAt, past.Ran
		if i > 0 {
			list = append(list, before.retried(o.PastAttempts[i-1].Failure))
		}
		list = append(list, before.startedUpdates()...)
	}
	if o.RetryAttempt > 0 {
		list = append(list, o.retried(o.LastFailure))
	}
	list = append(list, o.startedUpdates()...)
	if !o.State.Terminal() {
		return list
	}
	ended := o.update(updateEnded, o.Metrics.ErrorMessage)
	ended.ExitCode = o.Metrics.PodExitCode // as it was when the run ended, and so was the error
	if list = append(list, ended); o.wasAdopted() {
		list = append(list, o.update(updateAdopted, o.Error))
	}
	return list
}

// retried is the update of the beginning of the attempt, which is not the first.
func (o Orchestrator) retried(failure string) JobRunUpdate {
	u := o.update(updateRetry, failure)
	u.StartedAt, u.CompletedAt, u.Status, u.Success, u.ExitCode = 0, 0, OrchestratorPending, false, nil
	return u
}

// startedUpdates is the update of the start of the attempt's pod; none if it did not start.
func (o Orchestrator) startedUpdates() []JobRunUpdate {
	if o.ExecutionStartedAt.IsZero() {
		return nil
	}
	u := o.update(updateStarted, "")
	u.CompletedAt, u.Status, u.Success = 0, OrchestratorRunning, false
	return []JobRunUpdate{u}
}

// update says of an important change how the run stands (E8). What it is about and the
// attempt make its id: the same change always has the same.
func (o Orchestrator) update(what, failure string) JobRunUpdate {
	u := JobRunUpdate{
		UpdateID: updateID(o.ID, o.RetryAttempt, what), RunID: o.RunID, JobID: o.JobID, Namespace: o.Namespace, Tenant: o.Tenant,
		ScheduledAt: o.ScheduledAt, StartedAt: o.startedAt(), CompletedAt: o.CompletedAt,
		Status: o.State, Success: o.State == OrchestratorCompleted, ExitCode: o.Pod.ExitCode, Error: failure, RetryAttempt: o.RetryAttempt,
	}
	if what == updateStarted { // also where the pod has ended before anybody heard that it runs
		u.ExitCode = nil
	}
	return u
}

// wasAdopted reports whether the pod of an orphaned run has ended since: the
// metrics have its exit code as it was at the end of the run.
func (o Orchestrator) wasAdopted() bool {
	return o.State == OrchestratorOrphaned && o.leftToAdopt() &&
		o.Step != StepAdopted && o.Pod.ExitCode != nil && o.Metrics.PodExitCode == nil
}

// leftToAdopt reports whether an orphaned run is one whose pod goes on by its policy: an exit
// code that it hears later says that it was adopted.
func (o Orchestrator) leftToAdopt() bool {
	return o.PreviousState == OrchestratorRunning && o.Config.OrphanPolicy == OrphanAdopt
}
