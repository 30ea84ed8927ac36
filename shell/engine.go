package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Errors of the engine's methods, beside a [*Refusal].
var (
	// ErrStopped: the engine was stopped, or is stopping: the request was not
	// taken.
	ErrStopped = engine.ErrStopped
	// ErrNotFound: no such machine.
	ErrNotFound = engine.ErrNotFound
	// ErrReindexing: the database is of an earlier version, and its records do not yet stand
	// in the lists of this one: [Engine.Run] sees to it before anything else.
	ErrReindexing = engine.ErrReindexing
	// ErrSetAside: the machine's record could not be read, and was set aside. Such an
	// error is an [ErrNotFound], too.
	ErrSetAside = engine.ErrSetAside
)

type (
	// Refusal is the error of a request that a machine refused; it says what is
	// wrong and what would be right.
	Refusal = effects.Refused
	// Subscription receives events of the bus, see [Engine.Subscribe].
	Subscription = engine.Subscription
	// Slots are what several engines of one process have in common, see [Options].
	Slots = engine.Slots
)

// Engine is the loop around the core: it takes events, applies the machines,
// commits state, journal and outbox in one transaction, answers, and carries
// effects out. There is no other way for state to change.
//
// Make one with [New], start it with [Engine.Run], and call its other methods
// from any goroutine: they are all safe for concurrent use. A method that
// changes something returns once the change is durable.
type Engine struct {
	o       Options
	log     *slog.Logger
	store   store.Store
	loop    *engine.Engine
	takes   takers
	counts  counts
	usages  usages
	changes changeFeed
	screens screens
	outputs outputs
}

// Run works until ctx ends, then stops cleanly: it takes nothing new, waits up
// to Options.StopTimeout for what runs, cancels the rest and has each machine decide
// what that means. It returns nil after a clean stop. An engine runs once.
func (e *Engine) Run(ctx context.Context) error { return e.loop.Run(ctx) }

// EffectTimeout is the time limit of an outer effect that is no tool's run: see
// [Options.EffectTimeout].
func (e *Engine) EffectTimeout() time.Duration { return e.o.EffectTimeout }

// Stopped gives a channel that is closed once Run has returned.
func (e *Engine) Stopped() <-chan struct{} { return e.loop.Stopped() }

// Health returns nil if the loop runs and the last commit went well, and else why
// not: [ErrStopped], [ErrReindexing], the store's error, or that of a ctx that ended while the loop
// did not answer. It commits nothing, and may be asked often.
func (e *Engine) Health(ctx context.Context) error { return e.loop.Health(ctx) }

// Send gives one event to one machine and returns once what followed from it
// is durable. The answer is the state of the machine afterwards, nil if it does not
// exist; the error is a [*Refusal] if the machine refused. The engine keeps the
// event: nothing in it may be changed afterwards.
//
// When ctx ends first, the event may or may not have been taken.
func (e *Engine) Send(ctx context.Context, to effects.Ref, ev core.Event) (core.State, error) {
	return e.loop.Do(ctx, engine.Request{Inputs: []core.Input{inputOf(ctx, to, ev)}, Want: to})
}

// Subscribe listens to the events for which matches returns true; nil matches
// all. matches is called by the engine's loop and must be quick; if it panics, the
// event counts as dropped. The buffer is at least 1.
func (e *Engine) Subscribe(matches func(effects.Event) bool, buffer int) *Subscription {
	return e.loop.Subscribe(matches, buffer)
}

// Instance names this engine among all that share the store.
func (e *Engine) Instance() string { return e.loop.Instance() }

// Store gives the store that the engine works on.
func (e *Engine) Store() store.Store { return e.o.Store }

// Confirm is asked right before something is done outside that the engine's store says to do, by who does more than one such thing for one effect, or does it
// late: each outer effect is preceded by it. An error says that another process may have taken the store over since the last sign of life of this one ([Handover]), and that nothing has begun ([NotStarted]): it is to be
// tried again later.
func (e *Engine) Confirm() error { return e.loop.Confirm() }

