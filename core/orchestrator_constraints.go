package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

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
	rank := func(v RunVerdict) int {
		for i, known := range []RunVerdict{RunFail, RunSkip, RunRetry, RunStop, RunProceed} {
			if v == known {
				return i
			}
		}
		return 5
	}
	if rank(other.Verdict) < rank(d.Verdict) {
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

// checked takes what an evaluation of the constraints came to.
func (o Orchestrator) checked(r ConstraintReport, c Clock) (Orchestrator, []effects.Effect) {
	var effs []effects.Effect
	var toTake []ActionRequest
	o, tooMany := o.locked(r.Locks)
	for _, check := range r.Checks[:min(len(r.Checks), MaxConstraints)] {
		if !check.Met {
			effs = append(effs, o.announce("constraint_violated", announcementData(struct {
				Constraint string `json:"constraint"`
				Message    string `json:"message"`
			}{noteText(check.Name), noteText(check.Message)})))
		}
		for _, a := range check.Actions {
			a.Constraint, a.Type, a.Config = noteText(check.Name), noteText(a.Type), storedResult(a.Config)
			toTake = append(toTake, a)
		}
	}
	o = o.noted(r.Checks)
	o.UpdatedAt = c.Now
	switch n := len(toTake); {
	case len(r.Checks) > MaxConstraints:
		return o.fail(fmt.Sprintf("the job has %d constraints, more than %d", len(r.Checks), MaxConstraints), true, effs, c)
	case tooMany:
		return o.fail(fmt.Sprintf("the constraints hold more than %d locks", MaxRunLocks), true, effs, c)
	case n > MaxRunActions:
		return o.fail(fmt.Sprintf("the constraints have %d actions, more than %d", n, MaxRunActions), true, effs, c)
	}
	o.ToTake, o.Decision = toTake, Decision{Verdict: RunProceed, Reason: firstText(r.Message)}
	if !r.ShouldProceed {
		o.Decision = Decision{Verdict: RunStop, Reason: boundedReason(r.Message, "a constraint is violated")}
	}
	if o.phase() == effects.CheckPost {
		o.Step = StepActing
		return o.takeNext(effs, c)
	}
	o.MaxAllowedRunTimeMS = min(max(r.MaxAllowedRunTimeMS, 0), MaxTimeout.Milliseconds())
	if len(o.ToTake) > 0 {
		o, effs = o.to(OrchestratorActionPending, effs, c)
		o, effs = o.to(OrchestratorActionRunning, effs, c)
	}
	return o.takeNext(effs, c)
}

// RunLockHolder is who holds the locks that constraints take for a run.
func RunLockHolder(run uuid.UUID) string { return runHolder + run.String() }

const runHolder = "run:"

// RunOfLockHolder gives the run that a lock's holder is; ok is false for a holder that
// is none.
func RunOfLockHolder(holder string) (run uuid.UUID, ok bool) {
	text, ok := strings.CutPrefix(holder, runHolder)
	if !ok {
		return uuid.Nil, false
	}
	run, err := uuid.Parse(text)
	return run, err == nil
}

// locked notes the locks that were taken for the run; tooMany says that there are
// more than it can note. What cannot be the name of a lock nobody has taken.
func (o Orchestrator) locked(names []string) (_ Orchestrator, tooMany bool) {
	locks := slices.Clip(o.Locks)
	for _, name := range names {
		switch {
		case checkName("name", name, true) != nil || slices.Contains(locks, name):
		case len(locks) >= MaxRunLocks:
			tooMany = true
		default:
			locks = append(locks, name)
		}
	}
	o.Locks = locks
	return o, tooMany
}

// unlocked gives the run's locks back. One that has lapsed refuses, which changes
// nothing.
func (o Orchestrator) unlocked(effs []effects.Effect) (Orchestrator, []effects.Effect) {
	for _, name := range o.Locks[:min(len(o.Locks), MaxRunLocks)] {
		effs = append(effs, effects.Send{To: LockRef(o.Namespace, o.Tenant, name), Event: LockRelease{Holder: RunLockHolder(o.ID)}})
	}
	o.Locks = nil
	return o, effs
}

// noted keeps evaluations, and counts them.
func (o Orchestrator) noted(checks []ConstraintCheck) Orchestrator {
	checks = checks[:min(len(checks), MaxConstraints)]
	o.Checks = slices.Clip(o.Checks)
	for _, check := range checks {
		o.Metrics.ConstraintsChecked++
		if !check.Met {
			o.Metrics.ConstraintsViolated++
		}
		o.Checks = append(o.Checks, ConstraintCheck{
			Name: noteText(check.Name), Phase: o.phase(), Attempt: o.RetryAttempt, Met: check.Met,
			Message: noteText(check.Message), Error: noteText(check.Error),
		})
	}
	o.Checks = lastOf(o.Checks, 2*MaxConstraints)
	return o
}

// maxNoteBytes bounds each text of an evaluation or an action, of which a run keeps
// many.
const maxNoteBytes = 512

func noteText(s string) string { return texts.Head(s, maxNoteBytes) }

// lastOf keeps the last elements of a list.
func lastOf[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// takeNext takes the actions that are left, up to one that leaves the system.
func (o Orchestrator) takeNext(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	for len(o.ToTake) > 0 {
		a := o.ToTake[0]
		if !machineAction(a.Type) {
			return o.ask(effects.TakeAction{N: o.Asked.next(), Constraint: a.Constraint, Type: a.Type, Config: a.Config}, effs)
		}
		var failure string
		if o, effs, failure = o.takeInside(a, effs, c); failure != "" && !a.ContinueOnError {
			return o.actionFailed(a, failure, effs, c)
		}
		o, effs = o.took(a, failure, effs, c)
	}
	return o.decide(effs, c)
}

// took notes how the first action that was left came out.
func (o Orchestrator) took(a ActionRequest, failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.ToTake = slices.Clone(o.ToTake[1:])
	o.Metrics.ActionsExecuted++
	if failure != "" {
		o.Metrics.ActionsFailed++
	}
	record := ActionRecord{
		N: o.Metrics.ActionsExecuted, Constraint: a.Constraint, Type: a.Type, ContinueOnError: a.ContinueOnError,
		Phase: o.phase(), Attempt: o.RetryAttempt, Error: noteText(failure), At: c.Now,
	}
	o.Actions, o.UpdatedAt = lastOf(append(slices.Clip(o.Actions), record), 2*MaxRunActions), c.Now
	return o, append(effs, o.announce("action", announcementData(record)))
}

// owner is how the run hears of a refusal of what its next action asks for.
func (o Orchestrator) owner() Owner {
	return Owner{Ref: runRef(o.ID), N: o.Metrics.ActionsExecuted + 1}
}

// acted takes the answer to an action that left the system.
func (o Orchestrator) acted(failure string, c Clock) (Orchestrator, []effects.Effect) {
	if len(o.ToTake) == 0 {
		return o, nil
	}
	a := o.ToTake[0]
	if failure != "" && !a.ContinueOnError {
		return o.actionFailed(a, failure, nil, c)
	}
	o, effs := o.took(a, failure, nil, c)
	return o.takeNext(effs, c)
}

// actionFailed ends the run (004 Action Executor Errors).
func (o Orchestrator) actionFailed(a ActionRequest, failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o, effs = o.took(a, failure, effs, c)
	return o.fail(fmt.Sprintf("action %s of constraint %s: %s", a.Type, a.Constraint, failure), true, effs, c)
}

// decide goes on once all actions are taken.
func (o Orchestrator) decide(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if o.phase() == effects.CheckPost {
		return o.finish(effs, c)
	}
	d := o.Decision
	switch d.Verdict {
	case RunFail:
		return o.fail(reasonOr(d.Reason, "an action of a constraint failed it"), true, effs, c)
	case RunSkip:
		return o.end(OrchestratorCompleted, effs, c)
	case RunRetry:
		return o.fail(reasonOr(d.Reason, "an action of a constraint wants it tried again"), false, effs, c)
	case RunStop:
		return o.fail(d.Reason, true, effs, c)
	case RunProceed, "":
	}
	return o.createPod(effs, c)
}

// machineAction reports whether the machines themselves carry out an action.
func machineAction(typ string) bool {
	switch typ {
	case ActionSkip, ActionFailRun, ActionRetryRun, ActionSkipNext, ActionKickOffJob, ActionCancelRun,
		ActionKillLatest, ActionKillAll, ActionEnqueue, ActionStartPipeline:
		return true
	}
	return false
}

// insideConfig is the union of what the machines' own actions may be told.
type insideConfig struct {
	Reason     string                     `json:"reason"`
	Job        string                     `json:"job"`        // kickOffJob
	RunID      string                     `json:"run_id"`     // cancelRun
	Queue      string                     `json:"queue"`      // enqueue
	Data       json.RawMessage            `json:"data"`       // enqueue
	Priority   int32                      `json:"priority"`   // enqueue
	Key        string                     `json:"key"`        // enqueue
	DedupKey   string                     `json:"dedup_key"`  // enqueue
	Definition PipelineDef                `json:"definition"` // startPipeline
	Context    map[string]json.RawMessage `json:"context"`    // startPipeline
	Label      string                     `json:"label"`      // startPipeline
}

// takeInside carries out an action that needs nothing outside.
func (o Orchestrator) takeInside(a ActionRequest, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect, string) {
	var cfg insideConfig
	if err := json.Unmarshal(a.Config, &cfg); len(a.Config) > 0 && err != nil {
		return o, effs, fmt.Sprintf("config: %s is not what %s takes", clip(string(a.Config)), a.Type)
	}
	reason := firstText(reasonOr(cfg.Reason, ""))
	switch a.Type {
	case ActionSkip:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunSkip, Reason: reasonOr(reason, "skipped by constraint "+a.Constraint)})
	case ActionFailRun:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunFail, Reason: reasonOr(reason, "failed by constraint "+a.Constraint)})
	case ActionRetryRun:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunRetry, Reason: reasonOr(reason, "tried again by constraint "+a.Constraint)})
	default:
		to, e, failure := o.order(a.Type, cfg, reason, c)
		if failure != "" {
			return o, effs, failure
		}
		return o, append(effs, effects.Send{To: to, Event: e}), ""
	}
	return o, effs, ""
}

