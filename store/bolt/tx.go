package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

var errEnded = errors.New("the transaction has ended")

// table is a table with one cursor for all look-ups.
type table struct {
	*kv.Table
	cursor *kv.Cursor // nil: it was not needed yet
}

// walk gives the cursor.
func (t *table) walk() *kv.Cursor {
	if t.cursor == nil {
		t.cursor = t.Cursor()
	}
	return t.cursor
}

// find gives the entry of a key, also of one that damage has made longer or
// shorter, so that fit gives key; nil where there is none.
func (t *table) find(key []byte) (k, v []byte) {
	if k, v = t.walk().Seek(key); bytes.HasPrefix(k, key) {
		return k, v
	}
	for n := len(key) - 1; n > 0 && key[n] == 0xff; n-- {
		if v, ok := t.Get(key[:n]); ok {
			return key[:n], v
		}
	}
	return nil, nil
}

// has reports whether find finds anything. It stands outside of other guards.
func (t *table) has(op string, key []byte) (ok bool, err error) {
	defer guard(op, &err)
	k, _ := t.find(key)
	return k != nil, nil
}

// drop removes what find finds, and reports whether it was there.
func (t *table) drop(key []byte) bool {
	k, _ := t.find(key)
	if k != nil {
		t.Delete(k)
	}
	return k != nil
}

// fit gives n bytes of a key: cut off, or filled up with 0xff, which leads to no
// other entry's key, as zeros might to that of an effect number 0.
func fit(key []byte, n int) []byte {
	if len(key) >= n {
		return key[:n]
	}
	return append(bytes.Clone(key), bytes.Repeat([]byte{0xff}, n-len(key))...)
}

// remove deletes a key, and reports whether it was there.
func (t *table) remove(key []byte) bool {
	_, ok := t.Get(key)
	if ok {
		t.Delete(key)
	}
	return ok
}

// kindTables are the tables of one kind.
type kindTables struct {
	kind           effects.Kind
	records, lists *table
}

// readTx reads through a transaction. It opens each table once.
type readTx struct {
	ctx    context.Context // of the View or Update that this lives in
	tx     *kv.Tx          // nil once the transaction has ended
	fixed  [fixedBuckets]*table
	kinds  []*kindTables
	names  map[string]string            // strings made of stored names
	epochs []store.Epoch                // nil: not read yet
	strays map[store.EffectKey][][]byte // keys of the waiting index that lead to what a listing named
	steps  int
	keys   [effectLen]byte // room for a key, see keyOf
	texts  texts
}

// keyOf gives a key in the transaction's own memory, until the next one is asked for: one on the
// stack would be moved to the heap each time.
func (t *readTx) keyOf(b ...byte) []byte { return append(t.keys[:0], b...) }

// effectKey is keyOf for the key of an outbox entry.
func (t *readTx) effectKey(key store.EffectKey) []byte {
	b := effectKeyBytes(key)
	return t.keyOf(b[:]...)
}

// check fails where the transaction or its context has ended.
func (t *readTx) check(op string) error {
	if t.tx == nil {
		return fmt.Errorf("%s: %w", op, errEnded)
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(t.ctx))
	}
	return nil
}

// guard turns a panic of bbolt into an error: see [kv.Guard], which itself stands where it
// matters that the error is not moved to the heap.
var guard = kv.Guard

// table gives one of the fixed tables.
func (t *readTx) table(bucket int) *table {
	if t.fixed[bucket] == nil {
		t.fixed[bucket] = t.named(bucketNames[bucket])
	}
	return t.fixed[bucket]
}

// named gives a table by name. One that is not there is empty.
func (t *readTx) named(name string) *table {
	return &table{Table: t.tx.Table(name)}
}

func (t *readTx) kind(kind effects.Kind) *kindTables {
	for _, k := range t.kinds { // there are few
		if k.kind == kind {
			return k
		}
	}
	k := &kindTables{kind: kind, records: t.named(recordsPrefix + string(kind)), lists: t.named(listsPrefix + string(kind))}
	t.kinds = append(t.kinds, k)
	return k
}

// text makes a string of a stored name, once for each name.
func (t *readTx) text(b []byte) string {
	if s, ok := t.names[string(b)]; ok {
		return s
	}
	if t.names == nil {
		t.names = make(map[string]string)
	}
	s := string(b)
	t.names[s] = s
	return s
}

// scan calls fn for each entry of a table from a key on, until fn returns
// false or an error. Damage that bbolt meets becomes an error; a panic of fn
// stays one.
func (t *readTx) scan(op string, table *table, from []byte, fn func(k, v []byte) (bool, error)) error {
	c := table.Cursor() // fn may use the table's own
	k, v, err := seek(op, c, from)
	for ; k != nil && err == nil; k, v, err = next(op, c) {
		if t.steps++; t.steps%256 == 0 || t.tx == nil {
			if err := t.check(op); err != nil {
				return err
			}
		}
		more, err := fn(k, v)
		if err != nil || !more {
			return err
		}
	}
	return err
}

func seek(op string, c *kv.Cursor, from []byte) (k, v []byte, err error) {
	defer guard(op, &err)
	k, v = c.Seek(from)
	touch(k)
	touch(v)
	return k, v, nil
}

func next(op string, c *kv.Cursor) (k, v []byte, err error) {
	defer guard(op, &err)
	k, v = c.Next()
	touch(k)
	touch(v)
	return k, v, nil
}

// touch meets a fault here, under a guard, where a damaged length leads beyond
// the file, instead of where the bytes are used.
func touch(b []byte) {
	if len(b) > 0 && b[len(b)-1] == 0 {
		runtime.KeepAlive(b)
	}
}

// tx also writes.
type tx struct {
	readTx
	s        *Store
	put      uint64 // the batch that Put was called for; 0: it was not
	appended bool   // AppendJournal was called
	seq      uint64 // number of the last batch, once known
	seqKnown bool
	changed  changes
	scratch  []byte // room for one value until it was put, which copies it
}

func (t *tx) putJSON(op string, bucket int, key []byte, v any) error {
	value, err := sealJSON(key, v)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	t.table(bucket).Put(key, value)
	return nil
}
