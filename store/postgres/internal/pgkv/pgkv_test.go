package pgkv

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

var ctx = context.Background()

func openDB(t *testing.T, url string, o Options) *DB {
	t.Helper()
	if o.After == 0 {
		o.After = time.Hour
	}
	db, err := Open(ctx, url, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// write commits entries of the table t, "k=v" or "k" for one to be deleted.
func write(db *DB, entries ...string) error {
	tx, err := db.Begin(ctx, true)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, e := range entries {
		if k, v, is := strings.Cut(e, "="); is {
			tx.Table("t").Put([]byte(k), []byte(v))
		} else {
			tx.Table("t").Delete([]byte(k))
		}
	}
	return tx.Commit()
}

// read gives all entries of the table t in a new View.
func read(t *testing.T, db *DB) (entries []string) {
	t.Helper()
	tx, err := db.Begin(ctx, false)
	require.NoError(t, err)
	defer tx.Rollback()
	c := tx.Table("t").Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		entries = append(entries, fmt.Sprintf("%s=%s", k, v))
	}
	return entries
}

// sql runs a statement on a connection of its own, and gives the one number that it finds.
func sql(t *testing.T, url, statement string) (n int64) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	rows, err := c.Query(ctx, statement)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		require.NoError(t, rows.Scan(&n))
	}
	require.NoError(t, rows.Err())
	return n
}

// hook is told of each statement before it is sent.
type hook func(sql string)

func (h hook) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	h(d.SQL)
	return ctx
}

func (hook) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (h hook) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	h(d.Batch.QueuedQueries[0].SQL)
	return ctx
}

func (hook) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (hook) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// onSQL has fn called once, before the first statement that has such a part.
func onSQL(part string, fn func()) func(*pgxpool.Config) {
	var once sync.Once
	return func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = hook(func(sql string) {
			if strings.Contains(sql, part) {
				once.Do(fn)
			}
		})
	}
}

func TestNoPortionOfACheckpointIsWrittenByAnOwnerThatWasReplaced(t *testing.T) {
	url := postgrestest.Database(t)
	first := openDB(t, url, Options{Portion: 1})
	require.NoError(t, write(first, "a=1", "b=1", "c=1"))
	second := openDB(t, url, Options{TakeOver: true})
	require.ErrorIs(t, first.Checkpoint(ctx), store.ErrFenced)
	require.Zero(t, sql(t, url, `SELECT count(*) FROM orrery.entries`), "not even the first portion of three")
	require.ErrorIs(t, first.Broken(), store.ErrFenced)
	require.Equal(t, []string{"a=1", "b=1", "c=1"}, read(t, second))
}

func TestAViewSeesNothingOfACheckpointThatHasWhatItDoesNotSee(t *testing.T) {
	url := postgrestest.Database(t)
	var db *DB
	db = openDB(t, url, Options{Configure: onSQL("BEGIN ISOLATION", func() {
		if err := write(db, "k=new", "other=new"); err != nil {
			panic(err)
		}
		if err := db.Checkpoint(ctx); err != nil {
			panic(err)
		}
	})})
	require.NoError(t, write(db, "k=old"))
	require.NoError(t, db.Checkpoint(ctx))
	tx, err := db.Begin(ctx, false)
	require.NoError(t, err)
	defer tx.Rollback()
	v, _ := tx.Table("t").Get([]byte("k"))
	require.Equal(t, "2 new", fmt.Sprintf("%d %s", tx.Last(), v), "the memory it began with is of commit 1")
}

func TestWhatWasReadBeforeACheckpointIsNotKnownAfterIt(t *testing.T) {
	c := newCache(1 << 20)
	since := c.now()
	o := (&overlay{}).writable()
	o.ownLayer(0).put(entry{key: []byte("k"), value: []byte("new")})
	c.apply(&o.overlay, func(int) int32 { return 1 }, nil)
	c.learn(since, 1, []byte{}, nil, []known{{[]byte("k"), []byte("old")}})
	_, _, isKnown := c.get(1, []byte("k"))
	require.False(t, isKnown, "it is to be read anew")
	c.learn(c.now(), 1, []byte{}, nil, []known{{[]byte("k"), []byte("new")}})
	v, ok, isKnown := c.get(1, []byte("k"))
	require.Equal(t, []any{"new", true, true}, []any{string(v), ok, isKnown})
}

