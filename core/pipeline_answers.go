package core

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// at gives the place of the phase at which the pipeline stands.
func (p Pipeline) at() (int, bool) {
	i := p.Definition.index(p.Phase.Name)
	return i, i >= 0
}

// running gives the place of the running phase.
func (p Pipeline) running() (int, bool) {
	i, ok := p.at()
	return i, ok && p.Phase.Type == PhaseRunning
}

// start: init → running the first phase, or blocked while dependencies may not
// be met (003: (Init, Start)).
func (p Pipeline) start(e Event, c Clock) (Pipeline, []effects.Effect) {
	if p.Phase.Type != PhaseInit || len(p.Definition.Phases) == 0 {
		return p.conflict(e, "only a pipeline that is init can be started")
	}
	a := p.advance(c)
	a.StartedAt = c.Now
	a.limit()
	if len(a.DependsOn) > 0 {
		for _, id := range a.DependsOn {
			a.Unmet = append(slices.Clip(a.Unmet), Awaited{Ref: effects.Ref{Kind: KindPipeline, ID: id}})
		}
		a.block(a.Definition.Phases[0].Name)
		return a.end()
	}
	a.emit("started", nil)
	a.run(0)
	return a.end()
}

// limit sets the end of the whole run.
func (a *advance) limit() {
	a.EndsBy = 0
	if ms := a.Definition.TimeoutMS; ms > 0 {
		a.EndsBy = laterMS(a.c.Now, ms)
	}
}

// block: → blocked, and each dependency is asked to tell when it is done.
func (a *advance) block(resume string) {
	a.Phase = Phase{Type: PhaseBlocked, Name: resume}
	a.PhaseStartedAt, a.Attempt = a.c.Now, 0
	unmet := slices.Clone(a.Unmet)
	for i, d := range unmet {
		unmet[i].N = a.number()
		a.do(effects.Send{To: d.Ref, Event: PipelineWatch{Owner: Owner{Ref: a.Ref(), N: unmet[i].N}, Namespace: a.Namespace, Tenant: a.Tenant}})
	}
	a.Unmet = unmet
	a.Phase.Reason = a.waitsFor()
	a.emit("blocked", announcementTexts("reason", a.Phase.Reason))
}

// waitsFor says for which pipelines a blocked one waits.
func (a *advance) waitsFor() string {
	const most = 3
	reason := "waits for pipeline"
	for i, d := range a.Unmet {
		if i == most {
			return reason + fmt.Sprintf(" and %d more", len(a.Unmet)-most)
		}
		reason += " " + d.Ref.ID.String()
	}
	return reason
}

// dependencyEnded: blocked → running once all are done, → failed where one
// failed. One that is unknown blocks until somebody unblocks.
func (p Pipeline) dependencyEnded(i int, e ChildEnded, c Clock) (Pipeline, []effects.Effect) {
	a := p.advance(c)
	ref := a.Unmet[i].Ref
	a.Unmet = slices.Clone(a.Unmet)
	a.Unmet[i].N = 0
	switch e.Outcome {
	case ChildSucceeded:
		if a.Unmet = slices.Delete(a.Unmet, i, i+1); len(a.Unmet) > 0 {
			if !a.unknown() {
				a.Phase.Reason = a.waitsFor()
			}
			return a.end()
		}
		a.Unmet = nil
		a.resume()
	case ChildRefused:
		a.Phase.Reason = texts.Bound(fmt.Sprintf("dependency %s cannot be waited for: %s", ref, e.Reason), MaxTextBytes)
		a.emit("blocked", announcementTexts("reason", a.Phase.Reason))
	case ChildFailed, ChildCancelled:
		a.dependenciesLeft()
		a.fail(a.Phase.Name, texts.Bound(fmt.Sprintf("dependency %s %s: %s", ref, e.Outcome, e.Reason), MaxTextBytes), true)
	default:
		return p.stale(e, e.N)
	}
	return a.end()
}

// unknown reports whether one of the dependencies cannot be waited for.
func (a *advance) unknown() bool {
	return slices.ContainsFunc(a.Unmet, func(d Awaited) bool { return d.N == 0 })
}

