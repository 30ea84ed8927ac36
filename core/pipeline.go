package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Pipeline runs the phases of its definition in order, and hands a context from
// one to the next (003 Pipeline, D2, D3, R7).
//
//	create
//	  │
//	  ▼   start, due           unblock;
//	init ──────────▶ blocked ── all dependencies done ──┐
//	  │                 │  ▲                            │
//	  │ start, due      │  └── retry (still some) ──┐   │
//	  │                 │ a dependency failed       │   │
//	  │                 └───────────────▶ failed ───┘   │
//	  ▼                                   │  ▲          │
//	running ◀── retry (recoverable) ──────┘  │          │
//	  │ │ ▲                                  │          │
//	  │ │ └── the next phase, another attempt┼──────────┘
//	  │ └── a phase failed for good ─────────┘
//	  └── the last phase is done ──▶ done
//
// cancel leads from init, blocked and running to cancelled; expire from done,
// failed and cancelled out of existence.
//
// Invariants, held by property tests:
//   - A pipeline passes its phases in order: while it runs, a phase is only
//     followed by a later one; only a retry goes back, to the phase that failed.
//   - Done, failed and cancelled have no deadline, wait for nothing, and hold
//     neither lock nor slot: what they held or waited for was given back.
//   - An answer is taken at most once: its number is not waited for afterwards.
//   - The context is never above its limit.
//   - Numbers never decrease, and no two of a child, an effect or a lock that
//     are asked for have the same.
//   - Owner and watchers are told exactly once, at the end.
//   - Each change into failed and blocked keeps the phase to resume at (R7).
//   - The definition never changes.
//   - Every list of the state stays within its limit.
type Pipeline struct {
	PipelineSpec
	Phase          Phase         `json:"phase"`
	PhaseStartedAt Time          `json:"phase_started_at"`
	Attempt        uint32        `json:"attempt"` // of the phase, from 1
	Checkpoints    []Checkpoint  `json:"checkpoints"`
	CreatedAt      Time          `json:"created_at"`
	UpdatedAt      Time          `json:"updated_at"`
	StartedAt      Time          `json:"started_at"`
	FinishedAt     Time          `json:"finished_at"`
	EndsBy         Time          `json:"ends_by"` // by the definition's time limit; 0: none
	History        []PhaseRecord `json:"history"` // how its phases went, the last [MaxHistory]
	// Pending are the outer effects; its number counts children and locks as well.
	Pending PendingEffects `json:"asked"`
	Waiting Waiting        `json:"waiting"`
	// Holds are the locks and slots that it has, or waits for.
	Holds []Hold `json:"holds"`
	// Regain are those that it had when it failed: a retry regains them first.
	Regain []Hold `json:"regain"`
	// Failing is why the pipeline is about to fail, while it cleans up.
	Failing *Failing  `json:"failing"`
	Signals []Signal  `json:"signals"` // that came before their phase
	Unmet   []Awaited `json:"unmet"`   // dependencies that are not done
	// Abandoned are the numbers of children that the pipeline has stopped waiting for,
	// and that have not ended.
	Abandoned []uint32 `json:"leaving"`
	Watchers  []Owner  `json:"watchers"` // to be told of the end
	Told      bool     `json:"told"`     // the owner was
	// Worktrees are those that it has made, and that have a home, at most [MaxWorktrees].
	Worktrees []Worktree `json:"worktrees,omitempty"`

	parts *pipelineParts // what is stored in records of its own; nil: nothing
}

// PhaseType tells the phases of a pipeline's life apart (003 Phase).
type PhaseType string

// Phases of a pipeline's life.
const (
	PhaseInit      PhaseType = "init"
	PhaseBlocked   PhaseType = "blocked"
	PhaseRunning   PhaseType = "running"
	PhaseDone      PhaseType = "done"
	PhaseFailure   PhaseType = "failed"
	PhaseCancelled PhaseType = "cancelled"
)

// Ended reports whether nothing but a retry or expiry follows.
func (t PhaseType) Ended() bool {
	return t == PhaseDone || t == PhaseFailure || t == PhaseCancelled
}

// Phase says where a pipeline is (003 Phase): init, blocked{reason},
// running{name}, done, failed{error, recoverable}, cancelled{reason}.
type Phase struct {
	Type PhaseType `json:"type"`
	// Name is the phase that runs, or at which a blocked, failed or cancelled
	// pipeline stands: where it resumes (R7).
	Name        string `json:"name,omitempty"`
	Reason      string `json:"reason,omitempty"` // blocked, cancelled
	Error       string `json:"error,omitempty"`  // failed
	Recoverable bool   `json:"recoverable,omitempty"`
}

