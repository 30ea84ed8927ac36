package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Drop gives up the segments of which all frames are numbered at most upTo, but the one
// that is written to, the oldest first, up to the first one that a [Hold] keeps. Their
// files go to the folder Keep, or are used anew, or removed.
func (l *Log) Drop(upTo uint64) error {
	l.files.Lock()
	defer l.files.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	for len(l.segments) > 1 && l.segments[0].last <= upTo && !l.held(l.segments[0].last) {
		s := l.segments[0]
		l.readers.forget(s.seq) // what is open cannot be renamed on Windows
		reuse := l.o.Keep == "" && len(l.spares) < maxSpares && s.size <= l.o.SegmentSize && s.size >= l.grow
		var err error
		switch {
		case l.o.Keep != "":
			err = l.keep(&s)
		case reuse:
			err = l.o.FS.Rename(s.path, l.path(s.seq, spareSuffix))
		default:
			err = l.o.FS.Remove(s.path)
		}
		if err != nil {
			return fmt.Errorf("dropping a segment of the log: %w", err)
		}
		l.segments = slices.Delete(l.segments, 0, 1)
		l.size.Add(headerSize - s.used)
		// A later segment must not be gone while an earlier one is there, nor its
		// file be used anew while it still has its name.
		if err := errors.Join(l.syncKept(), l.syncDir(l.dir)); err != nil {
			return l.fail(fmt.Errorf("dropping a segment of the log: %w", err))
		}
		if reuse {
			l.spares = append(l.spares, spare{path: l.path(s.seq, spareSuffix), size: s.size})
		}
	}
	return nil
}

// Inspect tells whose log there is, and whether it holds a frame. It reads no more than
// the headers of the segments and the first frame of each.
func Inspect(dir string, o Options) (id [16]byte, frames bool, err error) {
	o.ReadOnly = true
	l := newLog(dir, id, o)
	n, err := l.list()
	if err != nil {
		return id, false, err
	}
	if len(n.segments) == 0 {
		return id, false, fmt.Errorf("%w: %s has no segment", ErrMissing, dir)
	}
	for i, seq := range slices.Backward(n.segments) {
		s, err := l.readSegment(seq)
		if err != nil {
			return id, false, err
		}
		if i == len(n.segments)-1 {
			id = s.id
		} else if id != s.id {
			return id, false, fmt.Errorf("%w: %s belongs to %x, the last segment to %x", ErrForeign, s.path, s.id, id)
		}
		f, c, err := l.read(&s)
		if err != nil {
			return id, false, err
		}
		rec, ok, err := c.frame()
		if err = errors.Join(err, f.Close()); err != nil {
			return id, false, err
		}
		frames = frames || ok && rec.kind == kindFrame || s.synced >= s.first
	}
	return id, frames, nil
}

// Remove removes a log durably, with its folder if nothing else is in it. It removes the
// oldest segment first: what is left of a removal that was cut off is a log from which
// segments were dropped. Those with a frame go to the folder Keep, if there is one. A log that
// is not there is no error.
func Remove(dir string, o Options) error {
	if o.ReadOnly {
		return errReadOnly
	}
	l := newLog(dir, [16]byte{}, o)
	n, err := l.list()
	if errors.Is(err, ErrMissing) {
		return nil
	} else if err != nil {
		return err
	}
	var paths []string
	for _, seq := range n.fresh {
		paths = append(paths, l.path(seq, freshSuffix))
	}
	for _, seq := range n.spares {
		paths = append(paths, l.path(seq, spareSuffix))
	}
	for _, path := range paths {
		if err := l.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the log: %w", err)
		}
		if err := l.syncDir(dir); err != nil {
			return fmt.Errorf("removing the log: %w", err)
		}
	}
	for _, seq := range n.segments {
		if err := errors.Join(l.giveUp(seq), l.syncDir(dir)); err != nil {
			return fmt.Errorf("removing the log: %w", err)
		}
	}
	if entries, err := l.o.FS.ReadDir(dir); err != nil || len(entries) > 0 {
		return err
	}
	if err := l.o.FS.Remove(dir); err != nil {
		return fmt.Errorf("removing the log's folder: %w", err)
	}
	return l.syncDir(filepath.Dir(dir))
}
