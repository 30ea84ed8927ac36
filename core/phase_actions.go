package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

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

// phaseAction is what a phase does.
type phaseAction interface {
	// rewrite takes the templates of the action, which stands at that field, through w.
	rewrite(w rewriter, field string)
	// validate checks what of the action is no template.
	validate(field string) error
}

// namedAction is an action that is set, with its JSON name.
type namedAction struct {
	name string
	phaseAction
}

// actions lists the actions that are set: copies of them, which the phase may write to.
func (d *PhaseDef) actions() (set []namedAction) {
	addAction(&set, "run", &d.Run)
	addAction(&set, "task", &d.Task)
	addAction(&set, "strategy", &d.Strategy)
	addAction(&set, "push", &d.Push)
	addAction(&set, "wait", &d.Wait)
	addAction(&set, "signal", &d.Signal)
	addAction(&set, "approval", &d.Approval)
	addAction(&set, "pipelines", &d.Pipelines)
	addAction(&set, "lock", &d.Lock)
	addAction(&set, "unlock", &d.Unlock)
	addAction(&set, "semaphore", &d.Semaphore)
	addAction(&set, "worktree", &d.Worktree)
	addAction(&set, "merge", &d.Merge)
	addAction(&set, "notify", &d.Notify)
	addAction(&set, "checkpoint", &d.Checkpoint)
	addAction(&set, "set", &d.Set)
	addAction(&set, "manual", &d.Manual)
	addAction(&set, "wake", &d.Wake)
	return set
}

func addAction[A any, P interface {
	*A
	phaseAction
}](set *[]namedAction, name string, action *P,
) {
	if *action != nil {
		own := **action
		*action = &own
		*set = append(*set, namedAction{name, *action})
	}
}

// rewrite takes all templates of a phase through w.
func (d PhaseDef) rewrite(w rewriter) PhaseDef {
	for _, action := range d.actions() {
		action.rewrite(w, action.name)
	}
	return d
}

// checkAction checks what of the action is no template.
func (d PhaseDef) checkAction(where string) error {
	for _, action := range d.actions() {
		return action.validate(where + action.name)
	}
	return nil
}

func (a *ToolRun) rewrite(w rewriter, f string) {
	a.Tool, a.Input = w.text(f+".tool", a.Tool), w.json(f+".input", a.Input)
}

func (a *ToolRun) validate(field string) error {
	if err := checkName(field+".tool", a.Tool, true); err != nil {
		return err
	}
	return checkPart(field, RunPolicy{OnInterrupt: a.OnInterrupt, TimeoutMS: a.TimeoutMS}.withDefaults().validate())
}

func (a *AgentPrompt) rewrite(w rewriter, f string) {
	a.Prompt, a.Workspace = w.text(f+".prompt", a.Prompt), w.text(f+".workspace", a.Workspace)
	a.Command = rewriteTexts(a.Command, w, f+".command")
	a.Env = rewriteMap(a.Env, f+".env", w.text)
}

func (a *AgentPrompt) validate(field string) error {
	switch {
	case len(a.Command) > MaxCommandArgs:
		return fmt.Errorf("%s.command: %d arguments are more than %d", field, len(a.Command), MaxCommandArgs)
	case len(a.Env) > MaxMapEntries:
		return fmt.Errorf("%s.env: %d entries are more than %d", field, len(a.Env), MaxMapEntries)
	}
	return checkPart(field, a.Config.withDefaults().validate())
}

// validateSession checks an agent that needs a session.
func (a *AgentPrompt) validateSession(field string) error {
	if len(a.Command) == 0 {
		return fmt.Errorf("%s.command: must not be empty: a prompt needs a session", field)
	}
	return a.validate(field)
}

func (a *StrategyPhase) rewrite(w rewriter, f string) {
	a.Approaches = slices.Clone(a.Approaches)
	for i := range a.Approaches {
		action, field := &a.Approaches[i].Action, fmt.Sprintf("%s.approaches[%d].action", f, i)
		rewritePart(&action.Command, w, field+".command")
		rewritePart(&action.Merge, w, field+".merge")
		rewritePart(&action.AgentPrompt, w, field+".agent_prompt")
	}
}

