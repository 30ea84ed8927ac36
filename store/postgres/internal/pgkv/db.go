// Package pgkv keeps tables of ordered keys in PostgreSQL. A commit is one frame, a row of the table log that
// is written together with the fence; what the log has beyond the last checkpoint stands in memory,
// and every read merges it with the table entries. A goroutine brings the net change of many commits there.
//
// The files, in the order in which they are best read:
//
//   - schema.go: the tables, and what is sent to the database;
//   - frame.go: what a commit writes; overlay.go, gaps.go: what has changed since a checkpoint;
//   - cache.go, reader.go: what is known of the table entries, and how it gets known;
//   - tx.go, cursor.go: transactions, tables and cursors, which merge both;
//   - db.go: who owns a partition, and who sees what; commit.go: commits; checkpoint.go: checkpoints.
package pgkv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/orrery-go/orrery/store"
)

// Options of a [DB].
type Options struct {
	Schema    string
	Partition int
	Owner     string        // told to who finds the partition owned
	Address   string        // likewise
	Lease     time.Duration // how long an owner is silent before another one takes over; zero: 10 s
	Wait      bool          // Open waits until the owner has gone, or is silent
	Session   string        // names this opening; empty: a random name
	Bytes     int64         // in memory that begin a checkpoint; zero: 32 MiB
	After     time.Duration // in which a commit is brought into the table at the latest; zero: 5 s
	Cache     int64         // bytes of what is known of the table; zero: 64 MiB
	Logger    *slog.Logger
}

const (
	// DefaultLease is how long an owner may be silent.
	DefaultLease = 10 * time.Second
	defaultBytes = 32 << 20
	defaultAfter = 5 * time.Second
	defaultCache = 64 << 20
	// room is how many times Bytes may be in memory before commits wait for the checkpoint.
	room = 4
)

// ErrLost: the database does not have what it had acknowledged, as after a failover to a standby that was behind.
var ErrLost = errors.New("the database has lost commits that it had acknowledged")

// DB is a partition that this process owns. Its methods are safe for concurrent use; one transaction writes at a time.
type DB struct {
	o       Options
	pool    *pgxpool.Pool
	s       *statements
	numbers numbers
	cache   *cache
	writer  chan struct{} // holds one value while one writes, or freezes what was written
	working sync.Mutex    // held while a checkpoint is made
	rest    []byte        // room in memory that the last frame has left; the writer's
	broken  atomic.Pointer[error]
	over    chan struct{}
	ctx     context.Context
	stop    context.CancelCauseFunc
	beside  sync.WaitGroup

	commits    chan struct{} // tells the committer that something is staged
	dirty      chan struct{} // tells the goroutine of checkpoints: there is something, enough
	full       chan struct{}
	written    atomic.Uint64
	roundTrips atomic.Uint64

	mu         sync.RWMutex // guards what is below
	token      int64
	active     *overlay
	frozen     *overlay // nil: no checkpoint is under way
	staged     []*stagedCommit
	generation uint64 // grows when staged commits have failed: what was built on them is void
	last       uint64 // the number of the last commit that is shown
	upTo       uint64 // the last commit in frozen
	inBase     uint64 // the last commit that the table has
	bytes      int64  // of the frames in active
	aside      int64  // and in frozen
	frames     uint64 // commits in active and frozen
	ids        map[string]int32
	nextID     int32
	failed     error         // of the last checkpoint
	ended      chan struct{} // closed when the checkpoint under way ends
	made       store.LogStats
}

// Row is what the database says of a partition.
type Row struct {
	Token, Last, Checkpoint, Beat int64
	Session, Owner, Address       string
}

func scanRow(row pgx.Row) (r Row, err error) {
	err = row.Scan(&r.Token, &r.Last, &r.Checkpoint, &r.Beat, &r.Session, &r.Owner, &r.Address)
	return r, err
}

// Open claims a partition and reads its log.
func Open(ctx context.Context, config *pgxpool.Config, o Options) (*DB, error) {
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	if o.After == 0 {
		o.After = defaultAfter
	}
	if o.Cache == 0 {
		o.Cache = defaultCache
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Session == "" {
		o.Session = rand.Text()
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := &DB{
		o: o, pool: pool, s: newStatements(o.Schema), cache: newCache(int(o.Cache)), writer: make(chan struct{}, 1), over: make(chan struct{}),
		commits: make(chan struct{}, 1), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1), active: &overlay{}, ended: make(chan struct{}),
	}
	if err := db.open(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	db.ctx, db.stop = context.WithCancelCause(context.Background())
	db.beside.Go(db.commitAll)
	db.beside.Go(db.keepUp)
	db.beside.Go(db.renew)
	return db, nil
}

func (db *DB) open(ctx context.Context) error {
	err := db.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return prepare(ctx, c.Conn(), db.o.Schema, db.o.Partition, db.s)
	})
	if err != nil {
		return err
	}
	if err := db.claim(ctx); err != nil {
		return err
	}
	if err := db.recover(ctx); err != nil {
		_, _ = db.pool.Exec(ctx, db.s.leave, db.o.Partition, db.o.Session)
		return err
	}
	return nil
}

