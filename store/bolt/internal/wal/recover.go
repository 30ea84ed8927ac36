package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// chain is what a folder holds of a log.
type chain struct {
	names
	segments []segment // those that count, each with what counts of it
	stale    []segment // those in whose place a later one was put
	synced   uint64    // the highest frame that anything calls synced
	sum      uint32    // its checksum
	tail     uint32    // that of the last frame
}

// load reads the log and changes nothing.
func (l *Log) load() (*chain, error) {
	n, err := l.list()
	if err != nil {
		return nil, err
	}
	if len(n.segments) == 0 {
		return nil, fmt.Errorf("%w: %s has no segment", ErrMissing, l.dir)
	}
	c := &chain{names: n}
	all := make([]segment, 0, len(n.segments))
	for _, seq := range n.segments {
		s, err := l.readSegment(seq)
		if err != nil {
			return nil, err
		}
		if s.id != l.id {
			return nil, fmt.Errorf("%w: %s belongs to %x, not %x", ErrForeign, s.path, s.id, l.id)
		}
		all = append(all, s)
	}
	if err := c.link(l, all); err != nil {
		return nil, err
	}
	for i := range len(c.segments) - 1 {
		if err := l.checkWhole(&c.segments[i], &c.segments[i+1]); err != nil {
			return nil, err
		}
	}
	return c, l.checkTail(c)
}

// readSegment reads and checks a header. A segment has its name only once that is
// durable, so one that has none that is valid is damaged.
func (l *Log) readSegment(seq uint64) (segment, error) {
	s := segment{path: l.path(seq, segmentSuffix)}
	damaged := func(format string, args ...any) (segment, error) {
		return segment{}, &Damage{File: s.path, Reason: fmt.Sprintf(format, args...)}
	}
	f, err := l.o.FS.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return segment{}, fmt.Errorf("opening a segment of the log: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return segment{}, fmt.Errorf("opening a segment of the log: %w", err)
	}
	if info.Size() < headerSize {
		return damaged("the file has %d bytes, which is less than a segment's header", info.Size())
	}
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return segment{}, fmt.Errorf("reading %s: %w", s.path, err)
	}
	if s.header, err = decodeHeader(&b); err != nil {
		return damaged("%v", err)
	}
	if s.seq != seq {
		return damaged("the file's header is that of segment %016x", s.seq)
	}
	if info.Size() < s.size {
		return damaged("the file has %d bytes, not %d as when it was made", info.Size(), s.size)
	}
	return s, nil
}

// link finds the segments that follow one another, from the last one back. What was
// dropped is missing before the first of them only.
func (c *chain) link(l *Log, all []segment) error {
	for i := len(all) - 1; i >= 0; {
		s := all[i]
		c.segments = append(c.segments, s)
		j := i - 1
		for j >= 0 && all[j].seq > s.follows {
			c.stale = append(c.stale, all[j])
			j--
		}
		if j >= 0 && all[j].seq != s.follows {
			return fmt.Errorf("%w: %s, the segment before %s, is not there", ErrMissing, l.path(s.follows, segmentSuffix), s.path)
		}
		i = j
	}
	slices.Reverse(c.segments)
	return nil
}

// read opens a segment for a walk along its frames.
func (l *Log) read(s *segment) (disk.File, *cursor, error) {
	f, err := l.o.FS.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a segment of the log: %w", err)
	}
	r := &reader{f: f, name: s.path, nonce: s.nonce, size: s.size}
	return f, &cursor{reader: r, off: headerSize, next: s.first, prev: s.prev}, nil
}

