package page

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (q *visit) pipelines() (view, error) {
	var got wire.PipelineList
	t, err := q.read(list{
		api: "/pipelines", path: "/pipelines", caption: "Pipelines, newest first",
		filters: append([]field{statusFilter(core.KindPipeline), {Name: "waits_for", Label: "Waits for", Type: fieldChoice, Options: choice("", "approval", "manual", "signal")}}, madeOrFailedFilters...), ordered: true,
		head:  []string{"Pipeline", "Status", "Phase", "Started", "Took", "Tenant", "Id"},
		empty: "There is no pipeline. A pipeline runs the phases of a runbook in order: orreryd pipeline start starts one of a runbook file, and the button above one of a definition.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, p := range got.Pipelines {
		href := q.page(pathOf("pipelines", p.ID.String()))
		s := badge(string(p.Phase.Type))
		s.Hint = clip(cmp.Or(p.Phase.Error, p.Phase.Reason, waitingWords[p.WaitsFor]), 160)
		t.Rows = append(t.Rows, []cell{
			textOf(clip(cmp.Or(p.Label, p.Name), 120)).to(href).wide(), s, codeOf(p.Phase.Name), q.at(p.StartedAt),
			q.lasted(p.StartedAt, p.FinishedAt), whose(p.Namespace, p.Tenant), codeOf(shortID(p.ID.String())).to(href),
		})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Pipelines", Acts: q.actLinks("/pipelines", "new", "retry-all", "cancel-all"), Body: []block{{Table: t}}}, nil
}

// waitingWords say what a running phase waits for.
var waitingWords = map[core.WaitFor]string{
	core.WaitChild: "waits for what it has started", core.WaitEffect: "waits until its work outside, such as a merge or a notification, is done", core.WaitTime: "waits for its time",
	core.WaitSignal: "waits for a signal", core.WaitApproval: "waits for an approval", core.WaitManual: "waits for somebody to complete it",
	core.WaitHold: "waits for a lock or a semaphore", core.WaitRegain: "waits for the locks that it had before it failed",
	core.WaitRetry: "waits for its next attempt", core.WaitTransition: "goes on at once",
}

// loadPipeline reads the pipeline of the address.
func (q *visit) loadPipeline() (p core.Pipeline, err error) {
	return p, q.get(pathOf("pipelines", q.PathValue("id")), nil, &p)
}

func (q *visit) pipeline() (view, error) {
	p, err := q.loadPipeline()
	if err != nil {
		return view{}, err
	}
	s := badge(string(p.Phase.Type))
	v := view{
		Kind: "Pipeline", Title: clip(cmp.Or(p.Label, p.Definition.Name), 200), State: &s,
		Crumbs: []link{{Text: "Pipelines", Href: q.page("/pipelines")}}, Acts: q.pipelineLinks(p),
		More: []link{{Text: "Output", Href: q.page(pathOf("pipelines", p.ID.String(), "logs"))}, q.changesLink(core.KindPipeline, p.ID.String())},
	}
	v.Body = append(v.Body, q.waitBlocks(p)...)
	v.Body = append(v.Body, block{Facts: q.pipelineFacts(p)})
	drawn := block{Title: "Phases", ID: "phases", SVG: q.drawPipeline(p), Note: "In their order, from the top. The bars show when each ran; the table below says the same."}
	if len(p.Definition.Phases) > maxDrawn {
		drawn.Note = "The first " + strconv.Itoa(maxDrawn) + " of " + strconv.Itoa(len(p.Definition.Phases)) + " phases. The table below has all of them."
	}
	v.Body = append(v.Body, drawn, block{Title: "Attempts and results", Table: q.phaseTable(p)})
	if len(p.Holds) > 0 {
		v.Body = append(v.Body, block{Title: "Locks and semaphores", Table: q.holdTable(p)})
	}
	if len(p.Checkpoints) > 0 {
		t := &table{Caption: "Checkpoints, newest first", Head: []string{"At", "Phase", "Message"}}
		for _, c := range slices.Backward(p.Checkpoints) {
			t.Rows = append(t.Rows, []cell{q.at(c.Timestamp), codeOf(c.Phase), textOf(c.Message).wide()})
		}
		v.Body = append(v.Body, block{Title: "Checkpoints", Table: t})
	}
	if len(p.Worktrees) > 0 {
		t := &table{Caption: "Worktrees, and the instances on whose computers they stand", Head: []string{"Path", "Repository", "Home"}}
		for _, w := range p.Worktrees {
			t.Rows = append(t.Rows, []cell{codeOf(w.Path).wide(), codeOf(w.Repo), codeOf(w.Home)})
		}
		v.Body = append(v.Body, block{Title: "Worktrees", Table: t})
	}
	if len(p.Signals) > 0 {
		t := &table{Caption: "Signals that came before their phase", Head: []string{"Signal", "Came", "Data"}}
		for _, g := range p.Signals {
			t.Rows = append(t.Rows, []cell{codeOf(g.Name), q.at(g.At), jsonValue(g.Payload).wide()})
		}
		v.Body = append(v.Body, block{Title: "Signals that came before their phase", Table: t})
	}
	context := block{Title: "Context", ID: "context", Note: "The values that the phases hand on to one another.", Empty: "It has no values."}
	if len(p.Context) > 0 {
		context.Empty, context.Text = "", asJSON("", p.Context).Text
	}
	return withBlocks(v, context, asJSON("Definition", p.Definition)), nil
}

func withBlocks(v view, more ...block) view {
	v.Body = append(v.Body, more...)
	return v
}

// pipelineLinks are the acts that the pipeline's state takes, the likeliest first.
func (q *visit) pipelineLinks(p core.Pipeline) (out []link) {
	const on = "/pipelines/{id}"
	switch p.Phase.Type {
	case core.PhaseInit:
		out = q.actLinks(on, "start")
	case core.PhaseBlocked:
		out = q.actLinks(on, "unblock")
	case core.PhaseRunning:
		switch p.Waiting.For { //nolint:exhaustive // for what is not here nobody is asked
		case core.WaitApproval:
			out = q.actLinks(on, "approve", "reject")
		case core.WaitManual:
			q.SetPathValue("phase", p.Phase.Name)
			out = q.actLinks(on+"/phases/{phase}", "complete", "fail")
		}
	case core.PhaseFailure:
		return q.actLinks(on, "retry")
	case core.PhaseDone, core.PhaseCancelled:
		return nil
	}
	return append(out, q.actLinks(on, "signal", "checkpoint", "cancel")...)
}

// answeredFromOutside reports whether the phase that runs ends by an answer of the API. Of an approval and a signal the page of
// the pipeline offers their own acts; that of the phase offers the general ones.
func answeredFromOutside(p core.Pipeline) bool {
	return p.Phase.Type == core.PhaseRunning && slices.Contains([]core.WaitFor{core.WaitManual, core.WaitSignal, core.WaitApproval}, p.Waiting.For)
}

// waitBlocks say first what keeps a pipeline from going on, or why it ended.
func (q *visit) waitBlocks(p core.Pipeline) (out []block) {
	switch p.Phase.Type {
	case core.PhaseInit:
		return whyNotice("It is held: somebody has to start it.", toneWait)
	case core.PhaseBlocked:
		out = whyNotice(cmp.Or(p.Phase.Reason, "It waits for other pipelines."), toneWait)
		if len(p.Unmet) > 0 {
			out = append(out, block{Title: "Pipelines that must be done first", Table: q.awaitedTable("Pipelines that must be done first", p.Unmet, "")})
		}
		return out
	case core.PhaseFailure:
		why := "Phase " + p.Phase.Name + " failed: " + p.Phase.Error
		if !p.Phase.Recoverable {
			why += "\nA retry cannot help, as this failure is final."
		}
		return whyNotice(why, toneBad)
	case core.PhaseCancelled:
		return whyNotice(cmp.Or(p.Phase.Reason, "It was cancelled."), toneOff)
	case core.PhaseDone:
		return nil
	case core.PhaseRunning:
	}
	out = whyNotice(q.waitText(p), toneWait)
	if p.Failing != nil {
		out = append(out, whyNotice("It cleans up, and then fails: phase "+p.Failing.Phase+": "+p.Failing.Error, toneBad)...)
	}
	if len(p.Waiting.Children) > 0 {
		queue := ""
		if d, ok := phaseOf(p, p.Phase.Name); ok && d.Push != nil {
			queue = d.Push.Queue
		}
		out = append(out, block{Title: "What it waits for", Table: q.awaitedTable("What it waits for", p.Waiting.Children, q.scoped(pathOf("queues", queue), p.Namespace, p.Tenant))})
	}
	return out
}

func (q *visit) waitText(p core.Pipeline) string {
	lines := []string{"Phase " + p.Phase.Name + " " + cmp.Or(waitingWords[p.Waiting.For], "runs") + "."}
	d, _ := phaseOf(p, p.Phase.Name)
	switch {
	case p.Waiting.For == core.WaitSignal:
		lines[0] = "Phase " + p.Phase.Name + " waits for the signal " + strconv.Quote(p.Waiting.Name) + "."
	case p.Waiting.Name != "":
		lines = append(lines, p.Waiting.Name)
	case d.Manual != nil && d.Manual.Instructions != "":
		lines = append(lines, d.Manual.Instructions)
	}
	if !p.Waiting.Until.IsZero() {
		lines = append(lines, "It goes on "+ago(p.Waiting.Until.Std().Sub(q.now))+", at "+q.moment(p.Waiting.Until).Text+".")
	}
	if !p.Waiting.Deadline.IsZero() {
		lines = append(lines, "The attempt is given up "+ago(p.Waiting.Deadline.Std().Sub(q.now))+", at "+q.moment(p.Waiting.Deadline).Text+".")
	}
	if p.Waiting.Error != "" {
		lines = append(lines, "The last attempt failed: "+p.Waiting.Error)
	}
	return strings.Join(lines, "\n")
}

// awaitedTable lists machines whose end is waited for. An item of a queue leads to the queue.
func (q *visit) awaitedTable(caption string, all []core.Awaited, queue string) *table {
	t := &table{Caption: caption, Head: []string{"What", "State", "Result"}}
	for _, a := range all {
		s := badge("waiting")
		if a.Ended {
			s = badge("ended")
		}
		c := q.machine(a.Ref)
		if a.Item != uuid.Nil {
			c = codeOf("item " + shortID(a.Item.String())).to(itemHref(queue, a.Item.String()))
		}
		t.Rows = append(t.Rows, []cell{c, s, jsonValue(a.Result).wide()})
	}
	return t
}

// itemHref puts an item behind the path of its queue's address.
func itemHref(queue, id string) string {
	path, params, _ := strings.Cut(queue, "?")
	if params != "" {
		params = "?" + params
	}
	return path + pathOf("items", id) + params
}

func (q *visit) pipelineFacts(p core.Pipeline) []fact {
	var depends cell
	for _, id := range p.DependsOn {
		depends.More = append(depends.More, q.machine(core.Pipeline{PipelineSpec: core.PipelineSpec{ID: id}}.Ref()))
	}
	var owner cell
	if !p.Owner.IsZero() {
		owner = q.machine(p.Owner.Ref)
	}
	current := codeOf(p.Phase.Name)
	if p.Phase.Name != "" {
		current = current.to(q.phaseHref(p, p.Phase.Name))
	}
	attempt := ""
	if p.Attempt > 1 {
		attempt = strconv.FormatUint(uint64(p.Attempt), 10)
	}
	return facts(
		fact{"Definition", codeOf(p.Definition.Name)}, fact{"Runbook", codeOf(p.Runbook)}, fact{"At phase", current}, fact{"Since", q.at(p.PhaseStartedAt)},
		fact{"Attempt", textOf(attempt)}, fact{"Started", q.at(p.StartedAt)}, fact{"Finished", q.at(p.FinishedAt)}, fact{"Took", q.lasted(p.StartedAt, p.FinishedAt)},
		fact{"Must end by", q.at(p.EndsBy)}, fact{"Depends on", depends}, fact{"Made by", owner}, fact{"Whose", whose(p.Namespace, p.Tenant)},
		fact{"Created", q.at(p.CreatedAt)}, fact{"Changed", q.at(p.UpdatedAt)}, fact{"Id", codeOf(p.ID.String())},
	)
}

func (q *visit) holdTable(p core.Pipeline) *table {
	t := &table{Caption: "Locks and semaphores", Head: []string{"Name", "State", "Slots", "Fencing token", "Lease ends"}}
	for _, h := range p.Holds {
		path, slots := "locks", ""
		if h.Semaphore {
			path, slots = "semaphores", strconv.FormatUint(uint64(max(h.Slots, 1)), 10)
		}
		s, token := badge("waiting"), ""
		if h.Granted {
			s, token = state("held", toneGood), strconv.FormatUint(h.Token, 10)
		}
		t.Rows = append(t.Rows, []cell{
			codeOf(h.Name).to(q.scoped(pathOf(path, h.Name), p.Namespace, p.Tenant)).wide(), s, textOf(slots), codeOf(token), q.at(h.Until),
		})
	}
	return t
}

func phaseOf(p core.Pipeline, name string) (core.PhaseDef, bool) {
	i := slices.IndexFunc(p.Definition.Phases, func(d core.PhaseDef) bool { return d.Name == name })
	if i < 0 {
		return core.PhaseDef{}, false
	}
	return p.Definition.Phases[i], true
}

func (q *visit) phaseHref(p core.Pipeline, phase string) string {
	return q.page(pathOf("pipelines", p.ID.String(), "phases", phase))
}

// outputOf gives what a phase has put into the context.
func outputOf(p core.Pipeline, d core.PhaseDef) json.RawMessage {
	return p.Context[cmp.Or(d.Output, d.Name)]
}
