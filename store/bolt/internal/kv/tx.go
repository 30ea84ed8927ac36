package kv

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
	"github.com/orrery-go/orrery/store/internal/gaps"
)

// Tx is one transaction: a snapshot of all tables, and what it has written itself. It is
// for one goroutine. What it hands out is valid until it ends.
type Tx struct {
	db     *DB
	base   *bbolt.Tx
	active *overlay // as the last commit left it; a writer's own from its first write on
	frozen *overlay
	past   *archive.Snapshot
	own    *writable // nil: nothing was written
	frame  frame
	last   uint64 // the number of the last commit that it sees
	sum    uint32 // the checksum of its frame, of a transaction that only reads
	logID  string // the log that has it
	write  bool
	tables map[string]*Table
	then   func() // see OnCommit
	refuse error  // why it cannot be committed; nil: it can

	viewed   viewed
	hold     *wal.Hold // of the frames with large values; nil: there are none
	met      *placed   // the large value that was read last
	metBytes []byte
}

// OnCommit has fn called once what the transaction has written is durable, before its Wait
// or Commit returns.
func (tx *Tx) OnCommit(fn func()) { tx.then = fn }

// Last gives the number of the last commit that the transaction sees. It grows with each
// commit that writes anything, over restarts, too.
func (tx *Tx) Last() uint64 { return tx.last }

// Base gives the file's own transaction, for whoever looks at its pages. What the log
// holds beyond the last checkpoint is not in it. No checkpoint may be made as long as it is
// used ([DB.Hold]), since the transaction may be ended by one.
func (tx *Tx) Base() *bbolt.Tx {
	tx.enter()
	defer tx.leave()
	return tx.base
}

// Table gives a table by name. One that is not there is empty, and is made by the
// first Put.
func (tx *Tx) Table(name string) *Table {
	tx.enter()
	defer tx.leave()
	return tx.table(name)
}

func (tx *Tx) table(name string) *Table {
	if t := tx.tables[name]; t != nil {
		return t
	}
	t := &Table{tx: tx, name: name, number: tx.db.numbers.Of(name, tx.write)}
	t.top, t.frozen = tx.active.layer(t.number), tx.frozen.layer(t.number)
	t.bucket = tx.base.Bucket([]byte(name))
	t.past = tx.pastOf(name)
	if tx.tables == nil {
		tx.tables = make(map[string]*Table)
	}
	tx.tables[name] = t
	return t
}

// Names lists the tables that are there and whose name begins with prefix, in order.
func (tx *Tx) Names(prefix string) (names []string) {
	tx.enter()
	defer tx.leave()
	c := tx.base.Cursor()
	for k, _ := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, _ = c.Next() {
		if string(k) != stateBucket {
			names = append(names, string(k))
		}
	}
	names = append(names, tx.pastNames(prefix)...)
	for number, name := range tx.db.numbers.All() {
		if strings.HasPrefix(name, prefix) && (tx.active.layer(number) != nil || tx.frozen.layer(number) != nil) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !tx.table(name).exists() })
}

// Drop removes a table with all that is in it.
func (tx *Tx) Drop(name string) {
	t := tx.Table(name)
	if !t.Exists() {
		return
	}
	tx.frame.drop(name)
	t.ownLayer().drop()
	t.changed++
}

// Table is one table within a transaction.
type Table struct {
	tx          *Tx
	name        string
	number      int
	top, frozen *layer        // nil: nothing has changed
	bucket      *bbolt.Bucket // nil: the file has none
	past        *pastCursor   // nil: it is no table of the past
	changed     int           // how often: a cursor that stands in it must look anew
	look        *bbolt.Cursor // for Get, which so costs no allocation
}

// Exists reports whether the table is there.
func (t *Table) Exists() bool {
	t.tx.enter()
	defer t.tx.leave()
	return t.exists()
}

func (t *Table) exists() bool {
	for _, l := range [...]*layer{t.top, t.frozen} {
		switch {
		case l == nil:
		case l.tree.Len() > 0:
			return true
		case l.gone:
			return false
		}
	}
	return t.bucket != nil || t.hasPast()
}

// Get gives the value of a key.
func (t *Table) Get(key []byte) (value []byte, ok bool) {
	t.tx.enter()
	defer t.tx.leave()
	for _, l := range [...]*layer{t.top, t.frozen} {
		if e, ok := l.get(key); ok {
			return t.tx.value(e.value, e.placed), e.there()
		}
		if l.hides() {
			return nil, false
		}
	}
	if t.bucket == nil {
		return t.getPast(key)
	}
	if t.look == nil {
		t.look = t.bucket.Cursor()
	}
	k, v := t.look.Seek(key)
	if k == nil || !bytes.Equal(k, key) {
		return t.getPast(key)
	}
	return t.tx.copied(v), true
}

// gaps are those of the table as the transaction has it, with the past or without it.
func (t *Table) gaps(warm bool) *gaps.List {
	l := t.top
	if l == nil {
		l = t.frozen // without a layer nothing was deleted
	}
	if warm {
		return &l.warm
	}
	return &l.gaps
}

func (t *Table) ownLayer() *layer {
	tx := t.tx
	if tx.own == nil {
		tx.own = tx.active.writable()
		tx.active = &tx.own.overlay
	}
	t.top = tx.own.ownLayer(t.number)
	return t.top
}

// fits tells why the file could not take a key or a value: then no checkpoint could be made
// any more.
func (t *Table) fits(key, value []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("table %s: an empty key: want 1 to %d bytes", t.name, bbolt.MaxKeySize)
	case len(key) > bbolt.MaxKeySize:
		return fmt.Errorf("table %s: a key of %d bytes: want at most %d", t.name, len(key), bbolt.MaxKeySize)
	case len(value) > wal.MaxPayload:
		return fmt.Errorf("table %s: a value of %d bytes: want at most %d", t.name, len(value), wal.MaxPayload)
	}
	return nil
}

// Put stores a copy of the value under a copy of the key. Where the file cannot hold them
// the transaction cannot be committed.
func (t *Table) Put(key, value []byte) { t.put(key, value, false) }

// PutNew is Put of a key that is not there, which the caller knows: where it is wrong,
// and the key is deleted before the next checkpoint, the older value may come back.
func (t *Table) PutNew(key, value []byte) { t.put(key, value, true) }

func (t *Table) put(key, value []byte, isNew bool) {
	if err := t.fits(key, value); err != nil {
		if t.tx.refuse == nil {
			t.tx.refuse = err
		}
		return
	}
	e := t.tx.frame.put(t.name, key, value, t.tx.db.o.Large)
	e.fresh = isNew
	l := t.ownLayer()
	l.put(e)
	if e.placed != nil {
		t.tx.own.places = true
	}
	t.changed++
}

// Delete removes a key. Where it is not there, nothing happens.
func (t *Table) Delete(key []byte) {
	k := t.tx.frame.remove(t.name, key)
	t.ownLayer().remove(k)
	t.changed++
}
