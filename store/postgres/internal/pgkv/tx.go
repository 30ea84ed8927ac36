package pgkv

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/store/internal/gaps"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// Tx is one transaction: a snapshot of all tables, and what it has written itself. It is
// for one goroutine. What it hands out does not change. A read that fails panics with
// what [tables.Guard] turns into an error.
type Tx struct {
	db     *DB
	reader reader
	ids    map[string]int32 // the tables that the database has
	active *overlay         // as the last commit left it; a writer's own from its first write on
	frozen *overlay
	own    *writable // nil: nothing was written
	frame  frame
	last   uint64 // the number of the last commit that it sees
	write  bool
	ended  bool
	end    func() // gives back what it holds
	tables map[string]*Table
	refuse error // why it cannot be committed; nil: it can
}

// Last gives the number of the last commit that the transaction sees. It grows with each
// commit that writes anything, over restarts, too.
func (tx *Tx) Last() uint64 { return tx.last }

// PastLast is there for stores with an archive.
func (tx *Tx) PastLast(string) []byte { return nil }

// Table gives a table by name. One that is not there is empty, and is made by the
// first Put.
func (tx *Tx) Table(name string) *Table {
	if t := tx.tables[name]; t != nil {
		return t
	}
	t := &Table{tx: tx, name: name, number: tx.db.numbers.Of(name, tx.write)}
	t.top, t.frozen = tx.active.layer(t.number), tx.frozen.layer(t.number)
	t.tab = tx.ids[name]
	if tx.tables == nil {
		tx.tables = make(map[string]*Table)
	}
	tx.tables[name] = t
	return t
}

// Names lists the tables that have an entry and whose name begins with prefix, in order.
func (tx *Tx) Names(prefix string) (names []string) {
	for name := range tx.ids {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	for number, name := range tx.db.numbers.All() {
		if strings.HasPrefix(name, prefix) && (tx.active.layer(number) != nil || tx.frozen.layer(number) != nil) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !tx.Table(name).Exists() })
}

// Drop removes a table with all that is in it.
func (tx *Tx) Drop(name string) {
	t := tx.Table(name)
	tx.frame.drop(name)
	t.ownLayer().drop()
	t.changed++
}

// Fetch reads what is not known of these keys, in one query for all of them.
func (tx *Tx) Fetch(keys []tables.Key) {
	var tabs []int32
	var wanted [][]byte
	for _, k := range keys {
		t := tx.Table(k.Table)
		if t.inOverlay(k.Key) || !t.hasBase() {
			continue
		}
		if _, _, isKnown := tx.reader.cache.get(t.tab, k.Key); !isKnown {
			tabs, wanted = append(tabs, t.tab), append(wanted, k.Key)
		}
	}
	if len(wanted) > 0 {
		tx.reader.fetchMany(tabs, wanted)
	}
}

// Table is one table within a transaction.
type Table struct {
	tx          *Tx
	name        string
	number      int
	tab         int32  // its number in the database; 0: it has none there
	top, frozen *layer // nil: nothing has changed
	changed     int    // how often: a cursor that stands in it must look anew
}

// hasBase reports whether the database may have entries of the table.
func (t *Table) hasBase() bool { return t.tab != 0 }

// inOverlay reports whether a key need not be looked for in the database.
func (t *Table) inOverlay(key []byte) bool {
	for _, l := range [...]*layer{t.top, t.frozen} {
		if _, ok := l.get(key); ok || l.hides() {
			return true
		}
	}
	return false
}

// Exists reports whether the table has an entry.
func (t *Table) Exists() bool {
	k, _ := t.Cursor().First()
	return k != nil
}

// Get gives the value of a key.
func (t *Table) Get(key []byte) (value []byte, ok bool) {
	for _, l := range [...]*layer{t.top, t.frozen} {
		if e, ok := l.get(key); ok {
			return e.value, e.value != nil
		}
		if l.hides() {
			return nil, false
		}
	}
	if !t.hasBase() {
		return nil, false
	}
	return t.tx.reader.get(t.tab, key)
}

// gaps are those of the table as the transaction has it.
func (t *Table) gaps() *gaps.List {
	if t.top == nil {
		return &t.frozen.gaps // without a layer nothing was deleted
	}
	return &t.top.gaps
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

// fits tells why the database could not take a key or a value: then no checkpoint could be made
// any more.
func (t *Table) fits(key, value []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("table %s: an empty key: want 1 to %d bytes", t.name, MaxKey)
	case len(key) > MaxKey:
		return fmt.Errorf("table %s: a key of %d bytes: want at most %d", t.name, len(key), MaxKey)
	case t.tx.frame.bytes+len(value) > MaxFrame:
		return fmt.Errorf("table %s: a value of %d bytes makes the commit too large: want at most %d bytes in one commit", t.name, len(value), MaxFrame)
	}
	return nil
}

// Put stores a copy of the value under a copy of the key. Where the database cannot hold them
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
	e := t.tx.frame.put(t.name, key, value)
	e.fresh = isNew
	t.ownLayer().put(e)
	t.changed++
}

// Delete removes a key. Where it is not there, nothing happens.
func (t *Table) Delete(key []byte) {
	k := t.tx.frame.remove(t.name, key)
	t.ownLayer().remove(k)
	t.changed++
}

// Rollback ends a transaction and forgets what it has written. After the end it does
// nothing.
func (tx *Tx) Rollback() {
	if tx.ended {
		return
	}
	tx.ended = true
	tx.end()
}

// Context is what the transaction's reads end with.
func (tx *Tx) Context() context.Context { return tx.reader.ctx }
