package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// applySignal ends the phase that waits for the signal; else the signal is kept for
// a phase to come.
func (t *pipelineTransition) applySignal(e PipelineSignal) outcome {
	payload := keptResult(e.Payload)
	err := checkName("name", e.Name, true)
	if err == nil && len(trimJSON(e.Payload)) > 0 {
		err = checkJSON("payload", trimJSON(e.Payload), MaxInputBytes)
	}
	if err == nil && len(payload) > MaxSignalBytes {
		err = fmt.Errorf("payload: %d bytes is more than %d", len(payload), MaxSignalBytes)
	}
	awaited := t.waitsFor(WaitSignal) && t.Waiting.Name == e.Name
	switch {
	case err != nil:
		return t.refuse(effects.CodeInvalid, "%s", err)
	case t.Phase.Type.Ended():
		return t.conflict("it takes no signal any more")
	case !awaited && len(t.Signals) >= MaxSignals:
		return t.conflict("%d signals wait for their phases already", len(t.Signals))
	}
	t.announce("signal", announcementTexts("signal", e.Name))
	if awaited {
		return outcome{result: payload}
	}
	t.Signals = slices.Concat(t.Signals, []Signal{{Name: e.Name, Payload: payload, At: t.clock.Now}})
	return outcome{waits: true}
}

// applyApproval ends the phase that waits for an approval.
func (t *pipelineTransition) applyApproval(e PipelineApprove) outcome {
	if !t.waitsFor(WaitApproval) || t.Phase.Name != e.Phase {
		return t.conflict("no phase %q waits for an approval", clip(e.Phase))
	}
	by, comment := texts.Bound(e.By, MaxNameBytes), texts.Bound(e.Comment, MaxTextBytes)
	if e.Approved {
		return outcome{result: canonical(announcementTexts("by", by, "comment", comment))}
	}
	reason := "rejected"
	if by != "" {
		reason += " by " + by
	}
	if comment != "" {
		reason += ": " + comment
	}
	return outcome{err: reason, final: true}
}

// applyChildEnd: a machine that the pipeline waits for has ended, or is refused.
func (t *pipelineTransition) applyChildEnd(e ChildEnded) outcome {
	awaited := func(d Awaited) bool { return e.N != 0 && d.N == e.N && !d.Ended }
	if !e.Outcome.known() {
		return t.refuse(effects.CodeInvalid, "outcome: %q is unknown", clip(string(e.Outcome)))
	}
	if i := slices.Index(t.Abandoned, e.N); i >= 0 {
		t.Abandoned = without(t.Abandoned, i)
		return outcome{waits: true}
	}
	if i := slices.IndexFunc(t.Waiting.Children, awaited); i >= 0 && t.running() {
		return t.applyChildOutcome(i, e)
	}
	refused := func(h Hold) bool { return h.N == e.N && !h.Granted && e.Outcome == ChildRefused }
	if i := slices.IndexFunc(t.Holds, refused); i >= 0 && t.running() {
		return t.failWithoutLock(i, e.Reason)
	}
	if i := slices.IndexFunc(t.Unmet, awaited); i >= 0 && t.Phase.Type == PhaseBlocked {
		t.applyDependencyEnd(i, e)
		return outcome{waits: true}
	}
	return t.unawaited(e.N)
}

// applyChildOutcome: a child of the running phase has ended. The phase ends with the
// last child, or with the first that did not succeed.
func (t *pipelineTransition) applyChildOutcome(i int, e ChildEnded) outcome {
	children := slices.Clone(t.Waiting.Children)
	children[i].Ended, children[i].Result = true, keptResult(e.Result)
	t.Waiting.Children = children
	switch {
	case e.Outcome != ChildSucceeded:
		return childFailure(children[i], e)
	case t.phase().Pipelines == nil:
		return outcome{result: children[i].Result}
	}
	size := 0
	for _, child := range children {
		size += len(child.Result)
	}
	switch limit := t.Definition.contextLimit(); {
	case size > limit:
		return outcome{err: fmt.Sprintf("the results of %d bytes are longer than the context's limit of %d", size, limit), final: true}
	case slices.ContainsFunc(children, func(d Awaited) bool { return !d.Ended }):
		return outcome{waits: true}
	}
	return outcome{result: pipelineResults(children)}
}

// childFailure is the outcome of a phase whose child did not succeed.
func childFailure(child Awaited, e ChildEnded) outcome {
	reason := cmp.Or(e.Reason, "ended without a reason")
	switch {
	case e.Interrupted:
		reason = fmt.Sprintf("interrupted: %s; it is not tried again by itself, as nobody knows how far it came", reason)
	case e.Outcome != ChildFailed:
		reason = fmt.Sprintf("%s %s: %s", child.Ref.Kind, e.Outcome, reason)
	}
	return outcome{
		err: reason, final: e.Outcome == ChildRefused && !e.Limited || e.Interrupted || e.Permanent, interrupted: e.Interrupted, result: child.Result,
	}
}

