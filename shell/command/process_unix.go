//go:build unix

package command

import (
	"os"
	"syscall"

	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// endedBy names the signal that ended the program, if one did.
func endedBy(state *os.ProcessState) (signal string, core bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return "", false
	}
	return procgroup.SignalName(status.Signal()), status.CoreDump()
}
