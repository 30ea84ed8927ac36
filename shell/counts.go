package shell

import (
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// LatenessBuckets are the upper bounds, in seconds, of [Stats.Lateness].
var LatenessBuckets = engine.LatenessBuckets

// counts count what the observers see. All of it is in memory: it starts at zero with
// the process, as counters of a metrics system do.
type counts struct {
	mu      sync.Mutex
	ready   bool
	actions actionCounts
	events  map[effects.EventKind]uint64
	phases  map[PhaseKey]Histogram
	jobs    JobStats
}

// actionCounts are those of actions, and of what makes them.
type actionCounts struct {
	created, completed, failed, cancelled uint64
	dispatched, recurringErrors           uint64 // of recurring actions
	webhooks                              uint64
}

// init makes the counters, once.
func (s *counts) init() {
	if s.ready {
		return
	}
	s.ready = true
	s.events, s.phases = make(map[effects.EventKind]uint64), make(map[PhaseKey]Histogram)
	s.jobs = JobStats{
		Ended: make(map[core.OrchestratorStatus]uint64), Verdicts: make(map[core.Verdict]uint64),
		Total: make(map[core.OrchestratorStatus]Histogram),
	}
}

// webhook notes that a raw webhook was stored.
func (s *counts) webhook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions.webhooks++
}

// ofActions copies the counters of actions.
func (s *counts) ofActions() actionCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.actions
}

// Stats is what the engine has counted since it was made, and the present
// totals of the store.
type Stats struct {
	engine.Stats                         // of the loop
	ActionsCreated, ActionsCompleted     uint64
	ActionsFailed, ActionsCancelled      uint64
	RecurringDispatched, RecurringErrors uint64 // C10
	RecurringActive                      uint64 // C10: enabled now
	Webhooks                             uint64 // raw webhooks stored
	ActionsByStatus                      map[core.StatusType]uint64
}