// checkWhole reads the frames of a segment up to those that the next one has. That next
// one was made when they were durable, so each must be there.
func (l *Log) checkWhole(s, next *segment) error {
	f, c, err := l.read(s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for c.next < next.first {
		rec, ok, err := c.frame()
		if err != nil {
			return err
		}
		if !ok || rec.kind != kindFrame {
			return &Damage{File: s.path, Offset: c.off, Frame: c.next, Reason: fmt.Sprintf("the frame is not valid, but it was synced: %s begins with frame %d", next.path, next.first)}
		}
	}
	if c.next != next.first || c.prev != next.prev {
		return &Damage{File: next.path, Reason: fmt.Sprintf("the segment begins with frame %d behind checksum %08x, but %s has %d and %08x there", next.first, next.prev, s.path, c.next, c.prev)}
	}
	s.last, s.used = c.next-1, c.off
	return nil
}

// checkTail reads the last segment up to the first frame that is not valid, and tells
// damage from a write that was cut off: what was synced cannot have been cut off.
func (l *Log) checkTail(c *chain) error {
	s := &c.segments[len(c.segments)-1]
	f, cur, err := l.read(s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	c.synced = s.synced
	for {
		rec, ok, err := cur.frame()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c.synced = max(c.synced, rec.synced)
		if rec.kind == kindEnd {
			return fmt.Errorf("%w: the segment behind %s, from frame %d on, is not there", ErrMissing, s.path, rec.number)
		}
		if rec.kind == kindMark {
			break
		}
	}
	s.last, s.used, c.tail = cur.next-1, cur.off, cur.prev
	later, err := cur.laterSynced()
	if err != nil {
		return err
	}
	if c.synced = max(c.synced, later); c.synced > s.last {
		return &Damage{File: s.path, Offset: s.used, Frame: cur.next, Reason: fmt.Sprintf("the frame is not valid, but the log says that it was synced up to %d", c.synced)}
	}
	if c.synced = max(c.synced, l.o.Synced); c.synced > s.last {
		return &Damage{File: s.path, Offset: s.used, Frame: cur.next, Reason: fmt.Sprintf("the log ends before it, but it was synced up to %d", c.synced)}
	}
	return nil
}

// recover makes the log ready to be written to, always in a new segment: behind the
// valid frames of the old one may be some of a write that was cut off. Frames that
// nothing calls synced are written into the new one too, and durable before it has its
// name: what is read now need not be on the disk, if a sync has failed before. From
// then on the new one's first number overrides the same numbers in the old one. A loss
// at any moment leaves either the old state, or the new one whole.
func (l *Log) recover(c *chain) error {
	l.adopt(c.names)
	tail := l.segments[len(l.segments)-1]
	if err := l.syncUnsynced(); err != nil {
		return err
	}
	f, cur, err := l.read(&tail)
	if err != nil {
		return err
	}
	nf, ns, off, prev, err := l.moveTail(c, tail, cur)
	_ = f.Close() // now: what is open cannot be removed on Windows
	if err != nil {
		return err
	}
	if err := l.retireTail(c); err != nil {
		return errors.Join(err, nf.Close())
	}
	l.activate(nf, ns, off, prev)
	return nil
}

// moveTail makes the new segment, with the frames of the tail that nothing calls synced.
// off and prev are where it goes on.
func (l *Log) moveTail(c *chain, tail segment, cur *cursor) (f disk.File, s segment, off int64, prev uint32, err error) {
	for cur.next <= c.synced {
		if _, err := cur.again(); err != nil {
			return nil, s, 0, 0, err
		}
	}
	kept := tail
	kept.last, kept.used = c.synced, cur.off
	c.sum = cur.prev
	h := header{follows: tail.seq, first: c.synced + 1, synced: tail.last, prev: cur.prev}
	if kept.used == headerSize { // it holds nothing that counts: the new one is put in its place
		h.follows = tail.follows
		c.stale = append(c.stale, tail)
		l.segments = l.segments[:len(l.segments)-1]
	} else {
		l.segments[len(l.segments)-1] = kept
	}
	f, s, err = l.newSegment(h, tail.used-cur.off, func(to disk.File, nonce uint64) (err error) {
		off, prev, err = copyFrames(to, nonce, cur, tail.last)
		return err
	})
	return f, s, off, prev, err
}

// copyFrames writes the frames from the cursor up to last as the first ones of a new
// segment.
func copyFrames(to disk.File, nonce uint64, cur *cursor, last uint64) (off int64, prev uint32, err error) {
	off, prev = headerSize, cur.prev
	synced := cur.next - 1
	var buf []byte
	for cur.next <= last {
		rec, err := cur.again()
		if err != nil {
			return 0, 0, err
		}
		buf, prev = appendFrame(buf[:0], nonce, record{number: rec.number, synced: synced, prev: prev}, rec.payload)
		if _, err := to.WriteAt(buf, off); err != nil {
			return 0, 0, err
		}
		off += int64(len(buf))
	}
	return off, prev, nil
}

// retireTail ends the segment that the new one follows, and removes those in whose
// place it stands, before the new one gets a frame: from then on it would be missed if
// it were lost.
func (l *Log) retireTail(c *chain) error {
	if n := len(l.segments); n > 0 {
		s := l.segments[n-1]
		f, err := l.o.FS.OpenFile(s.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		err = writeMark(f, s.nonce, s.used, kindEnd, s.last, c.sum)
		if err == nil {
			err = l.sync(f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for _, s := range c.stale {
		if err := l.o.FS.Remove(s.path); err != nil {
			return err
		}
	}
	if len(c.stale) == 0 {
		return nil
	}
	return l.syncDir(l.dir)
}

// syncUnsynced makes segments durable that were written with NoSync.
func (l *Log) syncUnsynced() error {
	if l.o.NoSync {
		return nil
	}
	for _, s := range l.segments {
		if s.flags&flagNoSync == 0 {
			continue
		}
		if err := l.syncDir(filepath.Dir(l.dir)); err != nil {
			return err
		}
		f, err := l.o.FS.OpenFile(s.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
