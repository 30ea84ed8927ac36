package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// Position is where the payload of a frame begins.
type Position struct {
	Segment uint64 // its number
	Offset  int64  // in its file, in bytes
}

// Extent is a part of a frame's payload, for [Log.Read].
type Extent struct {
	Position
	Frame  uint64
	Length int
	Sum    uint32 // of the part, see [Sum]
}

// Sum is the checksum that an [Extent] has.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// readers are open segments that parts are read from.
type readers struct {
	mu     sync.RWMutex // held for reading while a file is read
	files  map[uint64]disk.File
	closed bool
}

var errClosedReaders = errors.New("the log is closed")

// Read fills b, which has the extent's length, with a part of a frame that was appended, be it
// synced or not. Whoever reads holds the frame ([Log.Hold]). A checksum that is not the
// extent's is a [Damage]; b then has what stands there. Any other error is one of reading, and
// may be gone the next time.
func (l *Log) Read(e Extent, b []byte) error {
	if err := l.Readable(e.Segment); err != nil {
		return err
	}
	r := &l.readers
	r.mu.RLock()
	defer r.mu.RUnlock()
	path, f := l.path(e.Segment, segmentSuffix), r.files[e.Segment]
	if f == nil {
		return fmt.Errorf("reading %s: %w", path, errClosedReaders)
	}
	if n, err := f.ReadAt(b, e.Offset); n < len(b) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("reading %d bytes of %s at offset %d: %w", len(b), path, e.Offset, err)
	}
	if sum := Sum(b); sum != e.Sum {
		return &Damage{File: path, Offset: e.Offset, Frame: e.Frame, Reason: fmt.Sprintf("the checksum of %d bytes in it is %08x, not %08x as when they were written", len(b), sum, e.Sum)}
	}
	return nil
}

// Readable has a segment opened for Read, which goes on from then on though its name may
// lead nowhere any more.
func (l *Log) Readable(segment uint64) error {
	r := &l.readers
	r.mu.RLock()
	is := r.files[segment] != nil
	r.mu.RUnlock()
	if is {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files[segment] != nil {
		return nil
	}
	if r.closed {
		return fmt.Errorf("reading segment %d: %w", segment, errClosedReaders)
	}
	f, err := l.o.FS.OpenFile(l.path(segment, segmentSuffix), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("opening a segment of the log: %w", err)
	}
	if r.files == nil {
		r.files = make(map[uint64]disk.File)
	}
	r.files[segment] = f
	return nil
}

// forget closes a segment that is about to be dropped.
func (r *readers) forget(segment uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.files[segment]; f != nil {
		_ = f.Close() // it was only read
		delete(r.files, segment)
	}
}

// close opens no more.
func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// closeLeft closes what is open of a log that was closed.
func (r *readers) closeLeft() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		return
	}
	for _, f := range r.files {
		_ = f.Close() // it was only read
	}
	r.files = nil
}
