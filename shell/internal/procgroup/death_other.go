//go:build !linux

package procgroup

import (
	"os"
	"os/exec"
)

// DieWithParent does nothing: this system does not tell a program that its parent
// has died.
func DieWithParent(*exec.Cmd, os.Signal) {}
