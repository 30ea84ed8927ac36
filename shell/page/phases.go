package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// A phaseRun is one time that a pipeline has passed a phase, or passes it.
type phaseRun struct {
	core.PhaseRecord
	now bool // it is the phase that runs
}

// runsOf gives how often a phase was passed, oldest first.
func runsOf(p core.Pipeline, phase string) (out []phaseRun) {
	for _, r := range p.History {
		if r.Name == phase {
			out = append(out, phaseRun{PhaseRecord: r})
		}
	}
	if p.Phase.Type == core.PhaseRunning && p.Phase.Name == phase {
		out = append(out, phaseRun{core.PhaseRecord{Name: phase, StartedAt: p.PhaseStartedAt, Attempts: p.Attempt, Reason: p.Waiting.Error}, true})
	}
	return out
}

// phaseState says how a phase stands in a word.
func phaseState(p core.Pipeline, phase string) string {
	runs := runsOf(p, phase)
	if len(runs) == 0 {
		return "not begun"
	}
	return runs[len(runs)-1].word(p)
}

func (r phaseRun) word(p core.Pipeline) string {
	switch {
	case !r.now:
		return string(r.Outcome)
	case p.Waiting.For == core.WaitRetry:
		return "retrying"
	case slices.Contains([]core.WaitFor{core.WaitApproval, core.WaitSignal, core.WaitManual, core.WaitHold, core.WaitRegain}, p.Waiting.For):
		return "waiting"
	}
	return "running"
}

// phaseTable has a row for each time that a phase was passed, and for each phase that was not.
func (q *visit) phaseTable(p core.Pipeline) *table {
	t := &table{Caption: "Phases", Head: []string{"No.", "Phase", "Kind", "State", "Attempts", "Started", "Took", "Result"}}
	for i, d := range p.Definition.Phases {
		name := codeOf(d.Name).to(q.phaseHref(p, d.Name))
		runs := runsOf(p, d.Name)
		if len(runs) == 0 {
			t.Rows = append(t.Rows, []cell{number(i + 1), name, textOf(d.Kind()), badge("not begun"), {}, {}, {}, {}})
		}
		for k, r := range runs {
			var out cell
			if r.Reason != "" {
				out = cell{Text: clip(r.Reason, 300), Tone: toneBad}
			}
			if raw := outputOf(p, d); k == len(runs)-1 && !r.now && len(raw) > 0 {
				out.More = append(out.More, jsonValue(raw))
			}
			t.Rows = append(t.Rows, []cell{number(i + 1), name, textOf(d.Kind()), r.state(p), number(r.Attempts), q.at(r.StartedAt), q.lasted(r.StartedAt, r.EndedAt), out.wide()})
		}
	}
	return t
}

func (r phaseRun) state(p core.Pipeline) cell {
	c := badge(r.word(p))
	if r.Interrupted {
		c.Hint = "interrupted: nobody knows how far it came"
	}
	return c
}

// phase shows one phase of a pipeline: what it does, each time that it was passed, and what it has started.
func (q *visit) phase() (view, error) {
	p, err := q.loadPipeline()
	if err != nil {
		return view{}, err
	}
	d, ok := phaseOf(p, q.PathValue("phase"))
	if !ok {
		return view{}, &apiError{Status: http.StatusNotFound, Text: "the pipeline has no phase of this name"}
	}
	s := badge(phaseState(p, d.Name))
	v := view{
		Kind: "Phase", Title: d.Name, State: &s,
		Crumbs: []link{{Text: "Pipelines", Href: q.page("/pipelines")}, {Text: clip(p.Definition.Name, 60), Href: q.page(pathOf("pipelines", p.ID.String()))}},
	}
	if answeredFromOutside(p) && p.Phase.Name == d.Name {
		v.Acts = q.actLinks("/pipelines/{id}/phases/{phase}", "complete", "fail")
	}
	if p.Phase.Type == core.PhaseRunning && p.Phase.Name == d.Name {
		v.Body = append(v.Body, q.waitBlocks(p)...)
	}
	t := &table{Caption: "Times that it ran", Head: []string{"State", "Attempts", "Started", "Ended", "Took", "Why"}, Empty: "It has not begun."}
	for _, r := range runsOf(p, d.Name) {
		t.Rows = append(t.Rows, []cell{r.state(p), number(r.Attempts), q.at(r.StartedAt), q.at(r.EndedAt), q.lasted(r.StartedAt, r.EndedAt), textOf(r.Reason).wide()})
	}
	v.Body = append(v.Body, block{Title: "Times that it ran", Table: t})
	if uses := q.usesOf(p, d); len(uses) > 0 {
		v.Body = append(v.Body, block{Facts: uses})
	}
	started, err := q.startedBy(p, d)
	if err != nil {
		return view{}, err
	}
	v.Body = append(v.Body, started...)
	v.Body = append(v.Body, result("Result", outputOf(p, d))...)
	return withBlocks(v, asJSON("Definition", d)), nil
}

