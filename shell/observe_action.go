package shell

import (
	"context"
	"log/slog"

	"github.com/orrery-go/orrery/core"
)

var actionObserver = observer{
	kind: core.KindAction,
	count: func(s *counts, before, after core.State) {
		was, _ := before.(core.Action)
		if is, ok := after.(core.Action); ok {
			s.countAction(before == nil, was, is)
		}
	},
	change: func(e *Engine, _ *commit, c core.Change) {
		was, _ := c.Before.(core.Action)
		if is, ok := c.After.(core.Action); ok {
			e.logAction(was, is)
		}
	},
}

// endedCycle gives how a cycle of a recurring action has ended in a change; empty: none
// has.
func endedCycle(was, is core.Action) core.Status {
	if l := is.LastRun; l != nil && (was.LastRun == nil || was.LastRun.Cycle != l.Cycle) {
		return l.Status
	}
	return core.Status{}
}

// endedAction gives how an action has ended in a change; empty: it has not.
func endedAction(was, is core.Action) core.Status {
	if is.Status.Type.Terminal() && !was.Status.Type.Terminal() {
		return is.Status
	}
	return core.Status{}
}

// countAction counts what became of an action.
func (s *counts) countAction(created bool, was, is core.Action) {
	if created {
		s.actions.ActionsCreated++
	}
	for _, status := range []core.Status{endedCycle(was, is), endedAction(was, is)} {
		switch status.Type {
		case core.StatusPending, core.StatusRunning:
		case core.StatusCompleted:
			s.actions.ActionsCompleted++
		case core.StatusFailed:
			s.actions.ActionsFailed++
			if _, ok := is.Metadata[core.MetaRecurringID]; ok {
				s.actions.RecurringErrors++
			}
		case core.StatusCancelled:
			s.actions.ActionsCancelled++
		}
	}
}

// logAction writes the lines about what became of an action.
func (e *Engine) logAction(was, is core.Action) {
	e.logActionEnd(is, endedCycle(was, is))
	if is.Status.Type == core.StatusRunning && is.Run != was.Run {
		e.actionLine(slog.LevelDebug, "action.start", is, "")
	}
	e.logActionEnd(is, endedAction(was, is))
}

func (e *Engine) logActionEnd(a core.Action, status core.Status) {
	switch status.Type {
	case core.StatusPending, core.StatusRunning:
	case core.StatusCompleted:
		e.actionLine(slog.LevelDebug, "action.complete", a, "")
	case core.StatusFailed:
		e.actionLine(slog.LevelWarn, "action.fail", a, status.Reason)
		if _, ok := a.Metadata[core.MetaRecurringID]; ok {
			e.actionLine(slog.LevelError, "recurring.dispatch_error", a, status.Reason)
		}
	case core.StatusCancelled:
		e.actionLine(slog.LevelInfo, "action.cancel", a, status.Reason)
	}
}

func (e *Engine) actionLine(level slog.Level, name string, a core.Action, reason string) {
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
