package replay

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// What became of an effect in a step.
const (
	EffectRequested = "requested" // the machine waits for its answer from this step on
	EffectAnswered  = "answered"  // an input of the step is its answer
	EffectWithdrawn = "withdrawn" // the machine waits no more, without an answer
)

// StepEffect is an outer effect for whose answer a machine began or ceased to wait in a step. It follows from the states before and
// after: what was requested and withdrawn within one batch is not told, nor are the events that a machine announced and what it sent to
// other machines, which no state has.
type StepEffect struct {
	What   string
	Effect effects.Outer
}

// Type is the effect's name in its stored form, such as "run_tool".
func (e StepEffect) Type() string {
	var of struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(e.Effect.AppendJSON(nil), &of) // which an effect writes itself
	return of.Type
}

// tellEffects adds to each step what it did to the outer effects that are pending, by the machine's stored states.
func tellEffects(kind effects.Kind, steps []Step) error {
	for i := range steps {
		s := &steps[i]
		after, err := pendingOf(kind, s.After)
		if err != nil {
			return fmt.Errorf("%w: after batch %d: %w", store.ErrCorrupt, s.Seq, err)
		}
		before, err := pendingOf(kind, s.Before)
		if err != nil {
			return fmt.Errorf("%w: before batch %d: %w", store.ErrCorrupt, s.Seq, err)
		}
		for _, e := range before {
			if numbered(after, e.Number()) {
				continue
			}
			what := EffectWithdrawn
			if slices.ContainsFunc(s.Inputs, func(in core.Input) bool { return in.Ack == e.Number() }) {
				what = EffectAnswered
			}
			s.Effects = append(s.Effects, StepEffect{what, e})
		}
		for _, e := range after {
			if !numbered(before, e.Number()) {
				s.Effects = append(s.Effects, StepEffect{EffectRequested, e})
			}
		}
	}
	return nil
}

func numbered(all []effects.Outer, n uint32) bool {
	return slices.ContainsFunc(all, func(e effects.Outer) bool { return e.Number() == n })
}

// pendingOf lists the outer effects for which a machine waits in a state; nil is one without any.
func pendingOf(kind effects.Kind, state []byte) ([]effects.Outer, error) {
	if state == nil || !core.MayAwait(kind) {
		return nil, nil
	}
	s, err := core.DecodeState(kind, state)
	if err != nil {
		return nil, err
	}
	return core.Outstanding(s), nil
}
