package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// RecordPage implements [store.Walker].
func (t *ReadTx) RecordPage(after effects.Ref, limit int, fn func(store.Record) error) (last effects.Ref, err error) {
	if err := t.check(recordPage); err != nil || limit <= 0 {
		return last, err
	}
	kinds, err := t.kindsOf(RecordsPrefix)
	if err != nil {
		return last, err
	}
	w := recordWalk{t: t, limit: limit, fn: fn}
	for i := 0; i < len(kinds) && w.seen < limit; i++ {
		var from []byte
		switch kind := kinds[i]; {
		case kind < after.Kind || kind == after.Kind && after.ID == uuid.Max:
			continue
		case kind == after.Kind:
			from = append(after.ID[:], 0) // the next key
		}
		if err := w.kind(kinds[i], from); err != nil {
			return w.last, err
		}
	}
	return w.last, errors.Join(w.bad...)
}

const recordPage = "record page"

// recordWalk is one page of records on its way.
type recordWalk struct {
	t       *ReadTx
	limit   int
	fn      func(store.Record) error
	last    effects.Ref
	seen    int
	bad     []error
	refused bool // fn gave an error
}

// kind visits the records of a kind from a key on, and passes over the pages of the
// file that it cannot walk.
func (w *recordWalk) kind(kind effects.Kind, from []byte) error {
	records := w.t.kind(kind).records
	for w.seen < w.limit {
		var at uuid.UUID
		copy(at[:], from)
		err := w.t.scan(recordPage, records, from, func(k, v []byte) (bool, error) {
			at = uuid.UUID(Fit(k, IDLen))
			return w.visit(kind, k, v)
		})
		if err == nil || w.refused || w.t.check(recordPage) != nil || !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		w.bad = append(w.bad, fmt.Errorf("records of kind %s after %s: %w", kind, at, err))
		next, ok := walkable(records, at)
		if !ok {
			w.last = effects.Ref{Kind: kind, ID: uuid.Max}
			return nil
		}
		w.last = effects.Ref{Kind: kind, ID: next} // unless there is a record, which moves it on
		from = next[:]
	}
	return nil
}

func (w *recordWalk) visit(kind effects.Kind, k, v []byte) (more bool, err error) {
	w.last = effects.Ref{Kind: kind, ID: uuid.UUID(Fit(k, IDLen))}
	w.seen++
	r, err := RecordAt(kind, k, v, &w.t.texts)
	if err != nil {
		w.bad = append(w.bad, err)
		return w.seen < w.limit, nil
	}
	err = w.fn(r)
	w.refused = err != nil
	return w.seen < w.limit, err
}

// walkable gives the first key after one at which bbolt cannot go on, from which it can
// again: it looks at distances that double, and then nearer by ever smaller ones.
func walkable(records *table, after uuid.UUID) (uuid.UUID, bool) {
	c := records.Cursor()
	reads := func(at position) bool {
		id := at.id()
		_, _, err := seek(recordPage, c, id[:])
		return err == nil
	}
	start := positionOf(after)
	for bit := range 8 * IDLen {
		end, over := start.plus(bit)
		if over {
			break
		}
		if !reads(end) {
			continue
		}
		for b := bit - 1; b >= 0; b-- {
			if nearer, under := end.minus(b); !under && start.less(nearer) && reads(nearer) {
				end = nearer
			}
		}
		return end.id(), true
	}
	return after, false
}

// position is an id as a number.
type position struct{ high, low uint64 }

func positionOf(id uuid.UUID) position {
	return position{binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])}
}

func (p position) id() (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], p.high)
	binary.BigEndian.PutUint64(id[8:], p.low)
	return id
}

func (p position) less(q position) bool {
	return p.high < q.high || p.high == q.high && p.low < q.low
}

// power is two to the power of bit.
func power(bit int) position {
	if bit >= 64 {
		return position{high: 1 << (bit - 64)}
	}
	return position{low: 1 << bit}
}

func (p position) plus(bit int) (sum position, over bool) {
	q := power(bit)
	low, carry := bits.Add64(p.low, q.low, 0)
	high, carry := bits.Add64(p.high, q.high, carry)
	return position{high, low}, carry > 0
}

func (p position) minus(bit int) (difference position, under bool) {
	q := power(bit)
	low, borrow := bits.Sub64(p.low, q.low, 0)
	high, borrow := bits.Sub64(p.high, q.high, borrow)
	return position{high, low}, borrow > 0
}
