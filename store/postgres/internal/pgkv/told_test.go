package pgkv

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// late is a database on which owners have worked before it went back.
type late struct {
	*testing.T
	url string
}

// opened gives an owner that takes the partition over and has made so many commits.
func (l late) opened(name string, commits int) *DB {
	l.Helper()
	db := openDB(l.T, l.url, Options{Owner: name, TakeOver: true})
	for range commits {
		require.NoError(l, write(db, "k="+name))
	}
	return db
}

// back has the database be as it was at a commit, owned by whoever owned it then.
func (l late) back(to int, owner *DB) {
	l.Helper()
	sql(l.T, l.url, fmt.Sprintf(`UPDATE orrery.partitions SET last = %d, token = %d, session = '%s', owner = '%s'`, to, owner.row.Token, owner.o.Session, owner.o.Owner))
	sql(l.T, l.url, fmt.Sprintf(`DELETE FROM orrery.log WHERE n > %d`, to))
}

// accepted has an owner tell that commits are gone, and somebody accept that.
func (l late) accepted(by *DB, told string) {
	l.Helper()
	require.ErrorIs(l, by.Renew(ctx), ErrLost)
	c, err := Connect(ctx, l.url, Options{})
	require.NoError(l, err)
	defer c.Close()
	row, err := c.Look(ctx, 0)
	require.NoError(l, err)
	require.Contains(l, row.Halted, told)
	is, err := c.AcceptLoss(ctx, 0, row.Halted)
	require.NoError(l, err)
	require.True(l, is)
}

// goesOn requires that a late owner is fenced, and that the partition goes on with its owner.
func (l late) goesOn(with, owner *DB) {
	l.Helper()
	require.ErrorIs(l, owner.Renew(ctx), store.ErrFenced)
	require.ErrorIs(l, owner.Broken(), store.ErrFenced)
	require.NotErrorIs(l, owner.Broken(), ErrLost)
	require.ErrorContains(l, owner.Broken(), `"`+with.o.Owner+`" at "" owns it`)
	require.NoError(l, write(with, "k=on"))
}

func newLate(t *testing.T) late { return late{t, postgrestest.Database(t)} }

func TestALateOwnerDoesNotStopThePartitionForALossThatItsSuccessorHasTold(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(b, "commit 5 was acknowledged, the database's last one is 1")
	l.goesOn(l.opened("c", 1), a)
}

func TestALateOwnerLeavesAStopAsItIsThatTellsOfItsCommits(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	require.ErrorIs(t, b.Renew(ctx), ErrLost)
	_, err := a.Begin(ctx, false)
	require.ErrorIs(t, err, store.ErrFenced)
	require.ErrorContains(t, err, "commit 5 was acknowledged, the database's last one is 1")
	require.EqualValues(t, 1, sql(t, l.url, `SELECT count(*) FROM orrery.partitions WHERE halted LIKE 'commit 5 %' AND token = 2`))
}

func TestALateOwnerOfAPartitionThatNobodyHasTakenSinceSaysSo(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(b, "commit 5 ")
	require.ErrorContains(t, a.Renew(ctx), "partition 0: "+store.ErrFenced.Error()+": nobody owns it since")
}

// Whoever has taken the partition over after the failover knows of no loss.
func TestALateOwnerTellsOfALossThatNobodyHasTold(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	l.back(1, a)
	b := l.opened("b", 1)
	require.ErrorIs(t, a.Renew(ctx), ErrLost)
	require.ErrorIs(t, write(b, "k=w"), ErrLost)
	require.EqualValues(t, 1, sql(t, l.url, `SELECT count(*) FROM orrery.partitions WHERE halted LIKE 'commit 3 was acknowledged, the database''s last one is 2%'`))
}

// Two failovers: the first loses commit 3 of the one, the second commits 3 and 4 of the other, which is told.
func TestALateOwnerTellsOfALossAlthoughOneOfTheSameNumbersWasTold(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	l.back(2, a)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(b, "commit 4 was acknowledged, the database's last one is 1")
	c := l.opened("c", 0)
	l.accepted(a, "commit 3 was acknowledged, the database's last one is 1")
	l.goesOn(l.opened("d", 1), c)
}

func TestALateOwnerTellsOfWhatItsPredecessorDidNotKnow(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(a, "commit 3 was acknowledged, the database's last one is 1")
	l.opened("c", 1)
	l.accepted(b, "commit 5 was acknowledged, the database's last one is 2")
}

func TestAnotherLossIsToldByWhoHasOwnedThePartitionSince(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(b, "commit 5 ")
	c := l.opened("c", 2)
	l.back(2, c)
	l.accepted(c, "commit 3 was acknowledged, the database's last one is 2")
	l.goesOn(l.opened("d", 0), a)
}

// The standby that is promoted the second time lacks also that a loss was told.
func TestALossIsToldAgainIfTheDatabaseHasLostThatItWas(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	l.accepted(b, "commit 5 ")
	sql(t, l.url, `DELETE FROM orrery.told`)
	l.accepted(a, "commit 3 ")
}

// A standby may lack the tables that its primary was given last.
func TestALossIsToldToADatabaseThatHasLostTheTableForIt(t *testing.T) {
	l := newLate(t)
	a := l.opened("a", 3)
	b := l.opened("b", 2)
	l.back(1, a)
	sql(t, l.url, `DROP TABLE orrery.told`)
	l.accepted(b, "commit 5 ")
	l.accepted(a, "commit 3 ")
}
