package bolt_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// A file that is too big to be looked at wholly when it is opened meets its
// damage while it is read.
func TestReadingADamagedFileNeverCrashesEvenWhereOpenDidNotLook(t *testing.T) {
	defer bolt.SetFullWalk(0)()
	flip := flipper(t, rand.New(rand.NewPCG(5, 6)), 512)
	opened := 0
	for range 400 {
		path, at := flip()
		s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
		if err != nil {
			continue
		}
		opened++
		readAll(t, s, at)
		_, err = s.Check(ctx)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	assert.NotZero(t, opened)
}

func TestBranchesThatLeadToOnePageOrInACircleAreFoundBeforeTheFileIsUsed(t *testing.T) {
	whole, root := filledWithRoot(t, "due")
	const size = 4096
	branch := int(root) * size
	require.Equal(t, uint16(1), binary.NativeEndian.Uint16(whole[branch+8:]), "the bucket's root is a branch page")
	child := func(n int) int { return branch + 16 + 16*n + 8 }
	path := filepath.Join(t.TempDir(), "circle.db")
	for name, to := range map[string]uint64{
		"two entries lead to one page": binary.NativeEndian.Uint64(whole[child(0):]),
		"an entry leads to its page":   uint64(branch / size),
		"an entry leads nowhere":       1 << 40,
	} {
		for _, walk := range []int64{0, 1 << 30} {
			bad := bytes.Clone(whole)
			binary.NativeEndian.PutUint64(bad[child(1):], to)
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			undo := bolt.SetFullWalk(walk)
			_, err := bolt.Open(path, bolt.Options{})
			undo()
			require.ErrorIs(t, err, store.ErrCorrupt, name)
			require.ErrorContains(t, err, "led to", name)
		}
	}
}

// filledWithRoot gives the bytes of a file, and the root page of a bucket in it.
func filledWithRoot(t *testing.T, bucket string) (file []byte, root uint64) {
	path := filled(t, 40)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error { root = uint64(tx.Bucket([]byte(bucket)).Root()); return nil }))
	require.NoError(t, db.Close())
	file, err = os.ReadFile(path)
	require.NoError(t, err)
	return file, root
}

func TestAFreeListThatNamesAPageInUseIsFoundBeforeTheFileIsUsed(t *testing.T) {
	whole, err := os.ReadFile(filled(t, 40))
	require.NoError(t, err)
	const size = 4096
	path, tried := filepath.Join(t.TempDir(), "free.db"), 0
	for p := 2 * size; p < usedBytes(whole); p += size {
		// One of them is the current list, the others are old and do no harm.
		if binary.NativeEndian.Uint16(whole[p+8:]) != 0x10 || binary.NativeEndian.Uint16(whole[p+10:]) == 0 {
			continue
		}
		bad := bytes.Clone(whole)
		binary.NativeEndian.PutUint64(bad[p+16:], uint64(p/size)) // the list itself
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		if s, err := bolt.Open(path, bolt.Options{}); err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.ErrorContains(t, err, "free list")
			tried++
		} else {
			require.NoError(t, s.Close())
		}
	}
	assert.Equal(t, 1, tried)
}

func TestDroppedEpochsLeaveNothingInTheFile(t *testing.T) {
	path := filled(t, 30)
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.BeginEpoch(1) }))
	for more := true; more; {
		require.NoError(t, s.Update(ctx, func(tx store.Tx) (err error) {
			more, err = tx.DropEpochs(2, 7)
			return err
		}))
	}
	require.NoError(t, s.Close())
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket([]byte("journal")).Cursor().First()
		assert.Nil(t, k)
		return nil
	})
}

func TestTheSameHolderOfAnEarlierSessionIsAnother(t *testing.T) {
	path := filled(t, 1)
	var tokens []uint64
	for range 2 {
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			c, err := tx.Acquire("c", "holder", 1e9, 1)
			tokens = append(tokens, c.Token)
			return err
		}))
		require.NoError(t, s.Close())
	}
	assert.Greater(t, tokens[1], tokens[0])
}

func TestABackupStopsWhenItsContextEnds(t *testing.T) {
	s := open(t, filled(t, 3), bolt.Options{})
	stopped, cancel := context.WithCancel(ctx)
	writes := 0
	_, err := s.Backup(stopped, writerFunc(func(b []byte) (int, error) {
		writes++
		cancel()
		return len(b), nil
	}))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, writes)
}

// bbolt's own Close would hang: it holds a lock that the end of the inner View
// needs, and waits for the outer one.
func TestACheckOfALiveDatabaseFindsNothingWhileItIsWritten(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
	require.NoError(t, commit(s, batchOf(0, 500)))
	const checks, commits = 30, 20 // commits for each check: a writer without a bound outruns them
	turns := make(chan int, commits)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range turns {
			assert.NoError(t, commit(s, batchOf(500+20*i, 20)))
		}
	})
	for check := range checks {
		for i := range commits {
			turns <- check*commits + i
		}
		found, err := s.Check(ctx)
		assert.NoError(t, err)
		assert.Empty(t, found)
	}
	close(turns)
	writer.Wait()

	reason := errors.New("the caller went home")
	impatient, cancel := context.WithTimeoutCause(ctx, time.Millisecond, reason)
	defer cancel()
	require.NoError(t, s.Update(ctx, func(store.Tx) error {
		_, err := s.Check(impatient)
		require.ErrorIs(t, err, reason)
		return nil
	}))
}

func TestCloseWaitsForAViewWithinAView(t *testing.T) {
	path := filled(t, 1)
	nothing := func(store.ReadTx) error { return nil }
	for range 50 {
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		closed := make(chan error, 1)
		require.NoError(t, s.View(ctx, func(store.ReadTx) error {
			return s.View(ctx, func(tx store.ReadTx) error {
				go func() { closed <- s.Close() }()
				for !errors.Is(s.View(ctx, nothing), store.ErrClosed) {
				}
				for range 200 { // long enough for a Close that does not wait to go on
					if _, err := tx.Get("action", uuid.Max); !errors.Is(err, store.ErrNotFound) {
						return err
					}
				}
				return nil
			})
		}))
		require.NoError(t, <-closed)
	}
}
