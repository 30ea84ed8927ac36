package guard

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Undumpable keeps other processes of the same user from reading this one's memory and the
// environment with which it began (/proc/PID/environ), and from tracing it, unless they
// have the capability CAP_SYS_PTRACE, as root has. There is no core dump of it either.
// Programs that it starts are as they would be otherwise.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the daemon's memory from its user's other processes: %w", err)
	}
	return nil
}
