package core

import (
	"fmt"
	"slices"
	"strings"
)

// OrchestratorStatus is a state of a job's run (004 OrchestratorStatus).
type OrchestratorStatus string

// States of a run.
const (
	// Pre-execution states.
	OrchestratorPreRun           OrchestratorStatus = "pre_run"           // waiting for the scheduled time
	OrchestratorPending          OrchestratorStatus = "pending"           // the time has come; waits for a slot of the job
	OrchestratorConditionPending OrchestratorStatus = "condition_pending" // about to check constraints
	OrchestratorConditionRunning OrchestratorStatus = "condition_running" // checking constraints
	OrchestratorActionPending    OrchestratorStatus = "action_pending"    // about to take the actions of constraints
	OrchestratorActionRunning    OrchestratorStatus = "action_running"    // taking them

	// Execution states.
	OrchestratorContainerCreating OrchestratorStatus = "container_creating" // the Kubernetes Job is asked for, its pod not yet running
	OrchestratorRunning           OrchestratorStatus = "running"            // the pod runs
	OrchestratorTerminating       OrchestratorStatus = "terminating"        // logs, post-execution constraints, cleaning up

	OrchestratorRetrying OrchestratorStatus = "retrying" // waiting before the next attempt

	// Terminal states.
	OrchestratorCompleted OrchestratorStatus = "completed"
	OrchestratorFailed    OrchestratorStatus = "failed"
	OrchestratorCancelled OrchestratorStatus = "cancelled"
	OrchestratorOrphaned  OrchestratorStatus = "orphaned" // no heartbeats: set by the scheduler alone
)

// transitions is the map of 004 as extended by ruling R6. Cancelled and Orphaned
// stand in each row that has any.
var transitions = map[OrchestratorStatus][]OrchestratorStatus{
	OrchestratorPreRun:            {OrchestratorPending},
	OrchestratorPending:           {OrchestratorConditionPending, OrchestratorContainerCreating, OrchestratorFailed},
	OrchestratorConditionPending:  {OrchestratorConditionRunning, OrchestratorFailed},
	OrchestratorConditionRunning:  {OrchestratorActionPending, OrchestratorContainerCreating, OrchestratorFailed, OrchestratorRetrying},
	OrchestratorActionPending:     {OrchestratorActionRunning, OrchestratorFailed},
	OrchestratorActionRunning:     {OrchestratorContainerCreating, OrchestratorCompleted, OrchestratorFailed, OrchestratorRetrying},
	OrchestratorContainerCreating: {OrchestratorRunning, OrchestratorFailed, OrchestratorRetrying},
	OrchestratorRunning:           {OrchestratorTerminating, OrchestratorFailed},
	OrchestratorTerminating:       {OrchestratorCompleted, OrchestratorFailed, OrchestratorRetrying},
	OrchestratorRetrying:          {OrchestratorPending, OrchestratorFailed},
	OrchestratorCompleted:         {},
	OrchestratorFailed:            {},
	OrchestratorCancelled:         {},
	OrchestratorOrphaned:          {},
}

// OrchestratorStatuses lists the states of a run, in the order of its life.
func OrchestratorStatuses() []OrchestratorStatus {
	return []OrchestratorStatus{
		OrchestratorPreRun, OrchestratorPending, OrchestratorConditionPending, OrchestratorConditionRunning,
		OrchestratorActionPending, OrchestratorActionRunning, OrchestratorContainerCreating, OrchestratorRunning,
		OrchestratorTerminating, OrchestratorRetrying,
		OrchestratorCompleted, OrchestratorFailed, OrchestratorCancelled, OrchestratorOrphaned,
	}
}

// OrchestratorTransitions lists the states that may follow on a state (004
// allowedTransitions, R6); none for a terminal one.
func OrchestratorTransitions(from OrchestratorStatus) []OrchestratorStatus {
	to, known := transitions[from]
	if !known || from.Terminal() {
		return nil
	}
	return append(slices.Clone(to), OrchestratorCancelled, OrchestratorOrphaned)
}

// OrchestratorDiagram draws the map as a Mermaid state diagram.
func OrchestratorDiagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	fmt.Fprintf(&b, "    [*] --> %s\n", OrchestratorPreRun)
	for _, from := range OrchestratorStatuses() {
		for _, to := range OrchestratorTransitions(from) {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
		if from.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", from)
		}
	}
	return b.String()
}

// Terminal reports whether nothing follows on the state.
func (s OrchestratorStatus) Terminal() bool {
	switch s {
	case OrchestratorCompleted, OrchestratorFailed, OrchestratorCancelled, OrchestratorOrphaned:
		return true
	default:
		return false
	}
}

// known reports whether it is one of the states.
func (s OrchestratorStatus) known() bool {
	_, ok := transitions[s]
	return ok
}

// validateTransition says that the map has no such edge (004 Transition Validation
// Function).
func validateTransition(from, to OrchestratorStatus) error {
	if slices.Contains(OrchestratorTransitions(from), to) {
		return nil
	}
	return fmt.Errorf("invalid state transition: %s -> %s", from, to)
}

// transitionTo is the only way for the state to change (004 transitionTo). An
// error says that the map has no such edge, and leaves the run as it was.
func (t *orchestratorTransition) transitionTo(to OrchestratorStatus) error {
	if err := validateTransition(t.State, to); err != nil {
		return err
	}
	t.PreviousState, t.State = t.State, to
	return nil
}

// to takes an edge of the map and announces it. An edge that the map does not have is
// a defect; the run then stays where it is.
func (t *orchestratorTransition) to(state OrchestratorStatus) {
	if err := t.transitionTo(state); err != nil {
		t.announce("invalid_transition", struct {
			Error string `json:"error"`
		}{err.Error()})
		return
	}
	t.UpdatedAt, t.Repeats, t.SparedAt = t.clock.Now, 0, 0
	t.announceState()
}

// announceState says which state the run has entered, with what a log line of it has
// (004 Structured Logging Fields).
func (t *orchestratorTransition) announceState() {
	t.announce(string(t.State), struct {
		RunID       string             `json:"run_id"`
		JobID       string             `json:"job_id"`
		ScheduledAt Time               `json:"scheduled_at"`
		From        OrchestratorStatus `json:"from,omitempty"`
		Attempt     uint32             `json:"attempt"`
		Error       string             `json:"error,omitempty"`
	}{t.RunID, t.JobID, t.ScheduledAt, t.PreviousState, t.RetryAttempt, t.Error})
}
