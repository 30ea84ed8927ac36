package postgres_test

import (
	"net/url"
	"os"
	programs "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// shown gives the blocks of a language that the guide for operators has, in order.
func shown(t *testing.T, lang string) (blocks []string) {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "postgres.md"))
	require.NoError(t, err)
	parts := strings.Split(string(guide), "\n```")
	for i := 1; i < len(parts); i += 2 {
		if block, is := strings.CutPrefix(parts[i], lang+"\n"); is {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// as is a URL for another role.
func as(t *testing.T, to, role string) string {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	u.User = url.User(role)
	return u.String()
}

func TestTheRolesAndQueriesOfTheGuideAreEnough(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true}) // roles belong to a server
	url := server.Database(t)
	sql := shown(t, "sql")
	require.Len(t, sql, 5)
	roles := strings.NewReplacer("ROLE orrery ", "ROLE orrery_owns ", "AUTHORIZATION orrery;", "AUTHORIZATION orrery_owns;") // orrery is the superuser here
	exec(t, url, `REVOKE ALL ON SCHEMA public FROM PUBLIC; `+roles.Replace(sql[0]))
	owner := as(t, url, "orrery_owns")
	_, err := postgres.Connect(ctx, owner, postgres.Options{Schema: "another"})
	require.ErrorContains(t, err, "make the tables of schema another: the role may not make them: have an administrator run CREATE SCHEMA another AUTHORIZATION with its name")
	made := open(t, owner, postgres.Options{})
	require.NoError(t, create(made, 0, 5))
	require.NoError(t, postgres.Checkpoint(ctx, made))
	require.NoError(t, made.Close())

	exec(t, owner, `CREATE TABLE orrery.other ()`) // the role that runs may not
	exec(t, owner, `DROP TABLE orrery.other`)
	exec(t, url, strings.SplitAfter(sql[1], "\n")[0])
	exec(t, owner, strings.Join(strings.SplitAfter(sql[1], "\n")[1:], ""))
	runs := as(t, url, "orrery_runs")
	first := open(t, runs, postgres.Options{})
	require.NoError(t, create(first, 5, 5))
	require.NoError(t, postgres.Checkpoint(ctx, first))
	next := open(t, runs, postgres.Options{TakeOver: true})
	require.ErrorIs(t, create(first, 20, 1), store.ErrFenced)
	requireCount(t, next, 10)
	c, err := pgx.Connect(ctx, runs)
	require.NoError(t, err)
	_, err = c.Exec(ctx, `CREATE TABLE orrery.mine ()`)
	require.ErrorContains(t, err, "permission denied")
	require.NoError(t, c.Close(ctx))

	exec(t, url, strings.SplitAfter(sql[2], "\n")[0])
	exec(t, owner, strings.Join(strings.SplitAfter(sql[2], "\n")[1:], ""))
	requireCount(t, open(t, as(t, url, "orrery_looks"), postgres.Options{ReadOnly: true}), 10)
	exec(t, url, roles.Replace(sql[3]))
	exec(t, url, sql[4])
}

func TestADumpOfARunningPartitionIsWhole(t *testing.T) {
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	require.NoError(t, err)
	if len(bins) == 0 {
		t.Skip("no pg_dump here")
	}
	from, to := postgrestest.Database(t), postgrestest.Database(t)
	s := open(t, from, postgres.Options{})
	require.NoError(t, create(s, 0, 5))
	require.NoError(t, postgres.Checkpoint(ctx, s))
	require.NoError(t, create(s, 5, 5)) // the log alone has these
	dump := filepath.Join(t.TempDir(), "orrery.dump")
	bin := filepath.Dir(bins[len(bins)-1])
	out, err := programs.CommandContext(ctx, filepath.Join(bin, "pg_dump"), "--format=custom", "--schema=orrery", "--file="+dump, from).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, create(s, 10, 5))
	out, err = programs.CommandContext(ctx, filepath.Join(bin, "pg_restore"), "--dbname="+to, dump).CombinedOutput()
	require.NoError(t, err, string(out))
	restored := open(t, to, postgres.Options{TakeOver: true})
	requireCount(t, restored, 10)
	require.NoError(t, create(restored, 10, 5))
}
