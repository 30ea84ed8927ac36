package runbook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// reusable is an [agents.NAME] or a [strategies.NAME]: pipelines and workers name it.
type reusable[V any] struct {
	value V
	bytes int // of its JSON
	used  bool
}

// toolCommand is the tool that runs programs, see shell/command.
const toolCommand = "command"

// commandInput is its input.
type commandInput struct {
	Argv      []string          `json:"argv"`
	Dir       string            `json:"dir,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Inherit   *bool             `json:"inherit_env,omitempty"`
	Stdin     string            `json:"stdin,omitempty"`
	ExitCodes []int64           `json:"success_codes,omitempty"`
	MaxOutput int64             `json:"max_output_bytes,omitempty"`
}

// run reads what a tool does: ["program", "argument"], or a table (see toolRun).
func (t *table) run(key, name string) *core.ToolRun {
	e := t.entry(key)
	switch {
	case e.value == nil:
		return nil
	case e.value.kind == kindArray:
		t.as(name, e.value, key)
		t.as(name+".input", e.value, key)
		argv := t.textsOf(e.value, key)
		t.notEmpty(e.value, key)
		return &core.ToolRun{Tool: toolCommand, Input: encode(commandInput{Argv: argv})}
	case e.value.kind == kindText:
		t.say(e.value, key, `got a TOML string, want an array such as ["make", "test"]: or { shell = "make test | tee log" } for a shell`)
		return nil
	case e.value.kind != kindTable:
		t.say(e.value, key, `got a TOML %s, want an array such as ["make", "test"], or a table with command, shell or tool`, e.value.kind)
		return nil
	}
	in := t.into(e, key, name)
	r := in.toolRun()
	in.done()
	if r == nil {
		in.c.say(in.off, in.field, `say what to run: command = ["make", "test"], shell = "make test", or tool = "http" and input = { … }`)
	}
	return r
}

// notEmpty says that a command has no words.
func (t *table) notEmpty(n *node, key string) {
	if n.kind == kindArray && len(n.items) == 0 {
		t.say(n, key, `must not be empty: name a program and its arguments, such as ["make", "test"]`)
	}
}

// toolRun reads the keys of a run of a tool; nil: the table has none of them.
func (t *table) toolRun() *core.ToolRun {
	given := t.present("command", "shell", "tool")
	switch len(given) {
	case 0:
		return nil
	case 1:
	default:
		t.c.say(t.off, t.field, "give one of command, shell and tool, not %d of them", len(given))
	}
	r := &core.ToolRun{OnInterrupt: core.OnInterrupt(t.text("on_interrupt")), TimeoutMS: t.duration("timeout")}
	if slices.Contains(given, "tool") {
		r.Tool, r.Input = t.text("tool"), t.json("input")
		if r.Input == nil {
			r.Input = json.RawMessage("{}")
		}
		return r
	}
	in := commandInput{
		Dir: t.text("dir"), Env: t.textMap("env"), Stdin: t.text("stdin"), ExitCodes: t.integers("success_codes"),
		MaxOutput: t.integer("max_output_bytes", 0, 1<<20),
	}
	if t.get("inherit_env") != nil {
		in.Inherit = new(t.boolean("inherit_env"))
	}
	key := "command"
	if slices.Contains(given, "shell") {
		key = "shell"
		// What a shell calls ${HOME} is its own. A value of the context comes to a
		// script by its environment, where nothing in it is read as a command.
		in.Argv = []string{"sh", "-c", strings.ReplaceAll(t.text("shell"), "${", "$${")}
	} else {
		in.Argv = t.texts(key)
		t.notEmpty(t.get(key), key)
	}
	if m, ok := t.c.marks[under(t.core, key)]; ok {
		m.n = t.n // a reference may stand in any of its keys
		t.c.marks[under(t.core, "input")] = m
	}
	r.Tool, r.Input = toolCommand, encode(in)
	return r
}

// integers reads an array of whole numbers.
func (t *table) integers(key string) []int64 {
	n := t.get(key)
	if !t.is(n, key, kindArray, "an array of whole numbers") {
		return nil
	}
	var out []int64
	for i, item := range n.items {
		out = append(out, t.integerOf(item, fmt.Sprintf("%s[%d]", key, i), 0, 255))
	}
	return out
}

// encode gives the JSON of a value that has one; "<" and "&" stay readable.
func encode(v any) json.RawMessage {
	b, _ := plainjson.Marshal(v) // strings and numbers always encode
	return b
}

// agent reads an [agents.NAME].
func (c *compiler) agent(in named) *reusable[core.AgentPrompt] {
	c.fresh(in.table, "agent")
	var p core.AgentPrompt
	in.promptInto(&p)
	in.done()
	c.checkTask("agent", p)
	return &reusable[core.AgentPrompt]{value: p, bytes: len(encode(p))}
}

// task reads a task for an agent: a table that may name an [agents.NAME] and override it.
func (t *table) task(key, name string) *core.AgentPrompt {
	in := t.orText(key, "agent", `a table such as { agent = "claude", prompt = "…" }`)
	if in == nil {
		return nil
	}
	in.core, in.typed = under(t.core, name), t.typed
	t.c.marks[in.core] = mark{off: in.off, field: in.field}
	p := in.agentTask()
	in.done()
	return p
}

// agentTask reads the keys of a task.
func (t *table) agentTask() *core.AgentPrompt {
	var p core.AgentPrompt
	if n := t.get("agent"); t.is(n, "agent", kindText, "the name of an agent") {
		a := t.c.agents[n.text]
		if a == nil {
			t.say(n, "agent", "there is no [agents.%s]%s", clip.Text(n.text, maxQuoted), didYouMean(n.text, t.c.names["agents"], true))
		} else if t.c.expand(a.bytes, n.off, join(t.field, "agent")) {
			a.used = true
			p = a.value
			p.Env = maps.Clone(p.Env)
		}
	}
	t.promptInto(&p)
	t.withPrompt(&p)
	t.c.checkTask(t.core, p)
	return &p
}

// promptInto reads what is given, and leaves the rest as it is.
func (t *table) promptInto(p *core.AgentPrompt) {
	set(t, "prompt", &p.Prompt, t.text)
	set(t, "command", &p.Command, t.texts)
	set(t, "workspace", &p.Workspace, t.text)
	if env := t.textMap("env"); env != nil {
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		maps.Copy(p.Env, env)
	}
	outer := t.core
	t.core = under(outer, "config")
	defer func() { t.core = outer }()
	c := &p.Config
	set(t, "heartbeat_timeout", &c.HeartbeatTimeoutMS, t.duration)
	set(t, "idle_timeout", &c.IdleTimeoutMS, t.duration)
	set(t, "recovery_interval", &c.RecoveryIntervalMS, t.duration)
	set(t, "checkpoint_interval", &c.CheckpointIntervalMS, t.duration)
	set(t, "timeout", &c.TimeoutMS, t.duration)
	set(t, "nudge", &c.Nudge, t.text)
	if t.get("max_recovery_attempts") != nil {
		if c.MaxRecoveryAttempts = uint32(t.integer("max_recovery_attempts", 0, core.MaxRecoveries)); c.MaxRecoveryAttempts == 0 {
			c.MaxRecoveryAttempts = core.NoRecovery // in core, 0 is what nobody said
		}
	}
}

// set reads a key that is there.
func set[V any](t *table, key string, to *V, read func(string) V) {
	if t.get(key) != nil {
		*to = read(key)
	}
}

// promptRef in a command (claude -p "${prompt}") is filled in, and the prompt not typed.
const promptRef = "${prompt}"

func (t *table) withPrompt(p *core.AgentPrompt) {
	var out []string
	count := 0
	for _, arg := range p.Command {
		n := strings.Count(arg, promptRef)
		if strings.Contains(arg, "$"+promptRef) {
			n = 0
		}
		if count += n; n > 0 && count*len(p.Prompt) <= core.MaxPromptBytes {
			arg = strings.ReplaceAll(arg, promptRef, p.Prompt)
		}
		out = append(out, arg)
	}
	switch {
	case count == 0:
		return
	case t.typed:
		t.c.say(t.off, t.field, "its command has %s: an agent that merges is told by typing what to do", promptRef)
	case count*len(p.Prompt) > core.MaxPromptBytes:
		t.c.say(t.off, t.field, "with the prompt its command has more than %d bytes", core.MaxPromptBytes)
	}
	p.Command, p.Prompt = out, ""
}

// checkTask asks core whether a task could begin so.
func (c *compiler) checkTask(prefix string, p core.AgentPrompt) {
	spec := core.TaskSpec{ID: anyID, Workspace: p.Workspace, Command: p.Command, Env: p.Env, Prompt: p.Prompt, Config: p.Config}
	c.check(prefix, spec.Validate())
}

// merge reads a merge of a branch.
func (t *table) merge(key, name string) *core.MergeRun {
	e := t.entry(key)
	if !t.is(e.value, key, kindTable, `a table such as { repo = "repo", branch = "${branch}", into = "main", strategy = "rebase" }`) {
		return nil
	}
	in := t.into(e, key, name)
	m := &core.MergeRun{Repo: in.path("repo"), Branch: in.branch("branch"), Into: in.branch("into"), Strategy: effects.MergeStrategy(in.text("strategy"))}
	if in.get("agent") != nil {
		in.typed = true
		m.Agent = in.task("agent", "agent")
	}
	in.done()
	return m
}

// strategy reads a [strategies.NAME].
func (c *compiler) strategy(in named) *reusable[[]core.Approach] {
	c.fresh(in.table, "")
	before := len(c.errs)
	approaches := in.approaches("approaches", "approaches")
	in.done()
	switch _, ok := in.n.get("approaches"); {
	case !ok:
		in.missing("approaches", "write [["+in.field+".approaches]] for each way to try")
	case len(c.errs) == before:
		c.checkStrategy("", approaches)
	}
	return &reusable[[]core.Approach]{value: approaches, bytes: len(encode(approaches))}
}

func (c *compiler) checkStrategy(prefix string, approaches []core.Approach) {
	c.check(prefix, core.StrategySpec{ID: anyID, Approaches: approaches}.Validate())
}

// approaches reads the ways that a strategy tries.
func (t *table) approaches(key, name string) []core.Approach {
	return each(t.listAs(key, name), (*table).approach)
}

// ways are the keys of what an approach can do.
var ways = []string{"run", "command", "shell", "tool", "merge", "agent"}

// approach reads one way: a run of a tool, a merge or an agent.
func (t *table) approach() core.Approach {
	a := core.Approach{Name: t.text("name")}
	given := t.present(ways...)
	if len(given) != 1 {
		t.c.say(t.off, t.field, "give one of %s, not %d of them", strings.Join(ways, ", "), len(given))
		return a
	}
	t.action(given[0], &a)
	if t.get("timeout") != nil { // an approach that runs out of time may fall back
		a.TimeoutMS = t.duration("timeout")
	}
	for _, in := range t.list("fallback_on") {
		f := core.FallbackCondition{Error: in.text("error"), AnyError: in.boolean("any_error"), TimeoutMS: in.duration("timeout")}
		in.done()
		a.FallbackOn = append(a.FallbackOn, f)
	}
	t.done()
	return a
}

// action reads what an approach does, which may stand among the approach's own keys.
func (t *table) action(way string, a *core.Approach) {
	in := *t
	in.core = under(t.core, "action")
	switch way {
	case "merge":
		a.Action.Merge = in.merge(way, way)
	case "agent":
		if t.get(way).kind != kindText {
			a.Action.AgentPrompt = in.task(way, "agent_prompt")
			break
		}
		in.core = under(in.core, "agent_prompt")
		a.Action.AgentPrompt = in.agentTask()
		a.Action.AgentPrompt.Config.TimeoutMS = 0 // the approach has it
	case "run":
		a.Action.Command = in.run(way, "command")
	default:
		in.core = under(in.core, "command")
		a.Action.Command = in.toolRun()
		a.Action.Command.TimeoutMS = 0
	}
	t.asked = in.asked
}