// dependenciesLeft stops the waiting for the dependencies that are not done.
func (a *advance) dependenciesLeft() {
	a.Unmet = slices.Clone(a.Unmet)
	for i, d := range a.Unmet {
		a.abandon(d.N)
		a.Unmet[i].N = 0
	}
}

// resume: blocked → running the phase to resume at (003: (Blocked, Unblock)).
func (a *advance) resume() {
	if i, ok := a.at(); ok {
		a.run(i)
		return
	}
	a.fail(a.Phase.Name, fmt.Sprintf("phase %q is not in the definition", clip(a.Phase.Name)), false)
}

// unblock: blocked → running.
func (p Pipeline) unblock(e PipelineUnblock, c Clock) (Pipeline, []effects.Effect) {
	if p.Phase.Type != PhaseBlocked {
		return p.conflict(e, "only a blocked pipeline can be unblocked")
	}
	a := p.advance(c)
	a.dependenciesLeft()
	a.Unmet = nil
	a.resume()
	return a.end()
}

// retry: failed(recoverable) → running the phase that failed (003: (Failed,
// Retry), D3), once the locks that it had are regained; → blocked where
// dependencies are not done.
func (p Pipeline) retry(e PipelineRetry, c Clock) (Pipeline, []effects.Effect) {
	i, ok := p.at()
	switch {
	case p.Phase.Type != PhaseFailure:
		return p.conflict(e, "only a failed pipeline can be retried")
	case !p.Phase.Recoverable:
		return p.conflict(e, "its failure is not recoverable")
	case !ok:
		return p.conflict(e, "phase %q is not in the definition", clip(p.Phase.Name))
	}
	a := p.advance(c)
	a.FinishedAt = 0
	a.limit()
	if len(a.Unmet) > 0 {
		a.emit("retry", announcementTexts("phase", a.Phase.Name))
		a.block(a.Phase.Name)
		return a.end()
	}
	if a.Attempt = p.attempts(); a.Attempt < math.MaxUint32 {
		a.Attempt++
	}
	d := a.Definition.Phases[i]
	a.Phase, a.PhaseStartedAt = Phase{Type: PhaseRunning, Name: d.Name}, c.Now
	a.emit("retry", announcementTexts("phase", d.Name))
	a.proceed(i, a.regained(d))
	return a.end()
}

// attempts gives how often the phase that failed was tried: cleaning up may have
// come after it.
func (p Pipeline) attempts() uint32 {
	for _, r := range slices.Backward(p.History) {
		if r.Name == p.Phase.Name {
			return r.Attempts
		}
	}
	return p.Attempt
}

// cancel: init, blocked, running → cancelled, with all that it runs.
func (p Pipeline) cancel(e PipelineCancel, c Clock) (Pipeline, []effects.Effect) {
	if p.Phase.Type.Ended() {
		return p.conflict(e, "it has ended already")
	}
	a := p.advance(c)
	reason := texts.Bound(reasonOr(e.Reason, "cancelled"), MaxTextBytes)
	if a.Phase.Type == PhaseRunning {
		a.record(HistoryCancelled, reason)
	}
	a.dependenciesLeft()
	a.Unmet = nil
	a.Phase = Phase{Type: PhaseCancelled, Name: a.Phase.Name, Reason: reason}
	a.Failing = nil
	a.emit("cancelled", announcementTexts("reason", reason))
	a.ended(ChildEnded{Outcome: ChildCancelled, Reason: reason})
	return a.end()
}

