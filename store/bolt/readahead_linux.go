package bolt

import (
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// readAhead has the system read on where so many bytes of the map are gone through in order, as retention,
// checkpoints and lists do. bbolt asks it for single pages, and each that is not in memory is a wait for
// the disk. Linux goes back to single pages by itself while it finds that reading on is of no
// use. Where it refuses, reading is slower and nothing else.
func readAhead(db *bbolt.DB, mapped int) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, db.Info().Data, uintptr(mapped), unix.MADV_NORMAL)
}
