package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

const aRecurring = "recurring action"

// recurringRequest is the body of POST /v1/recurring (002 section 4).
type recurringRequest struct {
	Namespace            *string           `json:"namespace"`
	Tenant               *string           `json:"tenant"`
	CronExpr             string            `json:"cron_expr"`
	Timezone             *string           `json:"timezone"`
	Provider             string            `json:"provider"`
	ActionType           string            `json:"action_type"`
	Payload              json.RawMessage   `json:"payload"`
	Metadata             map[string]string `json:"metadata"`
	DedupKey             *string           `json:"dedup_key"`
	Description          *string           `json:"description"`
	Labels               map[string]string `json:"labels"`
	EndsAt               *effects.Time     `json:"ends_at"`
	Enabled              *bool             `json:"enabled"`
	StartDeadlineSeconds *int64            `json:"start_deadline_seconds"`
	Policy               *policyRequest    `json:"policy"`
}

func (b *recurringRequest) spec() (core.RecurringSpec, error) {
	spec := core.RecurringSpec{
		ID:        uuid.New(),
		Namespace: or(b.Namespace, ""), Tenant: or(b.Tenant, ""),
		CronExpr: b.CronExpr, Timezone: or(b.Timezone, "UTC"), Enabled: or(b.Enabled, true),
		ActionTemplate: core.RecurringActionTemplate{
			Provider: b.Provider, ActionType: b.ActionType, Payload: b.Payload,
			Metadata: b.Metadata, DedupKey: or(b.DedupKey, ""),
		},
		EndsAt: or(b.EndsAt, 0), Description: or(b.Description, ""), Labels: b.Labels,
		StartDeadlineSeconds: or(b.StartDeadlineSeconds, 0), Policy: b.Policy.policy(),
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

// recurringCreated is the answer to POST /v1/recurring.
type recurringCreated struct {
	RecurringID   uuid.UUID    `json:"recurring_id"`
	NextExecution effects.Time `json:"next_execution"`
	CronExpr      string       `json:"cron_expr"`
	Timezone      string       `json:"timezone"`
	Enabled       bool         `json:"enabled"`
}

func (s *Server) createRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return err
	}
	var body recurringRequest
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
	spec, err := body.spec()
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
	return writeJSON(w, http.StatusCreated, recurringCreated{
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

// recurringSummary is an element of the list (002 section 4).
type recurringSummary struct {
	ID              uuid.UUID         `json:"id"`
	CronExpr        string            `json:"cron_expr"`
	Timezone        string            `json:"timezone"`
	Enabled         bool              `json:"enabled"`
	Description     *string           `json:"description"` // null: none
	Provider        string            `json:"provider"`
	ActionType      string            `json:"action_type"`
	NextExecutionAt effects.Time      `json:"next_execution_at"`
	LastExecutedAt  effects.Time      `json:"last_executed_at"`
	ExecutionCount  uint64            `json:"execution_count"`
	CreatedAt       effects.Time      `json:"created_at"`
	Labels          map[string]string `json:"labels"`
}

type recurringList struct {
	RecurringActions []recurringSummary `json:"recurring_actions"`
	NextPageToken    string             `json:"next_page_token,omitempty"` // beyond 002, where there are more than fit
}

func summary(a core.RecurringAction) recurringSummary {
	return recurringSummary{
		ID: a.ID, CronExpr: a.CronExpr, Timezone: a.Timezone, Enabled: a.Enabled, Description: orNull(a.Description),
		Provider: a.ActionTemplate.Provider, ActionType: a.ActionTemplate.ActionType,
		NextExecutionAt: a.NextExecutionAt, LastExecutedAt: a.LastExecutedAt,
		ExecutionCount: a.ExecutionCount, CreatedAt: a.CreatedAt, Labels: orEmpty(a.Labels),
	}
}

// recurringDetail is a whole recurring action, with null where 002 has an
// Option that is none, and {} where it has an empty map.
type recurringDetail struct {
	core.RecurringAction
	Description    *string           `json:"description"`
	Labels         map[string]string `json:"labels"`
	ActionTemplate templateDetail    `json:"action_template"`
}

type templateDetail struct {
	core.RecurringActionTemplate
	Metadata map[string]string `json:"metadata"`
	DedupKey *string           `json:"dedup_key"`
}

func detail(a core.RecurringAction) recurringDetail {
	t := a.ActionTemplate
	return recurringDetail{
		RecurringAction: a, Description: orNull(a.Description), Labels: orEmpty(a.Labels),
		ActionTemplate: templateDetail{RecurringActionTemplate: t, Metadata: orEmpty(t.Metadata), DedupKey: orNull(t.DedupKey)},
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
	out := recurringList{RecurringActions: make([]recurringSummary, 0, len(list)), NextPageToken: next}
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
	var body recurringPatch
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, decidedHere)
	}
	patch, err := body.patch()
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

// recurringState is the answer to pause and resume (002 section 4).
type recurringState struct {
	ID              uuid.UUID    `json:"id"`
	Enabled         bool         `json:"enabled"`
	NextExecutionAt effects.Time `json:"next_execution_at"`
}

func (s *Server) pauseRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, _, err := s.visibleRecurring(r, c)
	if err != nil {
		return err
	}
	var body reasonRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	reason, err := body.text()
	if err != nil {
		return err
	}
	a, err = s.engine.Recurring().Pause(r.Context(), a.ID, reason)
	if err != nil {
		return notFound(aRecurring, err)
	}
	return writeJSON(w, http.StatusOK, recurringState{ID: a.ID, Enabled: a.Enabled, NextExecutionAt: a.NextExecutionAt})
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
	return writeJSON(w, http.StatusOK, recurringState{ID: a.ID, Enabled: a.Enabled, NextExecutionAt: a.NextExecutionAt})
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
