package postgres_test

import (
	"context"
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

func TestThePartitionsOfAProcessShareItsConnections(t *testing.T) {
	const partitions, views = 16, 4
	url := postgrestest.Database(t)
	watch, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, watch.Close(ctx)) }()
	connections := func() (n int) {
		require.NoError(t, watch.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n))
		return n
	}
	c, err := postgres.Connect(ctx, url, postgres.Options{Views: views, Checkpoint: time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetLayout(ctx, store.Layout{Partitions: partitions, Rule: 1}))
	var all []*postgres.Store
	for n := range partitions {
		s, err := c.Claim(ctx, store.PartitionClaim{Seen: store.Partition{Number: n}, Owner: "one"})
		require.NoError(t, err)
		is, ok := s.(*postgres.Store)
		require.True(t, ok)
		all = append(all, is)
		requireCount(t, is, 0)
	}
	t.Logf("16 partitions that were opened: %d connections", connections())
	assert.LessOrEqual(t, connections(), partitions, "of which 16 pools for commits, and as many for Views, would have 32")

	var work sync.WaitGroup
	for _, s := range all {
		for n := range 20 {
			work.Go(func() {
				assert.NoError(t, create(s, 10*n, 1))
				assert.NoError(t, s.View(ctx, func(tx store.ReadTx) error { _, err := tx.Seq(); return err }))
			})
		}
	}
	work.Wait()
	t.Logf("after 320 commits and Views at a time: %d connections", connections())
	assert.LessOrEqual(t, connections(), 4+2*(partitions+1)+views+partitions)

	// One partition takes all that is shared, and what is its own.
	release, held := make(chan struct{}), make(chan struct{}, views+1)
	for range views + 1 {
		work.Go(func() {
			assert.NoError(t, all[0].View(ctx, func(store.ReadTx) error {
				held <- struct{}{}
				<-release
				return nil
			}))
		})
	}
	for range views + 1 {
		<-held
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, all[0].View(gone, func(store.ReadTx) error { return nil }), context.Canceled)
	requireCount(t, all[1], 20)
	close(release)
	work.Wait()
	for _, s := range all {
		require.NoError(t, s.Close())
	}
}
