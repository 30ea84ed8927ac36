package shell_test

import (
	"os"
	"syscall"
)

// syncData syncs a file as the store's log does.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
