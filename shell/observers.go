package shell

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// observers is the table of machines that are observed.
var observers = [...]observer{
	actionObserver, recurringObserver,
	pipelineObserver, taskObserver, strategyObserver, queueObserver, lockObserver, semaphoreObserver, calendarObserver, backfillObserver, alertObserver, digestObserver, systemObserver,
	jobObserver, runObserver, schedulerObserver, occurrenceObserver,
}

// pipelineObserver: here and below, what goes well and often is for debugging, what
// people may have to look at is a warning, and what calls for them an error.
var pipelineObserver = observer{
	kind: core.KindPipeline, category: "pipeline",
	lines: map[string]line{
		"started":    {"pipeline.start", slog.LevelInfo},
		"phase":      {"pipeline.phase", slog.LevelDebug},
		"approval":   {"pipeline.approval", slog.LevelInfo},
		"complete":   {"pipeline.complete", slog.LevelInfo},
		"failed":     {"pipeline.fail", slog.LevelWarn},
		"blocked":    {"pipeline.block", slog.LevelInfo},
		"retry":      {"pipeline.retry", slog.LevelInfo},
		"cancelled":  {"pipeline.cancel", slog.LevelInfo},
		"signal":     {"pipeline.signal", slog.LevelDebug},
		"checkpoint": {"pipeline.checkpoint", slog.LevelDebug},
		"refused":    {"pipeline.refuse", slog.LevelWarn},
	},
	attrs: attrsOf(func(p core.Pipeline) []slog.Attr {
		attrs := append(scopeAttrs(p.Namespace, p.Tenant, "label", p.Label), slog.String("pipeline", p.Definition.Name))
		if p.Phase.Type == core.PhaseFailure {
			attrs = append(attrs, slog.Uint64("attempt", uint64(attemptsOf(p))))
		}
		return attrs
	}),
	asks:  "approval",
	count: counting((*counts).countPhases),
}

// attemptsOf gives how often the phase was tried at which a pipeline has failed: phases that clean up may have come after it.
func attemptsOf(p core.Pipeline) uint32 {
	for _, r := range slices.Backward(p.History) {
		if r.Name == p.Phase.Name {
			return r.Attempts
		}
	}
	return p.Attempt
}

var taskObserver = observer{
	kind: core.KindTask, category: "task",
	lines: map[string]line{
		"started":    {"task.start", slog.LevelDebug},
		"stuck":      {"task.stuck", slog.LevelWarn},
		"recovered":  {"task.recovered", slog.LevelInfo},
		"complete":   {"task.complete", slog.LevelDebug},
		"restarting": {"task.restart", slog.LevelWarn},
		"failed":     {"task.fail", slog.LevelWarn},
		"cancelled":  {"task.cancel", slog.LevelInfo},
		"input_lost": {"task.input_lost", slog.LevelWarn},
	},
	attrs: attrsOf(func(t core.Task) []slog.Attr {
		return pipelineAttrs(t.Namespace, t.Tenant, t.Label, t.PipelineID)
	}),
}

var strategyObserver = observer{
	kind: core.KindStrategy, category: "strategy",
	lines: map[string]line{
		"started":   {"strategy.start", slog.LevelDebug},
		"fallback":  {"strategy.fallback", slog.LevelInfo},
		"success":   {"strategy.complete", slog.LevelDebug},
		"exhausted": {"strategy.exhausted", slog.LevelWarn},
		"cancelled": {"strategy.cancel", slog.LevelInfo},
	},
	attrs: attrsOf(func(t core.Strategy) []slog.Attr {
		return pipelineAttrs(t.Namespace, t.Tenant, t.Label, t.PipelineID)
	}),
}

var queueObserver = observer{
	kind: core.KindQueue, category: "queue",
	lines: map[string]line{
		"push":     {"queue.push", slog.LevelDebug},
		"take":     {"queue.take", slog.LevelDebug},
		"complete": {"queue.complete", slog.LevelDebug},
		"fail":     {"queue.fail", slog.LevelInfo},
		"dead":     {"queue.dead", slog.LevelWarn},
	},
	attrs: attrsOf(func(q core.Queue) []slog.Attr {
		return scopeAttrs(q.Namespace, q.Tenant, "name", q.Name)
	}),
	event: func(e *Engine, _ *commit, ev effects.Event) { e.takes.hear(ev) },
}

var lockObserver = observer{
	kind: core.KindLock, category: "lock",
	lines: leaseLines("lock"),
	attrs: attrsOf(func(l core.Lock) []slog.Attr {
		return scopeAttrs(l.Namespace, l.Tenant, "name", l.Name)
	}),
}

var semaphoreObserver = observer{
	kind: core.KindSemaphore, category: "semaphore",
	lines: leaseLines("semaphore"),
	attrs: attrsOf(func(m core.Semaphore) []slog.Attr {
		return scopeAttrs(m.Namespace, m.Tenant, "name", m.Name)
	}),
}

