package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// The due index has one key for all records that share an id and a due time, of
// whatever kinds (A5): its value is their kinds, in order. Mostly it is one.

// kindSeparator stands between the kinds of one due key: no kind has it in it.
const kindSeparator = " "

// cutKinds takes the first kind off the value of a due key.
func cutKinds(v string) (first effects.Kind, others string) {
	kind, others, _ := strings.Cut(v, kindSeparator)
	return effects.Kind(kind), others
}

// dueOp is what a write does to the due index.
type dueOp struct {
	key   []byte
	kind  effects.Kind
	waits bool // else it waits there no more
}

// putDue carries out what a Put does to the due index. It looks no key up that
// it can know to be new: a look finds the first key from there on, and up to
// that one there is none. So a batch that is due after all others, or before
// them, costs one look.
func (t *tx) putDue(ops []dueOp) {
	slices.SortStableFunc(ops, func(a, b dueOp) int { return bytes.Compare(a.key, b.key) })
	table := t.table(bucketDue)
	var next []byte // the first key from the last look on; nil: none
	looked := false
	var kind effects.Kind
	var value []byte // of kind alone; bbolt keeps it, and changes no value
	for len(ops) > 0 {
		key, n := ops[0].key, 1
		for n < len(ops) && bytes.Equal(ops[n].key, key) {
			n++
		}
		var old []byte
		if !looked || next != nil && bytes.Compare(key, next) >= 0 {
			next, old = table.walk().Seek(key)
			looked = true
		}
		stored := bytes.Equal(key, next)
		op := &ops[0]
		switch {
		case n == 1 && !stored && op.waits:
			if value == nil || kind != op.kind {
				kind, value = op.kind, []byte(op.kind)
			}
			table.PutNew(key, value)
		case n == 1 && !stored: // it is not there to be taken away
		case n == 1 && !op.waits && string(old) == string(op.kind):
			table.Delete(key)
		default:
			mergeDue(table, key, old, ops[:n], stored)
		}
		ops = ops[n:]
	}
}

// mergeDue changes the kinds of one key, each of them alone.
func mergeDue(table *table, key, old []byte, ops []dueOp, stored bool) {
	kinds := strings.FieldsFunc(string(old), func(r rune) bool { return string(r) == kindSeparator })
	for i := range ops {
		kind := string(ops[i].kind)
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == kind })
		if ops[i].waits {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		if stored {
			table.Delete(key)
		}
		return
	}
	slices.Sort(kinds)
	table.Put(key, []byte(strings.Join(kinds, kindSeparator)))
}

func (t *tx) RemoveDue(d store.DueEntry) (err error) {
	if err := t.check("remove due"); err != nil {
		return err
	}
	defer guard("remove due", &err)
	t.putDue([]dueOp{{key: d.Key[:], kind: d.Kind}})
	return nil
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
	found, limit = dst, len(dst)+limit
	var from store.DueKey
	if after != nil {
		from = *after
	}
	k, v := due.walk().Seek(from[:])
	if after != nil && bytes.Equal(k, from[:]) {
		k, v = due.walk().Next()
	}
	until := uint64(max(now, 0))
	var kind effects.Kind
	for ; k != nil && len(found) < limit; k, v = due.walk().Next() {
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
	var from store.DueKey
	if after >= 0 {
		from = store.DueUpperBound(after)
	}
	k, _ := due.walk().Seek(from[:])
	if after >= 0 && bytes.Equal(k, from[:]) {
		k, _ = due.walk().Next()
	}
	switch {
	case k == nil:
		return 0, false, nil
	case len(k) != len(from):
		return 0, false, fmt.Errorf("next due: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(from))
	}
	return store.DueKey(k).At(), true, nil
}
