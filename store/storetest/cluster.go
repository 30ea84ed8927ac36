package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// RunCluster holds clusters to what [store.Cluster] promises of layouts and instances. Each call of open gives an empty one.
func RunCluster(t *testing.T, open func(t *testing.T) store.Cluster) {
	for name, run := range map[string]func(t *testing.T, c store.Cluster){
		"a layout is set once":                              layoutOnce,
		"a layout must be possible":                         layoutPossible,
		"what was opened is not divided":                    layoutOpened,
		"one partition is what a database without one is":   layoutOfOne,
		"a layout has no partition beyond its number":       layoutBeyond,
		"who drains an instance finds it in the list":       drains,
		"partitions that were never opened are not listed":  layoutUnopened,
		"an instance and what it owns are renewed together": renewsTogether,
		"who was replaced is not renewed, its others are":   renewsNothingLost,
		"partitions of no instance in the list are renewed": renewsUnlisted,
	} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

func layoutOnce(t *testing.T, c store.Cluster) {
	ctx := t.Context()
	_, err := c.Layout(ctx)
	require.ErrorIs(t, err, store.ErrNotFound)
	l := store.Layout{Partitions: 16, Rule: 1}
	require.NoError(t, c.SetLayout(ctx, l))
	got, err := c.Layout(ctx)
	require.NoError(t, err)
	require.Equal(t, l, got)
	require.NoError(t, c.SetLayout(ctx, l), "the same")
	for _, other := range []store.Layout{{Partitions: 8, Rule: 1}, {Partitions: 16, Rule: 2}, {Partitions: 1, Rule: 1}} {
		err := c.SetLayout(ctx, other)
		require.ErrorIs(t, err, store.ErrDivided)
		require.ErrorContains(t, err, "it has 16 partitions by rule 1; want the same")
	}
	claimed(t, c, 3)
	require.NoError(t, c.SetLayout(ctx, l), "the same, also once there is something")
	got, err = c.Layout(ctx)
	require.NoError(t, err)
	require.Equal(t, l, got)
}

func layoutPossible(t *testing.T, c store.Cluster) {
	for want, l := range map[string]store.Layout{
		"partitions: 0: want 1 to 256":          {Rule: 1},
		"partitions: 257: want 1 to 256, since": {Partitions: 257, Rule: 1},
		"rule: 0: want 1 or more":               {Partitions: 2},
	} {
		require.ErrorContains(t, c.SetLayout(t.Context(), l), want)
	}
	_, err := c.Layout(t.Context())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func layoutOpened(t *testing.T, c store.Cluster) {
	claimed(t, c, 0)
	err := c.SetLayout(t.Context(), store.Layout{Partitions: 4, Rule: 1})
	require.ErrorIs(t, err, store.ErrDivided)
	require.ErrorContains(t, err, "partition 0 was opened without a layout; want a database that nobody has opened")
	_, err = c.Layout(t.Context())
	require.ErrorIs(t, err, store.ErrNotFound)
	claimed(t, c, 1)
}

func layoutOfOne(t *testing.T, c store.Cluster) {
	claimed(t, c, 0)
	l := store.Layout{Partitions: 1, Rule: 1}
	require.NoError(t, c.SetLayout(t.Context(), l))
	got, err := c.Layout(t.Context())
	require.NoError(t, err)
	require.Equal(t, l, got)
}

func layoutBeyond(t *testing.T, c store.Cluster) {
	require.NoError(t, c.SetLayout(t.Context(), store.Layout{Partitions: 4, Rule: 1}))
	_, err := c.Claim(t.Context(), store.PartitionClaim{Seen: store.Partition{Number: 4}, Owner: "a"})
	require.ErrorIs(t, err, store.ErrUnusable)
	claimed(t, c, 3)
}

func layoutUnopened(t *testing.T, c store.Cluster) {
	require.NoError(t, c.SetLayout(t.Context(), store.Layout{Partitions: 4, Rule: 1}))
	_, err := c.Look(t.Context(), 2)
	require.ErrorIs(t, err, store.ErrNotFound)
	claimed(t, c, 1)
	all, err := c.Partitions(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, []any{1, uint64(1), "a"}, []any{all[0].Number, all[0].Token, all[0].Owner})
}

func drains(t *testing.T, c store.Cluster) {
	ctx := t.Context()
	a := store.Instance{Name: "a", Session: "1", Able: "tools", Core: "14", Draining: true}
	require.NoError(t, c.Register(ctx, a))
	is := func(want store.Instance) {
		t.Helper()
		all, err := c.Instances(ctx)
		require.NoError(t, err)
		require.Equal(t, []store.Instance{want}, all)
	}
	a.Beat, a.Draining = 1, false
	is(a)
	require.ErrorIs(t, c.Drain(ctx, "b", true), store.ErrNotFound)
	require.NoError(t, c.Drain(ctx, "a", true))
	a.Draining = true
	is(a)
	_, err := c.Renew(ctx, a)
	require.NoError(t, err)
	a.Beat = 2
	is(a)
	require.NoError(t, c.Register(ctx, a))
	a.Beat = 3
	is(a) // the same session
	require.NoError(t, c.Drain(ctx, "a", false))
	a.Draining = false
	is(a)
	other := a
	other.Session = "0"
	require.NoError(t, c.Part(ctx, other))
	is(a) // who ends was replaced before
	require.NoError(t, c.Part(ctx, a))
	a.Draining = true
	is(a)
	require.NoError(t, c.Drain(ctx, "a", false))
	a.Draining = false
	require.NoError(t, c.Rebalance(ctx))
	a.Rebalanced = 1
	is(a)
	require.NoError(t, c.Drain(ctx, "a", true))
	a.Session, a.Able = "2", "other tools"
	require.NoError(t, c.Register(ctx, a))
	a.Beat = 4
	is(a) // it was started anew
}

// beats gives the signs of life of the partitions, by number.
func beats(t *testing.T, c store.Cluster) map[int]uint64 {
	t.Helper()
	all, err := c.Partitions(t.Context())
	require.NoError(t, err)
	list := make(map[int]uint64)
	for _, p := range all {
		list[p.Number] = p.Beat
	}
	return list
}

// renewed gives the partitions that a Renew has moved on, and its error.
func renewed(t *testing.T, c store.Cluster, i store.Instance, owned ...store.Owned) (moved []int, rest []store.Owned, err error) {
	t.Helper()
	before := beats(t, c)
	rest, err = c.Renew(t.Context(), i, owned...)
	after := beats(t, c)
	for n := range store.MaxPartitions {
		if before[n] != after[n] {
			moved = append(moved, n)
		}
	}
	return moved, rest, err
}

func renewsTogether(t *testing.T, c store.Cluster) {
	ctx := t.Context()
	a := store.Instance{Name: "a", Session: "1"}
	require.NoError(t, c.Register(ctx, a))
	two, zero := claimed(t, c, 2), claimed(t, c, 0)
	claimed(t, c, 1)
	for range 2 {
		moved, rest, err := renewed(t, c, a, two, zero)
		require.NoError(t, err)
		assert.Empty(t, rest)
		assert.Equal(t, []int{0, 2}, moved, "1 was not asked for")
	}
	moved, rest, err := renewed(t, c, a)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Empty(t, moved)
	all, err := c.Instances(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(4), all[0].Beat)
}

func renewsNothingLost(t *testing.T, c store.Cluster) {
	ctx := t.Context()
	a := store.Instance{Name: "a", Session: "1"}
	require.NoError(t, c.Register(ctx, a))
	lost, kept, closed := claimed(t, c, 0), claimed(t, c, 1), claimed(t, c, 2)
	require.NoError(t, closed.Close())
	seen, err := c.Look(ctx, 0)
	require.NoError(t, err)
	next, err := c.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "b"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, next.Close()) })
	other := struct{ store.Owned }{kept} // of another implementation
	moved, rest, err := renewed(t, c, a, lost, kept, closed, other)
	require.NoError(t, err)
	assert.Equal(t, []int{1}, moved)
	require.Equal(t, []store.Owned{lost, closed, other}, rest)
	require.ErrorIs(t, lost.Renew(ctx), store.ErrFenced)
	require.ErrorIs(t, closed.Renew(ctx), store.ErrClosed)
	require.NoError(t, other.Renew(ctx))
	moved, rest, err = renewed(t, c, a, lost, kept)
	require.NoError(t, err)
	assert.Equal(t, []int{1}, moved)
	require.Equal(t, []store.Owned{lost}, rest)
	require.NoError(t, next.Update(ctx, func(store.Tx) error { return nil }), "nobody gave signs of life in its place")
}

