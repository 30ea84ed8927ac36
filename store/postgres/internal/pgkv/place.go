package pgkv

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// nowhere is the place of no row: the row is found by the index.
const nowhere = "(0,0)"

// byIndexEach is after how many commits the row is looked for by the index, since only so the server removes its old versions.
// So many of them must fit on a page of the table beside one another.
const byIndexEach = 16

// place is where in its table the newest version of the partition's row stands (its ctid). Each commit changes the row, and makes a version of it. As long
// as some transaction is open that began before, as pg_dump's, the server keeps all versions since, and the index leads through all
// of them: then a commit is slower the more have been made meanwhile. By its place the newest one is found at once.
//
// A place that is wrong does no harm: the fence is in the same condition, and if the place has no such row it is looked for by the index.
type place struct {
	at    string // of the last commit; guarded by syncing, as count
	count int
	none  bool        // rows of this database have no places; guarded by syncing, too
	moved atomic.Bool // something else than a commit has changed the row since, or is about to
}

// next gives where the next commit looks for the row.
func (p *place) next() string {
	at := p.at
	p.at = nowhere // until that commit has said where it has left the row
	p.count++
	if p.moved.Swap(false) || p.count%byIndexEach == 0 || at == "" {
		return nowhere
	}
	return at
}

// moves says that this process is about to change the row by something else than a commit.
func (p *place) moves() { p.moved.Store(true) }

// isWithoutPlaces reports whether a commit has failed since rows have no place in this database, as in one that only speaks PostgreSQL's protocol.
func isWithoutPlaces(err error) bool {
	pg, is := errors.AsType[*pgconn.PgError](err)
	return is && (pg.Code == "42703" || pg.Code == "42704" || pg.Code == "0A000") // undefined column, undefined object, feature not supported
}

// commitAt writes a commit to the log, and notes where it has left the row. pgx.ErrNoRows: the fence has let it not pass, or the row is at another place.
func (db *DB) commitAt(ctx context.Context, at string, args ...any) error {
	if db.place.none {
		return db.writes.QueryRow(ctx, db.s.commitPlain, args...).Scan(&db.place.at)
	}
	return db.writes.QueryRow(ctx, db.s.commit, append(args, at)...).Scan(&db.place.at)
}
