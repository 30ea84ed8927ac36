package pgkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

// errBehind: the database has gone back to before a checkpoint. All commits are there, but in the log: what this opening
// knows of the tables is wrong.
var errBehind = errors.New("the database has lost a checkpoint, as after a failover to a standby that lagged behind; no commit is lost: the partition is to be opened anew")

// shown gives the number of the last commit that was acknowledged, and up to which the tables have all.
func (db *DB) shown() (last, checkpoint uint64) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.last, db.checkpoint
}

// judge tells why this owner cannot go on from what the database says of the partition; nil: it can. The two numbers
// were true before the database was asked.
func (db *DB) judge(ctx context.Context, row Row, acknowledged, checkpoint uint64) error {
	switch {
	case row.Session != db.o.Session:
		return db.fenced(ctx)
	case row.Last < acknowledged:
		return db.gone(ctx, row, acknowledged)
	case row.Checkpoint < checkpoint:
		return fmt.Errorf("partition %d: %w: it was made up to commit %d, and is at %d", row.Part, errBehind, checkpoint, row.Checkpoint)
	}
	return nil
}

// gone stops the partition, whoever owns it, since the database lacks what was acknowledged.
func (db *DB) gone(ctx context.Context, row Row, acknowledged uint64) error {
	why := fmt.Sprintf("commit %d was acknowledged, the database's last one is %d, as after a failover to a standby that lagged behind", acknowledged, row.Last)
	if _, err := db.writes.Exec(ctx, db.s.halt, db.o.Partition, why, acknowledged); err != nil {
		why += "; it could not be noted: " + err.Error()
	}
	return fmt.Errorf("partition %d: %w: %s", row.Part, ErrLost, why)
}

// strange is for a last commit that nobody can have made.
func (db *DB) strange(row Row, acknowledged uint64) error {
	return fmt.Errorf("partition %d: %w: the last commit is %d, this owner has made %d", row.Part, store.ErrCorrupt, row.Last, acknowledged)
}

// fenced refuses everything since another one owns the partition, which may be one that has begun before what this
// owner has committed.
func (db *DB) fenced(ctx context.Context) error {
	db.Break(db.replaced(ctx))
	return db.Broken()
}

// replaced says who owns the partition now.
func (db *DB) replaced(ctx context.Context) error {
	last, _ := db.shown()
	row, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
	switch {
	case err != nil:
		err = fmt.Errorf("partition %d: %w", db.o.Partition, store.ErrFenced)
	case row.Last < last:
		err = db.gone(ctx, row, last)
	case row.Halted != "":
		err = fmt.Errorf("partition %d: %w: %w: %s", db.o.Partition, store.ErrFenced, ErrLost, row.Halted)
	default:
		err = fmt.Errorf("partition %d: %w: %q at %q owns it, with token %d", db.o.Partition, store.ErrFenced, row.Owner, row.Address, row.Token)
	}
	return err
}
