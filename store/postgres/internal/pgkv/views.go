package pgkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/orrery-go/orrery/store"
)

func noRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// viewCache is how many bytes a View keeps of what it has read.
const viewCache = 8 << 20

// snapshot is a transaction of the database that only reads.
type snapshot struct {
	conn *held
	row  Row
}

// query implements queryer.
func (s *snapshot) query(ctx context.Context, begin func(), fn func(rows pgx.Rows) error, sql string, args ...any) error {
	begin()
	return unreachable(ctx, each(ctx, s.conn, fn, sql, args...))
}

// unreachable marks an error of the connection or of a server that does not work now. Whoever reads is told; it has asked for nothing to
// be waited for.
func unreachable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !passes(err) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
}

// snapshot begins one, and reads the partition's row in it, in one round trip.
func (db *DB) snapshot(ctx context.Context) (s *snapshot, err error) {
	conn, err := db.views.Acquire(ctx)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	s = &snapshot{conn: conn}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	b := &pgx.Batch{}
	b.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	b.Queue(db.s.look, db.o.Partition)
	results := conn.SendBatch(ctx, b)
	_, err = results.Exec()
	if err == nil {
		s.row, err = scanRow(results.QueryRow())
	}
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	return s, unreachable(ctx, err)
}

// end ends it. A connection on which that fails is not used again.
func (s *snapshot) end() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if !s.conn.Conn().IsClosed() {
		_, _ = s.conn.Exec(ctx, `ROLLBACK`)
	}
	s.conn.Release()
	s.conn = nil
}

// attempts is how often a View begins anew: where a checkpoint has passed what it had in memory, and where a connection
// of the pool turns out to be dead.
const attempts = 32

// view begins a transaction that only reads.
func (db *DB) view(ctx context.Context) (tx *Tx, err error) {
	for range attempts {
		tx = &Tx{db: db}
		if db.o.ReadOnly {
			err = db.followOn(ctx, tx)
		} else {
			err = db.own(ctx, tx)
		}
		if err == nil || !passes(err) || ctx.Err() != nil || noConnection(err) || errors.Is(err, errUnnoted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("begin a view of partition %d: %w", db.o.Partition, err)
	}
	return tx, nil
}

// noConnection reports whether the database has refused a new connection: it would refuse the next one, too, and whoever reads is told.
func noConnection(err error) bool {
	_, is := errors.AsType[*pgconn.ConnectError](err)
	return is
}

var errPassed = errors.New("a checkpoint passes by")

// own begins a View of the owner: what is in memory is taken first, so the snapshot has no less than that stands
// above.
func (db *DB) own(ctx context.Context, tx *Tx) error {
	db.mu.RLock()
	tx.active, tx.frozen, tx.last = db.active, db.frozen, db.last
	checkpoint := db.checkpoint
	db.mu.RUnlock()
	s, err := db.snapshot(ctx)
	if err != nil {
		return err
	}
	if err = db.judge(ctx, s.row, tx.last, checkpoint); err != nil {
		db.breaks(err)
	} else if s.row.Target > tx.last { // the tables may have parts of what is not seen
		err = errPassed
	}
	if err != nil {
		s.end()
		return err
	}
	db.mu.RLock()
	tx.ids = db.ids // those that came meanwhile have nothing that is not in memory, too
	db.mu.RUnlock()
	db.reads(ctx, tx, s)
	return nil
}

func (db *DB) reads(ctx context.Context, tx *Tx, s *snapshot) {
	tx.reader = reader{ctx: ctx, part: db.o.Partition, s: db.s, from: s, cache: newCache(viewCache)}
	tx.end = s.end
}

// followed is what a DB that only reads has of the log.
type followed struct {
	mu         lock
	active     *overlay
	session    string // of who owned it, with the token
	token      uint64
	checkpoint uint64 // what it stands above
	last       uint64
	bytes      int64
	ids        map[string]int32
}

// followOn begins a View of somebody who is not the owner: the log is read in the snapshot, as far as it is not known
// yet.
func (db *DB) followOn(ctx context.Context, tx *Tx) error {
	s, err := db.snapshot(ctx)
	if noRow(err) {
		if l, unread := layoutOf(ctx, db.views, db.s); unread == nil && l != nil && db.o.Partition >= l.Partitions {
			return fmt.Errorf("%w: there is no partition %d: the database has %d: name one, from 0 to %d", store.ErrNotFound, db.o.Partition, l.Partitions, l.Partitions-1)
		}
		return fmt.Errorf("%w: nobody has opened partition %d yet", store.ErrNotFound, db.o.Partition)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P01" { // undefined_table
		return fmt.Errorf("%w: there are no tables of Orrery in schema %s: the first daemon that is started on the database makes them; is the URL that of another database?", store.ErrNotFound, db.o.Schema)
	}
	if err != nil {
		return err
	}
	if s.row.Halted == filling {
		s.end()
		return db.isHalted(s.row)
	}
	f := &db.follow
	if err := f.mu.lockWithin(ctx); err != nil { // who has it may wait for a database that has gone silent
		s.end()
		return err
	}
	defer f.mu.Unlock()
	if err := db.catchUp(ctx, f, s); err != nil {
		s.end()
		return err
	}
	tx.active, tx.last, tx.ids = f.active, f.last, f.ids
	db.reads(ctx, tx, s)
	return nil
}

// catchUp reads what the log has beyond what is followed. Where a snapshot is older than that, or much newer, it begins
// anew; after a claim, too: with that the log may have gone back, and on another way.
func (db *DB) catchUp(ctx context.Context, f *followed, s *snapshot) error {
	row := s.row
	if f.active == nil || row.Last < f.last || row.Checkpoint != f.checkpoint || row.Token != f.token || row.Session != f.session {
		ids, err := readTables(ctx, s.conn, db.s, row.Part)
		if err != nil {
			return err
		}
		f.active, f.checkpoint, f.last, f.bytes, f.ids = &overlay{}, row.Checkpoint, row.Checkpoint, 0, ids
		f.token, f.session = row.Token, row.Session
	}
	if f.last == row.Last {
		return nil
	}
	r := replay{numbers: &db.numbers, own: f.active.writable(), next: f.last}
	if err := r.read(ctx, s.conn, db.s, row.Part); err != nil {
		return err
	}
	if r.next != row.Last {
		return fmt.Errorf("%w: the log ends with commit %d, the last one is %d", store.ErrCorrupt, r.next, row.Last)
	}
	f.active, f.last, f.bytes = &r.own.overlay, r.next, f.bytes+r.bytes
	return nil
}
