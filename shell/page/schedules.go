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

// nameInList is what people call a recurring action of a list, as the ledger and its actions do: by its name, its description, or
// else by the type of its actions.
func nameInList(r wire.RecurringSummary) string {
	l := listed{Name: r.Name, Description: r.Description, ActionType: r.ActionType}
	return l.name()
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
	ended := a.Ended(effects.TimeOf(q.now))
	s := scheduleState(a.Enabled, ended)
	v := view{Kind: "Recurring action", Title: cmp.Or(a.Name, or(a.Description), a.ActionTemplate.ActionType), State: &s, Crumbs: []link{{Text: "Schedules", Href: q.page("/schedules")}}}
	names := []string{"trigger", pausing(!a.Enabled, ended), "skip-next", "edit", "backfill", "delete"}
	if ended {
		names = slices.DeleteFunc(names, func(n string) bool { return n == "skip-next" })
	}
	alerts, acts, err := q.alertsOf(pathOf("recurring", id), a.Alerts, nil)
	if err != nil {
		return view{}, err
	}
	v.Acts = q.actLinks("/recurring/{id}", withSilence(names, acts)...)
	v.More = []link{q.changesLink(core.KindRecurring, id)}
	if text := restsSince(a, ended); text != "" {
		v.Body = append(v.Body, block{Notice: &notice{Text: text, Tone: toneWait}})
	}
	for _, w := range p.Warnings {
		v.Body = append(v.Body, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	for _, w := range q.clockChanges(p.Times, a.Timezone) {
		v.Body = append(v.Body, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	v.Body = append(append(v.Body, alerts...), block{Facts: q.recurringFacts(a, p)}, q.nextTimes(p, a.Enabled || ended), q.runningTimes(a), history)
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
	description := cell{}
	if a.Name != "" { // else it is the title
		description = textOf(or(a.Description))
	}
	own := facts(
		fact{"Description", description}, fact{"When", when}, fact{"Expression", codeOf(a.CronExpr)}, fact{"Next", q.at(a.NextExecutionAt)}, fact{"Last", q.at(a.LastExecutedAt)},
		fact{"Last success", q.at(a.LastSuccessAt)}, fact{"Paused until", q.at(a.PausedUntil)},
		fact{"Usually takes", usually(a.Durations)}, fact{"Executions", number(a.ExecutionCount)}, fact{"Missed", count(a.MissedCount)}, fact{"Skipped", count(a.SkippedCount)},
		fact{"Deduplicated", count(a.DeduplicatedCount)}, fact{"Cancelled", count(a.CancelledCount)}, fact{"Expired", count(a.ExpiredCount)}, fact{"Next times to skip", count(uint64(a.SkipNext))},
		fact{"Tool", codeOf(a.ActionTemplate.Provider)}, fact{"Type", textOf(a.ActionTemplate.ActionType)}, fact{"Dedup key", codeOf(or(a.ActionTemplate.DedupKey))}, fact{"Overlap", textOf(string(a.Overlap))},
		fact{"Start deadline", ofSeconds(a.StartDeadlineSeconds)}, fact{"Ends", q.at(a.EndsAt)}, fact{"Whose", whose(a.Namespace, a.Tenant)}, fact{"Labels", pairs(a.Labels)}, fact{"Metadata", pairs(a.ActionTemplate.Metadata)},
		q.declaredFact(a.Declared), fact{"Created", q.at(a.CreatedAt)}, fact{"Changed", q.at(a.UpdatedAt)}, fact{"Id", codeOf(a.ID.String())},
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
	took := ""
	if !o.FinishedAt.IsZero() {
		took = q.took(o.StartedAt, o.FinishedAt)
	}
	became := verdict(o)
	if o.Verdict == core.VerdictWaiting && o.Schedule == core.KindRecurring && !q.who.ReadOnly() {
		became.More = append(became.More, textOf("cancel").to(q.page(pathOf("recurring", o.RecurringID.String(), "waiting", o.ID.String(), "cancel"))))
	}
	return []cell{at, became, textOf(o.Reason).wide(), textOf(took), q.madeOf(o)}
}

// madeOf leads to what was made of a time; empty if nothing was.
func (q *visit) madeOf(o core.Occurrence) cell {
	id := o.ActionID.String()
	switch {
	case id == noID:
		return cell{}
	case o.Schedule == core.KindJob:
		return codeOf(shortID(id)).to(q.page(pathOf("runs", id)))
	}
	return codeOf(shortID(id)).to(q.page(pathOf("actions", id)))
}

const noID = "00000000-0000-0000-0000-000000000000"

// editableJSON gives JSON as a form has it: whole, whatever its length. It may be left out.
func editableJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return indentedJSON(raw)
}
