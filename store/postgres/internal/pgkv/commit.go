package pgkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/store"
)

// staged is a commit that no View sees, since the database may not have it. Who writes next goes on from it.
type staged struct {
	active *overlay
	n      uint64
	frame  []byte
	memory int64
}

// Staged is what a transaction that writes has written and read, which may not be durable.
type Staged struct {
	db    *DB
	upTo  uint64 // the last frame of it
	wrote bool
}

// Commit is [Tx.Stage] and [Staged.Wait].
func (tx *Tx) Commit() error {
	s, err := tx.Stage()
	if err != nil {
		return err
	}
	return s.Wait()
}

// Stage gives what the transaction has written its place in the order of the commits, and ends it: the next one that
// writes sees it, and others once a Wait has made it durable. Where it returns an error
// nothing of that is there.
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
	db.rest = tx.frame.rest()
	s := staged{active: &tx.own.overlay, n: tx.last + 1, frame: tx.frame.pack(), memory: int64(tx.frame.bytes)}
	db.mu.Lock()
	db.staged = append(db.staged, s)
	db.mu.Unlock()
	return Staged{db: db, upTo: s.n, wrote: true}, nil
}

// Seen is what the transaction has found as it began, which a writer may before it is
// durable.
func (tx *Tx) Seen() Staged { return Staged{db: tx.db, upTo: tx.last} }

// Last is the number of the last commit that is waited for.
func (s Staged) Last() uint64 { return s.upTo }

// Wait returns once all of it is durable and every View sees it, and, if nothing was written, once it is certain that this
// opening still owned the partition after all was read. One commit serves all who
// wait. With [store.ErrFenced] alone nothing of it is there; any other error says that nobody knows what
// is found later, and is [store.ErrUnconfirmed] where anything was written.
func (s Staged) Wait() error {
	err := s.db.syncTo(s.upTo)
	if err == nil && !s.wrote {
		err = s.db.stillOwns()
	}
	if err != nil && s.wrote && (!errors.Is(err, store.ErrFenced) || errors.Is(err, errInDoubt)) {
		return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
	}
	return err
}

// stillOwns asks the database whether this opening owns the partition. Who has written nothing is answered by what was read, which
// is true as long as nobody else writes: a process that was frozen would else refuse today what it knows of yesterday.
func (db *DB) stillOwns() error {
	if err := db.Broken(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), db.o.Lease/2)
	defer cancel()
	last, checkpoint := db.shown()
	row, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
	if err != nil {
		return fmt.Errorf("look who owns partition %d: %w", db.o.Partition, unreachable(context.Background(), err)) // whatever the bound above has to do with it
	}
	if err = db.judge(ctx, row, last, checkpoint); err != nil {
		db.breaks(err)
	}
	return err
}

// errInDoubt: the answer of a commit was lost, and what became of it cannot be found out.
var errInDoubt = errors.New("the answer of the last commit was lost")

// syncTo returns once all commits up to that one are durable, and shown.
func (db *DB) syncTo(n uint64) error {
	if db.isShown(n) {
		return nil
	}
	db.syncing.Lock()
	defer db.syncing.Unlock()
	for !db.isShown(n) {
		if err := db.Broken(); err != nil {
			return err
		}
		db.mu.RLock()
		group := slices.Clip(db.staged[:together(db.staged)])
		db.mu.RUnlock()
		if err := db.commitGroup(group); err != nil {
			db.Break(err)
			return err
		}
		db.show(group)
	}
	return nil
}

// mostTogether is how many bytes of frames one statement has, unless a single one has more: the server takes messages
// of less than 1 GiB.
const mostTogether = 64 << 20

// together tells how many of the first staged commits are written in one statement.
func together(all []staged) int {
	bytes := 0
	for i, s := range all {
		if bytes += len(s.frame); i > 0 && bytes > mostTogether {
			return i
		}
	}
	return len(all)
}

func (db *DB) isShown(n uint64) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return n <= db.last
}

// show lets whoever begins from now on see the first staged commits.
func (db *DB) show(group []staged) {
	db.mu.Lock()
	for _, s := range group {
		db.active, db.last = s.active, s.n
		db.memory += s.memory
		db.written += uint64(len(s.frame))
	}
	rest := copy(db.staged, db.staged[len(group):])
	clear(db.staged[rest:])
	db.staged = db.staged[:rest]
	isFull := db.memory >= db.o.Bytes
	db.mu.Unlock()
	tell(db.dirty)
	if isFull {
		tell(db.full)
	}
}

// commitGroup writes commits to the log, in one statement. Where the answer is lost it finds out what became of it, and
// tries again, for as long as patience goes. The caller holds syncing.
func (db *DB) commitGroup(group []staged) error {
	first, last := group[0].n-1, group[len(group)-1].n
	numbers, frames := make([]int64, len(group)), make([][]byte, len(group))
	for i, s := range group {
		numbers[i], frames[i] = int64(s.n), s.frame
	}
	ctx, cancel := context.WithTimeout(context.Background(), db.o.Patience)
	defer cancel()
	_, checkpoint := db.shown()
	pause := 5 * time.Millisecond
	for {
		attempt, cut := db.attempt(ctx)
		at := db.place.next()
		err := db.commitAt(attempt, at, db.o.Partition, db.token, first, last, numbers, frames, checkpoint, db.o.Session)
		cut()
		switch {
		case err == nil:
			return nil
		case noRow(err) && at != nowhere:
			continue // the row has moved: by the index it is found, if it is as it should be
		case noRow(err):
			return db.refused(ctx, first, checkpoint)
		case !db.place.none && isWithoutPlaces(err):
			db.place.none = true
			continue
		case !passes(err):
			return fmt.Errorf("commit %d: %w", last, err)
		}
		lost := err
		row, err := db.regain(ctx)
		switch {
		case err != nil && db.Broken() != nil:
			return fmt.Errorf("%w: %w: %w", errInDoubt, err, lost)
		case err != nil:
			return fmt.Errorf("%w, and the database did not come back within %s: %w: %w", errInDoubt, db.o.Patience, err, lost)
		}
		switch err := db.judge(ctx, row, first, checkpoint); {
		case err != nil:
			return err
		case row.Last == last:
			return nil
		case row.Last != first:
			return db.strange(row, first)
		}
		db.o.Logger.Warn("a commit failed, and is tried again", "partition", db.o.Partition, "commit", last, "error", lost)
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("commit %d: %w", last, lost)
		}
		pause = min(2*pause, time.Second)
	}
}

// regain makes sure that nothing of a lost attempt can happen any more, by a new token, and tells what has.
func (db *DB) regain(ctx context.Context) (row Row, err error) {
	err = db.patiently(ctx, func(ctx context.Context) error {
		row, err = scanRow(db.writes.QueryRow(ctx, db.s.regain, db.o.Partition, db.o.Session))
		return err
	})
	switch {
	case noRow(err): // nobody knows what the next owner has found: neither those who wait for it
		db.Break(fmt.Errorf("%w: %w", errInDoubt, db.replaced(ctx)))
		return row, db.Broken()
	case err == nil:
		db.token = row.Token
	}
	return row, err
}

// refused says why the fence let a commit not pass.
func (db *DB) refused(ctx context.Context, first, checkpoint uint64) error {
	row, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
	if err != nil {
		return fmt.Errorf("the commit was refused, and the database does not tell why: %w", err)
	}
	if err := db.judge(ctx, row, first, checkpoint); err != nil {
		return err
	}
	return db.strange(row, first)
}

// lockWriter lets nobody write until the lock writer is given back, and has all that was
// written durable: only that may go into the tables.
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
