package core

import "github.com/orrery-go/orrery/effects"

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
