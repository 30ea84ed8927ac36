package shell

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/secrets"
)

// Actions are the calls for actions.
type Actions struct{ e *Engine }

// Actions gives the calls for actions: one run of a tool, now or at a set time.
func (e *Engine) Actions() Actions { return Actions{e} }

// Create stores an action; it fires when its time has come. An id of
// zeros is replaced by a fresh one, a trigger without a type fires now. The
// error is a [*Refusal] where the spec is wrong, the id exists, or another live
// action holds the dedup key. The spec may be changed afterwards; what the
// engine returns, here and elsewhere, must not be written to.
func (a Actions) Create(ctx context.Context, spec core.ActionSpec) (core.Action, error) {
	in, ref, err := a.creation(ctx, spec)
	if err != nil {
		return core.Action{}, err
	}
	s, err := a.e.loop.Do(ctx, engine.Request{Inputs: []core.Input{in}, Want: ref})
	return as[core.Action](s, err)
}

// creation gives the input that makes an action, which shares nothing with the spec, and the
// action's name.
func (a Actions) creation(ctx context.Context, spec core.ActionSpec) (in core.Input, ref effects.Ref, err error) {
	if err := fillID(&spec.ID); err != nil {
		return in, ref, err
	}
	if spec.Trigger.Type == "" {
		spec.Trigger = core.Scheduled(a.e.now())
	}
	ref = actionRef(spec.ID)
	if err := a.e.checkTool(ref, Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, "tool_name", spec.ToolName, "tool_input", spec.ToolInput); err != nil {
		return in, ref, err
	}
	spec.ToolInput = slices.Clone(spec.ToolInput)
	spec.Metadata, spec.Labels = maps.Clone(spec.Metadata), maps.Clone(spec.Labels)
	spec.Trigger.RawPayload, spec.Trigger.Header = slices.Clone(spec.Trigger.RawPayload), slices.Clone(spec.Trigger.Header)
	to, ev := ref, core.Event(core.ActionCreate{Spec: spec})
	if spec.DedupKey != "" {
		to, ev = core.DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey), core.DedupClaim{Create: spec}
	}
	return inputOf(ctx, to, ev), ref, nil
}

// Execute creates an action and returns it once it has ended. When ctx ends
// first, the action goes on.
func (a Actions) Execute(ctx context.Context, spec core.ActionSpec) (core.Action, error) {
	if err := fillID(&spec.ID); err != nil {
		return core.Action{}, err
	}
	ref := actionRef(spec.ID)
	w := a.e.loop.NewWaiter(ref)
	defer w.Stop()
	made, err := a.Create(ctx, spec)
	if err != nil {
		return made, err
	}
	if made.ID != spec.ID { // the request has come before, and made that one
		return waitForAs[core.Action](ctx, a.e, actionRef(made.ID))
	}
	s, err := w.Wait(ctx, made)
	return as[core.Action](s, err)
}

// checkTool refuses what could only fail later: a tool that does not exist, an input that
// it knows to be bad, and a secret that it may not have.
func (e *Engine) checkTool(to effects.Ref, of Scope, nameField, name, inputField string, input json.RawMessage) error {
	if name == "" {
		return invalid(to, "create", "%s: must not be empty: %s", nameField, e.knownTools())
	}
	tool, ok := e.o.Tools[name]
	if !ok {
		return invalid(to, "create", "%s: %q is unknown: %s", nameField, name, e.knownTools())
	}
	if len(input) > core.MaxInputBytes {
		return invalid(to, "create", "%s: %d bytes is more than %d", inputField, len(input), core.MaxInputBytes)
	}
	samples, err := e.checkSecrets(tool, to, inputField, input, secrets.Use{Namespace: of.Namespace, Tenant: of.Tenant, Tool: name})
	if err != nil {
		return err
	}
	v, ok := tool.(InputValidator)
	if !ok {
		return nil
	}
	if samples == nil {
		samples = []json.RawMessage{input}
	}
	if err := validate(v, samples); err != nil {
		return invalid(to, "create", "%s", strings.ReplaceAll(err.Error(), "tool_input", inputField))
	}
	return nil
}

func (e *Engine) knownTools() string {
	names := e.Actions().Tools()
	if len(names) == 0 {
		return "no tool is configured"
	}
	return "use one of " + strings.Join(names, ", ")
}

// Tools lists the names of the configured tools, in order.
func (a Actions) Tools() []string { return slices.Sorted(maps.Keys(a.e.o.Tools)) }

// PipelineStarter is a [Tool] whose runs start pipelines, as [PipelineTool] is one. A tool
// that wraps another one must forward it: else the HTTP API does not ask whether a token
// has the rights to what the pipeline does.
type PipelineStarter interface {
	// Starts says what pipeline a run with that input would start. The error says that the
	// input is none of the tool.
	Starts(input json.RawMessage) (*PipelineStart, error)
}

// PipelineStart is the pipeline that a run of a [PipelineStarter] would start: of a
// definition, or of a runbook file that is read when the action runs.
type PipelineStart struct {
	Definition *core.PipelineDef // nil: File counts
	File       string
}

// Starts says what pipeline a run of the tool would start with that input; nil if the tool
// is no [PipelineStarter].
func (a Actions) Starts(tool string, input json.RawMessage) (*PipelineStart, error) {
	if t, ok := a.e.o.Tools[tool].(PipelineStarter); ok {
		return t.Starts(input)
	}
	return nil, nil
}

