package bolt_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/stream"
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
	for range 3 { // a checkpoint that ends meanwhile may have given back room for one
		if err := commit(s, batchOf(20*batches, 20)); err == nil {
			batches++
		} else {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	}
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

// TestABackupForWhichThereIsNoRoomLeavesNothing: half of it is written when the disk is full.
func TestABackupForWhichThereIsNoRoomLeavesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
	value := make([]byte, 3<<20) // which cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{1}).Read(value)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return tx.SetMeta("large", value) }))
	var sent bytes.Buffer
	_, err := s.Backup(ctx, &sent)
	require.NoError(t, err)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("mounting a small tmpfs is not permitted: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	to := filepath.Join(dir, "copy.db")
	for name, write := range map[string]func() error{
		"a database": func() error {
			_, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent.Bytes()), nil)
			return err
		},
		"a stream": func() error {
			return bolt.NewFile(to, func(w io.Writer) error {
				_, err := stream.Verify(ctx, io.TeeReader(bytes.NewReader(sent.Bytes()), w), nil)
				return err
			})
		},
	} {
		err := write()
		require.ErrorIs(t, err, syscall.ENOSPC, name)
		require.ErrorContains(t, err, to, name)
		assert.Empty(t, namesIn(t, dir), name)
	}
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=40m"))
	_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent.Bytes()), nil)
	require.NoError(t, err)
	requireSound(t, to)
}
