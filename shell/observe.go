package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	idName string                                         // of the machine's id in such a line; empty: KIND_id
	attrs  func(core.State) []slog.Attr                   // say in such a line which machine it is
	last   bool                                           // also of one that the batch has deleted: as it was before
	asks   string                                         // the action by which it announces that it waits for somebody
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

// shown gives a machine as a line of the log shows it: as the batch leaves it, or, if last
// says so and the batch deletes it, as it was before; nil if there is none.
func (c *commit) shown(ref effects.Ref, last bool) core.State {
	for _, ch := range c.Changes {
		if last && ch.Ref == ref && ch.After == nil {
			return ch.Before
		}
	}
	s, err := c.State(ref)
	if err != nil {
		return nil
	}
	return s
}

// attrsOf gives the attributes of a machine whose state is an S.
func attrsOf[S core.State](say func(S) []slog.Attr) func(core.State) []slog.Attr {
	return func(s core.State) []slog.Attr {
		is, _ := s.(S)
		return say(is)
	}
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

// noteUsage counts what tenants have now: what one asks for after an answer is bound by it.
func (e *Engine) noteUsage(committed engine.Committed) {
	if e.o.Limits.Count {
		e.usages.observe(committed)
	}
}

// observe counts and logs what a batch has made true.
func (e *Engine) observe(committed engine.Committed) {
	c := &commit{Committed: committed}
	e.changes.tell(committed)
	e.counts.count(c)
	for _, ev := range c.Events {
		o := observersByCategory[ev.Kind.Category]
		if o.event != nil {
			o.event(e, c, ev)
		}
		if l, ok := o.lines[ev.Kind.Action]; ok {
			e.logLine(c, o, ev, l)
		}
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.change != nil {
			o.change(e, c, ch)
		}
	}
}

// logLine writes the line of an event.
func (e *Engine) logLine(c *commit, of observer, ev effects.Event, l line) {
	e.logEvent(l, ev, func() []slog.Attr {
		attrs := make([]slog.Attr, 0, 8)
		if ev.Source.ID != uuid.Nil {
			attrs = append(attrs, slog.String(cmp.Or(of.idName, ev.Source.Component+"_id"), ev.Source.ID.String()))
		}
		s, says := c.said(of, ev)
		attrs = append(attrs, says...)
		if of.announcesAsk(ev) {
			return append(attrs, e.approveAttrs(s)...)
		}
		return e.withShow(attrs, l.level, s)
	})
}

// announcesAsk reports whether an event says that the machine waits for somebody.
func (o *observer) announcesAsk(ev effects.Event) bool {
	return o.asks != "" && ev.Kind.Action == o.asks
}

// approveAttrs give the command that approves what a machine waits for; nothing if it waits no more.
func (e *Engine) approveAttrs(s core.State) []slog.Attr {
	p, ok := s.(core.Pipeline)
	if !ok || !p.AwaitsApproval() || e.o.ApproveCommand == nil {
		return nil
	}
	if approve := e.o.ApproveCommand(p); approve != "" {
		return []slog.Attr{slog.String("approve", approve)}
	}
	return nil
}

// said gives the machine that has announced an event, as a line of the log shows it, and the
// attributes that say which one it is; nil if there is none.
func (c *commit) said(of observer, ev effects.Event) (core.State, []slog.Attr) {
	ref := effects.Ref{Kind: effects.Kind(ev.Source.Component), ID: ev.Source.ID}
	s, say := c.shown(ref, of.last), observersByKind[ref.Kind].attrs
	if s == nil || say == nil {
		return s, nil
	}
	return s, say(s)
}

// withShow adds the command that shows the machine to a line that people may have to look into.
func (e *Engine) withShow(attrs []slog.Attr, level slog.Level, s core.State) []slog.Attr {
	if level < slog.LevelWarn || s == nil || e.o.ShowCommand == nil {
		return attrs
	}
	if show := e.o.ShowCommand(s); show != "" {
		attrs = append(attrs, slog.String("show", show))
	}
	return attrs
}

// published gives an event as subscribers in this process are told of it: if something has failed, waits for an
// approval, or an action has ended, its data also has what the line of the log says, so that nobody has to ask which
// machine it was and why.
// What the bus routes to the subscribers of runbooks is the event as it was announced.
func (e *Engine) published(committed engine.Committed, ev effects.Event) effects.Event {
	of := observersByCategory[ev.Kind.Category]
	if !of.publishes(ev.Kind.Action) {
		return ev
	}
	s, attrs := (&commit{Committed: committed}).said(of, ev)
	if a, ok := s.(core.Action); ok {
		attrs = append(attrs, endAttrs(a)...)
	}
	if of.announcesAsk(ev) {
		attrs = append(append(attrs, slog.String("pipeline_id", ev.Source.ID.String())), e.approveAttrs(s)...)
	}
	return withMembers(ev, attrs)
}

// Detail gives an event that the bus has routed, to a queue say, as a reader wants to be told of it: its data also has
// what a line of the log says of the machine that has announced it, such as its label, and, of an action that has
// ended, how, with the end of its output. That is of the machine as it is now: of one that has gone on since, it tells
// which one it is and not how it has ended. The machine is nil where it does not exist any more.
func (e *Engine) Detail(ctx context.Context, ev effects.Event) (effects.Event, core.State, error) {
	ref := effects.Ref{Kind: effects.Kind(ev.Source.Component), ID: ev.Source.ID}
	of := observersByKind[ref.Kind]
	if of.attrs == nil || ref.ID == uuid.Nil {
		return ev, nil, nil
	}
	s, err := e.loop.Read(ctx, ref)
	switch {
	case errors.Is(notFound(err), ErrNotFound) || err == nil && s == nil:
		return ev, nil, nil
	case err != nil:
		return ev, nil, err
	}
	attrs := of.attrs(s)
	if of.announcesAsk(ev) {
		attrs = append(append(attrs, slog.String("pipeline_id", ref.ID.String())), e.approveAttrs(s)...)
	}
	if a, ok := s.(core.Action); ok && endedThen(a, ev) {
		attrs = append(attrs, endAttrs(a)...)
		if output := lastOutput(a); output != "" {
			attrs = append(attrs, slog.String("output", output))
		}
	}
	return withMembers(ev, attrs), s, nil
}

// endedThen reports whether the end of an action, or of its last cycle, is the one that an event tells.
func endedThen(a core.Action, ev effects.Event) bool {
	if a.Status.Type.Terminal() {
		return a.UpdatedAt == ev.Timestamp
	}
	return a.LastRun != nil && a.LastRun.FinishedAt == ev.Timestamp
}

// lastOutput is the end of what an action has printed, or its last cycle, as far as that is kept: by the result of
// its last run, or else by its last attempt.
func lastOutput(a core.Action) string {
	status, attempts := a.Status, a.Attempts
	if a.LastRun != nil && !status.Type.Terminal() {
		status, attempts = a.LastRun.Status, a.LastRun.Attempts
	}
	output := status.Output()
	if output == "" && len(attempts) > 0 && status.Type != core.StatusCompleted {
		output = attempts[len(attempts)-1].Output
	}
	if printedNothing(output) {
		return ""
	}
	return output
}

// printedNothing reports whether an output is no more than the result of a command that has written nothing: its
// exit code is said by the error.
func printedNothing(output string) bool {
	var r struct {
		ExitCode       *int64 `json:"exit_code"`
		Stdout, Stderr *string
	}
	return json.Unmarshal([]byte(output), &r) == nil && r.ExitCode != nil && (r.Stdout != nil || r.Stderr != nil) &&
		(r.Stdout == nil || *r.Stdout == "") && (r.Stderr == nil || *r.Stderr == "")
}

// withMembers adds attributes to the data of an event, where that has no members of their names.
func withMembers(ev effects.Event, attrs []slog.Attr) effects.Event {
	members := map[string]any{}
	for _, a := range attrs {
		members[a.Key] = a.Value.Any()
	}
	if len(members) == 0 || len(ev.Data) > 0 && json.Unmarshal(ev.Data, &members) != nil {
		return ev
	}
	if data, err := json.Marshal(members); err == nil {
		ev.Data = data
	}
	return ev
}

// publishes reports whether [Engine.published] adds to what is announced with that action.
func (o *observer) publishes(action string) bool {
	if o.kind == core.KindAction {
		_, ends := actionEnds[core.StatusType(action)]
		return ends
	}
	return o.lines[action].level >= slog.LevelWarn || o.asks != "" && o.asks == action
}

// count notes what a batch has announced and changed.
func (s *counts) count(c *commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range c.Events {
		if o := observersByCategory[ev.Kind.Category]; o.tally != nil {
			o.tally(s, ev)
		}
		if !effects.ReservedCategory(ev.Kind.Category) {
			ev.Kind = OtherEvents
		}
		s.runbooks.Events[ev.Kind]++
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.count != nil {
			o.count(s, ch.Before, ch.After)
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
