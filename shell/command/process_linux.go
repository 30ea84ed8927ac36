package command

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitEnd waits until the process has ended, and leaves it unreaped. It
// reports false when it cannot tell.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
