package archive

import (
	"errors"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// files bounds how many files are open for reading: an archive may have hundreds, of which few
// are read. A file is opened when it is read, and closed when others were read since. What is being
// read is not closed, so that more are open while more are read at once.
type files struct {
	fs   disk.FS
	most int

	mu   sync.Mutex
	idle []*file // which are open and nobody reads, the one that was unused for longest first
	busy int     // files that somebody reads
}

// add gives a file that is not open.
func (s *files) add(n name, path string) *file { return &file{name: n, path: path, files: s} }

// use gives an open file, which stays open until it is given back.
func (s *files) use(f *file) (disk.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.open == nil {
		open, err := s.fs.OpenFile(f.path, flagsRead, 0)
		if err != nil {
			return nil, err
		}
		f.open = open
	}
	if f.users++; f.users == 1 {
		s.busy++
		if i := slices.Index(s.idle, f); i >= 0 {
			s.idle = slices.Delete(s.idle, i, i+1)
		}
	}
	return f.open, nil
}

func (s *files) giveBack(f *file) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	s.busy--
	s.idle = append(s.idle, f)
	for len(s.idle) > 0 && len(s.idle)+s.busy > s.most {
		err = errors.Join(err, s.idle[0].open.Close())
		s.idle[0].open = nil
		s.idle = slices.Delete(s.idle, 0, 1)
	}
	return err
}

// close closes a file that nobody reads, nor will.
func (s *files) close(f *file) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.open == nil {
		return nil
	}
	if i := slices.Index(s.idle, f); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	err, f.open = f.open.Close(), nil
	return err
}

// ReadAt reads of a file, which it opens if need be.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	open, err := f.files.use(f)
	if err != nil {
		return 0, err
	}
	n, err := open.ReadAt(b, at)
	_ = f.files.giveBack(f) // what was closed was only read
	return n, err
}
