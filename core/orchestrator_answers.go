package core

import "github.com/orrery-go/orrery/effects"

func (t *orchestratorTransition) effectDone(of effects.Outer, e EffectDone) {
	t.UpdatedAt = t.clock.Now
	switch of := of.(type) {
	case effects.CheckConstraints:
		t.constraintsChecked(e.Result)
	case effects.TakeAction:
		t.actionTaken("")
	case effects.CreateRun:
		t.clusterResult(e.Result)
		t.created()
	case effects.FetchLogs:
		t.logsFetched(t.clusterResult(e.Result).Logs.bounded())
	case effects.DeleteRun:
		t.deleted(of, t.clusterResult(e.Result))
	}
}

func (t *orchestratorTransition) effectFailed(of effects.Outer, e EffectFailed) {
	t.UpdatedAt = t.clock.Now
	reason := boundedReason(e.Reason, "failed without a reason")
	switch of := of.(type) {
	case effects.CheckConstraints:
		t.checkFailed(reason)
	case effects.TakeAction:
		t.actionTaken(reason)
	case effects.CreateRun:
		r := t.clusterResult(e.Result)
		if t.State == OrchestratorContainerCreating && t.Exit.To == "" {
			t.noteNotCreated(r)
			t.fail("creating the pod: "+reason, e.Permanent)
		}
	case effects.FetchLogs:
		t.clusterResult(e.Result)
		t.logsNotFetched(reason, e.Permanent)
	case effects.DeleteRun:
		t.clusterResult(e.Result)
		t.deletionFailed(of, reason, e.Permanent)
	}
}

// effectInterrupted issues the effect once more: each effect of a run may be repeated.
// An action of a constraint is repeated a bounded number of times.
func (t *orchestratorTransition) effectInterrupted(of effects.Outer, e EffectInterrupted) {
	if _, action := of.(effects.TakeAction); action && t.Repeats >= MaxEffectRepeats {
		t.actionTaken(boundedReason(e.Reason, ReasonRecovered))
		return
	}
	t.repeat(of, 1)
}

// effectHandedBack issues the effect once more: it was not begun.
func (t *orchestratorTransition) effectHandedBack(of effects.Outer) { t.repeat(of, 0) }

// repeat issues an effect once more, and counts that. The cluster then has its whole time
// to be reached. The creation of a pod that was seen running is not issued once more: if
// the pod is gone by now, that would make another.
func (t *orchestratorTransition) repeat(of effects.Outer, counts uint32) {
	t.UpdatedAt = t.clock.Now
	if _, creates := of.(effects.CreateRun); creates && t.State == OrchestratorRunning {
		return
	}
	if !t.CreateBy.IsZero() {
		t.CreateBy = t.createBy()
		if counts > 0 && t.Pod.expected() {
			t.Pod.Message = "who had that in hand is gone; its runner is asked again, and has not answered yet"
		}
	}
	t.Repeats = min(t.Repeats+counts, MaxEffectRepeats)
	t.reissue(&t.Pending, of)
}
