// Package wal is an append-only log of checksummed frames in a folder of segments: what
// a Sync has returned for is there after any loss of power, whole and in order, and
// what is not there any more, or not as it was written, is told with its place.
//
// One Append and one Sync make a commit. Frames are numbered without gaps. What they
// mean is the caller's; the log of one caller is told from another's by an ID.
//
// docs/decisions/0017-log.md has the layout and the rules of recovery, with reasons.
package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// The errors on which callers decide.
var (
	// ErrMissing: there is no log, or a segment of it is not there.
	ErrMissing = errors.New("missing log")
	// ErrForeign: the log is that of another database.
	ErrForeign = errors.New("log of another database")
	// ErrDamaged: what was synced is not there as it was written. It is a [Damage],
	// and store.ErrCorrupt.
	ErrDamaged = fmt.Errorf("damaged log: %w", store.ErrCorrupt)
	// ErrBroken: a write or a sync has failed. What the disk holds of the frames
	// that no Sync has returned for is unknown, and the log takes none until it was
	// opened anew.
	ErrBroken = errors.New("the log takes nothing any more after an error")
	// ErrTooLarge: the frame has more than MaxPayload bytes.
	ErrTooLarge = errors.New("too large for a frame of the log")
)

// errReadOnly refuses what would write to a log that was opened read-only.
var errReadOnly = fmt.Errorf("the log was opened read-only: %w", fs.ErrPermission)

// Damage says what is wrong with which part of a log; it is [ErrDamaged].
type Damage struct {
	File   string
	Offset int64  // in the file, in bytes
	Frame  uint64 // the first frame that is lost with it; 0: the segment's header, so all of the segment
	Reason string
}

func (d *Damage) Error() string {
	if d.Frame == 0 {
		return fmt.Sprintf("%v: %s at offset %d: %s", ErrDamaged, d.File, d.Offset, d.Reason)
	}
	return fmt.Sprintf("%v: %s at offset %d, frame %d: %s", ErrDamaged, d.File, d.Offset, d.Frame, d.Reason)
}

// Unwrap returns ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

// Sizes of segments in bytes.
const (
	// DefaultSegmentSize is that of the greatest segment if Options say nothing.
	DefaultSegmentSize = 32 << 20
	// beginPart is which part of the greatest segment the first one after a start
	// has: 256 KiB of 32 MiB. Each further one has twice the size of the one before.
	beginPart = 128
	// minSegmentSize is that of the least segment, so that there is room for
	// something beside the header.
	minSegmentSize = 4 << 10
	// maxSpares is how many dropped segments are kept for use anew.
	maxSpares = 2
)

// Options are how a log is opened. The zero value is the usual one.
type Options struct {
	// FS is the file system; nil: disk.OS.
	FS disk.FS
	// NoSync waits for the disk nowhere: what was appended survives the process,
	// but not a loss of power, after which the log may be told to be damaged.
	NoSync bool
	// ReadOnly reads what is there; it writes and creates nothing.
	ReadOnly bool
	// SegmentSize is the size in bytes of the greatest segment; zero:
	// DefaultSegmentSize. Segments begin small and double up to it. A frame for
	// which it is too small gets a segment of its own.
	SegmentSize int64
	// Prev is the checksum of the frame before the first one of a log that is
	// created, which an earlier log of the same caller has; zero: there was none.
	Prev uint32
	// Keep is the folder into which segments go that a Drop or a Remove gives up, with
	// the frames that they hold: see [Kept]. It is on the same file system, and is
	// made where it is missing. Empty: they are used anew or removed.
	Keep string
	// Synced is the number of a frame of which the caller knows by itself that it
	// was synced; zero: of none. A log that ends before it is damaged, which
	// without it could not be told from one that was never appended to.
	Synced uint64
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = disk.OS
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	o.SegmentSize = max(o.SegmentSize, minSegmentSize)
	return o
}

// segment is one that counts. All but the last of a log hold what they will ever hold.
type segment struct {
	header
	path string
	last uint64 // its last frame that counts; first-1: it has none; of the active one: Log.last
	used int64  // offset behind that frame; of the active one: Log.off
}

// Log is an open log. Its methods may be called from several goroutines, but what one
// goroutine appends between an Append and a Sync of another may be covered by that
// Sync or not.
type Log struct {
	o   Options
	dir string
	id  [16]byte

	// A goroutine that takes several of the locks takes them in this order.

	// writing is held by whoever writes frames.
	writing sync.Mutex
	off     int64  // where the next frame goes
	prev    uint32 // checksum of the last frame
	nonce   uint64 // of the active segment
	writes  uint64 // its number
	room    int64  // size of the active segment
	buf     []byte

	// syncing is held by whoever syncs the active segment: of two syncs at once
	// the system tells one only that a write has failed.
	syncing sync.Mutex
	file    disk.File // the active segment; changed under writing and syncing
	active  string    // its path, which is not the one that it was opened under

	// files is held by whoever changes or needs which files there are.
	files    sync.Mutex
	segments []segment // by number; the last one is active
	spares   []spare
	grow     int64  // size of the next segment
	seq      uint64 // the highest that was ever used
	keeps    bool   // the name of the folder Keep is durable

	preparing sync.Mutex // held by the one Prepare that does something
	holds     holds
	readers   readers

	last   atomic.Uint64 // the last frame
	synced atomic.Uint64 // the last frame that is durable
	size   atomic.Int64
	half   atomic.Bool // the active segment is half full
	place  atomic.Pointer[place]
	failed atomic.Pointer[error]
}

