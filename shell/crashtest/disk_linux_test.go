package crashtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
)

// smallDisk mounts a file system of its own, or skips the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestAFullDiskRefusesWhatIsNewAndLosesNothingOld(t *testing.T) {
	t.Parallel()
	s := seedtest.Seed(t)
	disk := smallDisk(t, "8m")
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 6<<20), 0o600))
	h, l := newHome(t, disk, usual), newLedger()
	load := startLoad(t, h, l, s, 8)
	load.target.full.Store(true)
	p := h.launch(t)
	url := p.url(t, h)
	load.link.set(url)

	full := func() error {
		if load.target.refusedAsFull.Load() < 20 {
			return errLater
		}
		return nil
	}
	await(t, 2*time.Minute, full)
	before := l.total(acked)
	require.Positive(t, before)
	h.mustRun(t, "actions", "list", "--server", url) // reading goes on

	require.NoError(t, os.Remove(ballast)) // space comes back: so does the daemon
	await(t, time.Minute, func() error {
		if l.total(acked) < before+50 {
			return errLater
		}
		return nil
	})
	load.target.refusedAsFull.Store(0)
	require.NoError(t, os.WriteFile(filepath.Join(disk, "rest"), nil, 0o600))
	fill(t, filepath.Join(disk, "rest"))
	await(t, 2*time.Minute, full)
	p.kill() // and dies while the disk is full
	load.link.set("")
	load.stop()

	// A start on the full disk works, or says why it does not.
	again := h.launch(t)
	select {
	case <-again.ready:
		again.kill()
	case <-again.gone:
		require.Error(t, again.err)
		assert.Contains(t, h.tail(t), "no space left on device")
	}

	// What it has left is drained where there is room.
	moved := h
	moved.db = filepath.Join(h.dir, dbFile)
	copyFile(t, h.db, moved.db)
	require.NoError(t, os.CopyFS(moved.db+".log", os.DirFS(h.db+".log")), "which holds what the file does not")
	if _, err := os.Stat(h.db + ".journal"); err == nil { // an epoch of it has ended
		require.NoError(t, os.CopyFS(moved.db+".journal", os.DirFS(h.db+".journal")))
	}
	checkFile(t, moved.db)
	moved.configure(t, usual)
	drainDaemon(t, moved, l)
}

// fill takes what is left of a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err = f.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			return
		}
	}
}

func TestADaemonOnAFileThatCannotBeWrittenToRefusesToStart(t *testing.T) {
	t.Parallel()
	disk := ""
	if os.Getuid() == 0 { // whom the file's mode does not stop
		disk = smallDisk(t, "8m")
	}
	h := newHome(t, disk, usual)
	p := h.launch(t)
	p.url(t, h)
	p.stop(t, h)
	before, err := os.ReadFile(h.db)
	require.NoError(t, err)
	if disk == "" {
		require.NoError(t, os.Chmod(h.db, 0o400))
	} else {
		require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}
	said := refusesToStart(t, h)
	assert.Contains(t, said, "read-only")
	assert.Contains(t, said, h.db)
	after, err := os.ReadFile(h.db)
	require.NoError(t, err)
	assert.Equal(t, before, after, "the file has changed")
	h.mustRun(t, "replay", "--verify", "--db", h.db) // reading is possible
}
