//go:build !linux

package disk

import "os"

// syncData is os.File.Sync: F_FULLFSYNC on macOS, FlushFileBuffers on Windows.
func syncData(f *os.File) error { return f.Sync() }
