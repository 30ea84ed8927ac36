package httpapi

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const aRecurring = "recurring action"

// recurringSpec gives the recurring action that was asked for.
func recurringSpec(b *wire.RecurringRequest) (core.RecurringSpec, error) {
	spec := core.RecurringSpec{
		ID:        uuid.New(),
		Namespace: or(b.Namespace, ""), Tenant: or(b.Tenant, ""),
		CronExpr: b.CronExpr, Timezone: or(b.Timezone, "UTC"), Enabled: or(b.Enabled, true),
		ActionTemplate: core.RecurringActionTemplate{
			Provider: b.Provider, ActionType: b.ActionType, Payload: b.Payload,
			Metadata: b.Metadata, DedupKey: or(b.DedupKey, ""),
		},
		EndsAt: or(b.EndsAt, 0), Description: or(b.Description, ""), Labels: b.Labels,
		StartDeadlineSeconds: or(b.StartDeadlineSeconds, 0), Policy: policyOf(b.Policy),
	}
	switch {
	case b.CronExpr == "":
		return spec, failf(http.StatusBadRequest, `cron_expr: must not be empty: give five to seven fields, such as "0 9 * * MON-FRI"`)
	case spec.Timezone == "":
		return spec, failf(http.StatusBadRequest, "timezone: %s", emptyZone)
	case spec.Namespace == "":
		return spec, failf(http.StatusBadRequest, "namespace: must not be empty")
	case spec.Tenant == "":
		return spec, failf(http.StatusBadRequest, "tenant: must not be empty")
	}
	return spec, nil
}

func (s *Server) createRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return err
	}
	var body wire.RecurringRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, decidedHere)
	}
	// 002 names namespace and tenant both as parameters and in the body.
	if err := fromQuery(q, "namespace", &body.Namespace); err != nil {
		return err
	}
	if err := fromQuery(q, "tenant", &body.Tenant); err != nil {
		return err
	}
	spec, err := recurringSpec(&body)
	if err != nil {
		return err
	}
	if err := c.token.permit(&spec.Namespace, &spec.Tenant, spec.ActionTemplate.Provider); err != nil {
		return err
	}
	if err := s.permitTemplate(r.Context(), c.token, spec.Namespace, spec.Tenant, spec.ActionTemplate); err != nil {
		return err
	}
	a, err := s.engine.Recurring().Create(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/recurring/"+a.ID.String())
	return writeJSON(w, http.StatusCreated, wire.RecurringCreated{
		RecurringID: a.ID, NextExecution: a.NextExecutionAt, CronExpr: a.CronExpr, Timezone: a.Timezone, Enabled: a.Enabled,
	})
}

func fromQuery(q query, name string, field **string) error {
	v := q.opt(name)
	switch {
	case v == nil:
	case *field == nil:
		*field = v
	case **field != *v:
		return failf(http.StatusBadRequest, "%s: is %q in the body and %q in the query", name, clip(**field), clip(*v))
	}
	return nil
}

func summary(a core.RecurringAction) wire.RecurringSummary {
	return wire.RecurringSummary{
		ID: a.ID, CronExpr: a.CronExpr, Timezone: a.Timezone, Enabled: a.Enabled, Description: orNull(a.Description),
		Provider: a.ActionTemplate.Provider, ActionType: a.ActionTemplate.ActionType,
		NextExecutionAt: a.NextExecutionAt, LastExecutedAt: a.LastExecutedAt,
		ExecutionCount: a.ExecutionCount, CreatedAt: a.CreatedAt, Labels: orEmpty(a.Labels),
	}
}

