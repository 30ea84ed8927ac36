package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
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
	// Asked are the outer effects; its number counts children and locks as well.
	Asked   PendingEffects `json:"asked"`
	Waiting Waiting        `json:"waiting"`
	// Holds are the locks and slots that it has, or waits for.
	Holds []Hold `json:"holds"`
	// Regain are those that it had when it failed: a retry takes them again first.
	Regain []Hold `json:"regain"`
	// Failing is why the pipeline is about to fail, while it cleans up.
	Failing  *Failing  `json:"failing"`
	Signals  []Signal  `json:"signals"`  // that came before their phase
	Unmet    []Awaited `json:"unmet"`    // dependencies that are not done
	Leaving  []uint32  `json:"leaving"`  // numbers of children that were given up and have not ended
	Watchers []Owner   `json:"watchers"` // to be told of the end
	Told     bool      `json:"told"`     // the owner was
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

// Checkpoint says how far a pipeline had come (003 Checkpoint).
type Checkpoint struct {
	Phase     string `json:"phase"`
	Message   string `json:"message"`
	Timestamp Time   `json:"timestamp"`
}

// PhaseRecord says how a phase went.
type PhaseRecord struct {
	Name      string       `json:"name"`
	StartedAt Time         `json:"started_at"`
	EndedAt   Time         `json:"ended_at"`
	Attempts  uint32       `json:"attempts"`
	Outcome   PhaseOutcome `json:"outcome"`
	Reason    string       `json:"reason,omitempty"` // its beginning
	// Interrupted: nobody knows how far what it ran came, see [ChildEnded].
	Interrupted bool `json:"interrupted,omitempty"`
}

// PhaseOutcome says how a phase ended.
type PhaseOutcome string

// Outcomes of a phase.
const (
	HistoryDone      PhaseOutcome = "done"
	HistoryFailed    PhaseOutcome = "failed"
	HistorySkipped   PhaseOutcome = "skipped"
	HistoryCancelled PhaseOutcome = "cancelled"
)

// WaitFor says what ends the waiting of a running phase.
type WaitFor string

// What a running phase waits for.
const (
	WaitChild    WaitFor = "child"    // children: an action, a task, a strategy, pipelines, an item
	WaitEffect   WaitFor = "effect"   // the answer to an outer effect
	WaitTime     WaitFor = "time"     // its time
	WaitSignal   WaitFor = "signal"   // a [PipelineSignal]
	WaitApproval WaitFor = "approval" // a [PipelineApprove]
	WaitManual   WaitFor = "manual"   // [PhaseComplete] or [PhaseFailed]
	WaitHold     WaitFor = "hold"     // a lock or slots
	WaitRegain   WaitFor = "regain"   // locks and slots that it had before it failed
	WaitRetry    WaitFor = "retry"    // the next attempt
	WaitTurn     WaitFor = "turn"     // its turn, after many phases in one transition
)

// Waiting says what the running phase waits for.
type Waiting struct {
	For      WaitFor   `json:"for,omitempty"`
	N        uint32    `json:"n,omitempty"`        // the number of the effect, lock or slots
	Name     string    `json:"name,omitempty"`     // of the signal, or what a person is to read
	Children []Awaited `json:"children,omitempty"` // the children, in the order in which they were made
	Until    Time      `json:"until,omitempty"`    // when it goes on by itself
	Deadline Time      `json:"deadline,omitempty"` // when the attempt has taken too long
	Error    string    `json:"error,omitempty"`    // why the last attempt failed
}

