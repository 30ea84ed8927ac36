package core

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
	ExecutionDurationMS       int64 `json:"execution_duration_ms"`        // the pod ran, see [PodTimes]
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

// measureAttempt adds the lengths of the attempt's phases, which ends now: a boundary
// that was not reached is now, and a phase that did not begin has no length. With
// one attempt these are 004's formulas, but that the execution begins and ends with the pod,
// as [PodTimes] has it: it is a part of the attempt's length, and the others are the rest.
func (t *orchestratorTransition) measureAttempt() {
	now, m := t.clock.Now, &t.Metrics
	or := func(at Time) Time {
		if at.IsZero() {
			return now
		}
		return at
	}
	if t.RetryAttempt == 0 {
		m.PreRunDurationMS = betweenMS(t.CreatedAt, or(t.ConstraintCheckStarted))
	}
	began, ended := t.startedAt(), t.podEndedAt()
	if !t.ConstraintCheckStarted.IsZero() {
		m.ConstraintCheckDurationMS += betweenMS(t.ConstraintCheckStarted, or(began))
	}
	if !began.IsZero() {
		m.ExecutionDurationMS += betweenMS(began, or(ended))
	}
	if !ended.IsZero() {
		m.TerminationDurationMS += betweenMS(ended, now)
	}
}

// measureRun notes the outcome of the run, which has ended now.
func (t *orchestratorTransition) measureRun() {
	m := &t.Metrics
	m.TotalDurationMS = betweenMS(t.CreatedAt, t.clock.Now)
	m.PodExitCode, m.FinalState = t.Pod.ExitCode, t.State
	m.Success, m.ErrorMessage = t.State == OrchestratorCompleted, t.Error
}
