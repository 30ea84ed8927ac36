package bolt_test

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

func TestRedoThatIsShippedToWhereItIsStaysThere(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("orrery.db.redo", 0o700))
	require.NoError(t, os.Symlink("orrery.db.redo", "linked"))
	absolute, err := filepath.Abs("orrery.db.redo")
	require.NoError(t, err)
	for i, folder := range []string{"orrery.db.redo", "./orrery.db.redo/", "linked", absolute, "linked later"} {
		s, err := bolt.Open("orrery.db", bolt.Options{NoSync: true, Redo: bolt.Redo{Bytes: 1 << 30, Folder: folder}})
		require.NoError(t, err)
		goOn(t, s, i, 1)
		if folder == "linked later" {
			require.NoError(t, os.Symlink("orrery.db.redo", folder))
		}
		require.NoError(t, s.Close())
		kept, err := filepath.Glob("orrery.db.redo/*.redo")
		require.NoError(t, err)
		require.Len(t, kept, i+1, folder)
	}
}

// TestABackupFromJustBeforeACrashCanBeBroughtOn has a backup of whose last frame nothing says that it
// was synced as the process is killed: the next start writes it anew.
func TestABackupFromJustBeforeACrashCanBeBroughtOn(t *testing.T) {
	o := bolt.Options{Redo: bolt.Redo{Bytes: 1 << 30}}
	for _, before := range []int{1, 3} {
		for _, after := range []int{0, 2} { // before it is closed in between
			path := filepath.Join(t.TempDir(), "orrery.db")
			s, err := bolt.Open(path, o)
			require.NoError(t, err)
			goOn(t, s, 0, before)
			backup := filepath.Join(t.TempDir(), "backup.db")
			_, err = s.BackupFile(ctx, backup)
			require.NoError(t, err)
			killed := t.TempDir()
			require.NoError(t, os.CopyFS(killed, os.DirFS(filepath.Dir(path))))
			require.NoError(t, s.Close())

			path = filepath.Join(killed, "orrery.db")
			for i, n := range []int{after, 2} {
				s, err = bolt.Open(path, o)
				require.NoError(t, err)
				goOn(t, s, 10*(i+1), n)
				require.NoError(t, s.Close())
			}
			to := filepath.Join(killed, "restored.db")
			_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: uint64(before + after + 2), Redo: []string{path + ".redo"}})
			require.NoError(t, err, "%d before, %d after", before, after)
			assert.Equal(t, everything(t, compacted(t, path)), everything(t, to))
		}
	}
}

// unplaced makes a file say nothing of a log, as those of builds without one.
func unplaced(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("log")) }))
	require.NoError(t, db.Close())
}

// TestABackupOfAnEarlierBuildIsRestoredAsItIsOnly has redo of a log that began with frame 1 as the
// database was brought to this build: that does not go on from the backup.
func TestABackupOfAnEarlierBuildIsRestoredAsItIsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	var copies []string
	for i := range 2 {
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		goOn(t, s, 10*i, 2)
		require.NoError(t, s.Close())
		copies = append(copies, compacted(t, path))
	}
	backup, later := copies[0], copies[1]
	unplaced(t, later)
	s, err := bolt.Open(later, keepAll)
	require.NoError(t, err)
	goOn(t, s, 20, 3)
	require.NoError(t, s.Close())

	o := bolt.RestoreOptions{Batch: 7, Redo: []string{later + ".redo"}}
	to := filepath.Join(t.TempDir(), "restored.db")
	require.NoError(t, bolt.MoveBackupTo(backup, kv.Position{Log: "00112233445566778899aabbccddeeff"}), "what else may seem to fit")
	_, err = bolt.Restore(ctx, backup, to, o)
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "behind batch 2 of 1970-01-01T00:00:00.002Z comes batch 5")
	unplaced(t, backup)
	_, err = bolt.Restore(ctx, backup, to, o)
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "does not say where in the log it stands")
	require.NoFileExists(t, to)
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, everything(t, backup), everything(t, to))
}

// TestCopiesOfFileAndLogShipToOneFolderAndTakeNothingFromOneAnother has logs of one ID, whose next
// segments have the same number and begin with the same frame.
func TestCopiesOfFileAndLogShipToOneFolderAndTakeNothingFromOneAnother(t *testing.T) {
	shipped := t.TempDir()
	o := bolt.Options{NoSync: true, Redo: bolt.Redo{Bytes: 1 << 30, Folder: shipped}}
	path := filepath.Join(t.TempDir(), "orrery.db")
	s, err := bolt.Open(path, o)
	require.NoError(t, err)
	goOn(t, s, 0, 3)
	var copies []string
	for range 2 {
		copies = append(copies, t.TempDir())
		require.NoError(t, os.CopyFS(copies[len(copies)-1], os.DirFS(filepath.Dir(path))))
	}
	require.NoError(t, s.Close())
	for i, folder := range copies {
		s, err := bolt.Open(filepath.Join(folder, "orrery.db"), o)
		require.NoError(t, err)
		goOn(t, s, 10*(i+1), 2)
		require.NoError(t, s.Close())
	}
	kept, err := filepath.Glob(filepath.Join(shipped, "*.redo"))
	require.NoError(t, err)
	assert.Len(t, kept, 3, "what was before the copies, and of each what it went on with")
}

// TestWhatCannotBeWrittenIsNotTakenForTheEndOfTheRedo has a last batch that is so great that it is written at
// once, and that bbolt refuses.
func TestWhatCannotBeWrittenIsNotTakenForTheEndOfTheRedo(t *testing.T) {
	backup, path := redone(t, keepAll, 1)
	backup = compacted(t, backup) // with its journal in itself: what is moved has no place beside it
	key := string(binary.BigEndian.AppendUint64(nil, 2))
	entry := everything(t, compacted(t, path))["journal "+key]
	require.NotEmpty(t, entry)
	id := [16]byte{1}
	require.NoError(t, bolt.MoveBackupTo(backup, kv.Position{Log: hex.EncodeToString(id[:]), Frame: 5, Sum: 7}))
	folder := filepath.Join(t.TempDir(), "log")
	log, err := wal.Create(folder, id, 6, wal.Options{Prev: 7, NoSync: true})
	require.NoError(t, err)
	part := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	frame := part([]byte{1, 't'}, "journal")
	frame = part(part(append(frame, 'p'), key), entry)
	frame = part(append(frame, 't'), "meta")
	frame = part(part(append(frame, 'p'), ""), strings.Repeat("x", 33<<20)) // no key
	_, err = log.Append(frame)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	to := filepath.Join(t.TempDir(), "restored.db")
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: 2, Redo: []string{folder}})
	require.ErrorContains(t, err, "key required")
	require.NotErrorIs(t, err, bolt.ErrNoRedo)
	require.NoFileExists(t, to)
}
