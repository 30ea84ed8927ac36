package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAUserIsNamedByNameOrNumberWithAGroupOrItsOwn(t *testing.T) {
	root, err := LookupUser("root")
	require.NoError(t, err)
	assert.Equal(t, []any{uint32(0), uint32(0), "root"}, []any{root.UID, root.GID, root.Name})
	u, err := LookupUser("4242:4343")
	require.NoError(t, err)
	assert.Equal(t, &User{UID: 4242, GID: 4343}, u)
	u, err = LookupUser("4242:root")
	require.NoError(t, err)
	assert.Zero(t, u.GID)
	for spec, wrong := range map[string]string{
		"":             `there is no user "" here`,
		"nobody-here":  `there is no user "nobody-here" here`,
		"root:nothing": `there is no group "nothing" here`,
		"4242":         `user "4242" is not known here: name its group, too: "4242:GROUP"`,
		"-1:0":         `there is no user "-1" here`,
		"4294967295:0": `there is no user "4294967295" here`,
		"root:":        `there is no group "" here`,
	} {
		_, err := LookupUser(spec)
		require.ErrorContains(t, err, wrong, spec)
	}
}

func TestAProgramRunsAsItsUserWithNoGroupOfTheDaemon(t *testing.T) {
	u := &User{UID: 4242, GID: 4343}
	cmd := exec.Command("sh", "-c", "id -u; id -g; id -G; cat /proc/1/environ 2>&1 >/dev/null | grep -o denied")
	if os.Geteuid() != 0 {
		require.ErrorContains(t, u.Check(), "only root can start programs as another user (4242)")
		t.Skip("only root can start programs as another user")
	}
	require.NoError(t, u.Check())
	u.Bind(cmd)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "4242\n4343\n4343\ndenied\n", strings.ToLower(string(out)))
}

func TestLimitsAreWrittenAsTheKernelReadsThem(t *testing.T) {
	root := t.TempDir() // files stand for the kernel's
	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu memory pids\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), nil, 0o600))
	l := Limits{MemoryMaxBytes: 64 << 20, PidsMax: 32, CPUMax: 0.5}
	tree, err := openTree(root, l)
	require.NoError(t, err)
	last, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	require.NoError(t, err)
	assert.Equal(t, "+cpu", string(last))
	_, err = tree.Make("g", l)
	require.ErrorContains(t, err, "of the control group: open "+root+"/g/", "a folder that is no group has no such files")
	assert.Equal(t, map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "32", "cpu.max": "50000 100000",
	}, l.files())
	assert.Empty(t, Limits{}.files())
	assert.False(t, Limits{}.Any())

	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu\n"), 0o600))
	_, err = openTree(root, l)
	require.ErrorContains(t, err, `has no controller "memory", which a limit needs: it has cpu`)
}

func TestAFolderThatIsNoControlGroupIsRefused(t *testing.T) {
	_, err := OpenTree(t.TempDir(), Limits{})
	require.ErrorContains(t, err, "is no directory of cgroup v2")
	_, err = OpenTree("/nowhere", Limits{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAllThatAProgramStartedEndsWithItsControlGroup(t *testing.T) {
	root := delegated(t)
	tree, err := OpenTree(root, Limits{})
	require.NoError(t, err)
	g, err := tree.Make("g", Limits{})
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
	g.Bind(cmd)
	out, err := cmd.Output()
	require.NoError(t, err)
	left, err := os.ReadFile(filepath.Join(root, "g", "cgroup.procs"))
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(string(out)), strings.TrimSpace(string(left)), "it left the process group, not the control group")
	require.NoError(t, g.Close())
	assert.NoDirExists(t, filepath.Join(root, "g"))
	_, err = tree.Make("g", Limits{})
	require.NoError(t, err)
	again, err := tree.Make("g", Limits{})
	require.NoError(t, err, "one that was left over gives way")
	require.NoError(t, again.Close())
	for _, name := range []string{"run-a", "run-b", "other"} {
		_, err := tree.Make(name, Limits{})
		require.NoError(t, err)
	}
	require.NoError(t, tree.Sweep("run-"))
	assert.NoDirExists(t, filepath.Join(root, "run-a"))
	assert.NoDirExists(t, filepath.Join(root, "run-b"))
	require.NoError(t, os.Remove(filepath.Join(root, "other")), "it is somebody else's")
}

// delegated gives a directory of cgroup v2 in which groups can be made.
func delegated(t *testing.T) string {
	t.Helper()
	for _, root := range []string{os.Getenv("ORRERY_TEST_CGROUP"), "/sys/fs/cgroup"} {
		var at unix.Statfs_t
		if root == "" || unix.Statfs(root, &at) != nil || at.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(root, "orrery-test") //nolint:usetesting // in the hierarchy of control groups
		if err != nil {
			continue
		}
		t.Cleanup(func() { assert.NoError(t, os.Remove(dir)) })
		return dir
	}
	t.Skip("no control group (v2) is delegated here: name one by ORRERY_TEST_CGROUP")
	return ""
}
