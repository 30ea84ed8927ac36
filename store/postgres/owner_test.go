package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
	"github.com/orrery-go/orrery/store/storetest"
)

// id makes ids that grow with n, as those that begin with the time do.
func id(n int) (u uuid.UUID) {
	binary.BigEndian.PutUint64(u[:8], uint64(n)+1)
	return u
}

// put makes the next batch of new records from the number first on, with what a creation has: a due time, terms, and an
// outer effect.
func put(tx store.Tx, first, many int) error {
	seq, err := tx.Seq()
	if err != nil {
		return err
	}
	writes := make([]store.Write, many)
	for i := range writes {
		at := effects.Time(1_000_000 + first + i)
		writes[i] = store.Write{Kind: "action", ID: id(first + i), State: fmt.Appendf(nil, `{"n":%d}`, first+i), Due: at, Terms: []store.Term{
			{Name: "all", At: at, Counted: true}, {Name: "status:pending", At: at, Counted: true},
		}}
		key := store.EffectKey{ID: id(first + i), N: 1}
		if err := tx.PutOutbox(store.OutboxEntry{Key: key, Seq: seq + 1, Kind: "call", Lane: "tool"}); err != nil {
			return err
		}
	}
	if err := tx.Put(seq+1, writes); err != nil {
		return err
	}
	return tx.AppendJournal(seq+1, 1, []byte(`{}`))
}

func create(s *postgres.Store, first, many int) error {
	return s.Update(ctx, func(tx store.Tx) error { return put(tx, first, many) })
}

// count gives how many records there are, by number and one by one, and the last batch.
func count(t *testing.T, s *postgres.Store) (counted uint64, listed int, seq uint64) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) {
		counted, listed, seq, err = counts(tx)
		return err
	}))
	return counted, listed, seq
}

func counts(tx store.ReadTx) (counted uint64, listed int, seq uint64, err error) {
	if counted, err = tx.Count("action", "all"); err != nil {
		return 0, 0, 0, err
	}
	if seq, err = tx.Seq(); err != nil {
		return 0, 0, 0, err
	}
	err = tx.Records(func(store.Record) error {
		listed++
		return nil
	})
	return counted, listed, seq, err
}

func requireCount(t *testing.T, s *postgres.Store, want int) {
	t.Helper()
	counted, listed, _ := count(t, s)
	require.Equal(t, []int{want, want}, []int{int(counted), listed})
}

func TestACommitIsOneRoundTripAndABatchOfCreationsReadsNothing(t *testing.T) {
	url := postgrestest.Database(t)
	w := &wire{}
	o := w.options(postgres.Options{Checkpoint: time.Hour})
	s := open(t, url, o)
	require.NoError(t, create(s, 0, 1)) // the first statements are described by the server
	w.counted()
	require.NoError(t, create(s, 1, 1))
	require.Equal(t, 1, w.counted(), "one creation")
	require.NoError(t, create(s, 2, 256))
	require.Equal(t, 1, w.counted(), "256 creations")
	require.NoError(t, s.Close())

	next := open(t, url, w.options(postgres.Options{Checkpoint: time.Millisecond}))
	require.NoError(t, create(next, 1000, 500))
	waitForCheckpoint(t, next)
	require.NoError(t, next.Close())

	cold := open(t, url, o)
	w.counted()
	require.NoError(t, create(cold, 2000, 256))
	assert.LessOrEqual(t, w.counted(), 3, "of an owner that has read nothing yet, the description of the statement included")
	require.NoError(t, create(cold, 3000, 256))
	assert.Equal(t, 1, w.counted())
	requireCount(t, cold, 258+500+512)
}

// waitForCheckpoint returns once the tables have all.
func waitForCheckpoint(t *testing.T, s *postgres.Store) {
	t.Helper()
	require.Eventually(t, func() bool { return s.LogStats().Frames == 0 }, time.Minute, time.Millisecond)
}

