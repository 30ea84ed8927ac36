package shell

import (
	"github.com/orrery-go/orrery/core"
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
