package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// index knows when the records of batchOf are due, and where they are listed.
func index(records int) func(effects.Kind, uuid.UUID, []byte) (effects.Time, []store.Term, error) {
	writes := map[uuid.UUID]store.Write{}
	for _, w := range batchOf(0, records) {
		writes[w.ID] = w
	}
	return func(_ effects.Kind, id uuid.UUID, state []byte) (effects.Time, []store.Term, error) {
		w, ok := writes[id]
		if !ok || !bytes.Equal(state, w.State) {
			return 0, nil, fmt.Errorf("no record of the test: %s", state)
		}
		return w.Due, w.Terms, nil
	}
}

// salvaged is how many records of a batch a file has, each as it was, with what is waiting and due.
func salvaged(t *testing.T, path string) (records int) {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	known := index(1000)
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		err := tx.Records(func(r store.Record) error {
			records++
			_, _, err := known(r.Kind, r.ID, r.State)
			return err
		})
		require.NoError(t, err)
		due, err := tx.Due(nil, nil, effects.MaxTime, 10_000)
		require.NoError(t, err)
		require.Len(t, due, records)
		n, err := tx.Count("action", "all")
		require.EqualValues(t, records, n)
		return err
	}))
	require.NoError(t, commit(s, batchOf(900, 5)), "it can be written to")
	return records
}

func TestAFileWithAFlippedBitInAnyPageIsSalvaged(t *testing.T) {
	const records = 300
	whole := filled(t, records/20)
	raw, err := os.ReadFile(whole)
	require.NoError(t, err)
	raw = raw[:usedBytes(raw)] // the race detector takes its time over each byte
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 1))
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged.db")
	lossy := 0
	for page := range len(raw) / 4096 {
		for _, within := range []int{16, 4096} { // the page's head, anywhere
			bad := bytes.Clone(raw)
			at := page*4096 + r.IntN(within)
			bad[at] ^= 1 << r.IntN(8)
			require.NoError(t, os.WriteFile(damaged, bad, 0o600))
			what := fmt.Sprintf("byte %d of page %d", at%4096, page)

			alone := filepath.Join(dir, "alone.db")
			found, err := bolt.Salvage(ctx, damaged, alone, bolt.SalvageOptions{Index: index(records)})
			require.NoError(t, err, what)
			require.Empty(t, found.Left, what)
			n := salvaged(t, alone)
			require.Greater(t, n, records*3/4, what)
			if n < records {
				lossy++
				require.NotZero(t, found.Losses, what)
				require.NotEmpty(t, found.Lost, what)
				require.NotZero(t, found.Anew, what)
			}
			require.NoError(t, errors.Join(os.Remove(alone), os.RemoveAll(alone+".journal")))

			backed := filepath.Join(dir, "backed.db")
			found, err = bolt.Salvage(ctx, damaged, backed, bolt.SalvageOptions{Index: index(records), Backup: whole})
			require.NoError(t, err, what)
			require.Empty(t, found.Left, what)
			require.Equal(t, records, salvaged(t, backed), what)
			require.NoError(t, errors.Join(os.Remove(backed), os.RemoveAll(backed+".journal")))
			after, err := os.ReadFile(damaged)
			require.NoError(t, err)
			require.True(t, bytes.Equal(bad, after), "the damaged file is not touched")
		}
	}
	require.NotZero(t, lossy)
}

func TestSalvagingAWholeFileLosesNothing(t *testing.T) {
	whole := filled(t, 10)
	for name, o := range map[string]bolt.SalvageOptions{"with indexes made anew": {Index: index(200)}, "with its indexes": {}} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "new.db")
			found, err := bolt.Salvage(ctx, whole, to, o)
			require.NoError(t, err)
			assert.Zero(t, found.Losses+found.Log)
			assert.Empty(t, found.Left)
			assert.Equal(t, 200, salvaged(t, to))
			for _, table := range found.Tables {
				assert.Zero(t, table.Damaged+table.Unread+table.Backup, table.Name)
			}
			_, err = bolt.Salvage(ctx, whole, to, o)
			require.ErrorIs(t, err, os.ErrExist)
		})
	}
}

func TestWhatOnlyTheLogHasIsSalvaged(t *testing.T) {
	path := crashed(t, 60)
	to := filepath.Join(t.TempDir(), "new.db")
	found, err := bolt.Salvage(ctx, path, to, bolt.SalvageOptions{Index: index(60)})
	require.NoError(t, err)
	assert.NotZero(t, found.Log)
	assert.Zero(t, found.Losses)
	assert.Equal(t, 60, salvaged(t, to))
	require.DirExists(t, path+logSuffix)

	require.NoError(t, os.RemoveAll(path+logSuffix))
	found, err = bolt.Salvage(ctx, path, filepath.Join(t.TempDir(), "less.db"), bolt.SalvageOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, found.Losses)
	assert.Contains(t, found.Lost[0], bolt.ErrNoLog.Error())
	assert.NotZero(t, found.Anew)
	assert.Contains(t, found.Why, bolt.ErrNoLog.Error())
}

func TestADamagedRecordIsSetAsideAndAFileInUseIsNotSalvaged(t *testing.T) {
	path := filled(t, 5)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	_, err = bolt.Salvage(ctx, path, path+".new", bolt.SalvageOptions{})
	require.ErrorIs(t, err, bolt.ErrLocked)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("records/action"))
		k, v := b.Cursor().First()
		v = bytes.Clone(v)
		v[len(v)/2] ^= 1
		return b.Put(k, v)
	}))
	require.NoError(t, db.Close())
	found, err := bolt.Salvage(ctx, path, path+".new", bolt.SalvageOptions{Index: index(100), Now: 7})
	require.NoError(t, err)
	assert.EqualValues(t, 1, found.Losses)
	s := open(t, path+".new", bolt.Options{})
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		q, err := tx.Quarantine(10)
		require.Len(t, q, 1)
		assert.NotEmpty(t, q[0].Raw)
		assert.EqualValues(t, 7, q[0].At)
		return err
	}))
	requireRecords(t, s, 99)
}
