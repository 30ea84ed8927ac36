package bolt

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// FormatValue makes the stored form of a format for the tests.
func FormatValue(program string, format int) []byte {
	v, err := tables.SealJSON(formatKey, formatValue{Program: program, Format: format})
	if err != nil {
		panic(err)
	}
	return v
}

// SetFullWalk changes the size up to which Open looks at all pages, and gives
// what changes it back.
func SetFullWalk(size int64) (undo func()) {
	old := fullWalk
	fullWalk = size
	return func() { fullWalk = old }
}

// Explain is what Open says of an error of the system.
var Explain = explain

// OnCommit calls fn once the transaction is durable, before Update returns.
func OnCommit(t store.Tx, fn func()) { t.(*tables.Tx).Backing().(backing).OnCommit(fn) }

// Hold lets no checkpoint of a store begin until release.
func Hold(s *Store) (release func()) {
	release, err := s.db.Hold(context.Background())
	if err != nil {
		panic(err)
	}
	return release
}

// Checkpoint brings all that is committed into the file.
func Checkpoint(s *Store) error { return s.db.Checkpoint() }

// Everything gives all entries of all tables, as a transaction finds them.
func Everything(s *Store) (map[string]string, error) {
	tx, err := s.db.Begin(context.Background(), false)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	all := map[string]string{}
	for _, name := range tx.Names("") {
		c := tx.Table(name).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			all[name+" "+string(k)] = string(v)
		}
	}
	return all, nil
}

// MoveBackupTo has a backup say that it stands behind a frame of a log.
func MoveBackupTo(path string, at kv.Position) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	name, key := kv.StateKey()
	err = db.Update(func(tx *bbolt.Tx) error { return putSealed(tx.Bucket([]byte(name)), key, at.State()) })
	return errors.Join(err, db.Close())
}
