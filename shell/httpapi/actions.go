package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) actionRoutes() []route {
	actions := s.actions()
	return []route{
		{"POST", "/v1/actions", writingToken, create(s, "/v1/actions/", fromOutside, s.createAction)},
		{"POST", "/v1/actions/batch", writingToken, noQuery(s.createActions)},
		{"GET", "/v1/actions", anyToken | lists, actions.page(s, "actions")},
		{"GET", "/v1/actions/{id}", anyToken, actions.act(show[core.Action])},
		{"GET", "/v1/actions/{id}/history", anyToken | lists, s.actionHistory},
		{"GET", "/v1/actions/{id}/logs", anyToken | streams, s.streamOutput},
		{"POST", "/v1/actions/{id}/cancel", writingToken, actions.act(s.cancelAction)},
		{"POST", "/v1/actions/{id}/trigger", writingToken, actions.act(s.triggerAction)},
		{"POST", "/v1/actions/{id}/retry", writingToken, s.makeAgain(actions, false)},
		{"POST", "/v1/webhooks/{id}/redeliver", writingToken, s.makeAgain(actions, true)},
	}
}

const emptyZone = `must not be empty: leave it out for "UTC"`

// policyOf gives the policy that was asked for; nil: the defaults.
func policyOf(p *wire.RunPolicy) core.RunPolicy { return or(p, wire.RunPolicy{}).RunPolicy }

// fromOutside says why some fields of a stored action cannot be given.
var fromOutside = map[string]string{
	"occurrence": "can only be set by a recurring action", "ledger": "is set by the server", "owner": "can only be set by machines",
	"status": "is set by the server", "created_at": "is set by the server", "updated_at": "is set by the server",
	"run": "is set by the server", "cycle": "is set by the server", "attempt": "is set by the server",
	"started_at": "is set by the server", "finished_at": "is set by the server", "last_run": "is set by the server",
	"retry_at": "is set by the server", "attempts": "is set by the server", "cancelling": "is set by the server",
	"trigger.raw_payload": "can only come with a webhook", "trigger.received_at": "can only come with a webhook",
	"trigger.header": "can only come with a webhook", "trigger.route": "can only come with a webhook",
}

// actionSpec gives the action that was asked for. Its namespace and tenant depend on
// who asks: see home.
func actionSpec(a *wire.ActionRequest) (core.ActionSpec, error) {
	spec := core.ActionSpec{
		Label:    or(a.Label, ""),
		ToolName: a.ToolName, ActionType: or(a.ActionType, ""), ToolInput: a.ToolInput,
		Policy: policyOf(a.Policy), DedupKey: or(a.DedupKey, ""),
		Metadata: a.Metadata, Labels: a.Labels,
	}
	if a.Recurrence != nil {
		spec.Recurrence = a.Recurrence.Recurrence
	}
	var err error
	if spec.ID, err = idOf("id", a.ID); err != nil {
		return spec, err
	}
	if spec.ID.Version() == 5 {
		// What a recurring action makes has such ids: nobody may take them first.
		return spec, failf(http.StatusBadRequest, "id: %s is a UUID of version 5, which only the server derives: use version 4 or 7", spec.ID)
	}
	if t := a.Trigger; t != nil {
		switch t.Type {
		case string(core.TriggerScheduled):
			spec.Trigger = core.Scheduled(t.NextTickAt)
		case string(core.TriggerWebhook):
			return spec, failf(http.StatusBadRequest, `trigger.type: only POST /v1/webhooks/{route} makes actions of the type "webhook": use "scheduled"`)
		default:
			return spec, failf(http.StatusBadRequest, `trigger.type: %q is unknown: use "scheduled"`, clip(t.Type))
		}
	}
	for k := range a.Metadata {
		if k == core.MetaRetryOf {
			return spec, failf(http.StatusBadRequest, "metadata.%s: only POST /v1/actions/{id}/retry and POST /v1/webhooks/{id}/redeliver set it", k)
		}
		if strings.HasPrefix(k, "_recurring_") {
			return spec, failf(http.StatusBadRequest, "metadata.%s: only recurring actions set names that begin with _recurring_", clip(k))
		}
	}
	return spec, nil
}

