package page

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func scheduleViews() []viewRoute {
	return []viewRoute{
		{"/schedules", "/schedules", (*visit).schedules},
		{"/schedules/preview", "/schedules", (*visit).previewForm},
		{"/recurring/{id}", "/schedules", (*visit).recurring},
		{"/calendar", "/calendar", (*visit).calendar},
		{"/occurrences", "/calendar", (*visit).occurrences},
	}
}

// The kinds of schedules, in the order of the list.
const (
	kindRecurring = "recurring"
	kindJob       = "job"
	kindPeriodic  = "action"
)

var scheduleKinds = []string{kindRecurring, kindJob, kindPeriodic}

// schedules lists the schedules of all kinds: the recurring actions, then the jobs, then the periodic actions. The
// token of a page says in which of the three it goes on.
func (q *visit) schedules() (view, error) {
	kinds := scheduleKinds
	if k := q.URL.Query().Get("kind"); k != "" {
		kinds = []string{k}
	}
	at, token, _ := strings.Cut(q.URL.Query().Get("page_token"), ":")
	for at != "" && len(kinds) > 1 && kinds[0] != at {
		kinds = kinds[1:]
	}
	var t *table
	for i, kind := range kinds {
		part, next, err := q.schedulesOf(kind, token)
		if forbidden(err) && i+1 < len(kinds) { // the token is not for jobs, and nobody asked for these alone
			token = ""
			continue
		}
		if err != nil {
			return view{}, err
		}
		token = ""
		if t == nil {
			t = part
		} else {
			t.Rows = append(t.Rows, part.Rows...)
		}
		if next != "" {
			q.next(t, kind+":"+next)
			break
		}
		if len(t.Rows) >= pageRows && i+1 < len(kinds) {
			q.next(t, kinds[i+1]+":")
			break
		}
	}
	return view{Title: "Schedules", Acts: q.actLinks("/schedules", "new", "pause-all", "resume-all"), Body: []block{{Table: t}}}, nil
}

// schedulesOf lists those of one kind.
func (q *visit) schedulesOf(kind, token string) (*table, string, error) {
	l := list{
		path: "/schedules", caption: "Schedules",
		head:  []string{"Name", "When", "Status", "Next", "Last", "Runs", "Kind", "Tenant"},
		empty: "There is no schedule. A recurring action makes an action at each of its times; make one here, or with: orreryd recurring add --cron '0 9 * * MON-FRI' -- command …",
	}
	given := q.URL.Query()
	kindField := field{Name: "kind", Label: "Kind", Type: fieldChoice, Options: []option{{"", "any"}, {kindRecurring, "recurring actions"}, {kindJob, "jobs"}, {kindPeriodic, "periodic actions"}}}
	given.Set("page_token", token)
	given.Del("kind")
	inner := q.asking(given)
	var rows [][]cell
	var t *table
	var next string
	var err error
	switch kind {
	case kindRecurring:
		var got wire.RecurringList
		l.api, l.fixed = "/recurring", url.Values{"all": {"true"}}
		if t, err = inner.read(l, &got); err == nil {
			next = got.NextPageToken
			for _, r := range got.RecurringActions {
				rows = append(rows, q.recurringRow(r))
			}
		}
	case kindJob:
		var got wire.JobList
		l.api = "/jobs"
		if t, err = inner.read(l, &got); err == nil {
			next = got.NextPageToken
			for _, j := range got.Jobs {
				rows = append(rows, q.jobScheduleRow(j))
			}
		}
	case kindPeriodic:
		var got wire.ActionList
		l.api, l.fixed = "/actions", url.Values{"recurs": {"true"}}
		if t, err = inner.read(l, &got); err == nil {
			next = got.NextPageToken
			for _, a := range got.Actions {
				rows = append(rows, q.periodicRow(core.Action(a)))
			}
		}
	default:
		return nil, "", &apiError{Status: 400, Text: "kind: " + strconv.Quote(clip(kind, 40)) + " is unknown: use recurring, job or action"}
	}
	if err != nil {
		return nil, "", err
	}
	t.Rows = rows
	kindField.Value = q.URL.Query().Get("kind")
	t.Filter.Active = t.Filter.Active || kindField.Value != ""
	t.Filter.Fields = append([]field{kindField}, t.Filter.Fields...)
	t.First = q.firstPage(l.path)
	return t, next, nil
}

// inWords says when an expression fires.
func inWords(expr, zone string, days schedule.DayMatch) string {
	s, err := schedule.Spec{Expr: expr, Zone: cmp.Or(zone, "UTC"), DayMatch: days}.Compile()
	if err != nil {
		return ""
	}
	return s.Describe()
}

