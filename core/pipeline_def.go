package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
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

type (
	// StrategyPhase tries approaches until one succeeds (003 Strategy).
	StrategyPhase struct {
		Approaches []Approach `json:"approaches"`
	}
	// PushPhase pushes an item into a queue of the pipeline's tenant. Its result is
	// that of the item where it waits for it.
	PushPhase struct {
		Queue    string          `json:"queue"`
		Data     json.RawMessage `json:"data,omitempty"`
		Priority int32           `json:"priority,omitempty"`
		Key      string          `json:"key,omitempty"`
		DedupKey string          `json:"dedup_key,omitempty"`
		DelayMS  int64           `json:"delay_ms,omitempty"`
		Wait     bool            `json:"wait,omitempty"` // until the item is completed or dead
	}
	// WaitPhase waits for a stretch of time or until an instant: one of them.
	WaitPhase struct {
		ForMS int64  `json:"for_ms,omitempty"`
		Until string `json:"until,omitempty"` // RFC 3339
	}
	// SignalPhase waits for a [PipelineSignal] of that name, whose payload is the
	// result.
	SignalPhase struct {
		Name string `json:"name"`
	}
	// ApprovalPhase waits for a [PipelineApprove].
	ApprovalPhase struct {
		Message string `json:"message,omitempty"`
		Notify  bool   `json:"notify,omitempty"`  // tell somebody that it waits
		Channel string `json:"channel,omitempty"` // of the notification; empty: the default one
	}
	// PipelinesPhase starts other pipelines, or waits for some that there are. Its
	// result is the list of their ids, or, where it waits, of {"id":…,"result":…}
	// in the order in which they were started.
	PipelinesPhase struct {
		Start []PipelineStartDef `json:"start,omitempty"`
		Wait  bool               `json:"wait,omitempty"`
		Await []string           `json:"await,omitempty"` // ids, or references to an id or a list of ids
	}
	// PipelineStartDef is a pipeline to be started.
	PipelineStartDef struct {
		Label      string                     `json:"label,omitempty"`
		Definition PipelineDef                `json:"definition"`
		Context    map[string]json.RawMessage `json:"context,omitempty"` // references are to the starting pipeline's
	}
	// LockPhase waits for a lock, and holds it until an [UnlockPhase] or the
	// pipeline's end. Its result is {"name":…,"token":…}, with the fencing token.
	LockPhase struct {
		Name  string `json:"name"`
		TTLMS int64  `json:"ttl_ms,omitempty"` // 0: until it is released
	}
	// UnlockPhase gives back the lock, or the semaphore's slots, of that name.
	UnlockPhase struct {
		Name string `json:"name"`
	}
	// SemaphorePhase waits for slots of a semaphore, and holds them as a lock.
	SemaphorePhase struct {
		Name  string `json:"name"`
		Slots uint32 `json:"slots,omitempty"` // 0: 1
		TTLMS int64  `json:"ttl_ms,omitempty"`
	}
	// WorktreePhase makes or removes a git worktree.
	WorktreePhase struct {
		Op     WorktreeOp `json:"op"`
		Repo   string     `json:"repo"`
		Branch string     `json:"branch,omitempty"` // add
		Path   string     `json:"path"`
		Base   string     `json:"base,omitempty"`  // add: what a new branch starts from
		Force  bool       `json:"force,omitempty"` // remove: even with changes
	}
	// NotifyPhase tells a person something (003 Notify).
	NotifyPhase struct {
		Title   string `json:"title"`
		Message string `json:"message,omitempty"`
		Sound   bool   `json:"sound,omitempty"`
		Channel string `json:"channel,omitempty"`
	}
	// CheckpointPhase records how far the pipeline has come (003 Checkpoint).
	CheckpointPhase struct {
		Message string `json:"message"`
	}
	// SetPhase puts values into the context.
	SetPhase struct {
		Values map[string]json.RawMessage `json:"values"`
	}
	// ManualPhase ends by [PhaseComplete] or [PhaseFailed] from outside.
	ManualPhase struct {
		Instructions string `json:"instructions,omitempty"`
	}
	// WakePhase wakes a worker (003 WakeWorker).
	WakePhase struct {
		Worker string `json:"worker"`
	}
)

// WorktreeOp says what is done with a worktree.
type WorktreeOp string

// What is done with a worktree.
const (
	WorktreeAdd    WorktreeOp = "add"
	WorktreeRemove WorktreeOp = "remove"
)

// Kind names the action that is set: its JSON name; empty where it is none or
// several.
func (d PhaseDef) Kind() string {
	if kinds := d.kinds(); len(kinds) == 1 {
		return kinds[0]
	}
	return ""
}

