package shell

import (
	"context"

	"github.com/orrery-go/orrery/shell/engine"
)

// Once says which request of a caller's it is, so that it is carried out once, however often it comes.
type Once = engine.Once

// AnswersKept is how long the answer to a request with a key is kept at least.
const AnswersKept = engine.AnswersKept

// ErrKeyReused says that under the key of a [Once] there is the answer to another request.
var ErrKeyReused = engine.ErrKeyReused

// NewOnce names a request by a hash of who asks and what he calls it. of gives a hash of all that he asks for, so that under
// the same key nothing else is taken for it ([ErrKeyReused]); nil: he sees to that himself.
//
// The key is kept for [AnswersKept] with what the request was answered, in the transaction of what it has changed.
// So a caller who has lost the answer may ask again, also after a crash, and of another process that has the database
// now. What was refused, and has changed nothing, is decided anew.
func NewOnce(key [32]byte, of func() [32]byte) *Once { return engine.NewOnce(key, of) }

// WithOnce has each call of an [Engine] under the context that changes something carried out once: the first that
// does is one part of the request, the next another. Calls side by side each need a part of their own ([Once.Part]). A call that
// only waits or reads is as without it.
func WithOnce(ctx context.Context, o *Once) context.Context { return engine.WithOnce(ctx, o) }

// OnceFrom gives what [WithOnce] has set; nil: nothing.
func OnceFrom(ctx context.Context) *Once { return engine.OnceFrom(ctx) }

// Before is what something was answered before.
type Before = engine.Before

// AnsweredBefore gives what is asked for next under the context was answered before, with a change: then it may be asked for
// although it seems to be done, or nothing is left to do it with; false: it was not. It is for callers who look before they ask.
func (e *Engine) AnsweredBefore(ctx context.Context) (Before, bool, error) {
	return e.loop.AnsweredBefore(ctx)
}

// AnswerAgain gives what [Engine.AnsweredBefore] does, for callers who can answer with that: it counts as the answer to the part, and
// what is asked for next is the next one.
func (e *Engine) AnswerAgain(ctx context.Context) (Before, bool, error) {
	return e.loop.AnswerAgain(ctx)
}

// WasAnswered reports whether what is asked for next under the context was answered before, with a change: then it may be asked
// for although it seems to be done.
func (e *Engine) WasAnswered(ctx context.Context) (bool, error) { return e.loop.WasAnswered(ctx) }