// pipelineTransition is the application of one event to a pipeline under way. It
// writes to no list of the pipeline from before: a list is copied first.
type pipelineTransition struct {
	transition
	Pipeline
	before Pipeline
	at     int         // the index of the phase at which the pipeline stands; -1: of none
	met    []uuid.UUID // dependencies that are known to be done

	recorded int      // records that the history has got
	values   []string // names of the context that were given a value
}

// Apply carries out one transition.
func (p Pipeline) Apply(e PipelineEvent, c Clock) (Pipeline, []effects.Effect) {
	t := p.transition(e, c, nil)
	return concluded(p, t.Pipeline, t.transition)
}

// transition applies an event; met are those of the pipelines on which this one depends that
// are done, as far as the caller knows.
func (p Pipeline) transition(e PipelineEvent, c Clock, met []uuid.UUID) *pipelineTransition {
	t := &pipelineTransition{transition: transition{clock: c, event: e}, Pipeline: p, before: p, met: met}
	t.UpdatedAt, t.at = c.Now, p.Definition.index(p.Phase.Name)
	switch create, ok := e.(PipelineCreate); {
	case p.ID != uuid.Nil:
		t.apply(e)
	case ok:
		t.create(create)
	default:
		t.transition.refuse(effects.CodeNotFound, "pipeline not found")
	}
	return t
}

// apply has 003's table, and the rows that Orrery adds to it: the event, the states
// in which the pipeline takes it, the function that does it. Some events say how the
// running phase went: this outcome is applied at the end.
func (t *pipelineTransition) apply(e PipelineEvent) {
	o := outcome{waits: true}
	if t.applyWithoutDefinition(e) {
		return
	}
	switch e := e.(type) {
	case PipelineStart:
		if t.in("only a pipeline that is init can be started", PhaseInit) {
			t.start()
		}
	case PhaseComplete:
		o = t.completePhase(e)
	case PhaseFailed:
		o = t.failPhase(e)
	case PipelineRetry:
		if t.in("only a failed pipeline can be retried", PhaseFailure) {
			o = t.retry()
		}
	case PipelineUnblock:
		if t.in("only a blocked pipeline can be unblocked", PhaseBlocked) {
			t.unblock()
		}
	case PipelineCancel:
		if t.in("it has ended already", PhaseInit, PhaseBlocked, PhaseRunning) {
			t.cancel(e)
		}
	case PipelineExpire:
		if t.in(`it cannot take "expire"`, PhaseDone, PhaseFailure, PhaseCancelled) {
			t.Pipeline = Pipeline{}
		}
	case PipelineDue:
		o = t.applyDeadline()
	case PipelineCheckpoint:
		t.applyCheckpoint(e)
	case PipelineWatch:
		t.applyWatch(e)
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		if !takeEffectAnswer(t, &t.Pending, e) {
			t.unawaited(answeredEffect(e))
		}
	case Granted:
		o = t.applyGrant(e)
	case Lost:
		o = t.applyLoss(e)
	case QueuePushed:
		o = t.applyPush(e)
	case PipelineSignal:
		o = t.applySignal(e)
	case PipelineApprove:
		o = t.applyApproval(e)
	case ChildEnded:
		o = t.applyChildEnd(e)
	case HomeLost:
		o = t.homeLost(e)
	case PipelineCreate:
		t.refuse(effects.CodeExists, "id: pipeline %s exists already", t.ID)
	}
	t.applyOutcome(o)
}

// in reports whether the pipeline is in one of those states. In another one the event
// changes nothing (003's last row), and the refusal says why.
func (t *pipelineTransition) in(otherwise string, states ...PhaseType) bool {
	if slices.Contains(states, t.Phase.Type) {
		return true
	}
	t.conflict("%s", otherwise)
	return false
}

// create: (absent) → init. The pipeline starts by its deadline at once, unless it is
// to be held.
func (t *pipelineTransition) create(e PipelineCreate) {
	spec, err := e.Spec.checked()
	if t.invalid(err) {
		return
	}
	t.Pipeline = Pipeline{PipelineSpec: spec, Phase: Phase{Type: PhaseInit}, CreatedAt: t.clock.Now, UpdatedAt: t.clock.Now}
}

