package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) recurringRoutes() []route {
	recurring := s.recurring()
	return []route{
		{"POST", "/v1/recurring", writingToken, s.createRecurring},
		{"GET", "/v1/recurring", anyToken | lists, s.listRecurring},
		{"GET", "/v1/recurring/preview", anyToken, s.previewCron},
		{"GET", "/v1/recurring/{id}", anyToken, recurring.act(func(_ http.ResponseWriter, r *http.Request, _ *call, a core.RecurringAction) (_ any, err error) {
			d := detail(a)
			d.Declared, err = s.declaredBy(r.Context(), a.Ref(), "")
			return d, err
		})},
		{"PUT", "/v1/recurring/{id}", writingToken | edits, recurring.act(s.updateRecurring)},
		{"DELETE", "/v1/recurring/{id}", writingToken | edits, recurring.act(s.deleteRecurring)},
		{"POST", "/v1/recurring/{id}/pause", writingToken, recurring.act(s.pauseRecurring)},
		{"POST", "/v1/recurring/{id}/resume", writingToken, recurring.act(s.resumeRecurring)},
		{"POST", "/v1/recurring/{id}/trigger", writingToken, recurring.act(s.triggerRecurring)},
		{"POST", "/v1/recurring/{id}/skip-next", writingToken, recurring.act(s.skipNextRecurring)},
		{"POST", "/v1/recurring/{id}/waiting/{occurrence}/cancel", writingToken, recurring.act(s.cancelWaiting)},
		{"GET", "/v1/recurring/{id}/history", anyToken | lists, s.recurringHistory},
		{"GET", "/v1/recurring/{id}/preview", anyToken, s.previewRecurring},
	}
}

