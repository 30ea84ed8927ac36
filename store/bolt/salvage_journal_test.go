package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// salvagedTo salvages a file, and gives what it found and the batches of the new file, which is sound.
func salvagedTo(t *testing.T, path, to string) (bolt.Salvaged, []store.Batch) {
	t.Helper()
	found, err := bolt.Salvage(ctx, path, to, bolt.SalvageOptions{})
	require.NoError(t, err)
	require.Empty(t, found.Left)
	requireSound(t, to)
	s := open(t, to, bolt.Options{})
	all := journalOf(t, s)
	require.NoError(t, s.Close())
	return found, all
}

func TestSalvageCopiesTheJournal(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) string{
		"that stands beside the file": func(t *testing.T) string { path, _ := threeEpochs(t); return path },
		"that stands in the file": func(t *testing.T) string {
			path, _ := threeEpochs(t)
			return compacted(t, path)
		},
		"of which the log has the end": func(t *testing.T) string {
			path, _ := threeEpochs(t)
			s := open(t, path, bolt.Options{})
			require.NoError(t, commit(s, batchOf(500, 5)))
			to := filepath.Join(t.TempDir(), "orrery.db")
			raw, err := os.ReadFile(path)
			require.NoError(t, errors.Join(err, os.WriteFile(to, raw, 0o600),
				os.CopyFS(to+logSuffix, os.DirFS(path+logSuffix)), os.CopyFS(to+".journal", os.DirFS(path+".journal"))))
			return to
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := make(t)
			to := filepath.Join(t.TempDir(), "new.db")
			found, all := salvagedTo(t, path, to)
			assert.Zero(t, found.Losses)
			assert.Zero(t, found.Since+found.Anew)
			assert.Empty(t, found.Why)
			s := open(t, path, bolt.Options{})
			assert.Equal(t, journalOf(t, s), all)
			require.NoError(t, s.Close())

			again, more := salvagedTo(t, to, to+".again") // before anything was written to it
			assert.Zero(t, again.Losses+again.Since+again.Anew)
			assert.Equal(t, all, more)
			s = open(t, to, bolt.Options{})
			require.NoError(t, commit(s, batchOf(900, 5)))
			require.NoError(t, s.Close())
			s = open(t, to, bolt.Options{})
			more = journalOf(t, s)
			require.Len(t, more, len(all)+1)
			assert.Equal(t, all, more[:len(all)])
			requireSoundStore(t, s)
			require.NoError(t, s.Close())
		})
	}
}

// TestSalvageCopiesTheEpochsOfWhichNothingIsLost damages a block of the archive, or takes a file of it away.
func TestSalvageCopiesTheEpochsOfWhichNothingIsLost(t *testing.T) {
	gone := func(t *testing.T, path string, _ int64) { require.NoError(t, os.Remove(path)) }
	flipped := func(table string) func(t *testing.T, path string, at int64) {
		return func(t *testing.T, path string, at int64) {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			harm(t, raw, at, table)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}
	}
	for name, c := range map[string]struct {
		file  int // of the archive
		harm  func(t *testing.T, path string, at int64)
		since uint64 // zero: anew
	}{
		"the first file is gone":                {0, gone, 3},
		"the second file is gone":               {1, gone, 5},
		"the last file is gone":                 {2, gone, 0},
		"the journal in the first is damaged":   {0, flipped("journal"), 3},
		"the changes in the second are damaged": {1, flipped("changes"), 5},
		"the journal in the last is damaged":    {2, flipped("journal"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, places := threeEpochs(t)
			s := open(t, path, bolt.Options{ReadOnly: true})
			want := journalOf(t, s)
			require.NoError(t, s.Close())
			c.harm(t, places[c.file].file, places[c.file].at)
			to := filepath.Join(t.TempDir(), "new.db")
			found, all := salvagedTo(t, path, to)
			assert.Equal(t, c.since, found.Since)
			assert.Equal(t, c.since == 0, found.Anew != 0)
			assert.NotZero(t, found.Losses)
			assert.Contains(t, found.Lost[0], path+".journal")
			assert.Contains(t, found.Why, path+".journal")
			if c.since > 0 {
				assert.Equal(t, want[c.since-1:], all)
			} else {
				assert.Empty(t, all)
				assert.NoDirExists(t, to+".journal")
			}
			require.FileExists(t, path)
			require.DirExists(t, path+".journal")
		})
	}
}

// TestAnEpochWhoseFirstBatchIsDamagedIsNotWhole: it has no other one.
func TestAnEpochWhoseFirstBatchIsDamagedIsNotWhole(t *testing.T) {
	path, places := epochsOf(t, 1)
	raw, err := os.ReadFile(places[1].file)
	require.NoError(t, err)
	harm(t, raw, places[1].at, "changes")
	require.NoError(t, os.WriteFile(places[1].file, raw, 0o600))
	found, all := salvagedTo(t, path, filepath.Join(t.TempDir(), "new.db"))
	assert.EqualValues(t, 3, found.Since)
	require.Len(t, all, 1)
	assert.EqualValues(t, 3, all[0].Seq)
}

// TestSalvageBeginsTheJournalAnewWhereARecordIsLost, though the journal itself is whole: a replay could not explain it.
func TestSalvageBeginsTheJournalAnewWhereARecordIsLost(t *testing.T) {
	path, _ := threeEpochs(t)
	flip := func(table string) {
		db, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(table))
			k, v := b.Cursor().First()
			v = append([]byte{}, v...)
			v[len(v)/2] ^= 1
			return b.Put(append([]byte{}, k...), v)
		}))
		require.NoError(t, db.Close())
	}
	flip("counts") // which is made anew
	found, all := salvagedTo(t, path, filepath.Join(t.TempDir(), "new.db"))
	assert.Zero(t, found.Anew+found.Since)
	assert.Len(t, all, 6)
	flip("log") // which says what counts of the journal
	found, all = salvagedTo(t, path, filepath.Join(t.TempDir(), "new.db"))
	assert.NotZero(t, found.Anew)
	assert.Contains(t, found.Why, "the state of the log, which says what counts of "+path+".journal")
	assert.Empty(t, all)
	path, _ = threeEpochs(t)
	flip("records/action")
	found, all = salvagedTo(t, path, filepath.Join(t.TempDir(), "new.db"))
	assert.NotZero(t, found.Anew)
	assert.Contains(t, found.Why, "records/action")
	assert.Empty(t, all)
}

// TestTheJournalOfTheDamagedFileIsNotThatOfTheNewOne: they go on apart.
func TestTheJournalOfTheDamagedFileIsNotThatOfTheNewOne(t *testing.T) {
	path, _ := threeEpochs(t)
	to := filepath.Join(t.TempDir(), "new.db")
	salvagedTo(t, path, to)
	require.NoError(t, errors.Join(os.RemoveAll(to+".journal"), os.CopyFS(to+".journal", os.DirFS(path+".journal"))))
	_, err := bolt.Open(to, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
}
