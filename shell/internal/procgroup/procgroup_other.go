//go:build !unix

package procgroup

import (
	"os"
	"os/exec"
)

// Lead does nothing: this system has no process groups.
func Lead(*exec.Cmd) {}

// Kill kills the program alone.
func Kill(leader *os.Process) error { return leader.Kill() }

// Terminate kills the program alone: this system has no polite signal that every
// program understands.
func Terminate(leader *os.Process) error { return leader.Kill() }
