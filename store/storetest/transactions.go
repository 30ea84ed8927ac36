package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// everything does one thing of each kind in a transaction.
func (s *suite) everything(tx store.Tx) {
	require.NoError(s, tx.BeginEpoch(1))
	require.NoError(s, tx.Put(s.seq+1, []store.Write{created(1, 5, counted("all", 1))}))
	require.NoError(s, tx.AppendJournal(s.seq+1, 1, []byte(`{}`)))
	require.NoError(s, tx.PutOutbox(outboxEntry(1, 1, "a")))
	require.NoError(s, tx.PutWebhook(store.Webhook{ID: id(1), Route: "r"}))
	require.NoError(s, errOf(tx.Acquire("c", "a", 1e9, 1)))
	require.NoError(s, tx.SetMeta("m", []byte("v")))
	require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(9), At: 1, Raw: []byte("x")}, 0))
}

// requireEmpty holds the store to have nothing of everything.
func (s *suite) requireEmpty() {
	s.Helper()
	s.view(func(tx store.ReadTx) {
		require.NoError(s, tx.Records(func(r store.Record) error { return errors.New("a record is there") }))
		require.NoError(s, tx.Outbox(func(store.OutboxEntry) error { return errors.New("an outbox entry is there") }))
		assert.Empty(s, batches(s, tx, 0))
		assert.Empty(s, must(tx.Due(nil, nil, 1000, 9))(s))
		assert.Empty(s, must(tx.Scan(kind, "all", store.Cursor{}, false, 9))(s))
		assert.Zero(s, must(tx.Count(kind, "all"))(s))
		assert.Len(s, must(tx.Epochs())(s), 1)
		assert.Empty(s, must(tx.WaitingLanes())(s))
		assert.Empty(s, must(tx.Webhooks(9))(s))
		assert.Empty(s, must(tx.Claims(""))(s))
		assert.Empty(s, must(tx.Quarantine(9))(s))
		assert.Nil(s, must(tx.Meta("m"))(s))
	})
}

func (s *suite) lastCommit() (n uint64, err error) {
	s.view(func(tx store.ReadTx) { n, err = tx.LastCommit() })
	return n, err
}

