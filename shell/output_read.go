package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/headtail"
	"github.com/orrery-go/orrery/store"
)

// ErrNoOutput says that an attempt of an action has no output. What wraps it says why.
var ErrNoOutput = errors.New("there is no output")

// noOutputError is an [ErrNoOutput] that says why.
type noOutputError string

// Error implements error.
func (e noOutputError) Error() string { return string(e) }

// Unwrap lets [errors.Is] find it.
func (noOutputError) Unwrap() error { return ErrNoOutput }

// Output is what an attempt of an action has written, or what of it is kept.
type Output struct {
	Attempt uint32 // of the cycle
	Cycle   uint32
	Run     uint32 // of all runs of the action
	Written int64  // bytes in all
	// Offset is where Head begins; Tail ends where Written does. What is not in one of them is not
	// kept, see Dropped. Without secrets, see [Call.Output].
	Offset     int64
	Head, Tail []byte
}

// Dropped is how many bytes behind the offset were written, and are not kept.
func (o Output) Dropped() int64 {
	return o.Written - o.Offset - int64(len(o.Head)) - int64(len(o.Tail))
}

// Text gives what is kept as one text, with a line in the place of what was dropped. The cuts are
// at the ends of lines where there are some nearby, and else between characters.
func (o Output) Text() []byte {
	var b bytes.Buffer
	_ = (&outputText{w: &b}).write(o) // a buffer takes all
	return b.Bytes()
}

// storedOutput stands before what is kept, in a line of its own.
type storedOutput struct {
	Cycle   uint32 `json:"cycle"`
	Run     uint32 `json:"run"`
	Written int64  `json:"written"`
	Head    int    `json:"head"` // how many of the bytes that follow are the head
}

// encodeOutput gives the form in which an output is stored.
func encodeOutput(o Output) []byte {
	b, _ := json.Marshal(storedOutput{o.Cycle, o.Run, o.Written, len(o.Head)}) // numbers always encode
	b = append(b, '\n')
	return append(append(b, o.Head...), o.Tail...)
}

func decodeOutput(attempt uint32, b []byte) (Output, error) {
	line, text, _ := bytes.Cut(b, []byte("\n"))
	var s storedOutput
	if err := json.Unmarshal(line, &s); err != nil {
		return Output{}, fmt.Errorf("%w: output of attempt %d: %w", store.ErrCorrupt, attempt, err)
	}
	if s.Head < 0 || s.Head > len(text) || s.Written < int64(len(text)) {
		return Output{}, fmt.Errorf("%w: output of attempt %d: %d bytes, of which %d are the head and %d were written", store.ErrCorrupt, attempt, len(text), s.Head, s.Written)
	}
	return Output{Attempt: attempt, Cycle: s.Cycle, Run: s.Run, Written: s.Written, Head: text[:s.Head], Tail: text[s.Head:]}, nil
}

// from gives the output without what is before an offset.
func (o Output) from(offset int64) Output {
	offset = min(max(offset, 0), o.Written)
	tailAt := o.Written - int64(len(o.Tail))
	o.Head = o.Head[min(offset, int64(len(o.Head))):]
	o.Tail = o.Tail[max(min(offset-tailAt, int64(len(o.Tail))), 0):]
	o.Offset = offset
	return o
}

// OutputOptions say what of the output of an action is copied.
type OutputOptions struct {
	// Attempt of the present cycle, or of the last one if the present one has not begun; 0: the
	// latest one.
	Attempt uint32
	// Offset is how many bytes of that attempt the reader has already.
	Offset int64
	// Follow goes on until the attempt has ended, and waits for its beginning; with Attempt 0 also
	// with the attempts that follow, until the action, or its cycle, has ended. A line says where
	// the next attempt begins.
	Follow bool
	// Begun is told of each attempt before anything of it is written; nil: nobody asks.
	Begun func(Output)
}

