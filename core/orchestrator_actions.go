package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

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
	ActionRetryRun      = "retry"      // the run makes another attempt, if its retry configuration allows
	ActionSkipNext      = "skipNext"   // the job's next occurrence is skipped
	ActionKickOffJob    = "kickOffJob" // another job is triggered
	ActionCancelRun     = "cancelRun"  // a run is cancelled
	ActionKillLatest    = "killLatest" // the job's latest other run is cancelled
	ActionKillAll       = "killAll"    // all its other runs are
	ActionEnqueue       = "enqueue"    // an item is pushed into a queue
	ActionStartPipeline = "startPipeline"
)

// machineAction reports whether the machines themselves carry out an action.
func machineAction(typ string) bool {
	switch typ {
	case ActionSkip, ActionFailRun, ActionRetryRun, ActionSkipNext, ActionKickOffJob, ActionCancelRun,
		ActionKillLatest, ActionKillAll, ActionEnqueue, ActionStartPipeline:
		return true
	}
	return false
}

// actionConfig is the union of what the machines' own actions may be told.
type actionConfig struct {
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

// takeActions takes the actions that remain, up to one that is an outer effect.
func (t *orchestratorTransition) takeActions() {
	for len(t.ToTake) > 0 {
		a := t.ToTake[0]
		if !machineAction(a.Type) {
			t.ask(effects.TakeAction{N: t.Pending.next(), Constraint: a.Constraint, Type: a.Type, Config: a.Config})
			return
		}
		if failed := t.recordAction(a, t.takeMachineAction(a)); failed {
			return
		}
	}
	t.followDecision()
}

// actionTaken takes the answer to an action that is an outer effect; failure is empty if
// it succeeded.
func (t *orchestratorTransition) actionTaken(failure string) {
	if len(t.ToTake) == 0 {
		return
	}
	if failed := t.recordAction(t.ToTake[0], failure); !failed {
		t.takeActions()
	}
}

// recordAction notes how the first action that was left came out. By a failure the run
// fails too, unless the action says otherwise (004 Action Executor Errors).
func (t *orchestratorTransition) recordAction(a ActionRequest, failure string) (failed bool) {
	t.ToTake = slices.Clone(t.ToTake[1:])
	t.Metrics.ActionsExecuted++
	if failure != "" {
		t.Metrics.ActionsFailed++
	}
	record := ActionRecord{
		N: t.Metrics.ActionsExecuted, Constraint: a.Constraint, Type: a.Type, ContinueOnError: a.ContinueOnError,
		Phase: t.phase(), Attempt: t.RetryAttempt, Error: noteText(failure), At: t.clock.Now,
	}
	t.Actions, t.UpdatedAt = lastOf(append(slices.Clip(t.Actions), record), 2*MaxRunActions), t.clock.Now
	t.announce("action", record)
	if failure == "" || a.ContinueOnError {
		return false
	}
	t.failByAction(record, failure)
	return true
}

func (t *orchestratorTransition) failByAction(a ActionRecord, failure string) {
	t.fail(fmt.Sprintf("action %s of constraint %s: %s", a.Type, a.Constraint, failure), true)
}

// actionOwner is how the run hears of a refusal of what its next action asks for.
func (t *orchestratorTransition) actionOwner() Owner {
	return Owner{Ref: runRef(t.ID), N: t.Metrics.ActionsExecuted + 1}
}

// takeMachineAction carries out an action that needs nothing outside.
func (t *orchestratorTransition) takeMachineAction(a ActionRequest) (failure string) {
	var cfg actionConfig
	if err := json.Unmarshal(a.Config, &cfg); len(a.Config) > 0 && err != nil {
		return fmt.Sprintf("config: %s is not what %s takes", clip(string(a.Config)), a.Type)
	}
	reason := firstText(reasonOr(cfg.Reason, ""))
	switch a.Type {
	case ActionSkip:
		t.Decision = t.Decision.stronger(Decision{Verdict: RunSkip, Reason: reasonOr(reason, "skipped by constraint "+a.Constraint)})
	case ActionFailRun:
		t.Decision = t.Decision.stronger(Decision{Verdict: RunFail, Reason: reasonOr(reason, "failed by constraint "+a.Constraint)})
	case ActionRetryRun:
		t.Decision = t.Decision.stronger(Decision{Verdict: RunRetry, Reason: reasonOr(reason, "tried again by constraint "+a.Constraint)})
	default:
		to, e, failure := t.actionEvent(a.Type, cfg, reason)
		if failure != "" {
			return failure
		}
		t.send(to, e)
	}
	return ""
}

// actionEvent is what an action wants of another machine. A run that cannot be cancelled
// any more is no failure; the action fails by any other refusal.
func (t *orchestratorTransition) actionEvent(typ string, cfg actionConfig, reason string) (to effects.Ref, e Event, failure string) {
	by := "run " + t.RunID
	switch {
	case typ == ActionSkipNext:
		return t.job(), JobSkipNext{Reason: reason}, ""
	case typ == ActionKillLatest, typ == ActionKillAll:
		return t.job(), JobKill{Except: t.ID, All: typ == ActionKillAll, Reason: reasonOr(reason, "killed by "+by)}, ""
	case typ == ActionKickOffJob && cfg.Job == "":
		return effects.Ref{}, nil, "config.job: missing: give the id of the job to trigger"
	case typ == ActionKickOffJob:
		return JobRef(t.Namespace, t.Tenant, cfg.Job), JobTrigger{By: by, Owner: t.actionOwner()}, ""
	case typ == ActionCancelRun && cfg.RunID == "":
		return effects.Ref{}, nil, "config.run_id: missing: give the id of the run to cancel"
	case typ == ActionCancelRun:
		return RunRef(t.Namespace, t.Tenant, cfg.RunID), OrchestratorCancel{Reason: reasonOr(reason, "cancelled by "+by)}, ""
	case typ == ActionEnqueue && cfg.Queue == "":
		return effects.Ref{}, nil, "config.queue: missing: give the name of the queue"
	case typ == ActionEnqueue:
		return QueueRef(t.Namespace, t.Tenant, cfg.Queue), QueuePush{
			Namespace: t.Namespace, Tenant: t.Tenant, Name: cfg.Queue, Data: cfg.Data, Priority: cfg.Priority,
			Key: cfg.Key, DedupKey: cfg.DedupKey, Owner: t.actionOwner(),
		}, ""
	case typ == ActionStartPipeline:
		id := ChildID(t.ID, "pipeline", t.clock.Step, uint64(t.actionOwner().N))
		return effects.Ref{Kind: KindPipeline, ID: id}, PipelineCreate{Spec: PipelineSpec{
			ID: id, Namespace: t.Namespace, Tenant: t.Tenant, Label: cfg.Label, Owner: t.actionOwner(), Definition: cfg.Definition, Context: cfg.Context,
		}}, ""
	}
	return effects.Ref{}, nil, fmt.Sprintf("type: %q is unknown", clip(typ))
}

// childEnded hears that what the run asked for was refused: its slot, under number 0,
// or an action, which fails by that. While the run has not ended it then fails too, as
// far as the action says. How a machine ends that an action made is of no concern here.
func (t *orchestratorTransition) childEnded(e ChildEnded) {
	reason := boundedReason(e.Reason, "it was refused")
	i := slices.IndexFunc(t.Actions, func(a ActionRecord) bool { return a.N == e.N })
	switch {
	case e.Outcome != ChildRefused:
		t.refuseNow()
	case e.N == 0 && t.State == OrchestratorPending && !t.Admitted:
		t.endWith(RunExit{To: OrchestratorCancelled, Reason: firstText("its job does not know it: " + reason)})
	case i < 0 || t.Actions[i].Error != "":
		t.refuseNow()
	default:
		t.actionRefused(i, reason)
	}
}

// actionRefused: another machine has refused what the action wanted of it.
func (t *orchestratorTransition) actionRefused(i int, reason string) {
	t.Actions = slices.Clone(t.Actions)
	a := &t.Actions[i]
	a.Error, t.UpdatedAt = noteText(reason), t.clock.Now
	t.Metrics.ActionsFailed++
	t.announce("action_refused", *a)
	if t.State.Terminal() || t.Exit.To != "" || a.ContinueOnError || a.Attempt != t.RetryAttempt {
		return
	}
	t.failByAction(*a, reason)
}
