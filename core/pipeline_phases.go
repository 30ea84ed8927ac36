package core

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// maxPhasesAtOnce bounds the phases that one transition runs: where they end at once,
// the next ones run in the next transition, at the same instant.
const maxPhasesAtOnce = 50

// Failing is a failure that is told once the pipeline has cleaned up.
type Failing struct {
	Phase       string `json:"phase"`
	Error       string `json:"error"`
	Recoverable bool   `json:"recoverable"`
}

// outcome says how an attempt of the running phase went. The zero outcome: the phase
// is done, without a result.
type outcome struct {
	waits   bool // the attempt has not ended
	skipped bool
	result  json.RawMessage // in its canonical form
	answer  json.RawMessage // the result as it came from outside
	err     string          // as it came from outside; empty: the phase is done
	final   bool            // no further attempt follows by itself
	fatal   bool            // nor does a retry help
	lost    bool            // a lock that the pipeline had: nothing goes on without it
	// interrupted: nobody knows how far the attempt came; it is final.
	interrupted bool
}

// runFrom runs the phases from that one on, until one waits or the pipeline ends.
func (t *pipelineTransition) runFrom(i int) {
	for n := 0; i < len(t.Definition.Phases); n++ {
		if n == maxPhasesAtOnce {
			t.enter(i, 0)
			t.Waiting = Waiting{For: WaitTransition, Until: max(t.clock.Now, effects.MinTime)}
			return
		}
		next, ok := t.closePhase(t.enterPhase(i))
		if !ok {
			return
		}
		i = next
	}
	t.complete()
}

// applyOutcome applies the outcome of the running phase, and runs the phases that
// follow.
func (t *pipelineTransition) applyOutcome(o outcome) {
	if next, ok := t.closePhase(o); ok {
		t.runFrom(next)
	}
}

// enter: → running that phase, in that attempt.
func (t *pipelineTransition) enter(i int, attempt uint32) {
	t.at = i
	t.Phase = Phase{Type: PhaseRunning, Name: t.phase().Name}
	t.PhaseStartedAt, t.Attempt = t.clock.Now, attempt
}

// enterPhase enters a phase, and begins its first attempt unless it is to be skipped.
func (t *pipelineTransition) enterPhase(i int) outcome {
	t.enter(i, 1)
	d := t.phase()
	t.announce("phase", announcementTexts("phase", d.Name))
	if d.When != nil {
		v, err := t.scope().lookup(d.When.Ref)
		if is := err == nil && sameJSON(v, d.When.Equals); is == d.When.Not {
			return outcome{skipped: true, result: json.RawMessage("null")}
		}
	}
	return t.beginAction()
}

// retryPhase begins the next attempt of the running phase.
func (t *pipelineTransition) retryPhase() outcome {
	if t.Attempt < math.MaxUint32 {
		t.Attempt++
	}
	t.announce("retry", announcementTexts("phase", t.Phase.Name))
	return t.regainLocks()
}

// closePhase ends an attempt of the running phase with its outcome. It gives the
// phase that follows at once, if one does.
func (t *pipelineTransition) closePhase(o outcome) (next int, ok bool) {
	if o.waits {
		return 0, false
	}
	t.stopWaiting()
	d := t.phase()
	if o.answer != nil {
		o.result = keptResult(o.answer)
	}
	o = t.putResult(d, o)
	retry := o.err != "" && !o.final && !o.fatal && t.Attempt < d.Retry.Attempts() && !d.Retry.Permanent(texts.Valid(o.err))
	o.err = texts.Bound(o.err, MaxTextBytes)
	switch {
	case o.skipped:
		t.record(HistorySkipped, "")
		return t.Definition.next(t.at), true
	case o.err == "":
		t.record(HistoryDone, "")
		return t.Definition.next(t.at), true
	case retry:
		seed := uuid.NewSHA1(t.ID, []byte(d.Name))
		backoff := max(d.Retry.Delay(seed, t.Attempt), 1)
		t.Waiting = Waiting{For: WaitRetry, Until: laterMS(t.clock.Now, backoff), Error: o.err}
		return 0, false
	case !o.lost && (t.Failing == nil && d.OnFailure != "" || d.IgnoreFailure):
		t.recordFailure(o)
		t.putFailure(d, o)
		return t.wayAround(d), true
	}
	return t.cleanUpOrFail(o)
}

// wayAround is the phase that follows one that failed and does not end the pipeline.
func (t *pipelineTransition) wayAround(d PhaseDef) int {
	if !d.IgnoreFailure {
		if i := t.Definition.index(d.OnFailure); i > t.at {
			return i
		}
	}
	return t.Definition.next(t.at)
}

// cleanUpOrFail leads to failed, by way of the phases that clean up, if there are
// some.
func (t *pipelineTransition) cleanUpOrFail(o outcome) (next int, ok bool) {
	d := t.phase()
	t.recordFailure(o)
	if was := t.Failing; was != nil {
		t.fail(was.Phase, fmt.Sprintf("%s; then phase %q failed: %s", was.Error, d.Name, o.err), was.Recoverable)
		return 0, false
	}
	if i := t.Definition.index(t.Definition.OnFailure); t.Definition.OnFailure != "" && i > t.at {
		t.Failing = &Failing{Phase: d.Name, Error: o.err, Recoverable: !o.fatal}
		t.putFailure(d, o)
		return i, true
	}
	t.fail(d.Name, o.err, !o.fatal)
	return 0, false
}

// applyTimeLimit: the whole run took too long; the pipeline still cleans up.
func (t *pipelineTransition) applyTimeLimit() {
	t.EndsBy = 0
	err := "the pipeline timed out after " + lengthText(t.Definition.TimeoutMS)
	if t.Phase.Type != PhaseRunning {
		t.abandonDependencies()
		t.fail(t.Phase.Name, err, true)
		return
	}
	t.stopWaiting()
	if next, ok := t.cleanUpOrFail(outcome{err: err}); ok {
		t.runFrom(next)
	}
}

// complete: → done after the last phase; → failed where that has cleaned up.
func (t *pipelineTransition) complete() {
	if was := t.Failing; was != nil {
		t.fail(was.Phase, was.Error, was.Recoverable)
		return
	}
	t.Phase = Phase{Type: PhaseDone}
	t.Regain = nil
	t.announce("complete", nil)
	t.end()
}

// fail: → failed, at the phase to resume at (R7).
func (t *pipelineTransition) fail(phase, err string, recoverable bool) {
	err = texts.Bound(err, MaxTextBytes)
	t.Phase = Phase{Type: PhaseFailure, Name: phase, Error: err, Recoverable: recoverable}
	t.Failing = nil
	t.announce("failed", announcementTexts("phase", phase, "error", err))
	t.end()
}

// failUnknownPhase: → failed, since no phase is where the pipeline stands. If its definition was
// lost, a retry finds that which another run has brought back.
func (t *pipelineTransition) failUnknownPhase() {
	if t.lacksDefinition() {
		t.fail(t.Phase.Name, definitionLost, t.Phase.Name != "")
		return
	}
	t.fail(t.Phase.Name, fmt.Sprintf("phase %q is not in the definition", clip(t.Phase.Name)), false)
}

// end: what an ended pipeline had is released, and owner and watchers are told.
func (t *pipelineTransition) end() {
	t.stopWaiting()
	t.releaseLocks()
	if !t.Phase.Recoverable {
		t.Regain, t.Signals, t.Worktrees = nil, nil, nil // else a retry finds signals that came before their phase, and worktrees
	}
	t.FinishedAt, t.EndsBy = t.clock.Now, 0
	t.tellEnd()
}