// fires shows an expression with its meaning in words.
func fires(expr, zone string, days schedule.DayMatch) cell {
	when := textOf(inWords(expr, zone, days))
	when.More = []cell{codeOf(expr)}
	return when
}

// whenOf says when a schedule of any kind fires: at the times of an expression, or so long after each end.
func whenOf(expr, zone string, days schedule.DayMatch, period time.Duration) cell {
	if expr == "" {
		return textOf("after each end: every " + precisely(period))
	}
	return fires(expr, zone, days)
}

// nameOfRecurring is what people call a recurring action: by its description, or else by what it does.
func nameOfRecurring(description *string, provider, actionType string) string {
	if description != nil {
		return *description
	}
	return provider + " " + actionType
}

// nameInList is [nameOfRecurring] of an entry of a list.
func nameInList(r wire.RecurringSummary) string {
	return clip(nameOfRecurring(r.Description, r.Provider, r.ActionType), 120)
}

func (q *visit) recurringRow(r wire.RecurringSummary) []cell {
	return []cell{
		textOf(nameInList(r)).to(q.page(pathOf("recurring", r.ID.String()))).wide(), fires(r.CronExpr, r.Timezone, r.DayMatch).wide(), enabled(r.Enabled), q.at(r.NextExecutionAt), q.at(r.LastExecutedAt),
		number(r.ExecutionCount), textOf("recurring"), whose(r.Namespace, r.Tenant),
	}
}

func enabled(on bool) cell {
	if on {
		return state("on", toneGood)
	}
	return state("paused", toneWait)
}

func (q *visit) jobScheduleRow(j wire.JobSummary) []cell {
	return []cell{
		q.linkOfSchedule(core.KindJob, j.ID, cmp.Or(j.Name, j.ID), j.Namespace, j.Tenant), firesJob(j.Schedule, j.Timezone, j.DayMatch).wide(), enabled(!j.Paused), q.at(j.NextRunAt), q.at(j.LastRun.EndedAt),
		{}, textOf("job"), whose(j.Namespace, j.Tenant),
	}
}

func (q *visit) periodicRow(a core.Action) []cell {
	r := a.Recurrence
	last := effects.Time(0)
	if a.LastRun != nil {
		last = a.LastRun.FinishedAt
	}
	return []cell{
		textOf(nameOfAction(a)).to(q.page(pathOf("actions", a.ID.String()))).wide(), whenOf(r.Cron, r.Timezone, "", r.Period).wide(), badge(string(a.Status.Type)), q.at(a.Trigger.NextTickAt), q.at(last),
		number(uint64(a.Cycle)), textOf("periodic"), whose(a.Namespace, a.Tenant),
	}
}

