package shell

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/internal/scarce"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/store"
)

// Tool does an action's work. It is the one interface that an embedder
// implements.
//
// Run is called in a goroutine of its own, after the state "running" is durable
// (A8). Its context ends when the action is cancelled, reaches its time limit
// or loses its lease, or when the engine stops; [context.Cause] tells which:
// [ErrCancelled], [ErrTimeLimit], [ErrFenced] or [ErrStopping]. Run must return
// soon after that, and at once where the cause is [ErrKilled] or [Killed] says so. A nil error completes the action with the result, which must be
// valid JSON or empty; an error fails it with the error's text as the reason, and
// keeps a result that came beside it. A panic is caught and fails the action. Whether an
// action that failed is tried again is its policy's to say; no attempt follows an error that
// [IsPermanent], and [RetryAfter] says how long the wait is at least.
//
// A Tool must be safe for concurrent use.
type Tool interface {
	Run(ctx context.Context, call Call) (json.RawMessage, error)
}

// ToolFunc makes a Tool of a function.
type ToolFunc func(ctx context.Context, call Call) (json.RawMessage, error)

// Run calls f.
func (f ToolFunc) Run(ctx context.Context, call Call) (json.RawMessage, error) {
	return f(ctx, call)
}

// InputValidator is implemented by a [Tool] that can tell a bad input before
// the action is stored. The error names the field, its value and what would be
// right; the creation is refused with it.
type InputValidator interface {
	ValidateInput(input json.RawMessage) error
}

// InputStorer is implemented by a [Tool] that stores its input, or parts of it: in an item of
// a queue, a pipeline, a job. It is given references to secrets as they are, and not the
// secrets: see Options.Secrets. A tool that wraps such a one must be one, too.
type InputStorer interface {
	StoresInput()
}

// Stationary is implemented by a [Tool] whose runs need the engine that calls it, beyond what it is given in the [Call], or what belongs to the process that owns
// the store: the store is not handed over while it runs ([Options.Handover]). An [InputStorer] need not say so: it is taken for one. A tool that wraps such a one must be one, too.
type Stationary interface {
	Stationary()
}

// portable reports whether a run of a tool may go on once the store is another process's.
func portable(t Tool) bool {
	switch t.(type) {
	case InputStorer, PipelineStarter, Stationary:
		return false
	}
	return true
}

// Call is what a [Tool] is told about the action that it carries out.
type Call struct {
	ActionID   uuid.UUID
	Attempt    uint32 // 1 for the first run
	Namespace  string
	Tenant     string
	Label      string
	Tool       string
	ActionType string
	Input      json.RawMessage   // the action's tool_input; must not be written to
	Payload    []byte            // the raw body, where a webhook triggered the action; must not be written to
	Header     json.RawMessage   // the webhook's kept headers as a JSON object, or empty
	DueAt      effects.Time      // when the action was due
	Cycle      uint32            // which of the action's own cycles: 1 for the first
	Occurrence uuid.UUID         // the entry of the ledger, where a recurring action made the action; else zero
	Metadata   map[string]string // must not be written to
	Labels     map[string]string // must not be written to
	// IdempotencyKey is the same for every attempt of one occurrence, so that the
	// other side can tell a repetition: "actionID/cycle".
	IdempotencyKey string
	Route          string // of the webhook that triggered the action, or empty

	log    *slog.Logger
	engine *Engine // that runs the tool, for tools of this package
	wrote  *runOutput
}

// Output gives a writer for what the tool writes while it runs, as a program does to its standard
// output: it is kept as it comes, its head and its tail, beside the result and the state, and
// [Actions.CopyOutput] reads and follows it. Values of the secrets that the input names are masked.
// Each call gives another writer into the same output, for one stream of text: a value whose
// beginning and end are written to two of them is not found. A write never fails, never waits for
// the disk, and costs a copy of what is kept; it has no effect once the tool has returned. A writer
// is safe for concurrent use. A tool that never asks for one costs nothing.
func (c Call) Output() io.Writer {
	if c.wrote == nil {
		return io.Discard
	}
	return c.wrote.writer()
}

