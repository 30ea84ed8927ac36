//go:build !linux

package shell_test

import "os"

// syncData syncs a file as the store's log does.
func syncData(f *os.File) error { return f.Sync() }
