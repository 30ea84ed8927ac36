// Package pgkv keeps tables of ordered keys in PostgreSQL, for one partition that one process owns. A
// commit is one frame, a row of the log, written in one round trip with the fence that tells whether
// the owner still is one. What the log holds beyond the last checkpoint stands in memory, in an overlay that
// every read merges with the table entries; a goroutine brings the net change of many commits there.
//
// The files, in the order in which they are best read:
//
//   - frame.go: what a commit writes; overlay.go: what has changed since a checkpoint;
//   - cache.go with reader.go: what is known of the database's tables;
//   - tx.go, cursor.go: transactions, tables and cursors, which merge both;
//   - statements.go: all SQL but the schema, which is in migrations;
//   - conns.go: connections, which the partitions of a process share;
//   - open.go: the schema, and who owns a partition; renew.go: signs of life; db.go: what is open;
//   - commit.go with place.go: commits, and those of which the answer was lost; loss.go: what makes an owner stop;
//   - views.go: snapshots; checkpoint.go: bringing commits into the tables.
package pgkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/names"
)

// DB is a partition that is open. Its methods are safe for concurrent use; one
// transaction writes at a time.
type DB struct {
	o       Options
	s       *statements
	writes  *lane
	views   *lane
	cache   *cache
	numbers names.Numbers
	row     Row        // as it was claimed
	before  string     // the session from which it was claimed; empty: nobody owned it
	working sync.Mutex // held while a checkpoint is made; before writer
	writer  lock       // held by the one that writes, or freezes what was written
	syncing sync.Mutex // held by the one that commits; after writer, before mu
	token   uint64     // guarded by syncing
	place   place      // of the partition's row
	rest    []byte     // room in memory that the last frame has left; the writer's
	broken  atomic.Pointer[error]
	over    chan struct{} // closed once everything is refused
	loss    sync.Mutex
	lost    error // guarded by loss: that the loss of commits is noted

	mu         sync.RWMutex     // guards what is below
	ids        map[string]int32 // the tables that the database has; a new map for each change
	active     *overlay
	frozen     *overlay // nil: no checkpoint is under way
	staged     []staged // what is not yet committed, in order
	last       uint64   // the number of the last commit that is shown
	checkpoint uint64   // up to here the tables have all
	upTo       uint64   // the number of the last commit in frozen
	renewed    uint64   // the number of the last commit at the last renewal together with others
	memory     int64    // bytes of the frames in active
	aside      int64    // and in frozen
	written    uint64
	failed     error         // of the last checkpoint
	ended      chan struct{} // closed when the checkpoint under way ends
	stats      store.LogStats

	dirty, full chan struct{} // tell the goroutine: there is something, or enough
	stop        context.CancelFunc
	stopped     chan struct{}
	closing     sync.Once

	follow followed // of a DB that only reads
}

