package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
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
	if err := fillID(&spec.ID); err != nil {
		return core.Action{}, err
	}
	if spec.Trigger.Type == "" {
		spec.Trigger = core.Scheduled(wall(a.e.o.Clock.Now()))
	}
	ref := effects.Ref{Kind: core.KindAction, ID: spec.ID}
	if err := a.e.checkTool(ref, "tool_name", spec.ToolName, "tool_input", spec.ToolInput); err != nil {
		return core.Action{}, err
	}
	spec.ToolInput = slices.Clone(spec.ToolInput)
	spec.Metadata, spec.Labels = maps.Clone(spec.Metadata), maps.Clone(spec.Labels)
	spec.Trigger.RawPayload, spec.Trigger.Header = slices.Clone(spec.Trigger.RawPayload), slices.Clone(spec.Trigger.Header)
	to, ev := ref, core.Event(core.ActionCreate{Spec: spec})
	if spec.DedupKey != "" {
		to, ev = core.DedupRef(spec.Namespace, spec.Tenant, spec.DedupKey), core.DedupClaim{Create: spec}
	}
	s, err := a.e.do(ctx, &request{
		inputs: []core.Input{{To: to, Actor: ActorFrom(ctx), Event: ev}},
		want:   ref,
	})
	return asAction(s, err)
}

// fillID gives an action an id where it has none: version 7, so that new records
// stand together in the store.
func fillID(id *uuid.UUID) (err error) {
	if *id != uuid.Nil {
		return nil
	}
	if *id, err = uuid.NewV7(); err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	return nil
}

// Execute creates an action and returns it once it has ended. When ctx ends
// first, the action goes on.
func (a Actions) Execute(ctx context.Context, spec core.ActionSpec) (core.Action, error) {
	if err := fillID(&spec.ID); err != nil {
		return core.Action{}, err
	}
	ref := effects.Ref{Kind: core.KindAction, ID: spec.ID}
	c := a.e.wait.add(ref)
	defer a.e.wait.remove(ref, c)
	made, err := a.Create(ctx, spec)
	if err != nil {
		return made, err
	}
	s, err := a.e.await(ctx, c, made)
	return asAction(s, err)
}

// checkTool refuses what could only fail later: a tool that does not exist, and
// an input that it knows to be bad.
func (e *Engine) checkTool(to effects.Ref, nameField, name, inputField string, input json.RawMessage) error {
	invalid := func(reason string) error {
		return &Refusal{To: to, Event: "create", Code: effects.CodeInvalid, Reason: reason}
	}
	if name == "" {
		return invalid(nameField + ": must not be empty: " + e.knownTools())
	}
	tool, ok := e.o.Tools[name]
	if !ok {
		return invalid(fmt.Sprintf("%s: %q is unknown: %s", nameField, name, e.knownTools()))
	}
	v, ok := tool.(InputValidator)
	if !ok {
		return nil
	}
	if len(input) > core.MaxInputBytes {
		return invalid(fmt.Sprintf("%s: %d bytes is more than %d", inputField, len(input), core.MaxInputBytes))
	}
	if err := v.ValidateInput(input); err != nil {
		return invalid(strings.ReplaceAll(err.Error(), "tool_input", inputField))
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

// Get reads an action; [ErrNotFound] where there is none.
func (a Actions) Get(ctx context.Context, id uuid.UUID) (core.Action, error) {
	s, err := a.e.read(ctx, effects.Ref{Kind: core.KindAction, ID: id})
	return asAction(s, err)
}

// Cancel ends an action that is pending or running.
func (a Actions) Cancel(ctx context.Context, id uuid.UUID, reason string) (core.Action, error) {
	return a.e.sendAction(ctx, id, core.ActionCancel{Reason: reason})
}

// Trigger runs a pending action now.
func (a Actions) Trigger(ctx context.Context, id uuid.UUID) (core.Action, error) {
	return a.e.sendAction(ctx, id, core.ActionTrigger{})
}

// Wait returns the action once it has ended: at once where it has already. A
// recurring action does not end by completing.
func (a Actions) Wait(ctx context.Context, id uuid.UUID) (core.Action, error) {
	s, err := a.e.waitFor(ctx, effects.Ref{Kind: core.KindAction, ID: id})
	return asAction(s, err)
}

func (e *Engine) sendAction(ctx context.Context, id uuid.UUID, ev core.ActionEvent) (core.Action, error) {
	s, err := e.Send(ctx, effects.Ref{Kind: core.KindAction, ID: id}, ev)
	return asAction(s, err)
}

func asAction(s core.State, err error) (core.Action, error) {
	a, _ := s.(core.Action)
	return a, notFound(err)
}

// notFound lets a machine's refusal also be an [ErrNotFound].
func notFound(err error) error {
	var r *Refusal
	if errors.As(err, &r) && r.Code == effects.CodeNotFound {
		return fmt.Errorf("%w: %w", err, ErrNotFound)
	}
	return err
}

// Webhooks are the calls for the webhook ingress.
type Webhooks struct{ e *Engine }

// Webhooks gives the calls for the webhook ingress.
func (e *Engine) Webhooks() Webhooks { return Webhooks{e} }

// Receive stores a request of a configured route, raw, and returns its
// id once it is durable (B4). The action that the next tick makes of it has the
// same id.
func (w Webhooks) Receive(ctx context.Context, route string, header map[string]string, body []byte) (uuid.UUID, error) {
	if _, ok := w.e.o.Webhooks[route]; !ok {
		return uuid.Nil, fmt.Errorf("webhook route %q %w", route, ErrNotFound)
	}
	if len(body) > core.MaxWebhookBytes {
		return uuid.Nil, &Refusal{Event: "webhook", Code: effects.CodeInvalid, Reason: fmt.Sprintf("body: %d bytes is more than %d", len(body), core.MaxWebhookBytes)}
	}
	var id uuid.UUID
	if err := fillID(&id); err != nil {
		return uuid.Nil, err
	}
	h, err := json.Marshal(header)
	if err != nil {
		return uuid.Nil, fmt.Errorf("encode the headers: %w", err)
	}
	_, err = w.e.do(ctx, &request{webhook: &store.Webhook{
		ID: id, Route: route, Header: h, ReceivedAt: wall(w.e.o.Clock.Now()), Body: body,
	}})
	if err != nil {
		return uuid.Nil, err
	}
	w.e.stats.webhooks.Add(1)
	return id, nil
}
