package shell

import (
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var jobObserver = observer{
	kind: core.KindJob, category: "job",
	event: logJob,
	tally: func(s *counts, ev effects.Event) {
		if ev.Kind.Action == "triggered" {
			s.jobs.Triggered++
		}
	},
	count: counting((*counts).countJob),
}

// jobLines names the line of each announcement of jobs, and its level.
var jobLines = map[string]line{
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

// logJob writes the line of an event of a job, if it has one.
func logJob(e *Engine, c *commit, ev effects.Event) {
	l, ok := jobLines[ev.Kind.Action]
	if !ok {
		return
	}
	e.logEvent(l, ev, func() []slog.Attr {
		attrs := []slog.Attr{slog.String("job_key", ev.Source.ID.String())}
		if j, ok := c.stateAt(core.KindJob, ev.Source.ID).(core.Job); ok {
			attrs = append(attrs, slog.String("job_id", j.ID), slog.String("namespace", j.Namespace), slog.String("tenant", j.Tenant))
			if j.Paused {
				attrs = append(attrs, slog.String("paused_reason", j.PausedReason))
			}
		}
		return attrs
	})
}

// countJob counts the verdicts about times of a job's schedule.
func (s *counts) countJob(before, after core.Job) {
	was, is := before.Counts, after.Counts
	s.jobs.Verdicts[core.VerdictDispatched] += grown(was.Dispatched, is.Dispatched)
	s.jobs.Verdicts[core.VerdictMissed] += grown(was.Missed, is.Missed)
	s.jobs.Verdicts[core.VerdictSkipped] += grown(was.Skipped, is.Skipped)
}
