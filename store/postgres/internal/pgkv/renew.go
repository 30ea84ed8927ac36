package pgkv

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Renew moves the beats of an instance, if it is there in that session, and of partitions that this process owns, all in one statement. It tells of which
// partitions that is done, or was by a commit since the last time: not of one that is nil, that somebody else owns, or that somebody has locked.
func (c *Cluster) Renew(ctx context.Context, name, session string, dbs []*DB) (renewed []bool, found bool, err error) {
	renewed = make([]bool, len(dbs))
	judges := make([]func(Row) bool, len(dbs))
	parts, sessions := []int32{}, []string{}
	for n, db := range dbs {
		if db != nil && db.Broken() == nil {
			judges[n] = db.renewal(ctx)
			parts, sessions = append(parts, int32(db.o.Partition)), append(sessions, db.o.Session)
		}
	}
	rows := make(map[string]Row, len(parts)) // by session
	err = patiently(ctx, c.o.Patience, func(ctx context.Context) error {
		found = false
		clear(rows)
		return each(ctx, c.pool, func(all pgx.Rows) error {
			row, err := scanRow(all)
			if row.Part == isInstance {
				found = true
			} else {
				rows[row.Session] = row
			}
			return err
		}, c.s.together, name, session, parts, sessions)
	})
	if err != nil {
		return renewed, false, err
	}
	for n, db := range dbs {
		if judge := judges[n]; judge != nil {
			row, ok := rows[db.o.Session]
			renewed[n] = ok && judge(row)
		}
	}
	if !found { // it is not there, or somebody has it locked
		found, err = c.renewInstance(ctx, name, session)
	}
	return renewed, found, err
}

// renewInstance moves an instance's beat, if it is there in that session, and waits for the transaction that has its row locked.
func (c *Cluster) renewInstance(ctx context.Context, name, session string) (found bool, err error) {
	tag, err := c.pool.Exec(ctx, c.s.renewed, name, session)
	return tag.RowsAffected() > 0, err
}

// What stands in the place of a partition's number in an answer to a renewal.
const (
	isInstance = -1
	isLocked   = -2
)

// renewal begins one together with other partitions. What it returns is told the row that the database has for this owner, and reports whether the partition has
// given a sign of life since the renewal before: one that is locked has if it was committed to.
func (db *DB) renewal(ctx context.Context) func(row Row) bool {
	last, checkpoint := db.shown()
	db.mu.Lock()
	committed := last > db.renewed
	db.renewed = last
	db.mu.Unlock()
	db.place.moves()
	return func(row Row) bool {
		if row.Part == isLocked {
			return committed
		}
		err := db.judge(ctx, row, last, checkpoint)
		if err != nil {
			db.breaks(err)
		}
		return err == nil
	}
}

// Renew gives a sign of life of the owner.
func (db *DB) Renew(ctx context.Context) error {
	if err := db.Broken(); err != nil {
		return err
	}
	if db.o.ReadOnly {
		return ErrReadOnly
	}
	last, checkpoint := db.shown()
	var row Row
	db.place.moves()
	err := db.patiently(ctx, func(ctx context.Context) (err error) {
		row, err = scanRow(db.writes.QueryRow(ctx, db.s.renew, db.o.Partition, db.o.Session))
		return err
	})
	switch {
	case noRow(err):
		return db.fenced(ctx)
	case err != nil:
		return fmt.Errorf("renew the claim of partition %d: %w", db.o.Partition, err)
	}
	if err := db.judge(ctx, row, last, checkpoint); err != nil {
		db.breaks(err)
		return err
	}
	return nil
}