// kinds lists the names of the actions that are set.
func (d PhaseDef) kinds() []string {
	var out []string
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"run", d.Run != nil},
		{"task", d.Task != nil},
		{"strategy", d.Strategy != nil},
		{"push", d.Push != nil},
		{"wait", d.Wait != nil},
		{"signal", d.Signal != nil},
		{"approval", d.Approval != nil},
		{"pipelines", d.Pipelines != nil},
		{"lock", d.Lock != nil},
		{"unlock", d.Unlock != nil},
		{"semaphore", d.Semaphore != nil},
		{"worktree", d.Worktree != nil},
		{"merge", d.Merge != nil},
		{"notify", d.Notify != nil},
		{"checkpoint", d.Checkpoint != nil},
		{"set", d.Set != nil},
		{"manual", d.Manual != nil},
		{"wake", d.Wake != nil},
	} {
		if a.set {
			out = append(out, a.name)
		}
	}
	return out
}

// output is the context's name for the phase's result.
func (d PhaseDef) output() string {
	if d.Output != "" {
		return d.Output
	}
	return d.Name
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

// rewrite takes all templates of a phase through w.
func (d PhaseDef) rewrite(w rewriter) PhaseDef {
	d.Run = rewritten(d.Run, w, "run", ToolRun.rewrite)
	d.Task = rewritten(d.Task, w, "task", AgentPrompt.rewrite)
	d.Strategy = rewritten(d.Strategy, w, "strategy", StrategyPhase.rewrite)
	d.Merge = rewritten(d.Merge, w, "merge", MergeRun.rewrite)
	d.Pipelines = rewritten(d.Pipelines, w, "pipelines", PipelinesPhase.rewrite)
	return d.rewriteWaits(w).rewriteRest(w)
}

// rewriteWaits takes the templates of phases that wait through w.
func (d PhaseDef) rewriteWaits(w rewriter) PhaseDef {
	d.Push = rewritten(d.Push, w, "push", func(a PushPhase, w rewriter, f string) PushPhase {
		a.Queue, a.Data = w.text(f+".queue", a.Queue), w.json(f+".data", a.Data)
		a.Key, a.DedupKey = w.text(f+".key", a.Key), w.text(f+".dedup_key", a.DedupKey)
		return a
	})
	d.Wait = rewritten(d.Wait, w, "wait", func(a WaitPhase, w rewriter, f string) WaitPhase {
		a.Until = w.text(f+".until", a.Until)
		return a
	})
	d.Signal = rewritten(d.Signal, w, "signal", func(a SignalPhase, w rewriter, f string) SignalPhase {
		a.Name = w.text(f+".name", a.Name)
		return a
	})
	d.Approval = rewritten(d.Approval, w, "approval", func(a ApprovalPhase, w rewriter, f string) ApprovalPhase {
		a.Message, a.Channel = w.text(f+".message", a.Message), w.text(f+".channel", a.Channel)
		return a
	})
	d.Lock = rewritten(d.Lock, w, "lock", func(a LockPhase, w rewriter, f string) LockPhase {
		a.Name = w.text(f+".name", a.Name)
		return a
	})
	d.Unlock = rewritten(d.Unlock, w, "unlock", func(a UnlockPhase, w rewriter, f string) UnlockPhase {
		a.Name = w.text(f+".name", a.Name)
		return a
	})
	d.Semaphore = rewritten(d.Semaphore, w, "semaphore", func(a SemaphorePhase, w rewriter, f string) SemaphorePhase {
		a.Name = w.text(f+".name", a.Name)
		return a
	})
	return d
}

// rewriteRest takes the templates of all other phases through w.
func (d PhaseDef) rewriteRest(w rewriter) PhaseDef {
	d.Worktree = rewritten(d.Worktree, w, "worktree", func(a WorktreePhase, w rewriter, f string) WorktreePhase {
		a.Repo, a.Branch = w.text(f+".repo", a.Repo), w.text(f+".branch", a.Branch)
		a.Path, a.Base = w.text(f+".path", a.Path), w.text(f+".base", a.Base)
		return a
	})
	d.Notify = rewritten(d.Notify, w, "notify", func(a NotifyPhase, w rewriter, f string) NotifyPhase {
		a.Title, a.Message, a.Channel = w.text(f+".title", a.Title), w.text(f+".message", a.Message), w.text(f+".channel", a.Channel)
		return a
	})
	d.Checkpoint = rewritten(d.Checkpoint, w, "checkpoint", func(a CheckpointPhase, w rewriter, f string) CheckpointPhase {
		a.Message = w.text(f+".message", a.Message)
		return a
	})
	d.Set = rewritten(d.Set, w, "set", func(a SetPhase, w rewriter, f string) SetPhase {
		a.Values = rewriteValues(a.Values, w, f+".values")
		return a
	})
	d.Manual = rewritten(d.Manual, w, "manual", func(a ManualPhase, w rewriter, f string) ManualPhase {
		a.Instructions = w.text(f+".instructions", a.Instructions)
		return a
	})
	d.Wake = rewritten(d.Wake, w, "wake", func(a WakePhase, w rewriter, f string) WakePhase {
		a.Worker = w.text(f+".worker", a.Worker)
		return a
	})
	return d
}

// rewritten applies a rewriting to a copy of what is there.
func rewritten[A any](a *A, w rewriter, field string, rewrite func(A, rewriter, string) A) *A {
	if a == nil {
		return nil
	}
	out := rewrite(*a, w, field)
	return &out
}

func rewriteValues(values map[string]json.RawMessage, w rewriter, field string) map[string]json.RawMessage {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(values))
	for _, name := range contextNames(values) {
		out[name] = w.json(field+"."+name, values[name])
	}
	return out
}

