//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package git

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// inheritsLock says whether a git command keeps the repository's lock held.
const inheritsLock = true

// tryLock takes the lock on a file, and reports whether it got it. The lock ends
// with the last process that has the file open.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// unlock ends the lock also for those that have inherited it.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// identify gives the number of a file in its file system, and whether it belongs
// to the user as whom the daemon runs.
func identify(info fs.FileInfo) (inode uint64, mine bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Ino, int(s.Uid) == os.Geteuid()
}