// recurringSpec gives the recurring action that was asked for.
func recurringSpec(b *wire.RecurringRequest) (core.RecurringSpec, error) {
	spec := core.RecurringSpec{
		ID: uuid.New(), Name: b.Name,
		Namespace: or(b.Namespace, ""), Tenant: or(b.Tenant, ""),
		CronExpr: b.CronExpr, Timezone: or(b.Timezone, "UTC"), Enabled: or(b.Enabled, true),
		ActionTemplate: core.RecurringActionTemplate{
			Provider: b.Provider, ActionType: b.ActionType, Payload: b.Payload,
			Metadata: b.Metadata, DedupKey: or(b.DedupKey, ""),
		},
		EndsAt: or(b.EndsAt, 0), Description: or(b.Description, ""), Labels: b.Labels,
		StartDeadlineSeconds: or(b.StartDeadlineSeconds, 0), Policy: policyOf(b.Policy),
		ScheduleOptions: b.ScheduleOptions, Overlap: b.Overlap,
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
	if err := cmp.Or(fromQuery(q, "namespace", &body.Namespace), fromQuery(q, "tenant", &body.Tenant)); err != nil {
		return err
	}
	spec, err := recurringSpec(&body)
	if err != nil {
		return err
	}
	if err := c.token.permit(&spec.Namespace, &spec.Tenant, spec.ActionTemplate.Provider); err != nil {
		return err
	}
	c.about(spec.Namespace, spec.Tenant)
	if err := s.permitTemplate(r.Context(), c.token, spec.Namespace, spec.Tenant, spec.ActionTemplate); err != nil {
		return err
	}
	if err := s.within(r.Context(), c.token, shell.Scope{Namespace: spec.Namespace, Tenant: spec.Tenant}, want{
		schedules: 1, asked: spec,
		schedule: s.cron(schedule.Spec{Expr: spec.CronExpr, Zone: spec.Timezone, DST: spec.DST, DayMatch: spec.DayMatch}),
	}); err != nil {
		return err
	}
	a, err := s.engine.Recurring().Create(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/recurring/"+a.ID.String())
	return writeJSON(w, http.StatusCreated, wire.RecurringCreated{
		RecurringID: a.ID, NextExecution: a.NextExecutionAt, CronExpr: a.CronExpr, Timezone: a.Timezone, Enabled: a.Enabled,
		Warnings: a.Warnings(),
	})
}

func (s *Server) recurringSummary(a core.RecurringAction) wire.RecurringSummary {
	return wire.RecurringSummary{
		ID: a.ID, Name: a.Name, CronExpr: a.CronExpr, Timezone: a.Timezone, DayMatch: a.DayMatch, Enabled: a.Enabled, Ended: a.Ended(s.now()), Description: orNull(a.Description),
		Provider: a.ActionTemplate.Provider, ActionType: a.ActionTemplate.ActionType,
		NextExecutionAt: a.NextExecutionAt, LastExecutedAt: a.LastExecutedAt, LastSuccessAt: a.LastSuccessAt, Running: len(a.Running),
		ExecutionCount: a.ExecutionCount, CreatedAt: a.CreatedAt, Labels: orEmpty(a.Labels),
	}
}

func detail(a core.RecurringAction) wire.RecurringAction {
	t := a.ActionTemplate
	return wire.RecurringAction{
		RecurringAction: a, Description: orNull(a.Description), Labels: orEmpty(a.Labels), Warnings: a.Warnings(),
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

// recurring says how recurring actions are served.
func (s *Server) recurring() machines[core.RecurringAction, wire.RecurringSummary] {
	return machines[core.RecurringAction, wire.RecurringSummary]{
		what: "recurring action", get: s.engine.Recurring().Get, id: s.idOfRecurring,
		listing: listing[core.RecurringAction, wire.RecurringSummary]{
			params: []string{"enabled", "state", "name", "label*", "all"},
			limit:  shell.MaxPage, // 002 has no pages: as many as can be
			check:  ofOneTenant,
			find:   s.findRecurring,
			scope:  func(a core.RecurringAction) (string, string) { return a.Namespace, a.Tenant },
			sees: func(_ context.Context, t *Token, a core.RecurringAction) bool {
				return t.sees(a.Namespace, a.Tenant, a.ActionTemplate.Provider)
			},
			out:   plain(s.recurringSummary),
			short: true, // as 002 has it
			size:  func(core.RecurringAction) int { return 1 << 10 },
		},
	}
}

// idOfRecurring reads the id of the path, or the name, which is one of the query's tenant. To 002
// section 4 an id is any text, and a text that is the id of nothing is answered with 404.
func (s *Server) idOfRecurring(r *http.Request, q query, c *call) (uuid.UUID, error) {
	text := r.PathValue("id")
	if id, err := parseID(text); err == nil {
		return id, nil
	}
	namespace, err := home("namespace", q.opt("namespace"), c.token.Namespaces)
	if err != nil {
		return uuid.Nil, err
	}
	tenant, err := home("tenant", q.opt("tenant"), c.token.Tenants)
	if err != nil {
		return uuid.Nil, err
	}
	a, err := s.engine.Recurring().Named(r.Context(), namespace, tenant, text)
	return a.ID, err
}

// ofOneTenant refuses a list that is about more than one tenant.
func ofOneTenant(q query) error {
	for _, name := range []string{"namespace", "tenant"} {
		if q.opt(name) == nil {
			return failf(http.StatusBadRequest, "%s: missing: give ?namespace=…&tenant=…, or ?all=true", name)
		}
	}
	return nil
}

// listRecurring serves the list of one tenant, as 002 has it, or, beyond 002, that of all that the token
// sees, which says whose each is.
func (s *Server) listRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	l := s.recurring().listing
	if r.URL.Query().Get("all") == "true" {
		l.check, l.limit, l.short = nil, 0, false
		l.out = plain(func(a core.RecurringAction) wire.RecurringSummary {
			out := s.recurringSummary(a)
			out.Namespace, out.Tenant = a.Namespace, a.Tenant
			return out
		})
	}
	return l.page(s, "recurring_actions")(w, r, c)
}

func (s *Server) findRecurring(q query, scope *shell.Scope) (source[core.RecurringAction], error) {
	all, err := q.bool("all")
	if err != nil {
		return source[core.RecurringAction]{}, err
	}
	enabled, err := q.bool("enabled")
	if err != nil {
		return source[core.RecurringAction]{}, err
	}
	state, on, err := q.state()
	if err != nil {
		return source[core.RecurringAction]{}, err
	}
	if state == scheduleEnded { // it is disabled then
		on = new(bool)
	}
	if enabled == nil {
		enabled = on
	}
	labels, err := q.labels()
	if all == nil || !*all {
		scope = &shell.Scope{Namespace: q.get("namespace"), Tenant: q.get("tenant")}
	}
	from := sourceOf(s.engine.Recurring().List, shell.RecurringFilter{Scope: scope, Enabled: enabled, Labels: labels})
	from.keep = s.chooseRecurring(q, state)
	return from, err
}

func (s *Server) updateRecurring(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
	var body wire.RecurringPatch
	if err := s.decode(w, r, &body, false); err != nil {
		return nil, explain(err, decidedHere)
	}
	patch, err := patchOf(&body)
	if err != nil {
		return nil, err
	}
	if patch.Provider != nil {
		if err := c.token.permit(nil, nil, *patch.Provider); err != nil {
			return nil, err
		}
	}
	after := a.ActionTemplate
	if after.Provider = or(patch.Provider, after.Provider); len(patch.Payload) > 0 {
		after.Payload = patch.Payload
	}
	if err := s.permitTemplate(r.Context(), c.token, a.Namespace, a.Tenant, after); err != nil {
		return nil, err
	}
	asks := want{asked: patch}
	if patch.CronExpr != nil {
		asks.schedule = s.cron(schedule.Spec{
			Expr: *patch.CronExpr, Zone: or(patch.Timezone, a.Timezone), DST: or(patch.DST, a.DST), DayMatch: or(patch.DayMatch, a.DayMatch),
		})
	}
	if err := s.within(r.Context(), c.token, shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}, asks); err != nil {
		return nil, err
	}
	a, times, err := s.engine.Recurring().UpdateTelling(r.Context(), a.ID, patch)
	if err == nil {
		c.tag(w, r, a)
	}
	return wire.RecurringChanged{
		RecurringAction: detail(a), NextTimesBefore: append([]effects.Time{}, times.NextTimesBefore...), NextTimes: append([]effects.Time{}, times.NextTimes...),
	}, err
}

func (s *Server) deleteRecurring(w http.ResponseWriter, r *http.Request, _ *call, a core.RecurringAction) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	return nil, s.engine.Recurring().Delete(r.Context(), a.ID)
}

// stateOf is the answer to pause and resume.
func stateOf(a core.RecurringAction) wire.RecurringState {
	return wire.RecurringState{ID: a.ID, Enabled: a.Enabled, NextExecutionAt: a.NextExecutionAt}
}

func (s *Server) pauseRecurring(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
	var body wire.Pause
	if err := s.decode(w, r, &body, true); err != nil {
		return nil, err
	}
	reason, err := reasonOr(wire.Reason{Reason: body.Reason}, "", c)
	if err != nil {
		return nil, err
	}
	if !or(body.Until, 0).IsZero() { // one that is disabled is enabled then, whoever has disabled it
		if err := s.mayDispatch(r, c, a); err != nil {
			return nil, err
		}
	}
	a, err = s.engine.Recurring().PauseUntil(r.Context(), a.ID, reason, or(body.Until, 0))
	return stateOf(a), err
}

// mayDispatch refuses a token whose tools the actions of a recurring one are not among.
func (s *Server) mayDispatch(r *http.Request, c *call, a core.RecurringAction) error {
	return s.permitTemplate(r.Context(), c.token, a.Namespace, a.Tenant, a.ActionTemplate)
}

func (s *Server) resumeRecurring(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	if err := s.mayDispatch(r, c, a); err != nil {
		return nil, err
	}
	a, err := s.engine.Recurring().Resume(r.Context(), a.ID)
	return stateOf(a), err
}

func (s *Server) triggerRecurring(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
	var body wire.RecurringTrigger
	if err := s.decode(w, r, &body, true); err != nil {
		return nil, err
	}
	if len(body.Payload) > 0 {
		a.ActionTemplate.Payload = body.Payload
	}
	if err := s.mayDispatch(r, c, a); err != nil {
		return nil, err
	}
	if err := s.within(r.Context(), c.token, shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}, want{actions: 1, asked: body}); err != nil {
		return nil, err
	}
	a, err := s.engine.Recurring().TriggerWith(r.Context(), a.ID, body.Payload)
	return detail(a), err
}

