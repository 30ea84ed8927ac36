package shell

import (
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

// Errors of the engine's methods, beside a [*Refusal].
var (
	// ErrStopped: the engine was stopped, or is stopping: the request was not
	// taken.
	ErrStopped = errors.New("the engine is stopped")
	// ErrNotFound: no such machine.
	ErrNotFound = errors.New("not found")
)

// Refusal is the error of a request that a machine refused; it says what is
// wrong and what would be right.
type Refusal = effects.Refused

// Engine is the loop around the core: it takes events, applies the machines,
// commits state, journal and outbox in one transaction, answers, and carries
// effects out. There is no other way for state to change.
//
// Make one with [New], start it with [Engine.Run], and call its other methods
// from any goroutine: they are all safe for concurrent use. A method that
// changes something returns once the change is durable.
type Engine struct {
	o      Options
	log    *slog.Logger
	store  store.Store
	name   string // this instance: the holder of its claim
	inbox  chan *request
	result chan outcome
	health chan chan error

	started atomic.Bool
	closing chan struct{} // closed when Run begins to stop
	stopped chan struct{} // closed when Run returned

	loop     loop // touched by the loop's goroutine alone
	bus      bus
	wait     waiters
	takes    takers
	stats    stats
	runbooks runbookStats
	jobs     jobStats
}

// request is something that a caller wants done and waits for.
type request struct {
	ctx     context.Context //nolint:containedctx // the caller's own: the loop only asks whether he has gone
	inputs  []core.Input
	want    effects.Ref    // whose state the caller wants to see afterwards
	webhook *store.Webhook // or: a raw webhook to be stored
	log     *runLog        // or: what a run's pod has written
	done    chan reply     // buffered: the loop never blocks on it
	linger  time.Duration  // how long to wait for the answer of what is under way when ctx ends
}

// size is how many bytes of it count against those of a batch.
func (r *request) size() int {
	switch {
	case r.webhook != nil:
		return len(r.webhook.Body)
	case r.log != nil:
		return len(r.log.text)
	}
	return 0
}

type reply struct {
	result core.Result
	state  core.State
	err    error
}

// New makes an engine. It touches the store only once Run is called.
func New(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o:       o,
		log:     o.Logger,
		store:   o.Store,
		name:    uuid.NewString(),
		inbox:   make(chan *request, 4*o.MaxBatch),
		result:  make(chan outcome, o.MaxBatch),
		health:  make(chan chan error),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	e.loop.init(e)
	e.wait.init()
	e.takes.init()
	return e, nil
}

// Stopped gives a channel that is closed once Run has returned.
func (e *Engine) Stopped() <-chan struct{} { return e.stopped }

// Health returns nil where the loop turns and the last commit went well, and
// else why not: [ErrStopped], the store's error, or that of a ctx that ended
// while the loop did not answer. It commits nothing, and may be asked often.
func (e *Engine) Health(ctx context.Context) error {
	c := make(chan error, 1)
	select {
	case <-e.closing:
		return ErrStopped
	default:
	}
	select {
	case e.health <- c:
		return <-c // the loop answers at once
	case <-e.closing:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Send gives one event to one machine and returns once what followed from it
// is durable. The answer is the state of the machine afterwards, nil where it
// does not exist; the error is a [*Refusal] where the machine refused. The
// engine keeps the event: nothing in it may be changed afterwards.
//
// When ctx ends first, the event may or may not have been taken.
func (e *Engine) Send(ctx context.Context, to effects.Ref, ev core.Event) (core.State, error) {
	return e.do(ctx, &request{
		inputs: []core.Input{{To: to, Actor: ActorFrom(ctx), Event: ev}},
		want:   to,
	})
}

func (e *Engine) do(ctx context.Context, r *request) (core.State, error) {
	rep, err := e.ask(ctx, r)
	if err != nil {
		return nil, err
	}
	return rep.answer()
}

// ask hands a request to the loop and waits for the whole reply.
func (e *Engine) ask(ctx context.Context, r *request) (reply, error) {
	r.ctx = ctx
	r.done = make(chan reply, 1)
	select {
	case <-e.closing:
		return reply{}, ErrStopped
	default:
	}
	select {
	case e.inbox <- r:
	case <-e.closing:
		return reply{}, ErrStopped
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	select {
	case rep := <-r.done:
		return rep, nil
	case <-ctx.Done():
		return e.lateAnswer(r)
	case <-e.stopped:
		select { // it may have been answered as the last thing
		case rep := <-r.done:
			return rep, nil
		default:
			return reply{}, ErrStopped
		}
	}
}

// lateAnswer waits a little longer for the answer to a caller who has gone, where
// somebody must know what became of the request.
func (e *Engine) lateAnswer(r *request) (reply, error) {
	if r.linger > 0 {
		timer, stop := e.o.Clock.Timer(r.linger)
		defer stop()
		select {
		case rep := <-r.done:
			return rep, nil
		case <-timer:
		case <-e.stopped:
		}
	}
	return reply{}, r.ctx.Err()
}

func (r reply) answer() (core.State, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.result.Refused != nil && !r.result.Changed:
		return r.state, r.result.Refused
	default:
		return r.state, nil
	}
}

type actorKey struct{}

// WithActor names who causes what is done under the context: it is journaled
// with each input.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorFrom gives the actor of the context, "embedder" where none was named.
func ActorFrom(ctx context.Context) string {
	if a, ok := ctx.Value(actorKey{}).(string); ok && a != "" {
		return a
	}
	return "embedder"
}

// Instance names this engine among all that share the store.
func (e *Engine) Instance() string { return e.name }

// Store gives the store that the engine works on.
func (e *Engine) Store() store.Store { return e.store }

// read loads one machine as it was last committed.
func (e *Engine) read(ctx context.Context, ref effects.Ref) (core.State, error) {
	var s core.State
	err := e.store.View(ctx, func(tx store.ReadTx) error {
		rec, err := tx.Get(ref.Kind, ref.ID)
		if err != nil {
			return err
		}
		s, err = core.DecodeState(ref.Kind, rec.State)
		if err != nil {
			return fmt.Errorf("read %s: %w: %w", ref, store.ErrCorrupt, err)
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s %w", ref, ErrNotFound)
	}
	return s, err
}

// waiters wakes those who wait for a machine's end.
type waiters struct {
	mu sync.Mutex
	m  map[effects.Ref][]chan core.State
}

func (w *waiters) init() { w.m = make(map[effects.Ref][]chan core.State) }

func (w *waiters) add(ref effects.Ref) chan core.State {
	c := make(chan core.State, 1)
	w.mu.Lock()
	w.m[ref] = append(w.m[ref], c)
	w.mu.Unlock()
	return c
}

func (w *waiters) remove(ref effects.Ref, c chan core.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.m[ref]
	for i := range list {
		if list[i] == c {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(w.m, ref)
	} else {
		w.m[ref] = list
	}
}

func (w *waiters) settle(s core.State) {
	ref := s.Ref()
	w.mu.Lock()
	list := w.m[ref]
	delete(w.m, ref)
	w.mu.Unlock()
	for _, c := range list {
		c <- s
	}
}

// waitPoll is how often a waiter looks for itself: another instance on the same
// store may end the machine.
const waitPoll = 10 * time.Second

// await returns the machine's state once it has ended, or the last one seen.
func (e *Engine) await(ctx context.Context, c <-chan core.State, last core.State) (core.State, error) {
	for {
		look, stop := e.o.Clock.Timer(waitPoll)
		select {
		case s := <-c:
			stop()
			return s, nil
		case <-ctx.Done():
			stop()
			return last, ctx.Err()
		case <-e.stopped:
			stop()
			return last, ErrStopped
		case <-look:
		}
		now, err := e.read(ctx, last.Ref())
		if err != nil {
			return last, err
		}
		if _, ended := core.EndedAt(now); ended {
			return now, nil
		}
		last = now
	}
}

// waitFor returns the machine's state once it has ended: at once where it has
// already.
func (e *Engine) waitFor(ctx context.Context, ref effects.Ref) (core.State, error) {
	c := e.wait.add(ref)
	defer e.wait.remove(ref, c)
	s, err := e.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if _, ended := core.EndedAt(s); ended {
		return s, nil
	}
	return e.await(ctx, c, s)
}
