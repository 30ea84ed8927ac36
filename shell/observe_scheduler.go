package shell

import (
	"bytes"
	"context"
	"iter"
	"log/slog"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

var schedulerObserver = observer{
	kind:   core.KindScheduler,
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
