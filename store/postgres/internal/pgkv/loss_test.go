package pgkv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

const (
	twoGone  = `UPDATE orrery.partitions SET last = 1`
	allThere = `UPDATE orrery.partitions SET last = 3`
	halted   = `SELECT count(*) FROM orrery.partitions WHERE halted LIKE 'commit 3 was acknowledged, the database''s last one is 1%'`
)

// A standby that is asked before it is promoted may be behind for a moment, and takes no note.
func TestALossThatIsNotNotedIsNotBelieved(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	for range 3 {
		require.NoError(t, write(db, "k=v"))
	}
	db.s.haltPlain = `UPDATE unheard_of SET halted = $2 WHERE part = $1 AND last < $3 AND halted <> $4`
	db.s.halt = db.s.haltPlain + ` AND part = ANY ($6) AND session = ANY ($5)`
	sql(t, url, twoGone)
	_, err := db.Begin(ctx, false)
	require.ErrorIs(t, err, errUnnoted)
	require.ErrorContains(t, err, "commit 3 was acknowledged, the database's last one is 1")
	require.NotErrorIs(t, err, ErrLost)
	require.ErrorIs(t, db.Renew(ctx), errUnnoted)
	require.ErrorIs(t, db.stillOwns(), errUnnoted)
	require.NoError(t, db.Broken())

	sql(t, url, allThere)
	require.Equal(t, []string{"k=v"}, read(t, db))
	require.NoError(t, write(db, "k=w"))
	sql(t, url, twoGone)
	require.ErrorIs(t, write(db, "k=x"), errUnnoted)
	require.ErrorIs(t, db.Broken(), errUnnoted, "of a commit nobody knows what became of it")
	require.NoError(t, db.Close())
	require.EqualValues(t, 1, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE owner = 'a'`), "given back, it would be taken for whole at once")
}

func TestALossIsNotedByItsOwnerOnce(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	for range 3 {
		require.NoError(t, write(db, "k=v"))
	}
	sql(t, url, twoGone)
	_, err := db.Begin(ctx, false)
	require.ErrorIs(t, err, ErrLost)
	require.EqualValues(t, 1, sql(t, url, halted))
	sql(t, url, `UPDATE orrery.partitions SET halted = '', session = 'another', owner = 'another'`) // somebody has accepted it
	require.ErrorIs(t, db.replaced(ctx), ErrLost, "a commit of this owner that was on its way comes to the same")
	require.EqualValues(t, 1, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE halted = '' AND session = 'another'`))
}

// What is filled anew has nothing to do with what an owner of the time before knows.
func TestALossChangesNothingOfAPartitionThatIsBeingFilled(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	for range 3 {
		require.NoError(t, write(db, "k=v"))
	}
	sql(t, url, `UPDATE orrery.partitions SET last = 1, session = 'copy', halted = 'it is being filled with another database''s content'`)
	require.ErrorIs(t, db.Renew(ctx), ErrLost)
	require.EqualValues(t, 1, sql(t, url, `SELECT count(*) FROM orrery.partitions WHERE session = 'copy' AND halted LIKE 'it is being filled%'`))
}

// Two owners can have one token: a standby does not know of a claim that its primary has taken last, and gives the same to the next one.
func TestACommitOfAnotherOwnerWithTheSameTokenIsFenced(t *testing.T) {
	for name, plain := range map[string]bool{"by its place": false, "without places": true} {
		t.Run(name, func(t *testing.T) {
			url := postgrestest.Database(t)
			db := openDB(t, url, Options{Owner: "a"})
			db.place.none = plain
			require.NoError(t, write(db, "k=v"))
			sql(t, url, `UPDATE orrery.partitions SET session = 'another', owner = 'another'`)
			require.ErrorIs(t, write(db, "k=w"), store.ErrFenced)
			require.EqualValues(t, 1, sql(t, url, `SELECT last FROM orrery.partitions`))
		})
	}
}

// Each finds it by the request of a client, who may go.
func TestALossIsNotedAlthoughWhoeverHasAskedHasGone(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	for range 3 {
		require.NoError(t, write(db, "k=v"))
	}
	sql(t, url, twoGone)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, db.gone(gone, Row{Last: 1}, 3), ErrLost)
	require.EqualValues(t, 1, sql(t, url, halted))
}

