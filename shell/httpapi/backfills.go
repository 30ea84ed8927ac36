package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Whoever may trigger a schedule may backfill it, and whoever sees a schedule sees its backfills.

func (s *Server) backfillRoutes() []route {
	backfills := s.backfills()
	return []route{
		{"POST", "/v1/backfills", writingToken, s.createBackfill},
		{"GET", "/v1/backfills", anyToken | lists, backfills.page(s, "backfills")},
		{"GET", "/v1/backfills/{id}", anyToken, backfills.await(s, s.engine.Backfills().Wait)},
		{"POST", "/v1/backfills/{id}/cancel", writingToken, backfills.act(s.cancelBackfill)},
	}
}

// backfills says how backfills are served.
func (s *Server) backfills() machines[core.Backfill, wire.BackfillSummary] {
	return machines[core.Backfill, wire.BackfillSummary]{
		what: "backfill", get: s.engine.Backfills().Get, id: idOfPath,
		listing: listing[core.Backfill, wire.BackfillSummary]{
			params: []string{"status", "schedule"}, timed: true,
			find:  s.findBackfills,
			scope: func(b core.Backfill) (string, string) { return b.Namespace, b.Tenant },
			sees:  s.seesBackfill,
			out:   plain(summaryOfBackfill),
			size:  func(b core.Backfill) int { return 2048 + 16*len(b.Times) },
		},
	}
}

func (s *Server) findBackfills(q query, scope *shell.Scope) (source[core.Backfill], error) {
	f := shell.BackfillFilter{Scope: scope}
	status, err := q.status([]string{string(core.BackfillRunning), string(core.BackfillCompleted), string(core.BackfillCancelled)})
	if err != nil {
		return source[core.Backfill]{}, err
	}
	f.Status = core.BackfillStatus(status)
	f.Schedule, err = idOf("schedule", q.opt("schedule"))
	return sourceOf(s.engine.Backfills().List, f), err
}

// seesBackfill reports whether a backfill exists for the holder of a token. That of a schedule which
// is gone exists for those alone who are not bound to tools.
func (s *Server) seesBackfill(ctx context.Context, t *Token, b core.Backfill) bool {
	switch {
	case !t.seesScope(b.Namespace, b.Tenant):
		return false
	case len(t.Tools) == 0:
		return true
	case b.Schedule.Kind == core.KindJob:
		return in(t.Tools, jobs.ToolName)
	}
	a, err := s.engine.Recurring().Get(ctx, b.Schedule.ID)
	return err == nil && t.sees(a.Namespace, a.Tenant, a.ActionTemplate.Provider)
}

func summaryOfBackfill(b core.Backfill) wire.BackfillSummary {
	return wire.BackfillSummary{
		ID: b.ID, Namespace: b.Namespace, Tenant: b.Tenant, Schedule: b.Schedule, Name: b.Name, From: b.From, To: b.To,
		Total: len(b.Times), AlreadyDispatched: b.AlreadyDispatched, Forgotten: b.Forgotten, Reason: b.Reason, By: b.By,
		Status: b.Status, Next: b.Next, Running: len(b.Active), Counts: b.Counts, Held: b.Held,
		CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, FinishedAt: b.FinishedAt,
	}
}

func (s *Server) createBackfill(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return err
	}
	var b wire.BackfillRequest
	if err := s.decode(w, r, &b, false); err != nil {
		return explain(err, ofTheBackfill)
	}
	if err := cmp.Or(fromQuery(q, "namespace", &b.Namespace), fromQuery(q, "tenant", &b.Tenant)); err != nil {
		return err
	}
	ask, err := s.backfillOf(r.Context(), c, &b)
	if err != nil {
		return err
	}
	if b.DryRun {
		plan, err := s.engine.Backfills().Plan(r.Context(), ask)
		return reply(w, planned(plan), err)
	}
	adds := want{actions: int64(max(b.MaxActive, 1))}
	if b.Job != "" {
		adds = want{runs: int64(max(b.MaxActive, 1))}
	}
	if err := s.within(r.Context(), c.token, ask.Scope, adds); err != nil {
		return err
	}
	made, err := s.engine.Backfills().Create(r.Context(), ask)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/backfills/"+made.ID.String())
	return writeJSON(w, http.StatusCreated, made)
}

