package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// phase is the evaluation that the run is about.
func (o Orchestrator) phase() effects.CheckPhase {
	if o.State == OrchestratorTerminating {
		return effects.CheckPost
	}
	return effects.CheckPre
}

// checked takes what an evaluation of the constraints came to.
func (o Orchestrator) checked(r ConstraintReport, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	phase := o.phase()
	o.ToTake, o.UpdatedAt = nil, c.Now
	var checks []ConstraintCheck
	for _, check := range r.Checks[:min(len(r.Checks), MaxConstraints)] {
		o.Metrics.ConstraintsChecked++
		if !check.Met {
			o.Metrics.ConstraintsViolated++
			effs = append(effs, o.announce("constraint_violated", jsonOf(struct {
				Constraint string `json:"constraint"`
				Message    string `json:"message"`
			}{firstText(check.Name), firstText(check.Message)})))
		}
		for _, a := range check.Actions {
			a.Constraint = firstText(check.Name)
			o.ToTake = append(o.ToTake, a)
		}
		checks = append(checks, ConstraintCheck{
			Name: firstText(check.Name), Phase: phase, Attempt: o.RetryAttempt, Met: check.Met,
			Message: firstText(check.Message), Error: firstText(check.Error),
		})
	}
	o.Checks = lastOf(slices.Concat(o.Checks, checks), 2*MaxConstraints)
	if len(o.ToTake) > MaxRunActions {
		return o.fail(fmt.Sprintf("the constraints have %d actions, more than %d", len(o.ToTake), MaxRunActions), true, effs, c)
	}
	o.Decision = Decision{Verdict: RunProceed}
	if !r.ShouldProceed {
		o.Decision = Decision{Verdict: RunStop, Reason: boundedReason(r.Message, "a constraint is violated")}
	}
	if phase == effects.CheckPost {
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

// lastOf keeps the last elements of a list.
func lastOf[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// takeNext takes the actions that are left, up to one that leaves the system.
func (o Orchestrator) takeNext(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	for len(o.ToTake) > 0 {
		a := o.ToTake[0]
		if !machineAction(a.Type) {
			return o.ask(effects.TakeAction{N: o.Asked.next(), Constraint: a.Constraint, Type: a.Type, Config: a.Config}, effs)
		}
		var err error
		if o, effs, err = o.takeInside(a, effs, c); err != nil && !a.ContinueOnError {
			return o.actionFailed(a, err.Error(), effs, c)
		}
		o = o.took(a, errorText(err), c)
	}
	return o.decide(effs, c)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return firstText(err.Error())
}

// took notes how the first action that was left came out.
func (o Orchestrator) took(a ActionRequest, failure string, c Clock) Orchestrator {
	o.ToTake = slices.Clone(o.ToTake[1:])
	o.Metrics.ActionsExecuted++
	if failure != "" {
		o.Metrics.ActionsFailed++
	}
	o.Actions = lastOf(append(slices.Clone(o.Actions), ActionRecord{
		Constraint: a.Constraint, Type: a.Type, Phase: o.phase(), Attempt: o.RetryAttempt, Error: failure, At: c.Now,
	}), 2*MaxRunActions)
	return o
}

// acted takes the answer to an action that left the system.
func (o Orchestrator) acted(failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if len(o.ToTake) == 0 {
		return o, effs
	}
	a := o.ToTake[0]
	if failure != "" && !a.ContinueOnError {
		return o.actionFailed(a, failure, effs, c)
	}
	return o.took(a, failure, c).takeNext(effs, c)
}

// actionFailed ends the run (004 Action Executor Errors).
func (o Orchestrator) actionFailed(a ActionRequest, failure string, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o = o.took(a, failure, c)
	reason := firstText(fmt.Sprintf("action %s of constraint %s: %s", a.Type, a.Constraint, failure))
	return o.fail(reason, true, effs, c)
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
		o.Error = reasonOr(d.Reason, "skipped by a constraint")
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
func (o Orchestrator) takeInside(a ActionRequest, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect, error) {
	var cfg insideConfig
	if len(a.Config) > 0 {
		if err := json.Unmarshal(a.Config, &cfg); err != nil {
			return o, effs, fmt.Errorf("config: %w", err)
		}
	}
	reason := firstText(reasonOr(cfg.Reason, ""))
	send := func(to effects.Ref, e Event) (Orchestrator, []effects.Effect, error) {
		return o, append(effs, effects.Send{To: to, Event: e}), nil
	}
	switch a.Type {
	case ActionSkip:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunSkip, Reason: reason})
	case ActionFailRun:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunFail, Reason: reason})
	case ActionRetryRun:
		o.Decision = o.Decision.stronger(Decision{Verdict: RunRetry, Reason: reason})
	case ActionSkipNext:
		return send(o.job(), JobSkipNext{Reason: reason})
	case ActionKillLatest, ActionKillAll:
		return send(o.job(), JobKill{Except: o.ID, All: a.Type == ActionKillAll, Reason: reasonOr(reason, "killed by run "+o.RunID)})
	case ActionKickOffJob:
		if cfg.Job == "" {
			return o, effs, fmt.Errorf("config.job: missing: give the id of the job to trigger")
		}
		return send(JobRef(o.Namespace, o.Tenant, cfg.Job), JobTrigger{By: "run " + o.RunID, Owner: o.owner()})
	case ActionCancelRun:
		if cfg.RunID == "" {
			return o, effs, fmt.Errorf("config.run_id: missing: give the id of the run to cancel")
		}
		return send(RunRef(o.Namespace, o.Tenant, cfg.RunID), OrchestratorCancel{Reason: reasonOr(reason, "cancelled by run "+o.RunID)})
	case ActionEnqueue:
		if cfg.Queue == "" {
			return o, effs, fmt.Errorf("config.queue: missing: give the name of the queue")
		}
		return send(QueueRef(o.Namespace, o.Tenant, cfg.Queue), QueuePush{
			Namespace: o.Namespace, Tenant: o.Tenant, Name: cfg.Queue, Data: cfg.Data, Priority: cfg.Priority,
			Key: cfg.Key, DedupKey: cfg.DedupKey, Owner: o.owner(),
		})
	case ActionStartPipeline:
		id := ChildID(o.ID, "pipeline", c.Step, uint64(len(o.Actions)))
		return send(effects.Ref{Kind: KindPipeline, ID: id}, PipelineCreate{Spec: PipelineSpec{
			ID: id, Namespace: o.Namespace, Tenant: o.Tenant, Label: cfg.Label, Owner: o.owner(), Definition: cfg.Definition, Context: cfg.Context,
		}})
	}
	return o, effs, nil
}

// childEnded hears that what an action asked for was refused, which makes that
// action one that failed. How what was made ends is of no concern here.
func (o Orchestrator) childEnded(e ChildEnded, c Clock) (Orchestrator, []effects.Effect) {
	i := int(e.N)
	if e.Outcome != ChildRefused || i >= len(o.Actions) || o.Actions[i].Error != "" {
		return o, o.refuseNow(e)
	}
	o.Actions = slices.Clone(o.Actions)
	o.Actions[i].Error, o.UpdatedAt = boundedReason(e.Reason, "it was refused"), c.Now
	o.Metrics.ActionsFailed++
	return o, nil
}
