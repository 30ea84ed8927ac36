package httpapi

import (
	"cmp"
	"net/http"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// defaultAhead is how far a list of what comes next looks ahead.
const defaultAhead = time.Hour

// maxUpcomingTimes bounds the times of all schedules of an answer.
const maxUpcomingTimes = 100_000

// listUpcoming tells which schedules are due next.
func (s *Server) listUpcoming(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "kind", "from", "until", "times", "limit")
	if err != nil {
		return err
	}
	namespace, tenant, err := c.scopeOf(q)
	if err != nil {
		return err
	}
	f := shell.UpcomingFilter{Scope: c.token.scope(namespace, tenant), Kind: effects.Kind(q.get("kind"))}
	switch f.Kind {
	case "", core.KindRecurring, core.KindJob, core.KindAction:
	default:
		return failf(http.StatusBadRequest, "kind: %q is unknown: use recurring, job or action", clip(string(f.Kind)))
	}
	if f.From, err = q.time("from"); err != nil {
		return err
	}
	if f.Until, err = q.time("until"); err != nil {
		return err
	}
	if !f.From.IsZero() && !f.Until.IsZero() && f.Until <= f.From {
		return failf(http.StatusBadRequest, "until: %s is not after from, %s", f.Until, f.From)
	}
	f.Until = cmp.Or(f.Until, s.now().Add(defaultAhead))
	if f.Limit, err = q.limit(shell.DefaultPage); err != nil {
		return err
	}
	if f.Times, err = q.number("times", 1, maxPreview); err != nil {
		return err
	}
	if f.Limit*f.Times > maxUpcomingTimes {
		return failf(http.StatusBadRequest, "times: %d of each of %d schedules are more than %d: ask for fewer, or set limit", f.Times, f.Limit, maxUpcomingTimes)
	}
	if f.Scope != nil {
		c.about(f.Scope.Namespace, f.Scope.Tenant)
	}
	f.Visible = func(state core.State) bool {
		of := core.ScopeOf(state)
		return s.seesSchedule(c, state) && matches(q, of.Namespace, of.Tenant)
	}
	list, more, err := s.engine.Upcoming(r.Context(), f)
	if err != nil {
		return err
	}
	out := wire.UpcomingList{Schedules: make([]wire.UpcomingSchedule, 0, len(list)), More: more}
	for _, u := range list {
		out.Schedules = append(out.Schedules, upcomingOf(u))
	}
	return writeJSON(w, http.StatusOK, out)
}

// seesSchedule reports whether a schedule exists for the holder of the token, as in the list of its kind.
func (s *Server) seesSchedule(c *call, state core.State) bool {
	j, ok := state.(core.Job)
	if !ok {
		return c.token.seesMachine(state)
	}
	return c.token.seesScope(j.Namespace, j.Tenant) && forJobs(c) == nil
}

func upcomingOf(u shell.UpcomingSchedule) wire.UpcomingSchedule {
	out := wire.UpcomingSchedule{Kind: u.State.Ref().Kind, ID: u.State.Ref().ID.String(), DueAt: u.DueAt, Times: append([]effects.Time{}, u.Times...), MoreTimes: u.More}
	of := core.ScopeOf(u.State)
	out.Namespace, out.Tenant = of.Namespace, of.Tenant
	switch v := u.State.(type) {
	case core.RecurringAction:
		out.Name, out.CronExpr, out.Timezone, out.DayMatch = v.Title(), v.CronExpr, v.Timezone, v.DayMatch
	case core.Job:
		out.ID, out.Name, out.CronExpr, out.Timezone, out.DayMatch = v.ID, cmp.Or(v.Name, v.ID), v.Schedule, v.Timezone, v.DayMatch
	case core.Action:
		out.Name, out.CronExpr, out.Timezone = cmp.Or(v.Label, v.ActionType, v.ToolName), v.Recurrence.Cron, v.Recurrence.Timezone
		out.PeriodMS = v.Recurrence.Period.Milliseconds()
	}
	return out
}
