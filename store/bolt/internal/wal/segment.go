package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// The names of a log's files: the segment's number in 16 hexadecimal digits and a
// suffix. Other files in the folder are left alone.
const (
	segmentSuffix = ".log"
	spareSuffix   = ".spare" // was dropped, for use anew
	freshSuffix   = ".fresh" // is being made
)

var zeros [256 << 10]byte

// closeToRename is set where an open file cannot be renamed.
var closeToRename = runtime.GOOS == "windows"

// spare is a file for use as a segment.
type spare struct {
	path string
	size int64
}

// names are the numbers of the files in a log's folder, in order.
type names struct {
	segments, spares, fresh []uint64
}

func (l *Log) path(seq uint64, suffix string) string {
	return filepath.Join(l.dir, fmt.Sprintf("%016x%s", seq, suffix))
}

// list reads which files there are.
func (l *Log) list() (names, error) {
	entries, err := l.o.FS.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return names{}, fmt.Errorf("%w: %s", ErrMissing, l.dir)
	} else if err != nil {
		return names{}, fmt.Errorf("listing the log: %w", err)
	}
	var n names
	for _, e := range entries {
		digits, suffix, _ := strings.Cut(e.Name(), ".")
		seq, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || e.IsDir() || e.Name() != fmt.Sprintf("%016x.%s", seq, suffix) {
			continue
		}
		switch "." + suffix {
		case segmentSuffix:
			n.segments = append(n.segments, seq)
		case spareSuffix:
			n.spares = append(n.spares, seq)
		case freshSuffix:
			n.fresh = append(n.fresh, seq)
		}
	}
	slices.Sort(n.segments)
	slices.Sort(n.spares)
	return n, nil
}

// adopt takes over what an earlier life has left of files that hold nothing, and removes
// what it has no use for. An error of that is met again where it matters.
func (l *Log) adopt(n names) {
	for _, seq := range n.fresh {
		_ = l.o.FS.Remove(l.path(seq, freshSuffix))
	}
	for _, seq := range n.spares {
		path := l.path(seq, spareSuffix)
		info, err := l.o.FS.Stat(path)
		if err != nil {
			continue
		}
		if len(l.spares) == maxSpares || info.Size() > l.o.SegmentSize || info.Size() < minSegmentSize {
			_ = l.o.FS.Remove(path)
			continue
		}
		l.spares = append(l.spares, spare{path: path, size: info.Size()})
	}
	for _, s := range [][]uint64{n.segments, n.spares, n.fresh} {
		for _, seq := range s {
			l.seq = max(l.seq, seq)
		}
	}
}

// blankFile is a file that is to become a segment: all its bytes are on the disk, as
// zeros or as a dropped segment had them, so that a sync of frames writes frames alone.
type blankFile struct {
	path string
	size int64
	seq  uint64 // the number of the segment that it is to become; 0: none yet
}

// blank makes a file of at least need bytes ready. An error leaves nothing behind.
func (l *Log) blank(need int64) (disk.File, blankFile, error) {
	l.files.Lock()
	need = max(need, l.grow)
	if f, b, ok := l.reuse(need); ok {
		l.grow = min(2*l.grow, l.o.SegmentSize)
		l.files.Unlock()
		return f, b, nil
	}
	l.seq++
	b := blankFile{path: l.path(l.seq, freshSuffix), size: need, seq: l.seq}
	l.files.Unlock()
	f, err := l.o.FS.OpenFile(b.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, b, err
	}
	if err := fillZeros(f, b.size, func() error { return nil }); err != nil {
		l.discard(f, b)
		return nil, b, err
	}
	l.files.Lock()
	l.grow = min(2*l.grow, l.o.SegmentSize)
	l.files.Unlock()
	return f, b, nil
}

// fillZeros calls pause behind each part of what it writes.
func fillZeros(f disk.File, size int64, pause func() error) error {
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off); err != nil {
			return err
		}
		if err := pause(); err != nil {
			return err
		}
	}
	return nil
}

