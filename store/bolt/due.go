package bolt

import (
	"bytes"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects"
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
func (t *tx) putDue(ops []dueOp) error {
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
			next, old = table.cursor.Seek(key)
			looked = true
		}
		stored := bytes.Equal(key, next)
		op := &ops[0]
		var err error
		switch {
		case n == 1 && !stored && op.waits:
			if value == nil || kind != op.kind {
				kind, value = op.kind, []byte(op.kind)
			}
			err = table.bucket.Put(key, value)
		case n == 1 && !stored: // it is not there to be taken away
		case n == 1 && !op.waits && string(old) == string(op.kind):
			err = table.cursor.Delete() // the look has just led there
		default:
			err = t.mergeDue(table, key, old, ops[:n], stored)
		}
		if err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// mergeDue changes the kinds of one key, each of them alone.
func (t *tx) mergeDue(table *table, key, old []byte, ops []dueOp, stored bool) error {
	kinds := strings.FieldsFunc(string(old), func(r rune) bool { return string(r) == kindSeparator })
	for i := range ops {
		kind := string(ops[i].kind)
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == kind })
		if ops[i].waits {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		if !stored {
			return nil
		}
		return table.bucket.Delete(key)
	}
	slices.Sort(kinds)
	return table.bucket.Put(key, []byte(strings.Join(kinds, kindSeparator)))
}
