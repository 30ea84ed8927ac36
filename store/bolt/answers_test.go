package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func answerKey(b byte) (k store.AnswerKey) {
	k[0], k[31] = b, b
	return k
}

// answered makes a database with answers under the keys 1 to n, given at that time.
func answered(t *testing.T, n byte) string {
	t.Helper()
	path := filled(t, 1)
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		for i := byte(1); i <= n; i++ {
			require.NoError(t, tx.PutAnswer(answerKey(i), store.Answer{At: effects.Time(i), Body: []byte("told")}))
		}
		return nil
	}))
	require.NoError(t, s.Close())
	return path
}

// answers gives how many of the keys 1 to n have an answer.
func answers(t *testing.T, s store.Store, n byte) (found int) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		for i := byte(1); i <= n; i++ {
			a, err := tx.Answer(answerKey(i))
			if err == nil && assert.Equal(t, store.Answer{At: effects.Time(i), Body: []byte("told")}, a) {
				found++
				continue
			}
			require.ErrorIs(t, err, store.ErrNotFound)
		}
		return nil
	}))
	return found
}

func TestADamagedAnswerIsAnErrorForItsRequestUntilItIsForgotten(t *testing.T) {
	for at := range 4 + 8 + len("told") {
		path := answered(t, 2)
		key := answerKey(1)
		flipped(t, path, "answers", key[:], func(k, v []byte) ([]byte, []byte) { return k, flip(v, 8*at) })
		s := open(t, path, bolt.Options{NoSync: true})
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			_, err := tx.Answer(answerKey(1))
			require.ErrorIs(t, err, store.ErrCorrupt)
			_, err = tx.Answer(answerKey(2))
			return err
		}))
		found, err := s.Check(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		assert.Equal(t, "answers", found[0].Where)
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			dropped, err := tx.DropAnswers(3, 9)
			assert.Equal(t, 2, dropped)
			return err
		}))
		found, err = s.Check(ctx)
		require.NoError(t, err)
		assert.Empty(t, found)
		require.NoError(t, s.Close())
	}
}

func TestCheckFindsAnswersThatNothingWouldForget(t *testing.T) {
	key := answerKey(1)
	place := append([]byte{0x80, 0, 0, 0, 0, 0, 0, 1}, key[:]...)
	for name, c := range map[string]struct {
		spoil func(tx *bbolt.Tx) error
		says  string
	}{
		"an answer without its time": {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("answered")).Delete(place) }, "the table of the times does not have it"},
		"a time without its answer":  {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("answers")).Delete(key[:]) }, "2 times, but 1 of them are of answers"},
		"a key that is none":         {func(tx *bbolt.Tx) error { return tx.Bucket([]byte("answers")).Put([]byte("k"), nil) }, "the key is no request's"},
	} {
		t.Run(name, func(t *testing.T) {
			path := answered(t, 2)
			requireSound(t, path)
			makeBolt(t, path, c.spoil)
			found, err := bolt.Check(ctx, path)
			require.NoError(t, err)
			require.Len(t, found, 1)
			assert.Contains(t, found[0].String(), c.says)
			to := filepath.Join(t.TempDir(), "new.db")
			_, err = bolt.Salvage(ctx, path, to, bolt.SalvageOptions{})
			require.NoError(t, err)
			requireSound(t, to)
			s := open(t, to, bolt.Options{})
			assert.Equal(t, map[bool]int{true: 1, false: 2}[name == "a time without its answer"], answers(t, s, 2))
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
				_, err := tx.DropAnswers(3, 9)
				return err
			}))
			assert.Zero(t, answers(t, s, 2))
			require.NoError(t, s.Close())
		})
	}
}

func TestAFileFromBeforeAnswersWereKeptKeepsSome(t *testing.T) {
	path := filled(t, 1)
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		require.NoError(t, tx.DeleteBucket([]byte("answers")))
		return tx.DeleteBucket([]byte("answered"))
	})
	requireSound(t, path)
	s, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	assert.Zero(t, answers(t, s, 1))
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		dropped, err := tx.DropAnswers(9, 9)
		assert.Zero(t, dropped)
		require.NoError(t, err)
		_, err = tx.Answer(answerKey(1))
		require.ErrorIs(t, err, store.ErrNotFound)
		return tx.PutAnswer(answerKey(1), store.Answer{At: 1, Body: []byte("told")})
	}))
	assert.Equal(t, 1, answers(t, s, 1))
	require.NoError(t, s.Close())
	requireSound(t, path)
}

// A compact copy is the database itself. A backup has none: what it is restored to goes on from an earlier time.
func TestACompactedFileKeepsAnswersAndABackupHasNone(t *testing.T) {
	path := answered(t, 2)
	to, restored := filepath.Join(t.TempDir(), "copy.db"), filepath.Join(t.TempDir(), "restored.db")
	s := open(t, path, bolt.Options{})
	_, err := s.BackupFile(ctx, to)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	_, err = bolt.Restore(ctx, to, restored, bolt.RestoreOptions{})
	require.NoError(t, err)
	for path, want := range map[string]int{path: 2, to: 0, restored: 0} {
		requireSound(t, path)
		s := open(t, path, bolt.Options{})
		assert.Equal(t, want, answers(t, s, 2), path)
		require.NoError(t, s.Close())
	}
}
