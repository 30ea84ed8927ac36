package kv

import (
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// staged is a commit that is in the log, and that no View sees since it may not be on the
// disk. Who writes next goes on from it.
type staged struct {
	active *overlay
	n      uint64
	sum    uint32 // the checksum of its frame
	bytes  amount
}

// Staged is what a transaction that writes has written and read, which may not be durable.
type Staged struct {
	db    *DB
	upTo  uint64 // the last frame of it
	wrote bool
	then  func()
}

// Commit is [Tx.Stage] and [Staged.Wait].
func (tx *Tx) Commit() error {
	s, err := tx.Stage()
	if err != nil {
		return err
	}
	return s.Wait()
}

// Stage appends what the transaction has written to the log, and ends it: the next one that
// writes sees it, and others once a Wait has made it durable. Where it returns an error
// nothing of that is there; with [ErrUnknownOutcome], which is [store.ErrUnconfirmed] then,
// nobody knows.
func (tx *Tx) Stage() (Staged, error) {
	defer tx.Rollback()
	if tx.refuse != nil {
		return Staged{}, tx.refuse
	}
	if !tx.write || tx.frame.bytes == 0 {
		return tx.Seen(), nil
	}
	db := tx.db
	if err := db.Broken(); err != nil {
		return Staged{}, err
	}
	log := db.log.Load()
	n, at, err := log.AppendAt(tx.frame.parts...)
	if err != nil {
		if errors.Is(err, wal.ErrBroken) || n != 0 {
			err = unconfirmed(db.lost(err))
		}
		return Staged{}, err
	}
	if log.Half() {
		tell(db.half)
	}
	db.rest = tx.frame.rest()
	sum := log.Sum() // nobody else appends
	takes := amount{memory: int64(tx.frame.bytes - tx.frame.moveToLog(log, n, at)), log: int64(tx.frame.bytes)}
	db.mu.Lock()
	db.staged = append(db.staged, staged{&tx.own.overlay, n, sum, takes})
	db.mu.Unlock()
	return Staged{db: db, upTo: n, wrote: true, then: tx.then}, nil
}

// Seen is what the transaction has found as it began, which a writer may before it is
// durable.
func (tx *Tx) Seen() Staged { return Staged{db: tx.db, upTo: tx.last} }

// Last is the number of the last commit that is waited for.
func (s Staged) Last() uint64 { return s.upTo }

// Wait returns once all of it is durable and every View sees it. One sync serves all who
// wait. An error says that nobody knows what a start will find; it is [store.ErrUnconfirmed]
// where anything was written.
func (s Staged) Wait() error {
	err := s.db.syncTo(s.upTo)
	switch {
	case err != nil && s.wrote:
		return unconfirmed(err)
	case err != nil:
		return err
	case s.then != nil:
		s.then()
	}
	return nil
}

// unconfirmed says that a start may find what was written: what is refused from now on it
// cannot.
func unconfirmed(err error) error { return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err) }

// lost refuses everything from now on, as nobody knows what the disk has.
func (db *DB) lost(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	db.Break(err)
	return err
}

// newest gives what the last commit has left, be it durable or not, and its number. The
// caller holds mu.
func (db *DB) newest() (*overlay, uint64) {
	if last := len(db.staged) - 1; last >= 0 {
		return db.staged[last].active, db.staged[last].n
	}
	return db.active, db.last
}

// syncTo returns once all commits up to that one are durable, and shown.
func (db *DB) syncTo(n uint64) error {
	db.mu.RLock()
	shown := n <= db.last
	db.mu.RUnlock()
	if shown {
		return nil
	}
	db.syncing.Lock()
	defer db.syncing.Unlock()
	db.mu.RLock()
	shown, covered := n <= db.last, len(db.staged)
	db.mu.RUnlock()
	if shown { // another one's sync has served
		return nil
	}
	if err := db.Broken(); err != nil {
		return err
	}
	if !db.o.NoSync {
		if err := db.log.Load().Sync(); err != nil { // the log is removed only when nothing is staged
			return db.lost(err)
		}
	}
	db.show(covered)
	return nil
}

// show lets whoever begins from now on see the first staged commits.
func (db *DB) show(many int) {
	db.mu.Lock()
	for _, s := range db.staged[:many] {
		db.active, db.last, db.sum = s.active, s.n, s.sum
		db.bytes = db.bytes.plus(s.bytes)
		db.written += uint64(s.bytes.log)
	}
	rest := copy(db.staged, db.staged[many:])
	clear(db.staged[rest:])
	db.staged = db.staged[:rest]
	isFull := db.enough(db.bytes)
	db.mu.Unlock()
	tell(db.dirty)
	if isFull {
		tell(db.full)
	}
}

// lockWriter lets nobody write until the lock writer is given back, and has all that was
// written durable: only that may go into the file.
func (db *DB) lockWriter() error {
	db.writer.Lock()
	db.mu.RLock()
	_, n := db.newest()
	db.mu.RUnlock()
	if err := db.syncTo(n); err != nil {
		db.writer.Unlock()
		return err
	}
	return nil
}
