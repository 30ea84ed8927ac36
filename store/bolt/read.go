package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

func (t *readTx) Get(kind effects.Kind, id uuid.UUID) (r store.Record, err error) {
	if err := t.check("get"); err != nil {
		return r, err
	}
	defer guard("get", &err)
	raw, ok := t.kind(kind).records.get(id[:])
	if !ok {
		return r, &store.RecordError{Op: "get", Kind: kind, ID: id, Err: store.ErrNotFound}
	}
	if r, err = parseRecord(kind, id, raw); err != nil {
		return store.Record{}, &store.RecordError{Op: "get", Kind: kind, ID: id, Err: err, Raw: raw}
	}
	return r, nil
}

// duePage is how many entries a list makes room for at first, and dueGrowth how
// many times as many then: growing costs more than the scan itself.
const (
	duePage   = 64
	dueGrowth = 15
)

func (t *readTx) Due(dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) (found []store.DueEntry, err error) {
	if err := t.check("due"); err != nil || limit <= 0 {
		return dst, err
	}
	defer guard("due", &err)
	due := t.table(bucketDue)
	if due == nil {
		return dst, nil
	}
	found, limit = dst, len(dst)+limit
	var from store.DueKey
	if after != nil {
		from = *after
	}
	k, v := due.cursor.Seek(from[:])
	if after != nil && bytes.Equal(k, from[:]) {
		k, v = due.cursor.Next()
	}
	until := uint64(max(now, 0))
	var kind effects.Kind
	for ; k != nil && len(found) < limit; k, v = due.cursor.Next() {
		if len(k) != len(from) {
			return dst, fmt.Errorf("due: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(from))
		}
		if binary.BigEndian.Uint64(k) > until {
			break
		}
		if string(v) != string(kind) {
			if bytes.Contains(v, []byte(kindSeparator)) {
				found = t.appendKinds(found, store.DueKey(k), v)
				continue
			}
			kind = effects.Kind(t.text(v))
		}
		if len(found) == cap(found) {
			found = slices.Grow(found, min(limit-len(found), max(duePage, dueGrowth*(len(found)-len(dst)))))
		}
		found = append(found, store.DueEntry{Key: store.DueKey(k), Kind: kind})
	}
	return found, nil
}

// appendKinds appends the entries of a key with several kinds, also beyond a
// limit: they must not be parted (see store.ReadTx).
func (t *readTx) appendKinds(found []store.DueEntry, key store.DueKey, value []byte) []store.DueEntry {
	for rest := t.text(value); rest != ""; {
		var kind effects.Kind
		kind, rest = cutKinds(rest)
		found = append(found, store.DueEntry{Key: key, Kind: kind})
	}
	return found
}

func (t *readTx) NextDue(after effects.Time) (at effects.Time, ok bool, err error) {
	if err := t.check("next due"); err != nil {
		return 0, false, err
	}
	defer guard("next due", &err)
	due := t.table(bucketDue)
	if due == nil {
		return 0, false, nil
	}
	var from store.DueKey
	if after >= 0 {
		from = store.DueUpperBound(after)
	}
	k, _ := due.cursor.Seek(from[:])
	if after >= 0 && bytes.Equal(k, from[:]) {
		k, _ = due.cursor.Next()
	}
	switch {
	case k == nil:
		return 0, false, nil
	case len(k) != len(from):
		return 0, false, fmt.Errorf("next due: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(from))
	}
	return store.DueKey(k).At(), true, nil
}

func (t *readTx) Scan(kind effects.Kind, term string, from store.Cursor, desc bool, limit int) (found []store.Cursor, err error) {
	if err := t.check("scan"); err != nil || limit <= 0 || len(term) > store.MaxName {
		return nil, err
	}
	defer guard("scan", &err)
	lists := t.kind(kind).lists
	if lists == nil {
		return nil, nil
	}
	start := from
	if from == (store.Cursor{}) {
		start.At = firstTime
		if desc {
			start = store.Cursor{At: lastTime, ID: uuid.Max}
		}
	}
	var room [256]byte
	bound := appendListKey(room[:0], term, start.At, start.ID)
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
		for k, _ := t.cursor.Seek(bound); k != nil && yield(k); k, _ = t.cursor.Next() {
		}
	}
}

// walkDown yields the keys of a table from bound on downwards.
func walkDown(t *table, bound []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		c := t.cursor
		k, _ := c.Seek(bound)
		if k == nil {
			k, _ = c.Last()
		} else if !bytes.Equal(k, bound) {
			k = before(t, k)
		}
		for k != nil && yield(k) {
			k = before(t, k)
		}
	}
}