// Look reads the row of the partition.
func (db *DB) look(ctx context.Context) (Row, error) {
	return scanRow(db.pool.QueryRow(ctx, db.s.row, db.o.Partition))
}

// claim takes the partition once nobody owns it, or its owner is silent for as long as the lease. Silence is
// measured by the own steady clock, and only while the database answers.
func (db *DB) claim(ctx context.Context) error {
	every := db.o.Lease / 20
	var seen Row
	var silent time.Duration
	for first := true; ; first = false {
		began := time.Now()
		r, err := db.look(ctx)
		if err != nil && (first || ctx.Err() != nil) {
			return err
		}
		switch {
		case err != nil:
			silent = 0 // the owner cannot have given a sign of life either
		case r.Session == "" || r == seen && silent >= db.o.Lease:
			if taken, err := db.takeOver(ctx, r); taken || err != nil {
				return err
			}
		case r != seen:
			if seen, silent = r, 0; !first && !db.o.Wait {
				return fmt.Errorf("partition %d: %w: %s", db.o.Partition, store.ErrClaimed, r)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("partition %d: %w: %s: %w", db.o.Partition, store.ErrClaimed, seen, context.Cause(ctx))
		case <-time.After(every):
		}
		if took := time.Since(began); err == nil && took < db.o.Lease/2 { // else this process was frozen, or the database was slow
			silent += took
		} else {
			silent = 0
		}
	}
}

// String says who owns the partition.
func (r Row) String() string {
	s := "by " + r.Owner
	if r.Owner == "" {
		s = "by session " + r.Session
	}
	if r.Address != "" {
		s += " at " + r.Address
	}
	return s
}

func (db *DB) takeOver(ctx context.Context, r Row) (bool, error) {
	var last, checkpoint int64
	row := db.pool.QueryRow(ctx, db.s.take, db.o.Partition, r.Token, r.Beat, r.Last, db.o.Session, db.o.Owner, db.o.Address)
	switch err := row.Scan(&db.token, &last, &checkpoint); {
	case errors.Is(err, pgx.ErrNoRows): // another one was faster
		return false, nil
	case err != nil:
		return false, err
	}
	db.last, db.inBase = uint64(last), uint64(checkpoint)
	return true, nil
}

// recover reads the tables' numbers, and what the log has beyond the last checkpoint.
func (db *DB) recover(ctx context.Context) (err error) {
	if db.ids, err = readIDs(ctx, db.pool, db.s, db.o.Partition); err != nil {
		return err
	}
	for _, id := range db.ids {
		db.nextID = max(db.nextID, id)
	}
	rows, err := db.pool.Query(ctx, db.s.log, db.o.Partition, int64(db.inBase))
	if err != nil {
		return err
	}
	defer rows.Close()
	w := (&overlay{}).writable()
	n := db.inBase
	for rows.Next() {
		var is int64
		var frame []byte
		if err := rows.Scan(&is, &frame); err != nil {
			return err
		}
		if n++; uint64(is) != n {
			return fmt.Errorf("the log: %w: commit %d is missing, %d comes next", store.ErrCorrupt, n, is)
		}
		bytes, err := redo(frame, func(table string) *layer { return w.ownLayer(db.numbers.of(table, true)) })
		if err != nil {
			return fmt.Errorf("the log: commit %d: %w", n, err)
		}
		db.bytes += int64(bytes)
		db.frames++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != db.last {
		return fmt.Errorf("the log: %w: it ends with commit %d, and the last one was %d", store.ErrCorrupt, n, db.last)
	}
	db.active = &w.overlay
	if db.frames > 0 {
		tell(db.dirty)
	}
	return nil
}

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readIDs(ctx context.Context, from querier, s *statements, part int) (map[string]int32, error) {
	rows, err := from.Query(ctx, s.tables, part)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]int32)
	var id int32
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		ids[name] = id
		return nil
	})
	return ids, err
}

// renew gives signs of life.
func (db *DB) renew() {
	every := time.NewTicker(db.o.Lease / 5)
	defer every.Stop()
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-every.C:
		}
		ctx, cancel := context.WithTimeout(db.ctx, db.o.Lease)
		done, err := db.pool.Exec(ctx, db.s.beat, db.o.Partition, db.o.Session)
		cancel()
		if err == nil && done.RowsAffected() == 0 {
			db.Break(fmt.Errorf("partition %d: %w", db.o.Partition, store.ErrFenced))
		}
	}
}

