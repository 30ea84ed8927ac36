package core

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Limits of what a run records.
const (
	MaxConstraints = 64  // checks of one evaluation
	MaxRunActions  = 128 // actions of one evaluation
	MaxRunLocks    = 8   // locks that it holds: all active runs of a job can be killed at once, see [MaxDeliveries]
)

// RunSpec says which run of which job it is. Machines alone make it.
type RunSpec struct {
	ID          uuid.UUID `json:"id"`
	RunID       string    `json:"run_id"` // "jobID:timestamp", see [RunID]
	JobID       string    `json:"job_id"`
	Namespace   string    `json:"namespace"`
	Tenant      string    `json:"tenant"`
	ScheduledAt Time      `json:"scheduled_at"`
	Manual      bool      `json:"manual"`       // triggered out of turn
	By          string    `json:"by,omitempty"` // who triggered it, as [JobTrigger] says
	Config      JobSpec   `json:"config"`       // the job as it was; follows changes only until the run begins
}

// Validate reports what a run cannot be.
func (s RunSpec) Validate() error {
	err := errors.Join(
		checkTime("scheduled_at", s.ScheduledAt),
		s.Config.validate(),
	)
	if err != nil {
		return err
	}
	if s.JobID != s.Config.ID || s.Namespace != s.Config.Namespace || s.Tenant != s.Config.Tenant {
		return fmt.Errorf("config: it is of job %q, not of %q", clip(s.Config.ID), clip(s.JobID))
	}
	if want := RunID(s.JobID, s.ScheduledAt); s.RunID != want {
		return fmt.Errorf("run_id: %q is not %q, job and time", clip(s.RunID), clip(want))
	}
	if want := RunRef(s.Namespace, s.Tenant, s.RunID).ID; s.ID != want {
		return fmt.Errorf("id: %s is not %s, which the run's id gives", s.ID, want)
	}
	return nil
}

// runOf is the run of a job at a time.
func runOf(job JobSpec, at Time, manual bool) RunSpec {
	id := RunID(job.ID, at)
	return RunSpec{
		ID: RunRef(job.Namespace, job.Tenant, id).ID, RunID: id, JobID: job.ID, Namespace: job.Namespace, Tenant: job.Tenant,
		ScheduledAt: at, Manual: manual, Config: job,
	}
}

// ConstraintReport is what an evaluation of a job's constraints comes to (004
// ConstraintCheckResult): the result of [effects.CheckConstraints].
type ConstraintReport struct {
	ShouldProceed bool              `json:"should_proceed"`
	Message       string            `json:"message"`
	Checks        []ConstraintCheck `json:"checks"`
	// MaxAllowedRunTimeMS is how long the pod may run before it is killed (R15); 0:
	// no bound. A pre-execution evaluation says it.
	MaxAllowedRunTimeMS int64 `json:"max_allowed_run_time_ms"`
	// Locks are the names of the locks that were taken for the run, by the holder
	// [RunLockHolder] gives: the run gives them back when it is over.
	Locks []string `json:"locks,omitempty"`
}

// ConstraintCheck is the evaluation of one constraint.
type ConstraintCheck struct {
	Name    string             `json:"name"`
	Phase   effects.CheckPhase `json:"phase"`
	Attempt uint32             `json:"attempt"`
	Met     bool               `json:"met"`
	Message string             `json:"message,omitempty"`
	Error   string             `json:"error,omitempty"` // it could not be evaluated
	// Actions are to be taken, in order: those of onViolation or of onMet.
	Actions []ActionRequest `json:"actions,omitempty"`
}

// ActionRequest is an action of a constraint that is to be taken.
type ActionRequest struct {
	Constraint string          `json:"constraint"`
	Type       string          `json:"type"`
	Config     json.RawMessage `json:"config,omitempty"`
	// ContinueOnError: the run goes on where the action fails. Otherwise it fails
	// (004 Action Executor Errors).
	ContinueOnError bool `json:"continue_on_error,omitempty"`
}

// ActionRecord says how an action of a constraint came out.
type ActionRecord struct {
	N               uint32             `json:"n"` // counts the run's actions, from 1
	Constraint      string             `json:"constraint"`
	Type            string             `json:"type"`
	ContinueOnError bool               `json:"continue_on_error,omitempty"`
	Phase           effects.CheckPhase `json:"phase"`
	Attempt         uint32             `json:"attempt"`
	Error           string             `json:"error,omitempty"` // empty: it was taken
	At              Time               `json:"at"`
}