func rewriteTexts(texts []string, w rewriter, field string) []string {
	out := make([]string, 0, len(texts))
	for i, s := range texts {
		out = append(out, w.text(fmt.Sprintf("%s[%d]", field, i), s))
	}
	return slices.Clip(out)
}

func (a ToolRun) rewrite(w rewriter, f string) ToolRun {
	a.Tool, a.Input = w.text(f+".tool", a.Tool), w.json(f+".input", a.Input)
	return a
}

func (a MergeRun) rewrite(w rewriter, f string) MergeRun {
	a.Repo, a.Branch, a.Into = w.text(f+".repo", a.Repo), w.text(f+".branch", a.Branch), w.text(f+".into", a.Into)
	a.Agent = rewritten(a.Agent, w, f+".agent", AgentPrompt.rewrite)
	return a
}

func (a AgentPrompt) rewrite(w rewriter, f string) AgentPrompt {
	a.Prompt, a.Workspace = w.text(f+".prompt", a.Prompt), w.text(f+".workspace", a.Workspace)
	a.Command = rewriteTexts(a.Command, w, f+".command")
	if len(a.Env) > 0 {
		env := make(map[string]string, len(a.Env))
		for _, name := range sortedKeys(a.Env) {
			env[name] = w.text(f+".env."+name, a.Env[name])
		}
		a.Env = env
	}
	return a
}

func (a StrategyPhase) rewrite(w rewriter, f string) StrategyPhase {
	a.Approaches = slices.Clone(a.Approaches)
	for i, approach := range a.Approaches {
		field := fmt.Sprintf("%s.approaches[%d].action", f, i)
		act := approach.Action
		act.Command = rewritten(act.Command, w, field+".command", ToolRun.rewrite)
		act.Merge = rewritten(act.Merge, w, field+".merge", MergeRun.rewrite)
		act.AgentPrompt = rewritten(act.AgentPrompt, w, field+".agent_prompt", AgentPrompt.rewrite)
		a.Approaches[i].Action = act
	}
	return a
}

func (a PipelinesPhase) rewrite(w rewriter, f string) PipelinesPhase {
	a.Start = slices.Clone(a.Start)
	for i, start := range a.Start {
		field := fmt.Sprintf("%s.start[%d]", f, i)
		a.Start[i].Label = w.text(field+".label", start.Label)
		a.Start[i].Context = rewriteValues(start.Context, w, field+".context")
	}
	a.Await = rewriteTexts(a.Await, w, f+".await")
	return a
}

// actionSpec is the child action that a run of a tool stands for.
func (a ToolRun) actionSpec(id uuid.UUID, namespace, tenant, label string, now Time, owner Owner) ActionSpec {
	return ActionSpec{
		ID: id, Namespace: namespace, Tenant: tenant, Label: label, ToolName: a.Tool, ToolInput: a.Input,
		Trigger: Scheduled(min(max(now, effects.MinTime), effects.MaxTime)),
		Policy:  RunPolicy{OnInterrupt: a.OnInterrupt, TimeoutMS: a.TimeoutMS}, Owner: owner,
	}.withDefaults()
}

// taskSpec is the child task that a prompt stands for.
func (a AgentPrompt) taskSpec(id uuid.UUID, namespace, tenant, label string, pipeline uuid.UUID, owner Owner) TaskSpec {
	return TaskSpec{
		ID: id, Namespace: namespace, Tenant: tenant, Label: label, PipelineID: pipeline, Owner: owner,
		Workspace: a.Workspace, Command: a.Command, Env: a.Env, Prompt: a.Prompt, Config: a.Config,
	}
}