var transactionCases = []testCase{
	{"an error rolls everything back and comes out as it is", func(s *suite) {
		err := s.store.Update(context.Background(), func(tx store.Tx) error {
			s.everything(tx)
			return errAbort
		})
		require.Equal(s, errAbort, err)
		s.requireEmpty()
	}},
	{"a panic rolls everything back and goes on, and the store stays usable", func(s *suite) {
		require.PanicsWithValue(s, "boom", func() {
			_ = s.store.Update(context.Background(), func(tx store.Tx) error {
				s.everything(tx)
				panic("boom")
			})
		})
		require.PanicsWithValue(s, "boom", func() {
			_ = s.store.View(context.Background(), func(store.ReadTx) error { panic("boom") })
		})
		s.requireEmpty()
		s.write(created(1, 0))
		require.PanicsWithValue(s, "boom", func() {
			_ = s.store.View(context.Background(), func(tx store.ReadTx) error {
				return tx.Records(func(store.Record) error { panic("boom") })
			})
		})
	}},
	{"a view sees one state, whatever is committed meanwhile", func(s *suite) {
		w := created(1, 5, counted("all", 1))
		s.write(w)
		s.view(func(tx store.ReadTx) {
			s.write(changed(w, 1, 9), created(2, 5, counted("all", 1)))
			s.requireFirst(tx, 10, 9)
			assert.Equal(s, uint64(1), must(tx.Seq())(s))
		})
		s.view(func(tx store.ReadTx) { assert.Equal(s, uint64(2), must(tx.Get(kind, id(1)))(s).Version) })
	}},
	{"the number of the last commit grows with each that changes anything", func(s *suite) {
		seen := must(s.lastCommit())(s)
		for n := range 3 {
			s.update(func(tx store.Tx) {
				assert.Equal(s, seen, must(tx.LastCommit())(s))
				s.writeIn(tx, created(n, 0))
				assert.Equal(s, seen, must(tx.LastCommit())(s), "what it writes itself does not count")
			})
			now := must(s.lastCommit())(s)
			assert.Greater(s, now, seen)
			seen = now
		}
		require.Equal(s, errAbort, s.refused(func(tx store.Tx) error {
			require.NoError(s, tx.SetMeta("m", []byte("v")))
			return errAbort
		}))
		assert.Equal(s, seen, must(s.lastCommit())(s))
		s.view(func(tx store.ReadTx) {
			s.update(func(tx store.Tx) { require.NoError(s, tx.SetMeta("m", []byte("v"))) })
			assert.Equal(s, seen, must(tx.LastCommit())(s))
		})
		assert.Greater(s, must(s.lastCommit())(s), seen)
	}},
	{"a view beside an update sees nothing of it", func(s *suite) {
		s.update(func(tx store.Tx) {
			s.everything(tx)
			done := make(chan error)
			go func() {
				done <- s.store.View(context.Background(), func(tx store.ReadTx) error {
					seq, err := tx.Seq()
					if seq != 0 {
						return errors.New("the view sees an uncommitted batch")
					}
					return err
				})
			}()
			require.NoError(s, <-done)
		})
	}},
	{"updates run one after another", func(s *suite) {
		s.write(created(0, 0))
		var wg sync.WaitGroup
		const writers, rounds = 8, 10
		for range writers {
			wg.Go(func() {
				for range rounds {
					assert.NoError(s, s.store.Update(context.Background(), func(tx store.Tx) error {
						r, err := tx.Get(kind, id(0))
						if err != nil {
							return err
						}
						seq, err := tx.Seq()
						if err != nil {
							return err
						}
						w := store.Write{Kind: kind, ID: id(0), State: []byte(`{}`), Prev: store.Prev{Version: r.Version, Seq: r.Seq}}
						return errors.Join(tx.Put(seq+1, []store.Write{w}), tx.AppendJournal(seq+1, 1, []byte(`{}`)))
					}))
				}
			})
		}
		wg.Wait()
		s.view(func(tx store.ReadTx) { assert.Equal(s, uint64(1+writers*rounds), must(tx.Get(kind, id(0)))(s).Version) })
	}},
	{"a context that has ended refuses, and one that ends meanwhile rolls back", func(s *suite) {
		reason := errors.New("the caller went home")
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(reason)
		require.ErrorIs(s, s.store.View(ended, func(store.ReadTx) error { panic("called") }), reason)
		require.ErrorIs(s, s.store.Update(ended, func(store.Tx) error { panic("called") }), reason)
		require.ErrorIs(s, errOf(s.store.Backup(ended, &bytes.Buffer{})), reason)

		ctx, cancel := context.WithCancelCause(context.Background())
		require.ErrorIs(s, s.store.Update(ctx, func(tx store.Tx) error {
			s.everything(tx)
			cancel(reason)
			require.ErrorIs(s, errOf(tx.Seq()), reason)
			return nil
		}), reason)
		s.requireEmpty()
	}},
	{"an update that waits for another gives up when its context ends", func(s *suite) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		s.update(func(store.Tx) {
			go func() { done <- s.store.Update(ctx, func(store.Tx) error { return nil }) }()
			cancel()
			require.ErrorIs(s, <-done, context.Canceled)
		})
	}},
	{"a transaction cannot be used after its function returned", func(s *suite) {
		var kept store.ReadTx
		s.view(func(tx store.ReadTx) { kept = tx })
		_, err := kept.Get(kind, id(1))
		require.Error(s, err)
		require.NotErrorIs(s, err, store.ErrCorrupt)
		var keptWriter store.Tx
		s.update(func(tx store.Tx) { keptWriter = tx })
		require.Error(s, keptWriter.SetMeta("m", []byte("v")))
		require.NotErrorIs(s, keptWriter.SetMeta("m", []byte("v")), store.ErrCorrupt)
	}},
	{"a closed store refuses, and closes again without complaint", func(s *suite) {
		require.NoError(s, s.store.Close())
		require.NoError(s, s.store.Close())
		ctx := context.Background()
		require.ErrorIs(s, s.store.View(ctx, func(store.ReadTx) error { panic("called") }), store.ErrClosed)
		require.ErrorIs(s, s.store.Update(ctx, func(store.Tx) error { panic("called") }), store.ErrClosed)
		require.ErrorIs(s, errOf(s.store.Backup(ctx, &bytes.Buffer{})), store.ErrClosed)
	}},
	{"close waits for the transactions under way", func(s *suite) {
		begun, closed, ended := make(chan bool), make(chan error), make(chan error)
		go func() {
			ended <- s.store.View(context.Background(), func(tx store.ReadTx) error {
				close(begun)
				for s.store.View(context.Background(), func(store.ReadTx) error { return nil }) == nil {
				}
				_, err := tx.Seq() // Close has begun by now
				return err
			})
		}()
		<-begun
		go func() { closed <- s.store.Close() }()
		require.NoError(s, <-ended)
		require.NoError(s, <-closed)
	}},
	{"a backup writes as much as it says", func(s *suite) {
		s.write(created(1, 5, counted("all", 1)))
		var b bytes.Buffer
		n := must(s.store.Backup(context.Background(), &b))(s)
		assert.Equal(s, int64(b.Len()), n)
		assert.NotZero(s, n)
		require.ErrorIs(s, errOf(s.store.Backup(context.Background(), failingWriter{})), errAbort)
	}},
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errAbort }
