package kv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// Sink takes what a frame says of one table.
type Sink interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	Drop() error
}

// SalvageLog calls into with each table of each frame of a log that can be read, in order, and gives
// what cannot be read. The file's own state of the log, as it is stored, tells whose log
// it is, and up to which frame the file has all; nil: it cannot be read, and whatever log is there
// counts. There need not be any.
func SalvageLog(folder string, state []byte, o Options, into func(n uint64, inFile bool, table string) Sink) (lost []error, err error) {
	s, wo := salvagedState(state, o), wal.Options{FS: o.FS}
	id, _, err := wal.Inspect(folder, wo)
	switch {
	case errors.Is(err, wal.ErrMissing) && s.Open:
		return []error{fmt.Errorf("%w: %s", ErrNoLog, folder)}, nil
	case errors.Is(err, wal.ErrMissing):
		return nil, nil
	case err != nil && s.ID == "":
		return []error{fmt.Errorf("the log %s: %w", folder, err)}, nil
	case err == nil && s.ID != "" && id != s.id():
		return []error{otherLog(folder)}, nil
	}
	if s.ID != "" {
		id = s.id()
	}
	last, at := s.Frame, 0
	lost, err = wal.Salvage(folder, id, wo, func(n uint64, payload []byte) error {
		if n > last+1 && last == s.Frame && s.ID != "" {
			lost = append(lost, fmt.Errorf("%w: frames %d to %d are not there", ErrNoLog, last+1, n-1))
		}
		last = max(last, n)
		return eachOp(payload, &at, func(table string) Sink { return into(n, n <= s.Frame, table) })
	})
	if errors.Is(err, wal.ErrForeign) {
		return append(lost, err), nil
	}
	return lost, err
}

// salvagedState reads the state of the log; one that cannot be read says nothing.
func salvagedState(raw []byte, o Options) (s state) {
	if raw == nil || o.Unseal(stateKey, raw, &s) != nil {
		return state{}
	}
	if id, err := hex.DecodeString(s.ID); err != nil || len(id) != 16 {
		return state{}
	}
	return s
}

// SalvagedPast tells of a [SalvagePast].
type SalvagedPast struct {
	// State is what the new file is to have under [StateKey]; nil: it has no archive.
	State any
	// Lost is the greatest number of which something may be missing; zero: nothing is. What follows is whole.
	// [math.MaxUint64]: nothing of the archive can be used.
	Lost uint64
	Why  []error // what is wrong with the archive
}

// SalvagePast copies what is whole of a file's archive to a folder, at which nothing is. The
// file's own state of the log, as it is stored, tells what counts; nil: it has none. Nothing is synced.
func SalvagePast(ctx context.Context, from, to string, raw []byte, o Options) (SalvagedPast, error) {
	var s state
	if raw != nil {
		if err := o.Unseal(stateKey, raw, &s); err != nil {
			return SalvagedPast{Lost: math.MaxUint64, Why: []error{fmt.Errorf("the state of the log, which says what counts of %s: %w", from, err)}}, nil
		}
	}
	if s.Past.ID == "" { // whatever stands there is nothing of it
		return SalvagedPast{}, nil
	}
	c, err := archive.Copy(ctx, from, s.Past, to, archive.Options{FS: o.FS})
	found := SalvagedPast{Lost: c.Lost, Why: c.Why}
	if c.Lost != math.MaxUint64 {
		found.State = state{Past: c.At}
	}
	return found, err
}

// StateKey is where a file says how it and its log and its archive belong together.
func StateKey() (table string, key []byte) { return stateBucket, stateKey }
