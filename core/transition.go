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
	t.add(announcement(category, component, action, id, data))
}

func announcement(category, component, action string, id uuid.UUID, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: category, Action: action},
		Source: effects.EventSource{Component: component, ID: id},
		Data:   data,
	}}
}

// announcementTexts makes the data of an announcement of texts, given as name and value by turns.
func announcementTexts(pairs ...string) json.RawMessage {
	o := begin(nil)
	for i := 0; i+1 < len(pairs); i += 2 {
		o.str(pairs[i], pairs[i+1])
	}
	return o.end()
}

// announcementData encodes the data of an announcement: strings, numbers and times
// always do.
func announcementData(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// refuse makes the event change nothing (R14): what the transition has done so far
// is dropped when it is concluded. The first refusal counts.
func (t *transition) refuse(code effects.Code, format string, args ...any) {
	if t.refusal == nil {
		t.refusal = &effects.Refused{Event: t.event.EventType(), Code: code, Reason: fmt.Sprintf(format, args...)}
	}
}

// conflict refuses what does not go with the present state.
func (t *transition) conflict(format string, args ...any) {
	t.refuse(effects.CodeConflict, format, args...)
}

// invalid refuses an event for what is wrong with it, if anything is.
func (t *transition) invalid(err error) bool {
	if err != nil {
		t.refuse(effects.CodeInvalid, "%s", err)
	}
	return err != nil
}

// isDue reports whether the deadline of that machine has come, and refuses the due event
// otherwise.
func (t *transition) isDue(machine string, deadline Time) bool {
	switch {
	case deadline.IsZero():
		t.conflict("%s waits for no time", machine)
	case deadline.After(t.clock.Now):
		t.conflict("%s is due at %s, after %s", machine, deadline, t.clock.Now)
	default:
		return true
	}
	return false
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
