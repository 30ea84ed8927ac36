package runbook

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// shape is how a node is drawn.
type shape int

const (
	shapeEntry    shape = iota // of a pipeline
	shapeDone                  // its end
	shapeFailure               // where a failure leads to what cleans up
	shapePhase                 // does something in here
	shapeOuter                 // reaches out of the process: tools, agents, git, people told
	shapeWaiting               // waits for somebody or something
	shapeDecision              // a condition
	shapeApproach              // of a strategy
	shapeQueue
	shapeWorker
	shapeSubscriber
)

// line is how an edge is drawn.
type line int

const (
	lineNext line = iota
	lineFailure
	lineOther // from one thing to another: pushes, takes, starts, wakes
)

// graph is a picture before its language is chosen. A node's name is its index.
type graph struct {
	title  string
	groups []group
	nodes  []vertex
	edges  []edge
}

type group struct {
	title string
	nodes []int
}

type vertex struct {
	shape shape
	lines []string // of its label
}

type edge struct {
	from, to int
	line     line
	label    string
}

// Mermaid draws the runbook as a Mermaid flowchart: its pipelines with their
// phases, what they start and push to, who works on that, and what is tried when
// something fails. A pipeline's name leaves out what that one does not reach;
// empty: all is drawn. The same runbook gives the same text.
func (r *Runbook) Mermaid(pipeline string) (string, error) {
	g, err := r.graph(pipeline)
	if err != nil {
		return "", err
	}
	return g.mermaid(), nil
}

// DOT draws the runbook in the language of Graphviz, as [Runbook.Mermaid] does.
func (r *Runbook) DOT(pipeline string) (string, error) {
	g, err := r.graph(pipeline)
	if err != nil {
		return "", err
	}
	return g.dot(), nil
}

// drawing is a graph under way.
type drawing struct {
	graph
	book     *Runbook
	in       int // the group at hand; -1: none
	defs     map[string]core.PipelineDef
	byQueue  map[string][]Worker
	byName   map[string]Worker
	order    []string       // of the queues that are drawn
	entries  map[string]int // nodes by name, as are the next two
	queues   map[string]int
	workers  map[string]int
	reached  map[string]bool // pipelines that are drawn
	selected bool            // not all is drawn
}

