package shell

import (
	"context"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Histogram is a snapshot of a distribution of seconds.
type Histogram = engine.Histogram

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

// count notes what a batch has announced and changed.
func (s *counts) count(c *commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	for _, ev := range c.Events {
		if o := observersByCategory[ev.Kind.Category]; o.tally != nil {
			o.tally(s, ev)
		}
		if !effects.ReservedCategory(ev.Kind.Category) {
			ev.Kind = OtherEvents
		}
		s.events[ev.Kind]++
	}
	for _, ch := range c.Changes {
		if o := observersByKind[ch.Ref.Kind]; o.count != nil {
			o.count(s, ch.Before, ch.After)
		}
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

// cloned copies a distribution; one that has seen nothing has buckets, too.
func cloned(h Histogram) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	h.Counts = slices.Clone(h.Counts)
	return h
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
