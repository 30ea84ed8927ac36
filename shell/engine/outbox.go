package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	// ErrKilled is an [ErrCancelled], too.
	ErrKilled = fmt.Errorf("%w, without time to end by itself", ErrCancelled)
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
	Lasting bool          // if it is left behind, no further attempt may run beside it
	// Portable: it needs nothing of this engine, so that it may go on once the store is another process's, see [Handover].
	Portable bool
	// Repeats: it may be carried out once more after it was cut off, so it is cut off soon if it keeps the store from another process, see [Handover] Ends.
	Repeats bool
	Call    func(context.Context) (json.RawMessage, error)
	// Wrote gives what is stored with the answer, in its transaction, and also if nobody wants the
	// answer any more; nil: nothing. It is called once for each answer.
	Wrote func() *Write
}

// launch is an execution that may start once its transaction is committed.
type launch struct {
	OuterEffect
	key   store.EffectKey
	queue string // in the store, of the tenant's share of the lane
}

// outcome is the answer of an execution.
type outcome struct {
	of    *execution
	event core.Event
	write *Write // what is stored with it; nil: nothing
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
	switch {
	case !x.dropped:
		l.outcomes = append(l.outcomes, o)
	case o.write == nil:
	case errors.Is(context.Cause(x.ctx), ErrFenced): // another instance stores its own
		o.write.done()
	default:
		l.requests = append(l.requests, newRequest(context.Background(), Request{Write: o.write}))
	}
}

// start begins an execution beside the loop: the state that asks for it is durable
// (A8).
func (l *loop) start(s launch) {
	p := Procedure{What: "effect", Subject: "effect", Call: noProcedure}
	if l.e.o.Hooks.Procedure != nil {
		p = l.e.o.Hooks.Procedure(s.OuterEffect)
	}
	x := l.e.newExecution(s, p)
	l.running[s.key] = x
	l.e.activity.add(1)
	go x.run()
}

func noProcedure(context.Context) (json.RawMessage, error) {
	return nil, Permanent(errors.New("nothing carries out outer effects here"))
}

// answer turns what came back into the machine's event.
func answer(ctx context.Context, x *execution, result json.RawMessage, err error) core.Event {
	kind, n, p := x.ref.Kind, x.key.N, &x.p
	if err == nil {
		switch {
		case len(result) > MaxResultBytes:
			return core.AnswerEvent(kind, n, nil, core.Failure{
				Permanent: true, Reason: fmt.Sprintf("the %s's result of %d bytes is larger than %d", p.What, len(result), MaxResultBytes),
			})
		case len(result) > 0 && !json.Valid(result):
			return core.AnswerEvent(kind, n, nil, core.Failure{Permanent: true, Reason: fmt.Sprintf("the %s's result is not valid JSON", p.What)})
		}
		return core.AnswerEvent(kind, n, bytes.ToValidUTF8(result, []byte("\uFFFD")), core.Failure{})
	}
	reason := err.Error()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	timedOut := errors.Is(err, ErrTimeLimit)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrStopping):
		return core.InterruptEvent(kind, n, "interrupted by a shutdown: "+reason)
	case errors.Is(cause, ErrTimeLimit) && !timedOut:
		timedOut = true
		reason = fmt.Sprintf("the %s reached its time limit of %s: %s", p.Subject, p.Limit, reason)
	case reason == "":
		reason = "failed without a reason"
	}
	if len(result) > MaxResultBytes || !utf8.Valid(result) {
		result = nil // the reason matters more
	}
	return core.AnswerEvent(kind, n, result, core.Failure{
		Reason: reason, Permanent: IsPermanent(err), TimedOut: timedOut, RetryAfterMS: retryAfterMS(err),
	})
}

// RetryAfter marks an error as one after which the other side asks to be left alone for so
// long.
func RetryAfter(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return delayedError{err, wait}
}

// delayedError says when trying again makes sense.
type delayedError struct {
	error
	wait time.Duration
}

// RetryDelay is how long the other side asks to be left alone.
func (e delayedError) RetryDelay() time.Duration { return e.wait }

// Unwrap gives what was wrong.
func (e delayedError) Unwrap() error { return e.error }

// retryAfterMS is how long an error says that the other side is to be left alone, in
// milliseconds: it, or one that it wraps, has a method RetryDelay() time.Duration. 0: it does
// not say so.
func retryAfterMS(err error) int64 {
	var r interface{ RetryDelay() time.Duration }
	if !errors.As(err, &r) {
		return 0
	}
	wait := max(r.RetryDelay(), 0)
	return int64(wait/time.Millisecond) + int64(min(wait%time.Millisecond, 1)) // never earlier
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
