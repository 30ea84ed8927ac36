package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestABackupOfALiveDatabaseIsTheStateOfItsBeginning(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "orrery.db"), bolt.Options{NoSync: true})
	require.NoError(t, commit(s, batchOf(0, 20)))
	var sent bytes.Buffer
	n, err := s.Backup(ctx, writerFunc(func(b []byte) (int, error) {
		// The writer goes on while the copy is made.
		var seq uint64
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) { seq, err = tx.Seq(); return err }))
		require.NoError(t, commit(s, batchOf(20*int(seq), 20)))
		return sent.Write(b)
	}))
	require.NoError(t, err)
	assert.Equal(t, int64(sent.Len()), n)
	path := filepath.Join(dir, "backup.db")
	c, err := bolt.ReceiveBackup(ctx, path, &sent, nil)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), c.Seq)
	requireSound(t, path)
	copied := open(t, path, bolt.Options{})
	require.NoError(t, copied.View(ctx, func(tx store.ReadTx) error {
		n, err := tx.Count("action", "all")
		assert.Equal(t, uint64(20), n)
		return err
	}))
}

type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

func TestABackupFileIsPrivateWholeAndNeverReplacesAnother(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "orrery.db"), bolt.Options{})
	require.NoError(t, commit(s, batchOf(0, 20)))
	path := filepath.Join(dir, "backup.db")
	c, err := s.BackupFile(ctx, path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	assert.Greater(t, c.Bytes, info.Size(), "its journal counts, too")
	requireSound(t, path)
	_, err = s.BackupFile(ctx, path)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, path)

	reason := errors.New("the caller went home")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	_, err = s.BackupFile(ended, filepath.Join(dir, "never.db"))
	require.ErrorIs(t, err, reason)
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	assert.Empty(t, left, "no temporary file stays")
	_, err = os.Stat(filepath.Join(dir, "never.db"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestACompactionRemovesWhatOneThatWasKilledLeftBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a[b].db")
	s, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	folder := filepath.Dir(path)
	earlier, others := filepath.Join(folder, ".a[b].db.compact-1"), filepath.Join(folder, ".ab.db.compact-1") // an earlier build's
	mine := filepath.Join(folder, ".a[b].db.new-1", "file")
	require.NoError(t, os.Mkdir(filepath.Dir(mine), 0o700))
	for _, name := range []string{mine, earlier, others} {
		require.NoError(t, os.WriteFile(name, []byte("half a copy"), 0o600))
	}
	_, err = bolt.CompactFile(t.Context(), path)
	require.NoError(t, err)
	assert.NoDirExists(t, filepath.Dir(mine))
	assert.NoFileExists(t, earlier)
	assert.FileExists(t, others)
}

func TestABackupThatIsReceivedIsWholeOrIsNot(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	var sent bytes.Buffer
	_, err = s.Backup(t.Context(), &sent)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	to := filepath.Join(t.TempDir(), "copy.db")
	_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent.Bytes()[:sent.Len()/2]), nil)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "it is cut off there")
	left, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent.Bytes()), nil)
	require.NoError(t, err)
	requireSound(t, to)
	_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent.Bytes()), nil)
	require.ErrorIs(t, err, os.ErrExist)
}

// TestWhatAnEarlierDaemonSendsIsTakenToo: it sends a database file.
func TestWhatAnEarlierDaemonSendsIsTakenToo(t *testing.T) {
	path := filled(t, 3)
	sent, err := os.ReadFile(path)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "copy.db")
	_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent[:3*os.Getpagesize()]), nil)
	require.ErrorContains(t, err, "what came is no whole database")
	left, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Empty(t, left)
	c, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent), nil)
	require.NoError(t, err)
	assert.EqualValues(t, len(sent), c.Bytes)
}

