package runbook

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/fileerr"
)

// compiler makes values of core of a file.
type compiler struct {
	file     string
	data     []byte
	lines    []int // where each begins
	errs     []Error
	warnings []Error
	marks    map[string]mark // of the definition at hand

	agents     map[string]*reusable[core.AgentPrompt]
	strategies map[string]*reusable[[]core.Approach]
	pipelines  map[string]*pipeline
	names      map[string][]string // by section: agents, strategies, pipelines and so on
	slots      map[string]uint32   // of the semaphores
	uses       []use               // of queues, workers and semaphores by phases
	said       int                 // errors from before core was asked
	expanded   int                 // bytes of what is named in several places
}

// expand counts copies, so that a small file does not become a huge one; false: it has.
func (c *compiler) expand(n, off int, field string) bool {
	was := c.expanded
	if c.expanded += n; c.expanded <= maxExpanded {
		return true
	}
	if was <= maxExpanded {
		c.say(off, field, "with this, agents, strategies and pipelines make more than %d bytes in all the places that name them", maxExpanded)
	}
	return false
}

// use is where a phase names something that the file may declare.
type use struct {
	what, name string
	mark
}

func newCompiler(file string, data []byte) *compiler {
	c := &compiler{
		file: file, data: slices.Clip(data), lines: []int{0}, marks: map[string]mark{}, slots: map[string]uint32{}, names: map[string][]string{},
		agents: map[string]*reusable[core.AgentPrompt]{}, strategies: map[string]*reusable[[]core.Approach]{}, pipelines: map[string]*pipeline{},
	}
	for i, b := range data {
		if b == '\n' {
			c.lines = append(c.lines, i+1)
		}
	}
	return c
}

// runbook reads the file from the top.
func (c *compiler) runbook(root *node) *Runbook {
	t := &table{c: c, n: root}
	book := &Runbook{Name: t.text("name"), Description: t.text("description")}
	t.checkBookName()
	sections := map[string][]named{}
	for _, name := range []string{"queues", "semaphores", "agents", "strategies", "pipelines", "workers"} {
		if in := t.tableAt(t.entry(name), name, "tables: write ["+name+".NAME]"); in != nil {
			sections[name] = in.named()
		}
		for _, in := range sections[name] {
			c.names[name] = append(c.names[name], in.name)
		}
	}
	subscribers := t.list("subscribers")
	t.done()

	book.Queues = each(sections["queues"], c.queue)
	book.Semaphores = each(sections["semaphores"], c.semaphore)
	for _, in := range sections["agents"] {
		c.agents[in.name] = c.agent(in)
	}
	for _, in := range sections["strategies"] {
		c.strategies[in.name] = c.strategy(in)
		book.Strategies = append(book.Strategies, Strategy{in.name, c.strategies[in.name].value})
	}
	for _, in := range sections["pipelines"] {
		c.pipelines[in.name] = c.pipeline(in)
	}
	workers := each(sections["workers"], c.worker)
	subs := c.subscribers(subscribers)
	book.Pipelines = c.link()
	book.Workers = c.finishWorkers(workers)
	book.Subscribers = c.finishSubscribers(subs)
	c.crossCheck()
	warnUnused(c, sections["strategies"], c.strategies)
	warnUnused(c, sections["agents"], c.agents)
	c.members(root, "")
	book.Warnings = sorted(c.warnings)
	return book
}

// each gives what each of a list is read as; nil of an empty one.
func each[T, V any](list []T, read func(T) V) (out []V) {
	for _, in := range list {
		out = append(out, read(in))
	}
	return out
}

func (t *table) checkBookName() {
	n := t.get("name")
	if n == nil || n.kind != kindText {
		return
	}
	if strings.TrimSpace(n.text) == "" || len(n.text) > 100 || strings.ContainsFunc(n.text, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		t.say(n, "name", "%q is not 1 to 100 bytes of plain text", clip.Text(n.text, maxQuoted))
	}
}

// fresh begins a definition: core's errors name the paths that are noted from now on.
func (c *compiler) fresh(in *table, path string) {
	c.marks = map[string]mark{"": {off: in.off, field: in.field}}
	in.core = path
	if path != "" {
		c.marks[path] = mark{off: in.off, field: in.field}
	}
}