// due: init → running; a wait, a delay or a time limit is over.
func (p Pipeline) due(e PipelineDue, c Clock) (Pipeline, []effects.Effect) {
	switch at := p.Deadline(); {
	case at.IsZero():
		return p.conflict(e, "it waits for no time")
	case at.After(c.Now):
		return p.conflict(e, "it is due at %s, after %s", at, c.Now)
	case p.Phase.Type == PhaseInit && len(p.Definition.Phases) > 0:
		return p.start(e, c)
	}
	a := p.advance(c)
	i, ok := p.at()
	switch w := p.Waiting; {
	case !ok:
		a.fail(a.Phase.Name, fmt.Sprintf("phase %q is not in the definition", clip(a.Phase.Name)), false)
	case !a.EndsBy.IsZero() && !a.EndsBy.After(c.Now):
		a.overtime(i)
	case !w.Until.IsZero() && w.Until == earliest(w.Until, w.Deadline):
		a.goOn(i, w.For)
	default:
		a.proceed(i, outcome{err: fmt.Sprintf("timed out after %s", lengthText(a.Definition.Phases[i].TimeoutMS))})
	}
	return a.end()
}

// goOn: the time until which the phase waited has come.
func (a *advance) goOn(i int, w WaitFor) {
	switch w {
	case WaitRetry:
		a.again(i)
	case WaitTurn:
		a.Waiting = Waiting{}
		a.run(i)
	default:
		a.proceed(i, outcome{})
	}
}

// overtime: the whole run took too long; it still cleans up.
func (a *advance) overtime(i int) {
	a.EndsBy = 0
	err := "the pipeline timed out after " + lengthText(a.Definition.TimeoutMS)
	if a.Phase.Type != PhaseRunning {
		a.dependenciesLeft()
		a.fail(a.Phase.Name, err, true)
		return
	}
	a.leave()
	if next, goes := a.giveUp(i, outcome{err: err}); goes {
		a.run(next)
	}
}

// phaseComplete: (003: (Running, PhaseComplete)), for a phase that people end.
func (p Pipeline) phaseComplete(e PhaseComplete, c Clock) (Pipeline, []effects.Effect) {
	i, ok := p.manual(e.Phase, e.Attempt)
	if !ok {
		return p.conflict(e, "no manual phase %q runs in attempt %d", clip(e.Phase), e.Attempt)
	}
	a := p.advance(c)
	a.proceed(i, outcome{result: kept(e.Result)})
	return a.end()
}

// phaseFailed: (003: (Running, PhaseFailed)), for a phase that people end.
func (p Pipeline) phaseFailed(e PhaseFailed, c Clock) (Pipeline, []effects.Effect) {
	i, ok := p.manual(e.Phase, e.Attempt)
	if !ok {
		return p.conflict(e, "no manual phase %q runs in attempt %d", clip(e.Phase), e.Attempt)
	}
	a := p.advance(c)
	a.proceed(i, outcome{err: reasonOr(e.Error, "failed without a reason"), final: e.Permanent, fatal: e.Permanent})
	return a.end()
}

func (p Pipeline) manual(phase string, attempt uint32) (int, bool) {
	i, ok := p.running()
	return i, ok && p.Waiting.For == WaitManual && p.Phase.Name == phase && (attempt == 0 || attempt == p.Attempt)
}

// kept gives the form of a result in which it stands in a context.
func kept(v json.RawMessage) json.RawMessage {
	if v = storedResult(v); v == nil {
		return nil
	}
	return canonical(v)
}

// signal ends the phase that waits for it, or is kept for one to come.
func (p Pipeline) signal(e PipelineSignal, c Clock) (Pipeline, []effects.Effect) {
	payload := kept(e.Payload)
	i, running := p.running()
	err := checkName("name", e.Name, true)
	if err == nil && len(trimJSON(e.Payload)) > 0 {
		err = checkJSON("payload", trimJSON(e.Payload), MaxInputBytes)
	}
	if err == nil && len(payload) > MaxSignalBytes {
		err = fmt.Errorf("payload: %d bytes is more than %d", len(payload), MaxSignalBytes)
	}
	if err != nil {
		return p, p.refuse(e, effects.CodeInvalid, err.Error())
	}
	waits := running && p.Waiting.For == WaitSignal && p.Waiting.Name == e.Name
	switch {
	case p.Phase.Type.Ended():
		return p.conflict(e, "it takes no signal any more")
	case !waits && len(p.Signals) >= MaxSignals:
		return p.conflict(e, "%d signals wait for their phases already", len(p.Signals))
	}
	a := p.advance(c)
	a.emit("signal", announcementTexts("signal", e.Name))
	if waits {
		a.proceed(i, outcome{result: payload})
	} else {
		a.Signals = append(slices.Clip(a.Signals), Signal{Name: e.Name, Payload: payload, At: c.Now})
	}
	return a.end()
}