// Prepare makes the file of the next segment ahead if the one that is written to is half
// full and no dropped one can be used anew, so that the Append that needs it has less to
// wait for. It may run beside all other methods; of two at once one does nothing. It
// writes and syncs in small parts, so that no Sync waits long behind it. An error leaves
// the log as it was: the Append that needs the segment tries again.
func (l *Log) Prepare() error {
	if err := l.broken(); err != nil || !l.half.Load() || !l.preparing.TryLock() {
		return err
	}
	defer l.preparing.Unlock()
	l.files.Lock()
	size := l.grow
	if slices.ContainsFunc(l.spares, func(s spare) bool { return s.size >= size }) {
		l.files.Unlock()
		return nil
	}
	l.seq++
	path := l.path(l.seq, freshSuffix)
	l.files.Unlock()
	f, err := l.o.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("preparing a segment of the log: %w", err)
	}
	if err := fillZeros(f, size, func() error { return l.sync(f) }); err != nil {
		l.discard(f, blankFile{path: path})
		return fmt.Errorf("preparing a segment of the log: %w", err)
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, l.o.FS.Remove(path))
	}
	l.files.Lock()
	defer l.files.Unlock()
	l.spares = append(l.spares, spare{path: path, size: size})
	return nil
}

// reuse takes the smallest spare that is large enough. Those that are too small are of
// no use any more, since segments grow.
func (l *Log) reuse(need int64) (disk.File, blankFile, bool) {
	slices.SortFunc(l.spares, func(a, b spare) int { return cmp.Compare(a.size, b.size) })
	for len(l.spares) > 0 {
		s := l.spares[0]
		if s.size < need && need > l.o.SegmentSize {
			break // it is that frame alone that needs more
		}
		l.spares = slices.Delete(l.spares, 0, 1)
		if s.size >= need {
			if f, err := l.o.FS.OpenFile(s.path, os.O_RDWR, 0); err == nil {
				return f, blankFile{path: s.path, size: s.size}, true
			}
		}
		_ = l.o.FS.Remove(s.path)
	}
	return nil, blankFile{}, false
}

// discard gives up a blank file.
func (l *Log) discard(f disk.File, b blankFile) {
	_ = f.Close()
	_ = l.o.FS.Remove(b.path)
}

// newSegment makes a segment durable, with room for more bytes at least.
func (l *Log) newSegment(h header, more int64, fill func(f disk.File, nonce uint64) error) (disk.File, segment, error) {
	f, b, err := l.blank(headerSize + more + recordSize)
	if err != nil {
		return nil, segment{}, fmt.Errorf("making a segment of the log: %w", err)
	}
	l.files.Lock()
	defer l.files.Unlock()
	return l.begin(f, b, h, fill)
}

// begin makes a segment of a blank file: it is durable, with its header and what fill
// writes, before it has its name. It needs the lock files. An error leaves the log as it
// was, or has broken it.
func (l *Log) begin(f disk.File, b blankFile, h header, fill func(f disk.File, nonce uint64) error) (disk.File, segment, error) {
	if b.seq == 0 {
		l.seq++
		b.seq = l.seq
	}
	h.id, h.seq, h.size, h.nonce = l.id, b.seq, b.size, newNonce()
	if l.o.NoSync {
		h.flags |= flagNoSync
	}
	s := segment{header: h, path: l.path(h.seq, segmentSuffix), last: h.synced, used: headerSize}
	var head [headerSize]byte
	h.encode(&head)
	_, err := f.WriteAt(head[:], 0)
	if err == nil && fill != nil {
		err = fill(f, h.nonce)
	}
	if err == nil {
		err = l.sync(f)
	}
	if err != nil {
		l.discard(f, b)
		return nil, segment{}, err
	}
	if f, err = l.name(f, b.path, s.path); err != nil {
		return nil, segment{}, err
	}
	if err := l.syncDir(l.dir); err != nil {
		return nil, segment{}, errors.Join(l.fail(err), f.Close())
	}
	return f, s, nil
}

// name renames an open file. An open one has to be closed for that on Windows.
func (l *Log) name(f disk.File, from, to string) (disk.File, error) {
	if !closeToRename {
		if err := l.o.FS.Rename(from, to); err != nil {
			l.discard(f, blankFile{path: from})
			return nil, err
		}
		return f, nil
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, l.o.FS.Remove(from))
	}
	if err := l.o.FS.Rename(from, to); err != nil {
		return nil, errors.Join(err, l.o.FS.Remove(from))
	}
	f, err := l.o.FS.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return nil, l.fail(err)
	}
	return f, nil
}
