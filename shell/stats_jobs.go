package shell

import (
	"context"
	"maps"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// JobStats is what the engine has counted of jobs and their runs since it was
// made, and the present totals of the store (004 Monitoring & Observability).
// Counters that a job or a run also keeps in its record grow here by what this
// engine has committed.
type JobStats struct {
	// Present totals.
	Jobs       uint64                             // enabled
	JobsPaused uint64                             // not enabled
	Runs       map[core.OrchestratorStatus]uint64 // by state, for each of [core.OrchestratorStatuses]
	InCluster  uint64                             // runs that may have something in a cluster

	// Since the engine was made.
	Ended               map[core.OrchestratorStatus]uint64 // runs that came to a terminal state
	Verdicts            map[core.Verdict]uint64            // about times of schedules: dispatched, missed, skipped
	Triggered           uint64                             // runs made by hand
	Retries             uint64                             // attempts after the first
	ConstraintsChecked  uint64
	ConstraintsViolated uint64
	ConstraintErrors    uint64 // evaluations that failed
	ActionsExecuted     uint64 // also those that failed
	ActionsFailed       uint64
	Heartbeats          uint64
	KubernetesAPICalls  uint64
	CleanupsFailed      uint64 // runs that went on although something may be left in a cluster

	// Distributions of seconds, by [PhaseBuckets]. The first is of attempts, the
	// others of runs that have ended.
	PodStart  Histogram                             // from the creation of a pod until it runs (004 PodStartLatency)
	Execution Histogram                             // of pods, all attempts of a run together; of runs that had one
	Total     map[core.OrchestratorStatus]Histogram // from the creation of a run to its end
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
