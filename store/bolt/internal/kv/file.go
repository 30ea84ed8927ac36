package kv

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
)

// file is the bbolt file. Bbolt panics on pages that are damaged or gone.
type file struct {
	bolt      *bbolt.DB
	broken    *atomic.Pointer[error]
	fail      func(error) // sets it
	stuck     atomic.Bool // bbolt panicked while it held its locks: it cannot be closed
	beginning mutex       // held while bbolt begins a transaction
	wrote     func()      // called after each transaction that was written, for tests; nil: by nobody
	readers   readers
	mapped    int64        // so much of the file is mapped at least; the one that writes to it changes it
	size      atomic.Int64 // of the file, as it was written last
}

// Guard turns a panic of bbolt, which it meets damaged pages with, into an error. It is
// to be deferred itself, and must not stand around calls of others' functions.
func Guard(op string, err *error) {
	switch p := recover().(type) {
	case nil:
	case unread:
		*err = fmt.Errorf("%s: %w", op, p.err)
	case error:
		*err = fmt.Errorf("%s: %w: %w", op, store.ErrCorrupt, p)
	default:
		*err = fmt.Errorf("%s: %w: %v", op, store.ErrCorrupt, p)
	}
}

// begin starts a bbolt transaction. Where bbolt panics on meta pages that are
// damaged or gone it keeps its locks, so that whatever asks it for a transaction
// afterwards, or ends one, waits for ever: it is broken then, and stuck.
// One begins at a time, so that no other is within bbolt when that happens.
func (f *file) begin(write bool) (tx *bbolt.Tx, err error) {
	f.beginning.Lock()
	defer f.beginning.Unlock()
	if broken := f.broken.Load(); broken != nil {
		return nil, *broken
	}
	begun := false
	defer func() {
		if !begun {
			f.stuck.Store(true)
			f.fail(err)
		}
	}()
	defer Guard("begin", &err)
	tx, err = f.bolt.Begin(write)
	begun = true
	if err == nil && !write {
		f.readers.add()
	}
	return tx, err
}

// rollback ends a transaction that may stand on damaged pages. One of a file that is
// stuck cannot be ended: it would wait for bbolt's locks.
func (f *file) rollback(tx *bbolt.Tx) {
	if f.stuck.Load() {
		return
	}
	if !tx.Writable() {
		defer f.readers.done()
	}
	var err error
	defer Guard("rollback", &err)
	_ = tx.Rollback()
}

// update writes to the file in one transaction; w tells what. Where Views
// keep it from that it calls wait, which may end them, each time that it has waited in vain.
func (f *file) update(w *written, wait func(waited time.Duration), fn func(*bbolt.Tx) error) error {
	tx, err := f.begin(true)
	if err != nil {
		return err
	}
	if err := f.write(tx, fn); err != nil {
		f.rollback(tx)
		return err
	}
	return f.commit(tx, w, wait)
}

func (f *file) write(tx *bbolt.Tx, fn func(*bbolt.Tx) error) (err error) {
	defer Guard("write to the file", &err)
	return fn(tx)
}

func (f *file) commit(tx *bbolt.Tx, w *written, wait func(time.Duration)) (err error) {
	defer Guard("commit", &err)
	id := tx.ID()
	if err = f.commitAlone(tx, w, wait); err == nil {
		f.measure()
		if f.wrote != nil {
			f.wrote()
		}
		return nil
	}
	// bbolt reports an error after it wrote the meta page but could not sync it:
	// then it reads the new state, which a crash of the machine may undo.
	if after, verr := f.begin(false); verr == nil {
		if after.ID() == id {
			err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
			f.fail(err)
		}
		f.rollback(after)
	}
	return err
}

func (f *file) close() (err error) {
	defer Guard("close", &err)
	if f.stuck.Load() {
		return fmt.Errorf("left open until the process ends: %w", *f.broken.Load())
	}
	return f.bolt.Close()
}
