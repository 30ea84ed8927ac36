package core

import (
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// child is what a pipeline, a strategy or a worker says of a machine that it makes.
type child struct {
	namespace, tenant, label string
	pipeline                 uuid.UUID // to which it belongs; zero: to none
	owner                    Owner     // who makes it, under the number that tells its children apart
	clock                    Clock
}

// ref names the child, if it is of that kind.
func (c child) ref(kind effects.Kind) effects.Ref {
	return effects.Ref{Kind: kind, ID: ChildID(c.owner.Ref.ID, string(kind), c.clock.Step, uint64(c.owner.N))}
}

// create gives the child that does the work, and the event that makes it.
func (c child) create(do WorkerDo, context map[string]json.RawMessage) (to effects.Ref, e Event, err error) {
	switch {
	case do.Pipeline != nil:
		to = c.ref(KindPipeline)
		return to, PipelineCreate{Spec: PipelineSpec{
			ID: to.ID, Namespace: c.namespace, Tenant: c.tenant, Label: c.label, Owner: c.owner, Definition: *do.Pipeline, Context: context,
		}}, nil
	case do.Run != nil:
		to = c.ref(KindAction)
		spec := c.action(to.ID, *do.Run).withDefaults()
		return to, ActionCreate{Spec: spec}, spec.Validate()
	case do.Strategy != nil:
		to = c.ref(KindStrategy)
		return to, StrategyCreate{Spec: StrategySpec{
			ID: to.ID, Namespace: c.namespace, Tenant: c.tenant, Label: c.label, PipelineID: c.pipeline, Owner: c.owner,
			Approaches: do.Strategy.Approaches,
		}}, nil
	case do.Task != nil:
		to = c.ref(KindTask)
		return to, TaskCreate{Spec: c.task(to.ID, *do.Task)}, nil
	}
	return effects.Ref{}, nil, errors.New("do: the worker has nothing to do")
}

// action is the child that runs a tool, now.
func (c child) action(id uuid.UUID, run ToolRun) ActionSpec {
	return ActionSpec{
		ID: id, Namespace: c.namespace, Tenant: c.tenant, Label: c.label, ToolName: run.Tool, ToolInput: run.Input,
		Trigger: Scheduled(min(max(c.clock.Now, effects.MinTime), maxTime)),
		Policy:  RunPolicy{OnInterrupt: run.OnInterrupt, TimeoutMS: run.TimeoutMS}.withDefaults(), Owner: c.owner,
	}
}

// task is the child that works in a session.
func (c child) task(id uuid.UUID, p AgentPrompt) TaskSpec {
	return TaskSpec{
		ID: id, Namespace: c.namespace, Tenant: c.tenant, Label: c.label, PipelineID: c.pipeline, Owner: c.owner,
		Workspace: p.Workspace, Command: p.Command, Env: p.Env, Prompt: p.Prompt, Config: p.Config,
	}
}

// cancelEvent is the event that ends a child of that kind early; nil if the kind has none.
func cancelEvent(kind effects.Kind, reason string) Event {
	switch kind {
	case KindAction:
		return ActionCancel{Reason: reason}
	case KindTask:
		return TaskCancel{Reason: reason}
	case KindStrategy:
		return StrategyCancel{Reason: reason}
	case KindPipeline:
		return PipelineCancel{Reason: reason}
	}
	return nil
}
