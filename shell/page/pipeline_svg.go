package page

import (
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
)

// The drawing of a pipeline, in pixels: the jumps at the left, a box for each phase, and its bars at the right.
const (
	maxDrawn   = 200 // phases
	maxNeeded  = 8   // pipelines that are drawn before the first phase
	rowHeight  = 40
	boxHeight  = 28
	boxLeft    = 70
	boxWidth   = 270
	barsLeft   = boxLeft + boxWidth + 30
	barsWidth  = 440
	drawnWidth = barsLeft + barsWidth + 90
)

// phaseSigns stand for the states of a phase, beside their colours.
var phaseSigns = map[string]string{
	"done": "✓", "failed": "✗", "skipped": "»", "cancelled": "■", "running": "▶", "waiting": "‖", "retrying": "‖", "not begun": "○",
}

// drawing is the diagram of a pipeline.
type drawing struct{ markup }

func (d *drawing) text(x, y int, class, s string) {
	d.add(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, s)
}

func (d *drawing) line(class string, x1, y1, x2, y2 int) {
	d.add(`<path class="%s" d="M%d %dL%d %d"/>`, class, x1, y1, x2, y2)
}

// box draws what leads to an address in the column of the boxes, with a text that also says what it is.
func (d *drawing) box(y int, class, href, title, s string) {
	d.add(`<a href="%s"><title>%s</title><rect class="box %s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`, href, title, class, boxLeft, y, boxWidth, boxHeight)
	d.text(boxLeft+10, y+19, "", s)
	d.WriteString(`</a>`)
}

