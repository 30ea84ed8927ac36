//go:build unix

package cli

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// execSQL carries out statements on a database.
func execSQL(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// The grants are those of docs/postgres.md, which a test of package postgres carries out.
func TestARoleThatMayOnlyReadIsEnoughForTheCommandsThatLookBesideADaemon(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true}) // roles belong to a server
	database := server.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", "2")
	require.Zero(t, r.code, r.err)
	p := start(t, "--database", database, "--config", member(t, "only"))
	require.Eventually(t, func() bool {
		_, text := p.readiness()
		return strings.Contains(text, `"owned":2`)
	}, patience, 20*time.Millisecond)
	id := p.add("--wait", "--", "echo", "x")

	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	execSQL(t, database, `CREATE ROLE looks LOGIN; GRANT USAGE ON SCHEMA orrery TO looks; GRANT SELECT ON ALL TABLES IN SCHEMA orrery TO looks`)
	as, err := url.Parse(database)
	require.NoError(t, err)
	as.User = url.User("looks")
	looks := [][]string{
		{"check"}, {"check", "--partition", "1"}, {"replay", "--verify", "--partition", "1"}, {"quarantine", "--partition", "0"},
		{"history", "action/" + id, "--partition", "0"}, {"history", "action/" + id, "--partition", "1"},
	}
	found := 0
	for _, args := range looks {
		r := cli(t, nil, "", append(args, "--database", as.String())...)
		assert.NotContains(t, r.err, "permission denied", "%v", args)
		if args[0] != "history" { // the action is in one of the two
			assert.Zero(t, r.code, "%v: %s", args, r.err)
		} else if r.code == 0 {
			found++
		}
	}
	assert.Equal(t, 1, found)
	p.signal(os.Interrupt)
	require.Zero(t, p.code())

	format := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT format FROM orrery.meta`).Scan(&n))
		return n
	}
	now := format()
	execSQL(t, database, `UPDATE orrery.meta SET format = format - 1`)
	for _, args := range looks {
		r := cli(t, nil, "", append(args, "--database", database)...) // which might change all
		assert.Equal(t, exitFailed, r.code, "%v: %s", args, r.out)
		assert.Contains(t, r.err, "the tables are those of an earlier version", "%v", args)
	}
	assert.Equal(t, now-1, format(), "who only looks brings tables to no new format")
}
