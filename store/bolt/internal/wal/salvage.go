package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Salvage calls fn with each frame of a log that can be read, in order, whatever is damaged
// or missing around it, and gives what that is. The payload is valid during the call only.
// The log need not be whole, and nothing of it is changed. The error is ErrMissing where
// there is no log at all, ErrForeign, or what fn returned.
func Salvage(dir string, id [16]byte, o Options, fn func(n uint64, payload []byte) error) (lost []error, err error) {
	o.ReadOnly = true
	l := newLog(dir, id, o)
	names, err := l.list()
	if err != nil {
		return nil, err
	}
	if len(names.segments) == 0 {
		return nil, fmt.Errorf("%w: %s has no segment", ErrMissing, dir)
	}
	v := salvage{l: l, fn: fn}
	for _, seq := range names.segments {
		s, err := l.readSegment(seq)
		switch {
		case err != nil:
			v.lost = append(v.lost, err)
		case s.id != id:
			return nil, fmt.Errorf("%w: %s belongs to %x, not to %x", ErrForeign, s.path, s.id, id)
		default:
			v.segments = append(v.segments, s)
		}
	}
	for i := range v.segments {
		if err := v.segment(i); err != nil {
			return v.lost, err
		}
	}
	return v.lost, nil
}

type salvage struct {
	l        *Log
	fn       func(n uint64, payload []byte) error
	segments []segment
	last     uint64 // the last frame that fn has got
	lost     []error
}

// segment reads the frames of a segment that no later one overrides.
func (v *salvage) segment(i int) error {
	s := &v.segments[i]
	until := ^uint64(0)
	for _, later := range v.segments[i+1:] {
		until = min(until, later.first)
	}
	f, c, err := v.l.read(s)
	if err != nil {
		v.lost = append(v.lost, err)
		return nil
	}
	defer func() { _ = f.Close() }()
	for off := int64(headerSize); ; {
		rec, ok := c.find(off)
		if !ok {
			return nil
		}
		off = rec.end
		if rec.kind != kindFrame || rec.number >= until || rec.number < s.first {
			continue
		}
		if want := v.last + 1; v.last != 0 && rec.number > want {
			v.lost = append(v.lost, &Damage{File: s.path, Offset: rec.end - span(int64(len(rec.payload))), Frame: want,
				Reason: fmt.Sprintf("frames %d to %d are not there or cannot be read", want, rec.number-1)})
		}
		v.last = rec.number
		if err := v.fn(rec.number, rec.payload); err != nil {
			return err
		}
	}
}

// find gives the first record that can be read from an offset on.
func (c *cursor) find(off int64) (record, bool) {
	for ; off+recordSize <= c.size; off += align {
		b, err := c.view(off, recordSize)
		if err != nil {
			if b = c.slowly(off); b == nil {
				continue
			}
		}
		if binary.LittleEndian.Uint64(b[8:]) != c.nonce {
			continue
		}
		if rec, ok, err := c.record(off); err == nil && ok {
			return rec, true
		}
	}
	return record{}, false
}

// slowly reads a record's head alone, where more cannot be read at once.
func (c *cursor) slowly(off int64) []byte {
	var b [recordSize]byte
	if n, err := c.f.ReadAt(b[:], off); err != nil && n < recordSize {
		return nil
	}
	return b[:]
}

// LastOf gives the number of the last frame of a log that can be read; 0: there is none.
func LastOf(dir string, id [16]byte, o Options) (last uint64, err error) {
	_, err = Salvage(dir, id, o, func(n uint64, _ []byte) error {
		last = max(last, n)
		return nil
	})
	if errors.Is(err, ErrMissing) {
		err = nil
	}
	return last, err
}