// Output gives what is kept of what an attempt of an action has written; attempt 0: of the latest.
// The error wraps [ErrNotFound] if there is no such action, and [ErrNoOutput] if there is nothing.
func (a Actions) Output(ctx context.Context, id uuid.UUID, attempt uint32) (Output, error) {
	act, err := a.Get(ctx, id)
	if err != nil {
		return Output{}, err
	}
	r := outputReader{e: a.e, id: id, at: attempt}
	if err := r.place(act); err != nil {
		return Output{}, err
	}
	o, _, _, err := r.read(ctx)
	if errors.Is(err, ErrNoOutput) {
		return o, noneOf(act, r.at)
	}
	return o, err
}

// CopyOutput copies what an action has written to w, and says which attempt it was. With o.Follow
// it goes on until no more comes. The error wraps [ErrNotFound] if there is no such action, and
// [ErrNoOutput] if nothing was written, and nothing more will be.
func (a Actions) CopyOutput(ctx context.Context, id uuid.UUID, o OutputOptions, w io.Writer) error {
	r := &outputReader{e: a.e, id: id, at: o.Attempt, o: o, text: &outputText{w: w}, offset: o.Offset}
	if !o.Follow {
		act, err := a.Get(ctx, id)
		if err == nil {
			err = r.place(act)
		}
		if err == nil {
			err = r.copyNew(ctx)
		}
		if errors.Is(err, ErrNoOutput) {
			return noneOf(act, r.at)
		}
		return err
	}
	// Whatever changes after this is heard of.
	changes := a.e.Subscribe(func(ev effects.Event) bool { return ev.Source.ID == id }, 1)
	defer changes.Close()
	for {
		begun, stop := a.e.outputs.await(id)
		done, err := r.follow(ctx)
		if !done && err == nil {
			err = awaitMore(ctx, a.e, outputPoll, begun, changes.C)
		}
		stop()
		if done || err != nil {
			return err
		}
	}
}

// outputPoll is how often a reader looks by itself: another engine may run the action.
const outputPoll = time.Second

// outputReader copies the output of one action for one reader.
type outputReader struct {
	e       *Engine
	id      uuid.UUID
	at      uint32 // the attempt; 0: it is not known yet
	cycle   uint32 // to which that belongs; 0: likewise
	o       OutputOptions
	text    *outputText
	offset  int64 // of what the reader has of the attempt
	told    bool  // Begun was told of the attempt
	written bool  // something was written, of any attempt
}

// follow copies what there is. done: no more will come.
func (r *outputReader) follow(ctx context.Context) (done bool, err error) {
	act, err := r.e.Actions().Get(ctx, r.id)
	if err != nil {
		return false, err
	}
	for {
		err = r.place(act)
		if err == nil {
			err = r.copyNew(ctx)
		}
		switch {
		case err != nil && !errors.Is(err, ErrNoOutput):
			return false, err
		case !r.ended(act):
			return false, nil
		case r.o.Attempt != 0 || act.Cycle != r.cycle || r.at >= act.Attempt && act.Status.Type.Terminal():
			if !r.written && r.o.Offset == 0 {
				return true, noneOf(act, r.at)
			}
			return true, nil
		case r.at >= act.Attempt:
			return false, nil // it waits for its next attempt
		}
		r.at, r.offset, r.told = r.at+1, 0, false
	}
}

// ended reports whether the attempt had ended in that state of the action. What it has written
// until then was stored before.
func (r *outputReader) ended(act core.Action) bool {
	if r.cycle == 0 || r.cycle == act.Cycle && r.at > act.Attempt { // it has not begun
		return act.Status.Type.Terminal()
	}
	return r.cycle != act.Cycle || r.at < act.Attempt || act.Status.Type != core.StatusRunning
}

// awaitMore waits until there may be more: something is told by one of the channels, or poll is over.
func awaitMore[T any](ctx context.Context, e *Engine, poll time.Duration, begun <-chan struct{}, changed <-chan T) error {
	look, stop := e.o.Clock.Timer(poll)
	defer stop()
	select {
	case <-begun:
	case <-changed:
	case <-look:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.Stopped():
		return ErrStopped
	}
	return nil
}

