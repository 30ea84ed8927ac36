package runbook

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Names in the context of what a worker or a subscriber starts.
const (
	itemName  = "item"
	eventName = "event"
)

const minPoll = 100 * time.Millisecond // core's

// reading is a worker or a subscriber whose pipeline is not filled in yet.
type reading[T any] struct {
	of    T
	in    *table
	marks map[string]mark
	start start // child empty: it names none
	sound bool
}

// worker reads a [workers.NAME].
func (c *compiler) worker(in named) reading[Worker] {
	c.fresh(in.table, "")
	before := len(c.errs)
	r := reading[Worker]{in: in.table, marks: c.marks, of: Worker{
		Name: in.name, Queue: in.text("queue"), Concurrency: uint32(in.integer("concurrency", 1, core.MaxWorkerConcurrency)), PollMS: in.durationBetween("poll", minPoll, core.MaxTimeout),
	}}
	in.use("queue", "queue")
	if in.get("queue") == nil {
		in.missing("queue", "name the queue whose items it takes")
	}
	in.readOneOf(func(do *table, key string) { do.does(key, &r) }, "pipeline", "run", "strategy", "task")
	for _, match := range in.list("wake_on") {
		r.of.WakeOn = append(r.of.WakeOn, match.match())
		match.done()
	}
	in.done()
	r.sound = len(c.errs) == before
	return r
}

// readOneOf reads what a worker or a subscriber does, which one of some keys says.
func (t *table) readOneOf(read func(do *table, key string), keys ...string) {
	do := *t
	do.core = "do"
	if given := do.present(keys...); len(given) == 1 {
		read(&do, given[0])
	} else {
		last := len(keys) - 1
		t.c.say(t.off, t.field, "give one of %s and %s, not %d of them", strings.Join(keys[:last], ", "), keys[last], len(given))
	}
	t.asked = do.asked
}

// does reads what a worker does for an item.
func (t *table) does(key string, r *reading[Worker]) {
	switch key {
	case "pipeline":
		r.start = start{child: t.text(key), names: []string{itemName}}
		r.start.mark = mark{off: t.get(key).off, field: join(t.field, key)}
		t.c.noteUser(r.start)
	case "run":
		r.of.Do.Run = t.run(key, key)
	case "strategy":
		r.of.Do.Strategy = t.strategyOf(key)
	case "task":
		r.of.Do.Task = t.task(key, key)
	}
}

// finishWorkers puts the pipelines in, and asks core.
func (c *compiler) finishWorkers(list []reading[Worker]) []Worker {
	var out []Worker
	for _, r := range list {
		c.marks = r.marks
		if r.sound {
			asked := r.of
			if r.start.child != "" {
				asked.Do.Pipeline = new(stub("stub"))
			}
			c.machine(core.Worker{}.Apply(core.WorkerConfigure{Spec: asked.Spec("", "")}, core.Clock{Now: effects.MinTime}))
			for i, m := range r.of.WakeOn {
				c.subscribe(core.WorkerWakeSubscriber{Match: m, Worker: core.MachineName{Name: asked.Name}}.Subscription(wakeName("", asked.Name, i+2)))
			}
		}
		if p := c.pipelines[r.start.child]; p != nil && c.expand(p.bytes, r.start.off, r.start.field) {
			r.of.Do.Pipeline = new(p.def)
		}
		out = append(out, r.of)
	}
	return out
}

// subscribe asks the bus whether it would take a subscriber.
func (c *compiler) subscribe(s core.Subscription) {
	c.machine(core.Bus{}.Apply(core.BusSubscribe{Subscriber: s}, core.Clock{Now: effects.MinTime}))
}

// match reads which events are meant.
func (t *table) match() core.EventMatch {
	var m core.EventMatch
	event := t.get("event")
	if event == nil {
		t.missing("event", `say which, such as event = "pipeline:phase", or "queue:*"`)
	} else {
		m.Category, m.Action, _ = strings.Cut(t.text("event"), ":")
		for _, name := range []string{"category", "action"} {
			t.as(name, event, "event")
		}
		if event.kind == kindText && (m.Category == "" || m.Action == "") {
			t.say(event, "event", `%q is not "category:action", such as "pipeline:phase" or "queue:*"`, clip.Text(event.text, maxQuoted))
		}
		t.checkAnnounced(event, m)
	}
	m.Component = t.text("component")
	if n := t.get("source"); n != nil {
		text := t.textAs("source", "source_id")
		id, err := uuid.Parse(text)
		if n.kind == kindText && (err != nil || id == uuid.Nil) {
			t.say(n, "source", "%q is no id of a machine: a UUID such as 0193f2a4-5b6c-7d8e-9f01-23456789abcd", clip.Text(text, maxQuoted))
		}
		m.SourceID = id
	}
	data := t.jsonMap("data")
	for name, v := range data { // order-free: into another map
		if m.Data == nil {
			m.Data = make(map[string]string, len(data))
		}
		m.Data[name] = plainText(v)
	}
	return m
}

