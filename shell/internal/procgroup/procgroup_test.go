//go:build unix

package procgroup

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASignalReachesAllOfTheGroupAndNothingOutsideOfIt(t *testing.T) {
	for name, send := range map[string]func(*os.Process) error{"Kill": Kill, "Terminate": Terminate} {
		cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
		Lead(cmd)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, send(cmd.Process), name)
		_, err = lines.ReadString('\n')
		require.Error(t, err, "the child holds the output open no longer")
		err = cmd.Wait()
		require.Error(t, err)
		assert.Contains(t, []string{"signal: killed", "signal: terminated"}, strings.TrimSpace(err.Error()))
	}
	require.ErrorIs(t, Signal(1<<30, syscall.SIGKILL), os.ErrProcessDone, "there is no such group")
}

func TestTheAttributesOfACommandAreKept(t *testing.T) {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	DieWithParent(cmd, syscall.SIGKILL)
	Lead(cmd)
	assert.True(t, cmd.SysProcAttr.Setsid)
	assert.True(t, cmd.SysProcAttr.Setpgid)
}
