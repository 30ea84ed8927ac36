package core

import (
	"cmp"
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

// PhaseEnd as the Next of a phase ends the pipeline after it.
const PhaseEnd = "@end"

// PhaseDef is one phase: exactly one of the actions is set. Texts may hold
// references to the context: "${name}", "${name.member.0}", "$${" for "${";
// always there are pipeline.id, pipeline.name, phase.name and phase.attempt.
type PhaseDef struct {
	Name string `json:"name"`
	// Next is the phase that follows: a later one, or [PhaseEnd]. Empty: the next
	// in order.
	Next      string `json:"next,omitempty"`
	When      *When  `json:"when,omitempty"`       // otherwise it is skipped, with the output null
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // of one attempt; 0: none
	Retry     Retry  `json:"retry,omitzero"`
	// OnFailure names a later phase from which the pipeline goes on where this one
	// failed: a way around.
	OnFailure string `json:"on_failure,omitempty"`
	// Output is the context's name for the result; empty: the phase's. After a
	// failure that does not end the pipeline it is {"error":…,"result":…}.
	Output        string `json:"output,omitempty"`
	IgnoreFailure bool   `json:"ignore_failure,omitempty"` // go on as if it had not failed

	Run        *ToolRun         `json:"run,omitempty"`      // a child action of any tool
	Task       *AgentPrompt     `json:"task,omitempty"`     // a child task
	Strategy   *StrategyPhase   `json:"strategy,omitempty"` // a child strategy
	Push       *PushPhase       `json:"push,omitempty"`
	Wait       *WaitPhase       `json:"wait,omitempty"`
	Signal     *SignalPhase     `json:"signal,omitempty"`
	Approval   *ApprovalPhase   `json:"approval,omitempty"`
	Pipelines  *PipelinesPhase  `json:"pipelines,omitempty"`
	Lock       *LockPhase       `json:"lock,omitempty"`
	Unlock     *UnlockPhase     `json:"unlock,omitempty"`
	Semaphore  *SemaphorePhase  `json:"semaphore,omitempty"`
	Worktree   *WorktreePhase   `json:"worktree,omitempty"`
	Merge      *MergeRun        `json:"merge,omitempty"` // strategy fast-forward or rebase; agent: within a strategy
	Notify     *NotifyPhase     `json:"notify,omitempty"`
	Checkpoint *CheckpointPhase `json:"checkpoint,omitempty"`
	Set        *SetPhase        `json:"set,omitempty"`
	Manual     *ManualPhase     `json:"manual,omitempty"`
	Wake       *WakePhase       `json:"wake,omitempty"`
}

// When is a condition on the context: what Ref refers to ("build.ok", without
// "${") equals the value, or, with Not, does not. What is not there equals
// nothing.
type When struct {
	Ref    string          `json:"ref"`
	Equals json.RawMessage `json:"equals"`
	Not    bool            `json:"not,omitempty"`
}

// output is the context's name for the phase's result.
func (d PhaseDef) output() string { return cmp.Or(d.Output, d.Name) }

// Kind names the action that is set: its JSON name; empty where it is none or
// several.
func (d PhaseDef) Kind() string {
	if kinds := d.kinds(); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// kinds lists the names of the actions that are set.
func (d PhaseDef) kinds() (names []string) {
	for _, action := range d.actions() {
		names = append(names, action.name)
	}
	return names
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
