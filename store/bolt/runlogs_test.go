package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func runLog(t *testing.T, s store.Store, run uuid.UUID, attempt uint32) (text string, err error) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		b, e := tx.RunLog(run, attempt)
		text, err = string(b), e
		return nil
	}))
	return text, err
}

func putRunLog(run uuid.UUID, attempt uint32, text string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.PutRunLog(run, attempt, []byte(text)) }
}

func TestADamagedLogOfARunIsAnErrorForThatLogOnly(t *testing.T) {
	bad, good := testID(1), testID(2)
	for at := range len("said") + 4 {
		path := filepath.Join(t.TempDir(), "orrery.db")
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		require.NoError(t, s.Update(ctx, putRunLog(bad, 0, "said")))
		require.NoError(t, s.Update(ctx, putRunLog(bad, 1, "more")))
		require.NoError(t, s.Update(ctx, putRunLog(good, 0, "fine")))
		require.NoError(t, s.Close())
		key := append(bad[:], 0, 0, 0, 0)
		flipped(t, path, "run-logs", key, func(k, v []byte) ([]byte, []byte) { return k, flip(v, 8*at) })

		s = open(t, path, bolt.Options{NoSync: true})
		_, err = runLog(t, s, bad, 0)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, "run log "+bad.String()+", attempt 0")
		text, err := runLog(t, s, bad, 1)
		require.NoError(t, err)
		assert.Equal(t, "more", text)
		text, err = runLog(t, s, good, 0)
		require.NoError(t, err)
		assert.Equal(t, "fine", text)
		found, err := s.Check(ctx)
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Equal(t, "run-logs", found[0].Where)

		if at%2 == 0 {
			require.NoError(t, s.Update(ctx, putRunLog(bad, 0, "again")), "a new one takes its place")
			text, err = runLog(t, s, bad, 0)
			require.NoError(t, err)
			assert.Equal(t, "again", text)
		} else {
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.DeleteRunLogs(bad) }))
			_, err = runLog(t, s, bad, 0)
			require.ErrorIs(t, err, store.ErrNotFound)
		}
		found, err = s.Check(ctx)
		require.NoError(t, err)
		assert.Empty(t, found)
	}
}

func TestALogThatStandsUnderAnotherAttemptIsNotTakenForItsOwn(t *testing.T) {
	path, run := filepath.Join(t.TempDir(), "orrery.db"), testID(1)
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, s.Update(ctx, putRunLog(run, 0, "said")))
	require.NoError(t, s.Close())
	flipped(t, path, "run-logs", append(run[:], 0, 0, 0, 0), func(k, v []byte) ([]byte, []byte) {
		k[len(k)-1] = 1
		return k, v
	})
	_, err = runLog(t, open(t, path, bolt.Options{}), run, 1)
	require.ErrorIs(t, err, store.ErrCorrupt)
}

func TestAFileFromBeforeThereWereLogsTakesSome(t *testing.T) {
	path, run := filled(t, 1), testID(1)
	makeBolt(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("run-logs")) })
	requireSound(t, path)
	s, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	_, err = runLog(t, s, run, 0)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.DeleteRunLogs(run) }))
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		require.NoError(t, tx.PutRunLog(run, 0, []byte("said")))
		got, err := tx.RunLog(run, 0)
		require.NoError(t, err)
		assert.Equal(t, "said", string(got))
		return nil
	}))
	text, err := runLog(t, s, run, 0)
	require.NoError(t, err)
	assert.Equal(t, "said", text)
	require.NoError(t, s.Close())
	requireSound(t, path)
}