// Logger gives the engine's logger with the action's id, tool and attempt.
func (c Call) Logger() *slog.Logger {
	return cmp.Or(c.log, slog.Default()).With("action_id", c.ActionID, "tool", c.Tool, "attempt", c.Attempt)
}

// Causes with which a tool's context ends.
var (
	ErrCancelled = engine.ErrCancelled // the action was cancelled
	ErrTimeLimit = engine.ErrTimeLimit // it reached its time limit
	ErrStopping  = engine.ErrStopping  // the engine is stopping
	ErrFenced    = engine.ErrFenced    // another instance took over
	// ErrKilled is an [ErrCancelled], too: the tool is not given time to end by itself.
	ErrKilled = engine.ErrKilled
)

// Killed gives a channel that is closed once the run whose context that is must end without any
// time to end by itself: the cause is [ErrKilled] or [ErrFenced], or the run had been asked to
// stop before and is to be killed now. It is nil, and never closed, for a context that is of no
// run.
func Killed(ctx context.Context) <-chan struct{} { return engine.Killed(ctx) }

// MaxResultBytes bounds the result of one run: a larger one fails it, and is
// left out if it comes beside an error.
const MaxResultBytes = engine.MaxResultBytes

// Permanent marks an error as one after which no further attempt makes sense.
func Permanent(err error) error { return engine.Permanent(err) }

// IsPermanent reports whether an error says that no further attempt makes sense: it,
// or one that it wraps, has a method Permanent() bool that returns true.
func IsPermanent(err error) bool { return engine.IsPermanent(err) }

// RetryAfter marks an error as one after which the other side asks to be left alone for so
// long, as the header Retry-After of HTTP does: an action that is tried again waits for at
// least that, up to its policy's max_ms. Any error does so that has, or wraps one that has, a
// method RetryDelay() time.Duration.
func RetryAfter(err error, wait time.Duration) error { return engine.RetryAfter(err, wait) }

// NotStarted marks an error as one after which certainly nothing has begun, for want of
// something that the system may have again soon, such as a file descriptor. The engine
// then runs the tool again by itself, with growing waits: that is no attempt, and no
// policy is asked.
func NotStarted(err error) error { return engine.NotStarted(err) }

// IsNotStarted reports whether an error says so: it, or one that it wraps, has a method
// NotStarted() bool that returns true.
func IsNotStarted(err error) bool { return engine.IsNotStarted(err) }

// Interpreter carries out the outer effects of one lane that are no tools' runs:
// sessions, git, notifications.
//
// Carry is called in a goroutine of its own, after the state that asks for the
// effect is durable. Its context ends as that of a [Tool]'s run does. A nil error
// answers the machine with the result, which must be valid JSON or empty. An
// error that is permanent ([IsPermanent]) says that no further attempt makes sense.
// After a crash an effect may be repeated: it must find out how far it came. A panic is
// caught, and fails the effect.
//
// An Interpreter must be safe for concurrent use.
type Interpreter interface {
	Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error)
}

// StateInterpreter is an [Interpreter] that needs the state of the machine: instead of
// Carry, CarryFor is called, with the state as of the batch that handed the effect out.
// An effect that was handed out before a crash comes with the state of now.
type StateInterpreter interface {
	Interpreter
	CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error)
}

// Patient is an [Interpreter] some of whose effects may take longer than
// [Options.EffectTimeout] although all is well.
type Patient interface {
	// Patience is by how much the effect may take longer, at least 0. It is called by the
	// engine's loop with the state as of the batch that handed the effect out, and must be
	// quick.
	Patience(s core.State, e effects.Outer) time.Duration
}

