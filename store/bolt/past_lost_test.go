package bolt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/stream"
)

// TestACopyOfAFileWhoseJournalIsLostGoesOnWithTheSameNumbers copies it while it is open for
// reading only, so that nothing has begun its journal anew.
func TestACopyOfAFileWhoseJournalIsLostGoesOnWithTheSameNumbers(t *testing.T) {
	for name, copied := range map[string]func(from, to string) error{
		"compact": func(from, to string) error {
			_, err := bolt.Compact(ctx, from, to)
			return err
		},
		"backup": func(from, to string) error {
			s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
			require.NoError(t, err)
			_, err = s.BackupFile(ctx, to)
			return errors.Join(err, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 5)
			require.NoError(t, os.RemoveAll(path+".journal"))
			to := filepath.Join(filepath.Dir(path), "copy.db")
			require.NoError(t, copied(path, to))
			s := open(t, to, bolt.Options{})
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				seq, err := tx.Seq()
				assert.Equal(t, uint64(5), seq)
				return err
			}))
			require.NoError(t, commit(s, batchOf(1000, 20)))
			all := journalOf(t, s)
			require.Len(t, all, 1)
			assert.Equal(t, uint64(6), all[0].Seq)
			requireSoundStore(t, s)
			require.NoError(t, s.Close())
		})
	}
}

// TestALossOfSomeOfTheJournalIsToldOnce takes the last file away, as a whole or in part.
func TestALossOfSomeOfTheJournalIsToldOnce(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":  func(path string) error { return os.Truncate(path, 100) },
		"gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 5)
			files, err := filepath.Glob(path + ".journal/*.past")
			require.NoError(t, err)
			require.NoError(t, harm(files[len(files)-1]))
			for i := range 3 {
				s := open(t, path, bolt.Options{})
				require.NoError(t, commit(s, batchOf(1000*(i+1), 20)))
				assert.Len(t, journalOf(t, s), i+1, fmt.Sprint("start ", i))
				requireSoundStore(t, s)
				require.NoError(t, s.Close())
			}
		})
	}
}

// TestABackupTellsWhatItLeavesOutOfTheJournal damages a block of the journal, or of the changes, in
// one of three epochs: what is copied begins with the next epoch, or is empty.
func TestABackupTellsWhatItLeavesOutOfTheJournal(t *testing.T) {
	for name, c := range map[string]struct {
		file  int    // which of the archive
		table string // whose block
		first uint64 // batch of the copy
		said  string
	}{
		"the journal in the first epoch":  {0, "journal", 3, "journal of the batches 1 to 2: "},
		"the changes in the first epoch":  {0, "changes", 3, "journal of the batches 1 to 2: "},
		"the journal in the second epoch": {1, "journal", 5, "journal of the batches 1 to 4: "},
		"the journal in the last epoch":   {2, "journal", 7, "journal of the batches 1 to 6: "},
	} {
		t.Run(name, func(t *testing.T) {
			path, places := threeEpochs(t)
			raw, err := os.ReadFile(places[c.file].file)
			require.NoError(t, err)
			harm(t, raw, places[c.file].at, c.table)
			require.NoError(t, os.WriteFile(places[c.file].file, raw, 0o600))
			s := open(t, path, bolt.Options{})
			to := filepath.Join(filepath.Dir(path), "copy.db")
			copied, err := s.BackupFile(ctx, to)
			require.NoError(t, err)
			require.Len(t, copied.Omitted, 1)
			assert.Contains(t, copied.Omitted[0].String(), c.said)
			assert.Contains(t, copied.Omitted[0].String(), places[c.file].file)
			var sent bytes.Buffer
			sum, err := stream.Write(ctx, &sent, s, stream.Options{})
			require.NoError(t, err)
			assert.Equal(t, copied.Omitted, sum.Omitted)
			read, err := stream.Verify(ctx, &sent, nil)
			require.NoError(t, err)
			assert.Equal(t, copied.Omitted, read.Omitted)

			requireSound(t, to)
			got := open(t, to, bolt.Options{})
			requireRecords(t, got, 120)
			require.NoError(t, commit(got, batchOf(1000, 20)))
			all := journalOf(t, got)
			require.NotEmpty(t, all)
			assert.Equal(t, c.first, all[0].Seq)
			assert.Equal(t, uint64(7), all[len(all)-1].Seq)
			requireSoundStore(t, got)
		})
	}
}

type place struct {
	file string
	at   int64
}

// threeEpochs gives a database with two batches in each of three epochs, and where in the archive
// each of them begins.
func threeEpochs(t *testing.T) (path string, places []place) { return epochsOf(t, 2) }