func (a *StrategyPhase) validate(field string) error {
	if n := len(a.Approaches); n == 0 || n > MaxApproaches {
		return fmt.Errorf("%s.approaches: %d are not between 1 and %d", field, n, MaxApproaches)
	}
	return checkApproaches(field+".approaches", a.Approaches, func(field string, a Approach) error { return a.Action.check(field) })
}

// check finds what could not be started once the approach begins.
func (a ApproachAction) check(field string) error {
	switch {
	case a.Command != nil:
		return a.Command.validate(field + ".command")
	case a.AgentPrompt != nil:
		return a.AgentPrompt.validateSession(field + ".agent_prompt")
	}
	return a.Merge.checkStrategy(field+".merge", a.Merge.Agent.validateSession)
}

func (a *PushPhase) rewrite(w rewriter, f string) {
	a.Queue, a.Data = w.text(f+".queue", a.Queue), w.json(f+".data", a.Data)
	a.Key, a.DedupKey = w.text(f+".key", a.Key), w.text(f+".dedup_key", a.DedupKey)
}

func (a *PushPhase) validate(field string) error {
	return errors.Join(checkName(field+".queue", a.Queue, true), checkLengthMS(field+".delay_ms", a.DelayMS))
}

func (a *WaitPhase) rewrite(w rewriter, f string) { a.Until = w.text(f+".until", a.Until) }

func (a *WaitPhase) validate(field string) error {
	if (a.ForMS != 0) == (a.Until != "") {
		return fmt.Errorf("%s: give one of for_ms and until", field)
	}
	if err := checkLengthMS(field+".for_ms", a.ForMS); err != nil || a.Until == "" || strings.Contains(a.Until, "${") {
		return err
	}
	_, err := effects.ParseTime(a.Until)
	return checkPart(field+".until", err)
}

func (a *SignalPhase) rewrite(w rewriter, f string) { a.Name = w.text(f+".name", a.Name) }
func (a *SignalPhase) validate(field string) error  { return checkName(field+".name", a.Name, true) }

func (a *ApprovalPhase) rewrite(w rewriter, f string) {
	a.Message, a.Channel = w.text(f+".message", a.Message), w.text(f+".channel", a.Channel)
}

func (a *ApprovalPhase) validate(string) error { return nil }

func (a *PipelinesPhase) rewrite(w rewriter, f string) {
	a.Start = slices.Clone(a.Start)
	for i, start := range a.Start {
		field := fmt.Sprintf("%s.start[%d]", f, i)
		a.Start[i].Label = w.text(field+".label", start.Label)
		a.Start[i].Context = rewriteMap(start.Context, field+".context", w.json)
	}
	a.Await = rewriteTexts(a.Await, w, f+".await")
}

func (a *PipelinesPhase) validate(field string) error {
	n := len(a.Start) + len(a.Await)
	switch {
	case n == 0 || n > MaxChildPipelines:
		return fmt.Errorf("%s: %d pipelines are not between 1 and %d", field, n, MaxChildPipelines)
	case len(a.Start) > 0 && len(a.Await) > 0:
		return fmt.Errorf("%s: give one of start and await: another phase for the other", field)
	}
	for i, start := range a.Start {
		at := fmt.Sprintf("%s.start[%d]", field, i)
		if err := checkContextNames(at+".context", start.Context); err != nil {
			return err
		}
		if err := start.Definition.ValidateWith(sortedKeys(start.Context)...); err != nil {
			return fmt.Errorf("%s.definition: %w", at, err)
		}
	}
	for i, id := range a.Await {
		if strings.Contains(id, "${") {
			continue
		}
		if _, err := pipelineIDs([]string{id}); err != nil {
			return fmt.Errorf("%s.await[%d]: %w", field, i, err)
		}
	}
	return nil
}

func (a *LockPhase) rewrite(w rewriter, f string) { a.Name = w.text(f+".name", a.Name) }

func (a *LockPhase) validate(field string) error {
	return errors.Join(checkName(field+".name", a.Name, true), checkLengthMS(field+".ttl_ms", a.TTLMS))
}

func (a *UnlockPhase) rewrite(w rewriter, f string) { a.Name = w.text(f+".name", a.Name) }
func (a *UnlockPhase) validate(field string) error  { return checkName(field+".name", a.Name, true) }

func (a *SemaphorePhase) rewrite(w rewriter, f string) { a.Name = w.text(f+".name", a.Name) }

