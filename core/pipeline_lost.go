package core

import "slices"

// applyWithoutDefinition takes what the running phase waits for if the definition was lost, and reports
// whether it did: what follows nobody can say, and the answer does not come again. The pipeline
// fails, and can be retried once another run has brought the same definition. A signal is refused:
// who sends it can send it again.
func (t *pipelineTransition) applyWithoutDefinition(e PipelineEvent) bool {
	if !t.lacksDefinition() || t.Phase.Type != PhaseRunning {
		return false
	}
	switch e := e.(type) {
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		n := answeredEffect(e)
		rest, of := t.Pending.answered(n)
		if of == nil || t.Waiting.For != WaitEffect || t.Waiting.N != n {
			return false
		}
		t.Pending = rest
	case ChildEnded:
		taken := e.Outcome.known() && (t.endAwaited(e.N) || e.Outcome == ChildRefused && t.loseHold(e.N, e.Reason))
		if !taken {
			return false
		}
	case Granted:
		i := slices.IndexFunc(t.Holds, func(h Hold) bool { return h.N == e.N && !h.Granted })
		if i < 0 {
			return false
		}
		t.Holds = slices.Clone(t.Holds)
		t.Holds[i].Granted, t.Holds[i].Token, t.Holds[i].Until = true, e.Token, e.Until
	case Lost:
		if !t.loseHold(e.N, e.Reason) {
			return false
		}
	case HomeLost:
		if t.loseWorktrees(e.Home) == "" {
			return false
		}
	case PipelineSignal:
		if t.Waiting.For != WaitSignal || t.Waiting.Name != e.Name {
			return false
		}
		t.conflict("it cannot go on with the signal")
		return true
	case PhaseComplete, PhaseFailed, PipelineApprove, PipelineCancel, PipelineCheckpoint, PipelineCreate, PipelineDue,
		PipelineExpire, PipelineRetry, PipelineStart, PipelineUnblock, PipelineWatch, QueuePushed:
		return false
	}
	t.failUnknownPhase()
	return true
}

// endAwaited notes that a child has ended.
func (t *pipelineTransition) endAwaited(n uint32) bool {
	i := slices.IndexFunc(t.Waiting.Children, func(d Awaited) bool { return n != 0 && d.N == n && !d.Ended })
	if i < 0 {
		return false
	}
	t.Waiting.Children = slices.Clone(t.Waiting.Children)
	t.Waiting.Children[i].Ended = true
	return true
}

// loseHold notes that a lock or slots are gone, or are not granted.
func (t *pipelineTransition) loseHold(n uint32, reason string) bool {
	i := slices.IndexFunc(t.Holds, func(h Hold) bool { return h.N == n })
	if i >= 0 {
		t.failWithoutLock(i, reason)
	}
	return i >= 0
}
