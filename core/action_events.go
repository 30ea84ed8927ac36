package core

import (
	"encoding/json"
)

// ActionEvent is an event of [Action]. The set is closed.
//
//sumtype:decl
type ActionEvent interface {
	Event
	actionEvent()
}

type (
	// ActionCreate makes an action. The id must be new.
	ActionCreate struct {
		Spec ActionSpec `json:"spec"`
		// Whole: somebody, or a backfill, has asked a schedule for just this action, so that a
		// refusal undoes all that was done for it.
		Whole bool `json:"whole,omitempty"`
	}
	// ActionDue says that the action's time has come.
	ActionDue struct {
		// Absences are those in which the times of a recurring action came, in order. The engine
		// gives them, see [Informed].
		Absences []Absence `json:"absences,omitempty"`
	}
	// ActionTrigger runs a pending action now, whatever its time.
	ActionTrigger struct{}
	// ActionCancel ends an action that is pending or running.
	ActionCancel struct {
		Reason string     `json:"reason"`
		Mode   CancelMode `json:"mode,omitempty"`
	}
	// ActionComplete answers a run that succeeded.
	ActionComplete struct {
		Run    uint32          `json:"run"`
		Result json.RawMessage `json:"result"`
	}
	// ActionFail answers a run that failed. A Result that cannot be stored is left
	// out.
	ActionFail struct {
		Run    uint32          `json:"run"`
		Reason string          `json:"reason"`
		Result json.RawMessage `json:"result"` // what the tool gave nevertheless; may be empty
		// Permanent says that trying again is pointless, TimedOut that the run reached its time limit.
		Permanent bool `json:"permanent"`
		TimedOut  bool `json:"timed_out"`
		// RetryAfterMS is how long the other side asks to be left alone, in milliseconds.
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	// ActionInterrupt says that a run's holder is gone, so that nobody knows how
	// far it came (A9).
	ActionInterrupt struct {
		Run    uint32 `json:"run"`
		Reason string `json:"reason"`
	}
	// ActionHandBack gives back a run that certainly was not begun.
	ActionHandBack struct {
		Run uint32 `json:"run"`
	}
	// ActionExpire ends the retention of a finished action.
	ActionExpire struct{}
)

func (ActionCreate) actionEvent()    {}
func (ActionDue) actionEvent()       {}
func (ActionTrigger) actionEvent()   {}
func (ActionCancel) actionEvent()    {}
func (ActionComplete) actionEvent()  {}
func (ActionFail) actionEvent()      {}
func (ActionInterrupt) actionEvent() {}
func (ActionHandBack) actionEvent()  {}
func (ActionExpire) actionEvent()    {}

// belongsToDispatch: an owner is told of the refusal instead.
func (e ActionCreate) belongsToDispatch() bool { return e.Spec.Owner.IsZero() || e.Whole }

func (e ActionCreate) owner() Owner { return e.Spec.Owner }

// EventType gives the discriminator in the journal.
func (ActionCreate) EventType() string    { return "create" }
func (ActionDue) EventType() string       { return "due" }
func (ActionTrigger) EventType() string   { return "trigger" }
func (ActionCancel) EventType() string    { return "cancel" }
func (ActionComplete) EventType() string  { return "complete" }
func (ActionFail) EventType() string      { return "fail" }
func (ActionInterrupt) EventType() string { return "interrupt" }
func (ActionHandBack) EventType() string  { return "hand_back" }
func (ActionExpire) EventType() string    { return "expire" }

// actionEvents are the events of an action, as the journal has them.
var actionEvents = []eventType{
	event[ActionCreate](), event[ActionDue](), event[ActionTrigger](), event[ActionCancel](), event[ActionComplete](),
	event[ActionFail](), event[ActionInterrupt](), event[ActionHandBack](), event[ActionExpire](),
}

// appendFields: see [AppendEvent]. All that an action is told is hot.
func (e ActionDue) appendFields(o object) object {
	o.absences(e.Absences)
	return o
}

func (e ActionCreate) appendFields(o object) object {
	o.value("spec", e.Spec.AppendJSON)
	if e.Whole {
		o.bool("whole", true)
	}
	return o
}

func (e ActionCancel) appendFields(o object) object {
	o.str("reason", e.Reason)
	if e.Mode != CancelNow {
		o.str("mode", string(e.Mode))
	}
	return o
}

func (e ActionComplete) appendFields(o object) object {
	o.num("run", uint64(e.Run))
	if storable(e.Result) {
		o.raw("result", e.Result)
	} else {
		o.str("invalid_result", string(e.Result))
	}
	return o
}

func (e ActionFail) appendFields(o object) object {
	o = o.runReason(e.Run, e.Reason)
	if result := storedResult(e.Result); result != nil {
		o.raw("result", result)
	}
	if e.Permanent {
		o.bool("permanent", true)
	}
	if e.TimedOut {
		o.bool("timed_out", true)
	}
	if e.RetryAfterMS != 0 {
		o.int("retry_after_ms", e.RetryAfterMS)
	}
	return o
}

func (e ActionInterrupt) appendFields(o object) object { return o.runReason(e.Run, e.Reason) }

func (e ActionHandBack) appendFields(o object) object {
	o.num("run", uint64(e.Run))
	return o
}

// UnmarshalJSON reads also a result that could not be stored as it was.
func (e *ActionComplete) UnmarshalJSON(b []byte) error {
	type fields ActionComplete
	var w struct {
		fields
		Invalid *string `json:"invalid_result"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if w.Invalid != nil {
		w.Result = json.RawMessage(*w.Invalid)
	}
	*e = ActionComplete(w.fields)
	return nil
}

// runReason appends what the events have that end a run in failure.
func (o object) runReason(run uint32, reason string) object {
	o.num("run", uint64(run))
	o.str("reason", reason)
	return o
}
