package disktest_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
)

// found loses the disk often, and counts what is found each time.
func found(t *testing.T, d *disktest.Disk, what func(*disktest.Disk) string) map[string]int {
	t.Helper()
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	seen := map[string]int{}
	for range 3000 {
		seen[what(d.Lose(r.IntN))]++
	}
	return seen
}

// content is that of the file /f, its letters once each; "-" if it is not there.
func content(d *disktest.Disk) string {
	if _, err := d.Stat("/f"); errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	var s strings.Builder
	last := byte(0)
	for _, c := range d.Content("/f") {
		if c != last {
			s.WriteByte(c)
		}
		last = c
	}
	return s.String()
}

func create(t *testing.T, d *disktest.Disk, path string) disk.File {
	t.Helper()
	f, err := d.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	return f
}

func write(t *testing.T, f disk.File, letter string, n int, off int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(strings.Repeat(letter, n)), off)
	require.NoError(t, err)
}

func TestWhatWasSyncedIsFoundAlways(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/f")
	write(t, f, "a", 10_000, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/"))
	assert.Equal(t, map[string]int{"a": 3000}, found(t, d, content))
}

func TestOfWhatWasNotSyncedEachSectorIsFoundOldNewOrTorn(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/f")
	write(t, f, "a", 4096, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/"))
	write(t, f, "b", 1024, 512)
	write(t, f, "c", 1024, 1024)
	seen := found(t, d, content)
	for _, want := range []string{"a", "aba", "abca", "aca", "abaca"} {
		assert.Positive(t, seen[want], "%s of %v", want, seen)
	}
	sectors := found(t, d, func(d *disktest.Disk) string {
		if bytes.Count(d.Content("/f"), []byte("b"))%512 != 0 {
			return "torn"
		}
		return "whole"
	})
	assert.Positive(t, sectors["torn"])
	assert.Positive(t, sectors["whole"])
	assert.Zero(t, seen["-"])
}

func TestANameIsFoundOrNotUntilItsFolderIsSynced(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/g")
	write(t, f, "a", 512, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/"))
	require.NoError(t, d.Rename("/g", "/f"))
	names := func(d *disktest.Disk) string {
		entries, err := d.ReadDir("/")
		require.NoError(t, err)
		var s string
		for _, e := range entries {
			s += e.Name()
		}
		return s
	}
	seen := found(t, d, names)
	assert.Positive(t, seen["f"])
	assert.Positive(t, seen["g"])
	assert.Len(t, seen, 2)
	require.NoError(t, d.SyncDir("/"))
	assert.Equal(t, map[string]int{"f": 3000}, found(t, d, names))
	require.NoError(t, d.Remove("/f"))
	assert.Len(t, found(t, d, names), 2)
	require.NoError(t, d.SyncDir("/"))
	assert.Equal(t, map[string]int{"": 3000}, found(t, d, names))
}

func TestAFolderThatIsNotDurableTakesItsFilesWithIt(t *testing.T) {
	d := disktest.New()
	require.NoError(t, d.Mkdir("/sub", 0o700))
	f := create(t, d, "/sub/f")
	write(t, f, "a", 512, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/sub"))
	left := d.Lose(func(int) int { return 0 })
	_, err := left.Stat("/sub/f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.SyncDir("/"))
	left = d.Lose(func(int) int { return 0 })
	assert.Len(t, left.Content("/sub/f"), 512)
}

func TestAFailedSyncMayHaveWrittenAndIsNotTriedAgainThoughReadsShowIt(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/f")
	write(t, f, "a", 4096, 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/"))
	write(t, f, "b", 4096, 0)
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Sync {
			return syscall.EIO
		}
		return nil
	}
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	d.Fail = nil
	require.NoError(t, f.Sync(), "nothing is left to be written")
	b := make([]byte, 4096)
	_, err := f.ReadAt(b, 0)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("b", 4096), string(b))
	for _, d := range []*disktest.Disk{d, d.Kill()} {
		seen := found(t, d, content)
		assert.Positive(t, seen["a"])
		assert.Positive(t, seen["b"])
	}
	write(t, f, "b", 1, 0)
	require.NoError(t, f.Sync())
	assert.Equal(t, map[string]int{"b": 3000}, found(t, d, content), "the page was written again, all of it")
}

func TestAFailedWriteMayHaveWrittenItsBeginning(t *testing.T) {
	d := disktest.New()
	f := create(t, d, "/f")
	d.Fail = func(op disktest.Op) error {
		if op.Extends {
			return syscall.ENOSPC
		}
		return nil
	}
	n, err := f.WriteAt(make([]byte, 1000), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 500, n)
	_, err = d.OpenFile("/other", os.O_CREATE|os.O_RDWR, 0o600)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Len(t, d.Content("/f"), 500)
}

// TestTheDiskBehavesAsTheSystemDoes does the same on both.
func TestTheDiskBehavesAsTheSystemDoes(t *testing.T) {
	memory := disktest.New()
	require.NoError(t, memory.Mkdir("/x", 0o700))
	for name, row := range map[string]struct {
		fs  disk.FS
		dir string
	}{"memory": {memory, "/x"}, "system": {disk.OS, t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			at := func(name string) string { return filepath.Join(row.dir, name) }
			d := row.fs
			_, err := d.OpenFile(at("a"), os.O_RDWR, 0)
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = d.OpenFile(at("no/a"), os.O_RDWR|os.O_CREATE, 0o600)
			require.ErrorIs(t, err, fs.ErrNotExist)
			_, err = d.ReadDir(at("no"))
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorIs(t, d.SyncDir(at("no")), fs.ErrNotExist)
			require.ErrorIs(t, d.Remove(at("no")), fs.ErrNotExist)
			require.ErrorIs(t, d.Rename(at("no"), at("yes")), fs.ErrNotExist)
			f, err := d.OpenFile(at("a"), os.O_RDWR|os.O_CREATE, 0o600)
			require.NoError(t, err)
			require.Equal(t, at("a"), f.Name())
			_, err = f.WriteAt([]byte("hello"), 3)
			require.NoError(t, err)
			b := make([]byte, 10)
			n, err := f.ReadAt(b, 1)
			require.Equal(t, io.EOF, err)
			require.Equal(t, "\x00\x00hello", string(b[:n]))
			require.NoError(t, f.Truncate(4))
			require.NoError(t, f.Truncate(6))
			require.NoError(t, f.Sync())
			info, err := f.Stat()
			require.NoError(t, err)
			require.Equal(t, int64(6), info.Size())
			n, err = f.ReadAt(b[:6], 0)
			require.NoError(t, err)
			require.Equal(t, "\x00\x00\x00h\x00\x00", string(b[:n]))
			require.NoError(t, d.Mkdir(at("sub"), 0o700))
			require.ErrorIs(t, d.Mkdir(at("sub"), 0o700), fs.ErrExist)
			require.NoError(t, f.Close())
			require.ErrorIs(t, f.Close(), fs.ErrClosed)
			require.Error(t, f.Sync())
			require.NoError(t, d.Rename(at("a"), at("sub/b")))
			require.Error(t, d.Remove(at("sub")), "it is not empty")
			require.NoError(t, d.SyncDir(at("sub")))
			f, err = d.OpenFile(at("sub/b"), os.O_RDONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("x"), 0)
			require.Error(t, err, "it is open for reading")
			require.NoError(t, f.Close())
			entries, err := d.ReadDir(row.dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			require.True(t, entries[0].IsDir())
			require.NoError(t, d.Remove(at("sub/b")))
			require.NoError(t, d.Remove(at("sub")))
			_, err = d.Stat(at("sub"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}
