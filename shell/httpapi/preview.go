package httpapi

import (
	"fmt"
	"net/http"

	"github.com/orrery-go/orrery/core"
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
func (s *Server) previewCron(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "cron_expr", "timezone", "dst", "day_match", "starts_at", "ends_at", "max_executions", "calendar*", "namespace", "tenant", "n")
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
	now := s.now()
	spec := schedule.Spec{Expr: expr, Zone: zone, Anchor: now, DST: schedule.DST(q.get("dst")), DayMatch: schedule.DayMatch(q.get("day_match"))}
	next := func(s *schedule.Schedule) []effects.Time { return s.Preview(now, n) }
	planned, calendars, warnings, err := s.planned(r, c, q, spec)
	if err != nil {
		return err
	}
	if planned != nil {
		next = func(*schedule.Schedule) []effects.Time { return planned.Upcoming(now, n, calendars) }
	}
	p, err := previewOf(spec, next)
	p.Warnings = append(p.Warnings, warnings...)
	return reply(w, p, err)
}

// planned gives the recurring action that would be made, with its calendars, if the query says more than its times; else nil. The warnings tell what
// of the calendars is not as it seems.
func (s *Server) planned(r *http.Request, c *call, q query, spec schedule.Spec) (a *core.RecurringAction, calendars core.Calendars, warnings []string, err error) {
	names := q.v["calendar"]
	if len(names) > core.MaxCalendars {
		return nil, nil, nil, failf(http.StatusBadRequest, "calendar: %d calendars are more than %d", len(names), core.MaxCalendars)
	}
	options := core.ScheduleOptions{DST: spec.DST, DayMatch: spec.DayMatch, Calendars: names}
	if options.StartsAt, err = q.time("starts_at"); err != nil {
		return nil, nil, nil, err
	}
	ends, err := q.time("ends_at")
	if err != nil {
		return nil, nil, nil, err
	}
	most, err := q.longNumber("max_executions", 0, core.MaxMaxExecutions)
	if err != nil {
		return nil, nil, nil, err
	}
	of, err := c.token.homeOf(q.opt("namespace"), q.opt("tenant"))
	if err != nil && (len(names) > 0 || q.opt("namespace") != nil || q.opt("tenant") != nil) {
		return nil, nil, nil, err
	}
	if options.MaxExecutions = uint64(most); most == 0 && options.StartsAt.IsZero() && ends.IsZero() && len(names) == 0 {
		return nil, nil, nil, nil
	}
	if calendars, err = s.engine.Calendars().Named(r.Context(), of, names); err != nil {
		return nil, nil, nil, err
	}
	warnings = s.runningOut(names, calendars)
	for _, name := range names {
		if _, ok := calendars[name]; !ok {
			warnings = append(warnings, fmt.Sprintf("calendar %q is not in %s/%s", clip(name), clip(of.Namespace), clip(of.Tenant)))
		}
	}
	a = &core.RecurringAction{CreatedAt: s.now(), RecurringSpec: core.RecurringSpec{CronExpr: spec.Expr, Timezone: spec.Zone, EndsAt: ends, ScheduleOptions: options}}
	return a, calendars, warnings, nil
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
		return a.Upcoming(s.now(), n, calendars)
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
