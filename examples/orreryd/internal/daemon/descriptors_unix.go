//go:build unix

package daemon

import (
	"math"
	"syscall"
)

// descriptors is how many descriptors the process may have open. The runtime has raised
// the limit to what the system allows.
func descriptors() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return math.MaxUint64
	}
	return uint64(r.Cur) //nolint:unconvert // signed on some systems
}
