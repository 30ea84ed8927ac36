package wal

import "fmt"

// Replay calls fn for each frame numbered from or higher, in order, until fn returns an
// error, which it returns. The payload is valid during the call only. It is ErrMissing
// if the log begins behind from; a from behind the last frame is none. fn must not call
// the log's methods, but Last and Size; Append and Drop may wait for the end.
func (l *Log) Replay(from uint64, fn func(n uint64, payload []byte) error) error {
	return l.ReplayAt(from, func(n uint64, payload []byte, _ Position) error { return fn(n, payload) })
}

// ReplayAt is Replay that tells where each payload stands.
func (l *Log) ReplayAt(from uint64, fn func(n uint64, payload []byte, at Position) error) error {
	l.files.Lock()
	defer l.files.Unlock()
	if first := l.segments[0].first; from < first {
		return fmt.Errorf("%w: it begins with frame %d, not %d or before", ErrMissing, first, from)
	}
	for i := range l.segments {
		s := l.segments[i]
		if i == len(l.segments)-1 {
			s.last = l.last.Load()
		}
		if s.last < from || s.last < s.first {
			continue
		}
		if err := l.replay(&s, from, fn); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replay(s *segment, from uint64, fn func(n uint64, payload []byte, at Position) error) error {
	f, c, err := l.read(s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for c.next <= s.last {
		at := Position{Segment: s.seq, Offset: c.off + recordSize}
		rec, err := c.again()
		if err != nil {
			return err
		}
		if rec.number < from {
			continue
		}
		if err := fn(rec.number, rec.payload, at); err != nil {
			return err
		}
	}
	return nil
}
