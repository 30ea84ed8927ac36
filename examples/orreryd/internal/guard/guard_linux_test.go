package guard_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/guard"
)

// The test starts itself once more as the daemon, as a user without capabilities, which
// starts a program that reads the environment of its parent.
const roleVar = "ORRERY_TEST_GUARD"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if role == "guarded" {
			if err := guard.Undumpable(); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		child := exec.Command("cat", fmt.Sprintf("/proc/%d/environ", os.Getpid()))
		child.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := child.CombinedOutput()
		fmt.Printf("%s %v", bytes.ReplaceAll(out, []byte{0}, []byte("\n")), err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAChildOfTheSameUserDoesNotReadTheEnvironmentThatTheDaemonBeganWith(t *testing.T) {
	exe, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "guard") //nolint:usetesting // that every user can enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(dir+"/daemon", exe, 0o755))
	run := func(role string) string {
		cmd := exec.Command(dir + "/daemon")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), roleVar + "=" + role, "SECRET=hush-hush"}
		if os.Getuid() == 0 { // root may read all
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Contains(t, run("open"), "SECRET=hush-hush", "otherwise it does: the test would hold nothing")
	out := run("guarded")
	assert.NotContains(t, out, "hush-hush")
	assert.Contains(t, strings.ToLower(out), "permission denied")
}
