// Package procgroup starts programs in process groups of their own, and signals a
// group as a whole. On systems without process groups the started program stands for
// its group.
package procgroup

import (
	"os/exec"
	"syscall"
)

// Bind makes the program lead a group and die with this process: [Lead] and
// [DieWithParent].
func Bind(cmd *exec.Cmd, sig syscall.Signal) {
	Lead(cmd)
	DieWithParent(cmd, sig)
}
