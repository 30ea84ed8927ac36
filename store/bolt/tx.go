package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

var errEnded = errors.New("the transaction has ended")

// table is a bucket with one cursor for all look-ups, which so cost no
// allocation.
type table struct {
	bucket *bbolt.Bucket
	cursor *bbolt.Cursor
}

func newTable(b *bbolt.Bucket, name string) *table {
	b.FillPercent = fillPercent(name)
	return &table{bucket: b, cursor: b.Cursor()}
}

// get gives the value of a key. A nil table is empty.
func (t *table) get(key []byte) (value []byte, ok bool) {
	if t == nil {
		return nil, false
	}
	k, v := t.cursor.Seek(key)
	if !bytes.Equal(k, key) || k == nil {
		return nil, false
	}
	return v, true
}

// find gives the entry of a key, also of one that damage has made longer or
// shorter, so that fit gives key; nil where there is none.
func (t *table) find(key []byte) (k, v []byte) {
	if t == nil {
		return nil, nil
	}
	if k, v = t.cursor.Seek(key); bytes.HasPrefix(k, key) {
		return k, v
	}
	for n := len(key) - 1; n > 0 && key[n] == 0xff; n-- {
		if v, ok := t.get(key[:n]); ok {
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
func (t *table) drop(key []byte) (bool, error) {
	k, _ := t.find(key)
	if k == nil {
		return false, nil
	}
	return t.remove(k)
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
func (t *table) remove(key []byte) (bool, error) {
	if t == nil {
		return false, nil
	}
	if k, _ := t.cursor.Seek(key); k == nil || !bytes.Equal(k, key) {
		return false, nil
	}
	return true, t.cursor.Delete()
}

// last gives the greatest entry.
func (t *table) last() (key, value []byte) {
	if t == nil {
		return nil, nil
	}
	return t.cursor.Last()
}

// kindTables are the buckets of one kind; nil where they are not there yet.
type kindTables struct {
	kind           effects.Kind
	records, lists *table
}

// readTx reads through a bbolt transaction. It opens each bucket once.
type readTx struct {
	ctx    context.Context // of the View or Update that this lives in
	tx     *bbolt.Tx       // nil once the transaction has ended
	fixed  [fixedBuckets]*table
	kinds  []*kindTables
	names  map[string]string            // strings made of stored names
	epochs []store.Epoch                // nil: not read yet
	strays map[store.EffectKey][][]byte // keys of the waiting index that lead to what a listing named
	steps  int
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

// guard turns a panic of bbolt, which it meets damaged pages with, into an
// error. It must not stand around calls of the caller's functions.
func guard(op string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %w: %v", op, store.ErrCorrupt, p)
	}
}

// table gives one of the fixed buckets; nil where it is missing, as in a file
// that a read-only Open found without one.
func (t *readTx) table(bucket int) *table {
	if t.fixed[bucket] == nil {
		name := bucketNames[bucket]
		if b := t.tx.Bucket([]byte(name)); b != nil {
			t.fixed[bucket] = newTable(b, name)
		}
	}
	return t.fixed[bucket]
}

// named gives a bucket by name; nil where it is missing.
func (t *readTx) named(name string) *table {
	if b := t.tx.Bucket([]byte(name)); b != nil {
		return newTable(b, name)
	}
	return nil
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
	if table == nil {
		return nil
	}
	c := table.bucket.Cursor() // fn may use the table's own
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

func seek(op string, c *bbolt.Cursor, from []byte) (k, v []byte, err error) {
	defer guard(op, &err)
	k, v = c.Seek(from)
	touch(k)
	touch(v)
	return k, v, nil
}

func next(op string, c *bbolt.Cursor) (k, v []byte, err error) {
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
	arena    []byte // room for values, which must stay until the commit
}

// create gives a bucket by name, making it where it is missing.
func (t *tx) create(name string) (*table, error) {
	b, err := t.tx.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %q: %w", name, err)
	}
	return newTable(b, name), nil
}

// writable gives the tables of a kind, making them where they are missing.
func (t *tx) writable(kind effects.Kind) (*kindTables, error) {
	k := t.kind(kind)
	var err error
	if k.records == nil {
		if k.records, err = t.create(recordsPrefix + string(kind)); err != nil {
			return nil, err
		}
	}
	if k.lists == nil {
		if k.lists, err = t.create(listsPrefix + string(kind)); err != nil {
			return nil, err
		}
	}
	return k, nil
}

const (
	arenaChunk = 64 << 10
	arenaKept  = 4 << 20 // a greater arena is not kept for the next transaction
)

// room gives an empty slice with that capacity, which stays valid until the
// transaction ends.
func (t *tx) room(n int) []byte {
	if cap(t.arena)-len(t.arena) < n {
		t.arena = make([]byte, 0, max(n, arenaChunk, min(2*cap(t.arena), arenaKept)))
	}
	return t.arena[len(t.arena):len(t.arena):cap(t.arena)]
}

// keep marks the room that b took as used.
func (t *tx) keep(b []byte) []byte {
	if len(b) > cap(t.arena)-len(t.arena) { // it outgrew the room and lives elsewhere
		return b
	}
	t.arena = t.arena[:len(t.arena)+len(b)]
	return slices.Clip(b)
}

func (t *tx) putJSON(op string, bucket int, key []byte, v any) error {
	if err := putSealed(t.table(bucket).bucket, key, v); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
