package shell

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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
	id, _, err := i.ReceiveDelivery(ctx, route, "", header, body)
	return id, err
}

// Redeliver gives a webhook to its tool once more: it makes a new action, with the id given or a
// fresh one, of the one that the webhook had become, which has ended, also if it has completed.
// See [Actions.Retry]. What is forgotten after its retention cannot be delivered again.
func (i Ingress) Redeliver(ctx context.Context, of, id uuid.UUID) (core.Action, error) {
	return i.e.Actions().again(ctx, of, id, true)
}

// DeliveryWindow is how long a delivery is remembered.
const DeliveryWindow = 10 * time.Minute

// ReceiveDelivery is [Ingress.Receive] for a request that its sender repeats under the same
// delivery id. One that was stored within [DeliveryWindow] is not stored again: again is
// true, and the id that of the first, also if the process was restarted in between. An
// empty delivery is none.
//
// What remembers a delivery is the webhook itself, and the action that it becomes: its id
// is derived from route, delivery and a stretch of time. A retention of actions that is
// shorter than the window shortens it.
func (i Ingress) ReceiveDelivery(
	ctx context.Context, route, delivery string, header map[string]string, body []byte,
) (id uuid.UUID, again bool, err error) {
	if _, ok := i.e.o.Webhooks[route]; !ok {
		return id, false, fmt.Errorf("webhook route %q %w", route, ErrNotFound)
	}
	if len(body) > core.MaxWebhookBytes {
		return id, false, invalid(effects.Ref{}, "webhook", "body: %d bytes is more than %d", len(body), core.MaxWebhookBytes)
	}
	h, err := json.Marshal(header)
	if err != nil {
		return id, false, fmt.Errorf("encode the headers: %w", err)
	}
	req := engine.Request{Webhook: &store.Webhook{Route: route, Header: h, ReceivedAt: i.e.now(), Body: body}}
	if delivery != "" {
		knowDelivery(&req, delivery)
	} else if err := fillID(&req.Webhook.ID); err != nil {
		return id, false, err
	}
	rep, err := i.e.loop.Ask(ctx, req)
	if err == nil {
		_, err = rep.Answer()
	}
	if err != nil {
		return id, false, err
	}
	if rep.Before != uuid.Nil {
		return rep.Before, true, nil
	}
	i.e.counts.with(func(s *counts) { s.actions.Webhooks++ })
	return req.Webhook.ID, false, nil
}

// knowDelivery gives a webhook the id of its delivery in the present stretch of time, and
// says under which ids it may have come before: in this stretch, or in the one before.
func knowDelivery(req *engine.Request, delivery string) {
	h := req.Webhook
	stretch := int64(h.ReceivedAt) / DeliveryWindow.Milliseconds()
	h.ID = deliveryID(h.Route, delivery, stretch)
	req.Earlier = []effects.Ref{actionRef(h.ID), actionRef(deliveryID(h.Route, delivery, stretch-1))}
	req.SameAs = func(s core.State) bool {
		a, ok := s.(core.Action)
		return ok && h.ReceivedAt.Sub(a.Trigger.ReceivedAt) <= DeliveryWindow
	}
}

// deliveryID derives the id of a delivery: of version 5, which no caller may give to what
// they make. It begins with the time of the stretch, as ids of version 7 begin with theirs:
// raw webhooks are read in the order of their ids, and what comes later must not go first
// for ever.
func deliveryID(route, delivery string, stretch int64) uuid.UUID {
	name := fmt.Sprintf("webhook\x00%s\x00%d\x00%s", route, stretch, delivery)
	id := uuid.NewHash(sha256.New(), uuid.Nil, []byte(name), 5)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(stretch*DeliveryWindow.Milliseconds()))
	copy(id[:6], at[2:])
	return id
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
