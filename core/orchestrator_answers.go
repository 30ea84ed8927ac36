package core

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/orrery-go/orrery/effects"
)

// clusterResult is what the effects that reach a cluster answer with.
type clusterResult struct {
	APICalls uint32  `json:"api_calls"` // calls of the Kubernetes API
	Logs     RunLogs `json:"logs"`      // of FetchLogs
}

func (o Orchestrator) refuseAnswer(e Event, n uint32) (Orchestrator, []effects.Effect) {
	return o, o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s does not wait for effect %d, which %q answers", clip(o.RunID), n, e.EventType()))
}

// counted adds the API calls that an answer tells of.
func (o Orchestrator) counted(result json.RawMessage) (Orchestrator, clusterResult) {
	var r clusterResult
	if err := json.Unmarshal(result, &r); err != nil {
		return o, clusterResult{}
	}
	o.Metrics.KubernetesAPICalls += min(r.APICalls, math.MaxUint32-o.Metrics.KubernetesAPICalls)
	return o, r
}

func (o Orchestrator) effectDone(e EffectDone, c Clock) (Orchestrator, []effects.Effect) {
	asked, effect := o.Asked.answered(e.N)
	if effect == nil {
		return o.refuseAnswer(e, e.N)
	}
	o.Asked, o.UpdatedAt = asked, c.Now
	result := storedResult(e.Result)
	switch effect.(type) {
	case effects.CheckConstraints:
		var r ConstraintReport
		if err := json.Unmarshal(result, &r); err != nil {
			return o.checkFailed("the checker's report cannot be read", c)
		}
		return o.checked(r, c)
	case effects.TakeAction:
		return o.acted("", c)
	case effects.CreateRun:
		o, _ = o.counted(result)
	case effects.FetchLogs:
		var r clusterResult
		o, r = o.counted(result)
		o.Logs = r.Logs.bounded()
		return o.cleanUp(nil)
	case effects.DeleteRun:
		o, _ = o.counted(result)
		return o.cleaned(nil, c)
	}
	return o, nil
}

// bounded cleans an answer: either there are logs, or it says why not.
func (l RunLogs) bounded() RunLogs {
	if !l.Stored {
		return RunLogs{Error: boundedReason(l.Error, "none were stored")}
	}
	l.Bytes, l.Dropped, l.Error = max(l.Bytes, 0), max(l.Dropped, 0), firstText(l.Error)
	return l
}

func (o Orchestrator) effectFailed(e EffectFailed, c Clock) (Orchestrator, []effects.Effect) {
	asked, effect := o.Asked.answered(e.N)
	if effect == nil {
		return o.refuseAnswer(e, e.N)
	}
	o.UpdatedAt = c.Now
	reason := boundedReason(e.Reason, "failed without a reason")
	switch effect.(type) {
	case effects.CheckConstraints:
		o.Asked = asked
		return o.checkFailed(reason, c)
	case effects.TakeAction:
		o.Asked = asked
		return o.acted(reason, c)
	case effects.CreateRun:
		o.Asked = asked
		o, _ = o.counted(storedResult(e.Result))
		if o.State == OrchestratorContainerCreating && o.Leaving.To == "" {
			return o.fail("creating the pod: "+reason, e.Permanent, nil, c)
		}
	case effects.FetchLogs:
		o.Asked = asked
		o, _ = o.counted(storedResult(e.Result))
		o.Logs = RunLogs{Error: reason}
		return o.cleanUp(nil)
	case effects.DeleteRun:
		o, _ = o.counted(storedResult(e.Result))
		if !e.Permanent && o.Repeats < MaxEffectRepeats {
			o.Repeats++
			return o.again(asked, effect, c)
		}
		o.Asked = asked
		return o.cleaned([]effects.Effect{o.announce("cleanup_failed", announcementData(struct {
			Error string `json:"error"`
		}{reason}))}, c)
	}
	return o, nil
}

// checkFailed: the constraints could not be evaluated. The job says what that
// means (004 Constraint Checker Errors). Where it denies, another attempt may
// follow as long as nothing has run: the checker may be back by then. A pod that
// has run is not run again for want of a checker.
func (o Orchestrator) checkFailed(reason string, c Clock) (Orchestrator, []effects.Effect) {
	open := o.Config.ConstraintErrors == FailOpen
	effs := []effects.Effect{o.announce("constraint_error", announcementData(struct {
		Error  string      `json:"error"`
		Policy ErrorPolicy `json:"policy"`
	}{reason, o.Config.ConstraintErrors}))}
	o = o.noted([]ConstraintCheck{{Name: "checker", Met: open, Error: reason}})
	message := firstText("the constraints could not be checked: " + reason)
	switch {
	case open:
		o.Decision = Decision{Verdict: RunProceed, Reason: message}
	case o.phase() == effects.CheckPost:
		o.Decision = Decision{Verdict: RunFail, Reason: message}
	default:
		o.Decision = Decision{Verdict: RunRetry, Reason: message}
	}
	o.ToTake = nil
	return o.decide(effs, c)
}

// effectInterrupted asks once more: each effect of a run may be repeated. An
// action of a constraint is so a bounded number of times.
func (o Orchestrator) effectInterrupted(e EffectInterrupted, c Clock) (Orchestrator, []effects.Effect) {
	asked, effect := o.Asked.answered(e.N)
	if effect == nil {
		return o.refuseAnswer(e, e.N)
	}
	if o.created(effect) {
		o.Asked, o.UpdatedAt = asked, c.Now
		return o, nil
	}
	if _, action := effect.(effects.TakeAction); action && o.Repeats >= MaxEffectRepeats {
		o.Asked = asked
		return o.acted(boundedReason(e.Reason, ReasonRecovered), c)
	}
	o.Repeats = min(o.Repeats+1, MaxEffectRepeats)
	return o.again(asked, effect, c)
}

// effectHandedBack asks once more: it was not begun.
func (o Orchestrator) effectHandedBack(e EffectHandedBack, c Clock) (Orchestrator, []effects.Effect) {
	asked, effect := o.Asked.answered(e.N)
	if effect == nil {
		return o.refuseAnswer(e, e.N)
	}
	if o.created(effect) {
		o.Asked, o.UpdatedAt = asked, c.Now
		return o, nil
	}
	return o.again(asked, effect, c)
}

// created reports whether an effect is the creation of a pod that was seen running.
// It is not asked for again: where the pod is gone by now, that would make another.
func (o Orchestrator) created(e effects.Outer) bool {
	_, creates := e.(effects.CreateRun)
	return creates && o.State == OrchestratorRunning
}

func (o Orchestrator) again(asked PendingEffects, effect effects.Outer, c Clock) (Orchestrator, []effects.Effect) {
	effect = effect.WithNumber(asked.next())
	o.Asked, o.UpdatedAt = asked.ask(effect), c.Now
	return o, []effects.Effect{effect}
}
