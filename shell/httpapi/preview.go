package httpapi

import (
	"net/http"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of a preview.
const (
	defaultPreview = 10
	maxPreview     = 1000
)

// previewCron shows the times of an expression that is not stored.
func (s *Server) previewCron(w http.ResponseWriter, r *http.Request, _ *call) error {
	q, err := readQuery(r, "cron_expr", "timezone", "dst", "day_match", "n")
	if err != nil {
		return err
	}
	expr, zone := q.get("cron_expr"), or(q.opt("timezone"), "UTC")
	if expr == "" {
		return failf(http.StatusBadRequest, `cron_expr: missing: give ?cron_expr=…, such as "0 9 * * MON-FRI", percent-encoded`)
	}
	n, err := q.number("n", defaultPreview, maxPreview)
	if err != nil {
		return err
	}
	now := effects.TimeOf(s.o.Clock.Now())
	spec := schedule.Spec{Expr: expr, Zone: zone, Anchor: now, DST: schedule.DST(q.get("dst")), DayMatch: schedule.DayMatch(q.get("day_match"))}
	p, err := previewOf(spec, func(s *schedule.Schedule) []effects.Time { return s.Preview(now, n) })
	return reply(w, p, err)
}

// previewRecurring shows the next times of a recurring action, up to its end.
// Of a paused recurring action it shows when that would fire.
func (s *Server) previewRecurring(w http.ResponseWriter, r *http.Request, c *call) error {
	a, q, err := s.recurring().visible(r, c, "n")
	if err != nil {
		return err
	}
	n, err := q.number("n", defaultPreview, maxPreview)
	if err != nil {
		return err
	}
	calendars, err := s.engine.Calendars().Named(r.Context(), shell.Scope{Namespace: a.Namespace, Tenant: a.Tenant}, a.Calendars)
	if err != nil {
		return err
	}
	p, err := previewOf(schedule.Spec{Expr: a.CronExpr, Zone: a.Timezone, DST: a.DST, DayMatch: a.DayMatch}, func(*schedule.Schedule) []effects.Time {
		return a.Upcoming(effects.TimeOf(s.o.Clock.Now()), n, calendars)
	})
	p.Warnings = append(p.Warnings, s.runningOut(a.Calendars, calendars)...)
	return reply(w, p, err)
}

// previewOf shows a schedule with the times that next gives of it.
func previewOf(spec schedule.Spec, next func(*schedule.Schedule) []effects.Time) (wire.Preview, error) {
	zone, err := schedule.LoadZone(spec.Zone) // which refuses an empty name
	if err != nil {
		return wire.Preview{}, err
	}
	sched, err := spec.CompileIn(zone)
	if err != nil {
		return wire.Preview{}, err
	}
	times := append([]effects.Time{}, next(sched)...) // [] and not null
	return wire.Preview{CronExpr: spec.Expr, Timezone: spec.Zone, Description: sched.Describe(), Times: times, Warnings: sched.Warnings()}, nil
}