// ofTheBackfill says why some fields of a stored backfill cannot be given.
var ofTheBackfill = map[string]string{
	"id": "is given by the server", "schedule": "is named by recurring_id or job", "times": "follow from the schedule and what it has dispatched",
	"status": "is set by the server", "by": "is set by the server",
}

// backfillOf gives the backfill that was asked for, of a schedule that the token may trigger.
func (s *Server) backfillOf(ctx context.Context, c *call, b *wire.BackfillRequest) (shell.BackfillRequest, error) {
	ask := shell.BackfillRequest{
		Job: b.Job, From: b.From, To: or(b.To, 0), MaxActive: b.MaxActive, Spacing: time.Duration(b.SpacingSeconds) * time.Second,
		Limit: int(b.Limit), Reason: b.Reason, Forgotten: b.IncludeForgotten,
	}
	id, err := idOf("recurring_id", b.RecurringID)
	switch {
	case err != nil:
		return ask, err
	case b.SpacingSeconds < 0 || b.SpacingSeconds > core.MaxSpacingSeconds: // as a duration it might overflow
		return ask, failf(http.StatusBadRequest, "spacing_seconds: %d is not between 0 and %d", b.SpacingSeconds, core.MaxSpacingSeconds)
	case (id == uuid.Nil) == (b.Job == ""):
		return ask, failf(http.StatusBadRequest, "recurring_id, job: give one of them: the schedule whose times are meant")
	case b.Job != "":
		return s.backfillOfJob(ctx, c, b, ask)
	}
	a, err := s.engine.Recurring().Get(ctx, id)
	other := or(b.Namespace, a.Namespace) != a.Namespace || or(b.Tenant, a.Tenant) != a.Tenant
	if err == nil && (other || !c.token.sees(a.Namespace, a.Tenant, a.ActionTemplate.Provider)) {
		err = shell.ErrNotFound
	}
	if err != nil {
		return ask, notFound("recurring_id: recurring action", err)
	}
	c.about(a.Namespace, a.Tenant)
	ask.Recurring, ask.Scope = id, shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}
	return ask, s.permitTemplate(ctx, c.token, a.Namespace, a.Tenant, a.ActionTemplate)
}

func (s *Server) backfillOfJob(ctx context.Context, c *call, b *wire.BackfillRequest, ask shell.BackfillRequest) (shell.BackfillRequest, error) {
	if err := forJobs(c); err != nil {
		return ask, err
	}
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err != nil {
		return ask, err
	}
	c.about(of.Namespace, of.Tenant)
	ask.Scope = of
	j, err := s.engine.Jobs().Get(ctx, of, b.Job)
	if err != nil {
		return ask, noJob(named{Scope: of, name: b.Job}, err)
	}
	if err := s.noRunner(); err != nil {
		return ask, err
	}
	return ask, s.permitJob(ctx, c.token, j.JobSpec)
}

// planned shows what a backfill would dispatch.
func planned(p core.BackfillSpec) wire.BackfillPlan {
	return wire.BackfillPlan{
		Namespace: p.Namespace, Tenant: p.Tenant, Schedule: p.Schedule, Name: p.Name, From: p.From, To: p.To,
		Times: append([]core.Time{}, p.Times...), AlreadyDispatched: p.AlreadyDispatched, Forgotten: p.Forgotten,
	}
}

func (s *Server) cancelBackfill(w http.ResponseWriter, r *http.Request, c *call, b core.Backfill) (any, error) {
	reason, err := s.reason(w, r, c, "cancelled")
	if err != nil {
		return nil, err
	}
	return s.engine.Backfills().Cancel(r.Context(), b.ID, reason)
}
