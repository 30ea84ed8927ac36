package shell

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/internal/headtail"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/store"
)

// What tools write while they run. While a tool runs its output is in memory, and a goroutine
// beside the loop stores it now and then; what is there at the tool's end is stored in the
// transaction of its answer. It is no state: no journal has it, and no replay. See
// docs/decisions/0034-output-of-actions.md.

// MaxOutput is the most that can be kept of what an attempt of an action has written.
const MaxOutput = 1 << 20

const (
	defaultOutput = 64 << 10
	// outputEvery is how long what a tool has written stays in memory alone, if the disk keeps up.
	outputEvery = time.Second
	// outputAtOnce is about how many bytes of outputs wait for one commit, while tools run.
	outputAtOnce = 1 << 20
	// outputShare is which part of the time the storing of outputs of running tools may take: one
	// in so many.
	outputShare = 10
)

// outputKey names an attempt of an action.
type outputKey struct {
	action  uuid.UUID
	attempt uint32
}

// outputs holds what the tools that run have written.
type outputs struct {
	mu    sync.Mutex // may be locked while a liveOutput is, and not the other way round
	live  map[outputKey]*liveOutput
	dirty []*liveOutput // of which something is in memory alone, in the order in which it came
	begun map[uuid.UUID]*awaited
	kick  chan struct{} // holds an element if dirty may not be empty
	stats OutputStats
}

// awaited tells who follows an action that an attempt of it has begun to write.
type awaited struct {
	c    chan struct{}
	many int // who waits
}

func (o *outputs) init() {
	o.live, o.begun = make(map[outputKey]*liveOutput), make(map[uuid.UUID]*awaited)
	o.kick = make(chan struct{}, 1)
}

// OutputStats count what tools write.
type OutputStats struct {
	Bytes  uint64 // that tools have written, kept or not
	Stored uint64 // bytes that were stored, while tools ran and at their ends
	Writes uint64 // how often the output of an attempt was stored
	Held   int    // outputs that are in memory now
}

// OutputStats gives the counts of what tools have written since the engine was made.
func (a Actions) OutputStats() OutputStats {
	stats, live := a.e.outputs.counted()
	for _, l := range live {
		l.mu.Lock()
		stats.Bytes += uint64(l.text.Total())
		l.mu.Unlock()
	}
	return stats
}

// counted gives what was counted of what has ended, and the rest.
func (o *outputs) counted() (OutputStats, []*liveOutput) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stats := o.stats
	stats.Held = len(o.live)
	return stats, slices.Collect(maps.Values(o.live))
}

// find gives the output of an attempt if it is in memory.
func (o *outputs) find(key outputKey) *liveOutput {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[key]
}

// await gives a channel that is closed once an attempt of the action begins to write after this.
// The caller calls stop.
func (o *outputs) await(action uuid.UUID) (c <-chan struct{}, stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.begun[action]
	if w == nil {
		w = &awaited{c: make(chan struct{})}
		o.begun[action] = w
	}
	w.many++
	return w.c, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if w.many--; w.many == 0 && o.begun[action] == w {
			delete(o.begun, action)
		}
	}
}

// add has the output found.
func (o *outputs) add(l *liveOutput) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live[l.key()] = l
	if w := o.begun[l.of.Action]; w != nil {
		close(w.c)
		delete(o.begun, l.of.Action)
	}
}

// remove forgets an output whose end is stored in so many bytes, or will not be.
func (o *outputs) remove(l *liveOutput, bytes int) {
	o.stored(bytes)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live[l.key()] == l {
		delete(o.live, l.key())
	}
	o.stats.Bytes += uint64(l.text.Total()) // it has ended: nobody writes to it
}

// stored counts what was stored.
func (o *outputs) stored(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.Stored += uint64(bytes)
	o.stats.Writes++
}

