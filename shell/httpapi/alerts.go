package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Whoever sees a schedule sees its alerts, and whoever may pause it may silence them.

func (s *Server) alertRoutes() []route {
	recurring := s.recurring()
	return []route{
		{"GET", "/v1/alerts", anyToken | lists, listing[core.Alert, wire.Alert]{
			params: []string{"status"},
			find:   s.findAlerts,
			scope:  func(a core.Alert) (string, string) { return a.Namespace, a.Tenant },
			sees:   s.seesAlert,
			out:    plain(shownAlert),
			size:   func(a core.Alert) int { return 2048 + 1024*len(a.Open) },
		}.page(s, "alerts")},
		{"GET", "/v1/recurring/{id}/alerts", anyToken, recurring.act(func(_ http.ResponseWriter, r *http.Request, _ *call, a core.RecurringAction) (any, error) {
			return alertOf(s.engine.Alerts().Get(r.Context(), a.Ref()))
		})},
		{"POST", "/v1/recurring/{id}/silence", writingToken, recurring.act(func(w http.ResponseWriter, r *http.Request, c *call, a core.RecurringAction) (any, error) {
			return s.silence(w, r, c, a.Ref())
		})},
		{"POST", "/v1/recurring/{id}/unsilence", writingToken, recurring.act(func(w http.ResponseWriter, r *http.Request, _ *call, a core.RecurringAction) (any, error) {
			return s.unsilence(w, r, a.Ref())
		})},
		{"GET", "/v1/jobs/{id}/alerts", anyToken, s.onAlertOfJob(func(_ http.ResponseWriter, r *http.Request, _ *call, job effects.Ref) (any, error) {
			return alertOf(s.engine.Alerts().Get(r.Context(), job))
		})},
		{"POST", "/v1/jobs/{id}/silence", writingToken, s.onAlertOfJob(s.silence)},
		{"POST", "/v1/jobs/{id}/unsilence", writingToken, s.onAlertOfJob(func(w http.ResponseWriter, r *http.Request, _ *call, job effects.Ref) (any, error) {
			return s.unsilence(w, r, job)
		})},
	}
}

func (s *Server) findAlerts(q query, scope *shell.Scope) (source[core.Alert], error) {
	status, err := q.status([]string{core.AlertOpen, core.AlertQuiet})
	return sourceOf(s.engine.Alerts().List, shell.MachineFilter{Scope: scope, Status: status}), err
}

// seesAlert reports whether an alert exists for the holder of a token: where its schedule does.
func (s *Server) seesAlert(ctx context.Context, t *Token, a core.Alert) bool {
	switch {
	case !t.seesScope(a.Namespace, a.Tenant):
		return false
	case len(t.Tools) == 0:
		return true
	case a.Schedule.Kind == core.KindJob:
		return in(t.Tools, jobs.ToolName)
	}
	r, err := s.engine.Recurring().Get(ctx, a.Schedule.ID)
	return err == nil && t.sees(r.Namespace, r.Tenant, r.ActionTemplate.Provider)
}

func shownAlert(a core.Alert) wire.Alert { return wire.Alert{Alert: a, Status: a.Status()} }

// alertOf is the answer to a request about the alert of a schedule that exists.
func alertOf(a core.Alert, err error) (any, error) {
	if errors.Is(err, shell.ErrNotFound) {
		return nil, failf(http.StatusNotFound, `alerts: the schedule has none: give it rules first, such as "alerts": {"failing": 3}`)
	}
	return shownAlert(a), err
}

// silence lets nobody be told of the alerts of a schedule until a time.
func (s *Server) silence(w http.ResponseWriter, r *http.Request, c *call, schedule effects.Ref) (any, error) {
	var body wire.SilenceRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return nil, err
	}
	reason, err := reasonOr(wire.Reason{Reason: body.Reason}, "", c)
	if err != nil {
		return nil, err
	}
	if body.Until.IsZero() {
		return nil, failf(http.StatusBadRequest, "until: missing: say until when nobody is told, such as %q", effects.TimeOf(s.now().Std().Add(2*time.Hour)).String())
	}
	return alertOf(s.engine.Alerts().Silence(r.Context(), schedule, shell.SilenceOptions{Until: body.Until.Std(), By: c.actor, Reason: reason}))
}

// unsilence ends a silence.
func (s *Server) unsilence(w http.ResponseWriter, r *http.Request, schedule effects.Ref) (any, error) {
	if err := s.noBody(w, r); err != nil {
		return nil, err
	}
	return alertOf(s.engine.Alerts().Unsilence(r.Context(), schedule))
}

// onAlertOfJob serves what is done with the alert of the job of the path.
func (s *Server) onAlertOfJob(do func(w http.ResponseWriter, r *http.Request, c *call, job effects.Ref) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		of, _, err := byJob.of(r, c)
		if err != nil {
			return err
		}
		j, err := s.engine.Jobs().Get(r.Context(), of.Scope, of.name)
		if err != nil {
			return noJob(of, err)
		}
		answer, err := do(w, r, c, j.Ref())
		return reply(w, answer, err)
	}
}