// Get reads an action; [ErrNotFound] if it does not exist.
func (a Actions) Get(ctx context.Context, id uuid.UUID) (core.Action, error) {
	return readAs[core.Action](ctx, a.e, actionRef(id))
}

// Cancel ends an action that is pending or running, at once: its tool is asked to stop, and what
// it answers is dropped.
func (a Actions) Cancel(ctx context.Context, id uuid.UUID, reason string) (core.Action, error) {
	return a.CancelWith(ctx, id, core.ActionCancel{Reason: reason})
}

// CancelWith ends an action that is pending or running, in a mode: with [core.CancelAwait] one
// that runs stays so until its tool has ended, or for [Options.AbandonAfter] at most, and with
// [core.CancelKill] its tool is given no time to end by itself. The error is a [*Refusal] if the
// action has ended, is being cancelled in the same way already, or the mode is unknown.
func (a Actions) CancelWith(ctx context.Context, id uuid.UUID, how core.ActionCancel) (core.Action, error) {
	return sendTo[core.Action](ctx, a.e, actionRef(id), how)
}

// Retry makes a new action of one that failed or was cancelled, due at once, with what
// [core.Action.Again] says. An id of zeros is replaced by a fresh one. The error is a [*Refusal]
// if the old one cannot be retried, or the new one cannot be made, as with [Actions.Create]: a
// live action with the same dedup key refuses it.
func (a Actions) Retry(ctx context.Context, of, id uuid.UUID) (core.Action, error) {
	return a.again(ctx, of, id, false)
}

// RetryOnce is Retry under an id that follows from the old action's, [core.Action.OnceID]: whoever retries
// the same action gets the one that the first has made, as long as that is stored. made tells whether it is new.
func (a Actions) RetryOnce(ctx context.Context, of uuid.UUID) (action core.Action, made bool, err error) {
	old, err := a.Get(ctx, of)
	if err != nil {
		return action, false, err
	}
	spec, err := old.Again(old.OnceID(false), false, core.Clock{Now: a.e.now()})
	if err != nil {
		return action, false, err
	}
	return a.CreateOnce(ctx, spec)
}

// CreateOnce is Create, but that an action that has the id already is no error: it is the answer, whatever it
// was made of, and made is false.
func (a Actions) CreateOnce(ctx context.Context, spec core.ActionSpec) (action core.Action, made bool, err error) {
	if action, err = a.Get(ctx, spec.ID); err == nil {
		if again, err := a.e.WasAnswered(ctx); err != nil || !again { // else it was made under this key
			return action, false, err
		}
	}
	if action, err = a.Create(ctx, spec); err == nil {
		return action, true, nil
	}
	if before, getErr := a.Get(ctx, spec.ID); getErr == nil { // somebody else was quicker
		return before, false, nil
	}
	return action, false, err
}

func (a Actions) again(ctx context.Context, of, id uuid.UUID, redeliver bool) (core.Action, error) {
	old, err := a.Get(ctx, of)
	if err != nil {
		return core.Action{}, err
	}
	spec, err := old.Again(id, redeliver, core.Clock{Now: a.e.now()})
	if err != nil {
		return core.Action{}, err
	}
	return a.Create(ctx, spec)
}

// Trigger runs a pending action now.
func (a Actions) Trigger(ctx context.Context, id uuid.UUID) (core.Action, error) {
	return sendTo[core.Action](ctx, a.e, actionRef(id), core.ActionTrigger{})
}

// Wait returns the action once it has ended: at once where it has already. A
// recurring action does not end by completing.
func (a Actions) Wait(ctx context.Context, id uuid.UUID) (core.Action, error) {
	return waitForAs[core.Action](ctx, a.e, actionRef(id))
}

func actionRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindAction, ID: id} }

// ActionFilter chooses actions; zero fields choose all.
type ActionFilter struct {
	Scope  *Scope
	Status core.StatusType
	Tool   string
	Labels map[string]string // all of them
	// Recurs chooses those that recur and have not ended, once their first cycle stands in the ledger
	// of occurrences.
	Recurs bool
	// Webhook chooses those that requests of webhooks have made, Route those of one route.
	Webhook bool
	Route   string
}

// List lists actions, newest first (A7). A page may be shorter than its
// limit, and even empty, while there is more: next tells.
func (a Actions) List(ctx context.Context, f ActionFilter, p Page) (actions []core.Action, next string, err error) {
	of := filter{kind: core.KindAction, scope: f.Scope, status: statusTerm(f.Status), tool: f.Tool, labels: f.Labels}
	if f.Recurs {
		of.also = append(of.also, core.TermRecurs)
	}
	switch {
	case f.Route != "":
		of.also = append(of.also, core.RouteTerm(f.Route))
	case f.Webhook:
		of.begins = core.RouteTerm("")
	}
	return list(ctx, a.e, of, p, func(a core.Action) bool {
		return (f.Status == "" || a.Status.Type == f.Status) &&
			(f.Tool == "" || a.ToolName == f.Tool) &&
			(!f.Recurs || a.Ledger != nil && !a.Status.Type.Terminal()) &&
			(!f.Webhook || a.Trigger.Route != "") && (f.Route == "" || a.Trigger.Route == f.Route) &&
			hasLabels(a.Labels, f.Labels)
	})
}