func TestWhatIsStagedMeanwhileIsCommittedTogether(t *testing.T) {
	w := &wire{}
	s := open(t, postgrestest.Database(t), w.options(postgres.Options{Checkpoint: time.Hour}))
	require.NoError(t, create(s, 0, 1))
	w.counted()
	var waits []func() error
	for n := range 20 {
		durable, err := s.Stage(ctx, func(tx store.Tx) error { return put(tx, 1+n, 1) })
		require.NoError(t, err)
		waits = append(waits, durable)
	}
	for _, durable := range waits {
		require.NoError(t, durable())
	}
	require.Equal(t, 1, w.counted())
	requireCount(t, s, 21)
}

func TestAnOwnerThatWasReplacedWritesNothingAnyMore(t *testing.T) {
	url := postgrestest.Database(t)
	first := open(t, url, postgres.Options{Owner: "first", Checkpoint: time.Hour})
	require.NoError(t, create(first, 0, 3))
	second := open(t, url, postgres.Options{Owner: "second", Address: "there", TakeOver: true})
	require.Greater(t, second.Token(), first.Token())
	requireCount(t, second, 3)

	err := create(first, 10, 1)
	require.ErrorIs(t, err, store.ErrFenced)
	require.NotErrorIs(t, err, store.ErrUnconfirmed, "nothing was written, for certain")
	require.ErrorContains(t, err, `"second" at "there"`)
	<-first.Failed()
	require.ErrorIs(t, first.Failure(), store.ErrFenced)
	require.ErrorIs(t, first.Renew(ctx), store.ErrFenced)
	require.ErrorIs(t, first.View(ctx, func(store.ReadTx) error { return nil }), store.ErrFenced)
	require.NoError(t, first.Close())

	require.NoError(t, create(second, 20, 2))
	requireCount(t, second, 5)
	require.NoError(t, second.Renew(ctx), "the first one's Close did not give back what is the second one's")
}

func TestAnOwnerThatIsReplacedLearnsItWhenItReadsOrRenews(t *testing.T) {
	url := postgrestest.Database(t)
	for name, learn := range map[string]func(s *postgres.Store) error{
		"renew": func(s *postgres.Store) error { return s.Renew(ctx) },
		"view":  func(s *postgres.Store) error { return s.View(ctx, func(store.ReadTx) error { return nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			first := open(t, url, postgres.Options{TakeOver: true})
			second := open(t, url, postgres.Options{TakeOver: true})
			require.ErrorIs(t, learn(first), store.ErrFenced)
			<-first.Failed()
			require.NoError(t, learn(second))
		})
	}
}

func TestACheckpointOfAnOwnerThatIsReplacedMeanwhileLeavesNothing(t *testing.T) {
	url := postgrestest.Database(t)
	w := &wire{}
	first := open(t, url, w.options(postgres.Options{Checkpoint: 10 * time.Millisecond}))
	var once sync.Once
	var second *postgres.Store
	taken := make(chan error, 1)
	w.onSQL(func(sql string) {
		if strings.Contains(sql, "INSERT INTO") && strings.Contains(sql, ".entries") {
			once.Do(func() {
				var err error
				second, err = postgres.Open(ctx, url, postgres.Options{TakeOver: true, Checkpoint: time.Hour})
				taken <- err
			})
		}
	})
	require.NoError(t, create(first, 0, 5))
	require.NoError(t, <-taken)
	defer func() { require.NoError(t, second.Close()) }()
	<-first.Failed()
	require.ErrorIs(t, first.Failure(), store.ErrFenced)
	require.Zero(t, entries(t, url), "its transaction was rolled back")
	require.NoError(t, create(second, 10, 5))
	requireCount(t, second, 10)
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	_, err = c.Exec(ctx, sql)
	require.NoError(t, err)
}

func entries(t *testing.T, url string) (n int) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	require.NoError(t, c.QueryRow(ctx, `SELECT count(*) FROM orrery.entries`).Scan(&n))
	return n
}

