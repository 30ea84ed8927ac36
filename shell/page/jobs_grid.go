package page

import (
	"html/template"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// The grid of a job's runs, in pixels.
const (
	gridRuns    = 120 // the newest ones are drawn
	gridColumns = 20  // of a line
	gridCell    = 26
	gridLeft    = 110
	gridTop     = 6
)

// runSigns stand for the states of a run, beside their colours.
var runSigns = map[core.OrchestratorStatus]string{
	core.OrchestratorCompleted: "✓", core.OrchestratorFailed: "✗", core.OrchestratorCancelled: "–", core.OrchestratorOrphaned: "?",
	core.OrchestratorPreRun: "·", core.OrchestratorPending: "…", core.OrchestratorRetrying: "↻", core.OrchestratorRunning: "▶",
	core.OrchestratorConditionPending: "◦", core.OrchestratorConditionRunning: "◦", core.OrchestratorActionPending: "◦", core.OrchestratorActionRunning: "◦",
	core.OrchestratorContainerCreating: "▷", core.OrchestratorTerminating: "▹",
}

// jobGrid draws the runs of a job over time, a line for each day; nothing if there are none.
func (q *visit) jobGrid(j wire.Job) ([]block, error) {
	params := q.scopeQuery()
	params.Set("limit", strconv.Itoa(gridRuns))
	var got wire.RunList
	if err := q.get(pathOf("jobs", j.ID, "runs"), params, &got); err != nil {
		return nil, err
	}
	if len(got.Runs) == 0 {
		return nil, nil
	}
	note := "A line for each day in the zone that is chosen, the newest first; within a line time goes to the right. ✓ completed, ✗ failed, – cancelled, ? orphaned, ▶ runs, ↻ tries again, … and · wait. The table below has the same as text."
	if got.NextPageToken != "" {
		note = "The newest " + strconv.Itoa(len(got.Runs)) + " runs. " + note
	}
	return []block{{Title: "Runs over time", ID: "grid", Note: note, SVG: q.drawGrid(got.Runs)}}, nil
}

// gridLines puts runs, the newest first, in lines: the newest day first, and the oldest run of a line first.
func (q *visit) gridLines(runs []wire.RunSummary) (lines [][]wire.RunSummary) {
	day := func(r wire.RunSummary) string { return r.ScheduledAt.Std().In(q.zone).Format(time.DateOnly) }
	for i := 0; i < len(runs); {
		end := i + 1
		for end < len(runs) && end-i < gridColumns && day(runs[end]) == day(runs[i]) {
			end++
		}
		line := make([]wire.RunSummary, 0, end-i)
		for k := end - 1; k >= i; k-- {
			line = append(line, runs[k])
		}
		lines, i = append(lines, line), end
	}
	return lines
}

func (q *visit) drawGrid(runs []wire.RunSummary) template.HTML {
	lines := q.gridLines(runs)
	longest := 0
	for _, l := range lines {
		longest = max(longest, len(l))
	}
	width, height := gridLeft+longest*gridCell+4, gridTop+len(lines)*gridCell+4
	var d markup
	d.add(`<svg class="grid" xmlns="http://www.w3.org/2000/svg" role="group" width="%d" height="%d" viewBox="0 0 %d %d" aria-label="%s">`, width, height, width, height, "Runs over time")
	told := ""
	for i, line := range lines {
		y := gridTop + i*gridCell
		if day := line[0].ScheduledAt.Std().In(q.zone).Format("Mon 01-02"); day != told {
			d.add(`<text class="day" x="0" y="%d">%s</text>`, y+17, day)
			told = day
		}
		for k, r := range line {
			q.drawRun(&d, r, gridLeft+k*gridCell, y)
		}
	}
	d.add(`</svg>`)
	return d.html()
}

// drawRun draws the cell of a run, which leads to it.
func (q *visit) drawRun(d *markup, r wire.RunSummary, x, y int) {
	title := r.ScheduledAt.Std().In(q.zone).Format("2006-01-02 15:04:05 ") + zoneName(r.ScheduledAt.Std().In(q.zone)) + ": " + inText(r.State)
	if r.Manual {
		title += ", by hand"
	}
	if r.Error != "" {
		title += ": " + clip(r.Error, 200)
	}
	d.add(`<a href="%s" aria-label="%s"><title>%s</title><rect class="run %s" x="%d" y="%d" width="22" height="22" rx="4"/><text class="run %s" x="%d" y="%d" text-anchor="middle">%s</text></a>`,
		q.page(pathOf("runs", r.ID.String())), title, title, string(toneOfRun(r.State)), x, y, string(toneOfRun(r.State)), x+11, y+16, runSigns[r.State])
}
