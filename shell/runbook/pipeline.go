package runbook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// pipeline is a [pipelines.NAME] before its pipelines are put into it.
type pipeline struct {
	def      core.PipelineDef
	in       *table
	marks    map[string]mark
	headless bool    // there are no phases, and it has been said why
	starts   []start // of other pipelines
	users    []start // who starts it, workers and subscribers too

	visiting, linked bool
	bytes, levels    int // of the definition with what it starts
}

// start is where a pipeline is started.
type start struct {
	mark
	child        string
	phase, place int // in the one that starts it
	names        []string
	always       bool // the names are all that there is: nobody can add to them
}

// pipeline reads a [pipelines.NAME].
func (c *compiler) pipeline(in named) *pipeline {
	c.fresh(in.table, "")
	p := &pipeline{in: in.table, marks: c.marks, def: core.PipelineDef{
		Name:         in.name,
		TimeoutMS:    in.duration("timeout"),
		OnFailure:    in.text("on_failure"),
		ContextLimit: int(in.integer("context_limit", 1, core.MaxContextLimit)),
		Result:       in.text("result"),
	}}
	for _, input := range in.list("inputs") {
		p.def.Inputs = append(p.def.Inputs, core.InputDef{Name: input.text("name"), Required: input.boolean("required"), Default: input.json("default")})
		input.done()
	}
	said := len(c.errs)
	phases := in.list("phases")
	if _, ok := in.n.get("phases"); !ok {
		in.missing("phases", "write [["+in.field+".phases]] for each")
	}
	p.headless = len(c.errs) > said && len(phases) == 0
	in.done()
	for i, phase := range phases {
		d := phase.phase(p, i)
		phase.done()
		p.def.Phases = append(p.def.Phases, d)
	}
	return p
}

// actionKeys are the keys of what a phase can do.
var actionKeys = []string{
	"run", "task", "strategy", "push", "wait", "signal", "approval", "pipelines", "lock", "unlock", "semaphore",
	"worktree", "merge", "notify", "checkpoint", "set", "manual", "wake",
}

// phase reads one phase.
func (t *table) phase(p *pipeline, i int) core.PhaseDef {
	d := core.PhaseDef{
		Name: t.text("name"), Next: t.text("next"), TimeoutMS: t.duration("timeout"), OnFailure: t.text("on_failure"),
		Output: t.text("output"), IgnoreFailure: t.boolean("ignore_failure"), When: t.when("when"),
	}
	if in := t.sub("retry"); in != nil {
		d.Retry = in.retry()
		in.done()
	}
	given := t.present(actionKeys...)
	switch len(given) {
	case 1:
	case 0:
		t.done()
		t.c.say(t.off, t.field, "phase %q does nothing: give it one of %s", clip.Text(d.Name, maxQuoted), strings.Join(actionKeys, ", "))
		return d
	default:
		second, _ := t.n.get(given[1])
		t.c.say(second.off, t.field, "phase %q does %s: give it one of them, and the other ones a phase each", clip.Text(d.Name, maxQuoted), strings.Join(given, " and "))
		return d
	}
	t.act(given[0], &d, p, i)
	return d
}

// act reads what a phase does.
func (t *table) act(key string, d *core.PhaseDef, p *pipeline, i int) {
	switch key {
	case "run":
		d.Run = t.run(key, key)
	case "task":
		d.Task = t.task(key, key)
	case "strategy":
		d.Strategy = t.strategyOf(key)
	case "pipelines":
		d.Pipelines = t.startPipelines(key, p, i)
	case "worktree":
		d.Worktree = t.worktree(key)
	case "merge":
		d.Merge = t.merge(key, key)
	case "set":
		d.Set = &core.SetPhase{Values: t.jsonMap(key)}
		for name := range d.Set.Values { // order-free: into another map
			t.c.marks[under(t.core, "set.values."+name)] = t.c.marks[under(t.core, "set."+name)]
		}
		t.c.marks[under(t.core, "set.values")] = t.c.marks[under(t.core, key)]
	default:
		if in := t.orText(key, shortActions[key], cmp.Or(wantedOf[key], "a string or a table")); in != nil {
			in.actShort(key, d)
			in.done()
		}
	}
}

// shortActions are the actions that a text alone can say: the member for which it stands.
var shortActions = map[string]string{
	"signal": "name", "approval": "message", "lock": "name", "unlock": "name", "notify": "title", "checkpoint": "message",
	"manual": "instructions", "wake": "worker", "push": "queue", "wait": "for", "semaphore": "name",
}

