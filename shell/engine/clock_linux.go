package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is by how much the clock that counts while the machine is suspended leads the one
// that does not.
func suspended() time.Duration {
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return -1
	}
	return max(time.Duration(boot.Nano()-mono.Nano()), 0)
}