func (r *Runbook) graph(pipeline string) (*graph, error) {
	d := &drawing{
		book: r, in: -1, entries: map[string]int{}, queues: map[string]int{}, workers: map[string]int{},
		reached: map[string]bool{}, selected: pipeline != "", defs: map[string]core.PipelineDef{}, byQueue: map[string][]Worker{}, byName: map[string]Worker{},
	}
	d.title = r.Name
	d.lookups()
	switch _, ok := d.defs[pipeline]; {
	case !d.selected:
		for name := range d.defs { // order-free: into another map
			d.reached[name] = true
		}
	case !ok:
		var names []string
		for _, p := range r.Pipelines {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("runbook %q has no pipeline %q%s", clip.Text(r.Name, maxQuoted), clip.Text(pipeline, maxQuoted), didYouMean(pipeline, names, true))
	default:
		d.reach(pipeline)
	}
	for _, p := range r.Pipelines { // the entries first: others lead to them
		if d.reached[p.Name] {
			d.groups = append(d.groups, group{title: "pipeline " + p.Name})
			d.in = len(d.groups) - 1
			d.entries[p.Name] = d.node(shapeEntry, append([]string{p.Name}, inputs(p)...)...)
		}
	}
	d.in = 0
	for _, p := range r.Pipelines {
		if d.reached[p.Name] {
			d.pipeline(p)
			d.in++
		}
	}
	d.in = -1
	d.rest()
	return &d.graph, nil
}

func (d *drawing) lookups() {
	for _, p := range d.book.Pipelines {
		d.defs[p.Name] = p
	}
	for _, w := range d.book.Workers {
		d.byQueue[w.Queue] = append(d.byQueue[w.Queue], w)
		d.byName[w.Name] = w
	}
}

// reach follows what a pipeline starts, directly and by queues with workers.
func (d *drawing) reach(name string) {
	if d.reached[name] {
		return
	}
	d.reached[name] = true
	for _, phase := range d.defs[name].Phases {
		if phase.Pipelines != nil {
			for _, s := range phase.Pipelines.Start {
				d.reach(s.Definition.Name)
			}
		}
		if phase.Push == nil {
			continue
		}
		for _, w := range d.byQueue[phase.Push.Queue] {
			if w.Do.Pipeline != nil {
				d.reach(w.Do.Pipeline.Name)
			}
		}
	}
}

// node draws a node, in the group at hand unless others may lead to it too.
func (d *drawing) node(s shape, lines ...string) int {
	d.nodes = append(d.nodes, vertex{s, lines})
	n := len(d.nodes) - 1
	if d.in >= 0 && s != shapeQueue && s != shapeWorker {
		d.groups[d.in].nodes = append(d.groups[d.in].nodes, n)
	}
	return n
}

func (d *drawing) edge(from, to int, l line, label string) {
	d.edges = append(d.edges, edge{from, to, l, label})
}

// inputs is the line of a pipeline's inputs; nil: it has none.
func inputs(p core.PipelineDef) []string {
	var names []string
	for _, in := range p.Inputs {
		names = append(names, in.Name)
		if !in.Required {
			names[len(names)-1] += "?"
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{strings.Join(names, ", ")}
}

// pipeline draws the phases. To go to a phase is to go to its condition.
func (d *drawing) pipeline(p core.PipelineDef) {
	var at, door []int
	places := map[string]int{core.PhaseEnd: len(p.Phases)}
	for i, phase := range p.Phases {
		places[phase.Name] = i
		front := len(d.nodes)
		if phase.When != nil {
			d.node(shapeDecision, condition(*phase.When))
			d.edge(front, front+1, lineNext, "yes")
		}
		at, door = append(at, d.node(phaseShape(phase), phaseLabel(phase)...)), append(door, front)
	}
	door = append(door, d.node(shapeDone, "done"))
	d.edge(d.entries[p.Name], door[0], lineNext, "")
	for i, phase := range p.Phases {
		next := i + 1
		if j, ok := places[phase.Next]; ok {
			next = j
		}
		d.edge(at[i], door[next], lineNext, "")
		if phase.When != nil {
			d.edge(door[i], door[next], lineNext, "no")
		}
		if j, ok := places[phase.OnFailure]; ok {
			d.edge(at[i], door[j], lineFailure, "fails")
		}
		d.leads(at[i], phase)
	}
	if j, ok := places[p.OnFailure]; ok {
		d.edge(d.node(shapeFailure, "a phase fails"), door[j], lineFailure, "")
	}
}

// leads draws what a phase reaches beside the one that follows it.
func (d *drawing) leads(n int, phase core.PhaseDef) {
	switch {
	case phase.Strategy != nil:
		d.approaches(n, phase.Strategy.Approaches)
	case phase.Push != nil:
		label := "pushes"
		if phase.Push.Wait {
			label = "pushes, and waits"
		}
		d.edge(n, d.queue(phase.Push.Queue), lineOther, label)
	case phase.Wake != nil:
		d.edge(n, d.worker(phase.Wake.Worker), lineOther, "wakes")
	case phase.Pipelines != nil:
		label := "starts"
		if phase.Pipelines.Wait {
			label = "starts, and waits"
		}
		for _, s := range phase.Pipelines.Start {
			if to, ok := d.entries[s.Definition.Name]; ok {
				d.edge(n, to, lineOther, strings.TrimSuffix(label+": "+s.Label, ": "))
			}
		}
	}
}

// approaches draws the ways that a strategy tries.
func (d *drawing) approaches(n int, approaches []core.Approach) {
	how, label := lineOther, "tries"
	for _, a := range approaches {
		way := d.node(shapeApproach, append([]string{a.Name}, approachDetail(a)...)...)
		d.edge(n, way, how, label)
		n, how, label = way, lineFailure, fallbacks(a)
	}
}

func fallbacks(a core.Approach) string {
	var out []string
	for _, f := range a.FallbackOn {
		switch {
		case f.AnyError:
			out = append(out, "any error")
		case f.TimeoutMS > 0:
			out = append(out, "after "+span(f.TimeoutMS))
		default:
			out = append(out, f.Error)
		}
	}
	if len(out) == 0 {
		return "never"
	}
	return strings.Join(out, " or ")
}

// queue gives the node of a queue, and draws it once.
func (d *drawing) queue(name string) int {
	if _, ok := d.queues[name]; !ok {
		d.queues[name] = d.node(shapeQueue, name)
		d.order = append(d.order, name)
	}
	return d.queues[name]
}

// worker gives the node of a worker, declared or not, and draws it once.
func (d *drawing) worker(name string) int {
	if n, ok := d.workers[name]; ok {
		return n
	}
	lines, w := []string{name}, d.byName[name]
	switch {
	case w.Do.Run != nil:
		lines = append(lines, toolDetail(*w.Do.Run))
	case w.Do.Task != nil:
		lines = append(lines, "task for an agent")
	}
	if w.Concurrency > 1 {
		lines = append(lines, fmt.Sprintf("%d at once", w.Concurrency))
	}
	d.workers[name] = d.node(shapeWorker, lines...)
	return d.workers[name]
}

// rest draws queues, workers and subscribers: all, or those that the selection reaches.
func (d *drawing) rest() {
	if !d.selected {
		for _, q := range d.book.Queues {
			d.queue(q.Name)
		}
	}
	d.deadLetters()
	for _, w := range d.book.Workers {
		_, queue := d.queues[w.Queue]
		_, worker := d.workers[w.Name]
		if d.selected && !queue && !worker {
			continue
		}
		n := d.worker(w.Name)
		d.edge(d.queue(w.Queue), n, lineOther, "takes")
		switch {
		case w.Do.Pipeline != nil:
			if to, ok := d.entries[w.Do.Pipeline.Name]; ok {
				d.edge(n, to, lineOther, "starts for each item")
			}
		case w.Do.Strategy != nil:
			d.approaches(n, w.Do.Strategy.Approaches)
		}
	}
	for _, s := range d.book.Subscribers {
		d.subscriber(s)
	}
}

// deadLetters draws where items go that are given up, from queue to queue.
func (d *drawing) deadLetters() {
	to := make(map[string]string, len(d.book.Queues))
	for _, q := range d.book.Queues {
		to[q.Name] = q.Config.DeadLetterQueue
	}
	for i := 0; i < len(d.order); i++ { // it grows
		if next := to[d.order[i]]; next != "" {
			d.edge(d.queues[d.order[i]], d.queue(next), lineFailure, "dead letters")
		}
	}
}

func (d *drawing) subscriber(s core.Subscription) {
	to, label := -1, ""
	switch do := s.Do; {
	case do.WakeWorker != nil:
		if _, ok := d.workers[do.WakeWorker.Name]; ok || !d.selected {
			to, label = d.worker(do.WakeWorker.Name), "wakes"
		}
	case do.Push != nil:
		if _, ok := d.queues[do.Push.Name]; ok || !d.selected {
			to, label = d.queue(do.Push.Name), "pushes"
		}
	case do.StartPipeline != nil:
		if n, ok := d.entries[do.StartPipeline.Definition.Name]; ok {
			to, label = n, "starts"
		}
	case do.Signal != nil && !d.selected:
		d.node(shapeSubscriber, s.Name, "on "+kindOf(s.Match), "signals "+do.Signal.Name)
	}
	if to >= 0 {
		d.edge(d.node(shapeSubscriber, s.Name, "on "+kindOf(s.Match)), to, lineOther, label)
	}
}

func kindOf(m core.EventMatch) string {
	return cmp.Or(m.Category, "*") + ":" + cmp.Or(m.Action, "*")
}
