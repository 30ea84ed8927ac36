package shell

import (
	"context"
	"maps"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// PhaseBuckets are the upper bounds, in seconds, of [RunbookStats.Phases].
var PhaseBuckets = [...]float64{0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// PhaseKey tells the distributions of phase durations apart: not by names, of
// which there may be any number, but by what the phase does and how it ended.
type PhaseKey struct {
	Kind    string // as [core.PhaseDef.Kind] has it
	Outcome core.PhaseOutcome
}

// RunbookStats is what the engine has counted of runbooks since it was made, and
// the present totals of the store.
type RunbookStats struct {
	Pipelines  map[core.PhaseType]uint64
	Tasks      map[core.TaskStateType]uint64
	Strategies map[core.StrategyStatus]uint64
	// Events counts what was announced on the bus. All kinds of a runbook's own
	// stand under [OtherEvents].
	Events map[effects.EventKind]uint64
	// Phases are the durations of phases that have ended, by [PhaseBuckets].
	Phases map[PhaseKey]Histogram
}

// OtherEvents stands for all kinds of events that are not the machines' own.
var OtherEvents = effects.Custom("custom", "")

// runbooks copies the counters of runbooks: phases into those given.
func (s *counts) runbooks(phases map[PhaseKey]Histogram) map[effects.EventKind]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, h := range s.phases {
		phases[k] = cloned(h)
	}
	return maps.Clone(s.events)
}

// RunbookStats reads the counters. It costs a short read transaction.
func (e *Engine) RunbookStats(ctx context.Context) (RunbookStats, error) {
	out := RunbookStats{Phases: make(map[PhaseKey]Histogram)}
	out.Events = e.counts.runbooks(out.Phases)
	err := e.store.View(ctx, func(tx store.ReadTx) (err error) {
		if out.Pipelines, err = counted(tx, core.KindPipeline, core.PhaseInit, core.PhaseBlocked, core.PhaseRunning, core.PhaseDone, core.PhaseFailure, core.PhaseCancelled); err != nil {
			return err
		}
		if out.Tasks, err = counted(tx, core.KindTask, core.TaskPending, core.TaskRunning, core.TaskStuck, core.TaskDone); err != nil {
			return err
		}
		out.Strategies, err = counted(tx, core.KindStrategy, core.StrategyRunning, core.StrategySucceeded, core.StrategyExhausted, core.StrategyCancelled)
		return err
	})
	return out, err
}

// counted reads how many machines of a kind have each status.
func counted[T ~string](tx store.ReadTx, kind effects.Kind, statuses ...T) (map[T]uint64, error) {
	out := make(map[T]uint64, len(statuses))
	for _, st := range statuses {
		n, err := tx.Count(kind, core.StatusTerm(core.StatusType(st)))
		if err != nil {
			return nil, err
		}
		out[st] = n
	}
	return out, nil
}