func newLog(dir string, id [16]byte, o Options) *Log {
	o = o.withDefaults()
	return &Log{o: o, dir: dir, id: id, grow: max(minSegmentSize, o.SegmentSize/beginPart)}
}

// Create makes a new log, durable and empty, the first frame of which will have the
// number first, at least 1. The folder must have no log, and need not exist; the one
// that it is in must.
func Create(dir string, id [16]byte, first uint64, o Options) (*Log, error) {
	l := newLog(dir, id, o)
	switch {
	case first == 0:
		return nil, errors.New("a log begins with frame 1 or a later one, not 0")
	case o.ReadOnly:
		return nil, errReadOnly
	}
	if err := l.o.FS.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating the log's folder: %w", err)
	}
	if err := errors.Join(l.syncDir(filepath.Dir(dir)), l.syncDir(dir)); err != nil {
		return nil, fmt.Errorf("creating the log's folder: %w", err)
	}
	names, err := l.list()
	if err != nil {
		return nil, err
	}
	if len(names.segments) > 0 {
		return nil, fmt.Errorf("creating a log: %w: %s", fs.ErrExist, l.path(names.segments[0], segmentSuffix))
	}
	l.adopt(names)
	f, s, err := l.newSegment(header{first: first, synced: first - 1, prev: o.Prev}, 0, nil)
	if err != nil {
		return nil, err
	}
	l.activate(f, s, headerSize, o.Prev)
	return l, nil
}

// Open opens the log of that ID and recovers it: behind what is whole it is cut, and
// what of that nothing calls synced is written and synced anew. ErrMissing, ErrForeign
// and ErrDamaged say what does not let it: then nothing was changed.
func Open(dir string, id [16]byte, o Options) (*Log, error) {
	l := newLog(dir, id, o)
	// A name that is seen may still be lost, and a lost one would be seen.
	if err := l.syncDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrMissing, dir)
	} else if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	c, err := l.load()
	if err != nil {
		return nil, err
	}
	l.segments = c.segments
	tail := &l.segments[len(l.segments)-1]
	l.last.Store(tail.last)
	l.prev = c.tail
	l.synced.Store(c.synced)
	for _, s := range l.segments {
		l.size.Add(s.used - headerSize)
	}
	if !o.ReadOnly {
		err = l.recover(c)
	}
	if err != nil {
		return nil, fmt.Errorf("recovering the log: %w", err)
	}
	return l, nil
}

// Last is the number of the last frame; that before the first if there is none.
func (l *Log) Last() uint64 { return l.last.Load() }

// Sum is the checksum of the last frame, or of the one before the first.
func (l *Log) Sum() uint32 {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.prev
}

// Size is the number of bytes that the frames take in segments that were not dropped.
func (l *Log) Size() int64 { return l.size.Load() }

// Close ends the use of the log. It syncs nothing: a frame that no Sync has returned
// for may be lost. What is held can be read until the last [Hold] is released, as far as it was
// [Log.Readable] before.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.readers.close()
	if _, held := l.Held(); !held { // else the last Release closes them, which knows now that it has to
		l.readers.closeLeft()
	}
	if l.file == nil {
		return nil
	}
	var err error
	if l.failed.Load() == nil {
		err = l.markClosed()
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	closed := fmt.Errorf("the log is closed: %w", fs.ErrClosed)
	l.failed.CompareAndSwap(nil, &closed)
	return err
}

// markClosed writes behind the last frame that it was synced: the next frame would say
// so, and without one damage to the last could not be told from its never having been
// synced.
func (l *Log) markClosed() error {
	l.files.Lock()
	known := l.segments[len(l.segments)-1].synced
	l.files.Unlock()
	last := l.last.Load()
	if last == known || last != l.synced.Load() {
		return nil
	}
	if err := writeMark(l.file, l.nonce, l.off, kindMark, last, l.prev); err != nil {
		return err
	}
	return l.sync(l.file)
}

// broken returns the error that the log gives since it failed or was closed.
func (l *Log) broken() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	if l.o.ReadOnly {
		return errReadOnly
	}
	return nil
}

// failActive is fail for an operation on the active segment, of which it names the path.
func (l *Log) failActive(cause error) error {
	if e, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = &fs.PathError{Op: e.Op, Path: l.active, Err: e.Err}
	}
	return l.fail(cause)
}

// fail refuses everything from now on.
func (l *Log) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrBroken, cause)
	l.failed.CompareAndSwap(nil, &err)
	return err
}

func (l *Log) sync(f disk.File) error {
	if l.o.NoSync {
		return nil
	}
	return f.Sync()
}

func (l *Log) syncDir(dir string) error {
	if l.o.NoSync || l.o.ReadOnly {
		return nil
	}
	return l.o.FS.SyncDir(dir)
}

// newNonce draws what tells the records of a segment from those that its file held
// before.
func newNonce() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}
