package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// KeptSuffix ends the names of segments that were kept: the number of the first frame, the ID
// of the log, the number of the segment and its nonce, in hexadecimal. So they stand in the order of their
// frames, and where a file and its log were copied and both went on none has the other's name.
const KeptSuffix = ".redo"

// ErrNotKept says that a segment that is given up cannot be moved to the folder Keep; it stays in the log.
var ErrNotKept = errors.New("keeping a segment of the log")

func keptName(h *header) string {
	return fmt.Sprintf("%016x-%x-%016x-%016x%s", h.first, h.id, h.seq, h.nonce, KeptSuffix)
}

// keep moves a segment to the folder Keep. The caller syncs that folder, then the log's: a
// loss of power leaves the segment under one of its names, or, on a file system where a rename is
// not one step, under both.
func (l *Log) keep(s *segment) error {
	var err error
	if !l.keeps { // a folder that is seen may still be lost
		if err = l.o.FS.Mkdir(l.o.Keep, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = l.syncDir(filepath.Dir(l.o.Keep))
		}
		l.keeps = err == nil
	}
	if err == nil {
		err = l.o.FS.Rename(s.path, filepath.Join(l.o.Keep, keptName(&s.header)))
	}
	if err != nil {
		l.keeps = false // it may have been removed
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return nil
}

// syncKept makes durable which segments were kept.
func (l *Log) syncKept() error {
	if l.o.Keep == "" {
		return nil
	}
	return l.syncDir(l.o.Keep)
}

// giveUp keeps a segment that a Remove finds, or removes it if it has no frame.
func (l *Log) giveUp(seq uint64) error {
	path := l.path(seq, segmentSuffix)
	if l.o.Keep != "" {
		s, err := l.readSegment(seq)
		if err == nil {
			err = l.keepFrames(&s)
		}
		if err == nil || !errors.Is(err, errNoFrame) && !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	if err := l.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var errNoFrame = errors.New("the segment has no frame")

func (l *Log) keepFrames(s *segment) error {
	f, c, err := l.read(s)
	if err != nil {
		return err
	}
	rec, ok, err := c.frame()
	if err = errors.Join(err, f.Close()); err != nil { // now: what is open cannot be renamed on Windows
		return err
	}
	if !ok || rec.kind != kindFrame {
		return errNoFrame
	}
	if err := l.keep(s); err != nil {
		return err
	}
	return l.syncKept()
}

// Piece is a segment that was kept, or one of a log that nobody has open.
type Piece struct {
	header
	Path string
}

// Kept reads the heads of the segments that were kept in a folder, and of those of a log that
// stands there, in the order of their frames. bad tells of those that cannot be read.
func Kept(folder string, fsys disk.FS) (pieces []Piece, bad []error, err error) {
	if fsys == nil {
		fsys = disk.OS
	}
	entries, err := fsys.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("listing what was kept of the log: %w", err)
	}
	for _, e := range entries {
		if suffix := filepath.Ext(e.Name()); e.IsDir() || suffix != KeptSuffix && suffix != segmentSuffix {
			continue
		}
		p := Piece{Path: filepath.Join(folder, e.Name())}
		if p.header, err = readHead(fsys, p.Path); err != nil {
			bad = append(bad, err)
			continue
		}
		pieces = append(pieces, p)
	}
	slices.SortFunc(pieces, ComparePieces)
	return pieces, bad, nil
}

// ComparePieces puts pieces in the order of their frames.
func ComparePieces(a, b Piece) int { return strings.Compare(keptName(&a.header), keptName(&b.header)) }

func readHead(fsys disk.FS, path string) (h header, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var b [headerSize]byte
	if n, err := f.ReadAt(b[:], 0); n < headerSize {
		return h, &Damage{File: path, Reason: fmt.Sprintf("the file has no header of a segment: %v", err)}
	}
	if h, err = decodeHeader(&b); err != nil {
		return h, &Damage{File: path, Reason: err.Error()}
	}
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	if info.Size() < h.size {
		return h, &Damage{File: path, Offset: info.Size(), Reason: fmt.Sprintf("the file has %d bytes, not %d as when it was made", info.Size(), h.size)}
	}
	return h, nil
}