// start: 003 (Init, Start): init → blocked, while a dependency is not known to be done,
// else → running the first phase.
func (t *pipelineTransition) start() {
	if len(t.Definition.Phases) == 0 {
		t.conflict("only a pipeline that is init can be started")
		return
	}
	t.StartedAt, t.EndsBy = t.clock.Now, t.timeLimit()
	if t.Unmet = t.dependencies(); len(t.Unmet) > 0 {
		t.block(t.Definition.Phases[0].Name)
		return
	}
	t.announce("started", nil)
	t.runFrom(0)
}

// completePhase: 003 (Running, PhaseComplete): → running the next phase, or done.
// The event is for a phase that waits for an answer from outside; any other one completes
// by what it waits for.
func (t *pipelineTransition) completePhase(e PhaseComplete) outcome {
	if !t.awaitsAnswer(e.Phase, e.Attempt) {
		return t.noAnswerAwaited(e.Phase, e.Attempt)
	}
	return outcome{answer: e.Result}
}

// failPhase: 003 (Running, PhaseFailed): → failed, unless the definition has another
// attempt or a way around. The event is for a phase that waits for an answer from
// outside; any other one fails by what it waits for.
func (t *pipelineTransition) failPhase(e PhaseFailed) outcome {
	if !t.awaitsAnswer(e.Phase, e.Attempt) {
		return t.noAnswerAwaited(e.Phase, e.Attempt)
	}
	return outcome{err: cmp.Or(e.Error, "failed without a reason"), final: e.Permanent, fatal: e.Permanent}
}

// awaitsAnswer reports whether the phase runs in that attempt, 0 for any, and waits for an
// answer from outside: one by hand, a signal, or an approval. Rules before 8 had only
// the first answered by [PhaseComplete] and [PhaseFailed].
func (t *pipelineTransition) awaitsAnswer(phase string, attempt uint32) bool {
	if t.Phase.Name != phase || attempt != 0 && attempt != t.Attempt {
		return false
	}
	return t.waitsFor(WaitManual) || !t.clock.Rules.before(8) && (t.waitsFor(WaitSignal) || t.waitsFor(WaitApproval))
}

func (t *pipelineTransition) noAnswerAwaited(phase string, attempt uint32) outcome {
	which := ""
	if attempt != 0 {
		which = fmt.Sprintf(" in attempt %d", attempt)
	}
	return t.conflict("no phase %q waits for an answer from outside%s", clip(phase), which)
}

// retry: 003 (Failed(recoverable), Retry): → running the phase that failed (D3), once
// the locks are regained that the pipeline had; → blocked where a dependency is not
// done.
func (t *pipelineTransition) retry() outcome {
	switch {
	case !t.Phase.Recoverable:
		return t.conflict("its failure is not recoverable")
	case t.at < 0:
		return t.conflict("phase %q is not in the definition", clip(t.Phase.Name))
	}
	t.FinishedAt, t.EndsBy = 0, t.timeLimit()
	if len(t.Unmet) > 0 {
		t.announce("retry", announcementTexts("phase", t.Phase.Name))
		t.block(t.Phase.Name)
		return outcome{waits: true}
	}
	t.Attempt = t.attemptsOf(t.Phase.Name)
	t.Phase, t.PhaseStartedAt = Phase{Type: PhaseRunning, Name: t.Phase.Name}, t.clock.Now
	return t.retryPhase()
}

// unblock: 003 (Blocked, Unblock): → running the phase to resume at, whatever the
// pipeline still depends on.
func (t *pipelineTransition) unblock() {
	t.abandonDependencies()
	t.Unmet = nil
	t.resume()
}

// cancel: init, blocked, running → cancelled, with all that the pipeline runs.
func (t *pipelineTransition) cancel(e PipelineCancel) {
	reason := texts.Bound(cmp.Or(e.Reason, "cancelled"), MaxTextBytes)
	if t.Phase.Type == PhaseRunning {
		t.record(HistoryCancelled, reason)
	}
	t.abandonDependencies()
	t.Unmet = nil
	t.Phase = Phase{Type: PhaseCancelled, Name: t.Phase.Name, Reason: reason}
	t.Failing = nil
	t.announce("cancelled", announcementTexts("reason", reason))
	t.end()
}

