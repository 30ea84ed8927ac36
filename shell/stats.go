package shell

import (
	"context"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Stats is what the engine has counted since it was made, and the present
// totals of the store.
type Stats struct {
	engine.Stats // of the loop
	ActionCounts
	RecurringActive uint64 // C10: enabled now
	ActionsByStatus map[core.StatusType]uint64
}

// JobStats is what the engine has counted of jobs and their runs since it was
// made, and the present totals of the store (004 Monitoring & Observability).
type JobStats struct {
	RunCounts
	Jobs       uint64                             // enabled
	JobsPaused uint64                             // not enabled
	Runs       map[core.OrchestratorStatus]uint64 // by state, for each of [core.OrchestratorStatuses]
	InCluster  uint64                             // runs that may have something in a cluster
}

// RunbookStats is what the engine has counted of runbooks since it was made, and
// the present totals of the store.
type RunbookStats struct {
	RunbookCounts
	Pipelines  map[core.PhaseType]uint64
	Tasks      map[core.TaskStateType]uint64
	Strategies map[core.StrategyStatus]uint64
}

// Stats reads the counters. It costs a short read transaction.
func (e *Engine) Stats(ctx context.Context) (out Stats, err error) {
	out.ActionCounts = e.counts.ofActions()
	out.Stats, err = e.loop.Stats(ctx, func(tx store.ReadTx) (err error) {
		if out.RecurringActive, err = tx.Count(core.KindRecurring, core.EnabledTerm(true)); err != nil {
			return err
		}
		out.ActionsByStatus, err = counted(tx, core.KindAction, core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled)
		return err
	})
	return out, err
}

// JobStats reads the counters. It costs a short read transaction.
func (e *Engine) JobStats(ctx context.Context) (JobStats, error) {
	out := JobStats{RunCounts: e.counts.ofRuns()}
	err := e.store.View(ctx, func(tx store.ReadTx) (err error) {
		if out.Jobs, err = tx.Count(core.KindJob, core.EnabledTerm(true)); err != nil {
			return err
		}
		if out.JobsPaused, err = tx.Count(core.KindJob, core.EnabledTerm(false)); err != nil {
			return err
		}
		if out.InCluster, err = tx.Count(core.KindOrchestrator, core.TermInCluster); err != nil {
			return err
		}
		out.Runs, err = counted(tx, core.KindOrchestrator, core.OrchestratorStatuses()...)
		return err
	})
	return out, err
}

// RunbookStats reads the counters. It costs a short read transaction.
func (e *Engine) RunbookStats(ctx context.Context) (RunbookStats, error) {
	out := RunbookStats{RunbookCounts: e.counts.ofRunbooks()}
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
