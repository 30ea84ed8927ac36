//go:build unix

package git

import (
	"io/fs"
	"os"
	"syscall"
)

// identify gives the number of a file in its file system, and whether it belongs
// to the user as whom the daemon runs.
func identify(info fs.FileInfo) (inode uint64, mine bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Ino, int(s.Uid) == os.Geteuid()
}