// RunWatcher is an [Interpreter] of [effects.LaneRun] that watches the pods of runs. The
// engine asks it before the time limit of a pod or missed heartbeats decide something: what
// becomes of a run in a process that has just begun is for those to say who have looked at
// its pod. Its methods are called by the engine's loop, and must be quick.
type RunWatcher interface {
	// Looked reports whether what there was of the run's pods when the process began has
	// been told to the run, and what becomes of them is seen. If not, [core.OrchestratorDue] with
	// Seen may be sent as soon as it is so.
	Looked(run core.Orchestrator) bool
	// Watching reports whether heartbeats have been reported in this process.
	Watching() bool
}

// dueEvent is the engine's [engine.Hooks.DueEvent].
func (e *Engine) dueEvent(s core.State) core.Event {
	kind := s.Ref().Kind
	if w, ok := e.o.Interpreters[effects.LaneRun].(RunWatcher); ok {
		switch s := s.(type) {
		case core.Orchestrator:
			return core.OrchestratorDue{Unseen: s.InCluster && !s.State.Terminal() && !w.Looked(s)}
		case core.Scheduler:
			return core.SchedulerDue{Unwatched: !w.Watching()}
		}
	}
	return core.DueEvent(kind)
}

// SessionObserver looks at terminal sessions: the watcher turns what it sees
// into the heartbeats of tasks.
type SessionObserver interface {
	// Observe tells of each of the sessions how it is. One that is not there is not
	// alive. It must be safe for concurrent use.
	Observe(ctx context.Context, sessions []string) ([]SessionObservation, error)
}

// SessionCapturer is a [SessionObserver] that also shows what a session shows now: see [Engine.TaskScreen].
type SessionCapturer interface {
	SessionObserver
	// Capture gives the screen of a session, also of one that has ended; the error is an [ErrNotFound] if there is none. It must
	// be safe for concurrent use.
	Capture(ctx context.Context, session string) (SessionScreen, error)
}

// SessionScreen is what a session shows.
type SessionScreen struct {
	Text                    string // its rows, with the escape sequences of its colours if they are known
	Rows, Columns           int    // of the terminal; 0: not known
	CursorRow, CursorColumn int    // from 0
	Title                   string
}

// SessionObservation is what was seen of a session.
type SessionObservation struct {
	Session  string
	Alive    bool
	ExitCode *int          // of one that ended, if known
	Signal   string        // that ended it, if one did
	IdleFor  time.Duration // since its screen last changed
	Changed  bool          // since the last look
	Tail     string        // the end of its screen
}

// procedure says how an outer effect is carried out: by the tool of an action, or by
// the interpreter of its lane.
func (e *Engine) procedure(effect engine.OuterEffect) engine.Procedure {
	a, ok := effect.State.(core.Action)
	if !ok {
		limit := e.o.EffectTimeout
		if p, ok := e.o.Interpreters[effect.Lane].(Patient); ok {
			limit += p.Patience(effect.State, effect.Effect)
		}
		return engine.Procedure{What: "effect", Subject: "effect", Limit: limit, Repeats: repeats(effect), Call: func(ctx context.Context) (json.RawMessage, error) {
			result, err := e.interpret(ctx, effect)
			if err == nil {
				result = e.o.withHome(effect.Effect, result)
			}
			if err != nil && scarce.What(err) != "" && !IsPermanent(err) {
				err = NotStarted(err) // what may have begun of it, it finds: see Interpreter
			}
			return result, err
		}}
	}
	limit := e.o.Limits.timeout(core.ScopeOf(a), cmp.Or(a.Policy.Timeout(), e.o.DefaultTimeout))
	state := effect.State // already in memory of its own, which a is not
	wrote := &runOutput{e: e}
	move := portable(e.o.Tools[a.ToolName])
	return engine.Procedure{What: "tool", Subject: "action", Limit: limit, Lasting: true, Portable: move, Wrote: wrote.end, Call: func(ctx context.Context) (json.RawMessage, error) {
		a, _ := state.(core.Action)
		return e.runTool(ctx, &a, wrote)
	}}
}