// soil notes that something of an output is in memory alone.
func (o *outputs) soil(l *liveOutput) {
	o.mu.Lock()
	o.dirty = append(o.dirty, l)
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// take gives some of the outputs of which something is in memory alone, at most so many. More:
// there are others.
func (o *outputs) take(most int) (some []*liveOutput, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(most, len(o.dirty))
	some = append(some, o.dirty[:n]...)
	o.dirty = slices.Delete(o.dirty, 0, n)
	return some, len(o.dirty) > 0
}

// storeOutputs stores what running tools write, until ctx ends: then what is there at their ends
// is stored with their answers.
func (e *Engine) storeOutputs(ctx context.Context) {
	for {
		select {
		case <-e.outputs.kick:
		case <-ctx.Done():
			return
		}
		wait := outputEvery
		for more := true; more; {
			if e.wait(ctx, nil, wait) != nil {
				return
			}
			var some []*liveOutput
			some, more = e.outputs.take(max(outputAtOnce/max(e.o.OutputBytes, 1), 1))
			begin := e.o.Clock.Steady()
			if !e.storeSome(ctx, some) {
				return
			}
			wait = outputShare * e.o.Clock.Steady().Sub(begin)
		}
	}
}

// storeSome has outputs stored in one batch, as far as the loop takes them into one, and waits
// for that. It reports whether the engine goes on.
func (e *Engine) storeSome(ctx context.Context, some []*liveOutput) bool {
	done := make(chan struct{}, len(some))
	sent := 0
	for _, l := range some {
		w := l.cleaned()
		if w == nil {
			continue
		}
		w.Done = func() {
			e.outputs.stored(w.Size)
			done <- struct{}{}
		}
		if !e.loop.Post(ctx, engine.Request{Write: w}) {
			return false
		}
		sent++
	}
	for range sent {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// runOutput is what a run of a tool writes: nothing until somebody asks for a writer.
type runOutput struct {
	e *Engine

	mu   sync.Mutex
	of   outputOf
	mask secrets.Mask
	live *liveOutput
	open []*outputWriter
}

// begin notes whose output it is, just before the tool is called.
func (r *runOutput) begin(a *core.Action, mask secrets.Mask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of, r.mask = outputOf{Action: a.ID, Attempt: a.Attempt, Cycle: a.Cycle, Run: a.Run}, mask
}

// writer gives a writer into the output.
func (r *runOutput) writer() io.Writer {
	most := r.e.o.OutputBytes
	r.mu.Lock()
	defer r.mu.Unlock()
	if most <= 0 || r.of.Action == uuid.Nil {
		return io.Discard
	}
	if r.live == nil {
		r.live = &liveOutput{of: r.of, to: &r.e.outputs, text: headtail.New(most)}
	}
	w := &outputWriter{s: r.mask.Writer(r.live)}
	r.open = append(r.open, w)
	return w
}

// end gives what is to be stored with the answer of the run; nil: it has written nothing.
func (r *runOutput) end() *engine.Write {
	r.mu.Lock()
	live, open := r.live, r.open
	r.live, r.open, r.of = nil, nil, outputOf{}
	r.mu.Unlock()
	if live == nil {
		return nil
	}
	for _, w := range open {
		w.flush()
	}
	if !live.end() {
		return nil
	}
	w := live.last()
	w.Done = func() { r.e.outputs.remove(live, w.Size) }
	return w
}

// outputWriter masks one stream of an output.
type outputWriter struct {
	mu sync.Mutex
	s  *secrets.Stream
}

// Write never fails.
func (w *outputWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.s.Write(p)
}

func (w *outputWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.s.Flush() // the writer behind never fails
}

// outputOf says whose output it is.
type outputOf struct {
	Action  uuid.UUID
	Attempt uint32
	Cycle   uint32
	Run     uint32
}

// liveOutput is the output of a run that goes on.
type liveOutput struct {
	of outputOf
	to *outputs

	mu      sync.Mutex
	text    *headtail.Buffer
	soiled  bool // it is among those of which something is in memory alone
	ended   bool
	changed chan struct{} // closed with the next write, and with the end; nil: nobody waits
}

func (l *liveOutput) key() outputKey { return outputKey{l.of.Action, l.of.Attempt} }

// Write never fails. After the end it does nothing.
func (l *liveOutput) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(p) == 0 {
		return len(p), nil
	}
	if l.text.Total() == 0 {
		l.to.add(l)
	}
	_, _ = l.text.Write(p) // it never fails
	if !l.soiled {
		l.soiled = true
		l.to.soil(l)
	}
	l.tell()
	return len(p), nil
}

// end has nothing be written any more, and reports whether something was.
func (l *liveOutput) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.tell()
	return l.text.Total() > 0
}

// tell wakes who follows; l.mu is held.
func (l *liveOutput) tell() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// look gives what is kept from an offset on, and whether no more follows. If something may follow,
// changed is closed when it does.
func (l *liveOutput) look(offset int64) (o Output, ended bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil && !l.ended {
		l.changed = make(chan struct{})
	}
	return l.output(offset), l.ended, l.changed
}

// output gives what is kept from an offset on; l.mu is held.
func (l *liveOutput) output(offset int64) Output {
	o := Output{Attempt: l.of.Attempt, Cycle: l.of.Cycle, Run: l.of.Run, Written: l.text.Total(), Offset: min(offset, l.text.Total())}
	o.Head, o.Tail = l.text.From(o.Offset)
	return o
}

// cleaned gives what stores the output as it is now; nil if it has ended, and is stored with the
// answer.
func (l *liveOutput) cleaned() *engine.Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soiled = false
	if l.ended {
		return nil
	}
	return storing(l.output(0), l.of.Action)
}

// last gives what stores the output once it has ended.
func (l *liveOutput) last() *engine.Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return storing(l.output(0), l.of.Action)
}

// readOutput makes anew what stores the output of an action that has run in another process.
func readOutput(of effects.Ref, sent []byte) (*engine.Write, error) {
	attempt, n := binary.Uvarint(sent)
	if n <= 0 || attempt > math.MaxUint32 || of.Kind != core.KindAction {
		return nil, fmt.Errorf("output of %s: %d bytes that say no attempt", of, len(sent))
	}
	o, err := decodeOutput(uint32(attempt), sent[n:])
	if err != nil {
		return nil, err
	}
	return storing(o, of.ID), nil
}

// storing gives what stores an output of an action, unless a later one is stored.
func storing(o Output, action uuid.UUID) *engine.Write {
	text := encodeOutput(o)
	return &engine.Write{
		Of: actionRef(action), Size: len(text), Sent: func() []byte { return append(binary.AppendUvarint(nil, uint64(o.Attempt)), text...) },
		Check: func(s core.State) error {
			if _, ok := s.(core.Action); !ok {
				return fmt.Errorf("%s %w", actionRef(action), ErrNotFound)
			}
			return nil
		},
		Put: func(tx store.Tx) error {
			if stored, err := tx.RunLog(action, o.Attempt); err == nil { // one that cannot be read is replaced
				before, err := decodeOutput(o.Attempt, stored)
				if err == nil && (before.Run > o.Run || before.Run == o.Run && before.Written > o.Written) {
					return nil
				}
			}
			return tx.PutRunLog(action, o.Attempt, text)
		},
	}
}
