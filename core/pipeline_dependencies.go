package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// dependencies are the pipelines that must be done first, and are not known to be.
func (t *pipelineTransition) dependencies() []Awaited {
	list := slices.Clip(t.Unmet)
	for _, id := range t.DependsOn {
		if !slices.Contains(t.met, id) {
			list = append(list, Awaited{Ref: effects.Ref{Kind: KindPipeline, ID: id}})
		}
	}
	return list
}

// dependenciesDone gives those of the pipelines on which this one depends that are done when
// it may start. Rules before 8 asked each of them, and so blocked a moment.
func (p Pipeline) dependenciesDone(b *Batch) []uuid.UUID {
	if p.Phase.Type != PhaseInit || b.clock.Rules.before(8) {
		return nil
	}
	var done []uuid.UUID
	for _, id := range p.DependsOn {
		s, err := b.State(effects.Ref{Kind: KindPipeline, ID: id})
		if err != nil {
			continue // the watch that follows meets the error
		}
		if on, exists := s.(Pipeline); exists && on.Phase.Type == PhaseDone && on.Namespace == p.Namespace && on.Tenant == p.Tenant {
			done = append(done, id)
		}
	}
	return done
}

// block: → blocked. Each dependency is asked to tell when it is done.
func (t *pipelineTransition) block(resumeAt string) {
	t.Phase = Phase{Type: PhaseBlocked, Name: resumeAt}
	t.PhaseStartedAt, t.Attempt = t.clock.Now, 0
	t.Unmet = slices.Clone(t.Unmet)
	for i := range t.Unmet {
		t.Unmet[i].N = t.watch(t.Unmet[i].Ref)
	}
	t.announceBlocked(t.blockReason())
}

// watch asks another pipeline to tell when it ends, under the number that it gives.
func (t *pipelineTransition) watch(ref effects.Ref) uint32 {
	n := t.number()
	t.send(ref, PipelineWatch{Owner: Owner{Ref: t.Ref(), N: n}, Namespace: t.Namespace, Tenant: t.Tenant})
	return n
}

func (t *pipelineTransition) announceBlocked(reason string) {
	t.Phase.Reason = texts.Bound(reason, MaxTextBytes)
	t.announce("blocked", announcementTexts("reason", t.Phase.Reason))
}

// blockReason names the pipelines for which a blocked one waits.
func (t *pipelineTransition) blockReason() string {
	const most = 3
	reason := "waits for pipeline"
	for i, d := range t.Unmet {
		if i == most {
			return reason + fmt.Sprintf(" and %d more", len(t.Unmet)-most)
		}
		reason += " " + d.Ref.ID.String()
	}
	return reason
}

// applyDependencyEnd: blocked → running once all dependencies are done, → failed if
// one failed. An unknown dependency blocks until somebody unblocks.
func (t *pipelineTransition) applyDependencyEnd(i int, e ChildEnded) {
	ref := t.Unmet[i].Ref
	t.Unmet = slices.Clone(t.Unmet)
	t.Unmet[i].N = 0
	switch e.Outcome {
	case ChildSucceeded:
		t.Unmet = slices.Delete(t.Unmet, i, i+1)
		switch {
		case len(t.Unmet) == 0:
			t.Unmet = nil
			if len(t.History) == 0 && !t.clock.Rules.before(8) { // else it began before it failed
				t.announce("started", nil)
			}
			t.resume()
		case !slices.ContainsFunc(t.Unmet, func(d Awaited) bool { return d.N == 0 }): // else the unknown one stays the reason
			t.Phase.Reason = t.blockReason()
		}
	case ChildRefused:
		t.announceBlocked(fmt.Sprintf("dependency %s cannot be waited for: %s", ref, e.Reason))
	case ChildFailed, ChildCancelled:
		t.abandonDependencies()
		t.fail(t.Phase.Name, fmt.Sprintf("dependency %s %s: %s", ref, e.Outcome, e.Reason), true)
	}
}

// abandonDependencies stops the waiting for the dependencies that are not done.
func (t *pipelineTransition) abandonDependencies() {
	t.Unmet = slices.Clone(t.Unmet)
	for i, d := range t.Unmet {
		t.abandon(d.N)
		t.Unmet[i].N = 0
	}
}

// resume: blocked → running the phase to resume at.
func (t *pipelineTransition) resume() {
	if t.at < 0 {
		t.failUnknownPhase()
		return
	}
	t.runFrom(t.at)
}

// applyWatch: whoever asks is told of the end; at once if the pipeline has ended.
func (t *pipelineTransition) applyWatch(e PipelineWatch) {
	i := slices.IndexFunc(t.Watchers, func(w Owner) bool { return w.Ref == e.Owner.Ref })
	switch {
	case e.Owner.Ref.ID == uuid.Nil || e.Owner.Ref.Kind == "":
		t.refuse(effects.CodeInvalid, "owner: missing: it names the machine that is to be told")
	case e.Namespace != t.Namespace || e.Tenant != t.Tenant:
		t.refuse(effects.CodeNotFound, "pipeline not found")
	case t.Phase.Type.Ended():
		t.Pipeline = t.before // the pipeline stays as it is, and the new watcher is told at once
		t.add(e.Owner.ended(t.ending())...)
	case slices.Contains(t.Watchers, e.Owner):
		t.conflict("%s watches it already", e.Owner.Ref)
	case i >= 0: // the watcher waits under another number than before
		t.Watchers = slices.Clone(t.Watchers)
		t.Watchers[i] = e.Owner
	case len(t.Watchers) >= MaxWatchers:
		t.conflict("%d machines watch it: more are too many", len(t.Watchers))
	default:
		t.Watchers = slices.Concat(t.Watchers, []Owner{e.Owner})
	}
}

// ending is the end of an ended pipeline, as a watcher that comes later is told.
func (t *pipelineTransition) ending() ChildEnded {
	e := ChildEnded{Child: t.Ref()}
	switch t.Phase.Type {
	case PhaseDone:
		e.Outcome, e.Result = ChildSucceeded, t.Context[t.Definition.Result]
	case PhaseFailure:
		e.Outcome, e.Reason, e.Permanent = ChildFailed, t.Phase.Error, !t.Phase.Recoverable
	case PhaseCancelled:
		e.Outcome, e.Reason = ChildCancelled, t.Phase.Reason
	case PhaseInit, PhaseBlocked, PhaseRunning:
	}
	return e
}

// tellEnd tells the owner, once, and the watchers that the pipeline has ended.
func (t *pipelineTransition) tellEnd() {
	e := t.ending()
	e.Interrupted = t.Phase.Type == PhaseFailure && slices.ContainsFunc(t.History, func(r PhaseRecord) bool { return r.Interrupted })
	if !t.Told {
		t.Told = true
		t.add(t.Owner.ended(e)...)
	}
	for _, w := range t.Watchers {
		t.add(w.ended(e)...)
	}
	t.Watchers = nil
}
