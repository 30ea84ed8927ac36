package pgkv

import (
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