func (s *Server) skipNextRecurring(w http.ResponseWriter, r *http.Request, _ *call, a core.RecurringAction) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	a, err := s.engine.Recurring().SkipNext(r.Context(), a.ID)
	return detail(a), err
}

// cancelWaiting cancels a time that waits for its turn.
func (s *Server) cancelWaiting(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
	reason, err := s.reason(w, r, c, "cancelled")
	if err != nil {
		return nil, err
	}
	given := r.PathValue("occurrence")
	occurrence, err := idOf("occurrence", &given)
	if err != nil {
		return nil, err
	}
	a, err = s.engine.Recurring().CancelWaiting(r.Context(), a.ID, occurrence, reason)
	return detail(a), err
}

// decidedHere says why some fields of a stored recurring action cannot be given.
var decidedHere = map[string]string{
	"id":               "is given at creation, by the server",
	"recurring_id":     "is given at creation, by the server",
	"namespace":        "is fixed at creation",
	"tenant":           "is fixed at creation",
	"created_at":       "is set by the server",
	"updated_at":       "is set by the server",
	"last_executed_at": "is set by the server",
	"skipped_count":    "is set by the server", "executions": "is set by the server", "last_success_at": "is set by the server",
	"next_execution_at": "is set by the server: change cron_expr or timezone",
	"execution_count":   "is set by the server",
	"missed_count":      "is set by the server", "deduplicated_count": "is set by the server",
	"disabled_reason": "is set by the server", "last_due_at": "is set by the server", "sequence": "is set by the server",
	"durations": "is set by the server", "cancelled_count": "is set by the server",
	"expired_count": "is set by the server", "paused_at": "is set by the server", "paused_until": "is given when it is paused, as until",
	"skip_next": "is set by POST /v1/recurring/{id}/skip-next", "waiting": "is set by the server", "running": "is set by the server",
	"ledger": "is set by the server", "next_times": "is set by the server", "next_times_before": "is set by the server",
	"action_template": "is set by its fields: provider, action_type, payload, metadata, dedup_key",
}