func (s *Server) createAction(r *http.Request, c *call, b *wire.ActionRequest) (action core.Action, err error) {
	spec, err := askedAction(c, b)
	if err != nil {
		return action, err
	}
	c.about(spec.Namespace, spec.Tenant)
	if err := s.mayCreate(r.Context(), c, &spec, want{}); err != nil {
		return action, err
	}
	return s.engine.Actions().Create(r.Context(), spec)
}

// askedAction gives the action that a token asks for, as far as it may name what stands in it.
func askedAction(c *call, b *wire.ActionRequest) (spec core.ActionSpec, err error) {
	if spec, err = actionSpec(b); err != nil {
		return spec, err
	}
	scope, err := c.token.homeOf(b.Namespace, b.Tenant)
	spec.Namespace, spec.Tenant = scope.Namespace, scope.Tenant
	return spec, err
}

// mayCreate refuses an action that the token may not have made, or that is beyond the limits
// of its tenant with what is made before it.
func (s *Server) mayCreate(ctx context.Context, c *call, spec *core.ActionSpec, before want) error {
	scope := shell.Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}
	if err := c.token.permit(nil, nil, spec.ToolName); err != nil {
		return err
	}
	if err := s.permitInput(ctx, c.token, scope, "tool_input", spec.ToolName, spec.ToolInput); err != nil {
		return err
	}
	w := before.and(actionWanted(spec))
	w.bytes = before.bytes // what it stores itself is known once it is stored
	w.schedule, w.asked = recurrenceOf(spec, s.now()), spec
	if err := s.within(ctx, c.token, scope, w); err != nil {
		return err
	}
	return s.idIsFree(ctx, spec.ID)
}

// actionWanted is what an action adds to what its tenant has.
func actionWanted(spec *core.ActionSpec) want {
	w := want{actions: 1, bytes: int64(len(spec.ToolInput) + len(spec.Trigger.RawPayload))}
	if !spec.Recurrence.IsZero() {
		w.schedules = 1
	}
	return w
}

// actions says how actions are served.
func (s *Server) actions() machines[core.Action, wire.ActionSummary] {
	return machines[core.Action, wire.ActionSummary]{
		what: "action", get: s.engine.Actions().Get, id: idOfPath,
		listing: listing[core.Action, wire.ActionSummary]{
			params: []string{"status", "tool", "name", "label*", "recurs", "webhook", "route"}, timed: true, fails: true,
			wide:  []string{"tool_input", "result", "raw_payload", "attempts"},
			omit:  omitOfAction,
			check: func(q query) error { _, err := statusOfAction(q); return err },
			find:  s.findActions,
			scope: func(a core.Action) (string, string) { return a.Namespace, a.Tenant },
			sees: func(_ context.Context, t *Token, a core.Action) bool {
				return t.sees(a.Namespace, a.Tenant, a.ToolName)
			},
			out: plain(func(a core.Action) wire.ActionSummary { return wire.ActionSummary(a) }),
			size: func(a core.Action) int {
				return len(a.Trigger.RawPayload)*4/3 + len(a.ToolInput) + len(a.Status.Result) + 2*core.MaxAttemptText*len(a.Attempts)
			},
		},
	}
}

// omitOfAction takes out of an action what a list was not asked for. nil means that it
// is left out, so that what was asked for and is empty becomes null.
func omitOfAction(a core.Action, asked include) core.Action {
	a.ToolInput = keepIf(asked.has("tool_input"), a.ToolInput)
	a.Status.Result = keepIf(asked.has("result"), a.Status.Result)
	if a.LastRun != nil {
		last := *a.LastRun
		last.Status.Result = keepIf(asked.has("result"), last.Status.Result)
		if !asked.has("attempts") {
			last.Attempts = nil
		}
		a.LastRun = &last
	}
	if !asked.has("attempts") {
		a.Attempts = nil
	}
	if !asked.has("raw_payload") {
		a.Trigger.RawPayload = nil
	} else if a.Trigger.RawPayload == nil {
		a.Trigger.RawPayload = []byte{}
	}
	return a
}

// keepIf gives a member that was asked for, null if it is empty; else nil.
func keepIf(asked bool, v json.RawMessage) json.RawMessage {
	switch {
	case !asked:
		return nil
	case len(v) == 0:
		return json.RawMessage("null")
	}
	return v
}

