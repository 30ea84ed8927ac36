package storetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// stager gives the store as one that stages, or skips the test.
func (s *suite) stager() store.Stager {
	st, ok := s.store.(store.Stager)
	if !ok {
		s.Skip("this store is no Stager")
	}
	return st
}

// stage runs fn in a Stage that must succeed.
func (s *suite) stage(fn func(tx store.Tx)) (durable func() error) {
	s.Helper()
	durable, err := s.stager().Stage(context.Background(), func(tx store.Tx) error {
		fn(tx)
		return nil
	})
	require.NoError(s, err)
	return durable
}

func (s *suite) lastSeq() (seq uint64) {
	s.view(func(tx store.ReadTx) { seq = must(tx.Seq())(s) })
	return seq
}

var stagedCases = []testCase{
	{"what was staged is seen by who writes next, and by a view once it is durable", func(s *suite) {
		durable := s.stage(func(tx store.Tx) { s.everything(tx) })
		s.requireEmpty()
		next := s.stage(func(tx store.Tx) { assert.Equal(s, uint64(1), must(tx.Seq())(s)) })
		s.requireEmpty()
		require.NoError(s, next())
		s.view(func(tx store.ReadTx) { s.requireFirst(tx, 10, 9) })
		require.NoError(s, durable())
		require.NoError(s, durable())
	}},
	{"an update has nothing to say before what it has read is durable", func(s *suite) {
		first := s.stage(func(tx store.Tx) { s.writeIn(tx, created(1, 0)) })
		err := s.store.Update(context.Background(), func(tx store.Tx) error {
			assert.Equal(s, uint64(1), must(tx.Seq())(s))
			return errAbort
		})
		require.Equal(s, errAbort, err)
		assert.Equal(s, uint64(1), s.lastSeq())

		second := s.stage(func(tx store.Tx) { s.writeIn(tx, created(2, 0)) })
		s.write(created(3, 0))
		assert.Equal(s, uint64(3), s.lastSeq())
		require.NoError(s, second())
		require.NoError(s, first())
	}},
	{"a stage that fails leaves nothing, and can be waited for", func(s *suite) {
		before := s.stage(func(tx store.Tx) { s.writeIn(tx, created(1, 0)) })
		durable, err := s.stager().Stage(context.Background(), func(tx store.Tx) error {
			s.writeIn(tx, created(2, 0))
			s.seq--
			return errAbort
		})
		require.Equal(s, errAbort, err)
		require.NoError(s, durable())
		assert.Equal(s, uint64(1), s.lastSeq(), "what it has read is durable now")
		require.NoError(s, before())
		require.PanicsWithValue(s, "boom", func() {
			_, _ = s.stager().Stage(context.Background(), func(store.Tx) error { panic("boom") })
		})
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		durable, err = s.stager().Stage(ended, func(store.Tx) error { panic("called") })
		require.ErrorIs(s, err, context.Canceled)
		require.NoError(s, durable())
	}},
	{"close waits until what was staged is durable", func(s *suite) {
		durable := s.stage(func(tx store.Tx) { s.writeIn(tx, created(1, 0)) })
		closed := make(chan error)
		go func() { closed <- s.store.Close() }()
		select {
		case err := <-closed:
			s.Fatal("it did not wait", err)
		default:
		}
		require.NoError(s, durable())
		require.NoError(s, <-closed)
		durable, err := s.stager().Stage(context.Background(), func(store.Tx) error { panic("called") })
		require.ErrorIs(s, err, store.ErrClosed)
		require.NoError(s, durable())
	}},
}