// Awaited is another machine whose end is waited for.
type Awaited struct {
	Ref    effects.Ref     `json:"ref"`
	N      uint32          `json:"n,omitempty"`
	Own    bool            `json:"own,omitempty"` // it was made here, and goes where nobody waits for it any more
	Item   uuid.UUID       `json:"item,omitzero"` // of a queue: the one that was pushed, which goes too unless somebody has taken it
	Ended  bool            `json:"ended,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Hold is a lock, or slots of a semaphore, that a pipeline has or waits for.
type Hold struct {
	Name      string `json:"name"`
	Semaphore bool   `json:"semaphore,omitempty"`
	Slots     uint32 `json:"slots,omitempty"`
	TTLMS     int64  `json:"ttl_ms,omitempty"`
	N         uint32 `json:"n"`
	Granted   bool   `json:"granted,omitempty"`
	Token     uint64 `json:"token,omitempty"` // the fencing token
	Until     Time   `json:"until,omitempty"`
}

// Failing is a failure that is told once the pipeline has cleaned up.
type Failing struct {
	Phase       string `json:"phase"`
	Error       string `json:"error"`
	Recoverable bool   `json:"recoverable"`
}

// Signal is one that came before its phase.
type Signal struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	At      Time            `json:"at"`
}

// Apply carries out one transition.
func (p Pipeline) Apply(e PipelineEvent, c Clock) (Pipeline, []effects.Effect) {
	if create, ok := e.(PipelineCreate); ok {
		return p.create(create, c)
	}
	if p.ID == uuid.Nil {
		return p, p.refuse(e, effects.CodeNotFound, "pipeline not found")
	}
	switch e := e.(type) {
	case PipelineStart:
		return p.start(e, c)
	case PhaseComplete:
		return p.phaseComplete(e, c)
	case PhaseFailed:
		return p.phaseFailed(e, c)
	case PipelineRetry:
		return p.retry(e, c)
	case PipelineUnblock:
		return p.unblock(e, c)
	case PipelineCancel:
		return p.cancel(e, c)
	case PipelineSignal:
		return p.signal(e, c)
	case PipelineApprove:
		return p.approve(e, c)
	case PipelineCheckpoint:
		return p.checkpoint(e, c)
	case PipelineWatch:
		return p.watch(e, c)
	case PipelineDue:
		return p.due(e, c)
	case PipelineExpire:
		if p.Phase.Type.Ended() {
			return Pipeline{}, nil
		}
	case ChildEnded:
		return p.childEnded(e, c)
	case QueuePushed:
		return p.pushed(e, c)
	case EffectDone:
		return p.effectDone(e, c)
	case EffectFailed:
		return p.effectFailed(e, c)
	case EffectInterrupted:
		return p.effectInterrupted(e, c)
	case EffectHandedBack:
		return p.effectHandedBack(e, c)
	case Granted:
		return p.granted(e, c)
	case Lost:
		return p.lost(e, c)
	case PipelineCreate:
	}
	return p.conflict(e, "it cannot take %q", e.EventType())
}

// create: (absent) → init. It starts at once by its deadline, unless it is held.
func (p Pipeline) create(e PipelineCreate, c Clock) (Pipeline, []effects.Effect) {
	if p.ID != uuid.Nil {
		return p, p.refuse(e, effects.CodeExists, fmt.Sprintf("id: pipeline %s exists already", p.ID))
	}
	spec, err := e.Spec.normal()
	if err == nil {
		err = spec.validate()
	}
	if err != nil {
		return p, refused(effects.Ref{Kind: KindPipeline, ID: e.Spec.ID}, e, effects.CodeInvalid, err.Error())
	}
	return Pipeline{PipelineSpec: spec, Phase: Phase{Type: PhaseInit}, CreatedAt: c.Now, UpdatedAt: c.Now}, nil
}

// normal gives the spec as it reads after one way through the journal, so that a
// replay sees the same, with the defaults of the inputs.
func (s PipelineSpec) normal() (PipelineSpec, error) {
	if err := errors.Join(checkName("namespace", s.Namespace, false), checkName("tenant", s.Tenant, false),
		checkName("runbook", s.Runbook, false), checkText("label", s.Label)); err != nil {
		return s, err
	}
	out, err := throughJSON(s)
	if err != nil {
		return s, fmt.Errorf("definition and context: %w", err)
	}
	for _, in := range out.Definition.Inputs {
		if _, given := out.Context[in.Name]; !given && len(in.Default) > 0 {
			out.Context = withValue(out.Context, in.Name, in.Default)
		}
	}
	if len(out.Context) == 0 {
		out.Context = nil
	}
	if len(out.DependsOn) == 0 {
		out.DependsOn = nil
	}
	return out, nil
}

// throughJSON gives a value as it reads after one way through JSON, and an error
// where it is not the same after another.
func throughJSON[T any](v T) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return v, err
	}
	if again, err := json.Marshal(out); err != nil || !bytes.Equal(b, again) {
		return v, errors.New("a text is not valid UTF-8")
	}
	return out, nil
}

// validate tells what is wrong with a spec in its normal form.
func (s PipelineSpec) validate() error {
	if s.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	b, err := json.Marshal(s.Definition)
	switch {
	case err != nil:
		return fmt.Errorf("definition: %w", err)
	case len(b) > MaxDefinitionBytes:
		return fmt.Errorf("definition: %d bytes of JSON are more than %d", len(b), MaxDefinitionBytes)
	case tooDeep(b):
		return fmt.Errorf("definition: nested deeper than %d levels", MaxJSONDepth)
	case len(s.DependsOn) > MaxDependencies:
		return fmt.Errorf("depends_on: %d pipelines are more than %d", len(s.DependsOn), MaxDependencies)
	}
	for i, id := range s.DependsOn {
		if id == uuid.Nil || id == s.ID || slices.Contains(s.DependsOn[:i], id) {
			return fmt.Errorf("depends_on[%d]: %s is no id, this pipeline's own, or there twice", i, id)
		}
	}
	for _, name := range contextNames(s.Context) {
		if err := checkJSON("context."+name, s.Context[name], MaxContextLimit); err != nil {
			return err
		}
	}
	for _, in := range s.Definition.Inputs {
		if _, given := s.Context[in.Name]; in.Required && !given {
			return fmt.Errorf("context.%s: the input is missing", in.Name)
		}
	}
	if n, most := contextSize(s.Context), s.Definition.contextLimit(); n > most {
		return fmt.Errorf("context: %d bytes are more than %d", n, most)
	}
	return errors.Join(checkScope(s.Namespace, s.Tenant), checkContextNames("context", s.Context),
		s.Definition.ValidateWith(contextNames(s.Context)...))
}

// Ref names the pipeline.
func (p Pipeline) Ref() effects.Ref {
	if p.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindPipeline, ID: p.ID}
}

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

// Terms lists the pipeline under all, its phase's type and its tenant.
func (p Pipeline) Terms() []effects.Term {
	if p.ID == uuid.Nil {
		return nil
	}
	return []effects.Term{
		{Name: TermAll, At: p.CreatedAt, Counted: true},
		{Name: StatusTerm(StatusType(p.Phase.Type)), At: p.CreatedAt, Counted: true},
		{Name: ScopeTerm(p.Namespace, p.Tenant), At: p.CreatedAt},
	}
}

// AppendJSON appends the stored form.
func (p Pipeline) AppendJSON(b []byte) []byte { return appendMarshaled(b, p) }

func (p Pipeline) outstanding() []effects.Outer { return p.Asked.outstanding() }

func (p Pipeline) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(PipelineEvent)
	if !ok {
		return p, p.refuse(e, effects.CodeInvalid, fmt.Sprintf("a pipeline takes no event %q", e.EventType()))
	}
	return p.Apply(own, c)
}

func (p Pipeline) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindPipeline, ID: p.ID}, e, code, reason)
}

// conflict refuses what does not go with the present state, and says which it is.
func (p Pipeline) conflict(e Event, format string, args ...any) (Pipeline, []effects.Effect) {
	where := string(p.Phase.Type)
	if p.Phase.Type == PhaseRunning {
		where = fmt.Sprintf("running phase %q", clip(p.Phase.Name))
	}
	return p, p.refuse(e, effects.CodeConflict, fmt.Sprintf("pipeline %s is %s: %s", p.ID, where, fmt.Sprintf(format, args...)))
}

// stale refuses an answer that nobody waits for.
func (p Pipeline) stale(e Event, n uint32) (Pipeline, []effects.Effect) {
	return p.conflict(e, "it waits for nothing with the number %d", n)
}
