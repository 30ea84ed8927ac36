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
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/internal/clip"
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

// line is a line of the log.
type line struct {
	name  string
	level slog.Level
}

// runMoment is where a run is at one of the events of a batch.
type runMoment struct {
	state   core.OrchestratorStatus
	attempt uint32
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

// counting counts the changes of machines that still exist: S is their state.
func counting[S core.State](count func(s *counts, was, is S)) func(s *counts, before, after core.State) {
	return func(s *counts, before, after core.State) {
		was, _ := before.(S)
		if is, ok := after.(S); ok {
			count(s, was, is)
		}
	}
}

// logEvent writes a line about an event: the attributes that say which machine it is of,
// and the event's data.
func (e *Engine) logEvent(l line, ev effects.Event, attrs func() []slog.Attr) {
	ctx := context.Background()
	if !e.log.Enabled(ctx, l.level) {
		return // the usual case: build nothing
	}
	has := attrs()
	e.log.LogAttrs(ctx, l.level, l.name, append(has, dataAttrs(ev.Data, has)...)...) //nolint:sloglint // the names are those of the observers
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
		attrs = append(attrs, slog.String(name, clip.Text(text, maxLogText)))
	}
	return attrs
}
