package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// run is an outer effect that is being carried out.
type run struct {
	key     store.EffectKey
	ref     effects.Ref
	lane    string
	cancel  context.CancelCauseFunc
	dropped bool // withdrawn or fenced: nobody wants the result; the loop's alone
}

// outcome is the answer of a run.
type outcome struct {
	run   *run
	event core.Event
}

// launch is a run that may start once its transaction is committed.
type launch struct {
	key    store.EffectKey
	lane   string
	effect effects.Outer
	state  core.State // of the machine that asked for it
}

func (l *loop) lane(name string) *lane {
	if la, ok := l.lanes[name]; ok {
		return la
	}
	limit, ok := l.e.o.Concurrency[name]
	if !ok {
		limit = l.e.o.DefaultConcurrency
	}
	la := &lane{limit: limit}
	l.lanes[name] = la
	return la
}

func (l *loop) canStartWaiting() bool {
	for _, la := range l.lanes {
		if la.waiting && la.running < la.limit {
			return true
		}
	}
	return false
}

// returned takes the outcome of a run, and frees its place.
func (l *loop) returned(o outcome) {
	r := o.run
	if l.running[r.key] == r {
		delete(l.running, r.key)
	}
	l.lane(r.lane).running--
	l.e.stats.running.Add(-1)
	if !r.dropped {
		l.outcomes = append(l.outcomes, o)
	}
}

// start carries out a run whose "running" is durable (A8), beside the loop.
func (l *loop) start(s launch) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{key: s.key, ref: s.state.Ref(), lane: s.lane, cancel: cancel}
	l.running[s.key] = r
	go l.e.carryOut(ctx, r, l.e.job(s))
}

// job is an outer effect as the runner carries it out.
type job struct {
	what  string // for the reader: "tool", "effect"
	limit time.Duration
	call  func(context.Context) (json.RawMessage, error)
}

// job makes one of a launch: the run of a tool, or the effect of another machine.
func (e *Engine) job(s launch) job {
	a, ok := s.state.(core.Action)
	if !ok {
		return job{what: "effect", limit: e.o.EffectTimeout, call: func(ctx context.Context) (json.RawMessage, error) {
			return e.interpret(ctx, s.state.Ref(), s.lane, s.effect)
		}}
	}
	limit := a.Policy.Timeout()
	if limit == 0 {
		limit = e.o.DefaultTimeout
	}
	return job{what: "tool", limit: limit, call: func(ctx context.Context) (json.RawMessage, error) { return e.call(ctx, &a) }}
}

// carryOut does the job and hands the outcome to the loop, exactly once: also
// where it panics, or does not return after its context has ended.
func (e *Engine) carryOut(ctx context.Context, r *run, j job) {
	defer r.cancel(nil)
	if j.limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, j.limit, ErrTimeLimit)
		defer stop()
	}
	var once sync.Once
	deliver := func(ev core.Event) {
		once.Do(func() {
			select {
			case e.result <- outcome{run: r, event: ev}:
			case <-e.stopped:
			}
		})
	}
	returned := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		c, stop := e.o.Clock.Timer(e.o.AbandonAfter)
		defer stop()
		select {
		case <-c:
			deliver(answer(ctx, r, j, nil, fmt.Errorf("the %s did not return, and was left behind", j.what)))
		case <-returned:
		}
	})
	if errors.Is(context.Cause(ctx), ErrStopping) { // cancelled before it was begun
		close(returned)
		unwatch()
		deliver(core.HandBackEvent(r.ref.Kind, r.key.N))
		return
	}
	result, err := j.call(ctx)
	close(returned)
	unwatch()
	deliver(answer(ctx, r, j, result, err))
}

// interpret carries out an effect that is no tool's run; a panic becomes an
// error.
func (e *Engine) interpret(ctx context.Context, ref effects.Ref, lane string, effect effects.Outer) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("interpreter panicked", "ref", ref.String(), "lane", lane, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the interpreter of %q panicked: %v", lane, p)
		}
	}()
	i, ok := e.o.Interpreters[lane]
	if !ok {
		return nil, permanentError{fmt.Errorf("no interpreter of %q is configured", lane)}
	}
	return i.Carry(ctx, ref, effect)
}

// call runs the tool; a panic becomes an error.
func (e *Engine) call(ctx context.Context, a *core.Action) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("tool panicked", "action_id", a.ID, "tool", a.ToolName, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("tool %q panicked: %v", a.ToolName, p)
		}
	}()
	tool, ok := e.o.Tools[a.ToolName]
	if !ok {
		return nil, fmt.Errorf("tool %q is not configured", a.ToolName)
	}
	return tool.Run(ctx, Call{
		ActionID: a.ID, Attempt: a.Attempt, Namespace: a.Namespace, Tenant: a.Tenant, Label: a.Label,
		Tool: a.ToolName, ActionType: a.ActionType, Input: a.ToolInput,
		Payload: a.Trigger.RawPayload, Header: a.Trigger.Header, DueAt: a.Trigger.KeyTime(),
		Metadata: a.Metadata, Labels: a.Labels,
		IdempotencyKey: a.ID.String() + "/" + strconv.FormatUint(uint64(a.Cycle), 10),
		log:            e.log, engine: e,
	})
}

// MaxResultBytes bounds the result of one run: a larger one fails it, and is
// left out where it comes beside an error.
const MaxResultBytes = 1 << 20

// maxReason bounds the reason of a failure; the rest of it is cut.
const maxReason = 4 << 10

// answer turns what came back into the machine's event.
func answer(ctx context.Context, r *run, j job, result json.RawMessage, err error) core.Event {
	kind, n := r.ref.Kind, r.key.N
	if err == nil {
		switch {
		case len(result) > MaxResultBytes:
			return core.AnswerEvent(kind, n, nil, fmt.Sprintf("the %s's result of %d bytes is larger than %d", j.what, len(result), MaxResultBytes), true)
		case len(result) > 0 && !json.Valid(result):
			return core.AnswerEvent(kind, n, nil, fmt.Sprintf("the %s's result is not valid JSON", j.what), true)
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
		subject := "action"
		if kind != core.KindAction {
			subject = j.what
		}
		reason = fmt.Sprintf("the %s reached its time limit of %s: %s", subject, j.limit, reason)
	case reason == "":
		reason = "failed without a reason"
	}
	if len(result) > MaxResultBytes || !utf8.Valid(result) {
		result = nil // the reason matters more
	}
	var p interface{ Permanent() bool }
	return core.AnswerEvent(kind, n, result, reason, errors.As(err, &p) && p.Permanent())
}

// permanentError says that trying again is pointless.
type permanentError struct{ error }

// Permanent is true.
func (permanentError) Permanent() bool { return true }

// Unwrap gives what was wrong.
func (e permanentError) Unwrap() error { return e.error }

func effectKey(id uuid.UUID, n uint32) store.EffectKey { return store.EffectKey{ID: id, N: n} }
