package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// maxAtOnce bounds the phases that one transition runs: where they end at once,
// the next ones have their turn in the next transition, at the same instant.
const maxAtOnce = 50

// advance is a transition of a pipeline under way: the pipeline as it will be,
// and what follows from it. It owns no list of the pipeline that it began with:
// a list is copied before it is written to.
type advance struct {
	Pipeline
	c    Clock
	effs []effects.Effect
}

// outcome says how an attempt of a phase went. The zero outcome: it is done,
// without a result.
type outcome struct {
	waits   bool // it has not ended
	skipped bool
	result  json.RawMessage // in its canonical form
	err     string          // empty: it is done
	final   bool            // no further attempt follows by itself
	fatal   bool            // nor does a retry help
	lost    bool            // a lock that it had: nothing goes on without it
	// interrupted: nobody knows how far it came; it is final.
	interrupted bool
}

func (p Pipeline) advance(c Clock) *advance {
	p.UpdatedAt = c.Now
	return &advance{Pipeline: p, c: c}
}

func (a *advance) end() (Pipeline, []effects.Effect) { return a.Pipeline, a.effs }

func (a *advance) do(e ...effects.Effect) { a.effs = append(a.effs, e...) }

// emit announces something on the bus (003 Event).
func (a *advance) emit(action string, data json.RawMessage) {
	a.do(effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "pipeline", Action: action},
		Source: effects.EventSource{Component: "pipeline", ID: a.ID},
		Data:   data,
	}})
}

// number gives the next number of a child, an effect or a lock.
func (a *advance) number() uint32 {
	if a.Asked.Last < math.MaxUint32 {
		a.Asked.Last++
	}
	return a.Asked.Last
}

// exhausted reports whether the numbers are about to run out.
func (a *advance) exhausted() bool { return a.Asked.Last > math.MaxUint32-1000 }

// run runs the phases from that one on, until one waits or the pipeline ends.
func (a *advance) run(i int) {
	for range maxAtOnce {
		if i >= len(a.Definition.Phases) {
			a.finish()
			return
		}
		next, goes := a.settle(i, a.enter(i))
		if !goes {
			return
		}
		i = next
	}
	if i >= len(a.Definition.Phases) {
		a.finish()
		return
	}
	a.Phase = Phase{Type: PhaseRunning, Name: a.Definition.Phases[i].Name}
	a.PhaseStartedAt, a.Attempt = a.c.Now, 0
	a.Waiting = Waiting{For: WaitTurn, Until: max(a.c.Now, effects.MinTime)}
}

// enter: → running that phase, in its first attempt.
func (a *advance) enter(i int) outcome {
	d := a.Definition.Phases[i]
	a.Phase = Phase{Type: PhaseRunning, Name: d.Name}
	a.PhaseStartedAt, a.Attempt = a.c.Now, 1
	a.emit("phase", announcementTexts("phase", d.Name))
	if d.When != nil {
		v, err := a.scope().lookup(d.When.Ref)
		if is := err == nil && sameJSON(v, d.When.Equals); is == d.When.Not {
			return outcome{skipped: true, result: json.RawMessage("null")}
		}
	}
	return a.begin(d)
}

// again runs the next attempt of the running phase.
func (a *advance) again(i int) {
	if a.Attempt < math.MaxUint32 {
		a.Attempt++
	}
	d := a.Definition.Phases[i]
	a.emit("retry", announcementTexts("phase", d.Name))
	a.proceed(i, a.regained(d))
}

// proceed takes the outcome of the running phase, and goes on where it may.
func (a *advance) proceed(i int, o outcome) {
	if next, goes := a.settle(i, o); goes {
		a.run(next)
	}
}

// settle takes the outcome of a phase: goes says whether the pipeline goes on at
// once with the next one.
func (a *advance) settle(i int, o outcome) (next int, goes bool) {
	if o.waits {
		return 0, false
	}
	a.leave()
	d := a.Definition.Phases[i]
	if o.err == "" {
		if o.result == nil {
			o.result = json.RawMessage("null")
		}
		if !a.put(d.output(), o.result) {
			o.err, o.final = fmt.Sprintf("the result of %d bytes would make the context longer than %d, or is nested deeper than %d levels", len(o.result), a.Definition.contextLimit(), MaxJSONDepth), true
			o.result = nil
		}
	}
	switch {
	case o.skipped:
		a.record(HistorySkipped, "")
		return a.Definition.next(i), true
	case o.err == "":
		a.record(HistoryDone, "")
		return a.Definition.next(i), true
	case !o.final && !o.fatal && a.Attempt < d.Retry.Attempts() && !d.Retry.Permanent(o.err):
		seed := uuid.NewSHA1(a.ID, []byte(d.Name))
		wait := max(d.Retry.Delay(seed, a.Attempt), 1)
		a.Waiting = Waiting{For: WaitRetry, Until: laterMS(a.c.Now, wait), Error: texts.Bound(o.err, MaxTextBytes)}
		return 0, false
	}
	return a.failed(i, o)
}