// wantedOf says what is wanted of those that are more than a string or a table.
var wantedOf = map[string]string{
	"push":      `a table such as { queue = "merge", data = { branch = "${branch}" } }`,
	"wait":      `a duration such as "5m", or { until = 2027-01-31T09:00:00Z }`,
	"semaphore": `a name, or a table such as { name = "builders", slots = 2 }`,
}

// actShort reads the table of such an action.
func (t *table) actShort(key string, d *core.PhaseDef) {
	switch key {
	case "signal":
		d.Signal = &core.SignalPhase{Name: t.text("name")}
	case "approval":
		d.Approval = &core.ApprovalPhase{Message: t.text("message"), Notify: t.boolean("notify"), Channel: t.text("channel")}
	case "lock":
		d.Lock = &core.LockPhase{Name: t.text("name"), TTLMS: t.duration("ttl")}
	case "unlock":
		d.Unlock = &core.UnlockPhase{Name: t.text("name")}
	case "notify":
		d.Notify = &core.NotifyPhase{Title: t.text("title"), Message: t.text("message"), Sound: t.boolean("sound"), Channel: t.text("channel")}
	case "checkpoint":
		d.Checkpoint = &core.CheckpointPhase{Message: t.text("message")}
	case "manual":
		d.Manual = &core.ManualPhase{Instructions: t.text("instructions")}
	case "wake":
		d.Wake = &core.WakePhase{Worker: t.text("worker")}
		t.use("worker", "worker")
	case "push":
		d.Push = t.push()
	case "wait":
		d.Wait = t.wait()
	case "semaphore":
		d.Semaphore = t.takeSemaphore()
	}
}

// use notes a name that the file may declare.
func (t *table) use(key, what string) {
	if e, ok := t.n.get(key); ok && e.value.kind == kindText && e.value.text != "" {
		t.c.uses = append(t.c.uses, use{what, e.value.text, mark{off: e.value.off, field: join(t.field, key)}})
	}
}

// when reads a condition: a table, or a reference to what must be true.
func (t *table) when(key string) *core.When {
	in := t.orText(key, "ref", `a reference such as "test.ok", or { ref = "test.ok", equals = true }`)
	if in == nil {
		return nil
	}
	w := &core.When{Ref: in.text("ref"), Equals: in.json("equals"), Not: in.boolean("not")}
	if w.Equals == nil {
		w.Equals = json.RawMessage("true")
	}
	if strings.HasPrefix(w.Ref, "${") {
		in.say(in.get("ref"), "ref", "%q: leave the ${ and } out", clip.Text(w.Ref, maxQuoted))
	}
	in.done()
	return w
}

// strategyOf reads the name of a strategy, or its approaches.
func (t *table) strategyOf(key string) *core.StrategyPhase {
	e := t.entry(key)
	switch e.value.kind {
	case kindText:
		t.as(key, e.value, key)
		s := t.c.strategies[e.value.text]
		if s == nil {
			t.say(e.value, key, "there is no [strategies.%s]%s",
				clip.Text(e.value.text, maxQuoted), didYouMean(e.value.text, t.c.names["strategies"], true))
			return nil
		}
		s.used = true
		if !t.c.expand(s.bytes, e.value.off, join(t.field, key)) {
			return nil
		}
		return &core.StrategyPhase{Approaches: s.value}
	case kindArray:
		inner := *t
		inner.core = under(t.core, key)
		return t.checked(key, inner.approaches(key, "approaches"))
	default:
	}
	in := t.orText(key, "approaches", "the name of a strategy, or { approaches = [ … ] }")
	if in == nil {
		return nil
	}
	out := in.approaches("approaches", "approaches")
	in.done()
	return t.checked(key, out)
}

// checked asks core about the approaches of a strategy without a name.
func (t *table) checked(key string, approaches []core.Approach) *core.StrategyPhase {
	t.c.checkStrategy(under(t.core, key), approaches)
	return &core.StrategyPhase{Approaches: approaches}
}

func (t *table) push() *core.PushPhase {
	t.use("queue", "queue")
	return &core.PushPhase{
		Queue: t.text("queue"), Data: t.json("data"), Priority: int32(t.integer("priority", -1<<31, 1<<31-1)), Key: t.text("key"),
		DedupKey: t.text("dedup_key"), DelayMS: t.duration("delay"), Wait: t.boolean("wait"),
	}
}

// wait reads "5m", { for = "5m" } or { until = a date and time, or a reference }.
func (t *table) wait() *core.WaitPhase {
	w := &core.WaitPhase{ForMS: t.duration("for")}
	if n := t.get("until"); n != nil {
		t.as("until", n, "until")
		if n.kind != kindText && n.kind != kindDate {
			t.say(n, "until", "got a TOML %s, want a date and time such as 2027-01-31T09:00:00Z", n.kind)
		}
		w.Until = n.text
		if n.kind == kindDate {
			w.Until = strings.Replace(n.text, " ", "T", 1)
			if _, err := time.Parse(time.RFC3339, w.Until); err != nil {
				t.say(n, "until", "%s has no time or no zone: write it such as 2027-01-31T09:00:00Z", clip.Text(n.text, maxQuoted))
			}
		}
	}
	return w
}

