package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// Process is a database with former owners, as one process sees it.
type Process interface {
	store.Cluster
	store.Handover
}

// RunHandover holds what open gives to [store.Handover]: an empty database, as two processes see it.
func RunHandover(t *testing.T, open func(t *testing.T) (former, owner Process)) {
	ctx := context.Background()
	key := func(id byte, n uint32) store.EffectKey { return store.EffectKey{ID: uuid.UUID{id}, N: n} }
	formers := func(t *testing.T, h store.Handover, partition int) ([]store.Former, []store.FormerResult) {
		t.Helper()
		all, results, err := h.Formers(ctx, partition, 10)
		require.NoError(t, err)
		return all, results
	}
	// claim has a process own a partition, whoever owned it before, and gives its session.
	claim := func(t *testing.T, p Process, partition int) (string, store.Owned) {
		t.Helper()
		seen, err := p.Look(ctx, partition)
		if !errors.Is(err, store.ErrNotFound) {
			require.NoError(t, err)
		}
		seen.Number = partition
		o, err := p.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "a"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = o.Close() })
		return o.Session(), o
	}
	// remain has a process own a partition, and give it back while it goes on with something.
	remain := func(t *testing.T, p Process, partition int, running ...store.EffectKey) store.Former {
		t.Helper()
		session, o := claim(t, p, partition)
		is := store.Former{Partition: partition, Session: session, Owner: "a", Running: running}
		require.NoError(t, p.Remain(ctx, is))
		require.NoError(t, o.Close())
		return is
	}
	t.Run("a former owner is listed in its partition until it departs, and its results until they are taken", func(t *testing.T) {
		a, b := open(t)
		is := remain(t, a, 1, key(1, 1), key(2, 7))
		all, results := formers(t, b, 1)
		require.Len(t, all, 1)
		assert.Empty(t, results)
		first := all[0].Beat
		all[0].Beat = 0
		assert.Equal(t, is, all[0])
		all, _ = formers(t, b, 0)
		assert.Empty(t, all, "it is another partition")

		is.Running = is.Running[1:]
		result := store.FormerResult{Session: is.Session, Key: key(1, 1), Data: []byte("a\x00b")}
		stops, err := a.Report(ctx, is, []store.FormerResult{result})
		require.NoError(t, err)
		assert.Empty(t, stops)
		second := result
		second.Data = []byte("another")
		_, err = a.Report(ctx, is, []store.FormerResult{second})
		require.NoError(t, err)
		all, results = formers(t, b, 1)
		assert.Greater(t, all[0].Beat, first)
		assert.Equal(t, is.Running, all[0].Running)
		assert.Equal(t, []store.FormerResult{result}, results, "what is there is left as it is")

		require.NoError(t, a.Depart(ctx, 1, is.Session, is.Session))
		all, results = formers(t, b, 1)
		assert.Empty(t, all)
		assert.Len(t, results, 1)
		owner, _ := claim(t, b, 1)
		require.NoError(t, b.Taken(ctx, 1, owner, []store.FormerResult{{Session: is.Session, Key: key(1, 1)}, {Session: "other", Key: key(1, 1)}}))
		_, results = formers(t, b, 1)
		assert.Empty(t, results)
	})
	t.Run("who is noted no more stores nothing", func(t *testing.T) {
		a, b := open(t)
		is := remain(t, a, 0)
		owner, _ := claim(t, b, 0)
		require.NoError(t, b.Depart(ctx, 0, owner, is.Session))
		_, err := a.Report(ctx, is, []store.FormerResult{{Session: is.Session, Key: key(1, 1)}})
		require.ErrorIs(t, err, store.ErrFenced)
		all, results := formers(t, b, 0)
		assert.Empty(t, all)
		assert.Empty(t, results)
		require.NoError(t, b.Stop(ctx, 0, owner, is.Session, []store.FormerStop{{Key: key(1, 1)}}))
		all, _ = formers(t, b, 0)
		assert.Empty(t, all)
	})
	t.Run("a former owner learns with its report what is to end, as it was said last", func(t *testing.T) {
		a, b := open(t)
		remain(t, a, 2)
		is := remain(t, a, 2, key(1, 1), key(2, 1))
		owner, _ := claim(t, b, 2)
		for _, want := range [][]store.FormerStop{{{Key: key(1, 1)}}, {{Key: key(1, 1), Kill: true}, {Key: key(2, 1)}}, nil} {
			require.NoError(t, b.Stop(ctx, 2, owner, is.Session, want))
			got, err := a.Report(ctx, is, nil)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	})
	t.Run("results are given up to so many", func(t *testing.T) {
		a, b := open(t)
		is := remain(t, a, 0)
		owner, _ := claim(t, b, 0)
		var all []store.FormerResult
		for n := range uint32(5) {
			all = append(all, store.FormerResult{Session: is.Session, Key: key(1, n), Data: []byte{byte(n)}})
		}
		_, err := a.Report(ctx, is, all)
		require.NoError(t, err)
		var seen []store.FormerResult
		for len(seen) < len(all) {
			_, some, err := b.Formers(ctx, 0, 2)
			require.NoError(t, err)
			require.Len(t, some, min(2, len(all)-len(seen)))
			require.NoError(t, b.Taken(ctx, 0, owner, some))
			seen = append(seen, some...)
		}
		assert.ElementsMatch(t, all, seen)
	})
	t.Run("an owner that was replaced changes nothing of what its successor knows", func(t *testing.T) {
		a, b := open(t)
		is := remain(t, a, 1, key(1, 1), key(2, 1))
		result := store.FormerResult{Session: is.Session, Key: key(3, 1), Data: []byte("x")}
		_, err := a.Report(ctx, is, []store.FormerResult{result})
		require.NoError(t, err)
		stalled, _ := claim(t, a, 1)
		elsewhere, _ := claim(t, a, 2)
		owner, of := claim(t, b, 1)
		want := []store.FormerStop{{Key: key(2, 1)}}
		require.NoError(t, b.Stop(ctx, 1, owner, is.Session, want))
		all, results := formers(t, b, 1)

		refused := func(by, why string) {
			t.Helper()
			require.ErrorIs(t, a.Stop(ctx, 1, by, is.Session, nil), store.ErrFenced, why)
			require.ErrorIs(t, a.Taken(ctx, 1, by, results), store.ErrFenced, why)
			require.ErrorIs(t, a.Depart(ctx, 1, by, is.Session), store.ErrFenced, why)
			require.ErrorIs(t, a.Remain(ctx, store.Former{Partition: 1, Session: by, Owner: "a"}), store.ErrFenced, why)
			now, told := formers(t, b, 1)
			assert.Equal(t, all, now, why)
			assert.Equal(t, results, told, why)
		}
		refused(stalled, "it was replaced")
		refused(elsewhere, "it owns another partition")
		require.NoError(t, a.Depart(ctx, 1, stalled, stalled), "a former owner departs by itself, and is not there")
		stops, err := a.Report(ctx, is, nil)
		require.NoError(t, err)
		assert.Equal(t, want, stops, "what its successor has said stays")
		all, _ = formers(t, b, 1)
		require.NoError(t, of.Close())
		refused(owner, "it has given the partition back")
		refused("", "nobody owns the partition")
	})
	t.Run("what is said of one former owner is said of no other, in its partition or in another one", func(t *testing.T) {
		a, b := open(t)
		here, beside, there := remain(t, a, 1, key(1, 1)), remain(t, a, 1, key(1, 1)), remain(t, a, 2, key(1, 1))
		for _, f := range []store.Former{here, beside, there} {
			_, err := a.Report(ctx, f, []store.FormerResult{{Session: f.Session, Key: key(1, 1), Data: []byte("d")}})
			require.NoError(t, err)
		}
		owner, _ := claim(t, b, 1)
		require.NoError(t, b.Stop(ctx, 1, owner, here.Session, []store.FormerStop{{Key: key(1, 1)}}))
		for _, f := range []store.Former{beside, there} {
			stops, err := a.Report(ctx, f, nil)
			require.NoError(t, err)
			assert.Empty(t, stops, "%s in partition %d", f.Session, f.Partition)
		}
		require.NoError(t, b.Taken(ctx, 1, owner, []store.FormerResult{{Session: here.Session, Key: key(1, 1)}}))
		require.NoError(t, b.Depart(ctx, 1, owner, here.Session))
		for _, f := range []store.Former{beside, there} {
			all, results := formers(t, b, f.Partition)
			require.Len(t, all, 1, "partition %d", f.Partition)
			assert.Equal(t, f.Session, all[0].Session)
			assert.Equal(t, []store.FormerResult{{Session: f.Session, Key: key(1, 1), Data: []byte("d")}}, results, "partition %d", f.Partition)
		}
	})
	t.Run("who remains once more gives a sign of life, and nothing is said to it yet", func(t *testing.T) {
		a, b := open(t)
		owner, _ := claim(t, a, 0)
		is := store.Former{Partition: 0, Session: owner, Owner: "a", Running: []store.EffectKey{key(1, 1)}}
		require.NoError(t, a.Remain(ctx, is))
		before, _ := formers(t, b, 0)
		require.NoError(t, b.Stop(ctx, 0, owner, owner, []store.FormerStop{{Key: key(1, 1)}}))
		is.Running = []store.EffectKey{key(2, 1)}
		require.NoError(t, a.Remain(ctx, is))
		after, _ := formers(t, b, 0)
		require.Len(t, after, 1)
		assert.Greater(t, after[0].Beat, before[0].Beat)
		assert.Equal(t, is.Running, after[0].Running)
		stops, err := a.Report(ctx, is, nil)
		require.NoError(t, err)
		assert.Empty(t, stops)
	})
}
