package core

import (
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// PendingEffects numbers the outer effects of a machine and keeps those that were not
// answered, in the order in which they were asked for.
type PendingEffects struct {
	Last uint32          `json:"last"` // the number of the last one
	Open []PendingEffect `json:"open"`
}

// PendingEffect is an outer effect that a machine waits for.
type PendingEffect struct {
	Effect effects.Outer
}

// MarshalJSON encodes the effect's stored form.
func (o PendingEffect) MarshalJSON() ([]byte, error) { return o.Effect.AppendJSON(nil), nil }

// UnmarshalJSON decodes it.
func (o *PendingEffect) UnmarshalJSON(b []byte) (err error) {
	o.Effect, err = effects.DecodeOuter(b)
	return err
}

// next is the number that the next effect is to carry.
func (a PendingEffects) next() uint32 { return a.Last + 1 }

// ask notes an effect that carries the next number.
func (a PendingEffects) ask(e effects.Outer) PendingEffects {
	a.Last = e.Number()
	a.Open = append(slices.Clip(a.Open), PendingEffect{Effect: e})
	return a
}

// answered forgets the effect with that number, and gives it; nil where nobody
// waits for it.
func (a PendingEffects) answered(n uint32) (PendingEffects, effects.Outer) {
	i := slices.IndexFunc(a.Open, func(o PendingEffect) bool { return o.Effect.Number() == n })
	if i < 0 {
		return a, nil
	}
	e := a.Open[i].Effect
	a.Open = without(a.Open, i)
	return a, e
}

// withdrawn takes back all that was not answered.
func (a PendingEffects) withdrawn() (PendingEffects, []effects.Effect) {
	var effs []effects.Effect
	for _, o := range a.Open {
		effs = append(effs, effects.Withdraw{N: o.Effect.Number()})
	}
	a.Open = nil
	return a, effs
}

func (a PendingEffects) outstanding() []effects.Outer {
	out := make([]effects.Outer, 0, len(a.Open))
	for _, o := range a.Open {
		out = append(out, o.Effect)
	}
	return out
}

// effectHandler is the transition of a machine that requests outer effects: what it
// does with the answer to one of them, which is pending no longer.
type effectHandler interface {
	effectDone(of effects.Outer, e EffectDone)
	effectFailed(of effects.Outer, e EffectFailed)
	effectInterrupted(of effects.Outer, e EffectInterrupted)
	effectHandedBack(of effects.Outer)
}

// takeEffectAnswer removes the effect that e answers from those that are pending, and
// has h handle the answer. It reports whether the effect was pending; otherwise
// nothing has changed, and the machine refuses the answer.
func takeEffectAnswer(h effectHandler, pending *PendingEffects, e Event) bool {
	switch e := e.(type) {
	case EffectDone:
		return pending.take(e.N, func(of effects.Outer) { h.effectDone(of, e) })
	case EffectFailed:
		return pending.take(e.N, func(of effects.Outer) { h.effectFailed(of, e) })
	case EffectInterrupted:
		return pending.take(e.N, func(of effects.Outer) { h.effectInterrupted(of, e) })
	case EffectHandedBack:
		return pending.take(e.N, h.effectHandedBack)
	}
	return false
}

// takePending has h handle the answer to an effect that is pending, and refuses the answer
// to any other; machine is what the refusal calls the machine.
func (t *transition) takePending(h effectHandler, pending *PendingEffects, e Event, machine string) {
	if !takeEffectAnswer(h, pending, e) {
		t.conflict("%s does not wait for effect %d, which %q answers", machine, answeredEffect(e), e.EventType())
	}
}

// take removes the pending effect with that number, and hands it on.
func (a *PendingEffects) take(n uint32, handle func(effects.Outer)) bool {
	rest, of := a.answered(n)
	if of == nil {
		return false
	}
	*a = rest
	handle(of)
	return true
}

// answeredEffect is the number of the effect that e answers.
func answeredEffect(e Event) uint32 {
	switch e := e.(type) {
	case EffectDone:
		return e.N
	case EffectFailed:
		return e.N
	case EffectInterrupted:
		return e.N
	case EffectHandedBack:
		return e.N
	}
	return 0
}

// request adds an outer effect, which carries the next number, and notes that it is
// pending.
func (t *transition) request(pending *PendingEffects, e effects.Outer) {
	*pending = pending.ask(e)
	t.add(e)
}

// reissue requests an effect once more, under the next number.
func (t *transition) reissue(pending *PendingEffects, e effects.Outer) {
	t.request(pending, e.WithNumber(pending.next()))
}

// withdraw takes back all effects that are pending.
func (t *transition) withdraw(pending *PendingEffects) {
	rest, withdrawals := pending.withdrawn()
	*pending = rest
	t.add(withdrawals...)
}

// MayAwait reports whether machines of that kind request outer effects: [Outstanding] is empty for all others.
func MayAwait(kind effects.Kind) bool {
	_, ok := kinds[kind].zero.(interface{ outstanding() []effects.Outer })
	return ok
}

// Outstanding lists the outer effects that a machine waits for.
func Outstanding(s State) []effects.Outer {
	if own, ok := s.(interface{ outstanding() []effects.Outer }); ok {
		return own.outstanding()
	}
	return nil
}

// Awaits reports whether [OutstandingEffect] gives one.
func Awaits(s State, n uint32) bool {
	if own, ok := s.(interface{ awaits(n uint32) bool }); ok { // which would make it anew
		return own.awaits(n)
	}
	return OutstandingEffect(s, n) != nil
}

// OutstandingEffect gives the outer effect with that number that a machine waits for; nil
// where it waits for none.
func OutstandingEffect(s State, n uint32) effects.Outer {
	if own, ok := s.(interface{ outstandingEffect(n uint32) effects.Outer }); ok {
		return own.outstandingEffect(n)
	}
	for _, e := range Outstanding(s) {
		if e.Number() == n {
			return e
		}
	}
	return nil
}
