package disk

import (
	"io/fs"
	"os"
)

// OS is the file system of the machine.
var OS FS = system{}

type system struct{}

func (system) Mkdir(path string, mode fs.FileMode) error  { return os.Mkdir(path, mode) }
func (system) Rename(from, to string) error               { return os.Rename(from, to) }
func (system) Remove(path string) error                   { return os.Remove(path) }
func (system) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (system) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (system) SyncDir(path string) error                  { return syncDir(path) }

func (system) OpenFile(path string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

// file is an os.File with the Sync that the system has for data alone.
type file struct{ *os.File }

func (f file) Sync() error { return syncData(f.File) }
