package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Limits of a [StrategySpec].
const (
	MaxApproaches = 32 // of a strategy
	MaxFallbacks  = 32 // conditions of an approach
)

// StrategySpec is what a creator says of a strategy.
type StrategySpec struct {
	ID         uuid.UUID  `json:"id"`
	Namespace  string     `json:"namespace"`
	Tenant     string     `json:"tenant"`
	Label      string     `json:"label"`
	PipelineID uuid.UUID  `json:"pipeline_id"` // zero: of no pipeline
	Owner      Owner      `json:"owner"`
	Approaches []Approach `json:"approaches"` // in the order in which they are tried
}

// Approach is one way to reach the goal (003 Approach).
type Approach struct {
	Name       string              `json:"name"` // no other one of the strategy has it
	Action     ApproachAction      `json:"action"`
	FallbackOn []FallbackCondition `json:"fallback_on"` // none: after it nothing is tried
	// TimeoutMS ends the approach, in milliseconds; 0: the shortest time-out among
	// its fallback conditions, or none.
	TimeoutMS int64 `json:"timeout_ms"`
}

// ApproachAction says what an approach does (003 Action): exactly one of its
// members is set.
type ApproachAction struct {
	Command     *ToolRun     `json:"command,omitempty"`      // 003 Command: an action of any tool
	Merge       *MergeRun    `json:"merge,omitempty"`        // 003 MergeStrategy
	AgentPrompt *AgentPrompt `json:"agent_prompt,omitempty"` // 003 AgentPrompt: a task with a session
}

// ToolRun is a run of a tool by a child action.
type ToolRun struct {
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	// OnInterrupt says what becomes of a run whose holder is gone (R3).
	OnInterrupt OnInterrupt `json:"on_interrupt,omitempty"`
}

// MergeRun is a merge of one branch into another.
type MergeRun struct {
	Repo     string                `json:"repo"`
	Branch   string                `json:"branch"`
	Into     string                `json:"into"`
	Strategy effects.MergeStrategy `json:"strategy"`
	Agent    *AgentPrompt          `json:"agent,omitempty"` // strategy agent: who resolves the conflicts
}

// AgentPrompt is a task whose session is given a prompt.
type AgentPrompt struct {
	Prompt    string            `json:"prompt"`
	Command   []string          `json:"command"`
	Workspace string            `json:"workspace"`
	Env       map[string]string `json:"env,omitempty"`
	Config    TaskConfig        `json:"config"`
}

