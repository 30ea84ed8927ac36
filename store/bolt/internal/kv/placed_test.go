package kv_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// read is get with the error that the typed code makes of what cannot be read.
func read(t *testing.T, tx *kv.Tx, key string) (value string, err error) {
	t.Helper()
	defer kv.Guard("read", &err)
	v, ok := tx.Table("a").Get([]byte(key))
	require.True(t, ok)
	c := tx.Table("a").Cursor()
	k, walked := c.Seek([]byte(key))
	require.Equal(t, key, string(k))
	require.Equal(t, v, walked)
	return string(v), nil
}

func viewOf(t *testing.T, db *opened) *kv.Tx {
	t.Helper()
	tx, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	t.Cleanup(tx.Rollback)
	return tx
}

// worn is a disk of which no file can be read while it is set.
type worn struct {
	disk.FS
	set *atomic.Bool
}

func (w worn) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := w.FS.OpenFile(path, flag, mode)
	return wornFile{f, w.set}, err
}

type wornFile struct {
	disk.File
	set *atomic.Bool
}

func (w wornFile) ReadAt(b []byte, off int64) (int, error) {
	if w.set.Load() {
		return 0, syscall.EIO
	}
	return w.File.ReadAt(b, off)
}

var large = strings.Repeat("large ", 4<<10)

func TestALargeValueTakesNoMemoryButIsReadFromTheLog(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	before := viewOf(t, db)
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, putText(db, key, key+large))
	}
	require.NoError(t, putText(db, "small", "small"))
	stats := db.Stats()
	require.Greater(t, stats.Bytes, int64(3*len(large)))
	require.Less(t, stats.Memory, int64(200))
	for name, db := range map[string]*opened{"as it is": db, "after a crash": db.crashed(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			stats := db.Stats()
			require.Greater(t, stats.Bytes, int64(3*len(large)))
			require.Less(t, stats.Memory, int64(200))
			during := viewOf(t, db)
			require.NoError(t, db.Checkpoint())
			require.Zero(t, db.Stats().Memory+db.Stats().Bytes)
			for _, tx := range []*kv.Tx{during, viewOf(t, db)} {
				got, err := read(t, tx, "b")
				require.NoError(t, err)
				require.Equal(t, "b"+large, got)
				tx.Rollback()
			}
		})
		if name == "after a crash" {
			require.NoError(t, db.Close())
		}
	}
	_, ok := before.Table("a").Get([]byte("a"))
	require.False(t, ok)
	before.Rollback()
	require.NoError(t, db.Close())
}

func TestAReadOfTheLogThatFailsIsAnErrorOfThatReadAlone(t *testing.T) {
	var set atomic.Bool
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.FS = worn{disk.OS, &set} })
	db.Alone()
	require.NoError(t, putText(db, "a", large))
	require.NoError(t, putText(db, "b", "small"))
	tx := viewOf(t, db)
	set.Store(true)
	_, err := read(t, tx, "a")
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, err, store.ErrCorrupt, "nothing says that what is stored is damaged")
	got, err := read(t, tx, "b")
	require.NoError(t, err)
	require.Equal(t, "small", got)
	err = db.Checkpoint()
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "table a, key 61: ")
	require.NoError(t, putText(db, "c", "goes on"))
	set.Store(false)
	got, err = read(t, tx, "a")
	require.NoError(t, err)
	require.Equal(t, large, got)
	tx.Rollback()
	require.NoError(t, db.Checkpoint())
	require.Equal(t, large, get(t, db, "a"))
	require.NoError(t, db.Close())
}

func TestALargeValueThatIsDamagedInTheLogKeepsNothingElseFromTheFile(t *testing.T) {
	told := &bytes.Buffer{}
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Logger = slog.New(slog.NewTextHandler(told, nil)) })
	db.Alone()
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, putText(db, key, key+large))
	}
	segments, err := filepath.Glob(filepath.Join(db.path+".log", "*.log"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	raw, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	at := bytes.Index(raw, []byte("b"+large))
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("L"), int64(at+1))
	require.NoError(t, err)
	require.NoError(t, f.Close())

	tx := viewOf(t, db)
	_, err = read(t, tx, "b")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, segments[0]+" at offset ")
	require.ErrorContains(t, err, "frame 2: ")
	got, err := read(t, tx, "c")
	require.NoError(t, err)
	require.Equal(t, "c"+large, got)
	tx.Rollback()
	require.NoError(t, db.Checkpoint())
	require.Contains(t, told.String(), "is damaged")
	require.Contains(t, told.String(), "key=62 ")
	require.Equal(t, "a"+large, get(t, db, "a"))
	require.Equal(t, "bL"+large[1:], get(t, db, "b"), "as it stood there: its own checksum tells")
	require.NoError(t, db.Close())
}

func TestALargeValueIsReadAlsoWhereTheLogWasMovedAway(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	require.NoError(t, putText(db, "a", large))
	require.NoError(t, os.Rename(db.path+".log", db.path+".elsewhere"))
	require.Equal(t, large, get(t, db, "a"))
	require.NoError(t, os.Rename(db.path+".elsewhere", db.path+".log"))
	require.NoError(t, db.Close())
}

// TestAViewHoldsTheLogAsLongAsItMayMeetLargeValues begins one behind a commit that has none, and one
// while a checkpoint has them in hand. What it held goes with the next checkpoint.
func TestAViewHoldsTheLogAsLongAsItMayMeetLargeValues(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Segment = 4 << 10 })
	db.Alone()
	keys := []string{"a", "b", "c", "d", "e"}
	for _, key := range keys {
		require.NoError(t, putText(db, key, key+large))
	}
	require.NoError(t, putText(db, "small", "small"))
	views := []*kv.Tx{viewOf(t, db)}
	db.OnWrite(func() { views = append(views, viewOf(t, db)) })
	require.NoError(t, db.Checkpoint())
	db.OnWrite(nil)
	require.Greater(t, len(views), 1)
	segments := func() int {
		found, err := filepath.Glob(filepath.Join(db.path+".log", "*.log"))
		require.NoError(t, err)
		return len(found)
	}
	for _, tx := range views {
		require.NoError(t, putText(db, "small", "once more"))
		require.NoError(t, db.Checkpoint())
		require.GreaterOrEqual(t, segments(), len(keys))
		for _, key := range keys {
			got, err := read(t, tx, key)
			require.NoError(t, err)
			require.Equal(t, key+large, got)
		}
		tx.Rollback()
	}
	require.NoError(t, putText(db, "small", "at last"))
	require.NoError(t, db.Checkpoint())
	require.LessOrEqual(t, segments(), 2)
	require.NoError(t, db.Close())
}
