package kv_test

import (
	"context"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// TestTheFirstArchiveOfAFileThatWasNotClosedIsItsOwnWhateverEndsTheFirstCheckpoint: the state of the
// log that an earlier build wrote names no archive.
func TestTheFirstArchiveOfAFileThatWasNotClosedIsItsOwnWhateverEndsTheFirstCheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "earlier.db")
	earlier := openAt(t, filepath.Join(dir, "live.db"), func(o *kv.Options) { o.Past = kv.Past{} })
	tx, err := earlier.Begin(context.Background(), true)
	require.NoError(t, err)
	tx.Table("past").PutNew([]byte("00000001"), []byte("v"))
	require.NoError(t, tx.Commit())
	copyTo(t, earlier.path, path)
	require.NoError(t, earlier.Close())

	db := openAt(t, path, nil)
	killed := filepath.Join(dir, "killed.db")
	copyTo(t, path, killed) // before the checkpoint
	require.NoError(t, db.Checkpoint())
	require.NoError(t, os.CopyFS(killed+".past", os.DirFS(path+".past"))) // which has come as far as that
	require.NoError(t, db.Close())
	db = openAt(t, killed, nil)
	require.NoError(t, db.PastLost())
	read, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	v, ok := read.Table("past").Get([]byte("00000001"))
	read.Rollback()
	require.True(t, ok)
	require.Equal(t, "v", string(v))
	require.NoError(t, db.Close())
}

// copyTo copies a file and its log.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, raw, 0o600))
	require.NoError(t, os.CopyFS(to+".log", os.DirFS(from+".log")))
}

// TestAFileThatIsRefusedHasHarmedNothingOfTheArchiveBesideIt puts an older copy of a file, which
// needs a log that is not there, beside what the newer one has archived.
func TestAFileThatIsRefusedHasHarmedNothingOfTheArchiveBesideIt(t *testing.T) {
	dir := t.TempDir()
	db := openAt(t, filepath.Join(dir, "live.db"), nil)
	want := content{}
	write := func() {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		for i := range 8 {
			appendPast(tx, "past", fmt.Sprintf("%x", sha512.Sum512([]byte{byte(i)})), want) // it cannot be packed much
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, db.Checkpoint())
	}
	write()
	older := filepath.Join(dir, "older.db")
	copyTo(t, db.path, older)
	require.NoError(t, os.RemoveAll(older+".log"))
	write()
	write()
	require.NoError(t, db.Close())
	require.NoError(t, os.CopyFS(older+".past", os.DirFS(db.path+".past")))
	b, err := bbolt.Open(older, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	_, err = kv.New(b, options(older))
	require.ErrorIs(t, err, kv.ErrNoLog)
	require.NoError(t, b.Close())
	newer, err := os.ReadDir(db.path + ".past")
	require.NoError(t, err)
	got, err := os.ReadDir(older + ".past")
	require.NoError(t, err)
	require.Greater(t, len(newer), 1)
	require.Len(t, got, len(newer))
}

// TestACursorThatPassesOverThePastKeepsGapsOfItsOwn: in one of them entries of the past may stand.
func TestACursorThatPassesOverThePastKeepsGapsOfItsOwn(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	change := func(do func(*kv.Table)) {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		do(tx.Table("past"))
		require.NoError(t, tx.Commit())
	}
	key := func(n int) []byte { return fmt.Appendf(nil, "%08d", n) }
	change(func(table *kv.Table) { table.PutNew(key(10), []byte("v")); table.PutNew(key(50), []byte("v")) })
	require.NoError(t, db.Checkpoint())
	change(func(table *kv.Table) {
		for n := range 30 {
			table.Delete(key(n + 15)) // of an earlier build's, say
		}
		table.PutNew(key(60), []byte("v"))
	})
	read := func(warm bool, want ...string) {
		change(func(table *kv.Table) {
			c := table.Cursor()
			if warm {
				c = table.WarmCursor()
			}
			var got []string
			for k, _ := c.First(); k != nil; k, _ = c.Next() {
				got = append(got, string(k))
			}
			require.Equal(t, want, got)
		})
	}
	for range 2 {
		read(true, "00000060")
		read(false, "00000010", "00000050", "00000060")
	}
	change(func(table *kv.Table) {
		require.Equal(t, 1, table.WarmGaps())
		table.PutNew(key(20), []byte("v"))
	})
	read(true, "00000020", "00000060")
	read(false, "00000010", "00000020", "00000050", "00000060")
	require.NoError(t, db.Close())
}

// TestWhatIsDeletedBeforeItIsArchivedIsNotArchived: after a start nothing counts as new, so the deletion is
// noted beyond the archive's end.
func TestWhatIsDeletedBeforeItIsArchivedIsNotArchived(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	tx, err := db.Begin(context.Background(), true)
	require.NoError(t, err)
	want := content{}
	appendPast(tx, "past", "one", want)
	appendPast(tx, "past", "two", want)
	require.NoError(t, tx.Commit())
	again := db.crashed(t, t.TempDir())
	require.NoError(t, db.Close())
	tx, err = again.Begin(context.Background(), true)
	require.NoError(t, err)
	tx.Table("past").Delete([]byte("00000001"))
	tx.Table("past").Delete([]byte("00000002"))
	appendPast(tx, "past", "three", want)
	require.NoError(t, tx.Commit())
	require.NoError(t, again.Checkpoint())
	tx, err = again.Begin(context.Background(), false)
	require.NoError(t, err)
	k, v := tx.Table("past").Cursor().First()
	require.Equal(t, "00000003", string(k))
	require.Equal(t, "three", string(v))
	tx.Rollback()
	require.NoError(t, again.Close())
}

// TestWhoOnlyReadsWritesNoNameOfAnArchive into a file whose log an earlier build has written.
func TestWhoOnlyReadsWritesNoNameOfAnArchive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.db")
	earlier := openAt(t, filepath.Join(dir, "live.db"), func(o *kv.Options) { o.Past = kv.Past{} })
	tx, err := earlier.Begin(context.Background(), true)
	require.NoError(t, err)
	appendPast(tx, "past", "v", content{})
	require.NoError(t, tx.Commit())
	copyTo(t, earlier.path, path)
	require.NoError(t, earlier.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	db := openAt(t, path, func(o *kv.Options) { o.ReadOnly = true })
	tx, err = db.Begin(context.Background(), false)
	require.NoError(t, err)
	_, ok := tx.Table("past").Get([]byte("00000001"))
	require.True(t, ok)
	tx.Rollback()
	require.NoError(t, db.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
