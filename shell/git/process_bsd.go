//go:build unix && !linux

package git

import (
	"os/exec"
	"syscall"
)

func setAttributes(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
