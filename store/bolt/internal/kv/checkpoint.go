package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// keepUp makes a checkpoint when enough was committed, or some time after the first
// commit since the last one, until the context ends. It also has the log prepare room.
func (db *DB) keepUp(ctx context.Context) {
	told := "" // of the last checkpoint, if it failed
	for db.waitForWork(ctx) {
		switch err := db.checkpoint(ctx); {
		case err == nil && told != "":
			db.o.Logger.Info("what the log holds is in the file again")
			told = ""
		case err != nil:
			if err.Error() != told {
				told = err.Error()
				if errors.Is(err, wal.ErrNotKept) {
					db.o.Logger.Error("what the log holds is in the file, but cannot be moved to where redo is kept: the log grows; trying again", "error", err, "in", db.o.After)
				} else {
					db.o.Logger.Error("what the log holds cannot be brought into the file; trying again", "error", err, "in", db.o.After)
				}
			}
			tell(db.dirty)
		}
	}
}

// waitForWork waits until a checkpoint is to be made; false: the context has ended.
func (db *DB) waitForWork(ctx context.Context) bool {
	select {
	case <-db.dirty:
	case <-ctx.Done():
		return false
	}
	pause := time.NewTimer(db.o.After)
	defer pause.Stop()
	for {
		select {
		case <-db.half:
			if log := db.log.Load(); log != nil {
				_ = log.Prepare() // the commit that needs the room tells
			}
		case <-db.full:
			return true
		case <-pause.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// Checkpoint brings all that is committed into the file. Transactions go on meanwhile.
func (db *DB) Checkpoint() error { return db.checkpoint(haste) }

// checkpoint is Checkpoint; until calm has ended nobody waits for it.
func (db *DB) checkpoint(calm context.Context) error {
	db.working.Lock()
	defer db.working.Unlock()
	db.calm = calm
	defer func() { db.calm = nil }()
	for {
		if err := db.lockWriter(); err != nil {
			return err
		}
		left := db.frozen != nil // by a checkpoint that failed: there may be more since
		is := db.freeze(false)
		db.writer.Unlock()
		if !is {
			return nil
		}
		err := db.writeFrozen(state{ID: db.session.ID, Open: true, Frame: db.upTo, Sum: db.upSum})
		if err == nil && !errors.Is(db.InPlace(), store.ErrMoved) { // else another's log may stand there
			err = db.log.Load().Drop(db.upTo)
			db.noteNotKept(err)
			tell(db.keeping)
			db.boundViews()
		}
		if err != nil || !left {
			return err
		}
	}
}

// Hold lets no checkpoint begin until release, once the one under way has ended, unless the
// context ends before: nobody writes to the file meanwhile.
func (db *DB) Hold(ctx context.Context) (release func(), err error) {
	if err := db.working.lockOr(ctx); err != nil {
		return nil, err
	}
	return db.working.Unlock, nil
}

// Settle is Checkpoint, after which the file alone is whole and has no log. The next commit
// makes a new one. Writers wait meanwhile.
func (db *DB) Settle() error {
	db.working.Lock()
	defer db.working.Unlock()
	if err := db.lockWriter(); err != nil {
		return err
	}
	defer db.writer.Unlock()
	if db.frozen != nil { // of a checkpoint that failed
		if err := db.writeFrozen(state{ID: db.session.ID, Open: true, Frame: db.upTo, Sum: db.upSum}); err != nil {
			return err
		}
	}
	if db.log.Load() == nil {
		return nil
	}
	db.freeze(true)
	if err := db.writeFrozen(state{ID: db.session.ID, Frame: db.upTo, Sum: db.upSum}); err != nil {
		return err
	}
	return db.removeLog()
}

// freeze sets the active overlay aside to be written to the file, unless an earlier one
// still waits for that; it reports whether one waits. The caller writes nothing meanwhile.
func (db *DB) freeze(always bool) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.frozen == nil && (always || !db.active.empty()) {
		db.frozen, db.upTo, db.upSum = db.active, db.last, db.sum
		db.active, db.bytes, db.aside = &overlay{}, amount{}, db.bytes
	}
	return db.frozen != nil
}

// writeFrozen writes what is frozen, and then the state.
func (db *DB) writeFrozen(as state) error {
	began := time.Now()
	err := db.writeOverlay(db.frozen, as)
	if errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("%w: a part of the file is damaged: end the process and salvage the file, best before the log is full", err)
	}
	var old *archive.Snapshot
	db.mu.Lock()
	db.failed = err
	db.made.note(err, time.Since(began))
	if err == nil {
		db.inFile = db.upTo
		db.passed += db.aside.log
		db.frozen, db.aside = nil, amount{}
		old = db.publishPast()
	}
	close(db.ended)
	db.ended = make(chan struct{})
	db.mu.Unlock()
	old.Release() // which may remove files
	return err
}

// writeOverlay writes an overlay to the file, table by table in the order of the keys, in
// transactions of which the last one says up to which frame the file now has all.
func (db *DB) writeOverlay(o *overlay, as state) error {
	ends := db.pastEnds()
	past, err := db.writePast(o, ends)
	if err != nil {
		return fmt.Errorf("write the past: %w", err)
	}
	as.Past = past
	w := overlayWriter{db: db, ends: ends, most: db.portion()}
	for number, l := range o.layers {
		if l == nil {
			continue
		}
		if err := w.table(db.numbers.Name(number), l); err != nil {
			return err
		}
	}
	if err := w.commit(&as); err != nil {
		return err
	}
	db.session.Past = past
	return nil
}

// overlayWriter brings an overlay into the file.
type overlayWriter struct {
	db      *DB
	ends    map[string][]byte // see pastEnds
	pending []func(*bbolt.Tx) error
	written written // by the transaction that is pending
	most    int     // that a transaction is to take
	room    []byte  // for large values, until the transaction is committed
}

func (w *overlayWriter) table(name string, l *layer) error {
	if l.gone {
		w.pending = append(w.pending, func(tx *bbolt.Tx) error {
			if tx.Bucket([]byte(name)) == nil {
				return nil
			}
			return tx.DeleteBucket([]byte(name))
		})
	}
	var part []entry
	flush := func() {
		if len(part) > 0 {
			entries := part
			w.pending = append(w.pending, func(tx *bbolt.Tx) error { return w.write(tx, name, entries) })
			w.written.parts = append(w.written.parts, writtenPart{name, entries})
			part = nil
		}
	}
	iter := l.tree.Iter()
	defer iter.Release()
	for ok := iter.First(); ok; ok = iter.Next() {
		e := iter.Item()
		if follows(w.ends, name, &e) {
			continue
		}
		part = append(part, e)
		if w.written.bytes += w.db.cost(&e); w.written.bytes >= w.most {
			flush()
			began := time.Now()
			if err := w.commit(nil); err != nil {
				return err
			}
			w.db.breathe(time.Since(began))
			w.most = w.db.portion()
		}
	}
	flush()
	return nil
}

func (w *overlayWriter) write(tx *bbolt.Tx, name string, entries []entry) (err error) {
	defer Guard("table "+name, &err)
	b, err := tx.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return err
	}
	if fill := w.db.o.Fill; fill != nil {
		b.FillPercent = fill(name)
	}
	var value []byte
	for i := range entries {
		e := &entries[i]
		if !e.there() {
			err = b.Delete(e.key)
		} else if value, err = w.value(name, e); err == nil {
			err = b.Put(e.key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// value gives an entry's value, which stays until the transaction is committed.
func (w *overlayWriter) value(table string, e *entry) ([]byte, error) {
	if e.placed == nil {
		return e.value, nil
	}
	if e.size() > cap(w.room)-len(w.room) {
		w.room = make([]byte, 0, max(w.most, e.size())) // the transaction has the one before
	}
	at := len(w.room)
	w.room = w.room[:at+e.size()]
	return w.db.valueOf(table, e, w.room[at:at:len(w.room)])
}

// commit carries out what is pending in one transaction.
func (w *overlayWriter) commit(as *state) error {
	err := w.db.file.update(&w.written, w.db.crowded, func(tx *bbolt.Tx) error {
		for _, do := range w.pending {
			if err := do(tx); err != nil {
				return err
			}
		}
		if as == nil {
			return nil
		}
		return w.db.putState(tx, *as)
	})
	w.pending, w.written, w.room = nil, written{}, w.room[:0]
	w.db.boundViews()
	return err
}
