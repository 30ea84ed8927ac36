package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// beginApproach begins the present approach.
func (t *strategyTransition) beginApproach() {
	t.N++
	t.StartedAt, t.Repeats = t.clock.Now, 0
	a := t.approach()
	switch act := a.Action; {
	case act.Command != nil:
		c := t.child(t.approach(), t.N, t.clock)
		t.Child = c.ref(KindAction)
		t.send(t.Child, ActionCreate{Spec: c.action(t.Child.ID, *act.Command)})
	case act.AgentPrompt != nil:
		t.beginTask(*act.AgentPrompt)
	case act.byAgent():
		t.beginTask(act.Merge.prompt())
	case act.Merge != nil:
		t.requestMerge(act.Merge.Strategy)
	}
}

func (t *strategyTransition) beginTask(p AgentPrompt) {
	c := t.child(t.approach(), t.N, t.clock)
	t.Child = c.ref(KindTask)
	t.send(t.Child, TaskCreate{Spec: c.task(t.Child.ID, p)})
}

// byAgent reports whether a task comes before the merge.
func (a ApproachAction) byAgent() bool {
	return a.Merge != nil && a.Merge.Strategy == effects.MergeAgent && a.Merge.Agent != nil
}

// requestMerge requests the merge of the present approach.
func (t *strategyTransition) requestMerge(strategy effects.MergeStrategy) {
	m := t.approach().Action.Merge
	t.request(&t.Pending, effects.Merge{N: t.Pending.next(), Repo: m.Repo, Branch: m.Branch, Into: m.Into, Strategy: strategy})
}

// abandonApproach cancels the child that still works, and withdraws the merge.
func (t *strategyTransition) abandonApproach(reason string) {
	t.withdraw(&t.Pending)
	if cancel := cancelEvent(t.Child.Kind, reason); cancel != nil {
		t.send(t.Child, cancel)
	}
	t.Child = effects.Ref{}
}

// applyChildEnd evaluates the approach by how its child ended. After an agent that
// merges, the merge itself follows.
func (t *strategyTransition) applyChildEnd(e ChildEnded) {
	if t.Child.IsZero() || e.Child != t.Child || e.N != t.N {
		t.conflict("strategy %s does not wait for %s in approach %d", t.ID, e.Child, e.N)
		return
	}
	if !e.Outcome.known() {
		t.refuse(effects.CodeInvalid, "outcome: %q is unknown", clip(string(e.Outcome)))
		return
	}
	t.Child = effects.Ref{}
	reason := boundedReason(e.Reason, "failed without a reason")
	switch {
	case e.Outcome == ChildSucceeded && t.approach().Action.byAgent():
		t.requestMerge(effects.MergeRebase)
	case e.Outcome == ChildSucceeded:
		t.evaluate(evaluation{output: boundedResult(e.Result)})
	case e.Outcome == ChildCancelled:
		t.evaluate(evaluation{err: firstText("cancelled: " + reason), interrupted: e.Interrupted})
	default:
		t.evaluate(evaluation{err: reason, interrupted: e.Interrupted})
	}
}

// boundedResult gives what is kept of a result: nothing where it is too large.
func boundedResult(v json.RawMessage) json.RawMessage {
	out, err := boundedJSON("result", storedResult(v))
	if err != nil {
		return nil
	}
	return out
}

func (t *strategyTransition) effectDone(_ effects.Outer, e EffectDone) {
	t.evaluate(evaluation{output: boundedResult(e.Result)})
}

func (t *strategyTransition) effectFailed(_ effects.Outer, e EffectFailed) {
	t.evaluate(evaluation{err: boundedReason(e.Reason, "failed without a reason")})
}

// effectInterrupted reissues the merge, some times: where it was done already, it
// does nothing.
func (t *strategyTransition) effectInterrupted(of effects.Outer, e EffectInterrupted) {
	if t.Repeats >= MaxEffectRepeats {
		t.evaluate(evaluation{err: boundedReason(e.Reason, ReasonRecovered)})
		return
	}
	t.Repeats++
	t.reissue(&t.Pending, of)
}

// effectHandedBack reissues the merge: it was not begun.
func (t *strategyTransition) effectHandedBack(of effects.Outer) { t.reissue(&t.Pending, of) }