func TestWhoWasReplacedIsFencedAlthoughTheDatabaseDoesNotTellByWhom(t *testing.T) {
	db := openDB(t, postgrestest.Database(t), Options{Owner: "a"})
	db.s.look = `SELECT part FROM unheard_of WHERE part = $1`
	require.ErrorIs(t, db.fenced(ctx), store.ErrFenced)
	require.ErrorIs(t, db.Broken(), store.ErrFenced)
}

// A commit is a sign of life, but only of the time since the renewal before.
func TestARenewalOfAPartitionThatIsLockedCountsIfACommitWasMadeSinceTheOneBefore(t *testing.T) {
	db := openDB(t, postgrestest.Database(t), Options{Owner: "a"})
	lives := func() bool { return db.renewal(ctx)(Row{Part: isLocked}) }
	require.False(t, lives(), "it was only opened")
	require.NoError(t, write(db, "k=v"))
	require.True(t, lives())
	require.False(t, lives(), "no other commit was made")
}

func TestAnOwnerThatRefusesEverythingGivesNoSignOfLife(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	c, err := Connect(ctx, url, Options{})
	require.NoError(t, err)
	defer c.Close()
	beat := func() int64 { return sql(t, url, `SELECT beat FROM orrery.partitions`) }
	was := beat()
	renewed, _, err := c.Renew(ctx, "i", "s", []*DB{db})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, renewed)
	require.Equal(t, was+1, beat())
	db.Break(store.ErrFenced)
	renewed, _, err = c.Renew(ctx, "i", "s", []*DB{db})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, renewed)
	require.Equal(t, was+1, beat(), "others are to take it over")
}

func TestOnlyTheLossThatWasReadIsAccepted(t *testing.T) {
	url := postgrestest.Database(t)
	openDB(t, url, Options{Owner: "a"})
	c, err := Connect(ctx, url, Options{})
	require.NoError(t, err)
	defer c.Close()
	for _, row := range []struct {
		halted, accepted string
		is               bool
	}{{"", "", false}, {"commit 3", "commit 2", false}, {"commit 3", "", false}, {filling, filling, false}, {"commit 3", "commit 3", true}} {
		_, err := c.pool.Exec(ctx, `UPDATE orrery.partitions SET halted = $1, beat = 7`, row.halted)
		require.NoError(t, err)
		is, err := c.AcceptLoss(ctx, 0, row.accepted)
		require.NoError(t, err)
		require.Equal(t, row.is, is, "%+v", row)
		stays := Row{Halted: row.halted, Beat: 7}
		if row.is {
			stays = Row{Beat: 8} // whoever looks at it sees that it has changed
		}
		found, err := c.Look(ctx, 0)
		require.NoError(t, err)
		left := Row{Halted: found.Halted, Beat: found.Beat}
		require.Equal(t, stays, left, "%+v", row)
	}
}

func TestAPartitionThatIsStoppedHasAnotherTokenAndSignOfLife(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{Owner: "a"})
	for range 3 {
		require.NoError(t, write(db, "k=v"))
	}
	sql(t, url, `UPDATE orrery.partitions SET last = 1, beat = 7`)
	require.ErrorIs(t, db.gone(ctx, Row{Last: 1}, 3), ErrLost)
	require.Equal(t, int64(db.token)+1, sql(t, url, `SELECT token FROM orrery.partitions`), "commits of its owner that are on their way are fenced")
	require.EqualValues(t, 8, sql(t, url, `SELECT beat FROM orrery.partitions`))
}

func TestAPartitionThatIsFilledByAnotherOneHasLostNothing(t *testing.T) {
	for name, row := range map[string]struct {
		was  Options
		want string
	}{
		"a copy whose work another copy does anew":     {Options{Owner: "a", Fill: true}, `"b" fills it anew, with token 2`},
		"an owner that has made no commit, and a copy": {Options{Owner: "a"}, `"b" at "" owns it, with token 2`},
	} {
		t.Run(name, func(t *testing.T) {
			url := postgrestest.Database(t)
			first := openDB(t, url, row.was)
			if row.was.Fill {
				require.NoError(t, write(first, "k=v"))
			}
			openDB(t, url, Options{Owner: "b", Fill: true, TakeOver: true})
			gone, cancel := context.WithCancel(ctx)
			cancel() // whoever has asked
			err := first.fenced(gone)
			require.ErrorIs(t, err, store.ErrFenced)
			require.NotErrorIs(t, err, ErrLost)
			require.ErrorContains(t, err, row.want)
		})
	}
}
