package git

import (
	"os/exec"
	"syscall"
)

// setAttributes lets git end when the daemon dies. SIGTERM, not SIGKILL: git
// then removes its own lock files.
func setAttributes(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