func TestACompactedDatabaseHoldsTheSameInLessRoom(t *testing.T) {
	path := filled(t, 60)
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	var gone []store.Write
	for i, w := range batchOf(0, 1000) {
		w.Prev = store.Prev{Version: 1, Seq: uint64(i/20 + 1), Due: w.Due, Terms: w.Terms}
		w.State, w.Due, w.Terms = nil, 0, nil
		gone = append(gone, w)
	}
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		return errors.Join(tx.Put(61, gone), tx.AppendJournal(61, 1, []byte(`{}`)))
	}))
	dst := filepath.Join(filepath.Dir(path), "compact.db")
	_, err = bolt.CompactFile(ctx, path)
	require.ErrorIs(t, err, bolt.ErrLocked, "the database is open")
	require.NoError(t, s.Close())
	sizes, err := bolt.Compact(ctx, path, dst)
	require.NoError(t, err)
	assert.Less(t, sizes.After, sizes.Before)
	_, err = bolt.Compact(ctx, path, dst)
	require.ErrorIs(t, err, fs.ErrExist)
	again, err := bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	assert.Equal(t, sizes, again)
	for _, p := range []string{dst, path} {
		requireSound(t, p)
		info, err := os.Stat(p)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode())
		assert.Equal(t, sizes.After, info.Size())
		s := open(t, p, bolt.Options{})
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			n, err := tx.Count("action", "all")
			require.NoError(t, err)
			assert.Equal(t, uint64(200), n)
			seq, err := tx.Seq()
			assert.Equal(t, uint64(61), seq)
			return err
		}))
		require.NoError(t, s.Close())
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = bolt.CompactFile(ended, path)
	require.ErrorIs(t, err, context.Canceled)
	requireSound(t, path)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	id := testID(3)
	due := store.NewDueKey(1_000_003, id)
	put := func(bucket string, key, value []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put(key, value) }
	}
	remove := func(bucket string, key []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Delete(key) }
	}
	first := func(bucket string) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucket))
			k, _ := b.Cursor().First()
			return b.Delete(k)
		}
	}
	for where, c := range map[string]struct {
		spoil func(tx *bbolt.Tx) error
		what  string
	}{
		"records/action": {put("records/action", id[:], []byte(`{"crc":"00000000","version":1}`)), "checksum"},
		"due":            {put("due", append(due[:8:8], make([]byte, 16)...), []byte("action")), "is not there"},
		"lists/action":   {remove("records/action", id[:]), "is not there"},
		"counts":         {put("counts", []byte("action\x00all"), []byte("7")), `it says "7", the list has 60`},
		"journal":        {remove("journal", []byte{0, 0, 0, 0, 0, 0, 0, 2}), "batches 2 to 2 are missing"},
		"changes":        {put("changes", []byte{0, 0, 0, 0, 0, 0, 0, 2}, []byte("\x01012345670000")), "checksum"},
		"outbox":         {first("waiting"), "does not have it"},
		"waiting":        {first("outbox"), "60 entries, but 59"},
		"run-logs":       {put("run-logs", append(id[:], 0, 0, 0, 1), []byte("\x00\x00\x00\x00said")), "checksum"},
		"webhooks-info":  {put("webhooks-info", id[:], []byte("{}")), "envelope"},
	} {
		path := filled(t, 3)
		if where == "journal" || where == "changes" || where == "base" { // which a compact copy has in the file
			path = compacted(t, path)
		}
		makeBolt(t, path, c.spoil)
		found, err := bolt.Check(ctx, path)
		require.NoError(t, err)
		told := false
		for _, f := range found {
			told = told || f.Where == where && assert.Contains(t, f.String(), c.what)
		}
		assert.True(t, told, "%s: %v", where, found)
	}
}

func TestRecordsVisitsWhatCanBeReadAndNamesTheRest(t *testing.T) {
	path := filled(t, 1)
	bad := testID(3)
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("records/action")).Put(bad[:], []byte(`{"crc":"00000000","version":1}`))
	})
	s := open(t, path, bolt.Options{})
	visited := 0
	err := s.View(ctx, func(tx store.ReadTx) error {
		return tx.Records(func(store.Record) error { visited++; return nil })
	})
	require.ErrorIs(t, err, store.ErrCorrupt)
	var re *store.RecordError
	require.ErrorAs(t, err, &re)
	assert.Equal(t, bad, re.ID)
	assert.Equal(t, 19, visited)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		return tx.SetAside(store.Quarantined{Kind: re.Kind, ID: re.ID, At: 1, Reason: re.Error()}, 1_000_003)
	}))
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		aside, err := tx.Quarantine(9)
		require.NoError(t, err)
		require.Len(t, aside, 1)
		assert.JSONEq(t, `{"crc":"00000000","version":1}`, string(aside[0].Raw))
		return tx.Records(func(store.Record) error { return nil })
	}))
	found, err := s.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, found, "the damaged record leaves nothing behind")
	require.NoError(t, s.Close())
}

// Such as which database it is.
func TestABackupACompactionAndACopyHaveWhatTheShellKeeps(t *testing.T) {
	dir := t.TempDir()
	path, backup, copied := filepath.Join(dir, "orrery.db"), filepath.Join(dir, "backup.db"), filepath.Join(dir, "copy.db")
	s := open(t, path, bolt.Options{})
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.SetMeta("jobs/database", []byte("abc")) }))
	_, err := s.BackupFile(ctx, backup)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = bolt.Compact(ctx, path, copied)
	require.NoError(t, err)
	_, err = bolt.CompactFile(ctx, path)
	require.NoError(t, err)
	for _, file := range []string{path, backup, copied} {
		for _, readOnly := range []bool{true, false} {
			s, err := bolt.Open(file, bolt.Options{ReadOnly: readOnly})
			require.NoError(t, err)
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				id, err := tx.Meta("jobs/database")
				assert.Equal(t, "abc", string(id), file)
				return err
			}))
			require.NoError(t, s.Close())
		}
	}
}

func TestAStreamThatWasKeptIsRestored(t *testing.T) {
	s := open(t, filled(t, 3), bolt.Options{})
	want := journalOf(t, s)
	folder := t.TempDir()
	kept, to := filepath.Join(folder, "kept.stream"), filepath.Join(folder, "new.db")
	require.NoError(t, bolt.NewFile(kept, func(w io.Writer) error {
		_, err := s.Backup(ctx, w)
		return err
	}))
	r, err := bolt.Restore(ctx, kept, to, bolt.RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, uint64(3), r.To.Batch)
	requireSound(t, to)
	assert.Equal(t, want, journalOf(t, open(t, to, bolt.Options{})))
	raw, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kept, raw[:len(raw)-1], 0o600))
	_, err = bolt.Restore(ctx, kept, filepath.Join(folder, "cut.db"), bolt.RestoreOptions{})
	require.ErrorIs(t, err, store.ErrCorrupt)
	left, err := filepath.Glob(filepath.Join(folder, ".*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}
