package shell

import (
	"context"
	"maps"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Stats reads the counters. It costs a short read transaction.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	a := e.counts.ofActions()
	out := Stats{
		ActionsCreated: a.created, ActionsCompleted: a.completed, ActionsFailed: a.failed, ActionsCancelled: a.cancelled,
		RecurringDispatched: a.dispatched, RecurringErrors: a.recurringErrors, Webhooks: a.webhooks,
	}
	var err error
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
	out := e.counts.jobStats()
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

// jobStats copies the counters of jobs and runs.
func (s *counts) jobStats() JobStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	out := s.jobs
	out.Ended, out.Verdicts = maps.Clone(out.Ended), maps.Clone(out.Verdicts)
	out.PodStart, out.Execution = cloned(out.PodStart), cloned(out.Execution)
	out.Total = make(map[core.OrchestratorStatus]Histogram, len(s.jobs.Total))
	for state, h := range s.jobs.Total {
		out.Total[state] = cloned(h)
	}
	return out
}

// runbooks copies the counters of runbooks: phases into those given.
func (s *counts) runbooks(phases map[PhaseKey]Histogram) map[effects.EventKind]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, h := range s.phases {
		phases[k] = cloned(h)
	}
	return maps.Clone(s.events)
}
