//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package files

import "os"

// CanLock says whether this system has locks that processes inherit.
const CanLock = false

// TryLock reports true: this system has no such locks.
func TryLock(*os.File, bool) (bool, error) { return true, nil }

// Unlock does nothing.
func Unlock(*os.File) {}
