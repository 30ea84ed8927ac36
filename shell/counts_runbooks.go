package shell

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

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
