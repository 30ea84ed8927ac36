package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// A caller who has lost an answer asks again, under the same key. What a request has changed and what it was answered
// are committed together, so the second one finds either both or neither: it is answered as the first one was, also by
// another process that owns the database now, and changes nothing. What was refused has changed nothing, and is
// decided anew. No journal has any of it: an input that was not given again is in no replay.

// AnswersKept is how long the answer to a request with a key is kept at least.
const AnswersKept = 10 * time.Minute

// ErrKeyReused says that under the key there is the answer to another request.
var ErrKeyReused = errors.New("the key is that of another request")

// Once says which request of a caller's it is, so that it is carried out once however often it comes ([WithOnce]).
// It is safe for concurrent use only as far as one goroutine asks for something under it at a time; see Part.
type Once struct {
	key   store.AnswerKey
	of    func() [sha256.Size]byte // says what is asked for
	part  uint32                   // how many of its parts were answered with a change
	seen  bool
	note  []byte // to be kept with the next part
	noted []byte // that of the last part that was answered with a change
}

// NewOnce names a request by a hash of who asks and what he calls it. of gives a hash of all that he asks for: under one key
// another one is refused with [ErrKeyReused]. It is called when something is asked of the engine; nil: the same always.
func NewOnce(key [sha256.Size]byte, of func() [sha256.Size]byte) *Once {
	if of == nil {
		of = func() (none [sha256.Size]byte) { return none }
	}
	return &Once{key: key, of: of}
}

// Part gives one of several things that a caller asks for in one request and that are done side by side: the one of that name. What has one name is one part, however the
// request is divided when it comes again. of is as in [NewOnce], for this part; nil: what it gives for the whole request.
func (o *Once) Part(name string, of func() [sha256.Size]byte) *Once {
	if o == nil {
		return nil
	}
	if of == nil {
		of = o.of
	}
	return &Once{key: sha256.Sum256(append(append(o.key[:], "part"...), name...)), of: of}
}

// Repeated reports whether something was answered as it had been before.
func (o *Once) Repeated() bool { return o != nil && o.seen }

// Note has a note kept with what is asked for next, if that changes something: what the caller's own answer says beside the engine's,
// and could not be said a second time, such as what was there before. It must not be changed afterwards.
func (o *Once) Note(note []byte) {
	if o != nil {
		o.note = note
	}
}

// Noted gives the note of what was asked for last, if that has changed something: where it was answered as before, that of the
// first time. It must not be changed.
func (o *Once) Noted() []byte {
	if o == nil {
		return nil
	}
	return o.noted
}

// derived gives the key of something within a request.
func derived(key store.AnswerKey, what string, n uint32) store.AnswerKey {
	b := append(key[:], what...)
	return sha256.Sum256(binary.BigEndian.AppendUint32(b, n))
}

type onceKey struct{}

// WithOnce has what is asked for under the context carried out once. Each call under it that changes something is a part of its
// own, in their order; nil: nothing is kept.
func WithOnce(ctx context.Context, o *Once) context.Context {
	return context.WithValue(ctx, onceKey{}, o)
}

// OnceFrom gives what [WithOnce] has set; nil: nothing.
func OnceFrom(ctx context.Context) *Once {
	o, _ := ctx.Value(onceKey{}).(*Once)
	return o
}

// Before is what something was answered before.
type Before struct {
	State core.State // of the machine that was wanted; nil: of none. What its machine keeps as records of their own is missing
	Note  []byte     // see [Once.Note]
}

