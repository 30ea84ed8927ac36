//go:build unix

package git

import (
	"os"
	"syscall"
)

// A group that has no member left answers with an error that changes nothing.
func killGroup(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }
