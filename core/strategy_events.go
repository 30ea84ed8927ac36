package core

import "encoding/json"

// StrategyEvent is an event of [Strategy]. The set is closed.
//
//sumtype:decl
type StrategyEvent interface {
	Event
	strategyEvent()
}

type (
	// StrategyCreate makes a strategy, whose first approach is due at once. The id
	// must be new.
	StrategyCreate struct {
		Spec StrategySpec `json:"spec"`
	}
	// StrategyDue says that the strategy's deadline has come.
	StrategyDue struct{}
	// StrategyEvaluate says how the present approach came out (003 evaluate),
	// whatever its child or merge, which is abandoned, would have answered.
	StrategyEvaluate struct {
		N       uint32          `json:"n"` // counts the approaches that were begun, from 1
		Success bool            `json:"success"`
		Output  json.RawMessage `json:"output,omitempty"` // of a success: JSON of at most 1 MiB
		Error   string          `json:"error,omitempty"`  // of a failure
	}
	// StrategyCancel ends the strategy, and what it is about.
	StrategyCancel struct {
		Reason string `json:"reason"`
	}
	// StrategyExpire ends the retention of a strategy that has ended.
	StrategyExpire struct{}
)

func (StrategyCreate) strategyEvent()    {}
func (StrategyDue) strategyEvent()       {}
func (StrategyEvaluate) strategyEvent()  {}
func (StrategyCancel) strategyEvent()    {}
func (StrategyExpire) strategyEvent()    {}
func (ChildEnded) strategyEvent()        {}
func (EffectDone) strategyEvent()        {}
func (EffectFailed) strategyEvent()      {}
func (EffectInterrupted) strategyEvent() {}
func (EffectHandedBack) strategyEvent()  {}

func (e StrategyCreate) owner() Owner { return e.Spec.Owner }

// EventType gives the discriminator in the journal.
func (StrategyCreate) EventType() string   { return "create" }
func (StrategyDue) EventType() string      { return "due" }
func (StrategyEvaluate) EventType() string { return "evaluate" }
func (StrategyCancel) EventType() string   { return "cancel" }
func (StrategyExpire) EventType() string   { return "expire" }

func (e StrategyCreate) stored() Event {
	e.Spec = e.Spec.withDefaults() // an input of white space alone would not encode
	return e
}

func (e StrategyEvaluate) stored() Event {
	e.Output, e.Error = trimJSON(e.Output), validText(e.Error)
	if !e.Success { // it is not looked at, and need not be JSON
		e.Output = nil
	}
	return e
}

func (e StrategyCancel) stored() Event { return StrategyCancel{validText(e.Reason)} }

// strategyEvents are the events of Strategy, as the journal has them.
var strategyEvents = []eventType{
	event[StrategyCreate](), event[StrategyDue](), event[StrategyEvaluate](), event[StrategyCancel](), event[StrategyExpire](),
	event[ChildEnded](), event[EffectDone](), event[EffectFailed](), event[EffectInterrupted](), event[EffectHandedBack](),
}