// FallbackCondition says after which failure the next approach is tried (003
// FallbackCondition): exactly one member is set.
type FallbackCondition struct {
	Error    string `json:"error,omitempty"`     // a pattern, see [MatchPattern]
	AnyError bool   `json:"any_error,omitempty"` // a time-out too
	// TimeoutMS: it took at least so many milliseconds, and was ended for it.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// MergeChain is 003's example of a strategy: merge a branch by fast-forward; if
// it is none, by rebase; if that has conflicts, let an agent resolve them.
func MergeChain(repo, branch, into string, agent AgentPrompt) []Approach {
	run := func(strategy effects.MergeStrategy, agent *AgentPrompt) ApproachAction {
		return ApproachAction{Merge: &MergeRun{Repo: repo, Branch: branch, Into: into, Strategy: strategy, Agent: agent}}
	}
	return []Approach{
		{Name: "fast-forward", Action: run(effects.MergeFastForward, nil), FallbackOn: []FallbackCondition{{Error: "not a fast-forward"}}},
		{Name: "rebase", Action: run(effects.MergeRebase, nil), FallbackOn: []FallbackCondition{{Error: "conflict"}}},
		{Name: "agent", Action: run(effects.MergeAgent, &agent)},
	}
}

// limit is how long the approach may take, in milliseconds; 0: for ever.
func (a Approach) limit() int64 {
	ms := a.TimeoutMS
	for _, f := range a.FallbackOn {
		if a.TimeoutMS == 0 && f.TimeoutMS > 0 && (ms == 0 || f.TimeoutMS < ms) {
			ms = f.TimeoutMS
		}
	}
	return ms
}

// fallsBack reports whether the next approach is to be tried after a failure.
func (a Approach) fallsBack(reason string, timedOut bool, tookMS int64) bool {
	return slices.ContainsFunc(a.FallbackOn, func(f FallbackCondition) bool {
		switch {
		case f.AnyError:
			return true
		case f.TimeoutMS > 0:
			return timedOut && tookMS >= f.TimeoutMS
		}
		return f.Error != "" && MatchPattern(f.Error, reason)
	})
}

// withDefaults makes nothing of what is empty, so that JSON changes nothing. It
// writes to none of what it was given.
func (s StrategySpec) withDefaults() StrategySpec {
	s.Approaches = slices.Clone(s.Approaches)
	for i := range s.Approaches {
		a := &s.Approaches[i]
		a.FallbackOn = nilIfEmpty(a.FallbackOn, len(a.FallbackOn))
		if a.Action.Command != nil {
			run := *a.Action.Command
			run.Input = compacted(trimJSON(run.Input)) // the child must be the same in a replay
			run.OnInterrupt = cmp.Or(run.OnInterrupt, InterruptFail)
			a.Action.Command = &run
		}
		if a.Action.Merge != nil {
			run := *a.Action.Merge
			run.Agent = run.Agent.withDefaults()
			a.Action.Merge = &run
		}
		a.Action.AgentPrompt = a.Action.AgentPrompt.withDefaults()
	}
	return s
}

func (a *AgentPrompt) withDefaults() *AgentPrompt {
	if a == nil {
		return nil
	}
	out := *a
	out.Command, out.Env = nilIfEmpty(out.Command, len(out.Command)), nilIfEmpty(out.Env, len(out.Env))
	out.Config = out.Config.withDefaults()
	return &out
}

// Validate tells what is wrong with the spec: the field, its value, and what
// would be right.
func (s StrategySpec) Validate() error {
	switch {
	case s.ID == uuid.Nil:
		return errors.New("id: must be a UUID that is not all zeros")
	case len(s.Approaches) == 0:
		return errors.New("approaches: must not be empty")
	case len(s.Approaches) > MaxApproaches:
		return fmt.Errorf("approaches: %d are more than %d", len(s.Approaches), MaxApproaches)
	}
	err := errors.Join(
		checkTenant("", s.Namespace, s.Tenant),
		checkText("label", s.Label),
		s.Owner.validate(),
	)
	if err != nil {
		return err
	}
	if err := checkApproaches("approaches", s.Approaches, s.checkAction); err != nil {
		return err
	}
	return checkSize("approaches", s.Approaches)
}

// checkApproaches checks a strategy's approaches, and each one's action by checkAction.
func checkApproaches(field string, approaches []Approach, checkAction func(field string, a Approach) error) error {
	for i, a := range approaches {
		at := fmt.Sprintf("%s[%d]", field, i)
		if err := a.validate(at, checkAction); err != nil {
			return err
		}
		if slices.ContainsFunc(approaches[:i], func(b Approach) bool { return a.Name == b.Name }) {
			return fmt.Errorf("%s.name: %q is that of another approach", at, clip(a.Name))
		}
	}
	return nil
}

func (a Approach) validate(field string, checkAction func(field string, a Approach) error) error {
	if err := errors.Join(checkName(field+".name", a.Name, true), checkLengthMS(field+".timeout_ms", a.TimeoutMS)); err != nil {
		return err
	}
	if len(a.FallbackOn) > MaxFallbacks {
		return fmt.Errorf("%s.fallback_on: %d conditions are more than %d", field, len(a.FallbackOn), MaxFallbacks)
	}
	for i, f := range a.FallbackOn {
		if err := f.validate(fmt.Sprintf("%s.fallback_on[%d]", field, i)); err != nil {
			return err
		}
	}
	if howMany(a.Action.Command != nil, a.Action.Merge != nil, a.Action.AgentPrompt != nil) != 1 {
		return fmt.Errorf("%s.action: give exactly one of command, merge and agent_prompt", field)
	}
	return checkAction(field+".action", a)
}

// checkAction finds what could not be started once the approach begins.
func (s StrategySpec) checkAction(field string, a Approach) error {
	switch act := a.Action; {
	case act.Command != nil:
		return checkPart(field+".command", s.child(a, 1, Clock{Now: effects.MinTime}).action(uuid.Max, *act.Command).Validate())
	case act.Merge != nil:
		return s.checkMerge(field+".merge", a)
	}
	return s.checkAgent(field+".agent_prompt", *a.Action.AgentPrompt, a)
}

func (f FallbackCondition) validate(field string) error {
	switch {
	case howMany(f.Error != "", f.AnyError, f.TimeoutMS != 0) != 1:
		return fmt.Errorf("%s: give exactly one of error, any_error and timeout_ms", field)
	case f.Error != "":
		return checkPattern(field+".error", f.Error)
	}
	return checkLengthMS(field+".timeout_ms", f.TimeoutMS)
}

// checkPart says where in the spec what is wrong stands.
func checkPart(field string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

func (s StrategySpec) checkMerge(field string, a Approach) error {
	m := a.Action.Merge
	err := errors.Join(
		checkText(field+".repo", m.Repo),
		checkBranch(field+".branch", m.Branch),
		checkBranch(field+".into", m.Into),
	)
	switch {
	case err != nil:
		return err
	case m.Repo == "" || slices.Contains(strings.Split(m.Repo, "/"), ".."):
		return fmt.Errorf("%s.repo: %q is no path under the workspace root", field, clip(m.Repo))
	case m.Branch == m.Into:
		return fmt.Errorf("%s.into: %q is the branch itself", field, clip(m.Into))
	}
	return m.checkStrategy(field, func(field string) error { return s.checkAgent(field, m.prompt(), a) })
}

// checkStrategy checks how the branch is merged, and the agent, where there must be one.
func (a MergeRun) checkStrategy(field string, checkAgent func(field string) error) error {
	switch err := checkOneOf(field+".strategy", a.Strategy, effects.MergeFastForward, effects.MergeRebase, effects.MergeAgent); {
	case err != nil:
		return err
	case a.Strategy == effects.MergeAgent && a.Agent == nil:
		return fmt.Errorf("%s.agent: missing: strategy %q needs one that resolves the conflicts", field, a.Strategy)
	case a.Strategy == effects.MergeAgent:
		return checkAgent(field + ".agent")
	case a.Agent != nil:
		return fmt.Errorf("%s.agent: strategy %q has none", field, a.Strategy)
	}
	return nil
}

func (s StrategySpec) checkAgent(field string, p AgentPrompt, a Approach) error {
	if len(p.Command) == 0 {
		return fmt.Errorf("%s.command: must not be empty: a prompt needs a session", field)
	}
	return checkPart(field, s.child(a, 1, Clock{}).task(uuid.Max, p).Validate())
}

// checkBranch refuses what git would read as an option, or as no branch at all;
// the rest git knows best.
func checkBranch(field, v string) error {
	if err := checkName(field, v, true); err != nil {
		return err
	}
	if strings.HasPrefix(v, "-") || strings.Contains(v, "..") || strings.ContainsAny(v, " ~^:?*[\\") {
		return fmt.Errorf("%s: %q is no name of a branch", field, clip(v))
	}
	return nil
}

// prompt is what an agent that merges is told: the task, then what the creator
// adds.
func (a MergeRun) prompt() AgentPrompt {
	p := *a.Agent
	text := fmt.Sprintf("Merge branch %s into %s of the repository %s: rebase %s onto %s, resolve the conflicts, commit all, "+
		"and leave %s itself as it is: it is moved on for you.", a.Branch, a.Into, a.Repo, a.Branch, a.Into, a.Into)
	if p.Prompt != "" {
		text += "\n\n" + p.Prompt
	}
	p.Prompt = text
	return p
}

// child is what the strategy says of the machine that does an approach.
func (s StrategySpec) child(a Approach, n uint32, c Clock) child {
	owner := Owner{Ref: effects.Ref{Kind: KindStrategy, ID: s.ID}, N: n}
	return child{s.Namespace, s.Tenant, s.labelOf(a), s.PipelineID, owner, c}
}

// labelOf names an approach's child to a reader.
func (s StrategySpec) labelOf(a Approach) string {
	if s.Label == "" {
		return a.Name
	}
	return firstText(s.Label + ": " + a.Name)
}
