package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestACommitWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	for name, cut := range map[string]func(*wireConn, []byte) (int, error, bool){
		"lost on the way there": cutBefore,
		"lost on the way back":  cutAfter,
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{}
			url := postgrestest.Database(t)
			s := open(t, url, w.options(postgres.Options{Checkpoint: time.Hour}))
			require.NoError(t, create(s, 0, 1))
			was := s.LogStats().Frames
			w.arm(cut)
			require.NoError(t, create(s, 1, 1))
			require.Nil(t, w.armed, "the commit was cut off")
			require.NoError(t, create(s, 2, 1))
			require.Equal(t, was+2, s.LogStats().Frames)
			requireCount(t, s, 3)
			require.NoError(t, s.Close())
			requireCount(t, open(t, url, postgres.Options{}), 3)
		})
	}
}

func TestACommitWhoseAnswerIsLostAndWhoseOwnerIsReplacedIsUnconfirmed(t *testing.T) {
	w := &wire{}
	url := postgrestest.Database(t)
	first := open(t, url, w.options(postgres.Options{Checkpoint: time.Hour}))
	require.NoError(t, create(first, 0, 1))
	w.arm(func(c *wireConn, p []byte) (int, error, bool) {
		second, err := postgres.Open(ctx, url, postgres.Options{TakeOver: true})
		if assert.NoError(t, err) {
			assert.NoError(t, second.Close())
		}
		return cutBefore(c, p)
	})
	err := create(first, 1, 1)
	require.ErrorIs(t, err, store.ErrFenced)
	require.ErrorIs(t, err, store.ErrUnconfirmed)
	<-first.Failed()
}

func TestAServerThatIsKilledLosesNothingAndTheStoreGoesOnWhenItIsBack(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{})
	url := server.Database(t)
	s := open(t, url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(s, 0, 100))
	server.Kill(t)
	require.ErrorIs(t, s.View(ctx, func(store.ReadTx) error { return nil }), store.ErrUnreachable, "who reads is told at once")
	var later error
	var commit sync.WaitGroup
	began := make(chan struct{})
	commit.Go(func() {
		close(began)
		later = create(s, 100, 10)
	})
	<-began
	server.Start(t)
	commit.Wait()
	require.NoError(t, later)
	requireCount(t, s, 110)
	require.NoError(t, create(s, 110, 10))
	server.Kill(t)
	server.Start(t)
	requireCount(t, s, 120)
	require.NoError(t, s.Close())
	requireCount(t, open(t, url, postgres.Options{}), 120)
}

func TestACommitIsUnconfirmedOnceTheServerIsAwayForTooLong(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{})
	url := server.Database(t)
	patient := open(t, url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(patient, 0, 1))
	require.NoError(t, patient.Close())
	s := open(t, url, postgres.Options{Checkpoint: time.Hour, Patience: 300 * time.Millisecond}) // on a machine that is busy a commit may take longer
	durable, err := s.Stage(ctx, func(tx store.Tx) error { return put(tx, 1, 1) })
	require.NoError(t, err)
	server.Kill(t)
	require.ErrorIs(t, durable(), store.ErrUnconfirmed)
	<-s.Failed()
	require.Error(t, create(s, 2, 1), "until it is opened anew")
	server.Start(t)
	next := open(t, url, postgres.Options{TakeOver: true})
	requireCount(t, next, 1)
}

func TestWhoHasWrittenNothingIsToldThatTheDatabaseDoesNotAnswer(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true})
	s := open(t, server.Database(t), postgres.Options{Checkpoint: time.Hour})
	refuse := func() error { return s.Update(ctx, func(store.Tx) error { return nil }) }
	require.NoError(t, create(s, 0, 1))
	require.NoError(t, refuse())
	server.Kill(t)
	err := refuse()
	require.ErrorIs(t, err, store.ErrUnreachable)
	require.NotErrorIs(t, err, store.ErrUnconfirmed)
	server.Start(t)
	require.NoError(t, create(s, 1, 1))
	require.NoError(t, refuse())
}

