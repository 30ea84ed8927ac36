package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

const anAction = "action"

const emptyZone = `must not be empty: leave it out for "UTC"`

// policyOf gives the policy that was asked for; nil: the defaults.
func policyOf(p *wire.RunPolicy) core.RunPolicy { return or(p, wire.RunPolicy{}).RunPolicy }

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// fromOutside says why some fields of a stored action cannot be given.
var fromOutside = map[string]string{
	"occurrence": "is set by a recurring action alone", "owner": "is set by machines alone",
	"status": "is decided here", "created_at": "is decided here", "updated_at": "is decided here",
	"run": "is decided here", "cycle": "is decided here", "attempt": "is decided here",
	"started_at": "is decided here", "finished_at": "is decided here", "last_run": "is decided here",
	"trigger.raw_payload": "comes with a webhook alone", "trigger.received_at": "comes with a webhook alone",
	"trigger.header": "comes with a webhook alone", "trigger.route": "comes with a webhook alone",
}

// explain words the refusal of fields that do exist, but not here.
func explain(err error, reasons map[string]string) error {
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		if why, ok := reasons[e.Path]; ok && strings.HasPrefix(e.Problem, "unknown field") {
			return failf(http.StatusBadRequest, "%s: %s", e.Path, why)
		}
	}
	return err
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
	if a.ID != nil {
		id, err := parseID(*a.ID)
		if err != nil {
			return spec, failf(http.StatusBadRequest, "id: %s", err)
		}
		if id.Version() == 5 {
			// What a recurring action makes has such ids: nobody may take them first.
			return spec, failf(http.StatusBadRequest, "id: %s is a UUID of version 5, which are derived here: use version 4 or 7", id)
		}
		spec.ID = id
	}
	if t := a.Trigger; t != nil {
		switch t.Type {
		case string(core.TriggerScheduled):
			spec.Trigger = core.Scheduled(t.NextTickAt)
		case string(core.TriggerWebhook):
			return spec, failf(http.StatusBadRequest, `trigger.type: "webhook" comes by POST /v1/webhooks/{route} alone: use "scheduled"`)
		default:
			return spec, failf(http.StatusBadRequest, `trigger.type: %q is unknown: use "scheduled"`, clip(t.Type))
		}
	}
	for k := range a.Metadata {
		if strings.HasPrefix(k, "_recurring_") {
			return spec, failf(http.StatusBadRequest, "metadata.%s: names that begin with _recurring_ are set by recurring actions alone", clip(k))
		}
	}
	return spec, nil
}

func (s *Server) createAction(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body wire.ActionRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, fromOutside)
	}
	spec, err := actionSpec(&body)
	if err != nil {
		return err
	}
	if spec.Namespace, err = home("namespace", body.Namespace, c.token.Namespaces); err != nil {
		return err
	}
	if spec.Tenant, err = home("tenant", body.Tenant, c.token.Tenants); err != nil {
		return err
	}
	if err := c.token.permit(&spec.Namespace, &spec.Tenant, spec.ToolName); err != nil {
		return err
	}
	scope := shell.Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}
	if err := s.permitInput(r.Context(), c.token, scope, "tool_input", spec.ToolName, spec.ToolInput); err != nil {
		return err
	}
	if spec.ID != uuid.Nil {
		if err := s.idIsFree(r.Context(), spec.ID); err != nil {
			return err
		}
	}
	a, err := s.engine.Actions().Create(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/actions/"+a.ID.String())
	return writeJSON(w, http.StatusCreated, a)
}

// idIsFree looks for a machine of any kind under a caller's id: all kinds share
// one space of ids. The engine refuses an action that exists, too; here also
// what it cannot see is refused.
func (s *Server) idIsFree(ctx context.Context, id uuid.UUID) error {
	_, errAction := s.engine.Actions().Get(ctx, id)
	_, errRecurring := s.engine.Recurring().Get(ctx, id)
	_, errPipeline := s.engine.Pipelines().Get(ctx, id)
	_, errTask := s.engine.Tasks().Get(ctx, id)
	_, errStrategy := s.engine.Strategies().Get(ctx, id)
	for _, err := range []error{errAction, errRecurring, errPipeline, errTask, errStrategy} {
		switch {
		case err == nil:
			return failf(http.StatusConflict, "id: %s exists already", id)
		case !errors.Is(err, shell.ErrNotFound):
			return err
		}
	}
	return nil
}

func (s *Server) listActions(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "status", "tool", "label*", "limit", "page_token")
	if err != nil {
		return err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return err
	}
	f := shell.ActionFilter{Tool: q.get("tool")}
	if f.Status, err = statusParam(q); err != nil {
		return err
	}
	if err := c.token.permit(namespace, tenant, f.Tool); err != nil {
		return err
	}
	if f.Labels, err = q.labels(); err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	f.Scope = c.token.scope(namespace, tenant)
	list, next, err := gather(p, func(p shell.Page) ([]core.Action, string, error) {
		return s.engine.Actions().List(r.Context(), f, p)
	}, func(a core.Action) (bool, int) {
		return c.token.sees(a.Namespace, a.Tenant, a.ToolName) &&
			(namespace == nil || *namespace == a.Namespace) &&
			(tenant == nil || *tenant == a.Tenant), len(a.Trigger.RawPayload)*4/3 + len(a.ToolInput) + len(a.Status.Result)
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.ActionList{Actions: list, NextPageToken: next})
}