// applyDeadline: init → running; or a wait, a back-off or a time limit has run out.
func (t *pipelineTransition) applyDeadline() outcome {
	switch at, now, w := t.Deadline(), t.clock.Now, t.Waiting; {
	case at.IsZero():
		return t.conflict("it waits for no time")
	case at.After(now):
		return t.conflict("it is due at %s, after %s", at, now)
	case t.Phase.Type == PhaseInit && len(t.Definition.Phases) > 0:
		t.start()
		return outcome{waits: true}
	case t.at < 0:
		t.failUnknownPhase()
		return outcome{waits: true}
	case !t.EndsBy.IsZero() && !t.EndsBy.After(now):
		t.applyTimeLimit()
		return outcome{waits: true}
	case w.Until.IsZero() || w.Until != earliest(w.Until, w.Deadline):
		return outcome{err: "timed out after " + lengthText(t.phase().TimeoutMS)}
	case w.For == WaitRetry:
		return t.retryPhase()
	case w.For == WaitTransition:
		t.Waiting = Waiting{}
		t.runFrom(t.at)
		return outcome{waits: true}
	}
	return outcome{}
}

// unawaited refuses an answer that the pipeline does not wait for.
func (t *pipelineTransition) unawaited(n uint32) outcome {
	return t.conflict("it waits for nothing with the number %d", n)
}

// conflict refuses the event in the present state, and says which state it is.
func (t *pipelineTransition) conflict(format string, args ...any) outcome {
	state := string(t.before.Phase.Type)
	if t.before.Phase.Type == PhaseRunning {
		state = fmt.Sprintf("running phase %q", clip(t.before.Phase.Name))
	}
	if t.lacksDefinition() {
		state += ", and " + definitionLost
	}
	return t.refuse(effects.CodeConflict, "pipeline %s is %s: %s", t.ID, state, fmt.Sprintf(format, args...))
}

// refuse makes the event change nothing: the running phase goes on waiting.
func (t *pipelineTransition) refuse(code effects.Code, format string, args ...any) outcome {
	t.transition.refuse(code, format, args...)
	return outcome{waits: true}
}

// announce adds an event of the bus (003 Event).
func (t *pipelineTransition) announce(action string, data json.RawMessage) {
	t.transition.announce("pipeline", "pipeline", action, t.ID, data)
}

// phase is the definition of the phase at which the pipeline stands.
func (t *pipelineTransition) phase() PhaseDef { return t.Definition.Phases[t.at] }

// waitsFor reports whether a phase runs and waits for that.
func (t *pipelineTransition) waitsFor(what WaitFor) bool { return t.running() && t.Waiting.For == what }

// AwaitsApproval reports whether the running phase waits for a person who approves it or rejects it.
func (p Pipeline) AwaitsApproval() bool {
	return p.Phase.Type == PhaseRunning && p.Waiting.For == WaitApproval
}

// running reports whether a phase of the definition runs.
func (t *pipelineTransition) running() bool { return t.at >= 0 && t.Phase.Type == PhaseRunning }

// timeLimit is when a run that begins now has taken too long; 0: never.
func (t *pipelineTransition) timeLimit() Time { return limitAt(t.clock.Now, t.Definition.TimeoutMS) }

// number gives the next number of a child, an effect or a lock.
func (t *pipelineTransition) number() uint32 {
	if t.Pending.Last < math.MaxUint32 {
		t.Pending.Last++
	}
	return t.Pending.Last
}

// numbersRunOut reports whether the numbers are about to be used up.
func (t *pipelineTransition) numbersRunOut() bool { return t.Pending.Last > math.MaxUint32-1000 }

// Ref names the pipeline.
func (p Pipeline) Ref() effects.Ref { return refOf(KindPipeline, p.ID) }

// Deadline is when it starts, goes on by itself, or has taken too long.
func (p Pipeline) Deadline() Time {
	var at Time
	switch p.Phase.Type {
	case PhaseInit:
		if p.Hold {
			return 0
		}
		at = max(p.CreatedAt, effects.MinTime)
	case PhaseBlocked:
		at = p.EndsBy
	case PhaseRunning:
		at = earliest(p.EndsBy, earliest(p.Waiting.Until, p.Waiting.Deadline))
	case PhaseDone, PhaseFailure, PhaseCancelled:
	}
	if at.IsZero() {
		return 0
	}
	return max(at, effects.MinTime)
}

// endedAt: see [EndedAt].
func (p Pipeline) endedAt() (Time, bool) { return p.FinishedAt, p.Phase.Type.Ended() }

// Terms lists the pipeline under all, under its phase's type within its tenant, and under
// what may be forgotten.
func (p Pipeline) Terms() []effects.Term {
	if p.ID == uuid.Nil {
		return nil
	}
	at, ended := p.endedAt()
	failed, has := p.failedAt()
	terms := p.withWaiting(listed(p.CreatedAt, StatusTerm(p.Phase.Type), p.scope()))
	return withEnd(withFailure(terms, failed, has, p.scope()), at, ended)
}

func (p Pipeline) outstanding() []effects.Outer { return p.Pending.outstanding() }
