package storetest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

func batches(s *suite, tx store.ReadTx, from uint64) []string {
	out := []string{}
	require.NoError(s, tx.Journal(from, func(seq uint64, batch []byte) error {
		out = append(out, fmt.Sprintf("%d %s", seq, batch))
		return nil
	}))
	return out
}

func base(s *suite, tx store.ReadTx, epoch uint64) []store.Record {
	out := []store.Record{}
	require.NoError(s, tx.Base(epoch, func(r store.Record) error {
		r.State = slices.Clone(r.State)
		out = append(out, r)
		return nil
	}))
	return out
}

var journalCases = []testCase{
	{"an empty journal ends at 0", func(s *suite) {
		s.view(func(tx store.ReadTx) {
			assert.Zero(s, must(tx.Seq())(s))
			assert.Empty(s, batches(s, tx, 0))
		})
	}},
	{"batches read in order from any number on, byte for byte", func(s *suite) {
		s.update(func(tx store.Tx) {
			for seq, batch := range []string{`{"a":1}`, ``, "not JSON \x00\xff"} {
				require.NoError(s, tx.AppendJournal(uint64(seq+1), 1_700_000_000_000, []byte(batch)))
			}
			assert.Equal(s, uint64(3), must(tx.Seq())(s))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []string{`1 {"a":1}`, `2 `, "3 not JSON \x00\xff"}, batches(s, tx, 0))
			assert.Equal(s, []string{"3 not JSON \x00\xff"}, batches(s, tx, 3))
			assert.Empty(s, batches(s, tx, 4))
			require.ErrorIs(s, tx.Journal(1, func(uint64, []byte) error { return errAbort }), errAbort)
		})
	}},
	{"a batch may be used again after AppendJournal", func(s *suite) {
		b := []byte(`{"a":1}`)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.AppendJournal(1, 1, b))
			copy(b, "XXXXXXX")
		})
		s.view(func(tx store.ReadTx) { assert.Equal(s, []string{`1 {"a":1}`}, batches(s, tx, 0)) })
	}},
	{"a batch out of order is refused", func(s *suite) {
		s.write()
		for _, seq := range []uint64{0, 1, 3} {
			err := s.refused(func(tx store.Tx) error { return tx.AppendJournal(seq, 1, []byte(`{}`)) })
			require.ErrorContains(s, err, "want 2")
		}
	}},
	{"records belong to the batch of their transaction, before and after the append", func(s *suite) {
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.Put(1, []store.Write{created(1, 0)}))
			require.NoError(s, tx.AppendJournal(1, 1, []byte(`{}`)))
			require.NoError(s, tx.Put(1, []store.Write{created(2, 0)}))
		})
		for _, seq := range []uint64{0, 1, 3} {
			err := s.refused(func(tx store.Tx) error { return tx.Put(seq, []store.Write{created(3, 0)}) })
			require.ErrorContains(s, err, "want 2")
		}
	}},
	{"records without their batch are not committed", func(s *suite) {
		err := s.refused(func(tx store.Tx) error { return tx.Put(1, []store.Write{created(1, 0)}) })
		require.ErrorContains(s, err, "not appended to the journal")
		s.view(func(tx store.ReadTx) { require.ErrorIs(s, errOf(tx.Get(kind, id(1))), store.ErrNotFound) })
	}},
}

