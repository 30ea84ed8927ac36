package storetest

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/stream"
)

// runCopies holds a store that is a [store.Exporter] and a [store.Importer] to what these promise.
func runCopies(t *testing.T, open func(t *testing.T) store.Store) {
	t.Run("a copy has all that is kept, byte for byte", func(t *testing.T) {
		s := newSuite(t, open)
		keepAll(s)
		if into, ok := sent(t, s.store, func() store.Store { return newSuite(t, open).store }); ok {
			assertAll(&suite{T: t, store: into})
		}
	})
	t.Run("an empty store can be copied", func(t *testing.T) {
		s := newSuite(t, open)
		into, ok := sent(t, s.store, func() store.Store { return newSuite(t, open).store })
		if !ok {
			return
		}
		c := &suite{T: t, store: into}
		c.view(func(tx store.ReadTx) {
			assert.Zero(c, must(tx.Seq())(c))
			assert.Equal(c, []store.Epoch{{Number: 1, First: 1}}, must(tx.Epochs())(c))
		})
		c.write(created(1, 5, counted("all", 1)))
	})
	t.Run("only an empty store can take a copy", func(t *testing.T) {
		s, into := newSuite(t, open), newSuite(t, open)
		from, _ := s.store.(store.Exporter)
		to, ok := into.store.(store.Importer)
		if from == nil || !ok {
			return
		}
		into.write(created(1, 5))
		require.ErrorContains(t, to.Import(context.Background(), from), "the store is not empty")
		into.view(func(tx store.ReadTx) { assert.Equal(into, uint64(1), must(tx.Seq())(into)) })
	})
}

// sent copies a store by a stream into an empty one, and checks that the same would be read of
// both; false: the stores do not take part.
func sent(t require.TestingT, from store.Store, empty func() store.Store) (store.Store, bool) {
	source, ok := from.(store.Exporter)
	if !ok {
		return nil, false
	}
	ctx := context.Background()
	var first, second bytes.Buffer
	written, err := stream.Write(ctx, &first, source, stream.Options{})
	require.NoError(t, err)
	require.Empty(t, written.Omitted)
	to := empty()
	into, ok := to.(store.Importer)
	if !ok {
		return nil, false
	}
	r, err := stream.NewReader(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, into.Import(ctx, r))
	again, err := stream.Write(ctx, &second, to.(store.Exporter), stream.Options{})
	require.NoError(t, err)
	assert.Equal(t, written.Entries, again.Entries)
	assert.Equal(t, written.Entries, r.Summary().Entries)
	assert.Equal(t, written.Head.Seq, again.Head.Seq)
	assert.Equal(t, written.Head.Token, again.Head.Token)
	return to, true
}

// compareCopy compares a copy with the model.
func compareCopy(t *testing.T, rt *rapid.T, m *model, from store.Store, open func(t *testing.T) store.Store) {
	to, ok := sent(rt, from, func() store.Store { return open(t) })
	if !ok {
		return
	}
	require.NoError(rt, to.View(context.Background(), func(tx store.ReadTx) error {
		compare(rt, m, tx)
		return nil
	}))
	require.NoError(rt, to.Close())
}

// keepAll commits something of each kind, in three epochs.
func keepAll(s *suite) {
	w := created(1, 5, counted("all", 1), term("one\x1ftwo", -3))
	both := ofKinds(created(2, 7), "action", "recurring") // they have one key of the due index
	both[1].Share = math.MaxUint32
	s.write(append(both, w, created(3, 0))...)
	s.update(func(tx store.Tx) {
		require.NoError(s, tx.BeginEpoch(11))
		s.writeIn(tx, changed(w, 1, 6, counted("all", 1)), deleted(created(3, 0), 1))
		require.NoError(s, tx.BeginEpoch(12))
	})
	s.update(func(tx store.Tx) {
		s.writeIn(tx, deleted(changed(w, 1, 6, counted("all", 1)), 2))
		for n, holder := range []string{"", "somebody"} {
			require.NoError(s, tx.PutOutbox(store.OutboxEntry{
				Key: store.EffectKey{ID: id(2), N: uint32(n)}, Seq: 3, Kind: kind, Lane: "tool\x1fns", Effect: []byte(`{"a": 1}`), Holder: holder, Token: uint64(7 * n),
			}))
		}
		require.NoError(s, tx.PutWebhook(store.Webhook{ID: id(4), Route: "r", Header: []byte(`{"a":["b"]}`), ReceivedAt: 9, Body: []byte("\x00\xff raw")}))
		require.NoError(s, tx.PutRunLog(id(5), 1, []byte("said\x00")))
		require.NoError(s, tx.PutRunLog(id(5), 2, nil))
		must(tx.Acquire("left", "somebody", 1e9, 5))(s)
		left := must(tx.Acquire("gone", "somebody", 1e9, 5))(s)
		require.NoError(s, tx.Release("gone", left.Token))
		require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(6), At: 8, Reason: "why not", Raw: []byte("\x00bad")}, 0))
		require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindOutbox, ID: id(6), N: 9, At: 8, Reason: "why not"}, 0))
		require.NoError(s, tx.SetMeta("name", []byte(`{"v":1}`)))
	})
}