func statusParam(q query) (core.StatusType, error) {
	v := q.opt("status")
	if v == nil {
		return "", nil
	}
	switch st := core.StatusType(*v); st {
	case core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled:
		return st, nil
	}
	return "", failf(http.StatusBadRequest, "status: %q is unknown: use pending, running, completed, failed or cancelled", clip(*v))
}

// scope gives the one tenant that the request, or the token, is about; nil
// where it is more than one.
func (t *Token) scope(namespace, tenant *string) *shell.Scope {
	one := func(v *string, allowed []string) (string, bool) {
		switch {
		case v != nil:
			return *v, true
		case len(allowed) == 1:
			return allowed[0], true
		}
		return "", false
	}
	ns, ok1 := one(namespace, t.Namespaces)
	tn, ok2 := one(tenant, t.Tenants)
	if !ok1 || !ok2 {
		return nil
	}
	return &shell.Scope{Namespace: ns, Tenant: tn}
}

// Bounds of one page, beside its limit: what it reads, and how large it gets.
const (
	maxPageRounds = 64
	maxPageBytes  = 16 << 20
	firstChunk    = 8
)

// gather fills a page with what the caller may see. It asks the engine in
// chunks that grow while the records are small, since a few may be very large;
// a page ends early, with a token to go on, where it becomes too large or too
// much was left out.
func gather[T any](p shell.Page, next func(shell.Page) ([]T, string, error), keep func(T) (bool, int)) ([]T, string, error) {
	out := make([]T, 0, min(p.Limit, shell.DefaultPage))
	limit, size, chunk, token := p.Limit, 0, firstChunk, p.Token
	for range maxPageRounds {
		list, more, err := next(shell.Page{Token: token, Limit: min(limit-len(out), chunk)})
		if err != nil {
			return nil, "", err
		}
		got := 0
		for _, v := range list {
			ok, n := keep(v)
			got += n
			if ok {
				out = append(out, v)
				size += n
			}
		}
		token = more
		if token == "" || len(out) >= limit || size > maxPageBytes {
			break
		}
		if got < maxPageBytes/8 {
			chunk = min(chunk*4, shell.MaxPage)
		}
	}
	return out, token, nil
}

// visibleAction loads the action of the path. One that the token does not see
// does not exist for it.
func (s *Server) visibleAction(r *http.Request, c *call) (core.Action, error) {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return core.Action{}, err
	}
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return core.Action{}, failf(http.StatusBadRequest, "id: %s", err)
	}
	a, err := s.engine.Actions().Get(r.Context(), id)
	if err != nil {
		return a, notFound(anAction, err)
	}
	if !c.token.sees(a.Namespace, a.Tenant, a.ToolName) || !matches(q, a.Namespace, a.Tenant) {
		return core.Action{}, failf(http.StatusNotFound, "%s not found", anAction)
	}
	return a, nil
}

// matches reports whether the namespace and tenant of the query, where given,
// are those.
func matches(q query, namespace, tenant string) bool {
	return or(q.opt("namespace"), namespace) == namespace && or(q.opt("tenant"), tenant) == tenant
}

func (s *Server) getAction(w http.ResponseWriter, r *http.Request, c *call) error {
	a, err := s.visibleAction(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, a)
}

// reasonText gives the reason that was given; "" if none was.
func reasonText(b wire.Reason) (string, error) {
	v := or(b.Reason, "")
	if len(v) > core.MaxTextBytes {
		return "", failf(http.StatusBadRequest, "reason: %d bytes is longer than %d", len(v), core.MaxTextBytes)
	}
	return v, nil
}

func (s *Server) cancelAction(w http.ResponseWriter, r *http.Request, c *call) error {
	a, err := s.visibleAction(r, c)
	if err != nil {
		return err
	}
	var body wire.Reason
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	reason, err := reasonText(body)
	if err != nil {
		return err
	}
	if reason == "" {
		reason = fmt.Sprintf("cancelled by %s", c.actor)
	}
	a, err = s.engine.Actions().Cancel(r.Context(), a.ID, reason)
	if err != nil {
		return notFound(anAction, err)
	}
	return writeJSON(w, http.StatusOK, a)
}

func (s *Server) triggerAction(w http.ResponseWriter, r *http.Request, c *call) error {
	a, err := s.visibleAction(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	scope := shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}
	if err := s.permitInput(r.Context(), c.token, scope, "tool_input", a.ToolName, a.ToolInput); err != nil {
		return err
	}
	a, err = s.engine.Actions().Trigger(r.Context(), a.ID)
	if err != nil {
		return notFound(anAction, err)
	}
	return writeJSON(w, http.StatusOK, a)
}