// queue reads a [queues.NAME].
func (c *compiler) queue(in named) Queue {
	c.fresh(in.table, "config")
	q := Queue{Name: in.name, Config: core.QueueConfig{
		VisibilityTimeoutMS: in.duration("visibility_timeout"),
		DeadLetterQueue:     in.text("dead_letter_queue"),
		Concurrency:         in.number("concurrency"),
		KeyConcurrency:      in.number("key_concurrency"),
		Rate:                in.rate("rate"),
		KeyRate:             in.rate("key_rate"),
		KeepCompletedMS:     in.durationBetween("keep_completed", 0, maxDelay),
		DedupWindowMS:       in.durationBetween("dedup_window", 0, maxDelay),
	}}
	retry := *in.table
	retry.core = "config.retry"
	q.Config.Retry = retry.retry()
	in.asked = retry.asked
	in.done()
	c.machine(core.Queue{}.Apply(core.QueueCreate{Name: in.name, Config: q.Config}, core.Clock{Now: effects.MinTime}))
	if to := q.Config.DeadLetterQueue; to != "" {
		c.uses = append(c.uses, use{"queue", to, c.marks["config.dead_letter_queue"]})
	}
	return q
}

const maxDelay = core.MaxDelayMS * 1e6 // as a time.Duration

// retry reads how often something is tried.
func (t *table) retry() core.Retry {
	return core.Retry{
		MaxAttempts:   uint32(t.integer("max_attempts", 1, core.MaxAttemptsEver)),
		BackoffMS:     t.durationBetween("backoff", 0, core.MaxBackoffMS*1e6),
		FactorPercent: t.factor("factor"),
		MaxBackoffMS:  t.durationBetween("max_backoff", 0, core.MaxBackoffMS*1e6),
		JitterPercent: uint32(t.integer("jitter_percent", 0, 100)),
		NoRetry:       t.texts("no_retry"),
	}
}

// factor reads a number such as 1.5, and gives it in percent.
func (t *table) factor(key string) uint32 {
	n := t.get(key)
	if n == nil {
		return 0
	}
	t.as(key+"_percent", n, key)
	if n.kind != kindFloat && n.kind != kindInteger {
		t.say(n, key, "got a TOML %s, want a number such as 2 or 1.5", n.kind)
		return 0
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), 64)
	if percent := math.Round(v * 100); err == nil && percent >= 100 && percent <= 10_000 {
		return uint32(percent)
	}
	t.say(n, key, "%s is not between 1 and 100", clip.Text(n.text, maxQuoted))
	return 0
}

var rateText = regexp.MustCompile(`^(\d{1,10})/(.+)$`)

// rate reads "100/1m", or a table with limit, per and burst.
func (t *table) rate(key string) core.QueueRate {
	e := t.entry(key)
	n := e.value
	switch {
	case n == nil:
		return core.QueueRate{}
	case n.kind == kindTable:
		in := t.into(e, key, key)
		defer in.done()
		return core.QueueRate{Limit: uint32(in.integer("limit", 1, math.MaxUint32)), PerMS: in.duration("per"), Burst: in.number("burst")}
	case n.kind != kindText:
		t.say(n, key, `got a TOML %s, want a rate such as "100/1m", or { limit = 100, per = "1m", burst = 10 }`, n.kind)
		return core.QueueRate{}
	}
	t.as(key, n, key)
	m := rateText.FindStringSubmatch(n.text)
	if m == nil {
		t.say(n, key, `%q is not a rate such as "100/1m"`, clip.Text(n.text, maxQuoted))
		return core.QueueRate{}
	}
	per := m[2]
	if per[0] < '0' || per[0] > '9' {
		per = "1" + per
	}
	limit, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil || limit == 0 {
		t.say(n, key, `%q is not a rate such as "100/1m": the number before the slash is not between 1 and %d`, clip.Text(n.text, maxQuoted), uint32(math.MaxUint32))
		return core.QueueRate{}
	}
	return core.QueueRate{Limit: uint32(limit), PerMS: t.parseDuration(n, key, per, time.Millisecond, core.MaxTimeout)}
}

// semaphore reads a [semaphores.NAME].
func (c *compiler) semaphore(in named) Semaphore {
	c.fresh(in.table, "")
	if _, ok := in.n.get("slots"); !ok {
		in.missing("slots", "say how many there are, such as slots = 2")
	}
	s := Semaphore{in.name, uint32(in.integer("slots", 1, math.MaxUint32))}
	in.done()
	if s.Slots > 0 {
		c.machine(core.Semaphore{}.Apply(core.SemaphoreConfigure{Name: s.Name, Slots: s.Slots}, core.Clock{Now: effects.MinTime}))
		c.slots[s.Name] = s.Slots
	}
	return s
}

