package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var runObserver = observer{
	kind: core.KindOrchestrator, category: "run",
	event: observeRun,
	attrs: attrsOf(func(o core.Orchestrator) []slog.Attr {
		return []slog.Attr{slog.String("run_id", o.RunID), slog.String("job_id", o.JobID), slog.String("namespace", o.Namespace), slog.String("tenant", o.Tenant)}
	}),
	tally: func(s *counts, ev effects.Event) {
		switch ev.Kind.Action {
		case "constraint_error":
			s.jobs.ConstraintErrors++
		case "cleanup_failed":
			s.jobs.CleanupsFailed++
		}
	},
	count: counting((*counts).countRun),
}

// runLines names the line of what runs announce beside their states, and its
// level (004 Logging). Their updates and metrics are for a [jobs.JobStateSyncer] and
// a stats collector.
var runLines = map[string]line{
	"constraint_violated": {"run.constraint_violated", slog.LevelWarn},
	"constraint_error":    {"run.constraint_error", slog.LevelError},
	"action":              {"run.action", slog.LevelInfo}, // one that failed: an error
	"action_refused":      {"run.action_refused", slog.LevelError},
	"cleaned_up":          {"run.cleaned_up", slog.LevelInfo},
	"cleanup_abandoned":   {"run.cleanup_abandoned", slog.LevelWarn},
	"cleanup_failed":      {"run.cleanup_failed", slog.LevelError},
	"invalid_transition":  {"run.invalid_transition", slog.LevelError},
	"metrics":             {"run.metrics", slog.LevelDebug},
}

// moment is where a run is at the present event of the batch: a line says the state
// at its event, not that in which the batch leaves the run.
func (c *commit) moment(run uuid.UUID) runMoment {
	if c.runs == nil {
		c.runs = make(map[uuid.UUID]runMoment)
		for _, ch := range c.Changes {
			if o, ok := ch.Before.(core.Orchestrator); ok {
				c.runs[o.ID] = runMoment{o.State, o.RetryAttempt}
			}
		}
	}
	return c.runs[run]
}

var runStates = core.OrchestratorStatuses()

// entered notes a state that a run has entered, where the event says so.
func (c *commit) entered(ev effects.Event) (entered bool) {
	state := core.OrchestratorStatus(ev.Kind.Action)
	if !slices.Contains(runStates, state) {
		return false
	}
	var data struct {
		Attempt uint32 `json:"attempt"`
	}
	_ = json.Unmarshal(ev.Data, &data) // the machine made it
	c.moment(ev.Source.ID)
	c.runs[ev.Source.ID] = runMoment{state, data.Attempt}
	return true
}

// observeRun writes the line of an event of a run, if it has one (004 Logging).
func observeRun(e *Engine, c *commit, ev effects.Event) {
	if !e.log.Enabled(context.Background(), slog.LevelError) {
		return
	}
	if c.entered(ev) {
		e.logRun(c, ev, line{"run.state", slog.LevelInfo})
		switch c.moment(ev.Source.ID).state {
		case core.OrchestratorFailed, core.OrchestratorOrphaned:
			e.logRun(c, ev, line{"run.error", slog.LevelError})
		default:
		}
		return
	}
	l, ok := runLines[ev.Kind.Action]
	if !ok {
		return
	}
	var data struct {
		Error string `json:"error"`
	}
	if ev.Kind.Action == "action" && json.Unmarshal(ev.Data, &data) == nil && data.Error != "" {
		l.level = slog.LevelError
	}
	e.logRun(c, ev, l)
}

func (e *Engine) logRun(c *commit, ev effects.Event, l line) {
	e.logEvent(l, ev, func() []slog.Attr {
		o, _ := c.shown(runRef(ev.Source.ID), true).(core.Orchestrator)
		attrs := append(runAttrs(o, c.moment(ev.Source.ID)), slog.String("orchestrator_id", ev.Source.ID.String()))
		return e.withShow(attrs, l.level, o)
	})
}

// runAttrs are the fields that each line about a run has (004 Structured Logging
// Fields), and whose it is.
func runAttrs(o core.Orchestrator, at runMoment) []slog.Attr {
	return []slog.Attr{
		slog.String("run_id", o.RunID), slog.String("job_id", o.JobID), slog.String("scheduled_at", o.ScheduledAt.String()),
		slog.String("state", string(at.state)), slog.Uint64("attempt", uint64(at.attempt)),
		slog.String("namespace", o.Namespace), slog.String("tenant", o.Tenant),
	}
}

