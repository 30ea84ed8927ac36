package page

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// The kinds of schedules, in the order of the list.
const (
	kindRecurring = "recurring"
	kindJob       = "job"
	kindPeriodic  = "action"
)

// The states of schedules, as the API's lists have them.
const (
	stateOn     = "on"
	statePaused = "paused"
	stateEnded  = "ended"
)

// scheduleFilters choose schedules, with those of the kind and the state.
var (
	scheduleFilters = []field{{Name: "name", Label: "Name has"}, {Name: "label", Label: "Label (name=value)"}} // read-only: tables
	stateFilter     = field{Name: "state", Label: "Status", Type: fieldChoice, Options: []option{{}, {stateOn, "on"}, {statePaused, "paused"}, {stateEnded, "ended"}}}
	kindFilter      = field{Name: "kind", Label: "Kind", Type: fieldChoice, Options: []option{{}, {kindRecurring, "recurring actions"}, {kindJob, "jobs"}, {kindPeriodic, "periodic actions"}}}
)

// schedulePart is one of the API's lists of which the list of all schedules is made.
type schedulePart struct {
	key   string // in the token of a page
	api   string
	fixed url.Values
}

// scheduleParts gives the lists that have what is of a kind and in a state, in the order of the list. Periodic actions are not paused, and the API has those
// alone that have not ended.
func scheduleParts(kind, state string) ([]schedulePart, error) {
	var periodic []schedulePart
	given := url.Values{}
	switch state {
	case "", stateOn:
		periodic = []schedulePart{{kindPeriodic, "/actions", url.Values{"recurs": {"true"}}}}
	case statePaused, stateEnded:
	default:
		return nil, &apiError{Status: http.StatusBadRequest, Text: "state: " + strconv.Quote(clip(state, 40)) + " is unknown: use on, paused or ended"}
	}
	if state != "" {
		given.Set("state", state)
	}
	recurring := schedulePart{kindRecurring, "/recurring", maps.Clone(given)}
	recurring.fixed.Set("all", "true")
	jobs := schedulePart{kindJob, "/jobs", given}
	switch kind {
	case "":
		return append([]schedulePart{recurring, jobs}, periodic...), nil
	case kindRecurring:
		return []schedulePart{recurring}, nil
	case kindJob:
		return []schedulePart{jobs}, nil
	case kindPeriodic:
		return periodic, nil
	}
	return nil, &apiError{Status: http.StatusBadRequest, Text: "kind: " + strconv.Quote(clip(kind, 40)) + " is unknown: use recurring, job or action"}
}

// schedules lists the schedules of all kinds: the recurring actions, then the jobs, then the periodic actions. The
// token of a page says in which of the lists it goes on.
func (q *visit) schedules() (view, error) {
	fields := append([]field{kindFilter, stateFilter}, append(scheduleFilters, scopeFilters...)...)
	f, asked, err := q.filtered("/schedules", fields)
	if err != nil {
		return view{}, err
	}
	parts, err := scheduleParts(asked.Get("kind"), asked.Get("state"))
	if err != nil {
		return view{}, err
	}
	asked.Del("kind")
	asked.Del("state")
	t := &table{
		Caption: "Schedules", Head: []string{"Name", "When", "Status", "Next", "Last", "Runs", "Kind", "Tenant"}, Filter: f,
		Empty: "There is no schedule. A recurring action makes an action at each of its times; make one here, or with: orreryd recurring add --cron '0 9 * * MON-FRI' -- command …",
	}
	if f.Active {
		t.Empty = "Nothing matches these filters."
	}
	t.First = q.firstPage("/schedules")
	at, token, _ := strings.Cut(q.URL.Query().Get("page_token"), ":")
	for at != "" && len(parts) > 1 && parts[0].key != at {
		parts = parts[1:]
	}
	if err := q.readParts(t, parts, asked, token); err != nil {
		return view{}, err
	}
	return view{Title: "Schedules", Acts: q.actLinks("/schedules", "new", "pause-all", "resume-all"), Body: []block{{Table: t}}}, nil
}

