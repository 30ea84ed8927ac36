package tables

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Scan implements [store.ReadTx].
func (t *ReadTx) Scan(kind effects.Kind, term string, from store.Cursor, desc bool, limit int) (found []store.Cursor, err error) {
	if err := t.check("scan"); err != nil || limit <= 0 || len(term) > store.MaxName {
		return nil, err
	}
	defer Guard("scan", &err)
	lists := t.kind(kind).lists
	start := from
	if from == (store.Cursor{}) {
		start.At = math.MinInt64
		if desc {
			start = store.Cursor{At: math.MaxInt64, ID: uuid.Max}
		}
	}
	var room [256]byte
	bound := AppendListKey(room[:0], term, start.At, start.ID)
	prefix := bound[:len(bound)-listTail]
	walk := walkUp
	if desc {
		walk = walkDown
	}
	for k := range walk(lists, bound) {
		if !bytes.HasPrefix(k, prefix) || len(found) == limit {
			break
		}
		if len(k) != len(bound) {
			return nil, fmt.Errorf("scan %s %q: %w: key %x has %d bytes, not %d", kind, term, store.ErrCorrupt, k, len(k), len(bound))
		}
		tail := k[len(prefix):]
		c := store.Cursor{At: timeOf(tail), ID: uuid.UUID(tail[8:])}
		if c == from {
			continue
		}
		if found == nil {
			found = make([]store.Cursor, 0, min(limit, duePage))
		}
		found = append(found, c)
	}
	return found, nil
}

// walkUp yields the keys of a table from bound on.
func walkUp(t *table, bound []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for k, _ := t.walk().Seek(bound); k != nil && yield(k); k, _ = t.walk().Next() {
		}
	}
}

// walkDown yields the keys of a table from bound on downwards.
func walkDown(t *table, bound []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		c := t.walk()
		k, _ := c.Seek(bound)
		if k == nil {
			k, _ = c.Last()
		} else if !bytes.Equal(k, bound) {
			k, _ = c.Prev()
		}
		for k != nil && yield(k) {
			k, _ = c.Prev()
		}
	}
}

// TermsOf implements [store.ReadTx].
func (t *ReadTx) TermsOf(kind effects.Kind, id uuid.UUID) (found []store.Term, err error) {
	if err := t.check("terms of"); err != nil {
		return nil, err
	}
	defer Guard("terms of", &err)
	err = t.listEntries("terms of", t.kind(kind).lists, id, func(k, v []byte) {
		tail := k[len(k)-listTail:]
		found = append(found, store.Term{Name: string(k[lengthSize : len(k)-listTail]), At: timeOf(tail), Counted: string(v) == Counted})
	})
	return found, err
}

// listEntries calls fn with each list entry of a record, found by its id.
func (t *ReadTx) listEntries(op string, lists *table, id uuid.UUID, fn func(k, v []byte)) error {
	swept := 0
	return t.scan(op, lists, nil, func(k, v []byte) (bool, error) {
		if swept++; swept > maxListSweep {
			return false, nil
		}
		if len(k) >= lengthSize+listTail && bytes.Equal(k[len(k)-IDLen:], id[:]) {
			fn(k, v)
		}
		return true, nil
	})
}

// Count implements [store.ReadTx].
func (t *ReadTx) Count(kind effects.Kind, term string) (n uint64, err error) {
	if err := t.check("count"); err != nil {
		return 0, err
	}
	defer Guard("count", &err)
	return t.count(CountKey(kind, term))
}

func (t *ReadTx) count(key []byte) (uint64, error) {
	raw, ok := t.table(inCounts).Get(key)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count %q: %w: %q is no number", key, store.ErrCorrupt, raw)
	}
	return n, nil
}
