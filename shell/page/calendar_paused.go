package page

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// calendarPaused bounds the schedules of a kind whose pauses a calendar looks at.
const calendarPaused = 50

// pausedOn lists the schedules whose pause lasts and is one of that day, too: the ledger has its times once it ends.
func (q *visit) pausedOn(day calendarDay, asked url.Values) (*table, error) {
	t := &table{Caption: "Paused", Head: []string{"Schedule", "Since", "Until", "Why"}}
	from, to := effects.TimeOf(day.from), effects.TimeOf(day.to)
	add := func(name cell, since, until effects.Time, why string) {
		if since.IsZero() || since >= to || !until.IsZero() && until <= from {
			return
		}
		end := q.at(until)
		if until.IsZero() {
			end = textOf("somebody resumes it")
		}
		t.Rows = append(t.Rows, []cell{name, q.at(since), end, textOf(clip(why, 160)).wide()})
	}
	kind, named := asked.Get("kind"), asked.Get("name")
	params := func(name, value string) url.Values {
		v := url.Values{name: {value}, "limit": {strconv.Itoa(calendarPaused)}}
		for _, scope := range scopeParams {
			if asked.Get(scope) != "" {
				v.Set(scope, asked.Get(scope))
			}
		}
		return v
	}
	more := false
	if kind == "" || kind == kindRecurring {
		all := params("enabled", "false")
		all.Set("all", "true")
		var got wire.RecurringList
		if _, err := q.getPart("/recurring", all, &got); err != nil {
			return nil, err
		}
		more = got.NextPageToken != ""
		for _, r := range got.RecurringActions {
			if named != "" && named != nameInList(r) {
				continue
			}
			var a wire.RecurringAction
			if err := q.get(pathOf("recurring", r.ID.String()), nil, &a); err != nil {
				continue // it was deleted meanwhile
			}
			add(q.linkOfSchedule(core.KindRecurring, r.ID.String(), nameInList(r), r.Namespace, r.Tenant), a.PausedAt, a.PausedUntil, a.DisabledReason)
		}
	}
	if kind == "" || kind == kindJob {
		var got wire.JobList
		if _, err := q.getPart("/jobs", params("paused", "true"), &got); err != nil {
			return nil, err
		}
		more = more || got.NextPageToken != ""
		for _, s := range got.Jobs {
			if named != "" && named != s.ID && named != s.Name {
				continue
			}
			var j wire.Job
			if err := q.get(pathOf("jobs", s.ID), url.Values{"namespace": {s.Namespace}, "tenant": {s.Tenant}}, &j); err != nil {
				continue // it was deleted meanwhile
			}
			add(q.linkOfSchedule(core.KindJob, s.ID, cmp.Or(s.Name, s.ID), s.Namespace, s.Tenant), j.PausedFrom, j.PausedUntil, j.PausedReason)
		}
	}
	if more && len(t.Rows) > 0 {
		t.Rows = append(t.Rows, []cell{textOf("and others").to(q.page("/schedules")), {}, {}, textOf("more are paused than are shown here").wide()})
	}
	return t, nil
}