func (a *SemaphorePhase) validate(field string) error {
	return errors.Join(checkName(field+".name", a.Name, true), checkLengthMS(field+".ttl_ms", a.TTLMS))
}

func (a *WorktreePhase) rewrite(w rewriter, f string) {
	a.Repo, a.Branch = w.text(f+".repo", a.Repo), w.text(f+".branch", a.Branch)
	a.Path, a.Base = w.text(f+".path", a.Path), w.text(f+".base", a.Base)
}

func (a *WorktreePhase) validate(field string) error {
	err := cmp.Or(
		checkOneOf(field+".op", a.Op, WorktreeAdd, WorktreeRemove),
		checkGiven(field, "repo", a.Repo, "path", a.Path),
	)
	if err != nil || a.Op != WorktreeAdd {
		return err
	}
	return checkGiven(field, "branch", a.Branch)
}

func (a *MergeRun) rewrite(w rewriter, f string) {
	a.Repo, a.Branch, a.Into = w.text(f+".repo", a.Repo), w.text(f+".branch", a.Branch), w.text(f+".into", a.Into)
	rewritePart(&a.Agent, w, f+".agent")
}

// validate checks a merge outside of a strategy.
func (a *MergeRun) validate(field string) error {
	switch {
	case a.Strategy != effects.MergeFastForward && a.Strategy != effects.MergeRebase:
		return fmt.Errorf("%s.strategy: %q is not %q or %q: an agent merges within a strategy phase", field, clip(string(a.Strategy)), effects.MergeFastForward, effects.MergeRebase)
	case a.Agent != nil:
		return fmt.Errorf("%s.agent: an agent merges within a strategy phase", field)
	}
	return checkGiven(field, "repo", a.Repo, "branch", a.Branch, "into", a.Into)
}

func (a *NotifyPhase) rewrite(w rewriter, f string) {
	a.Title, a.Message, a.Channel = w.text(f+".title", a.Title), w.text(f+".message", a.Message), w.text(f+".channel", a.Channel)
}

func (a *NotifyPhase) validate(field string) error { return checkName(field+".title", a.Title, true) }

func (a *CheckpointPhase) rewrite(w rewriter, f string) { a.Message = w.text(f+".message", a.Message) }

func (a *CheckpointPhase) validate(field string) error {
	return checkGiven(field, "message", a.Message)
}

func (a *SetPhase) rewrite(w rewriter, f string) {
	a.Values = rewriteMap(a.Values, f+".values", w.json)
}

func (a *SetPhase) validate(field string) error {
	if n := len(a.Values); n == 0 || n > MaxMapEntries {
		return fmt.Errorf("%s.values: %d are not between 1 and %d", field, n, MaxMapEntries)
	}
	return nil
}

func (a *ManualPhase) rewrite(w rewriter, f string) {
	a.Instructions = w.text(f+".instructions", a.Instructions)
}

func (a *ManualPhase) validate(string) error { return nil }

func (a *WakePhase) rewrite(w rewriter, f string) { a.Worker = w.text(f+".worker", a.Worker) }
func (a *WakePhase) validate(field string) error  { return checkName(field+".worker", a.Worker, true) }

// checkGiven refuses the first of some texts that is empty; they are given as name and
// value by turns.
func checkGiven(field string, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return fmt.Errorf("%s.%s: must not be empty", field, pairs[i])
		}
	}
	return nil
}

// rewritePart takes the templates of a part, if there is one, through w: in a copy of it.
func rewritePart[A any, P interface {
	*A
	rewrite(w rewriter, field string)
}](part *P, w rewriter, field string,
) {
	if *part != nil {
		own := **part
		*part = &own
		(*part).rewrite(w, field)
	}
}

// rewriteMap rewrites the values of a map, in the order of their names; nil if it is empty.
func rewriteMap[V any](values map[string]V, field string, rewrite func(field string, v V) V) map[string]V {
	out := make(map[string]V, len(values))
	for _, name := range sortedKeys(values) {
		out[name] = rewrite(field+"."+name, values[name])
	}
	return nilIfEmpty(out, len(out))
}

func rewriteTexts(texts []string, w rewriter, field string) []string {
	out := make([]string, 0, len(texts))
	for i, s := range texts {
		out = append(out, w.text(fmt.Sprintf("%s[%d]", field, i), s))
	}
	return slices.Clip(out)
}
