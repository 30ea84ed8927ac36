package bolt_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// dueIndexOf reads the whole due index.
func dueIndexOf(t *testing.T, s store.Store) (found []store.DueEntry) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) {
		found, err = tx.Due(nil, nil, effects.MaxTime, 99)
		return err
	}))
	return found
}

// A file of format 4 has kinds alone in its due index. Its entries stay as they are until
// their records move, are found and removed like others, and stand beside those with a share.
func TestTheDueIndexOfAFileOfFormat4HasNoSharesAndTakesNewOnes(t *testing.T) {
	path := filled(t, 1) // its writes have no share
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		require.NoError(t, tx.Bucket([]byte("due")).ForEach(func(_, v []byte) error {
			assert.Equal(t, "action", string(v), "as format 4 had it")
			return nil
		}))
		return tx.Bucket([]byte("system")).Put([]byte("format"), bolt.FormatValue("orrery", 4))
	})
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	old := batchOf(0, 3)
	for i := range old {
		old[i].Prev = store.Prev{Version: 1, Seq: 1, Due: old[i].Due, Terms: old[i].Terms}
		old[i].Share = 70_000
	}
	old[1].Due = 5     // moves
	old[2].State = nil // goes
	beside := store.Write{Kind: "recurring", ID: testID(3), State: []byte(`{}`), Due: 1_000_003, Share: 70_000}
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		return errors.Join(tx.Put(2, append(old, beside)), tx.AppendJournal(2, 1, []byte(`{}`)))
	}))
	check := func() {
		found := dueIndexOf(t, s)
		require.Len(t, found, 20)
		assert.Equal(t, store.DueEntry{Key: store.NewDueKey(5, testID(1)), Kind: "action", Share: 70_000}, found[0])
		assert.Equal(t, store.DueEntry{Key: store.NewDueKey(1_000_000, testID(0)), Kind: "action"}, found[1])
		assert.Equal(t, store.DueEntry{Key: store.NewDueKey(1_000_003, testID(3)), Kind: "action"}, found[2])
		assert.Equal(t, store.DueEntry{Key: store.NewDueKey(1_000_003, testID(3)), Kind: "recurring", Share: 70_000}, found[3])
	}
	check()
	require.NoError(t, s.Close())
	requireSound(t, path)
	s, err = bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	check()
	bad, err := s.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, bad)
	require.NoError(t, s.Close())
}

func TestAFileWithSharesIsOfAFormatThatEarlierBuildsRefuse(t *testing.T) {
	assert.GreaterOrEqual(t, bolt.Format, 5, "format 4 takes a share for a part of the kind")
}