// Types of actions that the machines themselves carry out; any other is an outer
// effect.
const (
	ActionSkip          = "skip"       // the run is completed without having run
	ActionFailRun       = "fail"       // the run fails, without another attempt
	ActionRetryRun      = "retry"      // the run is tried again, as its retry configuration allows
	ActionSkipNext      = "skipNext"   // the job's next occurrence is skipped
	ActionKickOffJob    = "kickOffJob" // another job is triggered
	ActionCancelRun     = "cancelRun"  // a run is cancelled
	ActionKillLatest    = "killLatest" // the job's latest other run is cancelled
	ActionKillAll       = "killAll"    // all its other runs are
	ActionEnqueue       = "enqueue"    // an item is pushed into a queue
	ActionStartPipeline = "startPipeline"
)

// Pod is what is known of a run's pod.
type Pod struct {
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	Node       string `json:"node,omitempty"`
	Reason     string `json:"reason,omitempty"`  // "OOMKilled", say: why it waits or ended
	Message    string `json:"message,omitempty"` // in more words
	ExitCode   *int32 `json:"exit_code,omitempty"`
	StartedAt  Time   `json:"started_at"`  // as the cluster says
	FinishedAt Time   `json:"finished_at"` // as the cluster says
}

// RunLogs says what is kept of what the pod wrote.
type RunLogs struct {
	Stored    bool   `json:"stored"`
	Bytes     int64  `json:"bytes"`     // kept
	Dropped   int64  `json:"dropped"`   // from the middle
	Error     string `json:"error"`     // why there are none
	Truncated bool   `json:"truncated"` // some were dropped, as many as Dropped says, or more
}

// OrchestratorMetrics says how a run went (004 OrchestratorMetrics). Lengths of
// time are in milliseconds, between the boundaries of phases alone.
type OrchestratorMetrics struct {
	RunID       string `json:"run_id"` // of a tenant: two may have the same
	JobID       string `json:"job_id"`
	Namespace   string `json:"namespace"`
	Tenant      string `json:"tenant"`
	ScheduledAt Time   `json:"scheduled_at"`

	PreRunDurationMS          int64 `json:"pre_run_duration_ms"`          // waiting for the time
	ConstraintCheckDurationMS int64 `json:"constraint_check_duration_ms"` // checking constraints, taking actions, creating the pod
	ExecutionDurationMS       int64 `json:"execution_duration_ms"`        // the pod ran
	TerminationDurationMS     int64 `json:"termination_duration_ms"`      // cleaning up
	TotalDurationMS           int64 `json:"total_duration_ms"`

	ConstraintsChecked  uint32 `json:"constraints_checked"`
	ConstraintsViolated uint32 `json:"constraints_violated"`
	ActionsExecuted     uint32 `json:"actions_executed"`
	ActionsFailed       uint32 `json:"actions_failed"`

	RetryAttempt uint32 `json:"retry_attempt"` // 0: the first attempt
	MaxRetries   uint32 `json:"max_retries"`

	KubernetesAPICalls uint32 `json:"kubernetes_api_calls"`
	PodStartLatencyMS  int64  `json:"pod_start_latency_ms"` // from the creation to the running pod
	PodExitCode        *int32 `json:"pod_exit_code"`

	HeartbeatsSent uint64 `json:"heartbeats_sent"`

	FinalState   OrchestratorStatus `json:"final_state"`
	Success      bool               `json:"success"`
	ErrorMessage string             `json:"error_message"`
}

// JobRunUpdate tells a database of runs of an important change (004
// JobRunUpdate): the run starts to execute, is tried again, or has ended. It is
// announced on the bus as run:update.
type JobRunUpdate struct {
	UpdateID     uuid.UUID          `json:"update_id"` // the same for the same change
	RunID        string             `json:"run_id"`
	JobID        string             `json:"job_id"`
	Namespace    string             `json:"namespace"`
	Tenant       string             `json:"tenant"`
	ScheduledAt  Time               `json:"scheduled_at"`
	StartedAt    Time               `json:"started_at"`
	CompletedAt  Time               `json:"completed_at"`
	Status       OrchestratorStatus `json:"status"`
	Success      bool               `json:"success"`
	ExitCode     *int32             `json:"exit_code"`
	Error        string             `json:"error"`
	RetryAttempt uint32             `json:"retry_attempt"`
}
