package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

var errEnded = errors.New("the transaction has ended")

// table is a table with one cursor for all look-ups.
type table struct {
	Table
	cursor Cursor // nil: it was not needed yet
}

// walk gives the cursor.
func (t *table) walk() Cursor {
	if t.cursor == nil {
		t.cursor = t.Cursor()
	}
	return t.cursor
}

// find gives the entry of a key. Damage may have made the stored key longer or shorter: then it is
// the entry whose key [Fit] turns into the given one. It gives nil where there is none.
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
	defer Guard(op, &err)
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

// Fit gives n bytes of a key: cut off, or filled up with 0xff, which leads to no
// other entry's key, as zeros might to that of an effect number 0.
func Fit(key []byte, n int) []byte {
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

// ReadTx reads through a transaction of a backing: a [store.ReadTx]. It opens each table once. It is for one goroutine.
type ReadTx struct {
	ctx    context.Context // of the View or Update that this lives in
	b      Backing         // nil once the transaction has ended
	fixed  [fixedTables]*table
	kinds  []*kindTables
	names  map[string]string            // strings made of stored names
	epochs []store.Epoch                // nil: not read yet
	strays map[store.EffectKey][][]byte // keys of the waiting index that lead to what a listing named
	steps  int
	keys   [effectLen]byte // room for a key, see keyOf
	texts  Texts
}

// keyOf gives a key in the transaction's own memory, until the next one is asked for: one on the
// stack would be moved to the heap each time.
func (t *ReadTx) keyOf(b ...byte) []byte { return append(t.keys[:0], b...) }

// effectKey is keyOf for the key of an outbox entry.
func (t *ReadTx) effectKey(key store.EffectKey) []byte {
	b := effectKeyBytes(key)
	return t.keyOf(b[:]...)
}

// check fails where the transaction or its context has ended.
func (t *ReadTx) check(op string) error {
	if t.b == nil {
		return fmt.Errorf("%s: %w", op, errEnded)
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(t.ctx))
	}
	return nil
}

// table gives one of the fixed tables.
func (t *ReadTx) table(in int) *table {
	if t.fixed[in] == nil {
		t.fixed[in] = t.named(fixedNames[in])
	}
	return t.fixed[in]
}

// named gives a table by name. One that is not there is empty.
func (t *ReadTx) named(name string) *table {
	return &table{Table: t.b.Table(name)}
}

func (t *ReadTx) kind(kind effects.Kind) *kindTables {
	for _, k := range t.kinds { // there are few
		if k.kind == kind {
			return k
		}
	}
	k := &kindTables{kind: kind, records: t.named(RecordsPrefix + string(kind)), lists: t.named(ListsPrefix + string(kind))}
	t.kinds = append(t.kinds, k)
	return k
}

// text makes a string of a stored name, once for each name.
func (t *ReadTx) text(b []byte) string {
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
// false or an error. Damage that the backing meets becomes an error; a panic of fn
// stays one.
func (t *ReadTx) scan(op string, table *table, from []byte, fn func(k, v []byte) (bool, error)) error {
	c := table.Cursor() // fn may use the table's own
	k, v, err := seek(op, c, from)
	for ; k != nil && err == nil; k, v, err = next(op, c) {
		if t.steps++; t.steps%256 == 0 || t.b == nil {
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

func seek(op string, c Cursor, from []byte) (k, v []byte, err error) {
	defer Guard(op, &err)
	k, v = c.Seek(from)
	touch(k)
	touch(v)
	return k, v, nil
}

func next(op string, c Cursor) (k, v []byte, err error) {
	defer Guard(op, &err)
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

// Tx also writes: a [store.Tx]. One belongs to one transaction, and to one goroutine.
type Tx struct {
	ReadTx
	session  string
	learned  *Learned
	put      uint64 // the batch that Put was called for; 0: it was not
	appended bool   // AppendJournal was called
	seq      uint64 // number of the last batch, once known
	seqKnown bool
	changed  changes
	scratch  []byte // room for one value until it was put, which copies it
}

var (
	_ store.ReadTx = (*ReadTx)(nil)
	_ store.Walker = (*ReadTx)(nil)
	_ store.Tx     = (*Tx)(nil)
)

// NewReadTx reads through a transaction of a backing until End, or until the context ends.
func NewReadTx(ctx context.Context, b Backing) *ReadTx { return &ReadTx{ctx: ctx, b: b} }

// Backing gives what the transaction reads through; nil: it has ended.
func (t *ReadTx) Backing() Backing { return t.b }

// End ends the reading: whatever is read afterwards is an error. The backing is the caller's to end.
func (t *ReadTx) End() { t.b = nil }

// NewTx reads and writes through a transaction of a backing until End, or until the context ends.
// session names the opening of the store, see [store.Store]. What the writer before has learned is taken
// from learned, which the caller has for itself until then.
func NewTx(ctx context.Context, b Backing, session string, learned *Learned) *Tx {
	t := &Tx{ReadTx: ReadTx{ctx: ctx, b: b}, session: session, learned: learned, scratch: learned.scratch}
	learned.tell(t)
	return t
}

// Run calls fn, and tells whether what it has written may be committed: then Finish is called next.
func (t *Tx) Run(fn func(store.Tx) error) error { return t.RunAs(t, fn) }

// RunAs is Run that gives fn another form of the same transaction, such as a [FetchTx] of it.
func (t *Tx) RunAs(as store.Tx, fn func(store.Tx) error) error {
	if err := fn(as); err != nil {
		return err
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("commit: %w", context.Cause(t.ctx))
	}
	if err := t.unappended(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Finish writes what the transaction has gathered, and ends it. The backing can be committed then.
func (t *Tx) Finish() {
	t.changed.put(t)
	t.b = nil
}

// Committed notes for the next transaction what this one has left. last is the number of its commit; if it
// has changed nothing, of the last one that it has seen.
func (t *Tx) Committed(last uint64) { t.learned.from(t, last) }

// scratchKept is the greatest room for values that is kept for the next transaction.
const scratchKept = 4 << 20

// End ends the transaction, whatever has come of it, and gives back what the next one can use.
func (t *Tx) End() {
	t.b = nil
	if t.learned.scratch = nil; cap(t.scratch) <= scratchKept {
		t.learned.scratch = t.scratch[:0]
	}
}

func (t *Tx) putJSON(op string, in int, key []byte, v any) error {
	value, err := SealJSON(key, v)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	t.table(in).Put(key, value)
	return nil
}
