package bolt_test

import (
	"context"
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

const logSuffix = ".log"

// crashed copies a database of which some is in its log only, as it stands at that moment: so a
// process leaves it that is killed. It has n records.
func crashed(t *testing.T, n int) (path string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "live.db"), bolt.Options{})
	require.NoError(t, commit(s, batchOf(0, n)))
	path = filepath.Join(dir, "orrery.db")
	raw, err := os.ReadFile(s.Path())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	require.NoError(t, os.CopyFS(path+logSuffix, os.DirFS(s.Path()+logSuffix)))
	return path
}

func requireRecords(t *testing.T, s store.Store, want uint64) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		n, err := tx.Count("action", "all")
		assert.Equal(t, want, n)
		return err
	}))
}

func TestAFileThatWasNotClosedNeedsItsLog(t *testing.T) {
	path := crashed(t, 20)
	require.NoError(t, os.Rename(path+logSuffix, path+".elsewhere"))
	for _, readOnly := range []bool{false, true} {
		_, err := bolt.Open(path, bolt.Options{ReadOnly: readOnly})
		require.ErrorIs(t, err, bolt.ErrNoLog)
		require.ErrorContains(t, err, path+logSuffix+": put it back, or restore a backup")
	}
	require.NoError(t, os.CopyFS(path+logSuffix, os.DirFS(crashed(t, 5)+logSuffix)))
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	require.NoError(t, os.RemoveAll(path+logSuffix))
	require.NoError(t, os.Rename(path+".elsewhere", path+logSuffix))
	s := open(t, path, bolt.Options{})
	requireRecords(t, s, 20)
	require.NoError(t, commit(s, batchOf(20, 20)))
	require.NoError(t, s.Close())
	require.NoDirExists(t, path+logSuffix, "the file that was closed is whole alone")
	requireRecords(t, open(t, path, bolt.Options{}), 40)
}

// A backup that takes the place of a file after a crash must not be given the crashed one's log.
func TestAFileThatWasClosedDoesNotTakeTheLogOfAnother(t *testing.T) {
	path := crashed(t, 20)
	before := open(t, filepath.Join(t.TempDir(), "before.db"), bolt.Options{})
	require.NoError(t, commit(before, batchOf(0, 3)))
	require.NoError(t, os.Remove(path))
	_, err := before.BackupFile(ctx, path)
	require.ErrorIs(t, err, os.ErrExist)
	require.ErrorContains(t, err, path+logSuffix)
	backup := filepath.Join(t.TempDir(), "backup.db")
	_, err = before.BackupFile(ctx, backup)
	require.NoError(t, err)
	require.NoError(t, os.Rename(backup, path))
	require.NoError(t, os.Rename(backup+".journal", path+".journal"))
	for range 2 {
		_, err := bolt.Open(path, bolt.Options{})
		require.ErrorIs(t, err, bolt.ErrOtherLog)
		require.ErrorContains(t, err, "move the folder away")
	}
	require.NoError(t, os.Rename(path+logSuffix, path+".old"))
	requireRecords(t, open(t, path, bolt.Options{}), 3)
}

func TestANewFileIsNotMadeBesideALog(t *testing.T) {
	path := crashed(t, 20)
	require.NoError(t, os.Remove(path))
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	require.NoFileExists(t, path)
}

func TestReadingAFileThatWasNotClosedChangesNothing(t *testing.T) {
	path := crashed(t, 20)
	look := func() map[string]string {
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(filepath.Dir(path), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Base(name) == "live.db" {
				return err
			}
			raw, err := os.ReadFile(name)
			all[name] = string(raw)
			return err
		}))
		return all
	}
	before := look()
	first, second := open(t, path, bolt.Options{ReadOnly: true}), open(t, path, bolt.Options{ReadOnly: true})
	requireRecords(t, first, 20)
	requireRecords(t, second, 20)
	found, err := first.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, found)
	require.ErrorIs(t, commit(first, batchOf(20, 1)), bolt.ErrReadOnly)
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err = bolt.Compact(ctx, path, copied)
	require.NoError(t, err)
	requireRecords(t, open(t, copied, bolt.Options{}), 20)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	assert.Equal(t, before, look())
}

func TestAFileThatWasNotClosedIsCompactedWithItsLog(t *testing.T) {
	path := crashed(t, 200)
	_, err := bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	require.NoDirExists(t, path+logSuffix)
	requireRecords(t, open(t, path, bolt.Options{}), 200)
}

func TestTheLogStandsBesideTheFileThatALinkLeadsTo(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.db"), filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, open(t, real, bolt.Options{}).Close())
	require.NoError(t, os.Symlink(real, link))
	s := open(t, link, bolt.Options{})
	require.NoError(t, commit(s, batchOf(0, 1)))
	require.DirExists(t, real+logSuffix)
	require.NoDirExists(t, link+logSuffix)
}

func TestNothingIsAcknowledgedWhileTheLogIsTakenAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	s := open(t, path, bolt.Options{})
	require.NoError(t, commit(s, batchOf(0, 1)))
	require.NoError(t, os.Rename(path+logSuffix, path+".away"))
	require.ErrorIs(t, s.InPlace(), store.ErrMoved)
	err := commit(s, batchOf(1, 1))
	require.ErrorIs(t, err, store.ErrMoved)
	require.ErrorContains(t, err, "put the same folder back")
	requireRecords(t, s, 1)
	require.NoError(t, os.Rename(path+".away", path+logSuffix))
	require.NoError(t, commit(s, batchOf(1, 1)))
	requireRecords(t, s, 2)
}

func TestALinkToAFileThatIsNotThereMakesNoneBesideALog(t *testing.T) {
	path := crashed(t, 20)
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.Rename(path, path+".away"))
	_, err := bolt.Open(link, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	require.ErrorContains(t, err, path+logSuffix)
	require.NoFileExists(t, path)
	require.NoError(t, os.Rename(path+".away", path))
	requireRecords(t, open(t, link, bolt.Options{}), 20)
}

func TestAFileOfAnEarlierFormatIsNotChangedBesideTheLogOfAnother(t *testing.T) {
	path := crashed(t, 20)
	require.NoError(t, os.Remove(path))
	older, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, older.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("system"))
		if err != nil {
			return err
		}
		return b.Put([]byte("format"), bolt.FormatValue("orrery", 1))
	}))
	require.NoError(t, older.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrOtherLog)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestACheckThatWaitsForACheckpointEndsWithItsContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{})
	require.NoError(t, commit(s, batchOf(0, 1)))
	release := bolt.Hold(s)
	defer release()
	waits, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("no longer"))
	_, err := s.Check(waits)
	require.ErrorContains(t, err, "no longer")
	require.NoError(t, commit(s, batchOf(1, 1)), "nobody is kept from writing")
}
