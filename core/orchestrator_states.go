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

// orchestratorEdge is an edge of the map: where it leads, the types of the events that
// take it, and the method of orchestratorTransition that does. A run takes several
// edges by one event where it does not rest between them. No event: a run does not rest
// in the state from which the edge leads.
type orchestratorEdge struct {
	to OrchestratorStatus
	on string
	by string
}

// transitions is the map of 004 as extended by ruling R6.
var transitions = map[OrchestratorStatus][]orchestratorEdge{
	OrchestratorPreRun: {
		{OrchestratorPending, "due", "awaitSlot"},
		{OrchestratorCancelled, "cancel", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorPending: {
		{OrchestratorConditionPending, "admit, due, retry", "beginAttempt"},
		{OrchestratorContainerCreating, "admit, due, retry", "createPod"}, // skip constraints if none defined
		{OrchestratorFailed, "cancel, due", "retryOrFail"},                // start deadline
		{OrchestratorCancelled, "cancel, child_ended", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorConditionPending: {
		{OrchestratorConditionRunning, "admit, due, retry", "beginAttempt"},
		{OrchestratorFailed, "", ""},
		{OrchestratorCancelled, "", ""},
		{OrchestratorOrphaned, "", ""}, // R6
	},
	OrchestratorConditionRunning: {
		{OrchestratorActionPending, "effect_done", "constraintsChecked"},           // constraint violated
		{OrchestratorContainerCreating, "effect_done, effect_failed", "createPod"}, // all constraints passed
		{OrchestratorFailed, "effect_done, effect_failed", "retryOrFail"},
		{OrchestratorRetrying, "effect_done, effect_failed", "retryOrFail"}, // R6
		{OrchestratorCancelled, "cancel", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorActionPending: {
		{OrchestratorActionRunning, "effect_done", "constraintsChecked"},
		{OrchestratorFailed, "", ""},
		{OrchestratorCancelled, "", ""},
		{OrchestratorOrphaned, "", ""}, // R6
	},
	OrchestratorActionRunning: {
		{OrchestratorContainerCreating, "effect_done, effect_failed, effect_interrupted", "createPod"}, // action completed, proceed
		{OrchestratorCompleted, "effect_done, effect_failed, effect_interrupted", "followDecision"},    // action: skip job
		{OrchestratorFailed, "child_ended, effect_done, effect_failed, effect_interrupted", "retryOrFail"},
		{OrchestratorRetrying, "effect_done, effect_failed, effect_interrupted", "retryOrFail"}, // R6
		{OrchestratorCancelled, "cancel", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorContainerCreating: {
		{OrchestratorRunning, "pod_running, pod_ended", "startRunning"},
		{OrchestratorFailed, "effect_done, effect_failed", "retryOrFail"},
		{OrchestratorRetrying, "effect_done, effect_failed", "retryOrFail"}, // R6
		{OrchestratorCancelled, "effect_done, effect_failed", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorRunning: {
		{OrchestratorTerminating, "due, pod_created, pod_running, pod_ended, pod_lost", "terminate"},
		{OrchestratorFailed, "effect_done, effect_failed", "retryOrFail"},
		{OrchestratorCancelled, "effect_done, effect_failed", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorTerminating: {
		{OrchestratorCompleted, "effect_done, effect_failed, effect_interrupted", "endAttempt"},
		{OrchestratorFailed, "child_ended, effect_done, effect_failed, effect_interrupted", "retryOrFail"},
		{OrchestratorRetrying, "effect_done, effect_failed, effect_interrupted", "retryOrFail"},
		{OrchestratorCancelled, "cancel, effect_done, effect_failed", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorRetrying: {
		{OrchestratorPending, "due, retry", "retry"}, // retry attempt
		{OrchestratorFailed, "child_ended", "retryOrFail"},
		{OrchestratorCancelled, "cancel", "takeExit"},
		{OrchestratorOrphaned, "orphan", "orphan"}, // R6
	},
	OrchestratorCompleted: {},
	OrchestratorFailed:    {},
	OrchestratorCancelled: {},
	OrchestratorOrphaned:  {},
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
	var to []OrchestratorStatus
	for _, edge := range transitions[from] {
		to = append(to, edge.to)
	}
	return to
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
	next, known := transitions[s]
	return known && len(next) == 0
}

// known reports whether it is one of the states.
func (s OrchestratorStatus) known() bool {
	_, ok := transitions[s]
	return ok
}

// validateTransition says that the map has no such edge (004 Transition Validation
// Function).
func validateTransition(from, to OrchestratorStatus) error {
	if slices.ContainsFunc(transitions[from], func(edge orchestratorEdge) bool { return edge.to == to }) {
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
// a defect, which is announced; the run then stays where it is, and to reports false.
func (t *orchestratorTransition) to(state OrchestratorStatus) bool {
	if err := t.transitionTo(state); err != nil {
		t.announce("invalid_transition", announcementTexts("error", err.Error()))
		return false
	}
	t.UpdatedAt, t.Repeats, t.CreateBy = t.clock.Now, 0, 0
	t.SparedAt, t.SparedMS = 0, 0
	t.expectNone()
	t.announceState()
	return true
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

// announce says something of the run on the bus.
func (t *orchestratorTransition) announce(action string, data any) {
	t.transition.announce("run", "orchestrator", action, t.ID, announcementData(data))
}