// maxEmptyPages bounds the pages that one transaction can have emptied; only on
// damaged pages is there no end.
const maxEmptyPages = 1 << 20

// before steps from key k to the key before it. Prev alone would not do: in a
// transaction that deleted all of a page's entries it stops at that page as if
// it were the beginning (see bbolt's Cursor.Last on empty pages).
func before(t *table, k []byte) []byte {
	p, _ := t.cursor.Prev()
	if p != nil || !t.bucket.Writable() {
		return p
	}
	first, _ := t.bucket.Cursor().First()
	for range maxEmptyPages {
		if p != nil || bytes.Compare(first, k) >= 0 {
			break
		}
		p, _ = t.cursor.Prev()
	}
	return p
}

func (t *readTx) TermsOf(kind effects.Kind, id uuid.UUID) (found []store.Term, err error) {
	if err := t.check("terms of"); err != nil {
		return nil, err
	}
	defer guard("terms of", &err)
	err = t.listEntries("terms of", t.kind(kind).lists, id, func(k, v []byte) {
		tail := k[len(k)-listTail:]
		found = append(found, store.Term{Name: string(k[lengthSize : len(k)-listTail]), At: timeOf(tail), Counted: string(v) == counted})
	})
	return found, err
}

// listEntries calls fn with each list entry of a record, found by its id.
func (t *readTx) listEntries(op string, lists *table, id uuid.UUID, fn func(k, v []byte)) error {
	swept := 0
	return t.scan(op, lists, nil, func(k, v []byte) (bool, error) {
		if swept++; swept > maxListSweep {
			return false, nil
		}
		if len(k) >= lengthSize+listTail && bytes.Equal(k[len(k)-idLen:], id[:]) {
			fn(k, v)
		}
		return true, nil
	})
}

func (t *readTx) Count(kind effects.Kind, term string) (n uint64, err error) {
	if err := t.check("count"); err != nil {
		return 0, err
	}
	defer guard("count", &err)
	return t.count(appendCountKey(nil, kind, term))
}

func (t *readTx) count(key []byte) (uint64, error) {
	raw, ok := t.table(bucketCounts).get(key)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count %q: %w: %q is no number", key, store.ErrCorrupt, raw)
	}
	return n, nil
}

// Records calls fn for each record. Those that cannot be read are passed over;
// when all others were visited it fails with a [store.RecordError] for each of
// the first few, joined (A10).
func (t *readTx) Records(fn func(store.Record) error) error {
	if err := t.check("records"); err != nil {
		return err
	}
	kinds, err := t.recordKinds()
	if err != nil {
		return err
	}
	var bad []error
	for _, kind := range kinds {
		err := t.scan("records", t.kind(kind).records, nil, func(k, v []byte) (bool, error) {
			id := uuid.UUID(fit(k, idLen))
			r, err := store.Record{}, fmt.Errorf("%w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), idLen)
			if len(k) == idLen {
				r, err = parseRecord(kind, id, v)
			}
			if err != nil {
				bad = appendBad(bad, &store.RecordError{Op: "records", Kind: kind, ID: id, Err: err})
				return true, nil
			}
			return true, fn(r)
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

// maxBad bounds how many damaged entries one error names.
const maxBad = 100

func appendBad(bad []error, err error) []error {
	if len(bad) < maxBad {
		bad = append(bad, err)
	}
	return bad
}

// recordKinds lists the kinds that have a bucket, in order.
func (t *readTx) recordKinds() (kinds []effects.Kind, err error) {
	err = t.buckets(recordsPrefix, func(name string) bool {
		kinds = append(kinds, effects.Kind(strings.TrimPrefix(name, recordsPrefix)))
		return true
	})
	return kinds, err
}

// buckets calls fn with the names that begin with prefix, in order.
func (t *readTx) buckets(prefix string, fn func(name string) bool) (err error) {
	defer guard("buckets", &err)
	c := t.tx.Cursor()
	for k, _ := c.Seek([]byte(prefix)); bytes.HasPrefix(k, []byte(prefix)) && fn(string(k)); k, _ = c.Next() {
	}
	return nil
}