func renewsUnlisted(t *testing.T, c store.Cluster) {
	ctx := t.Context()
	a := store.Instance{Name: "a", Session: "1"}
	zero, one := claimed(t, c, 0), claimed(t, c, 1)
	all := func(why string) {
		t.Helper()
		moved, rest, err := renewed(t, c, a, zero, one)
		require.ErrorIs(t, err, store.ErrFenced, why)
		assert.Empty(t, rest, why)
		assert.Equal(t, []int{0, 1}, moved, why)
	}
	all("it never was in the list")
	require.NoError(t, c.Register(ctx, a))
	_, _, err := renewed(t, c, a)
	require.NoError(t, err)
	require.NoError(t, c.Register(ctx, store.Instance{Name: "a", Session: "2"}))
	all("another one has its name")
	require.NoError(t, c.Leave(ctx, store.Instance{Name: "a", Session: "2"}))
	all("its row was deleted")
}

// claimed has a partition opened, and given back as the test ends.
func claimed(t *testing.T, c store.Cluster, number int) store.Owned {
	t.Helper()
	o, err := c.Claim(t.Context(), store.PartitionClaim{Seen: store.Partition{Number: number}, Owner: "a"})
	require.NoError(t, err)
	require.NoError(t, o.Update(context.WithoutCancel(t.Context()), func(store.Tx) error { return nil }))
	t.Cleanup(func() { assert.NoError(t, o.Close()) })
	return o
}