// failed is what follows when no attempt remains: the way around that the phase
// has, or else the pipeline gives up.
func (a *advance) failed(i int, o outcome) (next int, goes bool) {
	d := a.Definition.Phases[i]
	if !o.lost && (a.Failing == nil && d.OnFailure != "" || d.IgnoreFailure) {
		a.recordFailure(o)
		a.putFailure(d, o)
		if !d.IgnoreFailure {
			if j := a.Definition.index(d.OnFailure); j > i {
				return j, true
			}
		}
		return a.Definition.next(i), true
	}
	return a.giveUp(i, o)
}

// giveUp leads to failed, by way of the cleaning up that there may be.
func (a *advance) giveUp(i int, o outcome) (next int, goes bool) {
	d := a.Definition.Phases[i]
	o.err = texts.Bound(o.err, MaxTextBytes)
	a.recordFailure(o)
	if was := a.Failing; was != nil {
		a.fail(was.Phase, texts.Bound(fmt.Sprintf("%s; then phase %q failed: %s", was.Error, d.Name, o.err), MaxTextBytes), was.Recoverable)
		return 0, false
	}
	if j := a.Definition.index(a.Definition.OnFailure); a.Definition.OnFailure != "" && j > i {
		a.Failing = &Failing{Phase: d.Name, Error: o.err, Recoverable: !o.fatal}
		a.putFailure(d, o)
		return j, true
	}
	a.fail(d.Name, o.err, !o.fatal)
	return 0, false
}

// putFailure lets later phases see how this one failed.
func (a *advance) putFailure(d PhaseDef, o outcome) {
	w := begin(nil)
	w.str("error", texts.Bound(o.err, maxHistoryReasonBytes))
	if len(o.result) > 0 {
		w.raw("result", o.result)
	}
	if !a.put(d.output(), canonical(w.end())) {
		a.put(d.output(), json.RawMessage("null"))
	}
}

// finish: the last phase is done → done; failed where that was cleaning up.
func (a *advance) finish() {
	a.leave()
	if was := a.Failing; was != nil {
		a.fail(was.Phase, was.Error, was.Recoverable)
		return
	}
	a.Phase = Phase{Type: PhaseDone}
	a.Regain = nil
	a.emit("complete", nil)
	a.ended(ChildEnded{Outcome: ChildSucceeded, Result: a.Context[a.Definition.Result]})
}

// fail: → failed, at the phase to resume at (R7).
func (a *advance) fail(name, err string, recoverable bool) {
	a.Phase = Phase{Type: PhaseFailure, Name: name, Error: err, Recoverable: recoverable}
	a.Failing = nil
	a.emit("failed", announcementTexts("phase", name, "error", err))
	interrupted := slices.ContainsFunc(a.History, func(r PhaseRecord) bool { return r.Interrupted })
	a.ended(ChildEnded{Outcome: ChildFailed, Reason: err, Interrupted: interrupted, Permanent: !recoverable})
}

// ended gives back all locks and slots, and tells who waits.
func (a *advance) ended(e ChildEnded) {
	a.leave()
	for _, h := range a.Holds {
		a.regain(h)
		a.do(a.release(h))
	}
	if !a.Phase.Recoverable {
		a.Regain, a.Signals = nil, nil // else a retry finds those that came before their phase
	}
	a.Holds = nil
	a.FinishedAt, a.EndsBy = a.c.Now, 0
	e.Child = a.Ref()
	if !a.Told {
		a.Told = true
		a.do(a.Owner.ended(e)...)
	}
	for _, w := range a.Watchers {
		a.do(w.ended(e)...)
	}
	a.Watchers = nil
}

// leave stops whatever the running phase waits for: effects are withdrawn,
// children that were made cancelled, and the waiting for locks ends.
func (a *advance) leave() {
	var withdrawals []effects.Effect
	a.Asked, withdrawals = a.Asked.withdrawn()
	a.do(withdrawals...)
	for _, child := range a.Waiting.Children {
		if child.Ended {
			continue
		}
		a.abandon(child.N)
		if cancel := cancelEvent(child.Ref.Kind); child.Own && cancel != nil {
			a.do(effects.Send{To: child.Ref, Event: cancel})
		}
		if child.Item != uuid.Nil {
			a.do(effects.Send{To: child.Ref, Event: QueueCancelItem{Item: child.Item, Reason: givenUp}})
		}
	}
	var kept []Hold
	for _, h := range a.Holds {
		if h.Granted {
			kept = append(kept, h)
			continue
		}
		a.do(a.release(h))
		if a.Waiting.For == WaitRegain {
			a.regain(h)
		}
	}
	a.Holds = kept
	a.Waiting = Waiting{}
}