// countRun counts how a run's own counters have grown, and its end.
func (s *counts) countRun(before, after core.Orchestrator) {
	was, is := before.Metrics, after.Metrics
	s.jobs.Retries += grown(was.RetryAttempt, is.RetryAttempt)
	s.jobs.ConstraintsChecked += grown(was.ConstraintsChecked, is.ConstraintsChecked)
	s.jobs.ConstraintsViolated += grown(was.ConstraintsViolated, is.ConstraintsViolated)
	s.jobs.ActionsExecuted += grown(was.ActionsExecuted, is.ActionsExecuted)
	s.jobs.ActionsFailed += grown(was.ActionsFailed, is.ActionsFailed)
	s.jobs.KubernetesAPICalls += grown(was.KubernetesAPICalls, is.KubernetesAPICalls)
	if at := after.ExecutionStartedAt; !at.IsZero() && at != before.ExecutionStartedAt {
		s.jobs.PodStart = observed(s.jobs.PodStart, float64(is.PodStartLatencyMS)/1000)
	}
	if after.State.Terminal() && !before.State.Terminal() {
		s.jobs.Ended[after.State]++
		s.jobs.Total[after.State] = observed(s.jobs.Total[after.State], float64(is.TotalDurationMS)/1000)
		if !after.ExecutionStartedAt.IsZero() || is.ExecutionDurationMS > 0 {
			s.jobs.Execution = observed(s.jobs.Execution, float64(is.ExecutionDurationMS)/1000)
		}
	}
}

// grown is how much a counter has grown; one that was reset begins anew.
func grown[T uint32 | uint64](before, after T) uint64 {
	if after < before {
		return uint64(after)
	}
	return uint64(after - before)
}

var schedulerObserver = observer{
	kind: core.KindScheduler, category: "scheduler",
	lines: map[string]line{
		"calendar_created":   {"calendar.create", slog.LevelInfo},
		"calendar_updated":   {"calendar.update", slog.LevelInfo},
		"calendar_deleted":   {"calendar.delete", slog.LevelInfo},
		"backfill_created":   {"backfill.create", slog.LevelInfo},
		"backfill_completed": {"backfill.complete", slog.LevelInfo},
		"backfill_cancelled": {"backfill.cancel", slog.LevelInfo},
	},
	change: logHeartbeats,
	count: func(s *counts, before, after core.State) {
		was, _ := before.(core.Scheduler)
		is, _ := after.(core.Scheduler)
		for range beats(was.Runs, is.Runs) {
			s.jobs.Heartbeats++
		}
	},
}

// logHeartbeats writes a line for each heartbeat that a scheduler has taken,
// for debugging (004 Logging). The runs themselves were no part of the batch: what
// of them is not at hand is not read for that.
func logHeartbeats(e *Engine, c *commit, change core.Change) {
	ctx := context.Background()
	after, ok := change.After.(core.Scheduler)
	if !ok || !e.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	before, _ := change.Before.(core.Scheduler)
	for run, sent := range beats(before.Runs, after.Runs) {
		attrs := []slog.Attr{slog.String("orchestrator_id", run.String()), slog.Uint64("heartbeats", sent)}
		if s, ok := c.Cached(runRef(run)); ok {
			if o, ok := s.(core.Orchestrator); ok {
				attrs = append(runAttrs(o, runMoment{o.State, o.RetryAttempt}), attrs...)
			}
		}
		e.log.LogAttrs(ctx, slog.LevelDebug, "run.heartbeat", attrs...)
	}
}

// beats yields the runs from which a scheduler has taken a heartbeat, and how many
// it has of them: both lists are in the order of the runs' ids. A run beats at most
// once in a batch.
func beats(before, after []core.TrackedRun) iter.Seq2[uuid.UUID, uint64] {
	return func(yield func(uuid.UUID, uint64) bool) {
		i := 0
		for _, r := range after {
			for i < len(before) && bytes.Compare(before[i].Run[:], r.Run[:]) < 0 {
				i++
			}
			var was uint64
			if i < len(before) && before[i].Run == r.Run {
				was = before[i].Sent
			}
			if r.Sent > was && !yield(r.Run, r.Sent) {
				return
			}
		}
	}
}