// calendarObserver and backfillObserver: what these announce stands in the category of the
// scheduler, see schedulerObserver.
var calendarObserver = observer{
	kind: core.KindCalendar,
	attrs: attrsOf(func(c core.Calendar) []slog.Attr {
		return append(scopeAttrs(c.Namespace, c.Tenant, "name", c.Name), slog.Uint64("revision", c.Revision))
	}),
}

var backfillObserver = observer{
	kind: core.KindBackfill,
	attrs: attrsOf(func(b core.Backfill) []slog.Attr {
		return append(scopeAttrs(b.Namespace, b.Tenant, "name", b.Name),
			slog.String("schedule", b.Schedule.String()), slog.Int("times", len(b.Times)), slog.Uint64("already_dispatched", b.AlreadyDispatched),
			slog.Uint64("succeeded", b.Counts.Succeeded), slog.Uint64("failed", b.Counts.Failed),
			slog.Uint64("cancelled", b.Counts.Cancelled), slog.Uint64("refused", b.Counts.Refused))
	}),
	count: counting((*counts).countBackfill),
}

// alertObserver and digestObserver: an alert announces nothing itself, see [core.Digest].
var alertObserver = observer{
	kind:  core.KindAlert,
	count: counting((*counts).countAlerts),
}

var digestObserver = observer{
	kind: core.KindDigest, category: "alert",
	lines: map[string]line{
		"raised":      {"alert.raise", slog.LevelWarn},
		"cleared":     {"alert.clear", slog.LevelInfo},
		"undelivered": {"alert.undelivered", slog.LevelError},
	},
	attrs: attrsOf(func(d core.Digest) []slog.Attr { return []slog.Attr{slog.String("channel", d.Channel)} }),
	count: counting((*counts).countMessages),
	change: func(e *Engine, _ *commit, c core.Change) {
		was, _ := c.Before.(core.Digest)
		if is, ok := c.After.(core.Digest); ok {
			e.logDigest(was, is)
		}
	},
}

// logDigest writes a line for each time that a message was not delivered and is tried again; that it is given up, the
// digest announces.
func (e *Engine) logDigest(was, is core.Digest) {
	m := is.Message
	if m == nil || m.RetryAt.IsZero() || was.Message != nil && was.Message.RetryAt == m.RetryAt {
		return
	}
	e.log.LogAttrs(context.Background(), slog.LevelError, "alert.not_delivered", slog.String("channel", is.Channel), slog.String("title", clip.Text(m.Title, maxLogText)),
		slog.String("error", clip.Text(is.LastError, maxLogText)), slog.Uint64("tries", uint64(m.Tries)), slog.String("retry_at", m.RetryAt.String()))
}

// leaseLines are the lines about what is held by a lease.
func leaseLines(of string) map[string]line {
	return map[string]line{
		"acquired": {of + ".acquire", slog.LevelDebug},
		"released": {of + ".release", slog.LevelDebug},
		"expired":  {of + ".expire", slog.LevelWarn},
		"broken":   {of + ".break", slog.LevelWarn},
	}
}

// systemObserver has no machine: any may escalate.
var systemObserver = observer{
	category: "system",
	lines:    map[string]line{"escalate": {"system.escalate", slog.LevelError}},
}

var jobObserver = observer{
	kind: core.KindJob, category: "job",
	lines: map[string]line{
		"created":     {"job.create", slog.LevelInfo},
		"updated":     {"job.update", slog.LevelInfo},
		"deleted":     {"job.delete", slog.LevelInfo},
		"paused":      {"job.pause", slog.LevelInfo},
		"resumed":     {"job.resume", slog.LevelInfo},
		"triggered":   {"job.trigger", slog.LevelInfo},
		"skip_next":   {"job.skip_next", slog.LevelInfo},
		"skipped":     {"job.skipped", slog.LevelInfo},
		"missed":      {"job.missed", slog.LevelWarn},
		"cancelled":   {"job.cancelled", slog.LevelInfo},
		"expired":     {"job.expired", slog.LevelWarn},
		"run_refused": {"job.run_refused", slog.LevelError},
	},
	idName: "job_key",
	last:   true,
	attrs: attrsOf(func(j core.Job) []slog.Attr {
		attrs := []slog.Attr{slog.String("job_id", j.ID), slog.String("namespace", j.Namespace), slog.String("tenant", j.Tenant)}
		if j.Paused {
			attrs = append(attrs, slog.String("paused_reason", j.PausedReason))
		}
		return attrs
	}),
	tally: func(s *counts, ev effects.Event) {
		if ev.Kind.Action == "triggered" {
			s.jobs.Triggered++
		}
	},
	count: counting((*counts).countJob),
}

// occurrenceObserver counts: what it tells people, its schedule has announced.
var occurrenceObserver = observer{kind: core.KindOccurrence, count: counting((*counts).countOccurrence)}

