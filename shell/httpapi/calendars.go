package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// A calendar holds for all schedules of its tenant that name it, whatever tools they use. A token
// that is bound to tools sees the tenant's calendars, and changes none.

func (s *Server) calendarRoutes() []route {
	return []route{
		{"GET", "/v1/calendars", anyToken | lists, listing[core.Calendar, wire.Calendar]{
			find:  byStatus(s.engine.Calendars().List),
			scope: func(c core.Calendar) (string, string) { return c.Namespace, c.Tenant },
			out:   plain(s.calendarDetail),
			size:  func(c core.Calendar) int { return 1024 + 64*(len(c.Exclude.Dates)+len(c.Include.Dates)) },
		}.page(s, "calendars")},
		{"POST", "/v1/calendars", writingToken, s.createCalendar},
		{"GET", "/v1/calendars/{name}", anyToken, serveChange(byCalendar, shownWith(plain(s.calendarDetail), s.ownerOfCalendar), s.getCalendar)},
		{"PUT", "/v1/calendars/{name}", writingToken | edits, serveBody(s, changedCalendar, false, s.updateCalendar)},
		{"DELETE", "/v1/calendars/{name}", writingToken | edits, s.deleteCalendar},
	}
}

// byCalendar says how requests name calendars, changedCalendar how those that change them do.
var (
	byCalendar      = naming{param: "name", bounded: true, gone: noCalendar}
	changedCalendar = naming{param: "name", bounded: true, gone: noCalendar, may: mayChangeCalendars}
)

func noCalendar(of named, err error) error {
	return notFoundIn(fmt.Sprintf("calendar %q", clip(of.name)), fmt.Sprintf(" in %s/%s", clip(of.Namespace), clip(of.Tenant)), err)
}

func mayChangeCalendars(c *call) error {
	return c.token.notBoundToTools("change calendars, which hold for the schedules of all tools")
}

// calendarDetail is a calendar as it is shown.
func (s *Server) calendarDetail(c core.Calendar) wire.Calendar {
	d := wire.Calendar{Calendar: c, LastDate: c.LastDate()}
	if w := c.RunsOut(s.now()); w != "" {
		d.Warnings = append(d.Warnings, w)
	}
	return d
}

func (s *Server) ownerOfCalendar(ctx context.Context, c *wire.Calendar) (err error) {
	c.Declared, err = s.declaredBy(ctx, c.Ref(), "")
	return err
}

// runningOut says which calendars of a schedule have no dates after the next weeks.
func (s *Server) runningOut(names []string, calendars core.Calendars) (warnings []string) {
	for _, name := range names {
		if c, ok := calendars[name]; ok {
			if w := c.RunsOut(s.now()); w != "" {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

func (s *Server) getCalendar(_ http.ResponseWriter, r *http.Request, _ *call, of named) (core.Calendar, error) {
	return s.engine.Calendars().Get(r.Context(), of.Scope, of.name)
}

func (s *Server) createCalendar(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := mayChangeCalendars(c); err != nil {
		return err
	}
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return err
	}
	var b wire.CalendarRequest
	if err := s.decode(w, r, &b, false); err != nil {
		return explain(err, ofTheCalendar)
	}
	if err := cmp.Or(fromQuery(q, "namespace", &b.Namespace), fromQuery(q, "tenant", &b.Tenant)); err != nil {
		return err
	}
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err != nil {
		return err
	}
	c.about(of.Namespace, of.Tenant)
	spec := core.CalendarSpec{
		Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Name, Timezone: b.Timezone, Description: b.Description,
		Exclude: b.Exclude, Include: b.Include,
	}
	if err := s.within(r.Context(), c.token, of, want{asked: spec}); err != nil {
		return err
	}
	made, err := s.engine.Calendars().Create(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/calendars/"+url.PathEscape(spec.Name)+"?"+url.Values{"namespace": {of.Namespace}, "tenant": {of.Tenant}}.Encode())
	return writeJSON(w, http.StatusCreated, s.calendarDetail(made))
}

// ofTheCalendar says why some fields of a stored calendar cannot be given.
var ofTheCalendar = map[string]string{
	"uses": "is set by the server", "moved": "is set by the server", "more": "is set by the server",
	"id": "is derived from the tenant and the name", "created_at": "is set by the server", "updated_at": "is set by the server",
	"last_date": "follows from the dates", "warnings": "is set by the server",
}

func (s *Server) updateCalendar(w http.ResponseWriter, r *http.Request, c *call, of named, b *wire.CalendarPatch) error {
	e := core.CalendarUpdate{Revision: b.Revision}
	for _, err := range []error{
		required("timezone", &e.Patch.Timezone, b.Timezone),
		required("exclude", &e.Patch.Exclude, b.Exclude),
		required("include", &e.Patch.Include, b.Include),
	} {
		if err != nil {
			return err
		}
	}
	clearable(&e.Patch.Description, b.Description)
	if err := s.within(r.Context(), c.token, of.Scope, want{asked: e.Patch}); err != nil {
		return err
	}
	change, err := s.engine.Calendars().UpdateTelling(r.Context(), of.Scope, of.name, e)
	if err != nil {
		return noCalendar(of, err)
	}
	c.tag(w, r, change.Calendar)
	answer := wire.CalendarChanged{Calendar: s.calendarDetail(change.Calendar), Moved: []wire.MovedSchedule{}, More: change.More}
	for _, m := range change.Moved {
		shown := wire.MovedSchedule{Kind: m.Kind, ID: m.ID.String(), Name: m.Name, NextTimesBefore: append([]effects.Time{}, m.NextTimesBefore...), NextTimes: append([]effects.Time{}, m.NextTimes...)}
		if m.Kind == core.KindJob {
			shown.ID, shown.Name = m.Name, ""
		}
		answer.Moved = append(answer.Moved, shown)
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (s *Server) deleteCalendar(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := changedCalendar.of(r, c, "force")
	if err != nil {
		return err
	}
	force, err := q.bool("force")
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	remove := s.engine.Calendars().Delete
	if or(force, false) {
		remove = s.engine.Calendars().ForceDelete
	}
	return done(w, noCalendar(of, remove(r.Context(), of.Scope, of.name)))
}