func (t *table) takeSemaphore() *core.SemaphorePhase {
	s := &core.SemaphorePhase{Name: t.text("name"), Slots: t.number("slots"), TTLMS: t.duration("ttl")}
	if total, ok := t.c.slots[s.Name]; ok && s.Slots > total {
		t.say(t.get("slots"), "slots", "%d are more than the %d of [semaphores.%s]: it would wait for ever", s.Slots, total, clip.Text(s.Name, maxQuoted))
	}
	t.use("name", "semaphore")
	return s
}

// worktree reads { add = { … } }, { remove = { … } } or { op = "add", … }.
func (t *table) worktree(key string) *core.WorktreePhase {
	in := t.sub(key)
	if in == nil {
		return nil
	}
	w := &core.WorktreePhase{}
	for _, op := range []core.WorktreeOp{core.WorktreeAdd, core.WorktreeRemove} {
		if inner := in.sub(string(op)); inner != nil {
			if w.Op != "" {
				in.c.say(inner.off, in.field, "give one of add and remove: another phase for the other")
			}
			inner.core = in.core
			inner.worktreeKeys(op, w)
			inner.done()
		}
	}
	if w.Op == "" {
		op := core.WorktreeOp(in.text("op"))
		if in.get("op") == nil {
			in.missing("op", `say { add = { repo = "repo", branch = "…", path = "…" } } or { remove = { … } }`)
		}
		in.worktreeKeys(op, w)
	}
	in.done()
	return w
}

func (t *table) worktreeKeys(op core.WorktreeOp, w *core.WorktreePhase) {
	w.Op, w.Repo, w.Path = op, t.path("repo"), t.path("path")
	if op != core.WorktreeRemove {
		w.Branch, w.Base = t.branch("branch"), t.branch("base")
	}
	if op != core.WorktreeAdd {
		w.Force = t.boolean("force")
	}
}

// startPipelines reads which other pipelines of the file a phase starts, or for
// which it waits. Their definitions come later: they may stand further down.
func (t *table) startPipelines(key string, p *pipeline, i int) *core.PipelinesPhase {
	in := t.sub(key)
	if in == nil {
		return nil
	}
	ph := &core.PipelinesPhase{Wait: in.boolean("wait"), Await: in.texts("await")}
	list := in.get("start")
	if list != nil && in.is(list, "start", kindArray, `an array such as [{ pipeline = "build", context = { branch = "${branch}" } }]`) {
		in.as("start", list, "start")
		for k, item := range list.items {
			at := fmt.Sprintf("start[%d]", k)
			one := &table{c: t.c, n: item, off: item.off, field: join(in.field, at), core: under(in.core, at)}
			if item.kind == kindText { // its name alone
				one.n = &node{kind: kindTable, off: item.off}
				one.n.set("pipeline", item.off, item)
			} else if !in.is(item, at, kindTable, "the name of a pipeline, or a table") {
				continue
			}
			t.c.marks[one.core] = mark{off: item.off, field: one.field}
			child, s := one.startOne()
			s.phase, s.place = i, len(ph.Start)
			p.starts = append(p.starts, s)
			ph.Start = append(ph.Start, child)
		}
	}
	in.done()
	return ph
}

// startOne reads a pipeline to start: { pipeline = "build", context = { … } }.
func (t *table) startOne() (core.PipelineStartDef, start) {
	e, _ := t.n.get("pipeline")
	d := core.PipelineStartDef{Label: t.text("label"), Context: t.jsonMap("context")}
	s := start{mark: mark{off: t.off, field: t.field}, child: t.text("pipeline"), always: true}
	if e.value != nil {
		s.mark = mark{off: e.value.off, field: join(t.field, "pipeline")}
	} else {
		t.missing("pipeline", "name one of this file")
	}
	if context, ok := t.n.get("context"); ok && context.value.kind == kindTable {
		for _, k := range context.value.keys {
			s.names = append(s.names, k.name)
		}
	}
	t.done()
	return d, s
}

// stub stands for a definition while the one that starts it is looked at.
func stub(name string) core.PipelineDef {
	return core.PipelineDef{Name: name, Phases: []core.PhaseDef{{Name: "stub", Checkpoint: &core.CheckpointPhase{Message: "stub"}}}}
}
