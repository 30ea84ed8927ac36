package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// effectDone takes the answer to an outer effect that succeeded.
func (p Pipeline) effectDone(e EffectDone, c Clock) (Pipeline, []effects.Effect) {
	return p.effectAnswered(e, e.N, outcome{result: kept(e.Result)}, c)
}

// effectFailed takes the answer to an outer effect that failed.
func (p Pipeline) effectFailed(e EffectFailed, c Clock) (Pipeline, []effects.Effect) {
	o := outcome{err: reasonOr(e.Reason, "failed without a reason"), final: e.Permanent, result: kept(e.Result)}
	return p.effectAnswered(e, e.N, o, c)
}

// effectAnswered ends the phase that waits for the effect. A notification beside
// an approval ends nothing.
func (p Pipeline) effectAnswered(e Event, n uint32, o outcome, c Clock) (Pipeline, []effects.Effect) {
	asked, of := p.Asked.answered(n)
	if of == nil {
		return p.stale(e, n)
	}
	a := p.advance(c)
	a.Asked = asked
	if i, ok := p.running(); ok && p.Waiting.For == WaitEffect && p.Waiting.N == n {
		a.proceed(i, o)
	}
	return a.end()
}

// effectInterrupted: nobody knows how far the effect came. All may be repeated:
// it is asked for again, which counts as an attempt.
func (p Pipeline) effectInterrupted(e EffectInterrupted, c Clock) (Pipeline, []effects.Effect) {
	asked, of := p.Asked.answered(e.N)
	if of == nil {
		return p.stale(e, e.N)
	}
	a := p.advance(c)
	a.Asked = asked
	i, ok := p.running()
	if !ok || p.Waiting.For != WaitEffect || p.Waiting.N != e.N {
		return a.end()
	}
	if a.Attempt >= max(a.Definition.Phases[i].Retry.Attempts(), DefaultMaxAttempts) {
		a.proceed(i, outcome{err: reasonOr(e.Reason, ReasonRecovered), final: true})
		return a.end()
	}
	a.Attempt++
	a.emit("retry", announcementTexts("phase", a.Phase.Name))
	a.askAgain(i, of)
	return a.end()
}

// effectHandedBack: the effect was not begun, and is asked for again.
func (p Pipeline) effectHandedBack(e EffectHandedBack, c Clock) (Pipeline, []effects.Effect) {
	asked, of := p.Asked.answered(e.N)
	if of == nil {
		return p.stale(e, e.N)
	}
	a := p.advance(c)
	a.Asked = asked
	i, ok := p.running()
	switch {
	case ok && p.Waiting.For == WaitEffect && p.Waiting.N == e.N:
		a.askAgain(i, of)
	case ok && !a.exhausted(): // the notification beside an approval
		if again := of.WithNumber(a.Asked.next()); again != nil {
			a.Asked = a.Asked.ask(again)
			a.do(again)
		}
	}
	return a.end()
}

// askAgain asks for an effect once more, under a new number.
func (a *advance) askAgain(i int, e effects.Outer) {
	again := e.WithNumber(a.Asked.next())
	if again == nil || a.exhausted() {
		a.proceed(i, outcome{err: "the effect cannot be repeated", final: true})
		return
	}
	a.ask(again)
}

// regained starts an attempt once the locks and slots are taken again that the
// pipeline had when the last one failed: one after the other, in the order in which
// it took them first, so that no two pipelines wait for each other that would not
// have done so then. Cleaning up goes without.
func (a *advance) regained(d PhaseDef) outcome {
	if len(a.Regain) == 0 || a.Failing != nil || a.exhausted() {
		return a.begin(d)
	}
	a.Waiting = Waiting{For: WaitRegain}
	if d.TimeoutMS > 0 {
		a.Waiting.Deadline = laterMS(a.c.Now, d.TimeoutMS)
	}
	return a.regainNext(d)
}

// regainNext asks for the next of the locks and slots to be regained. The list
// stays whole until all are, so that whatever comes between keeps its order.
func (a *advance) regainNext(d PhaseDef) outcome {
	if slices.ContainsFunc(a.Holds, func(h Hold) bool { return !h.Granted }) {
		return outcome{waits: true}
	}
	for _, h := range a.Regain {
		if !slices.ContainsFunc(a.Holds, h.same) {
			a.acquire(h)
			return outcome{waits: true}
		}
	}
	a.Regain = nil
	return a.begin(d)
}

// same reports whether both are of the same lock or semaphore.
func (h Hold) same(o Hold) bool { return o.Name == h.Name && o.Semaphore == h.Semaphore }

// granted: a lock or slots are held from now on.
func (p Pipeline) granted(e Granted, c Clock) (Pipeline, []effects.Effect) {
	at := slices.IndexFunc(p.Holds, func(h Hold) bool { return h.N == e.N && !h.Granted })
	i, ok := p.running()
	if at < 0 || !ok {
		return p.stale(e, e.N)
	}
	a := p.advance(c)
	a.Holds = slices.Clone(a.Holds)
	a.Holds[at].Granted, a.Holds[at].Token, a.Holds[at].Until = true, e.Token, e.Until
	switch {
	case a.Waiting.For == WaitHold && a.Waiting.N == e.N:
		a.proceed(i, outcome{result: a.Holds[at].result()})
	case a.Waiting.For == WaitRegain:
		a.proceed(i, a.regainNext(a.Definition.Phases[i]))
	}
	return a.end()
}

// lost: a lock or slots are not held any more; what ran under it fails.
func (p Pipeline) lost(e Lost, c Clock) (Pipeline, []effects.Effect) {
	at := slices.IndexFunc(p.Holds, func(h Hold) bool { return h.N == e.N })
	if at < 0 {
		return p.stale(e, e.N)
	}
	phase, running := p.running()
	if running {
		return p.notGranted(phase, at, "it was lost: "+reasonOr(e.Reason, "its lease lapsed"), c)
	}
	a := p.advance(c)
	a.drop(at)
	return a.end()
}

// notGranted: the running phase fails for want of a lock or slots.
func (p Pipeline) notGranted(phase, at int, reason string, c Clock) (Pipeline, []effects.Effect) {
	a := p.advance(c)
	h := a.Holds[at]
	lost := h.Granted || a.Waiting.For == WaitRegain
	for _, had := range a.Holds {
		if lost && (had.Granted || a.Waiting.For == WaitRegain) {
			a.regain(had) // all that it has, for their order
		}
	}
	a.drop(at)
	what := "lock"
	if h.Semaphore {
		what = "semaphore"
	}
	a.proceed(phase, outcome{err: fmt.Sprintf("%s %q: %s", what, clip(h.Name), reason), final: true, lost: lost})
	return a.end()
}

// drop forgets a lock or slots that are gone.
func (a *advance) drop(at int) {
	if a.Holds = slices.Concat(a.Holds[:at], a.Holds[at+1:]); len(a.Holds) == 0 {
		a.Holds = nil
	}
}
