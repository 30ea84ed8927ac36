// Package files removes directories that programs have made, and locks files.
//
//   - files.go: removal;
//   - flock_unix.go, flock_other.go: locks, where the system has them.
package files

import (
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes a directory, also if a program took our rights to directories in
// it away, as Go's module cache does.
func RemoveAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is removed
		}
		return nil
	})
	return os.RemoveAll(dir)
}