// machine notes why core refuses the first transition of a machine.
func (c *compiler) machine(_ any, effs []effects.Effect) {
	for _, e := range effs {
		if r, ok := e.(effects.Refused); ok {
			c.check("", errors.New(r.Reason))
		}
	}
}

// check notes each error of core at its place in the file.
func (c *compiler) check(prefix string, err error) {
	if err == nil {
		return
	}
	c.said = len(c.errs)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		c.locate(under(prefix, line))
	}
}

// ofPhase is how core names the phase that an error is about.
var ofPhase = regexp.MustCompile(`^(.*?)phase "(?:[^"\\]|\\.)*" \((phases\[\d+\])\): (.*)$`)

// pathText matches a path of core; "key" follows if a name is wrong and not its value.
var pathText = regexp.MustCompile(`^([a-z_][^ ":]*|\[\d+\])( key)?$`)

// locate finds the place of an error of core. Its texts begin with the path of
// the field; what of that path the file does not have is left in the text.
func (c *compiler) locate(line string) {
	if m := ofPhase.FindStringSubmatch(line); m != nil {
		line = m[1] + m[2] + ": " + m[3]
	}
	at := ""
	for known := true; known; { // one path may follow another: run: policy.on_interrupt:
		var next string
		next, known = c.step(at, line)
		if known {
			at, line = next, line[strings.Index(line, ": ")+2:]
		}
	}
	field, problem, ok := strings.Cut(line, ": ")
	if m := pathText.FindStringSubmatch(field); ok && m != nil {
		field, key := strings.TrimPrefix(under(at, m[1]), "."), m[2]
		for i := len(field); i > len(at); i = strings.LastIndexAny(field[:i], ".[") {
			if _, known := c.marks[field[:i]]; known {
				at, line = field[:i], strings.TrimPrefix(field[i:]+key, ".")+": "+problem
				break
			}
		}
	}
	m := c.marks[at]
	if slices.ContainsFunc(c.errs[:c.said], func(e Error) bool { return fileerr.Within(e.Field, m.field) }) {
		return // what comes of what was said when it was read
	}
	if ref := reference.FindString(line); ref != "" && m.n != nil {
		if n := m.n.find(strings.TrimSuffix(ref, ":")); n != nil {
			m.off = n.off
		}
	}
	c.say(m.off, m.field, "%s", strings.NewReplacer("timeout_ms", "timeout", "for_ms", "for").Replace(line))
}

// reference is how an error about a reference begins.
var reference = regexp.MustCompile(`^\$\{[^}]*\}:`)

// find gives the first string in a value that has a text in it.
func (n *node) find(text string) *node {
	if n.kind == kindText && strings.Contains(n.text, text) {
		return n
	}
	for _, e := range n.keys {
		if found := e.value.find(text); found != nil {
			return found
		}
	}
	for _, item := range n.items {
		if found := item.find(text); found != nil {
			return found
		}
	}
	return nil
}

// step follows the path with which a text begins, if the file has all of it.
func (c *compiler) step(at, line string) (string, bool) {
	field, _, ok := strings.Cut(line, ": ")
	if !ok || !pathText.MatchString(field) {
		return "", false
	}
	for _, f := range []string{field, strings.TrimPrefix(field, "policy."), strings.TrimSuffix(field, " key")} {
		if _, known := c.marks[under(at, f)]; known {
			return under(at, f), true
		}
	}
	return "", false
}

// crossCheck warns of names that this file does not declare: another file may.
func (c *compiler) crossCheck() {
	declared := map[use]bool{}
	for section, names := range c.names { // order-free: into another map
		for _, name := range names {
			declared[use{what: strings.TrimSuffix(section, "s"), name: name}] = true
		}
	}
	for _, u := range c.uses {
		if strings.Contains(u.name, "${") || declared[use{what: u.what, name: u.name}] || len(c.warnings) >= maxNoted {
			continue
		}
		c.warn(u.off, u.field, "this file declares no %s %q%s", u.what, clip.Text(u.name, maxQuoted), didYouMean(u.name, c.names[u.what+"s"], false))
	}
}

// warnUnused warns of strategies or agents that nothing uses.
func warnUnused[V any](c *compiler, section []named, all map[string]*reusable[V]) {
	for _, in := range section {
		if !all[in.name].used {
			c.warn(in.off, in.field, "nothing in this file uses it")
		}
	}
}

// anyID stands for the id of a machine that is only asked whether it would be.
var anyID = uuid.Max