func TestAPartitionWhoseOwnerGivesSignsOfLifeIsNotTakenOver(t *testing.T) {
	url := postgrestest.Database(t)
	first := open(t, url, postgres.Options{Owner: "first", Address: "here:1"})
	stop := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if first.Renew(ctx) != nil {
					return
				}
			}
		}
	})
	_, err := postgres.Open(ctx, url, postgres.Options{Lease: 20 * time.Second}) // it looks twenty times within a lease
	close(stop)
	beats.Wait()
	require.ErrorIs(t, err, store.ErrClaimed)
	require.ErrorContains(t, err, `"first" at "here:1"`)

	// On a machine that is busy a session may pause within its transaction for longer than half of so short a lease.
	second := open(t, url+"&idle_in_transaction_session_timeout=0&lock_timeout=0", postgres.Options{Lease: 100 * time.Millisecond})
	require.ErrorIs(t, first.Renew(ctx), store.ErrFenced, "it was silent for a lease")
	require.NoError(t, second.Close())
	third := open(t, url, postgres.Options{Lease: time.Hour})
	require.NoError(t, third.Renew(ctx), "the second one has given it back: nobody waits for a lease")
}

func TestAWatcherTakesAPartitionOverOnlyAsItHasSeenIt(t *testing.T) {
	url := postgrestest.Database(t)
	c, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Look(ctx, 0)
	require.ErrorIs(t, err, store.ErrNotFound)

	first := open(t, url, postgres.Options{Owner: "first", Address: "here"})
	require.NoError(t, create(first, 0, 1))
	seen, err := c.Look(ctx, 0)
	require.NoError(t, err)
	assert.Equal(t, []any{"first", "here", first.Token(), uint64(2), uint64(2), true}, []any{seen.Owner, seen.Address, seen.Token, seen.Last, seen.Lag, seen.Owned()})
	require.NoError(t, first.Renew(ctx))
	_, err = postgres.Open(ctx, url, postgres.Options{Seen: &seen})
	require.ErrorIs(t, err, store.ErrClaimed)

	seen, err = c.Look(ctx, 0)
	require.NoError(t, err)
	second := open(t, url, postgres.Options{Owner: "second", Seen: &seen})
	require.ErrorIs(t, create(first, 1, 1), store.ErrFenced)
	all, err := c.Partitions(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "second", all[0].Owner)
	require.NoError(t, second.Close())
	seen, err = c.Look(ctx, 0)
	require.NoError(t, err)
	require.False(t, seen.Owned())
}

func TestAClusterKeepsWhatTheInterfacePromises(t *testing.T) {
	storetest.RunCluster(t, func(t *testing.T) store.Cluster {
		c, err := postgres.Connect(ctx, postgrestest.Database(t), postgres.Options{})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	})
}

func TestADividedDatabaseRefusesProgramsThatKnowNoLayout(t *testing.T) {
	url := postgrestest.Database(t)
	c, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	least := func() (n int) {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		require.NoError(t, conn.QueryRow(ctx, `SELECT least FROM orrery.meta`).Scan(&n))
		return n
	}
	require.Equal(t, 1, least(), "programs of both formats work on it")
	require.NoError(t, c.SetLayout(ctx, store.Layout{Partitions: 2, Rule: 1}))
	require.Equal(t, 2, least())
}

func TestADatabaseOfTheFirstFormatIsBroughtToThatOfNow(t *testing.T) {
	url := postgrestest.Database(t)
	s := open(t, url, postgres.Options{})
	require.NoError(t, create(s, 0, 3))
	require.NoError(t, s.Close())
	exec(t, url, `ALTER TABLE orrery.meta DROP COLUMN partitions, DROP COLUMN rule; ALTER TABLE orrery.instances DROP COLUMN able, DROP COLUMN core, DROP COLUMN draining, DROP COLUMN rebalanced;
		DROP TABLE orrery.formers, orrery.reported, orrery.told; UPDATE orrery.meta SET format = 1`)
	c, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	require.ErrorIs(t, c.SetLayout(ctx, store.Layout{Partitions: 2, Rule: 1}), store.ErrDivided)
	requireCount(t, open(t, url, postgres.Options{}), 3)
}

func TestALayoutAndAnOpeningAtTheSameTimeExcludeOneAnother(t *testing.T) {
	for range 8 {
		url := postgrestest.Database(t)
		c, err := postgres.Connect(ctx, url, postgres.Options{})
		require.NoError(t, err)
		var all sync.WaitGroup
		var opened, divided error
		all.Go(func() {
			var s *postgres.Store
			if s, opened = postgres.Open(ctx, url, postgres.Options{Partition: 5}); opened == nil {
				assert.NoError(t, s.Close())
			}
		})
		all.Go(func() { divided = c.SetLayout(ctx, store.Layout{Partitions: 4, Rule: 1}) })
		all.Wait()
		c.Close()
		if divided == nil {
			require.ErrorIs(t, opened, store.ErrUnusable)
		} else {
			require.ErrorIs(t, divided, store.ErrDivided)
			require.NoError(t, opened)
		}
	}
}

