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
	// whatever its child or merge, which is given up, would have answered.
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

// EventType gives the discriminator.
func (StrategyCreate) EventType() string { return typeCreate }

// EventType gives the discriminator.
func (StrategyDue) EventType() string { return typeDue }

// EventType gives the discriminator.
func (StrategyEvaluate) EventType() string { return "evaluate" }

// EventType gives the discriminator.
func (StrategyCancel) EventType() string { return typeCancel }

// EventType gives the discriminator.
func (StrategyExpire) EventType() string { return typeExpire }

// AppendJSON appends the journal form.
func (e StrategyCreate) AppendJSON(b []byte) []byte {
	e.Spec = e.Spec.withDefaults() // an input of white space alone would not encode
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e StrategyDue) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e StrategyEvaluate) AppendJSON(b []byte) []byte {
	e.Output, e.Error = trimJSON(e.Output), validText(e.Error)
	if !e.Success { // it is not looked at, and need not be JSON
		e.Output = nil
	}
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e StrategyCancel) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e StrategyExpire) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

func decodeStrategyEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case StrategyCreate{}.EventType():
		return decodeAs[StrategyCreate](b)
	case StrategyDue{}.EventType():
		return StrategyDue{}, nil
	case StrategyEvaluate{}.EventType():
		return decodeAs[StrategyEvaluate](b)
	case StrategyCancel{}.EventType():
		return decodeAs[StrategyCancel](b)
	case StrategyExpire{}.EventType():
		return StrategyExpire{}, nil
	}
	return decodeShared[StrategyEvent](typ, b)
}