// epochsOf is threeEpochs with so many batches in each.
func epochsOf(t *testing.T, batches int) (path string, places []place) {
	path = filepath.Join(t.TempDir(), "orrery.db")
	const head = 40
	for i := range 3 {
		s := open(t, path, bolt.Options{})
		if i > 0 {
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.BeginEpoch(5) }))
		}
		for n := range batches {
			require.NoError(t, commit(s, batchOf(20*(batches*i+n), 20)))
		}
		require.NoError(t, s.Close())
		files, err := filepath.Glob(path + ".journal/*.past")
		require.NoError(t, err)
		require.Len(t, files, i+1, "an epoch begins a file")
		places = append(places, place{files[i], head})
	}
	return path, places
}

// harm flips a bit in the first block of a table from a place in an archive's file on.
func harm(t *testing.T, raw []byte, at int64, table string) {
	t.Helper()
	for string(raw[at+21:][:len(table)]) != table {
		at += int64(binary.BigEndian.Uint32(raw[at+4:]))
	}
	raw[at+100] ^= 8
}

// TestAFlippedBitInWhatABatchChangedIsTold flips it in a compact copy, which has the journal in itself.
func TestAFlippedBitInWhatABatchChangedIsTold(t *testing.T) {
	path := compacted(t, filled(t, 2))
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("changes"))
		k, v := b.Cursor().Last()
		v = append([]byte{}, v...)
		v[5] ^= 1 // of the digest
		return b.Put(append([]byte{}, k...), v)
	}))
	require.NoError(t, db.Close())
	s := open(t, path, bolt.Options{})
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		_, err := tx.Batch(1)
		require.NoError(t, err)
		_, err = tx.Batch(2)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, "batch 2: changes")
		require.ErrorContains(t, tx.Batches(1, func(store.Batch) error { return nil }), "the checksum is wrong")
		return nil
	}))
	require.NoError(t, s.Close())
}

// TestAWriterReadsWhatItsBatchHasChangedSoFarAndGoesOn: what it reads is put before, and grows.
func TestAWriterReadsWhatItsBatchHasChangedSoFarAndGoesOn(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{})
	writes := batchOf(0, 20)
	changed := func(tx store.ReadTx, want int) {
		b, err := tx.Batch(1)
		require.NoError(t, err)
		assert.True(t, b.Known)
		assert.Len(t, b.Changes, want)
		require.NoError(t, tx.Batches(1, func(b store.Batch) error {
			assert.Len(t, b.Changes, want)
			return nil
		}))
	}
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		require.NoError(t, tx.AppendJournal(1, 1, []byte(`{}`)))
		for i := range 4 {
			require.NoError(t, tx.Put(1, writes[5*i:5*i+5]))
			changed(tx, 5*i+5)
		}
		return nil
	}))
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error { changed(tx, 20); return nil }))
	require.NoError(t, s.Close())
}

func TestTheBytesOfTheJournalAreThoseOfItsParts(t *testing.T) {
	s := open(t, filled(t, 20), bolt.Options{})
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		bytes := func(from, before uint64) int64 {
			n, err := tx.JournalBytes(from, before)
			require.NoError(t, err)
			return n
		}
		all := bytes(0, 0)
		require.Positive(t, all)
		assert.InDelta(t, all, bytes(1, 8)+bytes(8, 0), 2)
		assert.Less(t, bytes(1, 8), all)
		assert.Zero(t, bytes(21, 0))
		return nil
	}))
	require.NoError(t, s.Close())
}

// TestWhatIsSetAsideBetweenTwoEpochsIsInTheBaseOfTheFirst: both begin with the batch that comes next.
func TestWhatIsSetAsideBetweenTwoEpochsIsInTheBaseOfTheFirst(t *testing.T) {
	path := filled(t, 2)
	s := open(t, path, bolt.Options{})
	w := batchOf(0, 40)
	aside := func(i int) {
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			return errors.Join(tx.BeginEpoch(5), tx.SetAside(store.Quarantined{Kind: w[i].Kind, ID: w[i].ID, At: 1, Reason: "bad"}, 0))
		}))
	}
	base := func(epoch uint64) (found []store.Record) {
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			return tx.Base(epoch, func(r store.Record) error {
				found = append(found, r)
				return nil
			})
		}))
		return found
	}
	aside(30)
	require.NoError(t, s.Close()) // the first stands in the archive then
	s = open(t, path, bolt.Options{})
	aside(3)
	require.NoError(t, commit(s, batchOf(1000, 20)))
	for range 2 {
		for epoch, i := range map[uint64]int{2: 30, 3: 3} {
			found := base(epoch)
			require.Len(t, found, 1, "epoch %d", epoch)
			assert.Equal(t, w[i].ID, found[0].ID)
		}
		assert.Empty(t, base(1))
		require.NoError(t, s.Close())
		s = open(t, path, bolt.Options{})
	}
	require.NoError(t, s.Close())
}

func TestACompactionInPlaceDoesNotBringTheJournalBackIntoTheFile(t *testing.T) {
	path := filled(t, 5)
	_, err := bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for _, name := range []string{"journal", "changes"} {
			k, _ := tx.Bucket([]byte(name)).Cursor().First()
			assert.Nil(t, k, name)
		}
		return nil
	}))
	require.NoError(t, db.Close())
}