// WithActor names who causes what is done under the context: it is journaled
// with each input.
func WithActor(ctx context.Context, actor string) context.Context {
	return engine.WithActor(ctx, actor)
}

// WithRevision has an edit under the context refused, with [effects.CodeStale], unless the machine still has the revision
// that the caller has read ([core.Revision]); [core.NoRevision]: unless it does not exist, [core.AnyRevision]: unless
// it does. The context is for one call that changes one machine.
func WithRevision(ctx context.Context, revision string) context.Context {
	return engine.WithRevision(ctx, revision, nil)
}

// WithShownRevision is [WithRevision] for a caller who knows revisions as shown gives them, such as keyed, so that
// nothing of a definition can be guessed from them. shown is called by the loop, and must be quick.
func WithShownRevision(ctx context.Context, revision string, shown func(revision string) string) context.Context {
	return engine.WithRevision(ctx, revision, shown)
}

// ActorFrom gives the actor of the context, "embedder" if none was named.
func ActorFrom(ctx context.Context) string { return engine.ActorFrom(ctx) }

// now is the time that the machines see.
func (e *Engine) now() effects.Time { return effects.TimeOf(e.o.Clock.Now()) }

// ask sends an event to a machine, and gives what it answered and its state afterwards.
// linger is how long to wait for the answer when ctx has ended.
func (e *Engine) ask(ctx context.Context, to effects.Ref, ev core.Event, linger time.Duration) (core.Result, core.State, error) {
	rep, err := e.loop.Ask(ctx, engine.Request{Inputs: []core.Input{inputOf(ctx, to, ev)}, Want: to, Linger: linger})
	if err != nil {
		return core.Result{}, nil, err
	}
	s, err := rep.Answer()
	return rep.Result, s, notFound(err)
}

// sendTo gives an event to a machine, and returns its state afterwards.
func sendTo[S core.State](ctx context.Context, e *Engine, to effects.Ref, ev core.Event) (S, error) {
	s, err := e.Send(ctx, to, ev)
	return as[S](s, err)
}

// readAs reads a machine as it was last committed.
func readAs[S core.State](ctx context.Context, e *Engine, ref effects.Ref) (S, error) {
	s, err := e.loop.Read(ctx, ref)
	return as[S](s, err)
}

// waitForAs returns a machine once it has ended: at once if it has already.
func waitForAs[S core.State](ctx context.Context, e *Engine, ref effects.Ref) (S, error) {
	s, err := e.loop.WaitFor(ctx, ref)
	return as[S](s, err)
}

// as gives the state as one of its machine. A refusal because the machine does not
// exist is also an [ErrNotFound].
func as[S core.State](s core.State, err error) (S, error) {
	out, _ := s.(S)
	return out, notFound(err)
}

// notFound lets a machine's refusal also be an [ErrNotFound].
func notFound(err error) error {
	if refusedFor(err, effects.CodeNotFound) {
		return fmt.Errorf("%w: %w", err, ErrNotFound)
	}
	return err
}

// refusedFor reports whether the error is a refusal for that reason.
func refusedFor(err error, code effects.Code) bool {
	if err == nil {
		return false
	}
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}

// invalid refuses what is wrong in itself, before a machine has it.
func invalid(to effects.Ref, event, format string, args ...any) error {
	return &Refusal{To: to, Event: event, Code: effects.CodeInvalid, Reason: fmt.Sprintf(format, args...)}
}

// inputOf is what the caller sends to a machine.
func inputOf(ctx context.Context, to effects.Ref, ev core.Event) core.Input {
	return core.Input{To: to, Actor: ActorFrom(ctx), Event: ev, BySet: takeOver(ctx)}
}

// fillID gives a machine an id if it has none: version 7, so that new records stand
// together in the store.
func fillID(id *uuid.UUID) (err error) {
	if *id != uuid.Nil {
		return nil
	}
	if *id, err = uuid.NewV7(); err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	return nil
}

// InstanceClaims begins the names of the claims of the instances that work on a store.
const InstanceClaims = engine.ClaimPrefix
