package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestProcessesOnPostgreSQLFollowEachOther(t *testing.T) {
	url := postgrestest.Database(t)
	type term struct {
		name   string
		store  store.Owned
		commit error
	}
	terms, ends := make(chan term), make(chan error)
	start := func(name string) (stop func()) {
		cluster, err := postgres.Connect(t.Context(), url, postgres.Options{Lease: time.Minute})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- fleet.Run(ctx, fleet.Options{Cluster: cluster, Name: name, Lease: time.Minute}, func(ctx context.Context, tm fleet.Term) error {
				terms <- term{name, tm.Store, tm.Store.Update(ctx, func(store.Tx) error { return nil })}
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return context.Cause(ctx)
			})
		}()
		return func() {
			cancel()
			select {
			case cause := <-ends:
				assert.ErrorIs(t, cause, context.Canceled)
			case err := <-done:
				done <- err
			}
			assert.NoError(t, <-done)
			cluster.Close()
		}
	}
	stopA := start("a")
	first := <-terms
	require.NoError(t, first.commit)
	require.Equal(t, "a", first.name)
	stopB := start("b")
	watch, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer watch.Close()
	row, err := watch.Look(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []any{"a", first.store.Token()}, []any{row.Owner, row.Token})

	stopA() // b need not wait for the lease
	second := <-terms
	require.NoError(t, second.commit)
	require.Equal(t, "b", second.name)
	require.Greater(t, second.store.Token(), first.store.Token())

	// Whoever has seen b as it was takes nothing; one that has seen it as it is now replaces it, and b stands by.
	_, err = watch.Claim(t.Context(), store.PartitionClaim{Seen: row, Owner: "c"})
	require.ErrorIs(t, err, store.ErrClaimed)
	third, err := store.Owned(nil), store.ErrClaimed
	for errors.Is(err, store.ErrClaimed) { // a checkpoint in between is a sign of life
		row, err = watch.Look(t.Context(), 0)
		require.NoError(t, err)
		third, err = watch.Claim(t.Context(), store.PartitionClaim{Seen: row, Owner: "c"})
	}
	require.NoError(t, err)
	require.ErrorIs(t, second.store.Update(t.Context(), func(store.Tx) error { return nil }), store.ErrFenced)
	require.ErrorIs(t, <-ends, store.ErrFenced)
	require.NoError(t, third.Close())
	fourth := <-terms
	require.NoError(t, fourth.commit)
	require.Equal(t, "b", fourth.name)
	stopB()
}

func TestGroupsOnPostgreSQLDivideTheirPartitions(t *testing.T) {
	url := postgrestest.Database(t)
	const partitions = 4
	layout := store.Layout{Partitions: partitions, Rule: core.PartitionRule}
	type term struct {
		name      string
		partition int
		commit    error
	}
	terms := make(chan term, 64)
	start := func(name string) (stop func()) {
		cluster, err := postgres.Connect(t.Context(), url, postgres.Options{Lease: 20 * time.Second})
		require.NoError(t, err)
		require.NoError(t, cluster.SetLayout(t.Context(), layout), "the second one finds the same")
		g, err := fleet.NewGroup(fleet.Options{Cluster: cluster, Name: name, Lease: 20 * time.Second}, layout)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- g.Run(ctx, func(ctx context.Context, tm fleet.Term) error {
				terms <- term{name, tm.Partition, tm.Store.Update(ctx, func(store.Tx) error { return nil })}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		return func() {
			cancel()
			assert.NoError(t, <-done)
			cluster.Close()
		}
	}
	next := func(name string, many int) (list []int) {
		for range many {
			tm := <-terms
			require.NoError(t, tm.commit)
			require.Equal(t, name, tm.name)
			list = append(list, tm.partition)
		}
		return list
	}
	all := []int{0, 1, 2, 3}
	stopA := start("a")
	require.ElementsMatch(t, all, next("a", partitions))
	stopB := start("b")
	watch, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer watch.Close()
	require.NoError(t, watch.Drain(t.Context(), "a", true)) // then b need not wait until nothing has changed for a lease
	require.ElementsMatch(t, all, next("b", partitions))
	rows, err := watch.Partitions(t.Context())
	require.NoError(t, err)
	for _, row := range rows {
		assert.Equal(t, []any{"b", uint64(2)}, []any{row.Owner, row.Token})
	}
	require.NoError(t, watch.Drain(t.Context(), "a", false))
	stopB() // a need not wait for the lease
	require.ElementsMatch(t, all, next("a", partitions))
	stopA()
	list, err := watch.Instances(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
}
