package postgres_test

import (
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// pair is a primary with a database, and its standby.
type pair struct {
	primary, standby *postgrestest.Server
	name, url        string
}

func newPair(t *testing.T, r postgrestest.Replication) *pair {
	t.Helper()
	p := &pair{primary: postgrestest.Start(t, postgrestest.Options{NoFsync: true})}
	u, err := url.Parse(p.primary.Database(t))
	require.NoError(t, err)
	p.name = strings.TrimPrefix(u.Path, "/")
	p.standby = p.primary.Standby(t, r)
	p.url = postgrestest.URL(p.name, p.primary, p.standby)
	return p
}

// failOver ends the primary, and has the standby take its place.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	p.primary.Kill(t)
	p.standby.Promote(t)
}

func TestAFailoverToASynchronousStandbyLosesNothingAndTheOwnerGoesOn(t *testing.T) {
	p := newPair(t, postgrestest.Synchronous)
	s := open(t, p.url, postgres.Options{Checkpoint: 20 * time.Millisecond, Patience: time.Minute})
	var made atomic.Int64
	stop, some := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if !assert.NoError(t, create(s, n, 1), "no commit fails, each waits for the promoted one") {
				return
			}
			if made.Add(1) == 30 {
				close(some)
			}
		}
	})
	<-some
	p.failOver(t)
	before := made.Load()
	require.Eventually(t, func() bool { return made.Load() > before+30 || t.Failed() }, time.Minute, time.Millisecond)
	close(stop)
	work.Wait()
	requireCount(t, s, int(made.Load()))
	require.NoError(t, s.Close())
	requireCount(t, open(t, p.url, postgres.Options{}), int(made.Load()))
}

func TestAFailoverToAStandbyThatLacksCommitsStopsThePartitionUntilTheLossIsAccepted(t *testing.T) {
	p := newPair(t, postgrestest.Asynchronous)
	s := open(t, p.url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(s, 0, 5))
	p.standby.Detach(t, p.primary)
	require.NoError(t, create(s, 5, 5))
	p.failOver(t)
	require.ErrorIs(t, create(s, 10, 1), postgres.ErrLost)
	<-s.Failed()
	require.ErrorIs(t, s.Failure(), postgres.ErrLost)
	require.NoError(t, s.Close())

	_, err := postgres.Open(ctx, p.url, postgres.Options{TakeOver: true})
	require.ErrorIs(t, err, postgres.ErrLost)
	c, err := postgres.Connect(ctx, p.url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	row, err := c.Look(ctx, 0)
	require.NoError(t, err)
	require.Contains(t, row.Halted, "commit 3 was acknowledged, the database's last one is 2")

	require.True(t, row.Lost)
	require.ErrorIs(t, c.AcceptLoss(ctx, 0, "what nobody was told"), store.ErrNotLost)
	require.ErrorIs(t, c.AcceptLoss(ctx, 1, row.Halted), store.ErrNotFound)
	_, err = c.Claim(ctx, store.PartitionClaim{Seen: row})
	require.ErrorIs(t, err, store.ErrUnusable)

	require.NoError(t, c.AcceptLoss(ctx, 0, row.Halted))
	require.ErrorContains(t, c.AcceptLoss(ctx, 0, row.Halted), "it is not stopped")
	row, err = c.Look(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, []any{"", false}, []any{row.Halted, row.Lost})
	owned, err := c.Claim(ctx, store.PartitionClaim{Seen: row})
	require.NoError(t, err)
	accepted := owned.(*postgres.Store)
	requireCount(t, accepted, 5)
	require.NoError(t, create(accepted, 20, 1))
	require.NoError(t, accepted.Close())
	requireCount(t, open(t, p.url, postgres.Options{}), 6)
}

// The late owner was frozen before the failover, and thaws once its successor's loss is accepted.
func TestALateOwnerStopsNothingForALossThatItsSuccessorHasToldAfterAFailover(t *testing.T) {
	p := newPair(t, postgrestest.Asynchronous)
	late := open(t, p.url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(late, 0, 5))
	p.standby.Detach(t, p.primary)
	for n := range 3 {
		require.NoError(t, create(late, 5+n, 1))
	}
	next := open(t, p.url, postgres.Options{Checkpoint: time.Hour, TakeOver: true})
	require.NoError(t, create(next, 10, 1))
	p.failOver(t)
	require.ErrorIs(t, create(next, 11, 1), postgres.ErrLost)

	accepted := open(t, p.url, postgres.Options{AcceptLoss: true})
	require.NoError(t, create(accepted, 20, 1))
	err := create(late, 12, 1)
	require.ErrorIs(t, err, store.ErrFenced)
	require.NotErrorIs(t, err, postgres.ErrLost)
	require.NoError(t, create(accepted, 21, 1))
	requireCount(t, accepted, 7)
}

func TestAFailoverToAStandbyThatLacksACheckpointLosesNothing(t *testing.T) {
	p := newPair(t, postgrestest.Asynchronous)
	s := open(t, p.url, postgres.Options{Checkpoint: time.Hour})
	require.NoError(t, create(s, 0, 5))
	p.standby.Detach(t, p.primary)
	require.NoError(t, postgres.Checkpoint(ctx, s))
	p.failOver(t)
	err := create(s, 5, 5)
	require.ErrorContains(t, err, "the database has lost a checkpoint")
	require.NotErrorIs(t, err, postgres.ErrLost)
	require.ErrorIs(t, err, store.ErrUnconfirmed)
	require.NoError(t, s.Close())
	next := open(t, p.url, postgres.Options{})
	requireCount(t, next, 5)
	require.NoError(t, create(next, 5, 5))
	requireCount(t, next, 10)
}
