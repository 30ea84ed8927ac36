package pgkv

import (
	"context"
	"errors"
	"net"
	"testing"

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
