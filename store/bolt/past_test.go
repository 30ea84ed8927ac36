package bolt_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// compacted gives a compact copy of a file, which has its journal in itself.
func compacted(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "compact.db")
	_, err := bolt.Compact(ctx, path, to)
	require.NoError(t, err)
	return to
}

// journalOf reads all batches.
func journalOf(t *testing.T, s *bolt.Store) (all []store.Batch) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		return tx.Batches(0, func(b store.Batch) error {
			b.Entry = append([]byte{}, b.Entry...)
			for i := range b.Changes {
				b.Changes[i].Delta.Middle = append([]byte{}, b.Changes[i].Delta.Middle...)
			}
			all = append(all, b)
			return nil
		})
	}))
	return all
}

func TestTheJournalStandsBesideTheFileAndBesideACopy(t *testing.T) {
	path := filled(t, 5)
	files, err := filepath.Glob(path + ".journal/*.past")
	require.NoError(t, err)
	require.Len(t, files, 1)
	s := open(t, path, bolt.Options{})
	want := journalOf(t, s)
	require.Len(t, want, 5)
	for i, b := range want {
		assert.Equal(t, uint64(i+1), b.Seq)
		assert.True(t, b.Known)
		assert.Len(t, b.Changes, 20)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	_, err = s.BackupFile(ctx, backup)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	files, err = filepath.Glob(backup + ".journal/*.past")
	require.NoError(t, err)
	assert.Len(t, files, 1)
	for _, to := range []string{backup, compacted(t, path)} { // the latter has it within
		copied := open(t, to, bolt.Options{})
		assert.Equal(t, want, journalOf(t, copied), to)
		require.NoError(t, copied.Close())
	}

	_, err = bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	s = open(t, path, bolt.Options{})
	assert.Equal(t, want, journalOf(t, s), "a file that was compacted still belongs to its journal")
	require.NoError(t, commit(s, batchOf(1000, 20)))
	assert.Len(t, journalOf(t, s), 6)
	requireSoundStore(t, s)
}

func requireSoundStore(t *testing.T, s *bolt.Store) {
	t.Helper()
	found, err := s.Check(ctx)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestAFileWithoutItsJournalGoesOnAndBeginsANewEpoch(t *testing.T) {
	path := filled(t, 5)
	require.NoError(t, os.RemoveAll(path+".journal"))
	var said strings.Builder
	s, err := bolt.Open(path, bolt.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	assert.Contains(t, said.String(), "the journal beside the file is not all there; it begins anew")
	assert.Contains(t, said.String(), "first=6")
	assert.Empty(t, journalOf(t, s))
	require.NoError(t, commit(s, batchOf(1000, 20)))
	assert.Len(t, journalOf(t, s), 1)
	requireSoundStore(t, s)
	require.NoError(t, s.Close())
	said.Reset()
	s, err = bolt.Open(path, bolt.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	assert.Empty(t, said.String(), "it is told once")
	assert.Equal(t, uint64(6), journalOf(t, s)[0].Seq)
	require.NoError(t, s.Close())
}

func TestTheJournalOfAnotherFileIsRefused(t *testing.T) {
	path, other := filled(t, 2), filled(t, 3)
	require.NoError(t, os.RemoveAll(path+".journal"))
	require.NoError(t, os.CopyFS(path+".journal", os.DirFS(other+".journal")))
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	require.ErrorContains(t, err, path+".journal")
	require.ErrorContains(t, err, "move the folder away")

	require.NoError(t, os.Remove(path))
	_, err = bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	require.NoFileExists(t, path, "a new file is not made beside it either")
}

// TestAnOlderCopyOfTheFileLeavesTheNewerJournalAlone: whoever has put a copy back may want the newer
// file again.
func TestAnOlderCopyOfTheFileLeavesTheNewerJournalAlone(t *testing.T) {
	path := filled(t, 5)
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	s := open(t, path, bolt.Options{})
	require.NoError(t, commit(s, batchOf(1000, 20)))
	want := journalOf(t, s)
	require.NoError(t, s.Close())
	newer, err := os.ReadFile(path)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, older, 0o600))
	var said strings.Builder
	s, err = bolt.Open(path, bolt.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	assert.Contains(t, said.String(), "it is an older copy")
	assert.Contains(t, said.String(), filepath.Join(path+".journal", "0000000000000001-0000000000000001.past"))
	require.NoError(t, commit(s, batchOf(2000, 20)))
	assert.Len(t, journalOf(t, s), 6)
	requireSoundStore(t, s)
	require.NoError(t, s.Close())
	said.Reset()
	s, err = bolt.Open(path, bolt.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	require.NoError(t, err)
	assert.Empty(t, said.String(), "it is told once")
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(path, newer, 0o600))
	s = open(t, path, bolt.Options{})
	assert.Equal(t, want, journalOf(t, s))
}

// TestDamageInTheJournalIsToldWhereverItIsMetAndTheRestGoesOn flips a bit in the archive.
func TestDamageInTheJournalIsToldWhereverItIsMetAndTheRestGoesOn(t *testing.T) {
	path := filled(t, 5)
	files, err := filepath.Glob(path + ".journal/*.past")
	require.NoError(t, err)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	raw[100] ^= 8 // among the entries of the first block, which is the journal's
	require.NoError(t, os.WriteFile(files[0], raw, 0o600))
	s := open(t, path, bolt.Options{})
	err = s.View(ctx, func(tx store.ReadTx) error {
		return tx.Journal(0, func(uint64, []byte) error { return nil })
	})
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, files[0])
	err = s.View(ctx, func(tx store.ReadTx) error {
		_, err := tx.Batch(2)
		return err
	})
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.NoError(t, commit(s, batchOf(1000, 20)), "deciding needs no journal")
	found, err := s.Check(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	assert.Contains(t, found[0].String(), files[0])
	require.NoError(t, s.Close())
}

// TestAnEpochIsDroppedWithItsFilesHoweverLittleIsWritten: the file of an epoch ends with it, and so does not
// wait for 64 MiB.
func TestAnEpochIsDroppedWithItsFilesHoweverLittleIsWritten(t *testing.T) {
	path, places := threeEpochs(t)
	s := open(t, path, bolt.Options{})
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		_, err := tx.DropEpochs(3, 1000)
		return err
	}))
	require.NoError(t, commit(s, batchOf(1000, 5)))
	require.NoError(t, s.Close())
	assert.NoFileExists(t, places[0].file)
	assert.NoFileExists(t, places[1].file)
	assert.FileExists(t, places[2].file)
	requireSound(t, path)
}
