package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func overviewViews() []viewRoute {
	return []viewRoute{{"/{$}", "/", (*visit).overview}}
}

// overviewRows bounds each list of the overview.
const overviewRows = 10

// counted tells how many rows a page of a list has, and whether there are more.
func counted(n int, more bool) string {
	s := strconv.Itoa(n)
	if more {
		s += "+"
	}
	return s
}

// overview answers, in this order: does anything fail, what runs, what comes next, what waits.
func (q *visit) overview() (view, error) {
	v := view{Title: "Overview", Home: true}
	var tiles []tile
	var later []block
	for _, part := range []func() ([]tile, []block, error){q.failedLately, q.runsNow, q.comesNext, q.queueTiles, q.daemonTiles} {
		t, b, err := part()
		if err != nil {
			return view{}, err
		}
		tiles = append(tiles, t...)
		later = append(later, b...)
	}
	v.Body = append([]block{{Tiles: tiles}}, later...)
	if q.isNew(later) {
		v.Acts = q.actLinks("/schedules", "new")
		v.Body = append([]block{q.firstSteps()}, v.Body...)
	}
	return v, nil
}

// failedLately shows what of the last day has failed, or was missed.
func (q *visit) failedLately() ([]tile, []block, error) {
	var failed wire.ActionList
	if err := q.get("/actions", url.Values{"status": {"failed"}, "limit": {"100"}}, &failed); err != nil {
		return nil, nil, err
	}
	since := effects.TimeOf(q.now.Add(-24 * time.Hour))
	t := &table{Caption: "Failed in the last day", Head: []string{"Label", "Status", "Tool", "Due", "Finished", "Tenant", "Id"}}
	n := 0
	for _, a := range failed.Actions {
		if a.FinishedAt.Before(since) {
			continue
		}
		if n++; n <= overviewRows {
			t.Rows = append(t.Rows, q.actionRow(core.Action(a)))
		}
	}
	var runs wire.RunList
	mayRuns, err := q.getPart("/runs", url.Values{"status": {"failed"}, "limit": {"100"}}, &runs)
	if err != nil {
		return nil, nil, err
	}
	failedRuns := 0
	for _, r := range runs.Runs {
		if !r.CompletedAt.Before(since) {
			failedRuns++
		}
	}
	var missed wire.OccurrenceList
	if err := q.get("/occurrences", url.Values{"verdict": {"missed"}, "from": {since.String()}, "limit": {"100"}}, &missed); err != nil {
		return nil, nil, err
	}
	more := failed.NextPageToken != "" && n == len(failed.Actions)
	bad := func(n int) tone {
		if n > 0 {
			return toneBad
		}
		return toneGood
	}
	tiles := []tile{
		{Name: "actions failed in 24 h", Value: counted(n, more), Href: q.page("/actions", "status", "failed"), Tone: bad(n)},
		{Name: "times missed in 24 h", Value: counted(len(missed.Occurrences), missed.NextPageToken != ""), Href: q.page("/occurrences", "verdict", "missed"), Tone: bad(len(missed.Occurrences))},
	}
	if mayRuns {
		moreRuns := runs.NextPageToken != "" && failedRuns == len(runs.Runs)
		tiles = slices.Insert(tiles, 1, tile{Name: "runs failed in 24 h", Value: counted(failedRuns, moreRuns), Href: q.page("/runs", "status", "failed"), Tone: bad(failedRuns)})
	}
	if len(t.Rows) == 0 {
		return tiles, nil, nil
	}
	return tiles, []block{{Title: "Failed in the last day", ID: "failed", Table: t}}, nil
}

// runsNow shows what is under way.
func (q *visit) runsNow() ([]tile, []block, error) {
	var running wire.ActionList
	if err := q.get("/actions", url.Values{"status": {"running"}, "limit": {"100"}}, &running); err != nil {
		return nil, nil, err
	}
	t := &table{Caption: "Running", Head: []string{"What", "Since", "For", "Tenant"}, Empty: "No action runs."}
	for _, a := range running.Actions[:min(len(running.Actions), overviewRows)] {
		t.Rows = append(t.Rows, []cell{
			textOf(nameOfAction(core.Action(a))).to(q.page(pathOf("actions", a.ID.String()))).wide(), q.at(a.StartedAt), q.lasted(a.StartedAt, 0), whose(a.Namespace, a.Tenant),
		})
	}
	tiles := []tile{{Name: "actions running", Value: counted(len(running.Actions), running.NextPageToken != ""), Href: q.page("/actions", "status", "running"), Tone: toneBusy}}
	var pipelines wire.PipelineList
	if err := q.get("/pipelines", url.Values{"status": {"running"}, "limit": {"100"}}, &pipelines); err != nil {
		return nil, nil, err
	}
	tiles = append(tiles, tile{Name: "pipelines running", Value: counted(len(pipelines.Pipelines), pipelines.NextPageToken != ""), Href: q.page("/pipelines", "status", "running"), Tone: toneBusy})
	return tiles, []block{{Title: "Running now", Table: t}}, nil
}