// approve ends the phase that waits for an approval.
func (p Pipeline) approve(e PipelineApprove, c Clock) (Pipeline, []effects.Effect) {
	i, ok := p.running()
	if !ok || p.Waiting.For != WaitApproval || p.Phase.Name != e.Phase {
		return p.conflict(e, "no phase %q waits for an approval", clip(e.Phase))
	}
	by, comment := texts.Bound(e.By, MaxNameBytes), texts.Bound(e.Comment, MaxTextBytes)
	a := p.advance(c)
	if e.Approved {
		a.proceed(i, outcome{result: canonical(announcementTexts("by", by, "comment", comment))})
		return a.end()
	}
	reason := "rejected"
	if by != "" {
		reason += " by " + by
	}
	if comment != "" {
		reason += ": " + comment
	}
	a.proceed(i, outcome{err: reason, final: true})
	return a.end()
}

// checkpoint notes how far the pipeline has come.
func (p Pipeline) checkpoint(e PipelineCheckpoint, c Clock) (Pipeline, []effects.Effect) {
	switch {
	case e.Message == "":
		return p, p.refuse(e, effects.CodeInvalid, "message: must not be empty")
	case p.Phase.Type.Ended():
		return p.conflict(e, "it takes no checkpoint any more")
	}
	a := p.advance(c)
	a.mark(e.Message)
	return a.end()
}

// watch: whoever asks is told of the end, at once where it was.
func (p Pipeline) watch(e PipelineWatch, c Clock) (Pipeline, []effects.Effect) {
	if e.Owner.Ref.ID == uuid.Nil || e.Owner.Ref.Kind == "" {
		return p, p.refuse(e, effects.CodeInvalid, "owner: missing: it names the machine that is to be told")
	}
	if e.Namespace != p.Namespace || e.Tenant != p.Tenant {
		return p, p.refuse(e, effects.CodeNotFound, "pipeline not found")
	}
	told := ChildEnded{Child: p.Ref()}
	switch p.Phase.Type {
	case PhaseDone:
		told.Outcome, told.Result = ChildSucceeded, p.Context[p.Definition.Result]
		return p, e.Owner.ended(told)
	case PhaseFailure:
		told.Outcome, told.Reason, told.Permanent = ChildFailed, p.Phase.Error, !p.Phase.Recoverable
		return p, e.Owner.ended(told)
	case PhaseCancelled:
		told.Outcome, told.Reason = ChildCancelled, p.Phase.Reason
		return p, e.Owner.ended(told)
	case PhaseInit, PhaseBlocked, PhaseRunning:
	}
	again := slices.IndexFunc(p.Watchers, func(w Owner) bool { return w.Ref == e.Owner.Ref })
	switch {
	case slices.Contains(p.Watchers, e.Owner):
		return p.conflict(e, "%s watches it already", e.Owner.Ref)
	case again < 0 && len(p.Watchers) >= MaxWatchers:
		return p.conflict(e, "%d machines watch it: more are too many", len(p.Watchers))
	}
	a := p.advance(c)
	if again >= 0 { // it has given up the number under which it waited before
		a.Watchers = slices.Clone(a.Watchers)
		a.Watchers[again] = e.Owner
	} else {
		a.Watchers = append(slices.Clip(a.Watchers), e.Owner)
	}
	return a.end()
}

