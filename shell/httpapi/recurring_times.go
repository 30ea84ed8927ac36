package httpapi

import (
	"net/http"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// recurringHistory lists what became of the times of a recurring action, newest
// first (C12).
func (s *Server) recurringHistory(w http.ResponseWriter, r *http.Request, c *call) error {
	a, q, err := s.recurring().visible(r, c, "limit", "page_token")
	if err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	list, next, err := s.engine.Recurring().History(r.Context(), a.ID, p)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.HistoryList{History: list, NextPageToken: next})
}

// Bounds of a preview.
const (
	defaultPreview = 10
	maxPreview     = 1000
)

// previewCron shows the times of an expression that is not stored.
func (s *Server) previewCron(w http.ResponseWriter, r *http.Request, _ *call) error {
	q, err := readQuery(r, "cron_expr", "timezone", "n")
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
	p, err := previewOf(expr, zone, now, now, n)
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
	p, err := previewOf(a.CronExpr, a.Timezone, a.CreatedAt, max(effects.TimeOf(s.o.Clock.Now()), a.LastDueAt), n)
	if err != nil {
		return err
	}
	for i, t := range p.Times {
		if !a.EndsAt.IsZero() && !t.Before(a.EndsAt) {
			p.Times = p.Times[:i]
			break
		}
	}
	return writeJSON(w, http.StatusOK, p)
}

func previewOf(expr, zone string, anchor, after effects.Time, n int) (wire.Preview, error) {
	sched, err := schedule.Parse(expr, zone, anchor)
	if err != nil {
		return wire.Preview{}, err
	}
	times := sched.Preview(after, n)
	if times == nil {
		times = []effects.Time{}
	}
	return wire.Preview{CronExpr: expr, Timezone: zone, Description: sched.Describe(), Times: times}, nil
}