// comesNext shows which schedules are due in the next hour.
func (q *visit) comesNext() ([]tile, []block, error) {
	var next wire.UpcomingList
	params := url.Values{"until": {effects.TimeOf(q.now.Add(time.Hour)).String()}, "limit": {"100"}}
	if err := q.get("/upcoming", params, &next); err != nil {
		return nil, nil, err
	}
	late := 0
	t := &table{Caption: "Due in the next hour", Head: []string{"What", "At", "When", "Tenant"}, Empty: "No schedule is due in the next hour."}
	for i, u := range next.Schedules {
		if u.DueAt.Before(effects.TimeOf(q.now.Add(-10 * time.Second))) {
			late++
		}
		if i < overviewRows {
			t.Rows = append(t.Rows, []cell{q.upcomingLink(u), q.at(u.DueAt), whenOf(u.CronExpr, u.Timezone, u.DayMatch, time.Duration(u.PeriodMS)*time.Millisecond).wide(), whose(u.Namespace, u.Tenant)})
		}
	}
	tiles := []tile{{Name: "due in the next hour", Value: counted(len(next.Schedules), next.More), Href: q.page("/calendar")}}
	if late > 0 {
		tiles = append(tiles, tile{Name: "late", Value: counted(late, late == len(next.Schedules) && next.More), Href: q.page("/schedules"), Tone: toneBad, Hint: "due, and not dispatched for 10 s"})
	}
	return tiles, []block{{Title: "Due in the next hour", Table: t}}, nil
}

// queueTiles shows the queues that have something, the oldest first.
func (q *visit) queueTiles() ([]tile, []block, error) {
	var got wire.QueueList
	if _, err := q.getPart("/queues", url.Values{"limit": {"100"}}, &got); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(got.Queues, func(a, b wire.Queue) int {
		return cmp.Compare(b.OldestReadySeconds, a.OldestReadySeconds)
	})
	var dead uint64
	t := &table{Caption: "Queues", Head: []string{"Queue", "Ready", "Processing", "Dead", "Oldest waits", "Tenant"}}
	for i, u := range got.Queues {
		dead += u.Items.Dead
		if i < overviewRows && u.Items.Ready+u.Items.Processing+u.Items.Dead > 0 {
			t.Rows = append(t.Rows, q.queueCells(u))
		}
	}
	if len(got.Queues) == 0 {
		return nil, nil, nil
	}
	tiles := []tile{{Name: "queues", Value: counted(len(got.Queues), got.NextPageToken != ""), Href: q.page("/queues")}}
	if dead > 0 {
		tiles = append(tiles, tile{Name: "dead letters", Value: strconv.FormatUint(dead, 10), Href: q.page("/queues"), Tone: toneBad})
	}
	if len(t.Rows) == 0 {
		return tiles, nil, nil
	}
	return tiles, []block{{Title: "Queues that have something", Table: t}}, nil
}

func (q *visit) queueCells(u wire.Queue) []cell {
	name := codeOf(u.Name).to(q.scoped(pathOf("queues", u.Name), u.Namespace, u.Tenant))
	if u.Paused {
		name.More = append(name.More, badge("paused"))
	}
	oldest := cell{}
	if !u.OldestReadyAt.IsZero() {
		oldest = textOf(roughly(time.Duration(u.OldestReadySeconds * float64(time.Second))))
	}
	return []cell{name.wide(), number(u.Items.Ready), number(u.Items.Processing), badCount(u.Items.Dead), oldest, whose(u.Namespace, u.Tenant)}
}

// isNew reports whether the database has nothing that would fill the overview.
func (q *visit) isNew(later []block) bool {
	for _, b := range later {
		if b.Table != nil && len(b.Table.Rows) > 0 {
			return false
		}
	}
	var got wire.ActionList
	if err := q.get("/actions", url.Values{"limit": {"1"}}, &got); err != nil || len(got.Actions) > 0 {
		return false
	}
	var recurring wire.RecurringList
	err := q.get("/recurring", url.Values{"all": {"true"}, "limit": {"1"}}, &recurring)
	return err == nil && len(recurring.RecurringActions) == 0
}

// firstSteps says what to do with a database that is new.
func (q *visit) firstSteps() block {
	return block{
		Title: "Nothing is here yet", Note: "Make a first schedule with the button above, or type:",
		Text: &text{Plain: "orreryd recurring add --cron '*/5 * * * *' -- date\norreryd recurring list", Wrap: true},
	}
}
