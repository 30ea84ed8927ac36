package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// Events that machines of several kinds take: answers to what they asked for.
type (
	// ChildEnded tells an owner that a machine which it made has ended.
	ChildEnded struct {
		Child   effects.Ref     `json:"child"`
		N       uint32          `json:"n"` // the [Owner]'s number
		Outcome ChildOutcome    `json:"outcome"`
		Result  json.RawMessage `json:"result,omitempty"`
		Reason  string          `json:"reason,omitempty"`
		// Interrupted: nobody knows how far it came, and what it did must not be
		// repeated unless a person says so ([InterruptFail]).
		Interrupted bool `json:"interrupted,omitempty"`
		// Permanent: it failed so that to make it once more is pointless.
		Permanent bool `json:"permanent,omitempty"`
	}
	// EffectDone answers an outer effect that succeeded.
	EffectDone struct {
		N      uint32          `json:"n"`
		Result json.RawMessage `json:"result,omitempty"`
	}
	// EffectFailed answers an outer effect that failed.
	EffectFailed struct {
		N         uint32          `json:"n"`
		Reason    string          `json:"reason"`
		Result    json.RawMessage `json:"result,omitempty"`    // what there is nevertheless
		Permanent bool            `json:"permanent,omitempty"` // trying again is pointless
	}
	// EffectInterrupted says that the holder of an outer effect is gone, so that
	// nobody knows how far it came (A9).
	EffectInterrupted struct {
		N      uint32 `json:"n"`
		Reason string `json:"reason"`
	}
	// EffectHandedBack gives back an outer effect that certainly was not begun.
	EffectHandedBack struct {
		N uint32 `json:"n"`
	}
	// Granted says that a lock, or slots of a semaphore, are held from now on.
	Granted struct {
		N     uint32 `json:"n"`     // the number under which it was asked for
		Name  string `json:"name"`  // of the lock or semaphore
		Token uint64 `json:"token"` // grows with each grant of that name: a fencing token
		Until Time   `json:"until"` // the lease lapses then; 0: never
	}
	// Lost says that a lock, or slots of a semaphore, that were held or waited for
	// are so no longer: the lease lapsed, or they were taken away.
	Lost struct {
		N      uint32 `json:"n"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
)

// EventType gives the discriminator.
func (ChildEnded) EventType() string { return "child_ended" }

// EventType gives the discriminator.
func (EffectDone) EventType() string { return "effect_done" }

// EventType gives the discriminator.
func (EffectFailed) EventType() string { return "effect_failed" }

// EventType gives the discriminator.
func (EffectInterrupted) EventType() string { return "effect_interrupted" }

// EventType gives the discriminator.
func (EffectHandedBack) EventType() string { return "effect_handed_back" }

// EventType gives the discriminator.
func (Granted) EventType() string { return "granted" }

// EventType gives the discriminator.
func (Lost) EventType() string { return "lost" }

// AppendJSON appends the journal form.
func (e ChildEnded) AppendJSON(b []byte) []byte {
	e.Result, e.Reason = storedResult(e.Result), validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectDone) AppendJSON(b []byte) []byte {
	e.Result = storedResult(e.Result)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectFailed) AppendJSON(b []byte) []byte {
	e.Result, e.Reason = storedResult(e.Result), validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectInterrupted) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e EffectHandedBack) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e Granted) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e Lost) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// decodeShared reads an event that several machines take; nil where the type is
// none of those that this one takes.
func decodeShared[E Event](typ string, b []byte) (Event, error) {
	e, err := decodeAnyShared(typ, b)
	if own, ok := e.(E); ok {
		return own, err
	}
	return nil, nil
}

func decodeAnyShared(typ string, b []byte) (Event, error) {
	switch typ {
	case ChildEnded{}.EventType():
		return decodeAs[ChildEnded](b)
	case EffectDone{}.EventType():
		return decodeAs[EffectDone](b)
	case EffectFailed{}.EventType():
		return decodeAs[EffectFailed](b)
	case EffectInterrupted{}.EventType():
		return decodeAs[EffectInterrupted](b)
	case EffectHandedBack{}.EventType():
		return decodeAs[EffectHandedBack](b)
	case Granted{}.EventType():
		return decodeAs[Granted](b)
	case Lost{}.EventType():
		return decodeAs[Lost](b)
	}
	return nil, nil
}

// decodeAs reads an event whose members are its exported fields.
func decodeAs[E Event](b []byte) (Event, error) {
	var e E
	err := json.Unmarshal(b, &e)
	return e, err
}

// appendEvent appends an event whose members are its exported fields.
func appendEvent(b []byte, typ string, e any) []byte {
	fields, err := json.Marshal(e)
	if err != nil || len(fields) <= 2 { // a payload that is not JSON: keep the event readable, it will be refused
		return bare(b, typ)
	}
	b = append(b, `{"type":"`...)
	b = append(b, typ...)
	b = append(b, '"', ',')
	return append(b, fields[1:]...)
}
