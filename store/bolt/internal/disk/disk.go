// Package disk is the few file operations that the store's log needs, so that a
// test can record them, make them fail, and rebuild what a disk holds after a loss
// of power (package disktest).
package disk

import (
	"io"
	"io/fs"
)

// FS is a file system. Paths are those of package os. It is safe for concurrent use.
type FS interface {
	// Mkdir makes a folder; fs.ErrExist if there is one.
	Mkdir(path string, mode fs.FileMode) error
	// OpenFile opens a file as os.OpenFile does.
	OpenFile(path string, flag int, mode fs.FileMode) (File, error)
	// Rename gives a file another name, in place of the file that has it.
	Rename(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// ReadDir lists a folder by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// Stat describes a file or a folder.
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes durable which names a folder has, on systems where that needs
	// to be asked for.
	SyncDir(path string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the size in bytes.
	Truncate(size int64) error
	// Sync makes what was written durable, with the size, but where the system can
	// leave them out without the other times and attributes: fdatasync on Linux, a
	// flush of the drive on macOS and Windows. After an error the file's content is
	// unknown: reads may show what was never written to the drive.
	Sync() error
	// Stat describes the file.
	Stat() (fs.FileInfo, error)
	// Name is the path that the file was opened under.
	Name() string
}