// recurringObserver: the lines are those of 002, section 8.
var recurringObserver = observer{
	kind: core.KindRecurring, category: "recurring",
	lines: map[string]line{
		"created":      {"recurring.create", slog.LevelInfo},
		"updated":      {"recurring.update", slog.LevelInfo},
		"deleted":      {"recurring.delete", slog.LevelInfo},
		"paused":       {"recurring.pause", slog.LevelInfo},
		"resumed":      {"recurring.resume", slog.LevelInfo},
		"dispatched":   {"recurring.dispatch", slog.LevelInfo},
		"missed":       {"recurring.missed", slog.LevelWarn},
		"skipped":      {"recurring.skipped", slog.LevelInfo},
		"cancelled":    {"recurring.cancelled", slog.LevelInfo},
		"wait_expired": {"recurring.wait_expired", slog.LevelWarn},
		"skip_next":    {"recurring.skip_next", slog.LevelInfo},
		"expired":      {"recurring.expired", slog.LevelWarn},
		"no_next":      {"recurring.no_next", slog.LevelWarn},
	},
	attrs: attrsOf(func(r core.RecurringAction) []slog.Attr {
		attrs := scopeAttrs(r.Namespace, r.Tenant, "cron_expr", r.CronExpr)
		if name := cmp.Or(r.Name, r.Description); name != "" {
			attrs = append(attrs, slog.String("name", clip.Text(name, maxLogText)))
		}
		attrs = append(attrs, slog.String("next_execution_at", r.NextExecutionAt.String()), slog.Any("execution_count", r.ExecutionCount))
		if r.DisabledReason != "" {
			attrs = append(attrs, slog.String("disabled_reason", r.DisabledReason))
		}
		if r.MissedCount > 0 {
			attrs = append(attrs, slog.Any("missed_count", r.MissedCount))
		}
		return attrs
	}),
	tally: func(s *counts, ev effects.Event) {
		if ev.Kind.Action == "dispatched" {
			s.actions.RecurringDispatched++
		}
	},
}

var actionObserver = observer{
	kind: core.KindAction, category: "action", idName: "action_id",
	lines: map[string]line{"retry": {"action.retry", slog.LevelInfo}},
	attrs: attrsOf(actionAttrs),
	tally: func(s *counts, ev effects.Event) {
		if ev.Kind.Action == "retry" {
			s.actions.ActionRetries++
		}
	},
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

// actionAttrs say which action it is.
func actionAttrs(a core.Action) []slog.Attr {
	attrs := append(scopeAttrs(a.Namespace, a.Tenant, "label", a.Label), slog.String("tool", a.ToolName))
	if id, ok := a.Metadata[core.MetaRecurringID]; ok {
		attrs = append(attrs, slog.String("recurring_id", id))
	}
	return attrs
}

// endAttrs say how an action has ended, or the last cycle of one that recurs and goes on.
func endAttrs(a core.Action) []slog.Attr {
	status, attempt := a.Status, a.Attempt
	if l := a.LastRun; l != nil && !status.Type.Terminal() {
		status, attempt = l.Status, lastAttempt(l)
	}
	attrs := []slog.Attr{slog.Uint64("attempt", uint64(attempt))}
	switch {
	case status.Type == core.StatusFailed:
		attrs = append(attrs, slog.String("error", status.Reason))
	case status.Reason != "":
		attrs = append(attrs, slog.String("reason", status.Reason))
	}
	return attrs
}

// lastAttempt gives the number of the attempt with which a cycle has ended.
func lastAttempt(l *core.LastRun) uint32 {
	if len(l.Attempts) == 0 {
		return 1
	}
	last := l.Attempts[len(l.Attempts)-1].Number
	if l.Status.Type == core.StatusCompleted {
		last++ // those that are kept did not succeed
	}
	return last
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
	if cycle := endedCycle(was, is); cycle.Type != "" {
		e.logActionEnd(is, cycle, lastAttempt(is.LastRun))
	}
	if is.Status.Type == core.StatusRunning && is.Run != was.Run {
		e.actionLine(slog.LevelDebug, "action.start", is, is.Attempt, "")
	}
	e.logActionEnd(is, endedAction(was, is), is.Attempt)
}

// actionEnds are the lines about the ends of actions, by their status.
var actionEnds = map[core.StatusType]line{
	core.StatusCompleted: {"action.complete", slog.LevelDebug},
	core.StatusFailed:    {"action.fail", slog.LevelWarn},
	core.StatusCancelled: {"action.cancel", slog.LevelInfo},
}

func (e *Engine) logActionEnd(a core.Action, status core.Status, attempt uint32) {
	if l, ended := actionEnds[status.Type]; ended {
		e.actionLine(l.level, l.name, a, attempt, status.Reason)
	}
	if _, ok := a.Metadata[core.MetaRecurringID]; ok && status.Type == core.StatusFailed {
		e.actionLine(slog.LevelError, "recurring.dispatch_error", a, attempt, status.Reason)
	}
}

func (e *Engine) actionLine(level slog.Level, name string, a core.Action, attempt uint32, reason string) {
	ctx := context.Background()
	if !e.log.Enabled(ctx, level) {
		return // the usual case for an action that goes well: build nothing
	}
	attrs := append([]slog.Attr{slog.String("action_id", a.ID.String())}, actionAttrs(a)...)
	attrs = append(attrs, slog.Uint64("attempt", uint64(attempt)))
	if reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	e.log.LogAttrs(ctx, level, name, e.withShow(attrs, level, a)...) //nolint:sloglint // the names are constants of this file
}
