package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orrery-go/orrery/store"
)

// identity is the file that a Store has open: what stands at the path must be the
// same one, or nobody will find there what was committed.
type identity struct {
	path string      // absolute, if that can be told: the process may change its folder
	file os.FileInfo // of the open file; nil: bbolt has not opened it
}

// open opens a file for bbolt, and notes which one it is.
func (i *identity) open(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	if i.file, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if i.path, err = filepath.Abs(name); err != nil {
		i.path = name
	}
	return f, nil
}

// errCut: bytes of the file are gone. Putting the file back does not bring them back.
var errCut = fmt.Errorf("%w: the file was cut from outside", store.ErrCorrupt)

// check reports with [store.ErrMoved] that the path does not lead to the open file, and
// with errCut that the file is shorter than what is in use of it.
func (i *identity) check(inUse int64) error {
	const what = "put the same file back there, or stop this process and restore a backup; until then nothing is acknowledged"
	now, err := os.Stat(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was removed or renamed: %s", store.ErrMoved, i.path, what)
	case err != nil:
		return fmt.Errorf("%w: %s cannot be looked at: %w", store.ErrMoved, i.path, explain(err))
	case !os.SameFile(i.file, now):
		return fmt.Errorf("%w: %s is another file than the one that is open: %s", store.ErrMoved, i.path, what)
	case now.Size() < inUse:
		return fmt.Errorf("%w: %s has %d bytes, %d are in use: stop this process and restore a backup", errCut, i.path, now.Size(), inUse)
	}
	return nil
}

// fileInPlace is check for the store; a file that was cut is never used for writing again.
func (s *Store) fileInPlace() error {
	err := s.file.check(s.inUse.Load())
	if errors.Is(err, errCut) {
		s.db.Break(err)
	}
	return err
}

// inPlace is fileInPlace for who writes, and so needs the log too.
func (s *Store) inPlace() error {
	if err := s.fileInPlace(); err != nil {
		return err
	}
	return s.db.InPlace()
}

// InPlace implements [store.Placed]: it compares the file at the path with the one that
// is open, and reads nothing of it.
func (s *Store) InPlace() error {
	if broken := s.db.Broken(); broken != nil {
		return broken
	}
	return s.inPlace()
}