// recurring shows one recurring action.
func (q *visit) recurring() (view, error) {
	var a wire.RecurringAction
	id := q.PathValue("id")
	if err := q.get(pathOf("recurring", id), nil, &a); err != nil {
		return view{}, err
	}
	var p wire.Preview
	if err := q.get(pathOf("recurring", id, "preview"), url.Values{"n": {"5"}}, &p); err != nil {
		return view{}, err
	}
	history, err := q.history(pathOf("recurring", id, "history"), 50)
	if err != nil {
		return view{}, err
	}
	s, does := enabled(a.Enabled), a.ActionTemplate
	v := view{Kind: "Recurring action", Title: nameOfRecurring(a.Description, does.Provider, does.ActionType), State: &s, Crumbs: []link{{Text: "Schedules", Href: q.page("/schedules")}}}
	pausing := "pause"
	if !a.Enabled {
		pausing = "resume"
	}
	v.Acts = q.actLinks("/recurring/{id}", "trigger", pausing, "skip-next", "edit", "backfill", "delete")
	v.More = []link{q.changesLink(core.KindRecurring, id)}
	if !a.Enabled && a.DisabledReason != "" {
		text := "It is paused: " + a.DisabledReason
		if strings.HasPrefix(a.DisabledReason, "paused ") {
			text = "It is " + a.DisabledReason
		}
		v.Body = append(v.Body, block{Notice: &notice{Text: text, Tone: toneWait}})
	}
	for _, w := range p.Warnings {
		v.Body = append(v.Body, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	for _, w := range q.clockChanges(p.Times, a.Timezone) {
		v.Body = append(v.Body, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	v.Body = append(v.Body, block{Facts: q.recurringFacts(a, p)}, q.nextTimes(p, a.Enabled), q.runningTimes(a), history)
	if len(a.ActionTemplate.Payload) > 0 {
		v.Body = append(v.Body, block{Title: "Payload", Text: jsonText(a.ActionTemplate.Payload)})
	}
	return v, nil
}

func (q *visit) recurringFacts(a wire.RecurringAction, p wire.Preview) []fact {
	when := textOf(p.Description)
	if !strings.Contains(p.Description, a.Timezone) { // it names each zone but UTC
		when.Hint = a.Timezone
	}
	own := facts(
		fact{"When", when}, fact{"Expression", codeOf(a.CronExpr)}, fact{"Next", q.at(a.NextExecutionAt)}, fact{"Last", q.at(a.LastExecutedAt)},
		fact{"Last success", q.at(a.LastSuccessAt)}, fact{"Paused until", q.at(a.PausedUntil)},
		fact{"Usually takes", usually(a.Durations)}, fact{"Executions", number(a.ExecutionCount)}, fact{"Missed", count(a.MissedCount)}, fact{"Skipped", count(a.SkippedCount)},
		fact{"Deduplicated", count(a.DeduplicatedCount)}, fact{"Cancelled", count(a.CancelledCount)}, fact{"Expired", count(a.ExpiredCount)}, fact{"Next times to skip", count(uint64(a.SkipNext))},
		fact{"Tool", codeOf(a.ActionTemplate.Provider)}, fact{"Type", textOf(a.ActionTemplate.ActionType)}, fact{"Dedup key", codeOf(or(a.ActionTemplate.DedupKey))}, fact{"Overlap", textOf(string(a.Overlap))},
		fact{"Start deadline", ofSeconds(a.StartDeadlineSeconds)}, fact{"Ends", q.at(a.EndsAt)}, fact{"Whose", whose(a.Namespace, a.Tenant)}, fact{"Labels", pairs(a.Labels)}, fact{"Metadata", pairs(a.ActionTemplate.Metadata)},
		fact{"Created", q.at(a.CreatedAt)}, fact{"Changed", q.at(a.UpdatedAt)}, fact{"Id", codeOf(a.ID.String())},
	)
	return slices.Concat(own, q.scheduleFacts(a.ScheduleOptions), policyFacts(a.Policy))
}

// usually tells the median of the last durations, in milliseconds.
func usually(ms []int64) cell {
	if len(ms) == 0 {
		return cell{}
	}
	c := textOf(precisely(time.Duration(median(ms)) * time.Millisecond))
	c.Hint = "the median of the last " + strconv.Itoa(len(ms))
	return c
}

// median gives the middle one of some numbers.
func median(all []int64) int64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// nextTimes shows the next times of a schedule, in its own zone and in that of the browser.
func (q *visit) nextTimes(p wire.Preview, on bool) block {
	t := &table{Caption: "Next times", Head: []string{"In the zone of the schedule", "In the zone that is chosen"}, Empty: "No further times."}
	zone, err := schedule.LoadZone(p.Timezone)
	for _, at := range p.Times {
		own := cell{}
		if err == nil {
			local := at.Std().In(zone.Location())
			own = textOf(local.Format("Mon 2006-01-02 15:04:05 ") + zoneName(local))
		}
		t.Rows = append(t.Rows, []cell{own, q.at(at)})
	}
	b := block{Title: "Next times", Table: t}
	if !on {
		b.Note = "It is paused: these are the times at which it would fire."
	}
	return b
}

// clockChanges warns where the clocks change between now and the first of the next times, or between two of them.
func (q *visit) clockChanges(times []effects.Time, name string) (out []string) {
	zone, err := schedule.LoadZone(name)
	if err != nil {
		return nil
	}
	last := effects.TimeOf(q.now)
	for _, at := range times {
		before, after := zone.Offset(last), zone.Offset(at)
		last = at
		if before != after {
			by := precisely(max(after-before, before-after))
			word := "forward"
			if after < before {
				word = "back"
			}
			out = append(out, "The clocks of "+name+" go "+word+" by "+by+" before "+at.Std().In(zone.Location()).Format("Mon 2006-01-02 15:04 ")+
				zoneName(at.Std().In(zone.Location()))+": the setting dst says what fires of the times that they skip or repeat.")
		}
	}
	return out
}

// runningTimes shows what runs of a schedule, and what waits for its turn.
func (q *visit) runningTimes(a wire.RecurringAction) block {
	t := &table{Caption: "Running and waiting", Head: []string{"Time", "How it stands", "Since", "Action"}}
	for _, r := range a.Running {
		t.Rows = append(t.Rows, []cell{q.at(r.DueAt), badge("running"), q.at(r.StartedAt), codeOf(shortID(r.Action.String())).to(q.page(pathOf("actions", r.Action.String())))})
	}
	for _, w := range a.Waiting {
		t.Rows = append(t.Rows, []cell{q.at(w.DueAt), badge("waiting"), q.at(w.Since), {}})
	}
	t.Empty = "Nothing runs, and nothing waits for its turn."
	return block{Title: "Running and waiting", Table: t}
}

// history shows what became of the times of one schedule.
func (q *visit) history(path string, rows int) (block, error) { return q.historyIn(path, nil, rows) }

// historyIn is [visit.history] of a schedule that has a name within a namespace and tenant.
func (q *visit) historyIn(path string, scope url.Values, rows int) (block, error) {
	var got wire.HistoryList
	params := url.Values{"limit": {strconv.Itoa(rows)}}
	maps.Copy(params, scope)
	if err := q.get(path, params, &got); err != nil {
		return block{}, err
	}
	t := &table{Caption: "History", Head: []string{"Time", "What became of it", "Why", "Took", "Made"}, Empty: "No time of it has come yet."}
	for _, o := range got.History {
		t.Rows = append(t.Rows, q.occurrenceCells(o))
	}
	b := block{Title: "History", ID: "history", Table: t}
	if got.NextPageToken != "" && len(got.History) > 0 {
		o := got.History[0]
		t.Next = q.page("/occurrences", "schedule_id", o.RecurringID.String())
	}
	return b, nil
}

func (q *visit) occurrenceCells(o core.Occurrence) []cell {
	at := q.at(o.DueAt)
	if o.Count > 1 {
		at.More = append(at.More, textOf("and "+strconv.FormatUint(o.Count-1, 10)+" more up to"), q.at(o.LastDueAt))
	}
	if o.Manual {
		at.Hint = "by hand"
	}
	var made cell
	switch {
	case o.ActionID.String() == noID:
	case o.Schedule == core.KindJob:
		made = codeOf(shortID(o.ActionID.String())).to(q.page(pathOf("runs", o.ActionID.String())))
	default:
		made = codeOf(shortID(o.ActionID.String())).to(q.page(pathOf("actions", o.ActionID.String())))
	}
	took := ""
	if !o.FinishedAt.IsZero() {
		took = q.took(o.StartedAt, o.FinishedAt)
	}
	became := verdict(o)
	if o.Verdict == core.VerdictWaiting && o.Schedule == core.KindRecurring && !q.who.ReadOnly() {
		became.More = append(became.More, textOf("cancel").to(q.page(pathOf("recurring", o.RecurringID.String(), "waiting", o.ID.String(), "cancel"))))
	}
	return []cell{at, became, textOf(o.Reason).wide(), textOf(took), made}
}

const noID = "00000000-0000-0000-0000-000000000000"

// previewForm shows what the fields of a form mean, while they are typed.
func (q *visit) previewForm() (view, error) {
	given := q.URL.Query()
	v := view{Title: "Preview", Static: true}
	if strings.TrimSpace(given.Get("cron_expr")) == "" {
		return v, nil
	}
	var p wire.Preview
	err := q.get("/recurring/preview", url.Values{
		"cron_expr": {given.Get("cron_expr")}, "timezone": {given.Get("timezone")}, "dst": {given.Get("dst")}, "day_match": {given.Get("day_match")}, "n": {"5"},
	}, &p)
	if err != nil {
		_, text := q.p.statusOf(err)
		v.Body = []block{{Notice: &notice{Text: text, Tone: toneBad}}}
		return v, nil
	}
	text := p.Description
	if !strings.Contains(text, p.Timezone) { // it names each zone but UTC
		text += " (" + p.Timezone + ")"
	}
	v.Body = []block{{Notice: &notice{Text: text}}}
	for _, w := range append(p.Warnings, q.clockChanges(p.Times, p.Timezone)...) {
		v.Body = append(v.Body, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	zone, _ := schedule.LoadZone(p.Timezone)
	var f []fact
	for i, at := range p.Times {
		local := at.Std().In(zone.Location())
		f = append(f, fact{strconv.Itoa(i + 1), textOf(local.Format("Mon 2006-01-02 15:04:05 ") + zoneName(local) + ", " + ago(at.Std().Sub(q.now)))})
	}
	v.Body = append(v.Body, block{Facts: f})
	return v, nil
}

// editableJSON gives JSON as a form has it: whole, whatever its length. It may be left out.
func editableJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return indentedJSON(raw)
}
