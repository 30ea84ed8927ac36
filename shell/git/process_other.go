//go:build !unix

package git

import (
	"os"
	"os/exec"
)

func setAttributes(*exec.Cmd) {}

// Without process groups only git itself is ended.
func killGroup(p *os.Process)      { _ = p.Kill() }
func terminateGroup(p *os.Process) { _ = p.Kill() }