// order is what an action wants of another machine. A run that cannot be cancelled
// any more is no failure; all else that is refused makes the action one that failed.
func (o Orchestrator) order(typ string, cfg insideConfig, reason string, c Clock) (effects.Ref, Event, string) {
	by := "run " + o.RunID
	switch {
	case typ == ActionSkipNext:
		return o.job(), JobSkipNext{Reason: reason}, ""
	case typ == ActionKillLatest, typ == ActionKillAll:
		return o.job(), JobKill{Except: o.ID, All: typ == ActionKillAll, Reason: reasonOr(reason, "killed by "+by)}, ""
	case typ == ActionKickOffJob && cfg.Job == "":
		return effects.Ref{}, nil, "config.job: missing: give the id of the job to trigger"
	case typ == ActionKickOffJob:
		return JobRef(o.Namespace, o.Tenant, cfg.Job), JobTrigger{By: by, Owner: o.owner()}, ""
	case typ == ActionCancelRun && cfg.RunID == "":
		return effects.Ref{}, nil, "config.run_id: missing: give the id of the run to cancel"
	case typ == ActionCancelRun:
		return RunRef(o.Namespace, o.Tenant, cfg.RunID), OrchestratorCancel{Reason: reasonOr(reason, "cancelled by "+by)}, ""
	case typ == ActionEnqueue && cfg.Queue == "":
		return effects.Ref{}, nil, "config.queue: missing: give the name of the queue"
	case typ == ActionEnqueue:
		return QueueRef(o.Namespace, o.Tenant, cfg.Queue), QueuePush{
			Namespace: o.Namespace, Tenant: o.Tenant, Name: cfg.Queue, Data: cfg.Data, Priority: cfg.Priority,
			Key: cfg.Key, DedupKey: cfg.DedupKey, Owner: o.owner(),
		}, ""
	case typ == ActionStartPipeline:
		id := ChildID(o.ID, "pipeline", c.Step, uint64(o.owner().N))
		return effects.Ref{Kind: KindPipeline, ID: id}, PipelineCreate{Spec: PipelineSpec{
			ID: id, Namespace: o.Namespace, Tenant: o.Tenant, Label: cfg.Label, Owner: o.owner(), Definition: cfg.Definition, Context: cfg.Context,
		}}, ""
	}
	return effects.Ref{}, nil, fmt.Sprintf("type: %q is unknown", clip(typ))
}

// childEnded hears that what the run asked for was refused: its place, under
// number 0, or an action, which fails by that. While the run has not ended it then
// fails too, as far as the action says. How it ends that an action made is of no
// concern here.
func (o Orchestrator) childEnded(e ChildEnded, c Clock) (Orchestrator, []effects.Effect) {
	reason := boundedReason(e.Reason, "it was refused")
	i := slices.IndexFunc(o.Actions, func(a ActionRecord) bool { return a.N == e.N })
	switch {
	case e.Outcome != ChildRefused:
		return o, o.refuseNow(e)
	case e.N == 0 && o.State == OrchestratorPending && !o.Admitted:
		return o.leave(Leaving{To: OrchestratorCancelled, Reason: firstText("its job does not know it: " + reason)}, nil, c)
	case i < 0 || o.Actions[i].Error != "":
		return o, o.refuseNow(e)
	}
	o.Actions = slices.Clone(o.Actions)
	a := &o.Actions[i]
	a.Error, o.UpdatedAt = noteText(reason), c.Now
	o.Metrics.ActionsFailed++
	effs := []effects.Effect{o.announce("action_refused", announcementData(*a))}
	if o.State.Terminal() || o.Leaving.To != "" || a.ContinueOnError || a.Attempt != o.RetryAttempt {
		return o, effs
	}
	return o.fail(fmt.Sprintf("action %s of constraint %s: %s", a.Type, a.Constraint, reason), true, effs, c)
}
