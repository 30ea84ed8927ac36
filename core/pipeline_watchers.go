package core

import (
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// applyWatch: whoever asks is told of the end; at once if the pipeline has ended.
func (t *pipelineTransition) applyWatch(e PipelineWatch) {
	if e.Owner.Ref.ID == uuid.Nil || e.Owner.Ref.Kind == "" {
		t.refuse(effects.CodeInvalid, "owner: missing: it names the machine that is to be told")
		return
	}
	if e.Namespace != t.Namespace || e.Tenant != t.Tenant {
		t.refuse(effects.CodeNotFound, "pipeline not found")
		return
	}
	if t.Phase.Type.Ended() {
		t.Pipeline = t.before // the pipeline stays as it is, and the new watcher is told at once
		t.add(e.Owner.ended(t.ending())...)
		return
	}
	i := slices.IndexFunc(t.Watchers, func(w Owner) bool { return w.Ref == e.Owner.Ref })
	switch {
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
