package shell

import (
	"context"
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var recurringObserver = observer{
	category: "recurring",
	event:    logRecurring,
	tally: func(s *counts, ev effects.Event) {
		if ev.Kind.Action == "dispatched" {
			s.actions.RecurringDispatched++
		}
	},
}

// recurringLines names the line of each announcement, and its level
// (002 section 8).
var recurringLines = map[string]line{
	"created":    {"recurring.create", slog.LevelInfo},
	"updated":    {"recurring.update", slog.LevelInfo},
	"deleted":    {"recurring.delete", slog.LevelInfo},
	"paused":     {"recurring.pause", slog.LevelInfo},
	"resumed":    {"recurring.resume", slog.LevelInfo},
	"dispatched": {"recurring.dispatch", slog.LevelInfo},
	"missed":     {"recurring.missed", slog.LevelWarn},
	"expired":    {"recurring.expired", slog.LevelWarn},
	"no_next":    {"recurring.no_next", slog.LevelWarn},
}

// logRecurring writes the line of an event of a recurring action, if it has one.
func logRecurring(e *Engine, c *commit, ev effects.Event) {
	l, ok := recurringLines[ev.Kind.Action]
	if !ok {
		return
	}
	attrs := []any{"recurring_id", ev.Source.ID}
	if s, err := c.State(recurringRef(ev.Source.ID)); err == nil {
		if r, ok := s.(core.RecurringAction); ok {
			attrs = append(attrs, "namespace", r.Namespace, "tenant", r.Tenant, "cron_expr", r.CronExpr,
				"next_execution_at", r.NextExecutionAt.String(), "execution_count", r.ExecutionCount)
			if r.DisabledReason != "" {
				attrs = append(attrs, "disabled_reason", r.DisabledReason)
			}
			if r.MissedCount > 0 {
				attrs = append(attrs, "missed_count", r.MissedCount)
			}
		}
	}
	e.log.Log(context.Background(), l.level, l.name, attrs...) //nolint:sloglint // the names are those of recurringLines
}