// drawPipeline draws the phases in their order, the ways between them, and a bar for each time that one ran.
func (q *visit) drawPipeline(p core.Pipeline) template.HTML {
	phases := p.Definition.Phases[:min(len(p.Definition.Phases), maxDrawn)]
	needed := p.DependsOn[:min(len(p.DependsOn), maxNeeded)]
	top := 30 + len(needed)*rowHeight
	height := top + len(phases)*rowHeight + 10
	var d drawing
	left := 0
	if len(needed) == 0 && !jumps(p.Definition.Phases) { // nothing is drawn beside the boxes
		left = boxLeft - 8
	}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="%d 0 %d %d" role="group" aria-label="%s">`,
		drawnWidth-left, height, left, drawnWidth-left, height, "Phases of "+clip(p.Definition.Name, 100))
	for i, id := range needed {
		y, word := 30+i*rowHeight, "done"
		if slices.ContainsFunc(p.Unmet, func(a core.Awaited) bool { return a.Ref.ID == id }) {
			word = "waiting"
		}
		name := "pipeline " + shortID(id.String())
		d.box(y, string(tones[word])+" needed", q.page(pathOf("pipelines", id.String())), "It depends on "+name+": "+word, phaseSigns[word]+" after "+name)
		d.line("edge", boxLeft+boxWidth/2, y+boxHeight, boxLeft+boxWidth/2, y+rowHeight)
	}
	scale := q.scaleOf(p)
	scale.draw(&d, q, top, height)
	for i, phase := range phases {
		q.drawPhase(&d, p, phase, top+i*rowHeight, scale)
	}
	drawWays(&d, p, len(phases), top)
	d.WriteString(`</svg>`)
	return d.html()
}

func (q *visit) drawPhase(d *drawing, p core.Pipeline, phase core.PhaseDef, y int, s scale) {
	word := phaseState(p, phase.Name)
	class := string(tones[word])
	if p.Phase.Name == phase.Name && !p.Phase.Type.Ended() {
		class += " current"
	}
	title := phase.Name + ", " + phase.Kind() + ": " + word
	d.box(y, class, q.phaseHref(p, phase.Name), title, phaseSigns[word]+" "+clip(phase.Name, 24))
	d.text(boxLeft+boxWidth-76, y+19, "soft", clip(phase.Kind(), 10))
	end := 0
	for _, r := range runsOf(p, phase.Name) {
		x1, x2 := s.x(r.StartedAt.Std()), s.x(q.now)
		if !r.EndedAt.IsZero() {
			x2 = s.x(r.EndedAt.Std())
		}
		d.add(`<rect class="bar %s" x="%d" y="%d" width="%d" height="14" rx="2"/>`, tones[r.word(p)], x1, y+7, max(x2-x1, 3))
		end = max(end, x2)
		if !r.now && r.Outcome == core.HistorySkipped {
			continue
		}
		d.text(max(end, x1+3)+6, y+19, string(tones[r.word(p)]), phaseSigns[r.word(p)]+" "+q.took(r.StartedAt, r.EndedAt))
	}
}

// jumps reports whether a phase leads elsewhere than to the next one.
func jumps(phases []core.PhaseDef) bool {
	return slices.ContainsFunc(phases, func(f core.PhaseDef) bool { return f.OnFailure != "" || f.Next != "" && f.Next != core.PhaseEnd })
}

// drawWays draws an arrow from each phase to the next, and an arc at the left for each jump.
func drawWays(d *drawing, p core.Pipeline, drawn, top int) {
	middle := func(i int) int { return top + i*rowHeight + boxHeight/2 }
	index := func(name string) int {
		return slices.IndexFunc(p.Definition.Phases, func(f core.PhaseDef) bool { return f.Name == name })
	}
	arc := func(class string, from, to int) {
		if to <= from || to >= drawn {
			return
		}
		x := boxLeft - min(12+8*(to-from), boxLeft-6)
		d.add(`<path class="%s" d="M%d %dC%d %d %d %d %d %d"/>`, class, boxLeft, middle(from), x, middle(from), x, middle(to), boxLeft, middle(to))
		d.add(`<path class="%s" d="M%d %dL%d %dL%d %d"/>`, "edge", boxLeft-6, middle(to)-4, boxLeft, middle(to), boxLeft-6, middle(to)+4)
	}
	for i, phase := range p.Definition.Phases[:drawn] {
		switch to := index(phase.Next); {
		case phase.Next == "" && i+1 < drawn:
			d.line("edge", boxLeft+boxWidth/2, top+i*rowHeight+boxHeight, boxLeft+boxWidth/2, top+(i+1)*rowHeight)
		case phase.Next != "" && phase.Next != core.PhaseEnd:
			arc("edge", i, to)
		}
		if phase.OnFailure != "" {
			arc("edge dashed", i, index(phase.OnFailure))
		}
	}
}

// scale places times.
type scale struct{ from, to time.Time }

// scaleOf spans the time from the start of a pipeline to its end, or to now.
func (q *visit) scaleOf(p core.Pipeline) scale {
	s := scale{p.CreatedAt.Std(), q.now}
	if !p.StartedAt.IsZero() {
		s.from = p.StartedAt.Std()
	}
	if len(p.History) > 0 && p.History[0].StartedAt.Std().Before(s.from) { // before a retry
		s.from = p.History[0].StartedAt.Std()
	}
	if !p.FinishedAt.IsZero() {
		s.to = p.FinishedAt.Std()
	}
	if !s.to.After(s.from) {
		s.to = s.from.Add(time.Millisecond)
	}
	return s
}

func (s scale) x(t time.Time) int {
	part := float64(t.Sub(s.from)) / float64(s.to.Sub(s.from))
	return barsLeft + int(min(max(part, 0), 1)*barsWidth)
}

// draw draws the grid of times.
func (s scale) draw(d *drawing, q *visit, top, height int) {
	const parts = 4
	for i := range parts + 1 {
		x := barsLeft + i*barsWidth/parts
		d.line("grid", x, 20, x, height)
		after := s.to.Sub(s.from) * time.Duration(i) / parts
		switch i {
		case 0:
			d.text(x, 14, "soft", s.from.In(q.zone).Format("15:04:05")+" "+zoneName(s.from.In(q.zone)))
		case parts - 1, 1: // the texts would touch one another
		default:
			d.text(x, 14, "soft", "+"+precisely(after))
		}
	}
	if top > 30 {
		d.text(0, 49, "soft", strconv.Itoa((top-30)/rowHeight)+" before")
	}
}
