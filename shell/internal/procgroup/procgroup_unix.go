//go:build unix

package procgroup

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lead makes the program that cmd will start the leader of a new process group. Call
// it before cmd is started.
func Lead(cmd *exec.Cmd) { attributes(cmd).Setpgid = true }

// attributes are those of cmd, to be changed.
func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// Kill kills the group that the program leads. The error is [os.ErrProcessDone] if
// the group has no process left. Call it while the program is not yet reaped: later
// its id may be another group's.
func Kill(leader *os.Process) error { return Signal(leader.Pid, syscall.SIGKILL) }

// Terminate asks the group that the program leads to end; see [Kill].
func Terminate(leader *os.Process) error { return Signal(leader.Pid, syscall.SIGTERM) }

// Signal sends a signal to the group whose leader has the id; see [Kill].
func Signal(leader int, sig syscall.Signal) error {
	err := syscall.Kill(-leader, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// SignalName names a signal as people know it, such as "SIGKILL".
func SignalName(sig syscall.Signal) string { return cmp.Or(unix.SignalName(sig), sig.String()) }