// Open opens a partition, which it claims unless it is for reading only.
func Open(ctx context.Context, url string, o Options) (_ *DB, err error) {
	o = o.withDefaults()
	db := &DB{
		o: o, s: newStatements(o.Schema), writer: newLock(), follow: followed{mu: newLock()}, cache: newCache(o.Cache), active: &overlay{}, over: make(chan struct{}),
		ended: make(chan struct{}), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			db.closePools()
		}
	}()
	if err := db.openPools(ctx, url); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		close(db.stopped)
		return db, db.views.pool.Ping(ctx)
	}
	if err := Migrate(ctx, db.writes, o.Schema); err != nil {
		return nil, err
	}
	if err := db.claim(ctx); err != nil {
		return nil, err
	}
	if o.Fill {
		if err := db.empty(ctx); err != nil {
			return nil, errors.Join(err, db.release())
		}
	}
	if err := db.recover(ctx); err != nil {
		_ = db.release()
		return nil, fmt.Errorf("read the log of partition %d: %w", o.Partition, err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.stop = stop
	go func() {
		defer close(db.stopped)
		db.keepUp(run)
	}()
	return db, nil
}

// openPools gives it connections, of the process or of its own.
func (db *DB) openPools(ctx context.Context, url string) error {
	if p := db.o.Pools; p != nil {
		db.writes, db.views = p.lanes()
		return nil
	}
	views, err := newPool(ctx, url, db.o, false, db.o.Views)
	if err != nil {
		return err
	}
	db.views = &lane{pool: views}
	if db.o.ReadOnly {
		return nil
	}
	writes, err := newPool(ctx, url, db.o, true, aloneWrites)
	if err != nil {
		return err
	}
	db.writes = &lane{pool: writes}
	return nil
}

func (db *DB) closePools() {
	if db.o.Pools != nil {
		return
	}
	for _, l := range []*lane{db.views, db.writes} {
		if l != nil {
			l.pool.Close()
		}
	}
}

// recover reads what the log has behind the checkpoint.
func (db *DB) recover(ctx context.Context) error {
	row := db.row
	db.last, db.checkpoint, db.renewed = row.Last, row.Checkpoint, row.Last
	var err error
	if db.ids, err = readTables(ctx, db.writes, db.s, db.o.Partition); err != nil {
		return err
	}
	r := replay{numbers: &db.numbers, own: db.active.writable(), next: row.Checkpoint}
	if err := r.read(ctx, db.writes, db.s, db.o.Partition); err != nil {
		return err
	}
	if r.next != row.Last {
		return fmt.Errorf("%w: the log ends with commit %d, the last one is %d", store.ErrCorrupt, r.next, row.Last)
	}
	db.active, db.memory = &r.own.overlay, r.bytes
	if r.bytes > 0 {
		tell(db.dirty)
	}
	return db.warm(ctx)
}

// asker is a pool, a connection or a transaction.
type asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// each calls fn with each row.
func each(ctx context.Context, a asker, fn func(rows pgx.Rows) error, sql string, args ...any) error {
	rows, err := a.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func readTables(ctx context.Context, a asker, s *statements, part int) (map[string]int32, error) {
	ids := make(map[string]int32)
	return ids, each(ctx, a, func(rows pgx.Rows) error {
		var id int32
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return err
		}
		ids[name] = id
		return nil
	}, s.tables, part)
}

// replay carries frames of the log out once more.
type replay struct {
	numbers *names.Numbers
	own     *writable
	next    uint64 // the last frame that was read
	bytes   int64
}

func (r *replay) read(ctx context.Context, a asker, s *statements, part int) error {
	return each(ctx, a, func(rows pgx.Rows) error {
		var n uint64
		var frame []byte
		if err := rows.Scan(&n, &frame); err != nil {
			return err
		}
		if n != r.next+1 {
			return fmt.Errorf("%w: commit %d follows %d", store.ErrCorrupt, n, r.next)
		}
		bytes, err := redo(frame, func(table string) *layer { return r.own.ownLayer(r.numbers.Of(table, true)) })
		if err != nil {
			return fmt.Errorf("commit %d: %w", n, err)
		}
		r.next, r.bytes = n, r.bytes+int64(bytes)
		return nil
	}, s.log, part, r.next)
}

// warmed is how many entries of each end of each table are read at the start: so that keys that grow find nothing
// known behind them, and small tables are known as a whole.
const warmed = 64

// warm reads the ends of the tables.
func (db *DB) warm(ctx context.Context) error {
	since := db.cache.now()
	for _, up := range []bool{true, false} {
		found := make(map[int32][]known)
		sql := db.s.warmLast
		if up {
			sql = db.s.warmFirst
		}
		for _, id := range db.ids {
			found[id] = nil
		}
		err := each(ctx, db.writes, func(rows pgx.Rows) error {
			var tab int32
			var e known
			if err := rows.Scan(&tab, &e.key, &e.value); err != nil {
				return err
			}
			if e.value == nil {
				e.value = []byte{}
			}
			found[tab] = append(found[tab], e)
			return nil
		}, sql, db.o.Partition, warmed)
		if err != nil {
			return err
		}
		for tab, entries := range found {
			learnEnd(db.cache, since, tab, entries, up)
		}
	}
	return nil
}

// learnEnd notes what the first or the last entries of a table are.
func learnEnd(c *cache, since uint64, tab int32, entries []known, up bool) {
	n := len(entries)
	switch {
	case n < warmed && !up:
		// The first entries have told all.
	case n < warmed:
		c.learn(since, tab, []byte{}, nil, entries)
	case up:
		c.learn(since, tab, []byte{}, following(entries[n-1].key), entries)
	default:
		slices.Reverse(entries)
		c.learn(since, tab, entries[0].key, nil, entries)
	}
}

// Session names this opening.
func (db *DB) Session() string { return db.o.Session }

// ReadOnly reports whether the partition is open for reading only.
func (db *DB) ReadOnly() bool { return db.o.ReadOnly }

// Claimed is the partition's row as it was claimed.
func (db *DB) Claimed() Row { return db.row }

// Broken gives the error for which everything is refused; nil: there is none.
func (db *DB) Broken() error {
	if broken := db.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// Break refuses everything from now on, for that reason.
func (db *DB) Break(err error) {
	if db.broken.CompareAndSwap(nil, &err) {
		close(db.over)
	}
}

// Over is closed once everything is refused, for the reason that Broken gives.
func (db *DB) Over() <-chan struct{} { return db.over }

// Begin starts a transaction, which must end with Stage or Rollback. One that writes
// waits until no other does, and for room where the checkpoint lags behind.
func (db *DB) Begin(ctx context.Context, write bool) (*Tx, error) {
	if err := db.Broken(); err != nil {
		return nil, err
	}
	if !write {
		return db.view(ctx)
	}
	if db.o.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := db.waitForRoom(ctx); err != nil {
		return nil, err
	}
	if err := db.writer.lockWithin(ctx); err != nil {
		return nil, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	tx := &Tx{db: db, write: true, ids: db.ids, frozen: db.frozen, end: db.writer.Unlock}
	tx.active, tx.last = db.newest()
	tx.reader = reader{ctx: ctx, part: db.o.Partition, s: db.s, from: db, cache: db.cache}
	if cap(db.rest) > 0 {
		tx.frame.parts = append(tx.frame.parts, db.rest)
	}
	return tx, nil
}

// newest gives what the last commit has left, be it shown or not, and its number. The
// caller holds mu.
func (db *DB) newest() (*overlay, uint64) {
	if last := len(db.staged) - 1; last >= 0 {
		return db.staged[last].active, db.staged[last].n
	}
	return db.active, db.last
}

// query implements queryer for the writer: a database that is away is waited for.
func (db *DB) query(ctx context.Context, begin func(), fn func(rows pgx.Rows) error, sql string, args ...any) error {
	return unreachable(ctx, db.patiently(ctx, func(ctx context.Context) error {
		begin()
		return each(ctx, db.writes, fn, sql, args...)
	}))
}

// attempt gives one of the attempts that patience is made of its time: a connection over which nothing comes any more is
// given up by then.
func (db *DB) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return attempt(ctx, db.o.Patience)
}

func attempt(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(patience/3, time.Second))
}

// patiently calls fn until it does not fail for a reason that passes, for as long as patience goes.
func (db *DB) patiently(ctx context.Context, fn func(ctx context.Context) error) error {
	return patiently(ctx, db.o.Patience, fn)
}

func patiently(ctx context.Context, patience time.Duration, fn func(ctx context.Context) error) error {
	began, pause := time.Now(), 5*time.Millisecond
	for {
		attempt, cut := attempt(ctx, patience)
		err := fn(attempt)
		cut()
		if err == nil || !passes(err) || ctx.Err() != nil || time.Since(began) > patience {
			return err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, time.Second)
	}
}

// readOnlyCode is the error of a session that may only read.
const readOnlyCode = "25006"

func isReadOnly(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == readOnlyCode
}

// passes reports whether what has failed may go well a moment later: the connection was lost, the server is
// starting or has too much to do, or a lock was not to be had.
func passes(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, store.ErrCorrupt)
	}
	switch pg.Code[:2] {
	case "08", "40", "53", "55", "57", "58": // connection, rollback, resources, state, intervention, system
		return true
	}
	return isReadOnly(err) || pg.Code == "25P03" // read-only, as a standby is until it is promoted; idle for too long
}