// AnsweredBefore gives what is asked for next under the context was answered before, with a change: then it may be asked for
// although it seems to be done, or nothing is left to do it with; false: it was not.
func (e *Engine) AnsweredBefore(ctx context.Context) (before Before, ok bool, err error) {
	o := OnceFrom(ctx)
	if o == nil {
		return before, false, nil
	}
	err = e.store.View(ctx, func(tx store.ReadTx) error {
		kept, err := tx.Answer(derived(o.key, "request", o.part))
		if err != nil {
			return err
		}
		var k keptReply
		of := o.of()
		if isOld(kept, effects.TimeOf(e.o.Clock.Now())) || json.Unmarshal(kept.Body, &k) != nil || string(k.Of) != string(of[:]) {
			return store.ErrNotFound // or what is there is found when it is asked for
		}
		if before.Note = k.Note; k.Kind != "" {
			before.State, err = core.DecodeState(k.Kind, k.State)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return Before{}, false, nil
	}
	return before, err == nil, err
}

// AnswerAgain gives what [Engine.AnsweredBefore] does, and counts it as the answer to the part: it is not asked for any more.
func (e *Engine) AnswerAgain(ctx context.Context) (Before, bool, error) {
	before, ok, err := e.AnsweredBefore(ctx)
	if ok {
		o := OnceFrom(ctx)
		o.part++
		o.seen, o.note, o.noted = true, nil, before.Note
		e.stats.repeated.Add(1)
	}
	return before, ok, err
}

// WasAnswered reports whether there is something that [Engine.AnsweredBefore] gives.
func (e *Engine) WasAnswered(ctx context.Context) (bool, error) {
	_, before, err := e.AnsweredBefore(ctx)
	return before, err
}

// isOld reports whether an answer was given too long ago to be given again.
func isOld(a store.Answer, now effects.Time) bool { return a.At.Before(now.Add(-AnswersKept)) }

// onceOf is which part of a caller's request one to the engine is; nil: it has no key.
type onceOf struct {
	*Once
	key   store.AnswerKey
	of    [sha256.Size]byte
	shape string // the kinds and types of its inputs: parts that do not fit are of another request
	note  []byte // of the caller's
	kept  bool   // it was answered with a change, now or before
	again bool   // before
	after *int   // the index of another one in the same batch, whose answer it gets; nil: it is the first
}

func newOnceOf(ctx context.Context, r *Request) *onceOf {
	o := OnceFrom(ctx)
	if o == nil {
		return nil
	}
	return &onceOf{Once: o, key: derived(o.key, "request", o.part), of: o.of(), shape: shapeOf(r), note: o.note}
}

func shapeOf(r *Request) string {
	if r.As != "" {
		return r.As
	}
	var shape strings.Builder
	for _, in := range r.Inputs {
		shape.WriteString(string(in.To.Kind) + "." + in.Event.EventType() + " ")
	}
	return shape.String()
}

// answered notes what has become of it.
func (o *onceOf) answered(rep Reply) {
	if o == nil {
		return
	}
	o.noted = nil
	if o.kept && rep.Err == nil {
		o.part++
		o.seen = o.seen || o.again
		o.Once.note, o.noted = nil, o.note
	}
}

// keptReply is the stored form of a [Reply]. States and answers are bytes, since a payload in them is what was sent, byte for byte.
type keptReply struct {
	Of     []byte         `json:"of"`
	Shape  string         `json:"shape"`
	Result keptResult     `json:"result"`
	Kind   effects.Kind   `json:"kind,omitempty"` // of the state
	State  []byte         `json:"state,omitempty"`
	Each   []keptAnswered `json:"each,omitempty"`
	Note   []byte         `json:"note,omitempty"`
}

type keptResult struct {
	Refused *effects.Refused `json:"refused,omitempty"`
	Changed bool             `json:"changed"`
	Answer  []byte           `json:"answer,omitempty"`
}

type keptAnswered struct {
	Result keptResult   `json:"result"`
	Kind   effects.Kind `json:"kind,omitempty"`
	State  []byte       `json:"state,omitempty"`
	Err    string       `json:"err,omitempty"` // where it is not the refusal
}

func keepResult(r core.Result) (keptResult, error) {
	answer, err := core.EncodeAnswer(r.Answer)
	return keptResult{Refused: r.Refused, Changed: r.Changed, Answer: answer}, err
}

func (k keptResult) result() (r core.Result, err error) {
	r.Refused, r.Changed = k.Refused, k.Changed
	r.Answer, err = core.DecodeAnswer(k.Answer)
	return r, err
}

func keepState(s core.State) (effects.Kind, []byte) {
	if s == nil {
		return "", nil
	}
	return s.Ref().Kind, s.AppendJSON(nil)
}

// stateKept reads a state that was kept. What its machine keeps as records of their own is as it is now.
func (b *batch) stateKept(kind effects.Kind, kept []byte) (core.State, error) {
	if kind == "" {
		return nil, nil
	}
	s, err := core.DecodeState(kind, kept)
	if err != nil {
		return nil, err
	}
	return core.Whole(s, b.fold.State)
}

// answeredBefore gives the answer to the i-th request if it has come before; false: it has not.
func (b *batch) answeredBefore(i int, r *request) (rep Reply, ok bool, err error) {
	if first, ok := b.once[r.once.key]; ok && b.hasChanged(first) { // one that has not leaves it to the next
		if other := b.l.requests[first].once; other.of != r.once.of || other.shape != r.once.shape {
			return Reply{Err: ErrKeyReused}, true, nil
		}
		r.once.after = &first
		return rep, true, nil // see shareAnswer
	}
	if b.once == nil {
		b.once = make(map[store.AnswerKey]int)
	}
	b.once[r.once.key] = i
	kept, err := b.tx.Answer(r.once.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return rep, false, nil
	case errors.Is(err, store.ErrCorrupt): // nobody knows what it was: to do it again could do it twice
		return Reply{Err: err}, true, nil
	case err != nil:
		return rep, false, err
	}
	if isOld(kept, b.now) {
		return rep, false, nil
	}
	var k keptReply
	if err := json.Unmarshal(kept.Body, &k); err != nil {
		return Reply{Err: fmt.Errorf("%w: the answer to an earlier request: %w", store.ErrCorrupt, err)}, true, nil
	}
	if string(k.Of) != string(r.once.of[:]) || k.Shape != r.once.shape {
		return Reply{Err: ErrKeyReused}, true, nil
	}
	rep, err = b.replyKept(k)
	if err != nil {
		return Reply{Err: fmt.Errorf("%w: the answer to an earlier request: %w", store.ErrCorrupt, err)}, true, nil
	}
	r.once.kept, r.once.again, r.once.note = true, true, k.Note
	return rep, true, nil
}

func (b *batch) replyKept(k keptReply) (rep Reply, err error) {
	if rep.Result, err = k.Result.result(); err != nil {
		return rep, err
	}
	if rep.State, err = b.stateKept(k.Kind, k.State); err != nil {
		return rep, err
	}
	for _, each := range k.Each {
		a := Answered{}
		if a.Result, err = each.Result.result(); err != nil {
			return rep, err
		}
		if a.State, err = b.stateKept(each.Kind, each.State); err != nil {
			return rep, err
		}
		switch {
		case each.Err != "":
			a.Err = errors.New(each.Err)
		case a.Result.Stopped():
			a.Err = a.Result.Refused
		}
		rep.Each = append(rep.Each, a)
	}
	return rep, nil
}

// keepAnswer stores what a request with a key was answered, if it has changed anything.
func (b *batch) keepAnswer(r *request, rep Reply) error {
	if r.once == nil || r.once.again || rep.Err != nil || !changed(r, rep) {
		return nil
	}
	k := keptReply{Of: r.once.of[:], Shape: r.once.shape, Note: r.once.note}
	var err error
	if k.Result, err = keepResult(rep.Result); err != nil {
		return err
	}
	k.Kind, k.State = keepState(rep.State)
	for _, a := range rep.Each {
		each := keptAnswered{}
		if each.Result, err = keepResult(a.Result); err != nil {
			return err
		}
		each.Kind, each.State = keepState(a.State)
		if a.Err != nil && !a.Result.Stopped() {
			each.Err = a.Err.Error()
		}
		k.Each = append(k.Each, each)
	}
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	r.once.kept, b.dirty = true, true
	return b.tx.PutAnswer(r.once.key, store.Answer{At: b.now, Body: body})
}

// shareAnswer gives the i-th request the answer to the one before it in the batch that has the same key, and reports whether there is
// one.
func (b *batch) shareAnswer(i int, r *request) bool {
	if r.once == nil || r.once.after == nil {
		return false
	}
	first := *r.once.after
	b.replies[i] = b.replies[first]
	of := b.l.requests[first].once
	r.once.kept, r.once.again, r.once.note = of.kept, of.kept, of.note
	return true
}

// hasChanged reports whether the i-th request of the batch has changed anything.
func (b *batch) hasChanged(i int) bool {
	return b.replies[i].Err == nil && changed(b.l.requests[i], b.replies[i])
}

// changed reports whether a request has changed anything.
func changed(r *request, rep Reply) bool {
	if r.Webhook != nil {
		return rep.Before == uuid.Nil
	}
	if r.Write != nil || rep.Result.Changed {
		return true
	}
	for _, a := range rep.Each {
		if a.Result.Changed {
			return true
		}
	}
	return false
}

// answersAtOnce bounds how many answers one batch forgets.
const answersAtOnce = 500

// forgetAnswers forgets what was answered long ago.
func (b *batch) forgetAnswers() error {
	if !b.retain.answers {
		return nil
	}
	dropped, err := b.tx.DropAnswers(b.now.Add(-AnswersKept), answersAtOnce)
	if dropped > 0 {
		b.dirty = true
	}
	b.retain.answers = dropped == answersAtOnce
	return err
}
