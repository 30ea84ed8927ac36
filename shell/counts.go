package shell

import (
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// Histogram is a snapshot of a distribution of seconds.
type Histogram = engine.Histogram

// LatenessBuckets are the upper bounds, in seconds, of [Stats.Lateness].
var LatenessBuckets = engine.LatenessBuckets

// PhaseBuckets are the upper bounds, in seconds, of [RunbookStats.Phases].
var PhaseBuckets = [...]float64{0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// ActionCounts are what the engine has counted of actions, and of what makes them, since
// it was made.
type ActionCounts struct {
	ActionsCreated, ActionsCompleted     uint64
	ActionsFailed, ActionsCancelled      uint64
	RecurringDispatched, RecurringErrors uint64 // C10
	Webhooks                             uint64 // raw webhooks stored
}

// RunCounts are what the engine has counted of jobs and their runs since it was made.
// Counters that a job or a run also keeps in its record grow here by what this engine has
// committed.
type RunCounts struct {
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

// PhaseKey tells the distributions of phase durations apart: not by names, of
// which there may be any number, but by what the phase does and how it ended.
type PhaseKey struct {
	Kind    string // as [core.PhaseDef.Kind] has it
	Outcome core.PhaseOutcome
}

// RunbookCounts are what the engine has counted of runbooks since it was made.
type RunbookCounts struct {
	// Events counts what was announced on the bus. All kinds of a runbook's own
	// stand under [OtherEvents].
	Events map[effects.EventKind]uint64
	// Phases are the durations of phases that have ended, by [PhaseBuckets].
	Phases map[PhaseKey]Histogram
}

// OtherEvents stands for all kinds of events that are not the machines' own.
var OtherEvents = effects.Custom("custom", "")

// counts count what the observers see. All of it is in memory: it starts at zero with
// the process, as counters of a metrics system do.
type counts struct {
	mu       sync.Mutex
	actions  ActionCounts
	jobs     RunCounts
	runbooks RunbookCounts
}

// init makes the maps.
func (s *counts) init() {
	s.runbooks = RunbookCounts{Events: make(map[effects.EventKind]uint64), Phases: make(map[PhaseKey]Histogram)}
	s.jobs = RunCounts{
		Ended: make(map[core.OrchestratorStatus]uint64), Verdicts: make(map[core.Verdict]uint64),
		Total: make(map[core.OrchestratorStatus]Histogram),
	}
}

// webhook notes that a raw webhook was stored.
func (s *counts) webhook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions.Webhooks++
}

// ofActions copies the counters of actions.
func (s *counts) ofActions() ActionCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.actions
}

// ofRuns copies the counters of jobs and runs.
func (s *counts) ofRuns() RunCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.jobs
	out.Ended, out.Verdicts, out.Total = maps.Clone(out.Ended), maps.Clone(out.Verdicts), clonedAll(out.Total)
	out.PodStart, out.Execution = cloned(out.PodStart), cloned(out.Execution)
	return out
}

// ofRunbooks copies the counters of runbooks.
func (s *counts) ofRunbooks() RunbookCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return RunbookCounts{Events: maps.Clone(s.runbooks.Events), Phases: clonedAll(s.runbooks.Phases)}
}

// observed adds one observation to a distribution by [PhaseBuckets].
func observed(h Histogram, seconds float64) Histogram {
	h = cloned(h)
	h.Counts[sort.SearchFloat64s(PhaseBuckets[:], seconds)]++
	h.Sum += max(seconds, 0)
	return h
}

// cloned copies a distribution; one that has seen nothing has buckets, too.
func cloned(h Histogram) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	h.Counts = slices.Clone(h.Counts)
	return h
}

func clonedAll[K comparable](m map[K]Histogram) map[K]Histogram {
	out := make(map[K]Histogram, len(m))
	for k, h := range m {
		out[k] = cloned(h)
	}
	return out
}
