package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADirectoryIsRemovedWhateverRightsAProgramHasTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	inner := filepath.Join(dir, "a", "b")
	require.NoError(t, os.MkdirAll(inner, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inner, "f"), nil, 0o400))
	require.NoError(t, os.Chmod(inner, 0o500))
	require.NoError(t, os.Chmod(filepath.Dir(inner), 0o000))
	require.NoError(t, RemoveAll(dir))
	assert.NoDirExists(t, dir)
	require.NoError(t, RemoveAll(dir), "it is gone")
}

func TestALockIsForOneHolderOrShared(t *testing.T) {
	if !CanLock {
		t.Skip("this system has no locks on files")
	}
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	a, b := open(), open()
	for _, try := range []struct {
		f            *os.File
		shared, want bool
	}{{a, false, true}, {b, true, false}, {b, false, false}} {
		got, err := TryLock(try.f, try.shared)
		require.NoError(t, err)
		assert.Equal(t, try.want, got)
	}
	Unlock(a)
	for _, f := range []*os.File{a, b} {
		got, err := TryLock(f, true)
		require.NoError(t, err)
		assert.True(t, got)
	}
	require.NoError(t, a.Close())
	got, err := TryLock(b, false)
	require.NoError(t, err)
	assert.True(t, got, "the other one is closed")
	require.NoError(t, b.Close())
	_, err = TryLock(b, false)
	require.Error(t, err)
}
