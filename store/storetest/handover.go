package storetest

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// RunHandover holds what open gives to [store.Handover]: an empty database, as two processes see it.
func RunHandover(t *testing.T, open func(t *testing.T) (former, owner store.Handover)) {
	ctx := context.Background()
	key := func(id byte, n uint32) store.EffectKey { return store.EffectKey{ID: uuid.UUID{id}, N: n} }
	formers := func(t *testing.T, h store.Handover, partition int) ([]store.Former, []store.FormerResult) {
		t.Helper()
		all, results, err := h.Formers(ctx, partition, 10)
		require.NoError(t, err)
		return all, results
	}
	t.Run("a former owner is listed in its partition until it departs, and its results until they are taken", func(t *testing.T) {
		a, b := open(t)
		is := store.Former{Partition: 1, Session: "s", Owner: "a", Running: []store.EffectKey{key(1, 1), key(2, 7)}}
		require.NoError(t, a.Remain(ctx, is))
		all, results := formers(t, b, 1)
		require.Len(t, all, 1)
		assert.Empty(t, results)
		first := all[0].Beat
		all[0].Beat = 0
		assert.Equal(t, is, all[0])
		all, _ = formers(t, b, 0)
		assert.Empty(t, all, "it is another partition")

		is.Running = is.Running[1:]
		result := store.FormerResult{Session: "s", Key: key(1, 1), Data: []byte("a\x00b")}
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

		require.NoError(t, a.Depart(ctx, 1, "s"))
		all, results = formers(t, b, 1)
		assert.Empty(t, all)
		assert.Len(t, results, 1)
		require.NoError(t, b.Taken(ctx, 1, []store.FormerResult{{Session: "s", Key: key(1, 1)}, {Session: "other", Key: key(1, 1)}}))
		_, results = formers(t, b, 1)
		assert.Empty(t, results)
	})
	t.Run("who is noted no more stores nothing", func(t *testing.T) {
		a, b := open(t)
		is := store.Former{Partition: 0, Session: "s", Owner: "a"}
		require.NoError(t, a.Remain(ctx, is))
		require.NoError(t, b.Depart(ctx, 0, "s"))
		_, err := a.Report(ctx, is, []store.FormerResult{{Session: "s", Key: key(1, 1)}})
		require.ErrorIs(t, err, store.ErrFenced)
		all, results := formers(t, b, 0)
		assert.Empty(t, all)
		assert.Empty(t, results)
		require.NoError(t, b.Stop(ctx, 0, "s", []store.FormerStop{{Key: key(1, 1)}}))
		all, _ = formers(t, b, 0)
		assert.Empty(t, all)
	})
	t.Run("a former owner learns with its report what is to end, as it was said last", func(t *testing.T) {
		a, b := open(t)
		is := store.Former{Partition: 2, Session: "s", Owner: "a", Running: []store.EffectKey{key(1, 1), key(2, 1)}}
		require.NoError(t, a.Remain(ctx, is))
		require.NoError(t, a.Remain(ctx, store.Former{Partition: 2, Session: "other", Owner: "c"}))
		for _, want := range [][]store.FormerStop{{{Key: key(1, 1)}}, {{Key: key(1, 1), Kill: true}, {Key: key(2, 1)}}, nil} {
			require.NoError(t, b.Stop(ctx, 2, "s", want))
			got, err := a.Report(ctx, is, nil)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	})
	t.Run("results are given up to so many", func(t *testing.T) {
		a, b := open(t)
		is := store.Former{Partition: 0, Session: "s", Owner: "a"}
		require.NoError(t, a.Remain(ctx, is))
		var all []store.FormerResult
		for n := range uint32(5) {
			all = append(all, store.FormerResult{Session: "s", Key: key(1, n), Data: []byte{byte(n)}})
		}
		_, err := a.Report(ctx, is, all)
		require.NoError(t, err)
		var seen []store.FormerResult
		for len(seen) < len(all) {
			_, some, err := b.Formers(ctx, 0, 2)
			require.NoError(t, err)
			require.Len(t, some, min(2, len(all)-len(seen)))
			require.NoError(t, b.Taken(ctx, 0, some))
			seen = append(seen, some...)
		}
		assert.ElementsMatch(t, all, seen)
	})
	t.Run("what is said of one former owner is said of no other, in its partition or in another one", func(t *testing.T) {
		a, b := open(t)
		here := store.Former{Partition: 1, Session: "s", Owner: "a", Running: []store.EffectKey{key(1, 1)}}
		beside, there := here, here
		beside.Session = "other"
		there.Partition = 2
		for _, f := range []store.Former{here, beside, there} {
			require.NoError(t, a.Remain(ctx, f))
			_, err := a.Report(ctx, f, []store.FormerResult{{Session: f.Session, Key: key(1, 1), Data: []byte("d")}})
			require.NoError(t, err)
		}
		require.NoError(t, b.Stop(ctx, 1, "s", []store.FormerStop{{Key: key(1, 1)}}))
		for _, f := range []store.Former{beside, there} {
			stops, err := a.Report(ctx, f, nil)
			require.NoError(t, err)
			assert.Empty(t, stops, "%s in partition %d", f.Session, f.Partition)
		}
		require.NoError(t, b.Taken(ctx, 1, []store.FormerResult{{Session: "s", Key: key(1, 1)}}))
		require.NoError(t, b.Depart(ctx, 1, "s"))
		for _, f := range []store.Former{beside, there} {
			all, results := formers(t, b, f.Partition)
			require.Len(t, all, 1, "partition %d", f.Partition)
			assert.Equal(t, f.Session, all[0].Session)
			assert.Equal(t, []store.FormerResult{{Session: f.Session, Key: key(1, 1), Data: []byte("d")}}, results, "partition %d", f.Partition)
		}
	})
	t.Run("who remains once more gives a sign of life, and nothing is said to it yet", func(t *testing.T) {
		a, b := open(t)
		is := store.Former{Partition: 0, Session: "s", Owner: "a", Running: []store.EffectKey{key(1, 1)}}
		require.NoError(t, a.Remain(ctx, is))
		before, _ := formers(t, b, 0)
		require.NoError(t, b.Stop(ctx, 0, "s", []store.FormerStop{{Key: key(1, 1)}}))
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