func detail(a core.RecurringAction) wire.RecurringAction {
	t := a.ActionTemplate
	return wire.RecurringAction{
		RecurringAction: a, Description: orNull(a.Description), Labels: orEmpty(a.Labels),
		ActionTemplate: wire.RecurringActionTemplate{RecurringActionTemplate: t, Metadata: orEmpty(t.Metadata), DedupKey: orNull(t.DedupKey)},
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func (s *Server) listRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "enabled", "label*", "limit", "page_token")
	if err != nil {
		return err
	}
	namespace, tenant, err := q.scope()
	switch {
	case err != nil:
		return err
	case namespace == nil:
		return failf(http.StatusBadRequest, "namespace: missing: give ?namespace=…&tenant=…")
	case tenant == nil:
		return failf(http.StatusBadRequest, "tenant: missing: give ?namespace=…&tenant=…")
	}
	if err := c.token.permit(namespace, tenant, ""); err != nil {
		return err
	}
	f := shell.RecurringFilter{Scope: &shell.Scope{Namespace: *namespace, Tenant: *tenant}}
	if f.Enabled, err = q.bool("enabled"); err != nil {
		return err
	}
	if f.Labels, err = q.labels(); err != nil {
		return err
	}
	p, err := q.page(shell.MaxPage) // 002 has no pages: as many as can be
	if err != nil {
		return err
	}
	list, next, err := gather(p, func(p shell.Page) ([]core.RecurringAction, string, error) {
		return s.engine.Recurring().List(r.Context(), f, p)
	}, func(a core.RecurringAction) (bool, int) {
		return c.token.sees(a.Namespace, a.Tenant, a.ActionTemplate.Provider), 1 << 10
	})
	if err != nil {
		return err
	}
	out := wire.RecurringList{RecurringActions: make([]wire.RecurringSummary, 0, len(list)), NextPageToken: next}
	for _, a := range list {
		out.RecurringActions = append(out.RecurringActions, summary(a))
	}
	return writeJSON(w, http.StatusOK, out)
}

// visibleRecurring loads the recurring action of the path. One that the token
// does not see, or of another namespace or tenant than the query's, does not
// exist.
func (s *Server) visibleRecurring(r *http.Request, c *call, params ...string) (core.RecurringAction, query, error) {
	var none core.RecurringAction
	q, err := readQuery(r, append([]string{"namespace", "tenant"}, params...)...)
	if err != nil {
		return none, q, err
	}
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		// To 002 section 4 an id is any text, and 404 is what one of nothing answers.
		return none, q, failf(http.StatusNotFound, "%s not found", aRecurring)
	}
	a, err := s.engine.Recurring().Get(r.Context(), id)
	if err != nil {
		return none, q, notFound(aRecurring, err)
	}
	if !c.token.sees(a.Namespace, a.Tenant, a.ActionTemplate.Provider) || !matches(q, a.Namespace, a.Tenant) {
		return none, q, failf(http.StatusNotFound, "%s not found", aRecurring)
	}
	return a, q, nil
}

func (s *Server) getRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, detail(a))
}

func (s *Server) updateRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	var body wire.RecurringPatch
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, decidedHere)
	}
	patch, err := patchOf(&body)
	if err != nil {
		return err
	}
	if patch.Provider != nil {
		if err := c.token.permit(nil, nil, *patch.Provider); err != nil {
			return err
		}
	}
	after := a.ActionTemplate
	if after.Provider = or(patch.Provider, after.Provider); len(patch.Payload) > 0 {
		after.Payload = patch.Payload
	}
	if err := s.permitTemplate(r.Context(), c.token, a.Namespace, a.Tenant, after); err != nil {
		return err
	}
	a, err = s.engine.Recurring().Update(r.Context(), a.ID, patch)
	if err != nil {
		return notFound(aRecurring, err)
	}
	return writeJSON(w, http.StatusOK, detail(a))
}

func (s *Server) deleteRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if err := s.engine.Recurring().Delete(r.Context(), a.ID); err != nil {
		return notFound(aRecurring, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) pauseRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
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
	a, err = s.engine.Recurring().Pause(r.Context(), a.ID, reason)
	if err != nil {
		return notFound(aRecurring, err)
	}
	return writeJSON(w, http.StatusOK, wire.RecurringState{ID: a.ID, Enabled: a.Enabled, NextExecutionAt: a.NextExecutionAt})
}

func (s *Server) resumeRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if err := s.permitTemplate(r.Context(), c.token, a.Namespace, a.Tenant, a.ActionTemplate); err != nil {
		return err
	}
	a, err = s.engine.Recurring().Resume(r.Context(), a.ID)
	if err != nil {
		return notFound(aRecurring, err)
	}
	return writeJSON(w, http.StatusOK, wire.RecurringState{ID: a.ID, Enabled: a.Enabled, NextExecutionAt: a.NextExecutionAt})
}

func (s *Server) triggerRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if err := s.permitTemplate(r.Context(), c.token, a.Namespace, a.Tenant, a.ActionTemplate); err != nil {
		return err
	}
	a, err = s.engine.Recurring().Trigger(r.Context(), a.ID)
	if err != nil {
		return notFound(aRecurring, err)
	}
	return writeJSON(w, http.StatusOK, detail(a))
}
