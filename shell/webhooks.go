package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Ingress has the calls of the webhook ingress.
type Ingress struct{ e *Engine }

// Webhooks gives the calls for the webhook ingress.
func (e *Engine) Webhooks() Ingress { return Ingress{e} }

// Receive stores a request of a configured route, raw, and returns its
// id once it is durable (B4). The action that the next tick makes of it has the
// same id.
func (i Ingress) Receive(ctx context.Context, route string, header map[string]string, body []byte) (uuid.UUID, error) {
	if _, ok := i.e.o.Webhooks[route]; !ok {
		return uuid.Nil, fmt.Errorf("webhook route %q %w", route, ErrNotFound)
	}
	if len(body) > core.MaxWebhookBytes {
		return uuid.Nil, invalid(effects.Ref{}, "webhook", "body: %d bytes is more than %d", len(body), core.MaxWebhookBytes)
	}
	var id uuid.UUID
	if err := fillID(&id); err != nil {
		return uuid.Nil, err
	}
	h, err := json.Marshal(header)
	if err != nil {
		return uuid.Nil, fmt.Errorf("encode the headers: %w", err)
	}
	_, err = i.e.loop.Do(ctx, engine.Request{Webhook: &store.Webhook{
		ID: id, Route: route, Header: h, ReceivedAt: i.e.now(), Body: body,
	}})
	if err != nil {
		return uuid.Nil, err
	}
	i.e.counts.with(func(s *counts) { s.actions.Webhooks++ })
	return id, nil
}

// Route gives a configured route; false if there is none of that name.
func (i Ingress) Route(name string) (WebhookRoute, bool) {
	r, ok := i.e.o.Webhooks[name]
	return r, ok
}

// validate makes sure that each request of the route can become an action:
// what is acknowledged must not fail later.
func (w WebhookRoute) validate(route string) error {
	spec := webhookAction(store.Webhook{ID: uuid.Max, Route: route, ReceivedAt: effects.MinTime}, w)
	_, effs := core.Action{}.Apply(core.ActionCreate{Spec: spec}, core.Clock{Now: effects.MinTime})
	for _, e := range effs {
		if r, ok := e.(effects.Refused); ok {
			return errors.New(r.Reason)
		}
	}
	return nil
}

// readWebhook turns a raw webhook into the creation of an action (B4).
func (e *Engine) readWebhook(h store.Webhook) (core.Input, error) {
	route, ok := e.o.Webhooks[h.Route]
	if !ok {
		return core.Input{}, fmt.Errorf("route %q is not configured any more", h.Route)
	}
	return core.Input{
		To: actionRef(h.ID), Actor: "webhook:" + h.Route, Event: core.ActionCreate{Spec: webhookAction(h, route)},
	}, nil
}

func webhookAction(h store.Webhook, route WebhookRoute) core.ActionSpec {
	label := cmp.Or(route.Label, "webhook "+h.Route)
	return core.ActionSpec{
		ID: h.ID, Namespace: route.Namespace, Tenant: route.Tenant, Label: label,
		ToolName: route.Tool, ActionType: route.ActionType, ToolInput: slices.Clone(route.ToolInput), Policy: route.Policy,
		Trigger: core.Trigger{
			Type: core.TriggerWebhook, ReceivedAt: h.ReceivedAt, Route: h.Route,
			RawPayload: slices.Clone(h.Body), Header: slices.Clone(json.RawMessage(h.Header)),
		},
	}
}
