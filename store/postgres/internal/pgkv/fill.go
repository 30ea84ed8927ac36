package pgkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A partition that is filled with another store's content is marked until all is there: nobody opens half of it, and who
// fills it again begins with an empty one.

// filling is the mark, where else stands why a partition must not go on by itself.
const filling = "it is being filled with another database's content"

// Errors about a partition that is to be filled.
var (
	ErrUnfilled = errors.New("it was being filled with another database's content, and that has not come to its end: fill it again")
	ErrFull     = errors.New("it has content already: only an empty one is filled: name another database, or drop the schema first")
)

// canFill reports whether the claimed row is of a partition that is empty, or was not filled to the end.
func canFill(r Row) error { return CanFill(r.Part, r.Last, r.Halted) }

// IsFilled refuses a partition of that number and mark that was not filled to the end.
func IsFilled(part int, halted string) error {
	if halted == filling {
		return fmt.Errorf("partition %d: %w", part, ErrUnfilled)
	}
	return nil
}

// IsLost reports whether a partition with that mark has lost commits.
func IsLost(halted string) bool { return halted != "" && halted != filling }

// CanFill refuses to fill a partition of that number, last commit and mark that has content.
func CanFill(part int, last uint64, halted string) error {
	if last > 0 && halted != filling {
		return fmt.Errorf("partition %d: %w", part, ErrFull)
	}
	return nil
}

// empty takes away what is there of a partition that was not filled to the end.
func (db *DB) empty(ctx context.Context) error {
	part := db.o.Partition
	for gone := int64(mostRows); gone == mostRows; {
		var err error
		if gone, err = db.remove(ctx, db.s.emptyEntries, part, mostRows); err != nil {
			return err
		}
	}
	for _, sql := range []string{db.s.emptyLog, db.s.emptyTables} {
		if _, err := db.remove(ctx, sql, part); err != nil {
			return err
		}
	}
	row, err := scanRow(db.writes.QueryRow(ctx, db.s.emptied, part, db.o.Session))
	switch {
	case noRow(err):
		return db.fenced(ctx)
	case err != nil:
		return fmt.Errorf("empty partition %d: %w", part, err)
	}
	db.row = row
	return nil
}

// remove deletes rows in a transaction that ends with the fence, and gives their number: what was deleted after another opening has claimed the partition
// would be what that has filled it with.
func (db *DB) remove(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = db.locking(ctx, func(tx pgx.Tx, calm func()) error {
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		rows = tag.RowsAffected()
		calm() // whoever holds the partition's row now may own it
		_, err = scanRow(tx.QueryRow(ctx, db.s.renew, db.o.Partition, db.o.Session))
		return err
	})
	switch {
	case noRow(err):
		return 0, db.fenced(ctx)
	case err != nil:
		return 0, fmt.Errorf("empty partition %d: %w", db.o.Partition, err)
	}
	return rows, nil
}

// Filled takes the mark away: all is there.
func (db *DB) Filled(ctx context.Context) error {
	if err := db.Checkpoint(ctx); err != nil {
		return err
	}
	tag, err := db.writes.Exec(ctx, db.s.filled, db.o.Partition, db.o.Session)
	switch {
	case err != nil:
		return fmt.Errorf("note that partition %d is filled: %w", db.o.Partition, err)
	case tag.RowsAffected() == 0:
		return db.fenced(ctx)
	}
	return nil
}
