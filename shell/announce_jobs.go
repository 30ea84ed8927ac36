package shell

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// jobLog names the log event of each announcement of jobs, and its level.
var jobLog = map[string]logEvent{
	"created":     {"job.create", slog.LevelInfo},
	"updated":     {"job.update", slog.LevelInfo},
	"deleted":     {"job.delete", slog.LevelInfo},
	"paused":      {"job.pause", slog.LevelInfo},
	"resumed":     {"job.resume", slog.LevelInfo},
	"triggered":   {"job.trigger", slog.LevelInfo},
	"skip_next":   {"job.skip_next", slog.LevelInfo},
	"skipped":     {"job.skipped", slog.LevelInfo},
	"missed":      {"job.missed", slog.LevelWarn},
	"run_refused": {"job.run_refused", slog.LevelError},
}

// runLogEvents names the log event of what runs announce beside their states, and its
// level (004 Logging). Their updates and metrics are for a [jobs.JobStateSyncer] and
// a stats collector.
var runLogEvents = map[string]logEvent{
	"constraint_violated": {"run.constraint_violated", slog.LevelWarn},
	"constraint_error":    {"run.constraint_error", slog.LevelError},
	"action":              {"run.action", slog.LevelInfo}, // one that failed: an error
	"action_refused":      {"run.action_refused", slog.LevelError},
	"cleanup_failed":      {"run.cleanup_failed", slog.LevelError},
	"invalid_transition":  {"run.invalid_transition", slog.LevelError},
	"metrics":             {"run.metrics", slog.LevelDebug},
}

// announceJob writes the line of an event of a job, if it has one.
func (e *Engine) announceJob(p *plan, ev effects.Event) {
	l, ok := jobLog[ev.Kind.Action]
	ctx := context.Background()
	if !ok || !e.log.Enabled(ctx, l.level) {
		return
	}
	attrs := []slog.Attr{slog.String("job_key", ev.Source.ID.String())}
	if j, ok := p.eventState(core.KindJob, ev.Source.ID).(core.Job); ok {
		attrs = append(attrs, slog.String("job_id", j.ID), slog.String("namespace", j.Namespace), slog.String("tenant", j.Tenant))
		if j.Paused {
			attrs = append(attrs, slog.String("paused_reason", j.PausedReason))
		}
	}
	e.log.LogAttrs(ctx, l.level, l.name, append(attrs, dataAttrs(ev.Data, attrs)...)...) //nolint:sloglint // the names are those of jobLog
}

// eventState is a machine as the batch leaves it, or, where it deletes it, as it
// was before.
func (p *plan) eventState(kind effects.Kind, id uuid.UUID) core.State {
	ref := effects.Ref{Kind: kind, ID: id}
	for _, c := range p.changes {
		if c.Ref == ref && c.After == nil {
			return c.Before
		}
	}
	s, err := p.batch.State(ref)
	if err != nil {
		return nil
	}
	return s
}

// runMoment is where a run is at one of the events of a batch.
type runMoment struct {
	state   core.OrchestratorStatus
	attempt uint32
}

// runTrail follows the runs through the events of a batch: a line says the state
// at its event, not that in which the batch leaves the run.
type runTrail struct {
	p  *plan
	at map[uuid.UUID]runMoment
}

func (t *runTrail) moment(run uuid.UUID) runMoment {
	if t.at == nil {
		t.at = make(map[uuid.UUID]runMoment)
		for _, c := range t.p.changes {
			if o, ok := c.Before.(core.Orchestrator); ok {
				t.at[o.ID] = runMoment{o.State, o.RetryAttempt}
			}
		}
	}
	return t.at[run]
}

// entered notes a state that a run has entered, where the event says so.
func (t *runTrail) entered(ev effects.Event) (entered bool) {
	state := core.OrchestratorStatus(ev.Kind.Action)
	if !runStates[state] {
		return false
	}
	var data struct {
		Attempt uint32 `json:"attempt"`
	}
	_ = json.Unmarshal(ev.Data, &data) // the machine made it
	t.moment(ev.Source.ID)
	t.at[ev.Source.ID] = runMoment{state, data.Attempt}
	return true
}

var runStates = func() map[core.OrchestratorStatus]bool {
	all := make(map[core.OrchestratorStatus]bool)
	for _, s := range core.OrchestratorStatuses() {
		all[s] = true
	}
	return all
}()

// announceRun writes the line of an event of a run, if it has one (004 Logging).
func (e *Engine) announceRun(t *runTrail, ev effects.Event) {
	if !e.log.Enabled(context.Background(), slog.LevelError) {
		return
	}
	if t.entered(ev) {
		e.logRun(t, ev, logEvent{"run.state", slog.LevelInfo})
		switch t.moment(ev.Source.ID).state {
		case core.OrchestratorFailed, core.OrchestratorOrphaned:
			e.logRun(t, ev, logEvent{"run.error", slog.LevelError})
		default:
		}
		return
	}
	l, ok := runLogEvents[ev.Kind.Action]
	if !ok {
		return
	}
	var data struct {
		Error string `json:"error"`
	}
	if ev.Kind.Action == "action" && json.Unmarshal(ev.Data, &data) == nil && data.Error != "" {
		l.level = slog.LevelError
	}
	e.logRun(t, ev, l)
}

func (e *Engine) logRun(t *runTrail, ev effects.Event, l logEvent) {
	ctx := context.Background()
	if !e.log.Enabled(ctx, l.level) {
		return
	}
	o, _ := t.p.eventState(core.KindOrchestrator, ev.Source.ID).(core.Orchestrator)
	attrs := append(runAttrs(o, t.moment(ev.Source.ID)), slog.String("orchestrator_id", ev.Source.ID.String()))
	e.log.LogAttrs(ctx, l.level, l.name, append(attrs, dataAttrs(ev.Data, attrs)...)...) //nolint:sloglint // the names are constants of this file
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

// announceHeartbeats writes a line for each heartbeat that a scheduler has taken,
// for debugging (004 Logging). The runs themselves were no part of the batch: what
// of them is not at hand is not read for that.
func (e *Engine) announceHeartbeats(p *plan, c core.Change) {
	ctx := context.Background()
	after, ok := c.After.(core.Scheduler)
	if !ok || !e.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	before, _ := c.Before.(core.Scheduler)
	for run, sent := range beats(before.Runs, after.Runs) {
		attrs := []slog.Attr{slog.String("orchestrator_id", run.String()), slog.Uint64("heartbeats", sent)}
		if c, ok := p.l.cache.get(effects.Ref{Kind: core.KindOrchestrator, ID: run}); ok {
			if o, ok := c.state.(core.Orchestrator); ok {
				attrs = append(runAttrs(o, runMoment{o.State, o.RetryAttempt}), attrs...)
			}
		}
		e.log.LogAttrs(ctx, slog.LevelDebug, "run.heartbeat", attrs...)
	}
}
