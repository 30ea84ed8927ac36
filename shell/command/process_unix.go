//go:build unix

package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// caseless says whether names of variables ignore case.
const caseless = false

// A group that has no member left, or only dead ones, answers with an error
// that changes nothing.
func killGroup(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

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
