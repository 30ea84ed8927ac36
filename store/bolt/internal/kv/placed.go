package kv

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// A large value is not kept in memory until a checkpoint brings it into the file: the overlay
// holds its place in the log, from which it is read, and checked, whenever it is asked for. A
// transaction that may meet one holds the log from there on: see [wal.Hold].

// defaultLarge is from how many bytes on a value is large. Reading one takes a call of the
// system and the checksum: for less, an entry costs as much memory beside its value.
const defaultLarge = 8 << 10

// placed is a large value.
type placed struct {
	log   *wal.Log
	at    wal.Extent
	bytes []byte // the value, until its frame stands in the log, and where it could not be read from there; else nil
}

// moveToLog tells each large value of a frame where it stands now, and gives how many bytes they
// are which need not be in memory any more.
func (f *frame) moveToLog(log *wal.Log, n uint64, at wal.Position) (free int) {
	if len(f.large) == 0 || log.Readable(at.Segment) != nil { // for want of descriptors, say
		return 0
	}
	for _, p := range f.large {
		p.log, p.bytes, p.at.Frame = log, nil, n
		p.at.Segment, p.at.Offset = at.Segment, at.Offset+p.at.Offset
		free += p.at.Length
	}
	return free
}

// read gives the value in room, if that suffices, or in memory of its own. The error is
// [store.ErrCorrupt] if it is damaged: it is given all the same.
func (p *placed) read(room []byte) ([]byte, error) {
	if p.bytes != nil {
		return p.bytes, nil
	}
	if cap(room) < p.at.Length {
		room = make([]byte, p.at.Length)
	}
	room = room[:p.at.Length]
	err := p.log.Read(p.at, room)
	if errors.Is(err, store.ErrCorrupt) {
		err = p.log.Read(p.at, room) // the memory on the way may have been at fault
	}
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	return room, err
}

// valueOf gives the value of an entry that a checkpoint writes, as placed.read does. A damaged
// one is written as it is, so that one record keeps nothing else from the file: a value has a
// checksum of its own, by which whoever reads it finds the damage.
func (db *DB) valueOf(table string, e *entry, room []byte) ([]byte, error) {
	if e.placed == nil {
		return e.value, nil
	}
	value, err := e.placed.read(room)
	if errors.Is(err, store.ErrCorrupt) {
		db.o.Logger.Error("a value that stands in the log is damaged; it is brought into the file as it is, where who reads it is told", "table", table, "key", hex.EncodeToString(e.key), "error", err)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("table %s, key %x: %w", table, e.key, err)
	}
	return value, nil
}

// unread is what a read of a transaction panics with where it gives nothing, for a reason
// that is no damage of what is stored: see [Guard].
type unread struct{ err error }

// Unread gives the reason: so package tables knows it, too.
func (u unread) Unread() error { return u.err }

// value gives an entry's value. It panics, as bbolt does, where it cannot.
func (tx *Tx) value(v []byte, p *placed) []byte {
	if p == nil {
		return v
	}
	if tx.met == p {
		return tx.metBytes
	}
	v, err := p.read(nil)
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			panic(unread{fmt.Errorf("a value that stands in the log: %w", err)})
		}
		panic(err)
	}
	tx.met, tx.metBytes = p, v
	return v
}
