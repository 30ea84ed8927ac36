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
		// Limited: it was refused since its tenant has as many as its limit allows
		// ([Batch.Bound]): to make it later is not pointless.
		Limited bool `json:"limited,omitempty"`
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

// EventType gives the discriminator in the journal.
func (ChildEnded) EventType() string        { return "child_ended" }
func (EffectDone) EventType() string        { return "effect_done" }
func (EffectFailed) EventType() string      { return "effect_failed" }
func (EffectInterrupted) EventType() string { return "effect_interrupted" }
func (EffectHandedBack) EventType() string  { return "effect_handed_back" }
func (Granted) EventType() string           { return "granted" }
func (Lost) EventType() string              { return "lost" }

func (e ChildEnded) stored() Event {
	e.Result, e.Reason = storedResult(e.Result), validText(e.Reason)
	return e
}

func (e EffectDone) stored() Event { return EffectDone{e.N, storedResult(e.Result)} }
func (e EffectFailed) stored() Event {
	return EffectFailed{e.N, validText(e.Reason), storedResult(e.Result), e.Permanent}
}
func (e EffectInterrupted) stored() Event { return EffectInterrupted{e.N, validText(e.Reason)} }
func (e Lost) stored() Event              { return Lost{e.N, e.Name, validText(e.Reason)} }
