package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Strategy is a stub.
type Strategy struct {
	ID uuid.UUID `json:"id"`
}

// StrategySpec is what a creator says of a strategy.
type StrategySpec struct {
	ID         uuid.UUID  `json:"id"`
	Namespace  string     `json:"namespace"`
	Tenant     string     `json:"tenant"`
	Label      string     `json:"label"`
	PipelineID uuid.UUID  `json:"pipeline_id"` // zero: of no pipeline
	Owner      Owner      `json:"owner"`
	Approaches []Approach `json:"approaches"`
}

// Approach is one way to reach the goal (003 Approach).
type Approach struct {
	Name       string              `json:"name"`
	Action     ApproachAction      `json:"action"`
	FallbackOn []FallbackCondition `json:"fallback_on"`
	TimeoutMS  int64               `json:"timeout_ms"` // 0: that of the fallback's timeout condition, or none
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
	Error     string `json:"error,omitempty"` // a pattern, see [MatchPattern]
	AnyError  bool   `json:"any_error,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // it took longer
}

// StrategyEvent is an event of [Strategy]. The set is closed.
//
//sumtype:decl
type StrategyEvent interface {
	Event
	strategyEvent()
}

func (ChildEnded) strategyEvent()        {}
func (EffectDone) strategyEvent()        {}
func (EffectFailed) strategyEvent()      {}
func (EffectInterrupted) strategyEvent() {}
func (EffectHandedBack) strategyEvent()  {}

// Apply carries out one transition.
func (s Strategy) Apply(e StrategyEvent, c Clock) (Strategy, []effects.Effect) {
	return s, s.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the strategy.
func (s Strategy) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindStrategy, ID: s.ID}
}

// Deadline is none.
func (s Strategy) Deadline() Time { return 0 }

// Terms lists the strategy under all.
func (s Strategy) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (s Strategy) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Strategy) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(StrategyEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a strategy takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Strategy) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindStrategy, ID: s.ID}, e, code, reason)
}

func decodeStrategyEvent(typ string, b []byte) (Event, error) {
	switch typ {
	}
	return decodeShared(typ, b)
}
