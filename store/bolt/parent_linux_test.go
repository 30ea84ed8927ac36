package bolt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt"
)

// openVar names the database that a process of this test opens as a user that is not root.
const openVar = "ORRERY_TEST_OPEN"

func TestTheFolderAboveThatOfANewDatabaseNeedNotBeReadable(t *testing.T) {
	if path := os.Getenv(openVar); path != "" {
		s, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		return
	}
	dir, err := os.MkdirTemp("/tmp", "above") //nolint:usetesting // that every user can enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	above := filepath.Join(dir, "above")
	folder := filepath.Join(above, "folder")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	exe, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test"), exe, 0o755))
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, []string{openVar + "=" + filepath.Join(folder, "orrery.db")}
	if os.Getuid() == 0 { // root may read all
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.NoError(t, os.Chown(folder, 65534, 65534))
	}
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(above, 0o100))
		t.Cleanup(func() { _ = os.Chmod(above, 0o700) })
	}
	if os.Getuid() == 0 {
		require.NoError(t, os.Chmod(above, 0o701), "others enter it, and cannot list it")
	}
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, string(out))
}
