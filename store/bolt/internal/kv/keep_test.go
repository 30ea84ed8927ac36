package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// keeping is a file whose log, redo and shipped redo are on a disk in memory.
type keeping struct {
	t    *testing.T
	disk *disktest.Disk
	path string
	keep kv.Keep
	said bytes.Buffer
	n    int
}

func newKeeping(t *testing.T, keep kv.Keep) *keeping {
	t.Helper()
	k := &keeping{t: t, disk: disktest.New(), path: filepath.Join(t.TempDir(), "kept.db"), keep: keep}
	k.keep.Folder = "/redo"
	return k
}

func (k *keeping) open() *kv.DB {
	k.t.Helper()
	b, err := bbolt.Open(k.path, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(k.t, err)
	o := options("/")
	o.Folder, o.Past, o.FS, o.NoSync, o.Segment, o.Keep = "/log", kv.Past{}, k.disk, false, 4<<10, k.keep
	o.Logger = slog.New(slog.NewTextHandler(&k.said, nil))
	db, err := kv.New(b, o)
	require.NoError(k.t, err)
	db.Alone()
	return db
}

// commit commits some frames of a KB each, and makes a checkpoint behind them.
func (k *keeping) commit(db *kv.DB, frames int) {
	k.t.Helper()
	for range frames {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(k.t, err)
		k.n++
		tx.Table("t").Put(fmt.Appendf(nil, "%04d", k.n), bytes.Repeat([]byte("x"), 1000))
		require.NoError(k.t, tx.Commit())
	}
	require.NoError(k.t, db.Checkpoint())
}

// in lists the files of a folder.
func (k *keeping) in(folder string) (names []string) {
	k.t.Helper()
	entries, err := k.disk.ReadDir(folder)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(k.t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// follow gives the last frame that the folders lead to.
func (k *keeping) follow(folders ...string) (last uint64, why error) {
	k.t.Helper()
	var pieces []wal.Piece
	for _, folder := range folders {
		some, bad, err := wal.Kept(folder, k.disk)
		require.NoError(k.t, err)
		require.Empty(k.t, bad)
		pieces = append(pieces, some...)
	}
	why = wal.Follow(pieces, k.disk, [16]byte{}, 0, 0, func(f wal.KeptFrame) error {
		last = f.Number
		return nil
	})
	return last, why
}

func TestWhatCannotBeShippedWaitsAndGoesOverLater(t *testing.T) {
	k := newKeeping(t, kv.Keep{Ship: "/shipped", Bytes: 1 << 20})
	db := k.open()
	k.commit(db, 20)
	err := db.Tidy()
	require.ErrorContains(t, err, "ship redo to /shipped")
	require.ErrorIs(t, db.Stats().KeepErr, fs.ErrNotExist, "the folder is not there")
	assert.Positive(t, db.Stats().Unshipped)
	waits := k.in("/redo")
	require.NotEmpty(t, waits)
	k.commit(db, 20)
	require.Greater(t, len(k.in("/redo")), len(waits), "commits went on")
	_ = db.Tidy()
	assert.Equal(t, 1, strings.Count(k.said.String(), "redo is not kept as it should be"), "the same is told once")

	require.NoError(t, k.disk.Mkdir("/shipped", 0o700))
	for _, what := range []disktest.Kind{disktest.Create, disktest.Write, disktest.Sync, disktest.Rename, disktest.SyncDir, disktest.Remove} {
		k.disk.Fail = func(op disktest.Op) error {
			if op.Kind == what && (strings.HasPrefix(op.Path, "/shipped") || what == disktest.Remove) {
				return syscall.ENOSPC
			}
			return nil
		}
		require.ErrorIs(t, db.Tidy(), syscall.ENOSPC, what)
		k.disk.Fail = nil
		last, _ := k.follow("/redo", "/shipped", "/log")
		require.EqualValues(t, 40, last, what)
	}
	require.NoError(t, db.Tidy())
	assert.Empty(t, k.in("/redo"))
	assert.Zero(t, db.Stats().Unshipped)
	assert.Positive(t, db.Stats().Kept)
	assert.Contains(t, k.said.String(), "redo is kept again")
	require.NoError(t, db.Close())
	assert.Empty(t, k.in("/redo"))
	assert.Empty(t, k.in("/log"))
	last, _ := k.follow("/shipped")
	assert.EqualValues(t, 40, last, "the last segment went over as the file was closed")
	for _, name := range k.in("/shipped") {
		assert.Equal(t, ".redo", filepath.Ext(name))
	}
}

func TestWhatIsTooMuchGoesTheOldestFirstAndIsToldIfItWasNotShipped(t *testing.T) {
	k := newKeeping(t, kv.Keep{Bytes: 20 << 10})
	db := k.open()
	k.commit(db, 60)
	before := k.in("/redo")
	require.NoError(t, db.Tidy())
	left := k.in("/redo")
	require.NotEmpty(t, left)
	assert.Equal(t, before[len(before)-len(left):], left)
	assert.LessOrEqual(t, db.Stats().Kept, int64(20<<10))
	assert.Empty(t, k.said.String())
	_, why := k.follow("/redo", "/log")
	require.ErrorIs(t, why, wal.ErrMissing)
	require.ErrorContains(t, why, "the frames from 1 to ")
	require.NoError(t, db.Close())

	k = newKeeping(t, kv.Keep{Bytes: 20 << 10, Ship: "/shipped"})
	db = k.open()
	k.commit(db, 60)
	require.Error(t, db.Tidy())
	assert.Contains(t, k.said.String(), "redo was removed that could not be shipped")
	require.NoError(t, db.Close())
}

func TestALogThatCannotBeKeptStaysUntilItCan(t *testing.T) {
	k := newKeeping(t, kv.Keep{Bytes: 1 << 20})
	db := k.open()
	k.disk.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Rename && strings.HasSuffix(op.Path, ".log") || op.Kind == disktest.Mkdir && op.Path == "/redo" {
			return syscall.EIO
		}
		return nil
	}
	for range 20 {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		k.n++
		tx.Table("t").Put(fmt.Appendf(nil, "%04d", k.n), bytes.Repeat([]byte("x"), 1000))
		require.NoError(t, tx.Commit())
	}
	require.ErrorIs(t, db.Checkpoint(), syscall.EIO)
	require.NoError(t, db.Tidy())
	require.ErrorIs(t, db.Stats().KeepErr, syscall.EIO)
	require.NoError(t, db.Stats().Err, "the file has it")
	require.ErrorIs(t, db.Close(), syscall.EIO)
	last, _ := k.follow("/log")
	require.EqualValues(t, 20, last)
	k.disk.Fail = nil
	db = k.open() // the file says that it was closed
	k.commit(db, 1)
	require.NoError(t, db.Close())
	assert.Empty(t, k.in("/log"))
	last, _ = k.follow("/redo")
	assert.EqualValues(t, 21, last)

	db = k.open()
	k.commit(db, 20)
	for _, name := range k.in("/redo") {
		require.NoError(t, k.disk.Remove("/redo/"+name))
	}
	require.NoError(t, k.disk.Remove("/redo"))
	for range 20 {
		k.n++
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		tx.Table("t").Put(fmt.Appendf(nil, "%04d", k.n), bytes.Repeat([]byte("x"), 1000))
		require.NoError(t, tx.Commit())
	}
	require.ErrorIs(t, db.Checkpoint(), fs.ErrNotExist, "somebody has removed the folder")
	require.ErrorIs(t, db.Stats().KeepErr, fs.ErrNotExist)
	k.commit(db, 1)
	require.NoError(t, db.Stats().KeepErr)
	require.NotEmpty(t, k.in("/redo"))
	require.NoError(t, db.Close())
}

func TestADiskThatDoesNotAnswerKeepsNoFileFromBeingClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, kv.Keep{Ship: "/shipped", Bytes: 1 << 20})
		require.NoError(t, k.disk.Mkdir("/shipped", 0o700))
		answers := make(chan struct{})
		k.disk.Fail = func(op disktest.Op) error {
			if strings.HasPrefix(op.Path, "/shipped") {
				<-answers
			}
			return nil
		}
		db := k.open()
		k.commit(db, 20)
		require.NoError(t, db.Close())
		assert.Contains(t, k.said.String(), "does not answer")
		assert.Empty(t, k.in("/log"), "the file alone is whole")
		last, _ := k.follow("/redo")
		assert.EqualValues(t, 20, last)
		close(answers)
		synctest.Wait()
		last, _ = k.follow("/redo", "/shipped")
		assert.EqualValues(t, 20, last)
	})
}
