package wal_test

import (
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// hooked is a file system that tells what is done with it.
type hooked struct {
	disk.FS
	stat, close func()
}

func (h hooked) Stat(path string) (fs.FileInfo, error) {
	h.stat()
	return h.FS.Stat(path)
}

func (h hooked) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := h.FS.OpenFile(path, flag, mode)
	return hookedFile{f, h.close}, err
}

type hookedFile struct {
	disk.File
	close func()
}

func (f hookedFile) Close() error {
	f.close()
	return f.File.Close()
}

func TestALogMayBeClosedWhileItsPlaceIsLookedAt(t *testing.T) {
	var log *wal.Log
	closed, looked := make(chan struct{}), make(chan error)
	h := hooked{
		FS:   disk.OS,
		stat: func() { <-closed },
		close: func() {
			go func() { looked <- log.InPlace() }()
			for range 100 { // so that it looks now, if it may
				runtime.Gosched()
			}
		},
	}
	created, err := wal.Create(t.TempDir()+"/log", id, 1, wal.Options{NoSync: true, FS: h})
	require.NoError(t, err)
	log = created
	require.NoError(t, log.Close())
	close(closed)
	require.ErrorIs(t, <-looked, fs.ErrClosed)
}

// waiting is a file system that says when it syncs a folder, and goes on when it may.
type waiting struct {
	disk.FS
	began, goOn chan struct{}
}

func (w *waiting) SyncDir(path string) error {
	if w.began != nil {
		w.began <- struct{}{}
		<-w.goOn
	}
	return w.FS.SyncDir(path)
}

func TestWhoLooksWhetherTheLogIsInItsPlaceDoesNotWaitForADrop(t *testing.T) {
	fsys := &waiting{FS: disk.OS}
	log, err := wal.Create(t.TempDir()+"/log", id, 1, wal.Options{FS: fsys, SegmentSize: 4 << 10})
	require.NoError(t, err)
	for range 10 {
		_, err := log.Append(make([]byte, 1000))
		require.NoError(t, err)
	}
	require.NoError(t, log.Sync())
	fsys.began, fsys.goOn = make(chan struct{}), make(chan struct{})
	dropped := make(chan error)
	go func() { dropped <- log.Drop(5) }()
	<-fsys.began
	require.NoError(t, log.InPlace())
	began := fsys.began
	go func() {
		for range began {
		}
	}()
	close(fsys.goOn)
	require.NoError(t, <-dropped)
	close(fsys.began)
	fsys.began = nil
	require.NoError(t, log.InPlace())
	require.NoError(t, log.Close())
}