// abandon notes that the end of a child will be of no interest.
func (a *advance) abandon(n uint32) {
	if n == 0 {
		return
	}
	a.Leaving = append(slices.Clip(a.Leaving), n)
	if over := len(a.Leaving) - maxLeaving; over > 0 {
		a.Leaving = slices.Clone(a.Leaving[over:])
	}
}

// givenUp is why a child ends early.
const givenUp = "its pipeline no longer waits for it"

// cancelEvent is what ends a child of that kind early; nil where nothing does.
func cancelEvent(kind effects.Kind) Event {
	switch kind {
	case KindAction:
		return ActionCancel{Reason: givenUp}
	case KindTask:
		return TaskCancel{Reason: givenUp}
	case KindStrategy:
		return StrategyCancel{Reason: givenUp}
	case KindPipeline:
		return PipelineCancel{Reason: givenUp}
	}
	return nil
}

// release gives a lock or slots back, or ends the waiting for them.
func (a *advance) release(h Hold) effects.Effect {
	if h.Semaphore {
		return effects.ReleaseSemaphore{Name: h.Name, Namespace: a.Namespace, Tenant: a.Tenant, N: h.N}
	}
	return effects.ReleaseLock{Name: h.Name, Namespace: a.Namespace, Tenant: a.Tenant, N: h.N}
}

// acquire asks for a lock or slots.
func (a *advance) acquire(h Hold) uint32 {
	h.N, h.Granted, h.Token, h.Until = a.number(), false, 0, 0
	a.Holds = append(slices.Clip(a.Holds), h)
	holder := "pipeline:" + a.ID.String()
	if h.Semaphore {
		a.do(effects.AcquireSemaphore{Name: h.Name, Namespace: a.Namespace, Tenant: a.Tenant, Holder: holder, N: h.N, Slots: h.Slots, TTLMS: h.TTLMS})
	} else {
		a.do(effects.AcquireLock{Name: h.Name, Namespace: a.Namespace, Tenant: a.Tenant, Holder: holder, N: h.N, TTLMS: h.TTLMS})
	}
	return h.N
}

// regain notes what a retry is to take again first.
func (a *advance) regain(h Hold) {
	if len(a.Regain) >= MaxHolds || slices.ContainsFunc(a.Regain, h.same) {
		return
	}
	a.Regain = append(slices.Clip(a.Regain), Hold{Name: h.Name, Semaphore: h.Semaphore, Slots: h.Slots, TTLMS: h.TTLMS})
}

// record notes how the running phase went.
func (a *advance) record(o PhaseOutcome, reason string) {
	a.History = append(slices.Clip(a.History), PhaseRecord{
		Name: a.Phase.Name, StartedAt: a.PhaseStartedAt, EndedAt: a.c.Now, Attempts: a.Attempt, Outcome: o,
		Reason: texts.Bound(reason, maxHistoryReasonBytes),
	})
	if over := len(a.History) - MaxHistory; over > 0 {
		a.History = slices.Clone(a.History[over:])
	}
}

// recordFailure notes how the running phase failed.
func (a *advance) recordFailure(o outcome) {
	a.record(HistoryFailed, o.err)
	a.History[len(a.History)-1].Interrupted = o.interrupted
}

// put gives a value of the context, unless that would become too long or too deep.
func (a *advance) put(name string, v json.RawMessage) bool {
	if tooDeep(v) {
		return false
	}
	context := withValue(a.Context, name, v)
	if contextSize(context) > a.Definition.contextLimit() {
		return false
	}
	a.Context = context
	return true
}

// scope is what the references of the running phase can see.
func (a *advance) scope() scope {
	phase := begin(nil)
	phase.str("name", a.Phase.Name)
	phase.num("attempt", uint64(a.Attempt))
	return scope{context: a.Context, system: map[string]json.RawMessage{
		systemPipeline: announcementTexts("id", a.ID.String(), "name", a.Definition.Name),
		systemPhase:    phase.end(),
	}}
}

// withValue gives a context with one more value.
func withValue(context map[string]json.RawMessage, name string, v json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(context)+1)
	maps.Copy(out, context)
	out[name] = v
	return out
}

// contextSize is what counts for the limit: the bytes of all names and values.
func contextSize(context map[string]json.RawMessage) int {
	n := 0
	// order-free: a sum
	for name, v := range context {
		n += len(name) + len(v)
	}
	return n
}