// Session names this opening.
func (db *DB) Session() string { return db.o.Session }

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

// Begin starts a transaction that writes, which must end with Stage or Rollback. It waits until no other
// one writes, and for room where the checkpoint lags behind.
func (db *DB) Begin(ctx context.Context) (*Tx, error) {
	if err := db.waitForRoom(ctx); err != nil {
		return nil, err
	}
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	tx := &Tx{db: db, ids: db.ids, frozen: db.frozen, write: true, generation: db.generation, end: db.unlock}
	tx.active, tx.last = db.newest()
	tx.reader = reader{ctx: ctx, part: db.o.Partition, s: db.s, from: patient{db}, cache: db.cache}
	if cap(db.rest) > 0 {
		tx.frame.parts = append(tx.frame.parts, db.rest)
	}
	return tx, nil
}

func (db *DB) lock(ctx context.Context) error {
	select {
	case db.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (db *DB) unlock() { <-db.writer }

// View starts a transaction that only reads, in a snapshot of the database. It must end with Rollback.
func (db *DB) View(ctx context.Context) (*Tx, error) {
	for {
		if err := db.Broken(); err != nil && !errors.Is(err, store.ErrFenced) && !errors.Is(err, ErrLost) {
			return nil, err
		}
		tx, ok, err := db.view(ctx)
		if ok || err != nil {
			return tx, err
		}
	}
}

// view tries View once. The overlays fit above what the snapshot has if that is of a checkpoint from the one beneath
// them on, up to their own last commit; else several checkpoints were made meanwhile.
func (db *DB) view(ctx context.Context) (_ *Tx, ok bool, err error) {
	db.mu.RLock()
	tx := &Tx{db: db, active: db.active, frozen: db.frozen, last: db.last}
	least := db.inBase
	db.mu.RUnlock()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	tx.end = func() {
		// A connection that cannot end its transaction is closed by the pool.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = conn.Exec(end, "ROLLBACK")
		conn.Release()
	}
	defer func() {
		if !ok {
			tx.end()
		}
	}()
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	b.Queue(db.s.row, db.o.Partition)
	b.Queue(db.s.tables, db.o.Partition)
	results := conn.SendBatch(ctx, b)
	_, err = results.Exec()
	var r Row
	if err == nil {
		r, err = scanRow(results.QueryRow())
	}
	if err == nil {
		tx.ids, err = readIDs(ctx, queried{results}, db.s, db.o.Partition)
	}
	err = errors.Join(err, results.Close())
	db.roundTrips.Add(1)
	if err != nil {
		return nil, false, err
	}
	tx.reader = reader{ctx: ctx, part: db.o.Partition, s: db.s, from: once{conn.Conn(), db}, cache: newCache(int(db.o.Cache / 8))}
	base := uint64(r.Checkpoint)
	return tx, least <= base && base <= tx.last, nil
}

// queried gives the next result of a batch.
type queried struct{ pgx.BatchResults }

func (q queried) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return q.BatchResults.Query()
}

// waitForRoom waits while too much is in memory only.
func (db *DB) waitForRoom(ctx context.Context) error {
	for {
		db.mu.RLock()
		lags, failed, ended := db.bytes > room*db.o.Bytes, db.failed, db.ended
		db.mu.RUnlock()
		if err := db.Broken(); err != nil || !lags {
			return err
		}
		if failed != nil {
			return fmt.Errorf("too much is in the log, and cannot be brought into the table: %w", failed)
		}
		select {
		case <-ended:
		case <-db.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Stats tells what the log holds beyond the table, and of checkpoints.
func (db *DB) Stats() store.LogStats {
	db.mu.RLock()
	defer db.mu.RUnlock()
	s := db.made
	s.Frames, s.Bytes, s.Memory = db.frames, db.bytes+db.aside, db.bytes+db.aside
	s.Fill = float64(db.bytes) / float64(room*db.o.Bytes)
	s.Written, s.Err = db.written.Load(), db.failed
	return s
}

// RoundTrips counts the requests to the database that reads and commits have waited for.
func (db *DB) RoundTrips() uint64 { return db.roundTrips.Load() }

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows
	}
}

// Close brings all into the table, where that can be done, gives the partition back, and closes the connections.
func (db *DB) Close() error {
	var err error
	if db.Broken() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), db.o.Lease)
		defer cancel()
		err = db.Checkpoint(ctx)
		if _, left := db.pool.Exec(ctx, db.s.leave, db.o.Partition, db.o.Session); left != nil {
			err = errors.Join(err, fmt.Errorf("give the partition back: %w", left))
		}
	}
	db.stop(store.ErrClosed)
	db.Break(store.ErrClosed)
	db.beside.Wait()
	db.pool.Close()
	return err
}
