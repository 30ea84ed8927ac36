package bolt_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestAPipeIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorContains(t, err, "not a regular file")
}

func TestAFullDiskIsAnErrorThatLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small tmpfs is not permitted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	s, err := bolt.Open(filepath.Join(dir, "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	batches, full := 0, error(nil)
	for full == nil {
		require.Less(t, batches, 1000)
		if full = commit(s, batchOf(20*batches, 20)); full == nil {
			batches++
		}
	}
	require.ErrorIs(t, full, syscall.ENOSPC)
	require.Error(t, commit(s, batchOf(20*batches, 20)))
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		n, err := tx.Count("action", "all")
		assert.Equal(t, uint64(20*batches), n)
		return err
	}))
	// Room comes back, and the same store goes on.
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=20m"))
	require.NoError(t, commit(s, batchOf(20*batches, 20)))
	found, err := s.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, s.Close())
}