// checkAnnounced warns of an event that only a machine could announce, and none does.
func (t *table) checkAnnounced(event *node, m core.EventMatch) {
	if !effects.ReservedCategory(m.Category) {
		return
	}
	var names []string
	for _, kind := range effects.Announced() {
		if m.Matches(effects.Event{Kind: kind}) {
			return
		}
		if kind.Category == m.Category {
			names = append(names, kind.String())
		}
	}
	t.c.warn(event.off, join(t.field, "event"), "no machine announces %q%s", clip.Text(event.text, maxQuoted), didYouMean(event.text, names, true))
}

// plainText is how a member is compared: a text as it is, another value as JSON.
func plainText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil && string(v) != "null" {
		return s
	}
	return string(v)
}

// subscribers reads the [[subscribers]].
func (c *compiler) subscribers(list []*table) []reading[core.Subscription] {
	var out []reading[core.Subscription]
	names := map[string]bool{}
	for _, in := range list {
		r := c.subscriber(in)
		if name := r.of.Name; name != "" && names[name] {
			c.say(r.marks["name"].off, r.marks["name"].field, "there are two subscribers %q", clip.Text(name, maxQuoted))
		}
		names[r.of.Name] = true
		out = append(out, r)
	}
	return out
}

func (c *compiler) subscriber(in *table) reading[core.Subscription] {
	c.fresh(in, "")
	before := len(c.errs)
	r := reading[core.Subscription]{in: in, marks: c.marks}
	r.of.Name = in.text("name")
	if match := in.orText("match", "event", `a table such as { event = "pipeline:failed" }`); match != nil {
		r.of.Match = match.match()
		match.done()
	} else if in.get("match") == nil {
		in.missing("match", `say which events, such as match = { event = "pipeline:failed" }`)
	}
	in.readOneOf(func(do *table, key string) { do.reacts(key, &r) }, "wake", "push", "signal", "start")
	in.done()
	r.sound = len(c.errs) == before
	return r
}

// reacts reads what an event leads to.
func (t *table) reacts(key string, r *reading[core.Subscription]) {
	member := map[string]string{"wake": "worker", "push": "queue", "signal": "name", "start": "pipeline"}[key]
	in := t.orText(key, member, "a table")
	if in == nil {
		return
	}
	in.core = under(t.core, cmp.Or(map[string]string{"wake": "wake_worker", "start": "start_pipeline"}[key], key))
	t.c.marks[in.core] = mark{off: in.off, field: in.field}
	switch do := &r.of.Do; key {
	case "wake":
		do.WakeWorker = &core.MachineName{Name: in.textAs("worker", "name")}
		in.use("worker", "worker")
	case "push":
		do.Push = &core.PushReaction{MachineName: core.MachineName{Name: in.textAs("queue", "name")}, Priority: int32(in.integer("priority", -1<<31, 1<<31-1))}
		in.use("queue", "queue")
	case "signal":
		do.Signal = &core.SignalReaction{Name: in.text("name")}
		id, err := uuid.Parse(in.text("pipeline"))
		if n := in.get("pipeline"); n == nil {
			in.missing("pipeline", "name the run by its id")
		} else if err != nil && n.kind == kindText {
			in.say(n, "pipeline", "%q is no id of a run: a UUID such as 0193f2a4-5b6c-7d8e-9f01-23456789abcd", clip.Text(n.text, maxQuoted))
		}
		do.Signal.Pipeline = id
	case "start":
		def, s := in.startOne()
		do.StartPipeline = &core.PipelineReaction{Context: def.Context}
		s.names, s.always = append(s.names, eventName), false
		r.start = s
		t.c.noteUser(s)
		return
	}
	in.done()
}

// finishSubscribers puts the pipelines in, and asks core.
func (c *compiler) finishSubscribers(list []reading[core.Subscription]) []core.Subscription {
	var out []core.Subscription
	for _, r := range list {
		if p := c.pipelines[r.start.child]; p != nil && r.of.Do.StartPipeline != nil {
			if p.bytes > core.MaxSubscriberBytes {
				c.say(r.start.off, r.start.field, "pipeline %q has %d bytes of JSON, of which a subscriber can have %d: let it push to a queue with a worker", clip.Text(r.start.child, maxQuoted), p.bytes, core.MaxSubscriberBytes)
				r.sound = false
			}
			r.of.Do.StartPipeline.Definition = p.def
		}
		if c.marks = r.marks; r.sound && (r.start.child == "" || c.pipelines[r.start.child] != nil) {
			c.subscribe(r.of)
		}
		out = append(out, r.of)
	}
	return out
}