// readParts fills a page of the list of all schedules.
func (q *visit) readParts(t *table, parts []schedulePart, asked url.Values, token string) error {
	for i, part := range parts {
		params := maps.Clone(asked)
		maps.Copy(params, part.fixed)
		params.Set("limit", strconv.Itoa(pageRows))
		if token != "" {
			params.Set("page_token", token)
		}
		token = ""
		rows, next, err := q.schedulesOf(part, params)
		if forbidden(err) && i+1 < len(parts) { // the token is not for jobs, and nobody asked for these alone
			continue
		}
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, rows...)
		if next != "" {
			q.next(t, part.key+":"+next)
			return nil
		}
		if len(t.Rows) >= pageRows && i+1 < len(parts) {
			q.next(t, parts[i+1].key+":")
			return nil
		}
	}
	return nil
}

// schedulesOf lists those of one part.
func (q *visit) schedulesOf(part schedulePart, params url.Values) (rows [][]cell, next string, err error) {
	var recurring wire.RecurringList
	var jobs wire.JobList
	var actions wire.ActionList
	switch part.api {
	case "/recurring":
		err = q.get(part.api, params, &recurring)
		next = recurring.NextPageToken
	case "/jobs":
		err = q.get(part.api, params, &jobs)
		next = jobs.NextPageToken
	default:
		err = q.get(part.api, params, &actions)
		next = actions.NextPageToken
	}
	for _, r := range recurring.RecurringActions {
		rows = append(rows, q.recurringRow(r))
	}
	for _, j := range jobs.Jobs {
		rows = append(rows, q.jobScheduleRow(j))
	}
	for _, a := range actions.Actions {
		rows = append(rows, q.periodicRow(core.Action(a)))
	}
	return rows, next, err
}

func (q *visit) recurringRow(r wire.RecurringSummary) []cell {
	return []cell{
		textOf(nameInList(r)).to(q.page(pathOf("recurring", r.ID.String()))).wide(), fires(r.CronExpr, r.Timezone, r.DayMatch).wide(), scheduleState(r.Enabled, r.Ended), q.at(r.NextExecutionAt), q.lastDispatched(r),
		number(r.ExecutionCount), textOf("recurring"), whose(r.Namespace, r.Tenant),
	}
}

func (q *visit) jobScheduleRow(j wire.JobSummary) []cell {
	return []cell{
		q.linkOfSchedule(core.KindJob, j.ID, cmp.Or(j.Name, j.ID), j.Namespace, j.Tenant), firesJob(j.Schedule, j.Timezone, j.DayMatch).wide(), scheduleState(!j.Paused, j.Ended), q.at(j.NextRunAt), whenEnded(q.at(j.LastRun.EndedAt), string(j.LastRun.State)),
		number(j.Counts.Dispatched), textOf("job"), whose(j.Namespace, j.Tenant),
	}
}

func (q *visit) periodicRow(a core.Action) []cell {
	r := a.Recurrence
	last, status := effects.Time(0), ""
	if a.LastRun != nil {
		last, status = a.LastRun.FinishedAt, string(a.LastRun.Status.Type)
	}
	return []cell{
		q.actionLink(a).wide(), whenOf(r.Cron, r.Timezone, "", r.Period).wide(), badge(string(a.Status.Type)), q.at(a.Trigger.NextTickAt), whenEnded(q.at(last), status),
		number(uint64(a.Cycle)), textOf("periodic"), whose(a.Namespace, a.Tenant),
	}
}

// lastDispatched is when a recurring action was last dispatched, and, if nothing of it runs and nothing has succeeded since, when something last did.
func (q *visit) lastDispatched(r wire.RecurringSummary) cell {
	c := q.at(r.LastExecutedAt)
	switch {
	case c.At == nil:
	case r.Running > 0:
		c.Hint = "running"
	case r.LastSuccessAt == 0:
		c.Hint = "no success yet"
	case r.LastSuccessAt < r.LastExecutedAt:
		c.Hint = "no success since " + q.moment(r.LastSuccessAt).Text
	}
	return c
}

// whenEnded says of a time that it is when the last one ended, and how: of a recurring action it is when it was dispatched.
func whenEnded(at cell, how string) cell {
	if at.At != nil {
		at.Hint = "ended: " + how
	}
	return at
}
