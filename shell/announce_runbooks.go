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
)

type logEvent struct {
	name  string
	level slog.Level
}

// runbookLog names the log event of each announcement of the runbooks' machines,
// and its level. What goes well and often is for debugging, what people may have
// to look at is a warning, and what calls for them an error.
var runbookLog = map[effects.EventKind]logEvent{
	effects.KindPipelineStarted:              {"pipeline.start", slog.LevelInfo},
	effects.KindPipelinePhase:                {"pipeline.phase", slog.LevelDebug},
	effects.KindPipelineComplete:             {"pipeline.complete", slog.LevelInfo},
	effects.KindPipelineFailed:               {"pipeline.fail", slog.LevelWarn},
	effects.KindPipelineBlocked:              {"pipeline.block", slog.LevelInfo},
	effects.KindPipelineRetry:                {"pipeline.retry", slog.LevelInfo},
	effects.Custom("pipeline", "cancelled"):  {"pipeline.cancel", slog.LevelInfo},
	effects.Custom("pipeline", "signal"):     {"pipeline.signal", slog.LevelDebug},
	effects.Custom("pipeline", "checkpoint"): {"pipeline.checkpoint", slog.LevelDebug},
	effects.KindTaskStarted:                  {"task.start", slog.LevelDebug},
	effects.KindTaskStuck:                    {"task.stuck", slog.LevelWarn},
	effects.KindTaskRecovered:                {"task.recovered", slog.LevelInfo},
	effects.KindTaskComplete:                 {"task.complete", slog.LevelDebug},
	effects.KindTaskRestarting:               {"task.restart", slog.LevelWarn},
	effects.KindTaskFailed:                   {"task.fail", slog.LevelWarn},
	effects.Custom("task", "cancelled"):      {"task.cancel", slog.LevelInfo},
	effects.Custom("task", "input_lost"):     {"task.input_lost", slog.LevelWarn},
	effects.Custom("strategy", "started"):    {"strategy.start", slog.LevelDebug},
	effects.KindStrategyFallback:             {"strategy.fallback", slog.LevelInfo},
	effects.Custom("strategy", "success"):    {"strategy.complete", slog.LevelDebug},
	effects.KindStrategyExhausted:            {"strategy.exhausted", slog.LevelWarn},
	effects.Custom("strategy", "cancelled"):  {"strategy.cancel", slog.LevelInfo},
	effects.KindQueuePush:                    {"queue.push", slog.LevelDebug},
	effects.KindQueueTake:                    {"queue.take", slog.LevelDebug},
	effects.KindQueueComplete:                {"queue.complete", slog.LevelDebug},
	effects.Custom("queue", "fail"):          {"queue.fail", slog.LevelInfo},
	effects.KindQueueDead:                    {"queue.dead", slog.LevelWarn},
	effects.Custom("lock", "acquired"):       {"lock.acquire", slog.LevelDebug},
	effects.Custom("lock", "released"):       {"lock.release", slog.LevelDebug},
	effects.Custom("lock", "expired"):        {"lock.expire", slog.LevelWarn},
	effects.Custom("lock", "broken"):         {"lock.break", slog.LevelWarn},
	effects.Custom("semaphore", "acquired"):  {"semaphore.acquire", slog.LevelDebug},
	effects.Custom("semaphore", "released"):  {"semaphore.release", slog.LevelDebug},
	effects.Custom("semaphore", "expired"):   {"semaphore.expire", slog.LevelWarn},
	effects.Custom("semaphore", "broken"):    {"semaphore.break", slog.LevelWarn},
	effects.KindEscalate:                     {"system.escalate", slog.LevelError},
}

// maxLogData bounds the data of an event that its line in the log shows, and
// each text of it.
const (
	maxLogData = 8 << 10
	maxLogText = 512
)

// announceRunbook writes the line of an event of the runbooks, if it has one.
func (e *Engine) announceRunbook(p *plan, ev effects.Event) {
	l, ok := runbookLog[ev.Kind]
	ctx := context.Background()
	if !ok || !e.log.Enabled(ctx, l.level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	if ev.Source.ID != uuid.Nil {
		attrs = append(attrs, slog.String(ev.Source.Component+"_id", ev.Source.ID.String()))
	}
	if s, err := p.batch.State(effects.Ref{Kind: effects.Kind(ev.Source.Component), ID: ev.Source.ID}); err == nil {
		attrs = append(attrs, attrsOf(s)...)
	}
	e.log.LogAttrs(ctx, l.level, l.name, append(attrs, dataAttrs(ev.Data, attrs)...)...) //nolint:sloglint // the names are those of runbookLog
}

// attrsOf says which machine it is, in words that people gave it.
func attrsOf(s core.State) []slog.Attr {
	scope := func(namespace, tenant, name, value string) []slog.Attr {
		return []slog.Attr{slog.String("namespace", namespace), slog.String("tenant", tenant), slog.String(name, value)}
	}
	of := func(attrs []slog.Attr, pipeline uuid.UUID) []slog.Attr {
		if pipeline != uuid.Nil {
			attrs = append(attrs, slog.String("pipeline_id", pipeline.String()))
		}
		return attrs
	}
	switch s := s.(type) {
	case core.Pipeline:
		return append(scope(s.Namespace, s.Tenant, "label", s.Label), slog.String("pipeline", s.Definition.Name))
	case core.Task:
		return of(scope(s.Namespace, s.Tenant, "label", s.Label), s.PipelineID)
	case core.Strategy:
		return of(scope(s.Namespace, s.Tenant, "label", s.Label), s.PipelineID)
	case core.Queue:
		return scope(s.Namespace, s.Tenant, "name", s.Name)
	case core.Lock:
		return scope(s.Namespace, s.Tenant, "name", s.Name)
	case core.Semaphore:
		return scope(s.Namespace, s.Tenant, "name", s.Name)
	}
	return nil
}

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