// repeats reports whether an effect that is no tool's run is cut off soon where it keeps a partition from another process, which carries it out
// once more: creating, deleting or reading a pod comes to the same the second time, and a notification has the same id. An action of a constraint is
// not of these, nor what a machine's terminal sessions and worktrees are for.
func repeats(o engine.OuterEffect) bool {
	switch o.Effect.(type) {
	case effects.CheckConstraints, effects.CreateRun, effects.FetchLogs, effects.DeleteRun, effects.Notify:
		return true
	}
	return false
}

// interpret carries out an effect that is no tool's run; a panic becomes an
// error.
func (e *Engine) interpret(ctx context.Context, o engine.OuterEffect) (result json.RawMessage, err error) {
	ref := o.State.Ref()
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("interpreter panicked", "ref", ref.String(), "lane", o.Lane, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the interpreter of %q panicked: %v", o.Lane, p)
		}
	}()
	i, ok := e.o.Interpreters[o.Lane]
	if !ok {
		err := Permanent(fmt.Errorf("no interpreter of %q is configured", o.Lane))
		if _, creates := o.Effect.(effects.CreateRun); creates { // nobody need delete what nobody made
			return json.RawMessage(`{"not_created":true}`), err
		}
		return nil, err
	}
	if i, ok := i.(StateInterpreter); ok {
		return i.CarryFor(ctx, o.State, o.Effect)
	}
	return i.Carry(ctx, ref, o.Effect)
}

// idempotencyKey is the same for all attempts of one cycle of an action.
func idempotencyKey(id uuid.UUID, cycle uint32) string {
	var room [64]byte
	b := hex.AppendEncode(room[:0], id[:4])
	for i := 4; i < 10; i += 2 {
		b = hex.AppendEncode(append(b, '-'), id[i:i+2])
	}
	b = hex.AppendEncode(append(b, '-'), id[10:])
	return string(strconv.AppendUint(append(b, '/'), uint64(cycle), 10))
}

// runTool runs the tool of an action with the secrets that its input names, and masks
// them in what comes of it. A panic becomes an error.
func (e *Engine) runTool(ctx context.Context, a *core.Action, wrote *runOutput) (result json.RawMessage, err error) {
	var mask secrets.Mask
	defer func() {
		if p := recover(); p != nil {
			what := mask.Text(fmt.Sprint(p))
			e.log.Error("tool panicked", "action_id", a.ID, "tool", a.ToolName, "panic", what, "stack", string(debug.Stack()))
			result, err = nil, fmt.Errorf("tool %q panicked: %s", a.ToolName, what)
		}
	}()
	tool, ok := e.o.Tools[a.ToolName]
	if !ok {
		return nil, Permanent(fmt.Errorf("tool %q is not configured", a.ToolName))
	}
	call := Call{
		ActionID: a.ID, Attempt: a.Attempt, Namespace: a.Namespace, Tenant: a.Tenant, Label: a.Label,
		Tool: a.ToolName, ActionType: a.ActionType, Input: a.ToolInput,
		Payload: a.Trigger.RawPayload, Header: a.Trigger.Header, DueAt: a.Trigger.KeyTime(),
		Cycle: a.Cycle, Occurrence: a.Occurrence, Metadata: a.Metadata, Labels: a.Labels,
		IdempotencyKey: idempotencyKey(a.ID, a.Cycle), Route: a.Trigger.Route,
		log: e.log, engine: e, wrote: wrote,
	}
	if _, stores := tool.(InputStorer); !stores {
		mask, err = e.fillSecrets(ctx, a, &call)
	} else {
		err = e.checkStarted(ctx, a, tool)
	}
	if errors.Is(err, store.ErrClosed) {
		return nil, NotStarted(err) // it was handed over meanwhile: this one is handed back
	}
	if err != nil {
		return nil, err
	}
	wrote.begin(a, mask)
	result, err = tool.Run(ctx, call)
	return mask.JSON(result), mask.Error(err)
}