var epochCases = []testCase{
	{"a new store is in epoch 1, which begins at batch 1", func(s *suite) {
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.Epoch{{Number: 1, First: 1}}, must(tx.Epochs())(s))
			assert.Empty(s, base(s, tx, 1))
			require.ErrorIs(s, tx.Base(2, func(store.Record) error { return nil }), store.ErrNotFound)
		})
	}},
	{"an epoch keeps a record as it was before its first change in it, once", func(s *suite) {
		a, b, c := created(1, 0), created(2, 0), created(3, 0)
		s.write(a, b, c)
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(77)) })
		a2 := changed(a, 1, 0)
		s.write(a2, deleted(b, 1), created(4, 0))
		a3 := changed(a2, 2, 0)
		s.write(a3)
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.Epoch{{Number: 1, First: 1}, {Number: 2, First: 2, Started: 77}}, must(tx.Epochs())(s))
			assert.Empty(s, base(s, tx, 1))
			assert.Equal(s, []store.Record{
				{Kind: kind, ID: id(1), Version: 1, Seq: 1, State: []byte(`{"n":1}`)},
				{Kind: kind, ID: id(2), Version: 1, Seq: 1, State: []byte(`{"n":1}`)},
			}, base(s, tx, 2))
			require.ErrorIs(s, tx.Base(2, func(store.Record) error { return errAbort }), errAbort)
		})
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(78)) })
		s.write(changed(a3, 3, 0))
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.Record{{Kind: kind, ID: id(1), Version: 3, Seq: 3, State: []byte(`{"n":2}`)}}, base(s, tx, 3))
		})
	}},
	{"an epoch that begins in a batch's own transaction begins with that batch", func(s *suite) {
		w := created(1, 0)
		s.write(w)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.BeginEpoch(1))
			s.writeIn(tx, changed(w, 1, 0))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, uint64(2), must(tx.Epochs())(s)[1].First)
			assert.Len(s, base(s, tx, 2), 1)
		})
		err := s.refused(func(tx store.Tx) error {
			require.NoError(s, tx.Put(3, []store.Write{created(2, 0)}))
			return tx.BeginEpoch(1)
		})
		require.ErrorContains(s, err, "not appended")
	}},
	{"dropped epochs take their batches and bases with them, a part at a time", func(s *suite) {
		var writes []store.Write
		for n := range 5 {
			writes = append(writes, created(n, 0))
		}
		s.write(writes...)
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(1)) })
		for i := range writes {
			writes[i] = changed(writes[i], s.seq, 0)
		}
		s.write(writes...)
		s.write()
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(2)) })
		rounds := 0
		for more := true; more; rounds++ {
			require.Less(s, rounds, 20, "DropEpochs must come to an end")
			s.update(func(tx store.Tx) { more = must(tx.DropEpochs(3, 2))(s) })
			s.view(func(tx store.ReadTx) {
				assert.Equal(s, []store.Epoch{{Number: 3, First: 4, Started: 2}}, must(tx.Epochs())(s))
				assert.Empty(s, batches(s, tx, 0), "what is being dropped is gone for readers")
				require.ErrorIs(s, tx.Base(2, func(store.Record) error { return nil }), store.ErrNotFound)
			})
		}
		assert.GreaterOrEqual(s, rounds, 4, "8 deletions, at most 2 in one transaction")
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, uint64(3), must(tx.Seq())(s), "an emptied journal still knows its number")
		})
		s.write()
		s.view(func(tx store.ReadTx) { assert.Equal(s, []string{"4 {}"}, batches(s, tx, 0)) })
	}},
	{"the current epoch stays, and a limit must let something go", func(s *suite) {
		require.ErrorContains(s, s.refused(func(tx store.Tx) error { return errOf(tx.DropEpochs(2, 9)) }), "stays")
		require.ErrorContains(s, s.refused(func(tx store.Tx) error { return errOf(tx.DropEpochs(1, 0)) }), "at least 1")
		s.write()
		s.update(func(tx store.Tx) { assert.False(s, must(tx.DropEpochs(1, 9))(s)) })
		s.view(func(tx store.ReadTx) { assert.Len(s, batches(s, tx, 0), 1) })
	}},
	{"the state at an epoch's start follows from the bases", func(s *suite) {
		old := created(1, 0)
		s.write(old)
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(1)) })
		fresh := created(2, 0)
		s.write(fresh)
		s.update(func(tx store.Tx) { require.NoError(s, tx.BeginEpoch(2)) })
		s.write(changed(old, 1, 0), changed(fresh, 2, 0))
		s.view(func(tx store.ReadTx) {
			// Epoch 2: the earliest base from it on, where it is older than the epoch.
			earliest := map[uuid.UUID]store.Record{}
			for _, e := range []uint64{2, 3} {
				for _, r := range base(s, tx, e) {
					if _, ok := earliest[r.ID]; !ok {
						earliest[r.ID] = r
					}
				}
			}
			assert.Less(s, earliest[id(1)].Seq, uint64(2), "it was there when epoch 2 began")
			assert.GreaterOrEqual(s, earliest[id(2)].Seq, uint64(2), "it came in epoch 2")
		})
	}},
}
