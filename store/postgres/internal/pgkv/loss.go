package pgkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

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

// errUnnoted: the database lacks what was acknowledged, and takes no note of it, as a standby before it is promoted, which may be one that is behind for a
// moment. Nothing is stopped then: whoever asks next looks anew.
var errUnnoted = errors.New("the database lacks commits that were acknowledged, and takes no note of that")

// breaks refuses everything from now on for what judge has said, if that is certain. Nobody waits for a commit here.
func (db *DB) breaks(err error) {
	if !errors.Is(err, errUnnoted) {
		db.Break(err)
	}
}

// notings is how often it is tried at most to note a loss.
const notings = 3

// gone stops the partition, whoever owns it, since the database lacks what was acknowledged: once, since somebody may have accepted it when a second one
// of this owner finds the same.
func (db *DB) gone(ctx context.Context, row Row, acknowledged uint64) error {
	db.loss.Lock()
	defer db.loss.Unlock()
	if db.lost != nil {
		return db.lost
	}
	why := fmt.Sprintf("commit %d was acknowledged, the database's last one is %d, as after a failover to a standby that lagged behind", acknowledged, row.Last)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.o.Lease/2) // the client whose request has found it may have gone
	defer cancel()
	var err error
	for range notings {
		if err = db.halt(ctx, why, acknowledged); err == nil || !passes(err) || isReadOnly(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("partition %d: %w: %s: %w", row.Part, errUnnoted, why, unreachable(context.Background(), err))
	}
	db.lost = fmt.Errorf("partition %d: %w: %s", row.Part, ErrLost, why)
	return db.lost
}

// halt stops the partition, and notes that this tells of the commits of this owner, and of the one from which it has claimed the partition: it has found
// their commits, so each of these that is gone is one of those that it tells of.
func (db *DB) halt(ctx context.Context, why string, acknowledged uint64) error {
	sessions, last := []string{db.o.Session}, []int64{int64(acknowledged)}
	if db.before != "" {
		sessions, last = append(sessions, db.before), append(last, int64(db.row.Last))
	}
	_, err := db.writes.Exec(ctx, db.s.halt, db.o.Partition, why, acknowledged, filling, sessions, last)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" { // undefined_table: the database has lost the step to this format, too
		_, err = db.writes.Exec(ctx, db.s.haltPlain, db.o.Partition, why, acknowledged, filling)
	}
	return err
}

// isTold reports whether the partition was stopped since for the loss of all commits of this owner that the database lacks, up to that one. What says so stands in the
// database beside the stop, so it is gone with it, and it names this opening, which owns the partition never again: a
// loss of what comes later is another's. Where the database does not answer it was not told, and where this owner has told it itself, gone says so.
func (db *DB) isTold(ctx context.Context, acknowledged uint64) (is bool) {
	db.loss.Lock()
	itself := db.lost != nil
	db.loss.Unlock()
	if itself {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.o.Lease/2)
	defer cancel()
	err := db.writes.QueryRow(ctx, db.s.told, db.o.Partition, db.o.Session, acknowledged).Scan(&is)
	return err == nil && is
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.o.Lease/2) // the client whose request has found it may have gone
	defer cancel()
	row, err := scanRow(db.writes.QueryRow(ctx, db.s.look, db.o.Partition))
	switch {
	case err != nil:
		err = fmt.Errorf("partition %d: %w", db.o.Partition, store.ErrFenced)
	case db.o.Fill && row.Halted == filling: // what this copy has written was to go
		err = fmt.Errorf("partition %d: %w: %q fills it anew, with token %d", db.o.Partition, store.ErrFenced, row.Owner, row.Token)
	case row.Last < last && !db.isTold(ctx, last):
		err = db.gone(ctx, row, last)
	case IsLost(row.Halted):
		err = fmt.Errorf("partition %d: %w: %w: %s", db.o.Partition, store.ErrFenced, ErrLost, row.Halted)
	case row.Session == "":
		err = fmt.Errorf("partition %d: %w: nobody owns it since", db.o.Partition, store.ErrFenced)
	default:
		err = fmt.Errorf("partition %d: %w: %q at %q owns it, with token %d", db.o.Partition, store.ErrFenced, row.Owner, row.Address, row.Token)
	}
	return err
}
