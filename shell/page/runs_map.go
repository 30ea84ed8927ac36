package page

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
)

// The map of a run's states, in pixels. All states stand in a column, in the order of a run's life, so that it is no wider than
// a telephone. A state that may follow on many has a rail beside the column, which the ways to it meet.
const (
	mapTop    = 20 // the first state has its time above itself
	mapRow    = 50
	mapBox    = 28
	mapLeft   = 50
	mapWidth  = 150
	mapRail   = 258 // the first rail, of a terminal state
	mapRails  = 22  // between two
	mapBack   = 12  // the way back from retrying
	mapFailed = 30  // the rail of retrying
)

// runMapDrawing draws the map with one run's way.
type runMapDrawing struct {
	markup
	row   map[core.OrchestratorStatus]int
	rail  map[core.OrchestratorStatus]int // x of a state's rail
	taken map[[2]core.OrchestratorStatus]bool
	steps map[core.OrchestratorStatus]runStep
	times map[core.OrchestratorStatus]string // when the run came there
	now   core.OrchestratorStatus
}

// drawRunMap draws all states and all ways between them; a run's own way is bold.
func (q *visit) drawRunMap(path []runStep) template.HTML {
	m := runMapDrawing{
		row: make(map[core.OrchestratorStatus]int), rail: make(map[core.OrchestratorStatus]int),
		taken: make(map[[2]core.OrchestratorStatus]bool), steps: make(map[core.OrchestratorStatus]runStep), times: make(map[core.OrchestratorStatus]string), now: path[len(path)-1].state,
	}
	date, before := "", path[0].state
	for i, s := range path {
		m.steps[s.state] = s
		m.times[s.state], date = q.mapTime(s, date)
		if i > 0 {
			m.taken[[2]core.OrchestratorStatus{before, s.state}] = true
		}
		before = s.state
	}
	for _, s := range core.OrchestratorStatuses() {
		if s.Terminal() {
			m.rail[s] = mapRail + len(m.rail)*mapRails
		}
		m.row[s] = len(m.row)
	}
	width, height := mapRail+len(m.rail)*mapRails, m.y(len(m.row))
	m.rail[core.OrchestratorRetrying] = mapFailed
	m.add(`<svg class="states" xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" aria-label="%s">`,
		width, height, width, height, "The states of a run, and this run's way: "+m.words(path))
	for _, class := range []string{"way", "way taken"} {
		m.add(`<marker id="%s" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="%s end" d="M0 0L8 4L0 8z"/></marker>`, endOf(class), class)
	}
	m.ways(false)
	m.ways(true) // above the others
	for _, s := range core.OrchestratorStatuses() {
		m.box(s)
	}
	m.add(`</svg>`)
	return m.html()
}

// mapTime tells when a run came to a state: with the date, if that is another one than that of the state before.
func (q *visit) mapTime(s runStep, before string) (text, date string) {
	if s.at.IsZero() {
		return "", before
	}
	at := s.at.Std().In(q.zone)
	text, date = at.Format("15:04:05.000 ")+zoneName(at), at.Format(time.DateOnly)
	if s.guess {
		text = at.Format("15:04:05 ") + zoneName(at)
	}
	if date != before {
		text = date + " " + text
	}
	if s.guess {
		text = "about " + text
	}
	return text, date
}

// words tell the way as a text.
func (m *runMapDrawing) words(path []runStep) string {
	var names []string
	for _, s := range path {
		names = append(names, inText(s.state))
	}
	return strings.Join(names, ", ")
}

// y is the top of a row.
func (m *runMapDrawing) y(row int) int { return mapTop + row*mapRow }

// ways draws those ways that the run took, or the others.
func (m *runMapDrawing) ways(taken bool) {
	for _, from := range core.OrchestratorStatuses() {
		for _, to := range core.OrchestratorTransitions(from) {
			if m.taken[[2]core.OrchestratorStatus{from, to}] == taken {
				m.way(from, to, taken)
			}
		}
	}
}

// way draws the way from one state to another.
func (m *runMapDrawing) way(from, to core.OrchestratorStatus, taken bool) {
	class := "way"
	if taken {
		class = "way taken"
	}
	y := m.y(m.row[from]) + mapBox/2
	var d string
	switch rail := m.rail[to]; {
	case to.Terminal():
		y += (rail-mapRail)/mapRails*6 - 9 // ways to different rails leave their state at different heights
		d = fmt.Sprintf("M%d %dH%dV%dH%d", mapLeft+mapWidth, y, rail, m.y(m.row[to])+mapBox/2, mapLeft+mapWidth)
	case to == core.OrchestratorRetrying && m.row[from]+1 < m.row[to]:
		d = fmt.Sprintf("M%d %dH%dV%dH%d", mapLeft, y+6, rail, m.y(m.row[to])+mapBox/2+6, mapLeft)
	case m.row[to] == m.row[from]+1:
		d = fmt.Sprintf("M%d %dV%d", mapLeft+24, m.y(m.row[from])+mapBox, m.y(m.row[to]))
	case m.row[to] < m.row[from]:
		d = fmt.Sprintf("M%d %dH%dV%dH%d", mapLeft, y, mapBack, m.y(m.row[to])+mapBox/2, mapLeft)
	default: // past some states of the column
		x, end := mapLeft+mapWidth, m.y(m.row[to])+6
		bend := x + 14 + 9*(m.row[to]-m.row[from])
		d = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y-12, bend, y-12, bend, end, x, end)
	}
	m.add(`<path class="%s" marker-end="url(#%s)" d="%s"><title>%s</title></path>`, class, endOf(class), d, inText(from)+" → "+inText(to))
	if to.Terminal() {
		m.add(`<circle class="%s" cx="%d" cy="%d" r="3"/>`, class, m.rail[to], y)
	}
}

// endOf names the arrow at the end of a way.
func endOf(class string) string { return strings.ReplaceAll(class, " ", "-") + "-end" }

// box draws a state, and when the run came to it.
func (m *runMapDrawing) box(s core.OrchestratorStatus) {
	y := m.y(m.row[s])
	_, was := m.steps[s]
	class, title := "state", inText(s)
	switch {
	case s == m.now:
		class, title = "state now "+string(toneOfRun(s)), title+": the run is here"
	case was:
		class, title = "state was", title+": the run was here"
	}
	m.add(`<g><title>%s</title><rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`, title, class, mapLeft, y, mapWidth, mapBox)
	sign := ""
	if s == m.now {
		sign = runSigns[s] + " "
	}
	m.add(`<text class="%s" x="%d" y="%d" text-anchor="middle">%s</text>`, class, mapLeft+mapWidth/2, y+19, sign+inText(s))
	if at := m.times[s]; at != "" {
		m.add(`<text class="at" x="%d" y="%d">%s</text>`, mapLeft+34, y-7, at)
	}
	m.add(`</g>`)
}
