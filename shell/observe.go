package shell

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/engine"
)

// observer is what is announced, logged and counted of one machine. Each member may
// be empty.
type observer struct {
	kind     effects.Kind
	category string // of what the machine announces

	lines  map[string]line                                // in the log, by the action of what it announces
	attrs  func(core.State) []slog.Attr                   // say in such a line which machine it is
	event  func(e *Engine, c *commit, ev effects.Event)   // hears what it announces
	change func(e *Engine, c *commit, change core.Change) // hears how it changed
	count  func(s *counts, before, after core.State)      // counts the same
	tally  func(s *counts, ev effects.Event)              // counts what it announces
}

// observers is the table of machines that are observed.
var observers = [...]observer{
	actionObserver, recurringObserver,
	pipelineObserver, taskObserver, strategyObserver, queueObserver, lockObserver, semaphoreObserver, systemObserver,
	jobObserver, runObserver, schedulerObserver,
}

// observersBy gives the observers by what names them.
func observersBy[K comparable](key func(o observer) K) map[K]observer {
	var none K
	out := make(map[K]observer)
	for _, o := range observers {
		if k := key(o); k != none {
			out[k] = o
		}
	}
	return out
}

var (
	observersByKind     = observersBy(func(o observer) effects.Kind { return o.kind })
	observersByCategory = observersBy(func(o observer) string { return o.category })
)

// line is a line of the log.
type line struct {
	name  string
	level slog.Level
}

// commit is a batch that is durable, while it is being observed.
type commit struct {
	engine.Committed
	runs map[uuid.UUID]runMoment // where runs are at one of the batch's events
}

// stateAt gives a machine as the batch leaves it, or, if the batch deletes it, as it
// was before.
func (c *commit) stateAt(kind effects.Kind, id uuid.UUID) core.State {
	ref := effects.Ref{Kind: kind, ID: id}
	for _, ch := range c.Changes {
		if ch.Ref == ref && ch.After == nil {
			return ch.Before
		}
	}
	s, err := c.State(ref)
	if err != nil {
		return nil
	}
	return s
}

// observe counts and logs what a batch has made true.
func (e *Engine) observe(committed engine.Committed) {
	c := &commit{Committed: committed}
	e.counts.count(c)
	for _, ev := range c.Events {
		o := observersByCategory[ev.Kind.Category]
		if o.event != nil {
			o.event(e, c, ev)
		}
		if l, ok := o.lines[ev.Kind.Action]; ok {
			e.logLine(c, ev, l)
		}
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.change != nil {
			o.change(e, c, ch)
		}
	}
}

// logLine writes the line of an event.
func (e *Engine) logLine(c *commit, ev effects.Event, l line) {
	ctx := context.Background()
	if !e.log.Enabled(ctx, l.level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	if ev.Source.ID != uuid.Nil {
		attrs = append(attrs, slog.String(ev.Source.Component+"_id", ev.Source.ID.String()))
	}
	ref := effects.Ref{Kind: effects.Kind(ev.Source.Component), ID: ev.Source.ID}
	if s, err := c.State(ref); err == nil && s != nil {
		if of := observersByKind[ref.Kind].attrs; of != nil {
			attrs = append(attrs, of(s)...)
		}
	}
	e.log.LogAttrs(ctx, l.level, l.name, append(attrs, dataAttrs(ev.Data, attrs)...)...) //nolint:sloglint // the names are those of the observers
}

// scopeAttrs say whose a machine is, and what it is called.
func scopeAttrs(namespace, tenant, key, name string) []slog.Attr {
	return []slog.Attr{slog.String("namespace", namespace), slog.String("tenant", tenant), slog.String(key, name)}
}

// pipelineAttrs say of a machine that a pipeline may have made whose it is.
func pipelineAttrs(namespace, tenant, label string, pipeline uuid.UUID) []slog.Attr {
	attrs := scopeAttrs(namespace, tenant, "label", label)
	if pipeline != uuid.Nil {
		attrs = append(attrs, slog.String("pipeline_id", pipeline.String()))
	}
	return attrs
}

// maxLogData bounds the data of an event that its line in the log shows, and
// each text of it.
const (
	maxLogData = 8 << 10
	maxLogText = 512
)

// dataAttrs gives the members of an event's data that the line has not got, texts
// as they are and all else as JSON, each cut to what a line bears.
func dataAttrs(data json.RawMessage, has []slog.Attr) []slog.Attr {
	var members map[string]json.RawMessage
	if len(data) > maxLogData || json.Unmarshal(data, &members) != nil {
		return nil
	}
	attrs := make([]slog.Attr, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.ContainsFunc(has, func(a slog.Attr) bool { return a.Key == name }) {
			continue
		}
		var text string
		if json.Unmarshal(members[name], &text) != nil {
			text = string(members[name])
		}
		attrs = append(attrs, slog.String(name, texts.Clip(text, maxLogText)))
	}
	return attrs
}
