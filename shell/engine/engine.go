package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Errors of the engine's methods, beside a [*effects.Refused].
var (
	// ErrStopped: the engine was stopped, or is stopping: the request was not
	// taken.
	ErrStopped = errors.New("the engine is stopped")
	// ErrNotFound: no such machine.
	ErrNotFound = errors.New("not found")
)

// Engine is the loop around the core. Make one with [New], start it with
// [Engine.Run], and call its other methods from any goroutine.
type Engine struct {
	o      Options
	log    *slog.Logger
	store  store.Store
	name   string // this instance: the holder of its claim
	inbox  chan *request
	result chan outcome
	health chan chan error
	resume chan chan bool
	paused atomic.Pointer[time.Time] // since when; nil: it is not
	goesOn chan struct{}             // closed once it is not paused

	started atomic.Bool
	indexed atomic.Bool   // see Indexed
	rebuild atomic.Bool   // while reindex is at work
	closing chan struct{} // closed when Run begins to stop
	decided chan struct{} // closed when the loop takes nothing any more
	stopped chan struct{} // closed when Run returned

	loop     loop // touched by the loop's goroutine alone
	bus      bus
	wait     waiters
	stats    counters
	aside    asideSet
	deferral deferral
	activity activity
}

// New makes an engine. It touches the store only once Run is called.
func New(o Options) (*Engine, error) {
	if errs := o.Fill(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	e := &Engine{
		o:       o,
		log:     o.Logger,
		store:   o.Store,
		name:    cmp.Or(o.Instance, uuid.NewString()),
		inbox:   make(chan *request, 4*o.MaxBatch),
		result:  make(chan outcome, o.MaxBatch),
		health:  make(chan chan error),
		resume:  make(chan chan bool),
		goesOn:  make(chan struct{}),
		closing: make(chan struct{}),
		decided: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	e.activity.to = o.Scheduler
	e.stats.recent.begun = o.Clock.Steady()
	e.loop.init(e)
	e.wait.init()
	e.beginPaused()
	return e, nil
}

// Run works until ctx ends, then stops cleanly: it takes nothing new, waits up
// to Options.StopTimeout for what runs, cancels the rest and has each machine
// decide what that means. It returns nil after a clean stop, and an error that is a [store.ErrFenced] once another
// process has opened the store: then all that runs is told to end at once, and nothing of it is stored. With Options.Handover it may
// give the store back at once, and goes on with what runs: see [Handover]. An engine runs once.
func (e *Engine) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("shell: Run was called before: make a new engine with New")
	}
	defer close(e.stopped)
	l := &e.loop
	err := e.enterPartition(ctx)
	if err == nil {
		err = e.reindex(ctx)
	}
	if err == nil {
		err = l.register(ctx)
	}
	if err != nil {
		close(e.closing)
		l.endDeciding()
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return fmt.Errorf("start the engine: %w", err)
	}
	e.log.Info("engine started", "instance", e.name, "tick_rate", e.o.TickRate, "strict_tick", e.o.StrictTick, "core", core.Version)
	if e.o.StartPaused {
		e.log.Warn("the engine is paused: it takes every request, and nothing is begun before it is resumed")
	}
	if err := e.rememberAside(ctx); err != nil {
		e.log.Warn("what was set aside earlier could not be listed", "error", err)
	}
	var beside sync.WaitGroup
	also, end := context.WithCancel(ctx)
	defer end()
	if e.o.ScrubRate > 0 {
		beside.Go(func() { e.scrub(also) })
	}
	if e.o.Hooks.Beside != nil {
		beside.Go(func() { e.o.Hooks.Beside(also) })
	}
	l.run(ctx)
	end() // it has ended by itself if the store is lost
	beside.Wait()
	if l.former != nil {
		err = l.former.part()
		l.former.serve()
		l.giveSlots()
	} else {
		err = l.release()
	}
	e.log.Info("engine stopped", "instance", e.name)
	return err
}

// Stopped gives a channel that is closed once Run has returned.
func (e *Engine) Stopped() <-chan struct{} { return e.stopped }

// Closing gives a channel that is closed when Run begins to stop: from then on no
// request is taken but those that are [Request.Late].
func (e *Engine) Closing() <-chan struct{} { return e.closing }

// Instance names this engine among all that share the store.
func (e *Engine) Instance() string { return e.name }

