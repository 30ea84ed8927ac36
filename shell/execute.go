package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
)

// procedure says how an outer effect is carried out: by the tool of an action, or by
// the interpreter of its lane.
func (e *Engine) procedure(effect engine.OuterEffect) engine.Procedure {
	a, ok := effect.State.(core.Action)
	if !ok {
		return engine.Procedure{What: "effect", Subject: "effect", Limit: e.o.EffectTimeout, Call: func(ctx context.Context) (json.RawMessage, error) {
			return e.interpret(ctx, effect)
		}}
	}
	limit := a.Policy.Timeout()
	if limit == 0 {
		limit = e.o.DefaultTimeout
	}
	return engine.Procedure{What: "tool", Subject: "action", Limit: limit, Call: func(ctx context.Context) (json.RawMessage, error) {
		return e.runTool(ctx, &a)
	}}
}

// interpret carries out an effect that is no tool's run; a panic becomes an
// error.
func (e *Engine) interpret(ctx context.Context, o engine.OuterEffect) (result json.RawMessage, err error) {
	ref := o.State.Ref()
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("interpreter panicked", "ref", ref.String(), "lane", o.Lane, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the interpreter of %q panicked: %v", o.Lane, p)
		}
	}()
	i, ok := e.o.Interpreters[o.Lane]
	if !ok {
		return nil, Permanent(fmt.Errorf("no interpreter of %q is configured", o.Lane))
	}
	if i, ok := i.(StateInterpreter); ok {
		return i.CarryFor(ctx, o.State, o.Effect)
	}
	return i.Carry(ctx, ref, o.Effect)
}

// runTool runs the tool of an action; a panic becomes an error.
func (e *Engine) runTool(ctx context.Context, a *core.Action) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("tool panicked", "action_id", a.ID, "tool", a.ToolName, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("tool %q panicked: %v", a.ToolName, p)
		}
	}()
	tool, ok := e.o.Tools[a.ToolName]
	if !ok {
		return nil, fmt.Errorf("tool %q is not configured", a.ToolName)
	}
	return tool.Run(ctx, Call{
		ActionID: a.ID, Attempt: a.Attempt, Namespace: a.Namespace, Tenant: a.Tenant, Label: a.Label,
		Tool: a.ToolName, ActionType: a.ActionType, Input: a.ToolInput,
		Payload: a.Trigger.RawPayload, Header: a.Trigger.Header, DueAt: a.Trigger.KeyTime(),
		Metadata: a.Metadata, Labels: a.Labels,
		IdempotencyKey: a.ID.String() + "/" + strconv.FormatUint(uint64(a.Cycle), 10),
		log:            e.log, engine: e,
	})
}