// place finds which attempt is meant, and to which cycle it belongs.
func (r *outputReader) place(act core.Action) error {
	if r.cycle != 0 && r.at != 0 {
		return nil
	}
	switch {
	case act.Attempt > 0:
		if r.at == 0 {
			r.at = act.Attempt
		}
		r.cycle = act.Cycle
	case act.LastRun != nil && !r.o.Follow:
		r.cycle = act.LastRun.Cycle
		if r.at == 0 {
			r.at = lastAttempt(act.LastRun)
		}
	default:
		return noOutputError("it has not begun")
	}
	return nil
}

// read gives what is kept of the attempt from the offset on. live: more may follow, and changed is
// then closed.
func (r *outputReader) read(ctx context.Context) (o Output, live bool, changed <-chan struct{}, err error) {
	if l := r.e.outputs.find(outputKey{r.id, r.at}); l != nil && l.of.Cycle == r.cycle {
		o, ended, changed := l.look(r.offset)
		return o, !ended, changed, nil
	}
	err = r.e.store.View(ctx, func(tx store.ReadTx) error {
		text, err := tx.RunLog(r.id, r.at)
		if err != nil {
			return err
		}
		o, err = decodeOutput(r.at, bytes.Clone(text))
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && o.Cycle != r.cycle:
		return Output{}, false, nil, noOutputError("it has written nothing")
	case err != nil:
		return Output{}, false, nil, err
	}
	return o.from(r.offset), false, nil, nil
}

// copyNew copies what the reader has not seen of the attempt, and follows it while it is in memory
// if it is to be followed.
func (r *outputReader) copyNew(ctx context.Context) error {
	for {
		o, live, changed, err := r.read(ctx)
		if err != nil {
			return err
		}
		if err := r.give(o); err != nil {
			return err
		}
		if !live || !r.o.Follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.e.Stopped():
			return ErrStopped
		}
	}
}

// give writes what is new of an attempt.
func (r *outputReader) give(o Output) error {
	if !r.told && r.o.Begun != nil {
		r.o.Begun(o)
	}
	if !r.told && r.written {
		if err := r.text.line("… attempt %d …", o.Attempt); err != nil {
			return err
		}
	}
	r.told, r.written = true, true
	r.offset = o.Written
	return r.text.write(o)
}

// noneOf says why there is nothing of an attempt.
func noneOf(act core.Action, attempt uint32) error {
	switch {
	case act.Attempt == 0 && act.LastRun == nil:
		return noOutputError("it has not begun")
	case attempt > act.Attempt && act.Attempt > 0:
		return noOutputError(fmt.Sprintf("there is no attempt %d: the latest is %d", attempt, act.Attempt))
	case act.Status.Type == core.StatusRunning && attempt == act.Attempt:
		return noOutputError("it has written nothing yet")
	}
	return noOutputError("it has written nothing; its result says what came of it")
}

// outputText writes outputs as one text, with a line in the place of what was dropped.
type outputText struct {
	w      io.Writer
	inLine bool // what was written last does not end a line
}

func (t *outputText) write(o Output) error {
	dropped := o.Dropped()
	if dropped == 0 {
		return t.put(o.Head, o.Tail)
	}
	head, tail := headtail.CutHead(o.Head, maxCut), headtail.CutTail(o.Tail, maxCut)
	dropped += int64(len(o.Head) - len(head) + len(o.Tail) - len(tail))
	if err := t.put(head); err != nil {
		return err
	}
	if err := t.line("… %d bytes dropped …", dropped); err != nil {
		return err
	}
	return t.put(tail)
}

// line writes a line of its own.
func (t *outputText) line(format string, args ...any) error {
	begin := ""
	if t.inLine {
		begin = "\n"
	}
	return t.put(fmt.Appendf(nil, begin+format+"\n", args...))
}

func (t *outputText) put(parts ...[]byte) error {
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		t.inLine = p[len(p)-1] != '\n'
		if _, err := t.w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// maxCut bounds what a cut at the end of a line may cost.
const maxCut = 1 << 10