// patchOf gives the change that was asked for.
func patchOf(b *wire.RecurringPatch) (core.RecurringPatch, error) {
	p := core.RecurringPatch{Payload: b.Payload}
	var policy *wire.RunPolicy
	clearable(&p.Name, b.Name)
	clearable(&p.DedupKey, b.DedupKey)
	clearable(&p.Description, b.Description)
	clearable(&p.Alerts, b.Alerts)
	if b.EndsAt.Set {
		ms := int64(b.EndsAt.Value)
		p.EndsAt = &ms
	}
	if b.StartsAt.Set {
		ms := int64(b.StartsAt.Value)
		p.StartsAt = &ms
	}
	for _, err := range []error{
		required("cron_expr", &p.CronExpr, b.CronExpr),
		required("timezone", &p.Timezone, b.Timezone),
		required("enabled", &p.Enabled, b.Enabled),
		required("metadata", &p.Metadata, b.Metadata),
		required("labels", &p.Labels, b.Labels),
		required("provider", &p.Provider, b.Provider),
		required("action_type", &p.ActionType, b.ActionType),
		required("start_deadline_seconds", &p.StartDeadlineSeconds, b.StartDeadlineSeconds),
		required("policy", &policy, b.Policy),
		required("dst", &p.DST, b.DST),
		required("day_match", &p.DayMatch, b.DayMatch),
		required("max_executions", &p.MaxExecutions, b.MaxExecutions),
		required("jitter_seconds", &p.JitterSeconds, b.JitterSeconds),
		required("calendars", &p.Calendars, b.Calendars),
		required("missed", &p.Missed, b.Missed),
		required("catch_up_seconds", &p.CatchUpSeconds, b.CatchUpSeconds),
		required("catch_up_limit", &p.CatchUpLimit, b.CatchUpLimit),
		required("catch_up_spacing_seconds", &p.CatchUpSpacingSeconds, b.CatchUpSpacingSeconds),
		required("overlap", &p.Overlap, b.Overlap),
		required("buffer_limit", &p.BufferLimit, b.BufferLimit),
		required("max_wait_seconds", &p.MaxWaitSeconds, b.MaxWaitSeconds),
	} {
		if err != nil {
			return p, err
		}
	}
	if policy != nil {
		p.Policy = &policy.RunPolicy
	}
	switch {
	case p.CronExpr != nil && *p.CronExpr == "":
		return p, failf(http.StatusBadRequest, "cron_expr: must not be empty: leave it out to keep the present one")
	case p.Timezone != nil && *p.Timezone == "":
		return p, failf(http.StatusBadRequest, `timezone: must not be empty: use "UTC", or leave it out to keep the present one`)
	}
	return p, nil
}

// clearable passes a field on whose zero value means none.
func clearable[T any](dst **T, g wire.Optional[T]) {
	if g.Set {
		*dst = &g.Value
	}
}

// required passes a field on that always has a value.
func required[T any](name string, dst **T, g wire.Optional[T]) error {
	if g.Null {
		return failf(http.StatusBadRequest, "%s: must not be null: leave it out to keep the present one", name)
	}
	clearable(dst, g)
	return nil
}

// recurringHistory lists what became of the times of a recurring action, newest
// first (C12).
func (s *Server) recurringHistory(w http.ResponseWriter, r *http.Request, c *call) error {
	a, q, err := s.recurring().visible(r, c, "order", "limit", "page_token")
	if err != nil {
		return err
	}
	return s.answerHistory(w, r, c, q, a.ID)
}

// answerHistory gives a page of the occurrences of a recurring action or a job.
func (s *Server) answerHistory(w http.ResponseWriter, r *http.Request, c *call, q query, of uuid.UUID) error {
	return listing[core.Occurrence, core.Occurrence]{
		out:  shownTo(shownOccurrence),
		size: func(core.Occurrence) int { return 1 << 10 },
	}.answer(s, w, r, c, q, sourceOf(s.engine.Recurring().History, of), "history", shell.Page{})
}
