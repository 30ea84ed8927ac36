package shell

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
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

// jobStats counts what the loop announces.
type jobStats struct {
	mu    sync.Mutex
	s     JobStats
	ready bool
}

func (s *jobStats) init() {
	s.s = JobStats{
		Ended: make(map[core.OrchestratorStatus]uint64), Verdicts: make(map[core.Verdict]uint64),
		Total: make(map[core.OrchestratorStatus]Histogram),
	}
	s.ready = true
}

// count notes what a batch has announced and changed.
func (s *jobStats) count(events []effects.Event, changes []core.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		s.init()
	}
	for _, ev := range events {
		switch ev.Kind {
		case effects.Custom("job", "triggered"):
			s.s.Triggered++
		case effects.Custom("run", "constraint_error"):
			s.s.ConstraintErrors++
		case effects.Custom("run", "cleanup_failed"):
			s.s.CleanupsFailed++
		}
	}
	for _, c := range changes {
		switch after := c.After.(type) {
		case core.Orchestrator:
			before, _ := c.Before.(core.Orchestrator)
			s.countRun(before, after)
		case core.Job:
			before, _ := c.Before.(core.Job)
			s.countJob(before, after)
		case core.Scheduler:
			before, _ := c.Before.(core.Scheduler)
			for range beats(before.Runs, after.Runs) {
				s.s.Heartbeats++
			}
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

func (s *jobStats) countRun(before, after core.Orchestrator) {
	was, is := before.Metrics, after.Metrics
	s.s.Retries += grown(was.RetryAttempt, is.RetryAttempt)
	s.s.ConstraintsChecked += grown(was.ConstraintsChecked, is.ConstraintsChecked)
	s.s.ConstraintsViolated += grown(was.ConstraintsViolated, is.ConstraintsViolated)
	s.s.ActionsExecuted += grown(was.ActionsExecuted, is.ActionsExecuted)
	s.s.ActionsFailed += grown(was.ActionsFailed, is.ActionsFailed)
	s.s.KubernetesAPICalls += grown(was.KubernetesAPICalls, is.KubernetesAPICalls)
	if at := after.ExecutionStartedAt; !at.IsZero() && at != before.ExecutionStartedAt {
		s.s.PodStart = observed(s.s.PodStart, float64(is.PodStartLatencyMS)/1000)
	}
	if after.State.Terminal() && !before.State.Terminal() {
		s.s.Ended[after.State]++
		s.s.Total[after.State] = observed(s.s.Total[after.State], float64(is.TotalDurationMS)/1000)
		if !after.ExecutionStartedAt.IsZero() || is.ExecutionDurationMS > 0 {
			s.s.Execution = observed(s.s.Execution, float64(is.ExecutionDurationMS)/1000)
		}
	}
}

func (s *jobStats) countJob(before, after core.Job) {
	for verdict, n := range map[core.Verdict]uint64{
		core.VerdictDispatched: grown(before.Counts.Dispatched, after.Counts.Dispatched),
		core.VerdictMissed:     grown(before.Counts.Missed, after.Counts.Missed),
		core.VerdictSkipped:    grown(before.Counts.Skipped, after.Counts.Skipped),
	} {
		s.s.Verdicts[verdict] += n
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

// observed adds one observation to a distribution by [PhaseBuckets].
func observed(h Histogram, seconds float64) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	i := 0
	for i < len(PhaseBuckets) && seconds > PhaseBuckets[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += max(seconds, 0)
	return h
}

func (h Histogram) clone() Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	h.Counts = slices.Clone(h.Counts)
	return h
}

// snapshot copies the counters.
func (s *jobStats) snapshot() JobStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		s.init()
	}
	out := s.s
	out.Ended, out.Verdicts = maps.Clone(out.Ended), maps.Clone(out.Verdicts)
	out.PodStart, out.Execution = out.PodStart.clone(), out.Execution.clone()
	out.Total = make(map[core.OrchestratorStatus]Histogram, len(s.s.Total))
	for state, h := range s.s.Total {
		out.Total[state] = h.clone()
	}
	return out
}

// JobStats reads the counters. It costs a short read transaction.
func (e *Engine) JobStats(ctx context.Context) (JobStats, error) {
	out := e.jobs.snapshot()
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