func TestInstancesAreRegisteredAndReplaced(t *testing.T) {
	c, err := postgres.Connect(ctx, postgrestest.Database(t), postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	a, b := postgres.Instance{Name: "a", Session: "1", Address: "x", Version: "v"}, postgres.Instance{Name: "b", Session: "2"}
	require.Error(t, c.Register(ctx, postgres.Instance{Name: "a"}))
	require.NoError(t, c.Register(ctx, b))
	require.NoError(t, c.Register(ctx, a))
	_, err = c.Renew(ctx, a)
	require.NoError(t, err)
	a.Beat, b.Beat = 2, 1
	got, err := c.Instances(ctx)
	require.NoError(t, err)
	require.Equal(t, []postgres.Instance{a, b}, got)
	again := a
	again.Session = "3"
	require.NoError(t, c.Register(ctx, again))
	_, err = c.Renew(ctx, a)
	require.ErrorIs(t, err, store.ErrFenced)
	require.NoError(t, c.Leave(ctx, a), "it is not there any more")
	require.NoError(t, c.Leave(ctx, b))
	got, err = c.Instances(ctx)
	require.NoError(t, err)
	again.Beat = 3
	require.Equal(t, []postgres.Instance{again}, got)
}

func TestAFrozenOwnerWithinACommitDoesNotHoldUpWhoTakesOver(t *testing.T) {
	url := postgrestest.Database(t)
	w := &wire{}
	first := open(t, url, w.options(postgres.Options{Checkpoint: time.Hour, Patience: time.Minute})) // it goes on while the other one opens
	require.NoError(t, create(first, 0, 1))
	frozen, thaw := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(thaw) })
	defer goOn()
	w.arm(func(c *wireConn, p []byte) (int, error, bool) {
		_, err := c.Conn.Write(p[:len(p)-5]) // all but the end of the transaction
		close(frozen)
		<-thaw
		return len(p), err, true
	})
	var late error
	var commit sync.WaitGroup
	commit.Go(func() { late = create(first, 10, 1) })
	<-frozen
	second := open(t, url, postgres.Options{TakeOver: true})
	goOn()
	commit.Wait()
	require.ErrorIs(t, late, store.ErrFenced)
	requireCount(t, second, 1)
	require.NoError(t, create(second, 20, 1))
}

func TestSessionsThatWriteHaveLimits(t *testing.T) {
	var mu sync.Mutex
	got := make(map[string]bool)
	o := postgres.Options{Lease: 10 * time.Second, Configure: func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			var idle, lock, statement string
			err := conn.QueryRow(ctx, `SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'), current_setting('statement_timeout')`,
				pgx.QueryExecModeSimpleProtocol).Scan(&idle, &lock, &statement)
			mu.Lock()
			defer mu.Unlock()
			got[idle+" "+lock+" "+statement] = true
			return err
		}
	}}
	s := open(t, postgrestest.Database(t), o)
	requireCount(t, s, 0)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]bool{"5s 10s 30s": true, "15min 0 0": true}, got)
}

func TestTheClockOfTheDatabaseIsComparedWithThisMachines(t *testing.T) {
	c, err := postgres.Connect(ctx, postgrestest.Database(t), postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	by, within, err := c.Ahead(ctx)
	require.NoError(t, err)
	assert.Positive(t, within)
	assert.LessOrEqual(t, by.Abs(), within, "it is the same clock")
}

func TestADatabaseKeepsWhatAHandoverIsPromised(t *testing.T) {
	storetest.RunHandover(t, func(t *testing.T) (former, owner storetest.Process) {
		url := postgrestest.Database(t)
		connected := func() storetest.Process {
			c, err := postgres.Connect(ctx, url, postgres.Options{})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			return c
		}
		return connected(), connected()
	})
}
