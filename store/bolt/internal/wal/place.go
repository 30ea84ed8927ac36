package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrMoved is the error of a log of which the segment that is written to is not any more
// where it was made, so that the next start would not find what is written to it.
var ErrMoved = errors.New("the log is not in its place any more")

// Half reports whether there is something for [Log.Prepare] to do.
func (l *Log) Half() bool { return l.half.Load() }

// InPlace reports with ErrMoved that the name of the segment that is written to does not
// lead to it.
func (l *Log) InPlace() error {
	l.files.Lock()
	defer l.files.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	path := l.segments[len(l.segments)-1].path
	now, err := l.o.FS.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was removed or renamed", ErrMoved, path)
	case err != nil:
		return fmt.Errorf("%w: %s cannot be looked at: %w", ErrMoved, path, err)
	}
	open, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMoved, path, err)
	}
	if !os.SameFile(open, now) && os.SameFile(open, open) { // else it is no file of the system
		return fmt.Errorf("%w: %s is another file than the one that is open", ErrMoved, path)
	}
	return nil
}
