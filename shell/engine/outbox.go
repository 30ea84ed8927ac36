package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Causes with which the context of an execution ends.
var (
	ErrCancelled = errors.New("the action was cancelled")
	ErrTimeLimit = errors.New("the action reached its time limit")
	ErrStopping  = errors.New("the engine is stopping")
	ErrFenced    = errors.New("the engine's lease was taken over by another instance")
)

// MaxResultBytes bounds the result of one execution: a larger one fails it, and is
// left out if it comes beside an error.
const MaxResultBytes = 1 << 20

// maxReason bounds the reason of a failure; the rest of it is cut.
const maxReason = 4 << 10

// OuterEffect is an outer effect that is to be carried out.
type OuterEffect struct {
	Lane   string
	Effect effects.Outer
	State  core.State // of the machine that asked for it, as of the batch that hands it out
}

// Procedure is how an outer effect is carried out.
type Procedure struct {
	What    string        // for the reader: "tool", "effect"
	Subject string        // what reaches the time limit: "action", "effect"
	Limit   time.Duration // 0: none
	Call    func(context.Context) (json.RawMessage, error)
}

// launch is an execution that may start once its transaction is committed.
type launch struct {
	OuterEffect
	key   store.EffectKey
	queue string // in the store, of the tenant's share of the lane
}

// execution is an outer effect that is being carried out.
type execution struct {
	key     store.EffectKey
	ref     effects.Ref
	queue   string // whose slot it holds
	cancel  context.CancelCauseFunc
	dropped bool // withdrawn or fenced: nobody wants the result; the loop's alone
}

// outcome is the answer of an execution.
type outcome struct {
	of    *execution
	event core.Event
}

func effectKey(ref effects.Ref, n uint32) store.EffectKey { return store.EffectKey{ID: ref.ID, N: n} }

// returned takes the outcome of an execution, and frees its slot.
func (l *loop) returned(o outcome) {
	x := o.of
	if l.running[x.key] == x {
		delete(l.running, x.key)
	}
	l.vacate(x.queue)
	l.e.stats.running.Add(-1)
	if !x.dropped {
		l.outcomes = append(l.outcomes, o)
	}
}

// start begins an execution beside the loop: the state that asks for it is durable
// (A8).
func (l *loop) start(s launch) {
	ctx, cancel := context.WithCancelCause(context.Background())
	x := &execution{key: s.key, ref: s.State.Ref(), queue: s.queue, cancel: cancel}
	l.running[s.key] = x
	p := Procedure{What: "effect", Subject: "effect", Call: noProcedure}
	if l.e.o.Hooks.Procedure != nil {
		p = l.e.o.Hooks.Procedure(s.OuterEffect)
	}
	go l.e.execute(ctx, x, p)
}

func noProcedure(context.Context) (json.RawMessage, error) {
	return nil, Permanent(errors.New("nothing carries out outer effects here"))
}

// execute carries the effect out and hands the outcome to the loop, exactly once. What
// could not be started is tried again: its slot stays taken meanwhile, so that nothing
// else fails in its place.
func (e *Engine) execute(ctx context.Context, x *execution, p Procedure) {
	defer x.cancel(nil)
	for try := 0; ; try++ {
		err := e.attempt(ctx, x, p)
		if err == nil {
			return
		}
		if !e.defers(ctx, x, try, err) {
			e.deliver(x, undone(ctx, x, p, err))
			return
		}
	}
}

// deliver hands the outcome of an execution to the loop.
func (e *Engine) deliver(x *execution, ev core.Event) {
	select {
	case e.result <- outcome{of: x, event: ev}:
	case <-e.stopped:
	}
}

// attempt follows the procedure, and delivers its outcome: also if it does not return
// after its context has ended. An error says that it was not started, and that nothing
// was delivered.
func (e *Engine) attempt(ctx context.Context, x *execution, p Procedure) error {
	if p.Limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, p.Limit, ErrTimeLimit)
		defer stop()
	}
	var once sync.Once
	deliver := func(ev core.Event) { once.Do(func() { e.deliver(x, ev) }) }
	returned := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		c, stop := e.o.Clock.Timer(e.o.AbandonAfter)
		defer stop()
		select {
		case <-c:
			deliver(answer(ctx, x, p, nil, fmt.Errorf("the %s did not return, and was left behind", p.What)))
		case <-returned:
		}
	})
	if errors.Is(context.Cause(ctx), ErrStopping) { // cancelled before it was begun
		close(returned)
		unwatch()
		deliver(core.HandBackEvent(x.ref.Kind, x.key.N))
		return nil
	}
	result, err := p.Call(ctx)
	close(returned)
	unwatch()
	if IsNotStarted(err) && ctx.Err() == nil {
		undelivered := false
		once.Do(func() { undelivered = true })
		if undelivered {
			return err
		}
	}
	deliver(answer(ctx, x, p, result, err))
	return nil
}

// answer turns what came back into the machine's event.
func answer(ctx context.Context, x *execution, p Procedure, result json.RawMessage, err error) core.Event {
	kind, n := x.ref.Kind, x.key.N
	if err == nil {
		switch {
		case len(result) > MaxResultBytes:
			return core.AnswerEvent(kind, n, nil, fmt.Sprintf("the %s's result of %d bytes is larger than %d", p.What, len(result), MaxResultBytes), true)
		case len(result) > 0 && !json.Valid(result):
			return core.AnswerEvent(kind, n, nil, fmt.Sprintf("the %s's result is not valid JSON", p.What), true)
		}
		return core.AnswerEvent(kind, n, bytes.ToValidUTF8(result, []byte("\uFFFD")), "", false)
	}
	reason := err.Error()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrStopping):
		return core.InterruptEvent(kind, n, "interrupted by a shutdown: "+reason)
	case errors.Is(cause, ErrTimeLimit) && !errors.Is(err, ErrTimeLimit):
		reason = fmt.Sprintf("the %s reached its time limit of %s: %s", p.Subject, p.Limit, reason)
	case reason == "":
		reason = "failed without a reason"
	}
	if len(result) > MaxResultBytes || !utf8.Valid(result) {
		result = nil // the reason matters more
	}
	return core.AnswerEvent(kind, n, result, reason, IsPermanent(err))
}

// Permanent marks an error as one after which no further attempt makes sense.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether an error says that no further attempt makes sense: it,
// or one that it wraps, has a method Permanent() bool that returns true.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// permanentError says that trying again is pointless.
type permanentError struct{ error }

// Permanent is true.
func (permanentError) Permanent() bool { return true }

// Unwrap gives what was wrong.
func (e permanentError) Unwrap() error { return e.error }
