package kv

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// stateBucket holds how the file and its log belong together, under stateKey. A file
// without it needs no log.
const stateBucket = "log"

var stateKey = []byte("state")

// state is what the file says of its log.
type state struct {
	ID    string           `json:"id"`            // the log's, hexadecimal
	Open  bool             `json:"open"`          // the log may hold what the file does not
	Frame uint64           `json:"frame"`         // the file has all up to this one
	Sum   uint32           `json:"sum,omitempty"` // the checksum of that frame; zero: it is not known, or there was none
	Past  archive.Position `json:"past,omitzero"` // up to where the past counts
}

func (s state) id() (id [16]byte) {
	_, _ = hex.Decode(id[:], []byte(s.ID)) // a state that is none was refused when it was read
	return id
}

func (db *DB) readState() (s state, err error) {
	tx, err := db.file.begin(false)
	if err != nil {
		return s, err
	}
	defer db.file.rollback(tx)
	defer Guard("read the state of the log", &err)
	b := tx.Bucket([]byte(stateBucket))
	if b == nil {
		return s, nil
	}
	raw := b.Get(stateKey)
	if raw == nil {
		return s, nil
	}
	if err := db.o.Unseal(stateKey, raw, &s); err != nil {
		return s, fmt.Errorf("the state of the log: %w", err)
	}
	return s, nil
}

func (db *DB) putState(tx *bbolt.Tx, s state) error {
	b, err := tx.CreateBucketIfNotExists([]byte(stateBucket))
	if err != nil {
		return err
	}
	raw, err := db.o.Seal(stateKey, s)
	if err != nil {
		return err
	}
	return b.Put(stateKey, raw)
}

func (db *DB) logOptions() wal.Options {
	return wal.Options{FS: db.o.FS, NoSync: db.o.NoSync, ReadOnly: db.o.ReadOnly, SegmentSize: db.o.Segment, Keep: db.o.Keep.Folder, Synced: db.session.Frame}
}

// openLog makes the log that the first commit needs.
func (db *DB) openLog() error {
	if db.log.Load() != nil {
		return nil
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	o := db.logOptions()
	o.Prev = db.sum // so the frames of all the file's logs are one chain
	log, err := wal.Create(db.o.Folder, id, db.last+1, o)
	if err != nil {
		return fmt.Errorf("make the log %s: %w", db.o.Folder, err)
	}
	s := state{ID: hex.EncodeToString(id[:]), Open: true, Frame: db.last, Sum: db.sum, Past: db.session.Past}
	if err := db.file.update(&written{}, db.makeWay, func(tx *bbolt.Tx) error { return db.putState(tx, s) }); err != nil {
		err = errors.Join(err, log.Close())
		if now, rerr := db.readState(); rerr == nil && now.ID == db.session.ID { // else the file may need the log: the next start tells
			err = errors.Join(err, wal.Remove(db.o.Folder, db.logOptions()))
		}
		return err
	}
	db.session = s
	db.mu.Lock()
	db.logID = s.ID
	db.mu.Unlock()
	db.log.Store(log)
	return nil
}

// removeLog removes a log that the file does not need any more. Where it was moved away,
// what stands in its place may be another's and stays.
func (db *DB) removeLog() error {
	moved := errors.Is(db.InPlace(), store.ErrMoved)
	log := db.log.Swap(nil) // also where it cannot be removed: the file says that it needs none
	db.session.Open, db.session.Frame, db.session.Sum = false, db.last, db.sum
	if err := log.Close(); err != nil || moved {
		return err
	}
	return wal.Remove(db.o.Folder, db.logOptions())
}

// NoLog fails with [ErrOtherLog] where a folder holds a log in which something was committed.
func NoLog(folder string, fsys disk.FS) error {
	_, frames, err := wal.Inspect(folder, wal.Options{FS: fsys})
	switch {
	case errors.Is(err, wal.ErrMissing):
		return nil
	case err != nil:
		return fmt.Errorf("the log %s: %w", folder, err)
	case frames:
		return otherLog(folder)
	}
	return nil
}

func otherLog(folder string) error {
	return fmt.Errorf("%w: %s: put the file back that it belongs to; or, to begin with another one, move the folder away", ErrOtherLog, folder)
}

// recover reads the log that stands beside a file, and carries out what the file does
// not have.
func (db *DB) recover() error {
	s, err := db.readState()
	if err != nil {
		return err
	}
	db.logID = s.ID
	db.session, db.last, db.sum, db.inFile = s, s.Frame, s.Sum, s.Frame
	if err := db.recoverLog(s); err != nil {
		return err
	}
	err = db.openPast() // which removes what does not count: the file must be the one that belongs there
	if log := db.log.Load(); err != nil && log != nil {
		err = errors.Join(err, log.Close())
	}
	return err
}

func (db *DB) recoverLog(s state) error {
	id, frames, err := wal.Inspect(db.o.Folder, db.logOptions())
	missing := errors.Is(err, wal.ErrMissing)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("the log %s: %w", db.o.Folder, err)
	case missing && s.Open:
		return fmt.Errorf("%w: %s: put it back, or restore a backup", ErrNoLog, db.o.Folder)
	case missing:
		return nil
	case id != s.id() && (s.Open || frames):
		return otherLog(db.o.Folder)
	case !s.Open: // the process ended before the log was removed, or before it was used
		return db.removeLeft(id)
	}
	return db.redo()
}

// removeLeft removes the log of a file that was closed, unless it has what the file has not:
// then that is an older copy.
func (db *DB) removeLeft(id [16]byte) error {
	if id == db.session.id() {
		last, err := wal.LastOf(db.o.Folder, id, db.logOptions())
		if err != nil {
			return fmt.Errorf("the log %s: %w", db.o.Folder, err)
		}
		if last > db.session.Frame {
			return fmt.Errorf("it goes on to frame %d, the file was closed with frame %d: %w", last, db.session.Frame, otherLog(db.o.Folder))
		}
	}
	if db.o.ReadOnly {
		return nil
	}
	return wal.Remove(db.o.Folder, db.logOptions())
}

func (db *DB) redo() (err error) {
	log, err := wal.Open(db.o.Folder, db.session.id(), db.logOptions())
	if err == nil && log.Last() < db.session.Frame {
		err = errors.Join(fmt.Errorf("%w: %s ends at frame %d, the file has %d", ErrNoLog, db.o.Folder, log.Last(), db.session.Frame), log.Close())
	}
	if err != nil {
		return fmt.Errorf("the log %s: %w", db.o.Folder, err)
	}
	w := db.active.writable()
	r := redo{log: log, large: db.o.Large, into: func(table string) *layer { return w.ownLayer(db.numbers.Of(table, true)) }}
	err = log.ReplayAt(db.session.Frame+1, r.frame)
	db.bytes, w.places = r.amount, r.places
	if err != nil {
		return errors.Join(fmt.Errorf("the log %s: %w", db.o.Folder, err), log.Close())
	}
	db.active, db.last, db.sum = &w.overlay, log.Last(), log.Sum()
	db.log.Store(log)
	if db.bytes.log > 0 {
		tell(db.dirty)
	}
	if db.enough(db.bytes) {
		tell(db.full)
	}
	return nil
}
