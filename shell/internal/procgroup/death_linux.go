package procgroup

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel send sig to the program that cmd will start when
// this process dies. The kernel ties that to the thread that starts the program: lock
// the goroutine to its thread until the program has ended.
func DieWithParent(cmd *exec.Cmd, sig syscall.Signal) { attributes(cmd).Pdeathsig = sig }
