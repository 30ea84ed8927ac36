package wal

import (
	"fmt"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// keepBuffer is the greatest buffer that is kept from one frame to the next.
const keepBuffer = 4 << 20

// Append writes one frame that holds the parts, one behind the other, and returns its
// number, Last()+1. It is durable once a Sync has returned. ErrTooLarge, and an error of
// making room for it (a full disk), leave the log as it was, and the same Append may
// work later; any other breaks it ([ErrBroken]).
func (l *Log) Append(payload ...[]byte) (n uint64, err error) {
	n, _, err = l.AppendAt(payload...)
	return n, err
}

// AppendAt is Append that tells where the payload stands.
func (l *Log) AppendAt(payload ...[]byte) (n uint64, at Position, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return 0, at, err
	}
	length := int64(0)
	for _, p := range payload {
		length += int64(len(p))
	}
	if length > MaxPayload {
		return 0, at, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, length, int64(MaxPayload))
	}
	size := span(length)
	if l.off+size+recordSize > l.room { // an end must still fit
		if err := l.roll(size); err != nil {
			return 0, at, err
		}
	}
	l.buf = l.buf[:0]
	r := record{number: l.last.Load() + 1, synced: l.synced.Load(), prev: l.prev}
	var sum uint32
	l.buf, sum = appendFrame(l.buf, l.nonce, r, payload...)
	if _, err := l.file.WriteAt(l.buf, l.off); err != nil {
		return 0, at, l.failActive(err)
	}
	at = Position{Segment: l.writes, Offset: l.off + recordSize}
	l.off, l.prev = l.off+size, sum
	l.size.Add(size)
	l.last.Store(r.number)
	l.half.Store(l.off > l.room/2)
	if cap(l.buf) > keepBuffer {
		l.buf = nil
	}
	return r.number, at, nil
}

// appendFrame appends a frame, padded, to b, which is empty, and returns its checksum.
func appendFrame(b []byte, nonce uint64, r record, payload ...[]byte) ([]byte, uint32) {
	length := recordSize
	for _, p := range payload {
		length += len(p)
	}
	if padded := int(span(int64(length - recordSize))); cap(b) < padded {
		b = make([]byte, 0, max(padded, 64<<10))
	}
	b = b[:recordSize]
	for _, p := range payload {
		b = append(b, p...)
	}
	sum := putRecord(b, kindFrame, nonce, r)
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b, sum
}

// writeMark writes an end or a mark behind the frame last, which it calls synced.
func writeMark(f disk.File, nonce uint64, off int64, kind uint32, last uint64, prev uint32) error {
	var b [recordSize]byte
	putRecord(b[:], kind, nonce, record{number: last + 1, synced: last, prev: prev})
	_, err := f.WriteAt(b[:], off)
	return err
}

// Sync returns once all frames that were appended before it are durable. An error
// breaks the log ([ErrBroken]).
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.syncActive()
}

// syncActive needs the lock syncing.
func (l *Log) syncActive() error {
	if err := l.broken(); err != nil {
		return err
	}
	last := l.last.Load()
	if last == l.synced.Load() {
		return nil
	}
	if err := l.sync(l.file); err != nil {
		return l.failActive(err)
	}
	l.synced.Store(last)
	return nil
}

// roll goes on in a new segment that has room for a frame of that size. The new one is
// durable before the old one's end says that there is one, and the end before the new
// one has a frame: so a segment that is lost is missed.
func (l *Log) roll(size int64) error {
	f, blank, err := l.blank(headerSize + size + recordSize)
	if err != nil {
		return fmt.Errorf("making a segment of the log: %w", err)
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.syncActive(); err != nil {
		l.discard(f, blank)
		return err
	}
	last := l.last.Load()
	l.files.Lock()
	defer l.files.Unlock()
	old := &l.segments[len(l.segments)-1]
	f, s, err := l.begin(f, blank, header{follows: old.seq, first: last + 1, synced: last, prev: l.prev}, nil)
	if err != nil {
		return fmt.Errorf("making a segment of the log: %w", err)
	}
	if err := writeMark(l.file, l.nonce, l.off, kindEnd, last, l.prev); err != nil {
		return l.failActive(err)
	}
	if err := l.sync(l.file); err != nil {
		return l.failActive(err)
	}
	_ = l.file.Close() // all of it is durable
	old.last, old.used = last, l.off
	l.activate(f, s, headerSize, l.prev)
	return nil
}

// activate makes s the segment that is written to, from off on. It needs all locks, or
// a log that nobody else has yet.
func (l *Log) activate(f disk.File, s segment, off int64, prev uint32) {
	l.file, l.active, l.writes, l.nonce, l.room = f, s.path, s.seq, s.nonce, s.size
	l.place.Store(placeOf(f, s.path))
	l.off, l.prev = off, prev
	l.half.Store(off > l.room/2)
	l.segments = append(l.segments, s)
	l.last.Store(s.last)
	l.synced.Store(s.last)
}