func TestWhatACallerAsksOfTheClusterIsUnreachableWhileTheServerIsStopped(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true})
	cluster, err := postgres.Connect(ctx, server.Database(t), postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	require.NoError(t, cluster.SetLayout(ctx, store.Layout{Partitions: 2, Rule: 1}))
	server.Kill(t)
	for name, ask := range map[string]func() error{ // order-free: each asks for itself
		"Look":       func() error { _, err := cluster.Look(ctx, 0); return err },
		"Partitions": func() error { _, err := cluster.Partitions(ctx); return err },
		"Instances":  func() error { _, err := cluster.Instances(ctx); return err },
		"Drain":      func() error { return cluster.Drain(ctx, "a", true) },
		"AcceptLoss": func() error { return cluster.AcceptLoss(ctx, 0, "a loss") },
		"Rebalance":  func() error { return cluster.Rebalance(ctx) },
		"Layout":     func() error { _, err := cluster.Layout(ctx); return err },
	} {
		require.ErrorIs(t, ask(), store.ErrUnreachable, name)
	}
}

func TestAnOwnerWhoseProcessWasKilledLeavesAllThatItHasAcknowledged(t *testing.T) {
	url := postgrestest.Database(t)
	killed := open(t, url, postgres.Options{Checkpoint: time.Hour})
	for n := range 10 {
		require.NoError(t, create(killed, 10*n, 10))
	}
	require.Zero(t, entries(t, url), "the log alone has it")
	next := open(t, url, postgres.Options{TakeOver: true, Checkpoint: time.Millisecond}) // without a Close of the first
	requireCount(t, next, 100)
	waitForCheckpoint(t, next)
	require.NotZero(t, entries(t, url))
	requireCount(t, next, 100)
	last := open(t, url, postgres.Options{TakeOver: true})
	requireCount(t, last, 100)
}