func TestACheckpointEndsNobodyWhoHasThePartitionsRow(t *testing.T) {
	was := blockedFor
	blockedFor = time.Millisecond
	defer func() { blockedFor = was }()
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{After: time.Hour}) // none is made but the test's
	require.NoError(t, write(db, "k=1"))
	holder, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = holder.Close(ctx) }()
	tx, err := holder.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE orrery.partitions SET beat = beat`)
	require.NoError(t, err)
	var made error
	var checkpoint sync.WaitGroup
	checkpoint.Go(func() { made = db.Checkpoint(ctx) })
	require.Eventually(t, func() bool {
		return sql(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, time.Minute, time.Millisecond)
	sql(t, url, `SELECT 1 FROM pg_sleep(0.1)`) // a hundred looks at who is waited for
	require.NoError(t, tx.Commit(ctx), "it was not ended")
	checkpoint.Wait()
	require.NoError(t, made)
}

func TestWhoWaitsForAClaimEndsThoseWhoAreFrozenAndNobodyElse(t *testing.T) {
	was := blockedFor
	blockedFor = time.Millisecond
	defer func() { blockedFor = was }()
	url := postgrestest.Database(t)
	openDB(t, url, Options{})
	frozen, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = frozen.Close(ctx) }()
	tx, err := frozen.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `UPDATE orrery.partitions SET beat = beat`)
	require.NoError(t, err)
	next := openDB(t, url, Options{TakeOver: true})
	require.Error(t, tx.Commit(ctx), "it waited for its client, in a transaction")
	require.NoError(t, write(next, "k=1"))

	// It is at work until it may lock 2, and has locked 1 once it has the row.
	busy, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = busy.Close(ctx) }()
	holder, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = holder.Close(ctx) }()
	_, err = holder.Exec(ctx, `SELECT pg_advisory_lock(2)`)
	require.NoError(t, err)
	var worked, opened error
	var work sync.WaitGroup
	work.Go(func() {
		_, worked = busy.Exec(ctx, `UPDATE orrery.partitions SET beat = beat; SELECT pg_advisory_xact_lock(1);
			DO $$ BEGIN WHILE NOT pg_try_advisory_xact_lock(2) LOOP PERFORM pg_sleep(0.001); END LOOP; END $$`)
	})
	require.Eventually(t, func() bool {
		return sql(t, url, `SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE datname = current_database() AND locktype = 'advisory' AND objid = 1`) == 1
	}, time.Minute, time.Millisecond)
	var last *DB
	work.Go(func() { last, opened = Open(ctx, url, Options{TakeOver: true}) })
	require.Eventually(t, func() bool {
		return sql(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	}, time.Minute, time.Millisecond)
	sql(t, url, `SELECT 1 FROM pg_sleep(0.1)`) // a hundred looks at who is waited for
	_, err = holder.Exec(ctx, `SELECT pg_advisory_unlock(2)`)
	require.NoError(t, err)
	work.Wait()
	require.NoError(t, opened)
	require.NoError(t, last.Close())
	require.NoError(t, worked, "it was at work")
}

// lost makes the database one that has gone back, as a standby that lagged behind.
func lost(t *testing.T, url, statements string) { t.Helper(); sql(t, url, statements) }

func TestAnOwnerWhoseCheckpointIsGoneStopsAndIsOpenedAnewWithoutLoss(t *testing.T) {
	for name, learn := range map[string]func(db *DB) error{
		"commit": func(db *DB) error { return write(db, "later=1") },
		"view":   func(db *DB) error { _, err := db.Begin(ctx, false); return err },
		"renew":  func(db *DB) error { return db.Renew(ctx) },
		"renew with others": func(db *DB) error {
			_, _, err := (&Cluster{o: db.o, pool: db.writes, s: db.s}).Renew(ctx, "", "", []*DB{nil, db})
			return errors.Join(err, db.Broken())
		},
		"checkpoint": func(db *DB) error {
			db.frozen, db.upTo = &overlay{}, db.last
			return db.Checkpoint(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := postgrestest.Database(t)
			db := openDB(t, url, Options{})
			require.NoError(t, write(db, "a=1"))
			sql(t, url, `CREATE TABLE orrery.kept AS SELECT * FROM orrery.log`)
			require.NoError(t, db.Checkpoint(ctx))
			lost(t, url, `WITH a AS (INSERT INTO orrery.log SELECT * FROM orrery.kept), b AS (DELETE FROM orrery.entries), c AS (DELETE FROM orrery.tables)
				UPDATE orrery.partitions SET checkpoint = 0, target = 0`)
			require.ErrorIs(t, learn(db), errBehind)
			require.ErrorIs(t, db.Broken(), errBehind)
			require.NoError(t, db.Close())
			again := openDB(t, url, Options{})
			require.Equal(t, []string{"a=1"}, read(t, again))
		})
	}
}

func TestACheckpointOfWhichAPortionIsGoneIsMadeFromItsBeginning(t *testing.T) {
	url := postgrestest.Database(t)
	portions := 0
	db := openDB(t, url, Options{Portion: 1, Configure: func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = hook(func(statement string) {
			if !strings.Contains(statement, "INSERT INTO \"orrery\".entries") {
				return
			}
			if portions++; portions == 2 { // the first one is gone
				lost(t, url, `WITH a AS (DELETE FROM orrery.entries) UPDATE orrery.partitions SET steps = steps - 1, target = 0`)
			}
		})
	}})
	require.NoError(t, write(db, "a=1", "b=1", "c=1"))
	require.ErrorIs(t, db.Checkpoint(ctx), errRefused)
	require.NoError(t, db.Broken())
	require.NoError(t, db.Checkpoint(ctx))
	require.Equal(t, int64(3), sql(t, url, `SELECT count(*) FROM orrery.entries`))
	require.Equal(t, []string{"a=1", "b=1", "c=1"}, read(t, db))
}

func TestACheckpointAfterALostCommitDestroysNothing(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	require.NoError(t, write(db, "a=1"))
	require.NoError(t, write(db, "b=1"))
	lost(t, url, `WITH a AS (DELETE FROM orrery.log WHERE n = 2) UPDATE orrery.partitions SET last = 1`)
	require.ErrorIs(t, db.Checkpoint(ctx), ErrLost)
	require.ErrorIs(t, db.Broken(), ErrLost)
	require.NoError(t, db.Close())
	_, err := Open(ctx, url, Options{})
	require.ErrorIs(t, err, ErrLost)
	require.Equal(t, []string{"a=1"}, read(t, openDB(t, url, Options{AcceptLoss: true})))
}

func TestAnOwnerWhoseClaimIsGoneWithItsCommitsStopsWhoeverGoesOnFromBeforeIt(t *testing.T) {
	url := postgrestest.Database(t)
	before := openDB(t, url, Options{Session: "before"})
	require.NoError(t, write(before, "a=1"))
	after := openDB(t, url, Options{Session: "after", TakeOver: true})
	require.NoError(t, write(after, "b=1"))
	require.NoError(t, write(after, "c=1"))
	lost(t, url, `WITH a AS (DELETE FROM orrery.log WHERE n > 1) UPDATE orrery.partitions SET last = 1, token = token - 1, session = 'before'`)
	require.NoError(t, write(before, "z=1"), "it does not know better")
	require.ErrorIs(t, after.Renew(ctx), ErrLost)
	err := write(before, "y=1")
	require.ErrorIs(t, err, store.ErrFenced)
	require.ErrorIs(t, err, ErrLost)
	_, err = Open(ctx, url, Options{TakeOver: true})
	require.ErrorIs(t, err, ErrLost)
}

func TestWhoOnlyReadsForgetsWhatItHasReadOfALogThatWentBack(t *testing.T) {
	url := postgrestest.Database(t)
	owner := openDB(t, url, Options{})
	reader := openDB(t, url, Options{ReadOnly: true})
	require.NoError(t, write(owner, "a=1"))
	require.NoError(t, write(owner, "gone=1"))
	require.Equal(t, []string{"a=1", "gone=1"}, read(t, reader))
	lost(t, url, `WITH a AS (DELETE FROM orrery.log WHERE n = 2) UPDATE orrery.partitions SET last = 1, session = ''`)
	next := openDB(t, url, Options{TakeOver: true})
	require.NoError(t, write(next, "b=1"))
	require.NoError(t, write(next, "c=1"))
	require.Equal(t, []string{"a=1", "b=1", "c=1"}, read(t, reader))
}

func TestOneStatementHasNoMoreThanTheServerTakes(t *testing.T) {
	big := make([]byte, mostTogether/2)
	require.Equal(t, 1, together([]staged{{frame: make([]byte, mostTogether+1)}, {frame: big}}))
	require.Equal(t, 2, together([]staged{{frame: big}, {frame: big}, {frame: big}}))
	require.Equal(t, 3, together([]staged{{}, {}, {}}))
}

func TestADeletionOfManyRowsIsManyTransactionsOfACheckpoint(t *testing.T) {
	const rows = 2*mostRows + mostRows/2
	for name, remove := range map[string]func(table *Table){
		"one by one": func(table *Table) {
			for n := range rows {
				table.Delete(fmt.Appendf(nil, "%06d", n))
			}
		},
		"a whole table": func(table *Table) { table.tx.Drop(table.name) },
	} {
		t.Run(name, func(t *testing.T) {
			url := postgrestest.Database(t)
			db := openDB(t, url, Options{})
			change := func(fn func(table *Table)) {
				tx, err := db.Begin(ctx, true)
				require.NoError(t, err)
				fn(tx.Table("t"))
				require.NoError(t, tx.Commit())
				require.NoError(t, db.Checkpoint(ctx))
			}
			change(func(table *Table) {
				for n := range rows {
					table.Put(fmt.Appendf(nil, "%06d", n), []byte("v"))
				}
			})
			require.Equal(t, int64(rows), sql(t, url, `SELECT count(*) FROM orrery.entries`))
			before := sql(t, url, `SELECT steps FROM orrery.partitions`)
			change(func(table *Table) {
				remove(table)
				table.Put([]byte("new"), []byte("v"))
			})
			require.GreaterOrEqual(t, sql(t, url, `SELECT steps FROM orrery.partitions`), before+3)
			require.Equal(t, int64(1), sql(t, url, `SELECT count(*) FROM orrery.entries`))
			require.Equal(t, []string{"new=v"}, read(t, db))
		})
	}
}

func TestWhoDeletesOnItsWayReadsMoreTheFurtherItGoes(t *testing.T) {
	const rows = 2000
	url := postgrestest.Database(t)
	first := openDB(t, url, Options{})
	tx, err := first.Begin(ctx, true)
	require.NoError(t, err)
	for n := range rows {
		tx.Table("t").Put(fmt.Appendf(nil, "%06d", n), []byte("v"))
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, first.Checkpoint(ctx))
	require.NoError(t, first.Close())
	reads := 0
	db := openDB(t, url, Options{Configure: func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = hook(func(sql string) {
			if strings.Contains(sql, "k >= $3 ") && !strings.Contains(sql, "LATERAL") {
				reads++
			}
		})
	}})
	tx, err = db.Begin(ctx, true)
	require.NoError(t, err)
	c := tx.Table("t").Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		tx.Table("t").Delete(k)
	}
	require.NoError(t, tx.Commit())
	require.Positive(t, reads)
	require.LessOrEqual(t, reads, 10)
	require.Empty(t, read(t, db))
}

func TestSessionsThatBeganReadOnlyAreNoneOnceTheDatabaseIsNot(t *testing.T) {
	url := postgrestest.Database(t)
	anyway, err := neturl.Parse(url)
	require.NoError(t, err)
	q := anyway.Query()
	q.Set("default_transaction_read_only", "off")
	anyway.RawQuery = q.Encode()
	refused := make(chan struct{})
	refuses := sync.OnceFunc(func() { close(refused) })
	db := openDB(t, url, Options{Configure: func(c *pgxpool.Config) {
		hear := c.ConnConfig.OnPgError
		c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
			if err.Code == readOnlyCode {
				refuses()
			}
			return hear(conn, err)
		}
	}})
	require.NoError(t, write(db, "a=1"))
	sql(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	sql(t, url, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	written := make(chan error, 1)
	go func() { written <- write(db, "b=1") }()
	select {
	case err := <-written:
		require.Fail(t, "a read-only database has taken it", "%v", err)
	case <-refused:
	}
	sql(t, anyway.String(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$`)
	select {
	case err := <-written:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the sessions of before are still used")
	}
	require.NoError(t, write(db, "c=1"))
}
