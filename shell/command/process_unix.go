//go:build unix

package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// endedBy names the signal that ended the program, if one did.
func endedBy(state *os.ProcessState) (signal string, core bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return "", false
	}
	if signal = unix.SignalName(status.Signal()); signal == "" {
		signal = status.Signal().String()
	}
	return signal, status.CoreDump()
}