func TestAViewIsASnapshotWhileCommitsAndCheckpointsGoOn(t *testing.T) {
	s := open(t, postgrestest.Database(t), postgres.Options{LogBytes: 1, Checkpoint: time.Millisecond, CacheBytes: 8 << 10})
	require.NoError(t, create(s, 0, 20))
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		for n := 1; n < 6; n++ {
			require.NoError(t, create(s, 20*n, 20))
			waitForCheckpoint(t, s)
			counted, listed, seq, err := counts(tx)
			require.NoError(t, err)
			require.Equal(t, []int{20, 20, 1}, []int{int(counted), listed, int(seq)})
		}
		return nil
	}))
	var all sync.WaitGroup
	all.Go(func() {
		for n := 6; n < 46; n++ {
			assert.NoError(t, create(s, 20*n, 20))
		}
	})
	for range 3 {
		all.Go(func() {
			for last := uint64(0); last < 46; {
				err := s.View(ctx, func(tx store.ReadTx) error {
					counted, listed, seq, err := counts(tx)
					assert.Equal(t, []uint64{20 * seq, 20 * seq}, []uint64{counted, uint64(listed)})
					assert.GreaterOrEqual(t, seq, last)
					last = seq
					return err
				})
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	all.Wait()
}

func TestAStoreThatOnlyReadsFollowsTheOwner(t *testing.T) {
	url := postgrestest.Database(t)
	early, err := postgres.Open(ctx, url, postgres.Options{ReadOnly: true})
	require.NoError(t, err)
	require.Error(t, early.View(ctx, func(store.ReadTx) error { return nil }), "there is nothing yet")
	require.NoError(t, early.Close())

	owner := open(t, url, postgres.Options{Checkpoint: time.Hour})
	reader := open(t, url, postgres.Options{ReadOnly: true})
	for n := range 3 {
		require.NoError(t, create(owner, 10*n, 10))
		requireCount(t, reader, 10*(n+1))
	}
	require.ErrorIs(t, create(reader, 100, 1), postgres.ErrReadOnly)
	require.NoError(t, owner.Close())
	owner = open(t, url, postgres.Options{Checkpoint: time.Millisecond})
	require.NoError(t, create(owner, 30, 10))
	waitForCheckpoint(t, owner)
	requireCount(t, reader, 40)
}

func TestAnOwnerThatFindsItsLastCommitGoneStopsThePartition(t *testing.T) {
	url := postgrestest.Database(t)
	s := open(t, url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(s, 0, 1))
	require.NoError(t, create(s, 1, 1))
	exec(t, url, `DELETE FROM orrery.log WHERE n = 3; UPDATE orrery.partitions SET last = 2`) // as a standby that lagged behind has it
	err := create(s, 2, 1)
	require.ErrorIs(t, err, postgres.ErrLost)
	require.ErrorIs(t, err, store.ErrUnconfirmed)
	require.ErrorContains(t, err, "commit 3 was acknowledged, the database's last one is 2")
	<-s.Failed()
	require.ErrorIs(t, s.View(ctx, func(store.ReadTx) error { return nil }), postgres.ErrLost)
	require.NoError(t, s.Close())

	_, err = postgres.Open(ctx, url, postgres.Options{TakeOver: true})
	require.ErrorIs(t, err, postgres.ErrLost)
	require.ErrorContains(t, err, "commit 3 was acknowledged")
	requireCount(t, open(t, url, postgres.Options{AcceptLoss: true}), 1)
}

func TestAnOwnerThatFindsItsLastCommitGoneInAViewStopsThePartition(t *testing.T) {
	url := postgrestest.Database(t)
	s := open(t, url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(s, 0, 1))
	exec(t, url, `DELETE FROM orrery.log WHERE n = 2; UPDATE orrery.partitions SET last = 1`)
	require.ErrorIs(t, s.View(ctx, func(store.ReadTx) error { return nil }), postgres.ErrLost)
	require.ErrorIs(t, s.Failure(), postgres.ErrLost)
}

func TestTablesOfANewerFormatAreNotOpened(t *testing.T) {
	url := postgrestest.Database(t)
	require.NoError(t, open(t, url, postgres.Options{}).Close())
	exec(t, url, `UPDATE orrery.meta SET format = 9`)
	require.NoError(t, open(t, url, postgres.Options{}).Close(), "a newer one has added what this one need not know")
	exec(t, url, `UPDATE orrery.meta SET least = 9`)
	_, err := postgres.Open(ctx, url, postgres.Options{})
	require.ErrorIs(t, err, postgres.ErrNewer)
}

func TestAPartitionThatADividedDatabaseDoesNotHaveIsToldFromOneThatNobodyHasOpened(t *testing.T) {
	url := postgrestest.Database(t)
	cluster, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	require.NoError(t, cluster.SetLayout(ctx, store.Layout{Partitions: 6, Rule: 1}))
	for n, says := range []string{5: "not found: nobody has opened partition 5 yet", 9: "not found: there is no partition 9: the database has 6: name one, from 0 to 5"} {
		if says == "" {
			continue
		}
		s := open(t, url, postgres.Options{ReadOnly: true, Partition: n})
		err := s.View(ctx, func(store.ReadTx) error { return nil })
		require.ErrorIs(t, err, store.ErrNotFound)
		require.ErrorContains(t, err, says)
	}
}

func TestTablesOfAnotherProgramAreSaidToBeSo(t *testing.T) {
	for _, made := range []string{
		`CREATE TABLE orrery.meta (name text, value text)`,
		`CREATE TABLE orrery.meta (one text, format int, least int)`,
		`CREATE TABLE orrery.meta (one int, format int, least int)`,
	} {
		url := postgrestest.Database(t)
		exec(t, url, `CREATE SCHEMA orrery; `+made)
		_, err := postgres.Connect(ctx, url, postgres.Options{})
		require.ErrorContains(t, err, "the table meta in schema orrery is another program's, and not Orrery's: name another database, or another schema", made)
	}
}

func TestManyOpenANewDatabaseAtTheSameTime(t *testing.T) {
	url := postgrestest.Database(t)
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			s, err := postgres.Open(ctx, url, postgres.Options{Partition: n})
			if assert.NoError(t, err) {
				assert.NoError(t, create(s, 0, 3))
				assert.NoError(t, s.Close())
			}
		})
	}
	all.Wait()
	for n := range 6 {
		requireCount(t, open(t, url, postgres.Options{Partition: n}), 3)
	}
}

func TestAViewWhoseConnectionIsLostMidwaySaysThatTheDatabaseDoesNotAnswer(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true})
	s := open(t, server.Database(t), postgres.Options{LogBytes: 1, Checkpoint: time.Millisecond, CacheBytes: 1})
	require.NoError(t, create(s, 0, 20))
	waitForCheckpoint(t, s)
	err := s.View(ctx, func(tx store.ReadTx) error {
		server.Kill(t)
		_, _, _, err := counts(tx)
		return err
	})
	require.ErrorIs(t, err, store.ErrUnreachable)
	server.Start(t)
	requireCount(t, s, 20)
}
