package pgkv

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// A server that does not run, or has no connection left, is not asked again and again by each that wants to read.
func TestAViewAsksADatabaseThatRefusesConnectionsOnce(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/x?sslmode=disable")
		require.NoError(t, err)
		asked := 0
		c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			asked++
			return nil, errors.New("connection refused")
		}
		c.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		pool, err := pgxpool.NewWithConfig(ctx, c)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		o := Options{ReadOnly: readOnly}.withDefaults()
		db := &DB{o: o, s: newStatements(o.Schema), views: &lane{pool: pool}, active: &overlay{}}
		_, err = db.Begin(ctx, false)
		require.ErrorIs(t, err, store.ErrUnreachable)
		require.ErrorContains(t, err, "connection refused")
		assert.Equal(t, 1, asked, "read only: %v", readOnly)
	}
}

// A server that was started anew has ended the connections that wait in the pool: each turns out to be dead only as it is used.
func TestAViewTriesAgainWhereAConnectionHasDied(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	require.NoError(t, write(db, "k=1"))
	first, err := db.Begin(ctx, false)
	require.NoError(t, err)
	second, err := db.Begin(ctx, false)
	require.NoError(t, err)
	first.Rollback()
	second.Rollback()
	sql(t, url, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.Equal(t, []string{"k=1"}, read(t, db))
}

func TestWhoWaitsForAnotherTransactionWaitsNoLongerThanItsContext(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	require.NoError(t, write(db, "k=1"))
	reader := openDB(t, url, Options{ReadOnly: true})
	tx, err := db.Begin(ctx, true)
	require.NoError(t, err)
	reader.follow.mu.Lock() // as one that reads the log of a database which has gone silent
	gone := errors.New("the caller has gone")
	for name, begin := range map[string]func(ctx context.Context) (*Tx, error){ // order-free: each is a case by itself
		"a writer":            func(ctx context.Context) (*Tx, error) { return db.Begin(ctx, true) },
		"one that only reads": func(ctx context.Context) (*Tx, error) { return reader.Begin(ctx, false) },
	} {
		within, end := context.WithCancelCause(ctx)
		failed := make(chan error)
		go func() {
			_, err := begin(within)
			failed <- err
		}()
		if name != "a writer" { // it has its snapshot, and waits
			require.Eventually(t, func() bool {
				return sql(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`) == 1
			}, time.Minute, time.Millisecond)
		}
		end(gone)
		select {
		case err := <-failed:
			require.ErrorIs(t, err, gone, name)
		case <-time.After(time.Minute):
			require.Fail(t, "it waits on", name)
		}
	}
	ended, end := context.WithCancelCause(ctx)
	end(gone)
	require.ErrorIs(t, db.writer.lockWithin(ended), gone)
	reader.follow.mu.Unlock()
	tx.Rollback()
	require.NoError(t, db.writer.lockWithin(ended), "it is free")
	db.writer.Unlock()
	require.NoError(t, write(db, "k=2"), "nothing is left behind")
	require.Equal(t, []string{"k=2"}, read(t, reader))
}
