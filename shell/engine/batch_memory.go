package engine

import (
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Bounds of what the memory of a batch may have become if it is to serve another one.
const (
	maxKept      = 1024    // things of a kind
	maxKeptBytes = 1 << 20 // of stored forms
)

// newBatch gives an empty batch, in the memory of an earlier one if there is one.
func (l *loop) newBatch() *batch {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return &batch{l: l, fold: core.NewBatch(nil, core.Clock{}, 0), meta: make(map[effects.Ref]cached), waiting: make(map[string]bool)}
}

// recycle takes a batch back of which nothing is used any more.
func (l *loop) recycle(b *batch) {
	b.reset()
	b.fold.Reset(nil, core.Clock{}, 0)
	if len(l.free) < 3 { // as many as there may be at a time
		l.free = append(l.free, b)
	}
}

// begin begins to build the batch; anew if it was built before, in a transaction that is
// repeated.
func (b *batch) begin(tx store.Tx, now effects.Time, mono time.Time) {
	if b.tx != nil {
		b.reset()
	}
	b.tx, b.now, b.mono = tx, now, mono
}

// reset empties the batch.
func (b *batch) reset() {
	if len(b.meta) > maxKept {
		b.meta = make(map[effects.Ref]cached)
	}
	clear(b.meta)
	clear(b.waiting)
	if cap(b.buf) > maxKeptBytes {
		b.buf = nil
	}
	*b = batch{
		l: b.l, fold: b.fold, trial: b.trial,
		meta: b.meta, waiting: b.waiting, buf: b.buf[:0],
		entry:   core.Entry{Inputs: emptied(b.entry.Inputs)},
		replies: emptied(b.replies), launches: emptied(b.launches), unwanted: emptied(b.unwanted), stops: emptied(b.stops),
		arrived: emptied(b.arrived), compared: emptied(b.compared), astray: emptied(b.astray),
		requests: emptied(b.requests), outcomes: emptied(b.outcomes),
		changes: emptied(b.changes), writes: emptied(b.writes), own: b.own[:0],
	}
}

// emptied gives the memory of a slice, without what is in it.
func emptied[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	clear(s)
	return s[:0]
}