// pipelineResults lists what the pipelines of a phase gave.
func pipelineResults(children []Awaited) json.RawMessage {
	type result struct {
		ID     uuid.UUID       `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	results := make([]result, len(children))
	for i, child := range children {
		results[i] = result{child.Ref.ID, child.Result}
	}
	return announcementData(results)
}

// applyPush: the item is in its queue; a phase that does not wait for the item's end
// is done.
func (t *pipelineTransition) applyPush(e QueuePushed) outcome {
	i := slices.IndexFunc(t.Waiting.Children, func(d Awaited) bool {
		return d.N == e.N && !d.Ended && d.Item == uuid.Nil && d.Ref.Kind == KindQueue
	})
	if i < 0 || !t.running() {
		return t.unawaited(e.N)
	}
	push := t.phase().Push
	children := slices.Clone(t.Waiting.Children)
	children[i].Item, children[i].Ended = e.Item, push == nil || !push.Wait
	t.Waiting.Children = children
	return outcome{waits: !children[i].Ended}
}

// awaits reports whether the running phase ends by the answer to that effect. The
// notification beside an approval ends nothing.
func (t *pipelineTransition) awaits(of effects.Outer) bool {
	return t.waitsFor(WaitEffect) && t.Waiting.N == of.Number()
}

func (t *pipelineTransition) effectDone(of effects.Outer, e EffectDone) {
	t.noteWorktree(of, e.Result)
	if t.awaits(of) {
		t.applyOutcome(outcome{answer: e.Result})
	}
}

func (t *pipelineTransition) effectFailed(of effects.Outer, e EffectFailed) {
	if t.awaits(of) {
		t.applyOutcome(outcome{err: cmp.Or(e.Reason, "failed without a reason"), final: e.Permanent, answer: e.Result})
	}
}

// effectInterrupted: nobody knows how far the effect came. It is reissued, which
// counts as an attempt.
func (t *pipelineTransition) effectInterrupted(of effects.Outer, e EffectInterrupted) {
	switch {
	case !t.awaits(of):
	case t.Attempt >= max(t.phase().Retry.Attempts(), DefaultMaxAttempts):
		t.applyOutcome(outcome{err: cmp.Or(e.Reason, ReasonRecovered), final: true})
	default:
		t.Attempt++
		t.announce("retry", announcementTexts("phase", t.Phase.Name))
		t.reissueAwaited(of)
	}
}

// effectHandedBack: the effect was not begun, and is reissued.
func (t *pipelineTransition) effectHandedBack(of effects.Outer) {
	switch {
	case t.awaits(of):
		t.reissueAwaited(of)
	case t.running() && !t.numbersRunOut():
		t.reissue(&t.Pending, of)
	}
}

func (t *pipelineTransition) reissueAwaited(of effects.Outer) {
	if t.numbersRunOut() {
		t.applyOutcome(outcome{err: "the effect cannot be repeated", final: true})
		return
	}
	t.waitForEffect(of.WithNumber(t.Pending.next()))
}

// applyGrant: a lock or slots are held from now on.
func (t *pipelineTransition) applyGrant(e Granted) outcome {
	i := slices.IndexFunc(t.Holds, func(h Hold) bool { return h.N == e.N && !h.Granted })
	if i < 0 || !t.running() {
		return t.unawaited(e.N)
	}
	t.Holds = slices.Clone(t.Holds)
	t.Holds[i].Granted, t.Holds[i].Token, t.Holds[i].Until = true, e.Token, e.Until
	switch {
	case t.Waiting.For == WaitHold && t.Waiting.N == e.N:
		return outcome{result: t.Holds[i].result()}
	case t.Waiting.For == WaitRegain:
		return t.regainNext()
	}
	return outcome{waits: true}
}

// applyLoss: a lock or slots are not held any more; the running phase fails.
func (t *pipelineTransition) applyLoss(e Lost) outcome {
	i := slices.IndexFunc(t.Holds, func(h Hold) bool { return h.N == e.N })
	switch {
	case i < 0:
		return t.unawaited(e.N)
	case !t.running():
		t.Holds = without(t.Holds, i)
		return outcome{waits: true}
	}
	return t.failWithoutLock(i, "it was lost: "+cmp.Or(e.Reason, "its lease lapsed"))
}

// failWithoutLock: the running phase fails for want of a lock or slots.
func (t *pipelineTransition) failWithoutLock(i int, reason string) outcome {
	h := t.Holds[i]
	regains := t.Waiting.For == WaitRegain
	lost := h.Granted || regains
	for _, had := range t.Holds {
		if lost && (had.Granted || regains) {
			t.noteRegain(had) // all that it has, for their order
		}
	}
	t.Holds = without(t.Holds, i)
	what := "lock"
	if h.Semaphore {
		what = "semaphore"
	}
	return outcome{err: fmt.Sprintf("%s %q: %s", what, clip(h.Name), reason), final: true, lost: lost}
}

// keptResult gives the form of a result in which it stands in a context.
func keptResult(v json.RawMessage) json.RawMessage {
	if v = storedResult(v); v == nil {
		return nil
	}
	return canonical(v)
}
