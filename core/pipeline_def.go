package core

import (
	"encoding/json"
	"slices"
)

// Limits of pipelines.
const (
	MaxPhases             = 1000      // of a definition
	MaxDefinitionBytes    = 512 << 10 // of a definition's JSON
	DefaultContextLimit   = 64 << 10  // bytes of all names and values of a context
	MaxContextLimit       = 1 << 20
	MaxSignals            = 64       // that came before their phase
	MaxSignalBytes        = 16 << 10 // of a signal's payload
	MaxCheckpoints        = 100      // kept: the last ones
	MaxCheckpointBytes    = 1 << 10  // of a checkpoint's message
	MaxHistory            = MaxPhases
	MaxWatchers           = 256  // machines that wait for the end of one pipeline
	MaxDependencies       = 64   // pipelines that must be done first
	MaxChildPipelines     = 64   // that one phase starts or waits for
	MaxHolds              = 64   // locks and semaphores of one pipeline
	maxAbandoned          = 1024 // children that were abandoned and have not ended
	maxHistoryReasonBytes = 256
)

// PipelineDef is the definition of a pipeline: its phases, in order.
type PipelineDef struct {
	Name   string     `json:"name"`
	Inputs []InputDef `json:"inputs,omitempty"` // what the context begins with
	Phases []PhaseDef `json:"phases"`
	// OnFailure names a phase to which the pipeline jumps when an earlier one
	// fails, to clean up; at the end of it and what follows it, the pipeline has
	// failed all the same.
	OnFailure    string `json:"on_failure,omitempty"`
	ContextLimit int    `json:"context_limit,omitempty"` // bytes; 0: [DefaultContextLimit]
	TimeoutMS    int64  `json:"timeout_ms,omitempty"`    // of the whole run from its start or retry; 0: none
	// Result names the value of the context that is told to who waits for the
	// pipeline; empty: none.
	Result string `json:"result,omitempty"`
}

// InputDef declares a value of the context that a creator gives.
type InputDef struct {
	Name     string          `json:"name"`
	Required bool            `json:"required,omitempty"`
	Default  json.RawMessage `json:"default,omitempty"`
}

// index gives the index of a phase, or -1.
func (d PipelineDef) index(name string) int {
	return slices.IndexFunc(d.Phases, func(p PhaseDef) bool { return p.Name == name })
}

// next gives the index of the phase after that one; len(Phases): the end.
func (d PipelineDef) next(i int) int {
	switch next := d.Phases[i].Next; next {
	case "":
		return i + 1
	case PhaseEnd:
		return len(d.Phases)
	default:
		if j := d.index(next); j > i { // validated; a stored definition that a later build refuses ends here
			return j
		}
		return len(d.Phases)
	}
}

// contextLimit is what holds.
func (d PipelineDef) contextLimit() int {
	if d.ContextLimit <= 0 {
		return DefaultContextLimit
	}
	return min(d.ContextLimit, MaxContextLimit)
}