// Health returns nil if the loop runs and the last commit went well, and else why
// not: [ErrStopped], [ErrReindexing], the store's error, or that of a ctx that ended while
// the loop did not answer. It commits nothing, and may be asked often: where the store is a
// [store.Placed], it says at once that the database was taken away.
func (e *Engine) Health(ctx context.Context) error {
	c := make(chan error, 1)
	select {
	case <-e.closing:
		return ErrStopped
	default:
	}
	if e.rebuild.Load() {
		return ErrReindexing
	}
	select {
	case e.health <- c:
		err := <-c // the loop answers at once
		if p, ok := e.store.(store.Placed); ok && err == nil {
			err = p.InPlace()
		}
		return err
	case <-e.closing:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Request is something that a caller wants done in one batch, and waits for.
type Request struct {
	// Inputs are the events, in their order. After one that cannot be decided the
	// rest is left out. The engine keeps the slice, and bounds texts in it.
	Inputs []core.Input
	// If, if there is one, looks at the state of the machine that is wanted, as it is
	// before the inputs; nil: it does not exist. Its error is the answer, and the
	// inputs are left out.
	If func(core.State) error
	// As is what it is among the parts of a request with a key ([WithOnce]), where one is asked for in several ways that are answered
	// alike; empty: the kinds and types of its inputs.
	As string
	// Want names the machine whose state the caller wants to see afterwards.
	Want effects.Ref
	// Many, if there is one, has each of the inputs answered by itself.
	Many *Many
	// Webhook is a raw webhook to be stored, unless it has come before; or
	Webhook *store.Webhook
	// Earlier are the ids under which the webhook may have come before: it has if a raw
	// one has such an id, or a machine that SameAs takes for what one became.
	Earlier []effects.Ref
	SameAs  func(core.State) bool
	// Write is something else to be stored.
	Write *Write
	// Suspects are machines whose records may be damaged: they are read anew, and set
	// aside if they cannot be read.
	Suspects []effects.Ref
	// Late: it is taken also while the engine stops, until the loop has ended.
	Late bool
	// Linger is how long to wait for the answer to what is under way when the
	// caller's context ends.
	Linger time.Duration
}

// Write is what a request stores beside the states of machines, and that is no state
// itself: no journal has it, and no replay.
type Write struct {
	Of    effects.Ref            // the machine that it belongs to, and
	Check func(core.State) error // whether it may be stored for the machine in that state; nil: it does not exist
	Put   func(store.Tx) error   // stores it
	Size  int                    // its bytes
	// Sent gives what [Hooks.ReadWrite] makes it of, where another process stores it; nil: no other one can.
	Sent func() []byte
	// Done is told that the engine is done with it: it is durable, or will not be. It is called by
	// the loop, and must be quick; nil: nobody asks.
	Done func()
}

// size is how many bytes of it count against those of a batch.
func (w *Write) size() int {
	if w == nil {
		return 0
	}
	return w.Size
}

// done tells the caller that the engine is done with the write.
func (w *Write) done() {
	if w != nil && w.Done != nil {
		w.Done()
	}
}

// Reply is the answer to a request.
type Reply struct {
	Result core.Result // of the last input
	Before uuid.UUID   // the id under which a webhook has come before, and was not stored again
	State  core.State  // of the machine that was wanted
	Each   []Answered  // of a request with Many: for each input
	Err    error
}

// Answer gives the state of the machine that was wanted, and the refusal if nothing
// has changed.
func (r Reply) Answer() (core.State, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Result.Refused != nil && !r.Result.Changed:
		return r.State, r.Result.Refused
	default:
		return r.State, nil
	}
}

// request is one on its way.
type request struct {
	Request
	ctx  context.Context //nolint:containedctx // the caller's own: the loop only asks whether he has gone
	done chan struct{}   // buffered: the loop never blocks on it
	rep  Reply           // once done has said so
	// waits: somebody waits for done, and counts once it is said; only with a [Scheduler].
	waits atomic.Bool
	of    *activity // of the engine that was asked; nil: nobody counts
	once  *onceOf   // nil: it has no key
}

func newRequest(ctx context.Context, r Request) *request {
	if c, ok := ctx.Value(revisionKey{}).(onRevision); ok && len(r.Inputs) > 0 {
		r.If = c.before(r.Inputs[0], r.If)
	}
	return &request{Request: r, ctx: ctx, done: make(chan struct{}, 1), once: newOnceOf(ctx, &r)}
}

// answer gives the reply to who waits for it.
func (r *request) answer(rep Reply) {
	r.Write.done()
	r.rep = rep
	r.wake()
	r.done <- struct{}{}
}

// reply is what it was answered, once done has said so.
func (r *request) reply() Reply {
	r.once.answered(r.rep)
	return r.rep
}

// wake has the [Scheduler] count the caller that waits for the answer, once.
func (r *request) wake() {
	if r.of != nil && r.waits.CompareAndSwap(true, false) {
		r.of.add(1)
	}
}

// size is how many bytes of it count against those of a batch.
func (r *request) size() int {
	if r.Webhook != nil {
		return len(r.Webhook.Body)
	}
	return r.Write.size()
}

// Send gives one event to one machine and returns once what followed from it
// is durable. The answer is the state of the machine afterwards, nil if it does not
// exist; the error is a [*effects.Refused] if the machine refused. The engine keeps
// the event: nothing in it may be changed afterwards.
//
// When ctx ends first, the event may or may not have been taken.
func (e *Engine) Send(ctx context.Context, to effects.Ref, ev core.Event) (core.State, error) {
	return e.Do(ctx, Request{Inputs: []core.Input{{To: to, Actor: ActorFrom(ctx), Event: ev}}, Want: to})
}

// Do carries out a request, and gives its answer.
func (e *Engine) Do(ctx context.Context, r Request) (core.State, error) {
	rep, err := e.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	return rep.Answer()
}

// boundInputs bounds the inputs of a request by [core.Given]. An input that is refused comes into
// no journal.
func boundInputs(inputs []core.Input) error {
	for i, in := range inputs {
		in, err := core.Given(in)
		if err != nil {
			return err
		}
		inputs[i] = in
	}
	return nil
}

// Ask hands a request to the loop and waits for the whole reply.
func (e *Engine) Ask(ctx context.Context, req Request) (Reply, error) {
	if err := boundInputs(req.Inputs); err != nil {
		return Reply{}, err
	}
	r := newRequest(ctx, req)
	ending := e.closing
	if r.Late {
		ending = e.decided
	}
	select {
	case <-ending:
		return Reply{}, ErrStopped
	default:
	}
	if e.o.Scheduler != nil {
		r.of = &e.activity
		r.waits.Store(true)
	}
	e.activity.message(ofWork, 1)
	select {
	case e.inbox <- r:
	case <-ending:
		e.activity.message(ofWork, -1)
		return Reply{}, ErrStopped
	case <-ctx.Done():
		e.activity.message(ofWork, -1)
		return Reply{}, ctx.Err()
	}
	e.activity.add(-1)
	if e.o.Scheduler != nil {
		defer e.o.Scheduler.Answered(ctx)
	}
	select {
	case <-r.done:
		return r.reply(), nil
	case <-ctx.Done():
		r.wake()
		return e.lateReply(r)
	case <-e.decided:
		r.wake()
		return r.replyOr(ErrStopped) // it may have been answered as the last thing
	}
}

// replyOr gives the reply if it is there, whatever else has happened at the same moment.
func (r *request) replyOr(err error) (Reply, error) {
	select {
	case <-r.done:
		return r.reply(), nil
	default:
		return Reply{}, err
	}
}

// lateReply waits a little longer for the reply to a caller who has gone, if somebody
// must know what became of the request.
func (e *Engine) lateReply(r *request) (Reply, error) {
	if r.Linger > 0 {
		timer, stop := e.o.Clock.Timer(r.Linger)
		defer stop()
		select {
		case <-r.done:
			return r.reply(), nil
		case <-timer:
		case <-e.decided:
		}
	}
	return r.replyOr(r.ctx.Err())
}

// Post hands a request to the loop and does not wait for the reply, or for longer than ctx
// lasts where the loop has no room for it. It reports whether the loop has it.
func (e *Engine) Post(ctx context.Context, req Request) bool {
	r := newRequest(context.WithoutCancel(ctx), req)
	r.once = nil // nobody would learn that it was answered before
	e.activity.message(ofWork, 1)
	select {
	case e.inbox <- r:
		return true
	case <-e.closing:
	case <-ctx.Done():
	}
	e.activity.message(ofWork, -1)
	return false
}

// Read loads one machine as it was last committed. A record that cannot be read is set
// aside; then, and later, the error is [ErrSetAside].
func (e *Engine) Read(ctx context.Context, ref effects.Ref) (core.State, error) {
	var s core.State
	var bad []effects.Ref // parts of the machine
	err := e.store.View(ctx, func(tx store.ReadTx) error {
		rec, err := tx.Get(ref.Kind, ref.ID)
		if err != nil {
			return err
		}
		s, err = core.DecodeState(ref.Kind, rec.State)
		if err != nil {
			return fmt.Errorf("read %s: %w: %w", ref, store.ErrCorrupt, err)
		}
		s, _, err = Whole(tx, s, func(part effects.Ref) { bad = append(bad, part) })
		return err
	})
	e.Suspect(ctx, bad...)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return nil, e.confirmDamage(ctx, ref, err)
	case !errors.Is(err, store.ErrNotFound):
		return s, err
	case e.aside.has(ref):
		return nil, setAsideError(ref)
	}
	return nil, fmt.Errorf("%s %w", ref, ErrNotFound)
}

// Whole gives a state that was decoded from its record with what its machine keeps as records
// of their own, see [core.Whole], and the bytes of these in the store. One of them that cannot be
// read is told to unreadable, and missing from the state.
func Whole(tx store.ReadTx, s core.State, unreadable func(effects.Ref)) (whole core.State, size int, err error) {
	whole, err = core.Whole(s, func(ref effects.Ref) (core.State, error) {
		rec, err := tx.Get(ref.Kind, ref.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case errors.Is(err, store.ErrCorrupt):
			unreadable(ref)
			return nil, nil
		case err != nil:
			return nil, err
		}
		size += len(rec.State)
		part, err := core.DecodeState(ref.Kind, rec.State)
		if err != nil || part.Ref() != ref {
			unreadable(ref)
			return nil, nil //nolint:nilerr // it is told
		}
		return part, nil
	})
	return whole, size, err
}
