package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

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
	// [RunLockHolder] gives: the run gives them back when it has ended.
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

// Decision is what constraints and their actions come to.
type Decision struct {
	Verdict RunVerdict `json:"verdict"` // empty: none yet
	Reason  string     `json:"reason"`
}

// RunVerdict says what follows on an evaluation of constraints.
type RunVerdict string

// Verdicts of constraints, the stronger ones first.
const (
	RunFail    RunVerdict = "fail"
	RunSkip    RunVerdict = "skip"
	RunRetry   RunVerdict = "retry"
	RunStop    RunVerdict = "stop" // it should not proceed, and no action says what follows
	RunProceed RunVerdict = "proceed"
)

// stronger gives the one that counts of two verdicts.
func (d Decision) stronger(other Decision) Decision {
	verdicts := []RunVerdict{RunFail, RunSkip, RunRetry, RunStop, RunProceed}
	mine, others := slices.Index(verdicts, d.Verdict), slices.Index(verdicts, other.Verdict)
	if others >= 0 && (mine < 0 || others < mine) {
		return other
	}
	return d
}

// phase is the evaluation that the run is about.
func (o Orchestrator) phase() effects.CheckPhase {
	if o.State == OrchestratorTerminating {
		return effects.CheckPost
	}
	return effects.CheckPre
}

// constraintsChecked reads the checker's report.
func (t *orchestratorTransition) constraintsChecked(result json.RawMessage) {
	var r ConstraintReport
	if err := json.Unmarshal(storedResult(result), &r); err != nil {
		t.checkFailed("the checker's report cannot be read")
		return
	}
	tooManyLocks := t.noteLocks(r.Locks)
	toTake := t.noteViolations(r.Checks)
	t.noteChecks(r.Checks)
	t.UpdatedAt = t.clock.Now
	switch n := len(toTake); {
	case len(r.Checks) > MaxConstraints:
		t.fail(fmt.Sprintf("the job has %d constraints, more than %d", len(r.Checks), MaxConstraints), true)
		return
	case tooManyLocks:
		t.fail(fmt.Sprintf("the constraints hold more than %d locks", MaxRunLocks), true)
		return
	case n > MaxRunActions:
		t.fail(fmt.Sprintf("the constraints have %d actions, more than %d", n, MaxRunActions), true)
		return
	}
	t.ToTake, t.Decision = toTake, Decision{Verdict: RunProceed, Reason: firstText(r.Message)}
	if !r.ShouldProceed {
		t.Decision = Decision{Verdict: RunStop, Reason: boundedReason(r.Message, "a constraint is violated")}
	}
	if t.phase() == effects.CheckPost {
		t.Step = StepActing
		t.takeActions()
		return
	}
	t.MaxAllowedRunTimeMS = min(max(r.MaxAllowedRunTimeMS, 0), MaxTimeout.Milliseconds())
	if len(t.ToTake) > 0 {
		t.to(OrchestratorActionPending)
		t.to(OrchestratorActionRunning)
	}
	t.takeActions()
}

// noteViolations announces the constraints that are violated, and gives the actions of
// all.
func (t *orchestratorTransition) noteViolations(checks []ConstraintCheck) (toTake []ActionRequest) {
	for _, check := range checks[:min(len(checks), MaxConstraints)] {
		if !check.Met {
			t.announce("constraint_violated", announcementTexts("constraint", noteText(check.Name), "message", noteText(check.Message)))
		}
		for _, a := range check.Actions {
			a.Constraint, a.Type, a.Config = noteText(check.Name), noteText(a.Type), storedResult(a.Config)
			toTake = append(toTake, a)
		}
	}
	return toTake
}

// noteChecks keeps evaluations, and counts them.
func (t *orchestratorTransition) noteChecks(checks []ConstraintCheck) {
	checks = checks[:min(len(checks), MaxConstraints)]
	t.Checks = slices.Clip(t.Checks)
	for _, check := range checks {
		t.Metrics.ConstraintsChecked++
		if !check.Met {
			t.Metrics.ConstraintsViolated++
		}
		t.Checks = append(t.Checks, ConstraintCheck{
			Name: noteText(check.Name), Phase: t.phase(), Attempt: t.RetryAttempt, Met: check.Met,
			Message: noteText(check.Message), Error: noteText(check.Error),
		})
	}
	t.Checks = lastOf(t.Checks, 2*MaxConstraints)
}

// maxNoteBytes bounds each text of an evaluation or an action, of which a run keeps
// many.
const maxNoteBytes = 512

func noteText(s string) string { return texts.Head(s, maxNoteBytes) }

// lastOf keeps the last elements of a list.
func lastOf[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// checkFailed: the constraints could not be evaluated. The job says what that
// means (004 Constraint Checker Errors). If the job denies, another attempt may
// follow as long as nothing has run: the checker may be back by then. A pod that
// has run is not run once more for want of a checker.
func (t *orchestratorTransition) checkFailed(reason string) {
	open := t.Config.ConstraintErrors == FailOpen
	t.announce("constraint_error", announcementTexts("error", reason, "policy", string(t.Config.ConstraintErrors)))
	t.noteChecks([]ConstraintCheck{{Name: "checker", Met: open, Error: reason}})
	t.Decision = Decision{Verdict: RunRetry, Reason: firstText("the constraints could not be checked: " + reason)}
	switch {
	case open:
		t.Decision.Verdict = RunProceed
	case t.phase() == effects.CheckPost:
		t.Decision.Verdict = RunFail
	}
	t.ToTake = nil
	t.followDecision()
}

// followDecision goes on once all actions are taken: after the pod to the end of the
// attempt, and before it as constraints and actions have decided.
func (t *orchestratorTransition) followDecision() {
	if t.phase() == effects.CheckPost {
		t.endAttempt()
		return
	}
	switch d := t.Decision; d.Verdict {
	case RunFail:
		t.fail(reasonOr(d.Reason, "an action of a constraint failed it"), true)
	case RunSkip:
		t.enterTerminal(OrchestratorCompleted)
	case RunRetry:
		t.fail(reasonOr(d.Reason, "an action of a constraint wants it tried again"), false)
	case RunStop:
		t.fail(d.Reason, true)
	default:
		t.createPod()
	}
}