// assertAll checks what keepAll has committed.
func assertAll(s *suite) {
	s.view(func(tx store.ReadTx) {
		assert.Equal(s, uint64(3), must(tx.Seq())(s))
		assert.Equal(s, []store.Epoch{{Number: 1, First: 1}, {Number: 2, First: 2, Started: 11}, {Number: 3, First: 3, Started: 12}}, must(tx.Epochs())(s))
		assert.Equal(s, []store.DueEntry{dueEntry(7, 2, "action"), sharedEntry(7, 2, "recurring", math.MaxUint32)}, must(tx.Due(nil, nil, 100, 9))(s))
		assert.Zero(s, must(tx.Count(kind, "all"))(s))
		bases := map[uint64][]uuid.UUID{}
		for epoch := range uint64(3) {
			require.NoError(s, tx.Base(epoch+1, func(r store.Record) error {
				bases[epoch+1] = append(bases[epoch+1], r.ID)
				return nil
			}))
		}
		assert.Equal(s, map[uint64][]uuid.UUID{2: {id(1), id(3)}, 3: {id(1)}}, bases)
		last := must(tx.Batch(3))(s)
		assert.True(s, last.Known)
		require.Len(s, last.Changes, 1)
		assert.Equal(s, store.Changed{Kind: kind, ID: id(1), Before: 2, Gone: true}, last.Changes[0])
		before := must(tx.Batch(2))(s)
		require.Len(s, before.Changes, 2)
		for _, c := range before.Changes {
			if !c.Gone {
				state, ok := c.Delta.Before(nil, []byte(`{"n":2}`))
				assert.True(s, ok)
				assert.JSONEq(s, `{"n":1}`, string(state))
			}
		}
		waiting := must(tx.Waiting("tool\x1fns", 9))(s)
		require.Len(s, waiting, 1)
		assert.JSONEq(s, `{"a": 1}`, string(waiting[0].Effect))
		handed := must(tx.OutboxEntry(store.EffectKey{ID: id(2), N: 1}))(s)
		assert.Equal(s, "somebody", handed.Holder)
		assert.Equal(s, uint64(7), handed.Token)
		hooks := must(tx.Webhooks(9))(s)
		require.Len(s, hooks, 1)
		assert.Equal(s, store.Webhook{ID: id(4), Route: "r", Header: []byte(`{"a":["b"]}`), ReceivedAt: 9, Body: []byte("\x00\xff raw")}, hooks[0])
		assert.Equal(s, "said\x00", string(must(tx.RunLog(id(5), 1))(s)))
		assert.Empty(s, must(tx.RunLog(id(5), 2))(s))
		claims := must(tx.Claims(""))(s)
		require.Len(s, claims, 1)
		assert.Equal(s, "left", claims[0].Name)
		aside := must(tx.Quarantine(9))(s)
		require.Len(s, aside, 2)
		assert.Equal(s, "\x00bad", string(aside[0].Raw))
		assert.Equal(s, uint32(9), aside[1].N)
		assert.JSONEq(s, `{"v":1}`, string(must(tx.Meta("name"))(s)))
	})
	s.update(func(tx store.Tx) {
		assert.Greater(s, must(tx.Acquire("third", "somebody", 1e9, 5))(s).Token, uint64(2), "no token is given twice")
	})
}