// childEnded takes the end of another machine.
func (p Pipeline) childEnded(e ChildEnded, c Clock) (Pipeline, []effects.Effect) {
	n := func(d Awaited) bool { return d.N == e.N && !d.Ended }
	switch e.Outcome {
	case ChildSucceeded, ChildFailed, ChildCancelled, ChildRefused:
	default:
		return p, p.refuse(e, effects.CodeInvalid, fmt.Sprintf("outcome: %q is unknown", clip(string(e.Outcome))))
	}
	if e.N == 0 {
		return p.stale(e, e.N)
	}
	if i := slices.Index(p.Leaving, e.N); i >= 0 {
		a := p.advance(c)
		if a.Leaving = slices.Concat(a.Leaving[:i], a.Leaving[i+1:]); len(a.Leaving) == 0 {
			a.Leaving = nil
		}
		return a.end()
	}
	if i := slices.IndexFunc(p.Unmet, n); i >= 0 && p.Phase.Type == PhaseBlocked {
		return p.dependencyEnded(i, e, c)
	}
	phase, ok := p.running()
	if !ok {
		return p.stale(e, e.N)
	}
	if i := slices.IndexFunc(p.Waiting.Children, n); i >= 0 {
		return p.answered(phase, i, e, c)
	}
	if i := slices.IndexFunc(p.Holds, func(h Hold) bool { return h.N == e.N && !h.Granted }); i >= 0 && e.Outcome == ChildRefused {
		return p.notGranted(phase, i, e.Reason, c)
	}
	return p.stale(e, e.N)
}

// pushed: the item is in its queue; a phase that does not wait for its end is
// done.
func (p Pipeline) pushed(e QueuePushed, c Clock) (Pipeline, []effects.Effect) {
	phase, ok := p.running()
	i := slices.IndexFunc(p.Waiting.Children, func(d Awaited) bool {
		return d.N == e.N && !d.Ended && d.Item == uuid.Nil && d.Ref.Kind == KindQueue
	})
	if !ok || i < 0 {
		return p.stale(e, e.N)
	}
	a := p.advance(c)
	wait := a.Definition.Phases[phase].Push
	children := slices.Clone(a.Waiting.Children)
	children[i].Item, children[i].Ended = e.Item, wait == nil || !wait.Wait
	a.Waiting.Children = children
	if children[i].Ended {
		a.proceed(phase, outcome{})
	}
	return a.end()
}

// answered: a child of the running phase has ended; the phase ends with the last
// one, or with the first that did not succeed.
func (p Pipeline) answered(phase, i int, e ChildEnded, c Clock) (Pipeline, []effects.Effect) {
	a := p.advance(c)
	children := slices.Clone(a.Waiting.Children)
	children[i].Ended, children[i].Result = true, kept(e.Result)
	a.Waiting.Children = children
	if e.Outcome != ChildSucceeded {
		reason := reasonOr(e.Reason, "ended without a reason")
		switch {
		case e.Interrupted:
			reason = fmt.Sprintf("interrupted: %s; it is not tried again by itself, as nobody knows how far it came", reason)
		case e.Outcome != ChildFailed:
			reason = fmt.Sprintf("%s %s: %s", children[i].Ref.Kind, e.Outcome, reason)
		}
		a.proceed(phase, outcome{
			err: reason, final: e.Outcome == ChildRefused || e.Interrupted || e.Permanent, interrupted: e.Interrupted, result: children[i].Result,
		})
		return a.end()
	}
	if a.Definition.Phases[phase].Pipelines == nil {
		a.proceed(phase, outcome{result: children[i].Result})
		return a.end()
	}
	size := 0
	for _, child := range children {
		size += len(child.Result)
	}
	if size > a.Definition.contextLimit() {
		a.proceed(phase, outcome{err: fmt.Sprintf("the results of %d bytes are longer than the context's limit of %d", size, a.Definition.contextLimit()), final: true})
	} else if !slices.ContainsFunc(children, func(d Awaited) bool { return !d.Ended }) {
		a.proceed(phase, outcome{result: results(children)})
	}
	return a.end()
}

// results lists what the pipelines gave.
func results(children []Awaited) json.RawMessage {
	b := []byte{'['}
	for i, child := range children {
		if i > 0 {
			b = append(b, ',')
		}
		o := begin(b)
		o.id("id", child.Ref.ID)
		o.raw("result", child.Result)
		b = o.end()
	}
	return canonical(append(b, ']'))
}
