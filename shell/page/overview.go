package page

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

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

// overview answers, in this order: does anything need a look, does anything fail, what waits for somebody, what runs, what comes next, what queues have.
func (q *visit) overview() (view, error) {
	v := view{Title: "Overview", Home: true}
	var tiles []tile
	var later []block
	for _, part := range []func() ([]tile, []block, error){q.openAlerts, q.failedLately, q.waitsForSomebody, q.runsNow, q.comesNext, q.queueTiles, q.daemonTiles} {
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

// comesNext shows which schedules are due in the next hour.
func (q *visit) comesNext() ([]tile, []block, error) {
	var next wire.UpcomingList
	params := url.Values{"until": {effects.TimeOf(q.now.Add(time.Hour)).String()}, "limit": {"100"}}
	if err := q.get("/upcoming", params, &next); err != nil {
		return nil, nil, err
	}
	late, soon := 0, 0
	head := []string{"What", "At", "When", "Tenant"}
	t := &table{Caption: "Due in the next hour", Head: head, Empty: "No schedule is due in the next hour."}
	behind := &table{Caption: "Late", Head: head}
	for _, u := range next.Schedules {
		row := []cell{q.upcomingLink(u), q.at(u.DueAt), whenOf(u.CronExpr, u.Timezone, u.DayMatch, time.Duration(u.PeriodMS)*time.Millisecond).wide(), whose(u.Namespace, u.Tenant)}
		if u.DueAt.Before(effects.TimeOf(q.now.Add(-lateAfter))) {
			late++
			behind.Rows = append(behind.Rows, row)
			continue
		}
		if soon++; soon <= overviewRows {
			t.Rows = append(t.Rows, row)
		}
	}
	tiles := []tile{{Name: "due in the next hour", Hint: "schedules, each counted once", Value: counted(soon, next.More), Href: q.page("/calendar")}}
	blocks := []block{{Title: "Due in the next hour", Table: t}}
	if late > 0 {
		more := late == len(next.Schedules) && next.More
		tiles = append(tiles, tile{Name: "late", Value: counted(late, more), Href: "#late", Tone: toneBad, Hint: "due, and not dispatched for 10 s"})
		b := block{Title: "Late", ID: "late", Note: "Due for more than 10 s, and not dispatched.", Table: behind}
		if more {
			b.Note += " There are more than these."
		}
		blocks = append([]block{b}, blocks...)
	}
	return tiles, blocks, nil
}

// lateAfter is how long after its time a schedule is late.
const lateAfter = 10 * time.Second

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
	some := 0
	for _, u := range got.Queues {
		dead += u.Items.Dead
		if u.Items.Ready+u.Items.Processing+u.Items.Dead == 0 {
			continue
		}
		if some++; some <= overviewRows {
			t.Rows = append(t.Rows, q.queueCells(u))
		}
	}
	if len(got.Queues) == 0 {
		return nil, nil, nil
	}
	tiles := []tile{{Name: "queues", Value: counted(len(got.Queues), got.NextPageToken != ""), Href: q.page("/queues")}}
	more := got.NextPageToken != ""
	if dead > 0 || more {
		d := tile{Name: "dead letters", Value: counted(int(min(dead, math.MaxInt)), more), Href: q.page("/queues"), Tone: toneBad}
		if dead == 0 {
			d.Tone = toneNone
		}
		if more {
			d.Hint = "of the newest " + strconv.Itoa(len(got.Queues)) + " queues"
		}
		tiles = append(tiles, d)
	}
	if len(t.Rows) == 0 {
		return tiles, nil, nil
	}
	b := block{Title: "Queues that have something", Table: t}
	if more {
		b.Note = "Of the newest " + strconv.Itoa(len(got.Queues)) + " queues those whose oldest item waits longest. The list of queues has all."
	} else if some > overviewRows {
		b.Note = "Those whose oldest item waits longest, " + strconv.Itoa(overviewRows) + " of " + strconv.Itoa(some) + ". The list of queues has all."
	}
	return tiles, []block{b}, nil
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
	for _, of := range []struct{ path, field string }{
		{"/actions", "actions"}, {"/recurring", "recurring_actions"}, {"/jobs", "jobs"}, {"/pipelines", "pipelines"}, {"/tasks", "tasks"}, {"/strategies", "strategies"}, {"/queues", "queues"},
	} {
		params := url.Values{"limit": {"1"}}
		if of.path == "/recurring" {
			params.Set("all", "true")
		}
		var got map[string]any
		if _, err := q.getPart(of.path, params, &got); err != nil {
			return false
		}
		if list, _ := got[of.field].([]any); len(list) > 0 {
			return false
		}
	}
	return true
}

// firstSteps says what to do with a database that is new.
func (q *visit) firstSteps() block {
	return block{
		Title: "Nothing is here yet", Note: "Make a first schedule with the button above, or type:",
		Text: &text{Plain: "orreryd recurring add --cron '*/5 * * * *' --description 'The time' -- date\norreryd recurring list", Wrap: true},
	}
}
