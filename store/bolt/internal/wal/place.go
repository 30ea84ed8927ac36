package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// ErrMoved is the error of a log of which the segment that is written to is not any more
// where it was made, so that the next start would not find what is written to it.
var ErrMoved = errors.New("the log is not in its place any more")

// Half reports whether there is something for [Log.Prepare] to do.
func (l *Log) Half() bool { return l.half.Load() }

// place is where the segment that is written to was made, and which file it is.
type place struct {
	path string
	file fs.FileInfo // nil: that cannot be told
}

func placeOf(f disk.File, path string) *place {
	info, err := f.Stat()
	if err != nil || !os.SameFile(info, info) { // it is no file of the system
		info = nil
	}
	return &place{path: path, file: info}
}

// InPlace reports with ErrMoved that the name of the segment that is written to does not
// lead to it. It waits for nothing, and looks only at that name.
func (l *Log) InPlace() error {
	for {
		if err := l.broken(); err != nil {
			return err
		}
		at := l.place.Load()
		err := at.check(l.o.FS)
		if closed := l.broken(); closed != nil {
			return closed
		}
		if err == nil || at == l.place.Load() { // else that segment may have been dropped meanwhile
			return err
		}
	}
}

func (p *place) check(fsys disk.FS) error {
	now, err := fsys.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was removed or renamed", ErrMoved, p.path)
	case err != nil:
		return fmt.Errorf("%w: %s cannot be looked at: %w", ErrMoved, p.path, err)
	case p.file != nil && !os.SameFile(p.file, now):
		return fmt.Errorf("%w: %s is another file than the one that is open", ErrMoved, p.path)
	}
	return nil
}