// usesOf leads to what a phase names: its queue, lock, semaphore or worker.
func (q *visit) usesOf(p core.Pipeline, d core.PhaseDef) (out []fact) {
	add := func(what, path, name string) {
		if !strings.Contains(name, "${") { // else it is known only while the phase runs
			out = append(out, fact{what, codeOf(name).to(q.scoped(pathOf(path, name), p.Namespace, p.Tenant))})
		}
	}
	switch {
	case d.Push != nil:
		add("Queue", "queues", d.Push.Queue)
	case d.Lock != nil:
		add("Lock", "locks", d.Lock.Name)
	case d.Semaphore != nil:
		add("Semaphore", "semaphores", d.Semaphore.Name)
	case d.Wake != nil:
		add("Worker", "workers", d.Wake.Worker)
	}
	return out
}

// The bounds of what is looked through for the children of a phase, and of the actions whose output is shown.
const (
	childRows    = 500
	childOutputs = 20
)

// startedBy lists the actions, tasks or strategies that a phase has started, with the output of each action. The API lists none
// by its owner: the newest of the tenant are looked through.
func (q *visit) startedBy(p core.Pipeline, d core.PhaseDef) ([]block, error) {
	params := url.Values{"namespace": {p.Namespace}, "tenant": {p.Tenant}, "limit": {strconv.Itoa(childRows)}}
	label := p.Definition.Name + "/" + d.Name
	switch {
	case d.Run != nil:
		var got wire.ActionList
		if !strings.Contains(d.Run.Tool, "${") {
			params.Set("tool", d.Run.Tool)
		}
		if err := q.get("/actions", params, &got); err != nil {
			return nil, err
		}
		found, outputs, err := q.actionsOf(p, label, got)
		what := "actions of the tenant"
		if params.Has("tool") {
			what += " with this tool"
		}
		return append(lookedThrough(found, what, got.NextPageToken), outputs...), err
	case d.Task != nil:
		var got wire.TaskList
		if err := q.get("/tasks", params, &got); err != nil {
			return nil, err
		}
		t := &table{Caption: "Tasks that it has started, newest first", Head: taskHead}
		for _, k := range got.Tasks {
			if k.PipelineID == p.ID && k.Label == label {
				t.Rows = append(t.Rows, q.taskRow(k))
			}
		}
		return lookedThrough(tableBlock("Tasks that it has started", t), "tasks of the tenant", got.NextPageToken), nil
	case d.Strategy != nil:
		var got wire.StrategyList
		if err := q.get("/strategies", params, &got); err != nil {
			return nil, err
		}
		t := &table{Caption: "Strategies that it has started, newest first", Head: strategyHead}
		for _, s := range got.Strategies {
			if s.PipelineID == p.ID && s.Label == label {
				t.Rows = append(t.Rows, q.strategyRow(s))
			}
		}
		return lookedThrough(tableBlock("Strategies that it has started", t), "strategies of the tenant", got.NextPageToken), nil
	}
	return nil, nil
}

// lookedThrough says that what a phase has started was looked for among the newest alone, also if nothing was found.
func lookedThrough(found []block, what, next string) []block {
	if next == "" {
		return found
	}
	note := "Among the newest " + strconv.Itoa(childRows) + " " + what + ": what is older is not shown."
	if len(found) == 0 {
		return []block{{Title: "What it has started", Note: note, Empty: "None of them was started by this phase."}}
	}
	found[0].Note = note
	return found
}

// tableBlock is a table with a title; nothing if it has no rows.
func tableBlock(title string, t *table) []block {
	if len(t.Rows) == 0 {
		return nil
	}
	return []block{{Title: title, Table: t}}
}

// actionsOf lists the actions of a phase, and shows what the newest of them gave.
func (q *visit) actionsOf(p core.Pipeline, label string, got wire.ActionList) (attempts, outputs []block, err error) {
	t := &table{Caption: "Attempts, newest first", Head: []string{"Action", "Status", "Tool", "Due", "Finished", "Tenant", "Id"}}
	for _, w := range got.Actions {
		a := core.Action(w)
		if a.Owner.Ref.ID != p.ID || a.Label != label {
			continue
		}
		t.Rows = append(t.Rows, q.actionRow(a))
		if len(t.Rows) > childOutputs {
			continue
		}
		var whole core.Action
		if err := q.get(pathOf("actions", a.ID.String()), nil, &whole); err != nil && !notFound(err) {
			return nil, nil, err
		}
		outputs = append(outputs, result("Output of action "+shortID(a.ID.String()), whole.Status.Result)...)
	}
	return tableBlock("Attempts", t), outputs, nil
}
