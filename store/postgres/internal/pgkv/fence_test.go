package pgkv

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// watcher is an opening that has looked at the partition of another one, and not claimed it yet.
func watcher(of *DB, o Options) *DB {
	o.Session, o.Owner = "of the watcher", "watcher"
	return &DB{o: o.withDefaults(), s: of.s, writes: of.writes}
}

// Somebody may give a sign of life, claim the partition or stop it between the look and the claim.
func TestAClaimTakesAPartitionOnlyAsItWasSeen(t *testing.T) {
	url := postgrestest.Database(t)
	a := openDB(t, url, Options{Owner: "a"})
	look := func() Row {
		t.Helper()
		row, err := scanRow(a.writes.QueryRow(ctx, a.s.look, 0))
		require.NoError(t, err)
		return row
	}
	seen := look()
	require.NoError(t, a.Renew(ctx))
	_, err := watcher(a, Options{}).take(ctx, seen)
	require.ErrorIs(t, err, pgx.ErrNoRows, "its owner has given a sign of life since")
	seen = look()
	row, err := watcher(a, Options{}).take(ctx, seen)
	require.NoError(t, err)
	assert.Equal(t, []any{seen.Token + 1, "watcher"}, []any{row.Token, row.Owner})
	assert.Greater(t, row.Beat, seen.Beat, "whoever looks at it sees a sign of life")

	sql(t, url, `UPDATE orrery.partitions SET session = '', owner = ''`)
	_, err = watcher(a, Options{}).take(ctx, seen)
	require.ErrorIs(t, err, pgx.ErrNoRows, "somebody has claimed it since, and given it back")
	seen = look()
	sql(t, url, `UPDATE orrery.partitions SET halted = 'commits are not there'`)
	_, err = watcher(a, Options{}).take(ctx, seen)
	require.ErrorIs(t, err, pgx.ErrNoRows, "it was stopped since")
	row, err = watcher(a, Options{AcceptLoss: true}).take(ctx, seen)
	require.NoError(t, err)
	assert.Empty(t, row.Halted)
}

func TestWhoWasReplacedGivesNothingBackThatIsAnotherOwners(t *testing.T) {
	url := postgrestest.Database(t)
	a := openDB(t, url, Options{Owner: "a"})
	b := openDB(t, url, Options{Owner: "b", TakeOver: true})
	require.NoError(t, a.release())
	require.NoError(t, write(b, "k=v"))
	row, err := scanRow(b.writes.QueryRow(ctx, b.s.look, 0))
	require.NoError(t, err)
	assert.Equal(t, b.o.Session, row.Session)
}

// A commit whose answer was lost may still be on its way. It must not come after the owner has found that it has not taken place.
func TestACommitThatIsLateFindsTheTokenThatItsOwnerHadBefore(t *testing.T) {
	url := postgrestest.Database(t)
	a := openDB(t, url, Options{Owner: "a"})
	require.NoError(t, write(a, "k=v"))
	was := a.token
	row, err := a.regain(ctx)
	require.NoError(t, err)
	require.Greater(t, row.Token, was)
	require.Equal(t, row.Token, a.token)
	late := func(token uint64) error {
		return a.commitAt(ctx, nowhere, 0, token, row.Last, row.Last+1, []int64{int64(row.Last + 1)}, [][]byte{{1}}, 0, a.o.Session)
	}
	require.ErrorIs(t, late(was), pgx.ErrNoRows)
	require.NoError(t, late(a.token), "else it would have been")
}

func TestASignOfLifeFindsThatCommitsAreGone(t *testing.T) {
	for name, renew := range map[string]func(t *testing.T, url string, db *DB){
		"alone": func(t *testing.T, _ string, db *DB) {
			require.ErrorIs(t, db.Renew(ctx), ErrLost)
		},
		"together with others": func(t *testing.T, url string, db *DB) {
			c, err := Connect(ctx, url, Options{})
			require.NoError(t, err)
			defer c.Close()
			renewed, _, err := c.Renew(ctx, "i", "s", []*DB{db})
			require.NoError(t, err)
			require.Equal(t, []bool{false}, renewed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := postgrestest.Database(t)
			db := openDB(t, url, Options{Owner: "a"})
			require.NoError(t, write(db, "k=v"))
			require.NoError(t, write(db, "k=w"))
			lost(t, url, `WITH gone AS (DELETE FROM orrery.log WHERE n = 2) UPDATE orrery.partitions SET last = 1`)
			renew(t, url, db)
			require.ErrorIs(t, db.Broken(), ErrLost)
			require.EqualValues(t, 1, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE halted <> '' AND session = ''`), "and nobody goes on by itself")
		})
	}
}

func TestOnlyWhatIsEmptyOrWasBeingFilledIsFilled(t *testing.T) {
	for _, row := range []struct {
		last   uint64
		halted string
		want   error
	}{{0, "", nil}, {0, filling, nil}, {7, filling, nil}, {7, "", ErrFull}, {7, "commits are not there", ErrFull}} {
		require.ErrorIs(t, CanFill(3, row.last, row.halted), row.want, "%+v", row)
	}
}

func TestWhoFillsAPartitionAnewBeginsWithAnEmptyOne(t *testing.T) {
	url := postgrestest.Database(t)
	first := openDB(t, url, Options{Owner: "first", Fill: true})
	sql(t, url, `INSERT INTO orrery.entries (part, tab, k, v) SELECT p, 1, decode(lpad(to_hex(n), 8, '0'), 'hex'), '' FROM generate_series(0, 1) p, generate_series(1, 10001) n`)
	sql(t, url, `INSERT INTO orrery.log (part, n, frame) VALUES (1, 1, '')`)
	second := openDB(t, url, Options{Owner: "second", Fill: true, TakeOver: true})
	require.Zero(t, sql(t, url, `SELECT count(*) FROM orrery.entries WHERE part = 0`))
	require.EqualValues(t, 10_002, sql(t, url, `SELECT count(*) FROM (SELECT 1 FROM orrery.entries WHERE part = 1 UNION ALL SELECT 1 FROM orrery.log WHERE part = 1) x`), "another partition's stay")
	require.ErrorIs(t, first.Filled(ctx), store.ErrFenced)
	require.EqualValues(t, 1, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE halted <> ''`), "it is not whole")
	require.NoError(t, write(second, "k=v"))
	require.NoError(t, second.Filled(ctx))
	require.Zero(t, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE halted <> ''`))
}
