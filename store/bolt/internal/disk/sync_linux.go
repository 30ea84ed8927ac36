package disk

import (
	"errors"
	"os"
	"syscall"
)

// syncData spares the journal of the file system a write for each sync: of what
// fsync writes it leaves out the times of the file.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