// statusOfAction reads the filter by status.
func statusOfAction(q query) (core.StatusType, error) {
	status, err := q.status([]string{"pending", "running", "completed", "failed", "cancelled"})
	return core.StatusType(status), err
}

func (s *Server) findActions(q query, scope *shell.Scope) (source[core.Action], error) {
	status, err := statusOfAction(q)
	if err != nil {
		return source[core.Action]{}, err
	}
	recurs, err := q.onlyTrue("recurs")
	if err != nil {
		return source[core.Action]{}, err
	}
	webhook, err := q.onlyTrue("webhook")
	if err != nil {
		return source[core.Action]{}, err
	}
	labels, err := q.labels()
	f := shell.ActionFilter{Scope: scope, Tool: q.get("tool"), Status: status, Labels: labels, Recurs: recurs, Webhook: webhook, Route: q.get("route")}
	from := sourceOf(s.engine.Actions().List, f)
	from.keep = chooseAction(q)
	return from, err
}

func (s *Server) cancelAction(w http.ResponseWriter, r *http.Request, c *call, a core.Action) (any, error) {
	var body wire.CancelActionRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return nil, err
	}
	reason, err := reasonOr(body.Reason, "cancelled", c)
	if err != nil {
		return nil, err
	}
	return s.engine.Actions().CancelWith(r.Context(), a.ID, core.ActionCancel{Reason: reason, Mode: or(body.Mode, "")})
}

// makeAgain serves what makes a new action of one that has ended. The token needs what creating
// the new one needs.
func (s *Server) makeAgain(actions machines[core.Action, wire.ActionSummary], redeliver bool) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		old, _, err := actions.visible(r, c)
		if err != nil {
			return err
		}
		var body wire.RetryActionRequest
		if err := s.decode(w, r, &body, true); err != nil {
			return err
		}
		id, err := idOfAgain(old, &body, redeliver)
		if err != nil {
			return err
		}
		once := or(body.Once, false)
		if once {
			if made, err := s.engine.Actions().Get(r.Context(), id); err == nil {
				again, err := s.engine.WasAnswered(r.Context()) // then it was made under this key
				if err != nil {
					return err
				}
				if !again {
					return answerAgain(w, http.StatusOK, made)
				}
			}
		}
		spec, err := old.Again(id, redeliver, core.Clock{Now: s.now()})
		if err != nil {
			return err
		}
		asked := spec
		if once {
			asked.ID = uuid.Nil // that it is taken is no refusal
		}
		if err := s.mayCreate(r.Context(), c, &asked, want{}); err != nil {
			return err
		}
		if !once {
			made, err := s.engine.Actions().Create(r.Context(), spec)
			if err != nil {
				return err
			}
			return answerAgain(w, http.StatusCreated, made)
		}
		action, made, err := s.engine.Actions().CreateOnce(r.Context(), spec)
		if err != nil {
			return err
		}
		if !made {
			return answerAgain(w, http.StatusOK, action)
		}
		return answerAgain(w, http.StatusCreated, action)
	}
}

// answerAgain answers with the action that was made of another one.
func answerAgain(w http.ResponseWriter, status int, a core.Action) error {
	w.Header().Set("Location", "/v1/actions/"+a.ID.String())
	return writeJSON(w, status, a)
}

// idOfAgain gives the id of what is made again of an action.
func idOfAgain(old core.Action, body *wire.RetryActionRequest, redeliver bool) (uuid.UUID, error) {
	switch {
	case !or(body.Once, false):
		return newID(body.ID)
	case body.ID != nil:
		return uuid.Nil, failf(http.StatusBadRequest, "once: the id of the new action follows from that of the old one: leave id out")
	}
	return old.OnceID(redeliver), nil
}

func (s *Server) triggerAction(w http.ResponseWriter, r *http.Request, c *call, a core.Action) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	scope := shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}
	if err := s.permitInput(r.Context(), c.token, scope, "tool_input", a.ToolName, a.ToolInput); err != nil {
		return nil, err
	}
	return s.engine.Actions().Trigger(r.Context(), a.ID)
}
