// Package tables is what the stores that keep ordered keys have in common: it stores records,
// their indexes, the journal, the outbox and all else that a [store.Tx] has in tables of keys and
// values, whatever holds these tables. A [Backing] does: bbolt with a log, or PostgreSQL.
//
// The stored forms are the same everywhere, so a table can be copied from one backing into
// another as it is.
package tables

import (
	"fmt"

	"github.com/orrery-go/orrery/store"
)

// Backing is one transaction over tables of ordered keys. It sees one snapshot, and what it has
// written itself. It is for one goroutine; keys are in the order of their bytes.
//
// What it hands out, keys and values, is valid until it ends, and is not changed by anybody: not
// by the reader, and not by the backing as it goes on.
//
// Its methods, and those of its tables and cursors, return no error: a read that cannot be made
// panics with a [ReadError], and [Guard] turns that into an error. A write that cannot be made is told
// when the transaction is committed, which then fails.
type Backing interface {
	// Table gives a table by name. One that is not there is empty, and is made by the first Put. It
	// is called once for each table of a transaction, mostly.
	Table(name string) Table
	// Names lists the tables that are there and whose name begins with prefix, in order.
	Names(prefix string) []string
	// Drop removes a table with all that is in it.
	Drop(name string)
	// Last gives the number of the last commit that the transaction sees; zero: of none. It grows with
	// each commit that writes anything.
	Last() uint64
	// PastLast gives the greatest key that a table had ever, where the backing drops old entries
	// of the table by itself, so that nothing may be left which tells; else nil.
	PastLast(table string) []byte
}

// Table is one table of a transaction. It stays in use until that ends.
type Table interface {
	// Get gives the value of a key. A value may be empty, and is there all the same.
	Get(key []byte) (value []byte, ok bool)
	// Put stores the value under the key; a backing that keeps either copies it.
	Put(key, value []byte)
	// PutNew is Put of a key that is not there, which the caller knows: no backing needs to look.
	PutNew(key, value []byte)
	// Delete removes a key. If it is not there, nothing happens.
	Delete(key []byte)
	// Exists reports whether the table is there.
	Exists() bool
	// Cursor gives a new cursor that stands nowhere.
	Cursor() Cursor
	// WarmCursor is Cursor without what can no more be deleted entry by entry, since the backing drops
	// it by itself: see Backing.PastLast. A backing without such a part gives a Cursor.
	WarmCursor() Cursor
}

// Cursor walks through a table in the order of the keys. It sees what the transaction writes
// meanwhile from its next step on; so a key at which it stands may be deleted, and Next goes on
// behind it. Its methods give a nil key if there is no further one; Seek, First or Last then begin anew.
// A value that is there is not nil.
type Cursor interface {
	// First stands at the first key.
	First() (k, v []byte)
	// Last stands at the last key.
	Last() (k, v []byte)
	// Seek stands at the first key that is not less than the given one.
	Seek(key []byte) (k, v []byte)
	// Next steps to the next key.
	Next() (k, v []byte)
	// Prev steps to the key before.
	Prev() (k, v []byte)
}

// Key is one key of one table.
type Key struct {
	Table string
	Key   []byte
}

// Fetcher is a [Backing] for which it pays to be told beforehand of keys that are going to be looked
// up: one behind a network, which reads them all at once.
type Fetcher interface {
	// Fetch has these keys ready, those that are not there included: a Get of one costs nothing
	// then. It panics as a Get does.
	Fetch(keys []Key)
}

// Sizer is a [Backing] that knows how much room the journal takes without reading it.
type Sizer interface {
	// JournalBytes gives about how many bytes the batches from one on and before another take; before
	// zero: to the end.
	JournalBytes(from, before uint64) int64
}

// ReadError is what the read of a [Backing] panics with if it cannot be made, for a reason that is
// no damage of what is stored: a connection that broke, or a transaction that has ended. Each panic
// whose value has its method Unread counts as one.
type ReadError struct{ Err error }

// Error gives the text of Err.
func (e ReadError) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e ReadError) Unwrap() error { return e.Err }

// Unread gives Err.
func (e ReadError) Unread() error { return e.Err }

// unread is what a [ReadError] has, and what a backing of its own kind may panic with instead.
type unread interface{ Unread() error }

// Guard turns the panic of a read into an error that says what was tried: a [ReadError] into its
// own, any other one into [store.ErrCorrupt], since bbolt panics on damaged pages. It is to be deferred
// itself, and must not stand around calls of others' functions.
func Guard(op string, err *error) {
	switch p := recover().(type) {
	case nil:
	case unread:
		*err = fmt.Errorf("%s: %w", op, p.Unread())
	case error:
		*err = fmt.Errorf("%s: %w: %w", op, store.ErrCorrupt, p)
	default:
		*err = fmt.Errorf("%s: %w: %v", op, store.ErrCorrupt, p)
	}
}

// Unread gives the reason, if that is what a read has panicked with which could not be made; else nil.
func Unread(panicked any) error {
	if p, ok := panicked.(unread); ok {
		return p.Unread()
	}
	return nil
}
