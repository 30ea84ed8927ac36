package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// file is one file of an archive. If it was dropped it is removed once no snapshot has it.
type file struct {
	name
	path    string
	files   *files
	open    disk.File // nil: it is not; guarded by files.mu, as users
	users   int
	refs    atomic.Int64
	dropped atomic.Bool

	mu     sync.Mutex
	blocks map[string][]block // those that were looked at, by table
	end    int64              // of the last of them
	// greatest is the greatest number in them.
	greatest uint64
}

// part is a file up to a byte.
type part struct {
	*file
	limit  int64
	behind error // what is missing between the file before and this one; nil: nothing
}

// Snapshot is what an archive held at one moment. It is safe for concurrent use until it
// is released.
type Snapshot struct {
	parts []part
	at    Position
	refs  atomic.Int64
}

func newSnapshot(parts []part, at Position) *Snapshot {
	s := &Snapshot{parts: parts, at: at}
	s.refs.Store(1)
	for _, p := range parts {
		p.refs.Add(1)
	}
	return s
}

// Current gives what counts now; the caller releases it. Nil: the archive is closed.
func (a *Archive) Current() *Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		a.current.refs.Add(1)
	}
	return a.current
}

// Release ends the use of a snapshot. Files that were dropped and that nobody uses any
// more are removed.
func (s *Snapshot) Release() {
	if s != nil {
		_ = s.release() // what cannot be removed the next start removes
	}
}

func (s *Snapshot) release() (err error) {
	if s.refs.Add(-1) != 0 {
		return nil
	}
	for _, p := range s.parts {
		if p.refs.Add(-1) == 0 {
			err = errors.Join(err, p.files.close(p.file))
			if p.dropped.Load() {
				err = errors.Join(err, p.files.fs.Remove(p.path))
			}
		}
	}
	return err
}

// Bytes gives about how many bytes stand on the disk for keys with a number from one on and
// below another; upTo zero: to the end.
func (s *Snapshot) Bytes(from, upTo uint64) (n int64) {
	if s == nil {
		return 0
	}
	for i, p := range s.parts {
		begin, end := p.first, ^uint64(0)
		if i+1 < len(s.parts) {
			end = s.parts[i+1].first
		} else if k := s.at.LastNumber(); k >= begin {
			end = k + 1
		}
		lo, hi := max(begin, from), end
		if upTo != 0 {
			hi = min(hi, upTo)
		}
		if lo < hi {
			n += int64(float64(p.limit) * (float64(hi-lo) / float64(end-begin)))
		}
	}
	return n
}

// Position gives up to where the snapshot counts. A nil one is of an archive that is not there.
func (s *Snapshot) Position() Position {
	if s == nil {
		return Position{}
	}
	return s.at
}

// holds reports whether a key of the part has that number or a greater one. What cannot be
// read holds nothing, unless only descriptors are wanting: then it may.
func (p part) holds(number uint64) bool {
	if _, err := p.index(""); err != nil {
		return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greatest >= number
}

// index gives the part's blocks of a table. It reads the heads of all blocks, each once.
func (p part) index(table string) ([]block, error) {
	f := p.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == 0 {
		f.end = headSize
	}
	for f.end < p.limit {
		b, err := f.head(f.end, p.limit)
		if err != nil {
			return nil, err
		}
		if f.blocks == nil {
			f.blocks = make(map[string][]block)
		}
		f.blocks[b.table], f.end = append(f.blocks[b.table], b), f.end+b.length
		f.greatest = max(f.greatest, number(b.last))
	}
	blocks := f.blocks[table]
	n := len(blocks) // the file may have grown for others
	for n > 0 && blocks[n-1].at >= p.limit {
		n--
	}
	return blocks[:n:n], nil
}

// head reads what the block at a place tells of itself.
func (f *file) head(at, limit int64) (b block, err error) {
	for ahead := int64(namesAhead); ; ahead *= 16 {
		raw := make([]byte, min(ahead, limit-at))
		if _, err := f.ReadAt(raw, at); err != nil && !errors.Is(err, io.EOF) {
			return b, fmt.Errorf("%s, byte %d: %w", f.path, at, err)
		} else if err != nil || len(raw) < blockHead {
			return b, damaged(f.path, at, "the file is cut off")
		}
		length := int64(binary.BigEndian.Uint32(raw[4:]))
		if length < blockHead || length > limit-at {
			return b, damaged(f.path, at, fmt.Sprintf("a block of %d bytes, %d are left", length, limit-at))
		}
		if b, rest, ok := names(raw[blockHead:]); ok {
			if !sound(raw, rest) {
				return b, damaged(f.path, at, "the checksum of the block's head is wrong")
			}
			b.first, b.last = bytes.Clone(b.first), bytes.Clone(b.last)
			b.at, b.length = at, length
			return b, nil
		}
		if ahead >= length {
			return b, damaged(f.path, at, "the block's keys are longer than it is")
		}
	}
}