// waitForRoom waits while too much is in memory only.
func (db *DB) waitForRoom(ctx context.Context) error {
	for {
		db.mu.RLock()
		lags, failed, ended := db.memory > room*db.o.Bytes, db.failed, db.ended
		db.mu.RUnlock()
		if !lags {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("the log is full, and what it holds cannot be brought into the tables: %w", failed)
		}
		tell(db.full)
		select {
		case <-ended:
		case <-db.over:
			return db.Broken()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// room is how many times Bytes may be in memory before commits wait for the checkpoint.
const room = 4

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows
	}
}

// goodbye is how long a Close takes at most to give the partition back.
const goodbye = 5 * time.Second

// release gives the partition back.
func (db *DB) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	return db.patiently(ctx, func(ctx context.Context) error {
		_, err := db.writes.Exec(ctx, db.s.release, db.o.Partition, db.o.Session)
		return err
	})
}

// Close gives the partition back, so that another one may take it over at once. The log stays: whoever opens
// the partition next reads it. A second Close does nothing.
func (db *DB) Close() (err error) {
	db.closing.Do(func() { err = db.close() })
	return err
}

func (db *DB) close() error {
	if db.stop != nil {
		db.stop()
	}
	<-db.stopped
	var err error
	if broken := db.Broken(); !db.o.ReadOnly && !errors.Is(broken, store.ErrFenced) && !errors.Is(broken, errUnnoted) { // else nobody would notice
		if err = db.release(); err != nil {
			err = fmt.Errorf("give partition %d back: %w", db.o.Partition, err)
		}
	}
	db.closePools()
	return err
}
