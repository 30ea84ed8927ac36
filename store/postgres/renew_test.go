package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// owner is an instance with several partitions, and a session beside it.
type owner struct {
	*postgres.Cluster
	wire   *wire
	is     store.Instance
	owned  []store.Owned
	beside *pgx.Conn
}

func openOwner(t *testing.T, partitions int) *owner {
	t.Helper()
	url := postgrestest.Database(t)
	o := &owner{wire: &wire{}, is: store.Instance{Name: "a", Session: "1"}}
	var err error
	o.Cluster, err = postgres.Connect(ctx, url, o.wire.options(postgres.Options{Checkpoint: time.Hour}))
	require.NoError(t, err)
	t.Cleanup(o.Close)
	require.NoError(t, o.SetLayout(ctx, store.Layout{Partitions: partitions, Rule: 1}))
	require.NoError(t, o.Register(ctx, o.is))
	for n := range partitions {
		s, err := o.Claim(ctx, store.PartitionClaim{Seen: store.Partition{Number: n}, Owner: "a"})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		o.owned = append(o.owned, s)
	}
	o.beside, err = pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.beside.Close(ctx) })
	return o
}

// beats gives the signs of life of the partitions.
func (o *owner) beats(t *testing.T) (list []uint64) {
	t.Helper()
	all, err := o.Partitions(ctx)
	require.NoError(t, err)
	for _, p := range all {
		list = append(list, p.Beat)
	}
	return list
}

func TestAnInstanceAndItsPartitionsAreRenewedInOneRoundTripAndOneTransaction(t *testing.T) {
	const partitions = 16
	o := openOwner(t, partitions)
	renew := func() {
		rest, err := o.Renew(ctx, o.is, o.owned...)
		require.NoError(t, err)
		require.Empty(t, rest)
	}
	renew() // the server describes the statement
	was := o.beats(t)
	o.wire.counted()
	renew()
	require.Equal(t, 1, o.wire.counted())
	for n, beat := range o.beats(t) {
		require.Equal(t, was[n]+1, beat, "partition %d", n)
	}
	var transactions int
	require.NoError(t, o.beside.QueryRow(ctx, `SELECT count(DISTINCT x) FROM (SELECT xmin::text AS x FROM orrery.partitions UNION ALL SELECT xmin::text FROM orrery.instances) r`).Scan(&transactions))
	require.Equal(t, 1, transactions)
	list, err := o.Instances(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(3), list[0].Beat)
}

func TestARenewalWaitsForNoPartitionThatSomebodyHasLocked(t *testing.T) {
	o := openOwner(t, 3)
	_, err := o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	require.NoError(t, o.owned[2].Update(ctx, func(tx store.Tx) error { return put(tx, 0, 1) }))
	locked, err := o.beside.Begin(ctx)
	require.NoError(t, err)
	_, err = locked.Exec(ctx, `UPDATE orrery.partitions SET beat = beat WHERE part > 0`)
	require.NoError(t, err)
	was := o.beats(t)
	rest, err := o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	require.Equal(t, o.owned[1:2], rest, "partition 2 was committed to since the renewal before")
	require.Equal(t, []uint64{was[0] + 1, was[1], was[2]}, o.beats(t))
	rest, err = o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	require.Equal(t, o.owned[1:], rest)
	var alone error
	var asked sync.WaitGroup
	asked.Go(func() { alone = rest[0].Renew(ctx) })
	o.waits(t)
	require.NoError(t, locked.Commit(ctx))
	asked.Wait()
	require.NoError(t, alone)
	rest, err = o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestARenewalThatWaitsForTheRowOfItsInstanceHoldsUpNoCommit(t *testing.T) {
	o := openOwner(t, 2)
	locked, err := o.beside.Begin(ctx)
	require.NoError(t, err)
	_, err = locked.Exec(ctx, `UPDATE orrery.instances SET draining = true`)
	require.NoError(t, err)
	was := o.beats(t)
	var rest []store.Owned
	var renewed error
	var asked sync.WaitGroup
	asked.Go(func() { rest, renewed = o.Renew(ctx, o.is, o.owned...) })
	o.waits(t)
	require.Equal(t, []uint64{was[0] + 1, was[1] + 1}, o.beats(t), "its partitions are renewed already")
	require.NoError(t, o.owned[0].Update(ctx, func(tx store.Tx) error { return put(tx, 0, 1) }))
	require.NoError(t, locked.Commit(ctx))
	asked.Wait()
	require.NoError(t, renewed)
	require.Empty(t, rest)
}

// What an earlier build asks the database, which renews each partition by itself.
const (
	renewedAlone = `UPDATE orrery.partitions SET beat = beat + 1 WHERE part = $1 AND session = $2`
	claimedAlone = `UPDATE orrery.partitions SET token = token + 1, beat = beat + 1, session = 'another', owner = 'b', address = '', halted = ''
		WHERE part = $1 AND token = $2 AND (session = '' OR beat = $3) AND halted = ''`
)

func TestProgramsThatRenewEachPartitionByItselfSeeAndAreSeen(t *testing.T) {
	o := openOwner(t, 2)
	seen, err := o.Look(ctx, 1)
	require.NoError(t, err)
	_, err = o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	tag, err := o.beside.Exec(ctx, claimedAlone, 1, seen.Token, seen.Beat)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected(), "the owner has given a sign of life")

	seen, err = o.Look(ctx, 1)
	require.NoError(t, err)
	tag, err = o.beside.Exec(ctx, renewedAlone, 1, seen.Session)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	_, err = o.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "b"})
	require.ErrorIs(t, err, store.ErrClaimed)

	seen, err = o.Look(ctx, 1)
	require.NoError(t, err)
	tag, err = o.beside.Exec(ctx, claimedAlone, 1, seen.Token, seen.Beat)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	rest, err := o.Renew(ctx, o.is, o.owned...)
	require.NoError(t, err)
	require.Equal(t, o.owned[1:], rest)
	require.ErrorIs(t, rest[0].Renew(ctx), store.ErrFenced)
}

// waits returns once a session waits for a lock.
func (o *owner) waits(t *testing.T) {
	t.Helper()
	conn, err := pgx.ConnectConfig(ctx, o.beside.Config())
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	require.Eventually(t, func() bool {
		var many int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&many)
		return err == nil && many == 1
	}, time.Minute, time.Millisecond)
}
