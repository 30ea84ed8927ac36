package shell

import (
	"context"
	"maps"
	"slices"
	"sync"

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

// runbookStats counts what the loop announces.
type runbookStats struct {
	mu     sync.Mutex
	events map[effects.EventKind]uint64
	phases map[PhaseKey]*Histogram
}

// count notes the events of a batch, and the phases that ended in it.
func (s *runbookStats) count(events []effects.Event, changes []core.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == nil {
		s.events, s.phases = make(map[effects.EventKind]uint64), make(map[PhaseKey]*Histogram)
	}
	for _, ev := range events {
		if !effects.ReservedCategory(ev.Kind.Category) {
			ev.Kind = OtherEvents
		}
		s.events[ev.Kind]++
	}
	for _, c := range changes {
		if after, ok := c.After.(core.Pipeline); ok {
			before, _ := c.Before.(core.Pipeline)
			for _, r := range newRecords(before.History, after.History) {
				s.observe(PhaseKey{Kind: kindOfPhase(after.Definition, r.Name), Outcome: r.Outcome}, r.EndedAt.Sub(r.StartedAt).Seconds())
			}
		}
	}
}

func (s *runbookStats) observe(k PhaseKey, seconds float64) {
	h := s.phases[k]
	if h == nil {
		h = &Histogram{Counts: make([]uint64, len(PhaseBuckets)+1)}
		s.phases[k] = h
	}
	i := 0
	for i < len(PhaseBuckets) && seconds > PhaseBuckets[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += max(seconds, 0)
}

// newRecords gives what a history has got: what stands behind its last record of
// before. The oldest ones may have gone meanwhile.
func newRecords(before, after []core.PhaseRecord) []core.PhaseRecord {
	if len(before) == 0 {
		return after
	}
	last := before[len(before)-1]
	for i, r := range slices.Backward(after) {
		if r == last {
			return after[i+1:]
		}
	}
	return after
}

func kindOfPhase(d core.PipelineDef, name string) string {
	i := slices.IndexFunc(d.Phases, func(p core.PhaseDef) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return d.Phases[i].Kind()
}

// RunbookStats reads the counters. It costs a short read transaction.
func (e *Engine) RunbookStats(ctx context.Context) (RunbookStats, error) {
	out := RunbookStats{Phases: make(map[PhaseKey]Histogram)}
	s := &e.runbooks
	s.mu.Lock()
	out.Events = maps.Clone(s.events)
	for k, h := range s.phases {
		out.Phases[k] = Histogram{Counts: slices.Clone(h.Counts), Sum: h.Sum}
	}
	s.mu.Unlock()
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
