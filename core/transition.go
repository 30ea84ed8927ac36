package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// transition is the application of one event under way: the instant at which it
// happens, and the effects that have arisen so far. A machine embeds it beside a
// copy of its state; its methods change the copy and add effects:
//
//	type workerTransition struct {
//		transition
//		Worker
//	}
//
//	func (w Worker) Apply(e WorkerEvent, c Clock) (Worker, []effects.Effect) {
//		t := &workerTransition{transition{clock: c, event: e}, w}
//		t.apply(e)
//		return concluded(w, t.Worker, t.transition)
//	}
//
// The copy shares slices and maps with the state from before: a list is replaced,
// never written to.
type transition struct {
	clock   Clock
	event   Event
	effects []effects.Effect
	refusal *effects.Refused
}

// add appends effects, in the order in which they are to happen.
func (t *transition) add(e ...effects.Effect) { t.effects = append(t.effects, e...) }

// send adds an event for another machine.
func (t *transition) send(to effects.Ref, e Event) { t.add(effects.Send{To: to, Event: e}) }

// announce adds an event of the bus (003 Event). The kind's category is the
// component that announces, unless the machine says otherwise.
func (t *transition) announce(category, component, action string, id uuid.UUID, data json.RawMessage) {
	t.add(effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: category, Action: action},
		Source: effects.EventSource{Component: component, ID: id},
		Data:   data,
	}})
}

// refuse makes the event change nothing (R14): what the transition has done so far
// is dropped when it is concluded. The first refusal counts.
func (t *transition) refuse(code effects.Code, format string, args ...any) {
	if t.refusal == nil {
		t.refusal = &effects.Refused{Event: t.event.EventType(), Code: code, Reason: fmt.Sprintf(format, args...)}
	}
}

// answer adds a value for who asked from outside.
func (t *transition) answer(v effects.Value) { t.add(effects.Answer{Value: v}) }

// concluded gives the answer of Apply: the new state with the effects, or, where the
// event was refused, the state from before with the refusal alone. The refusal of a
// machine that does not exist yet names none: the [Batch] does.
func concluded[S State](before, after S, t transition) (S, []effects.Effect) {
	if t.refusal != nil {
		t.refusal.To = before.Ref()
		return before, []effects.Effect{*t.refusal}
	}
	return after, t.effects
}
