package shell

import (
	"context"
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// announce tells subscribers, waiters, counters and the log what a batch has
// made true.
func (e *Engine) announce(p *plan) {
	e.bus.publish(p.batch.Events())
	e.runbooks.count(p.batch.Events(), p.changes)
	e.jobs.count(p.batch.Events(), p.changes)
	runs := &runTrail{p: p}
	for _, ev := range p.batch.Events() {
		switch ev.Kind.Category {
		case "job":
			e.announceJob(p, ev)
		case "run":
			e.announceRun(runs, ev)
		case "recurring":
			e.announceRecurring(p, ev)
		case "queue":
			e.takes.hear(ev)
			e.announceRunbook(p, ev)
		default:
			e.announceRunbook(p, ev)
		}
	}
	for _, c := range p.changes {
		if a, ok := c.After.(core.Action); ok {
			e.announceAction(c, a)
		}
		if c.Ref.Kind == core.KindScheduler {
			e.announceHeartbeats(p, c)
		}
		if c.After == nil {
			continue
		}
		if _, ended := core.EndedAt(c.After); ended {
			e.wait.settle(c.After)
		}
	}
}

func (e *Engine) announceAction(c core.Change, a core.Action) {
	was, _ := c.Before.(core.Action)
	if c.Before == nil {
		e.stats.created.Add(1)
	}
	if l := a.LastRun; l != nil && (was.LastRun == nil || was.LastRun.Cycle != l.Cycle) {
		e.announceEnd(a, l.Status) // a cycle of a recurring action
	}
	if a.Status.Type == core.StatusRunning && a.Run != was.Run {
		e.logAction(slog.LevelDebug, "action.start", a, "")
	}
	if a.Status.Type.Terminal() && !was.Status.Type.Terminal() {
		e.announceEnd(a, a.Status)
	}
}

func (e *Engine) announceEnd(a core.Action, status core.Status) {
	switch status.Type {
	case core.StatusPending, core.StatusRunning:
	case core.StatusCompleted:
		e.stats.completed.Add(1)
		e.logAction(slog.LevelDebug, "action.complete", a, "")
	case core.StatusFailed:
		e.stats.failed.Add(1)
		e.logAction(slog.LevelWarn, "action.fail", a, status.Reason)
		if _, ok := a.Metadata[core.MetaRecurringID]; ok {
			e.stats.recurringErrors.Add(1)
			e.logAction(slog.LevelError, "recurring.dispatch_error", a, status.Reason)
		}
	case core.StatusCancelled:
		e.stats.cancelled.Add(1)
		e.logAction(slog.LevelInfo, "action.cancel", a, status.Reason)
	}
}

func (e *Engine) logAction(level slog.Level, name string, a core.Action, reason string) {
	ctx := context.Background()
	if !e.log.Enabled(ctx, level) {
		return // the usual case for an action that goes well: build nothing
	}
	attrs := []slog.Attr{
		slog.Any("action_id", a.ID), slog.String("tool", a.ToolName), slog.String("label", a.Label),
		slog.Uint64("attempt", uint64(a.Attempt)),
	}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if id, ok := a.Metadata[core.MetaRecurringID]; ok {
		attrs = append(attrs, slog.String("recurring_id", id))
	}
	e.log.LogAttrs(ctx, level, name, attrs...) //nolint:sloglint // the names are constants of this file
}

// recurringLog names the log event of each announcement, and its level
// (002 section 8).
var recurringLog = map[string]struct {
	name  string
	level slog.Level
}{
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

func (e *Engine) announceRecurring(p *plan, ev effects.Event) {
	l, ok := recurringLog[ev.Kind.Action]
	if !ok {
		return
	}
	if ev.Kind.Action == "dispatched" {
		e.stats.recurringDispatched.Add(1)
	}
	attrs := []any{"recurring_id", ev.Source.ID}
	if s, err := p.batch.State(effects.Ref{Kind: core.KindRecurring, ID: ev.Source.ID}); err == nil {
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
	e.log.Log(context.Background(), l.level, l.name, attrs...) //nolint:sloglint // the names are those of recurringLog
}
