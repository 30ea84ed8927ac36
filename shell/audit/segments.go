package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A segment is a file STREAM-HASH.SEQ.jsonl: SEQ, of twenty digits, is the number of its first
// entry, so that the names sort by age.
const (
	suffix     = ".jsonl"
	seqDigits  = 20
	segmentAge = 24 * time.Hour // then a new one begins, so that days can be kept
)

// Bounds of one segment: of what all may have, a share.
const (
	minSegment  = 16 << 10
	maxSegment  = 4 << 20
	segmentPart = 32
)

// segment is a file of the log.
type segment struct {
	path        string
	first, last uint64 // numbers of its entries; last is at least first
	// begun is when its first entry was made, and ended when its last one was, by the
	// clock of that time: numbers are ahead of a clock that was set back.
	begun, ended time.Time
	bytes        int64
}

// stream are the segments of one source, oldest first.
type stream struct {
	list  []*segment
	open  *os.File  // the last of the list, while it is not synced
	dirty time.Time // since when something is not synced
}

// segments are the files of a log that is written.
type segments struct {
	dir     string
	most    int64 // bytes of all
	each    int64 // bytes of one
	keep    time.Duration
	streams map[string]*stream // by the beginning of their files' names
	bytes   int64
	swept   time.Time
}

func openSegments(o Options) (*segments, error) {
	s := &segments{
		dir: o.Dir, most: o.MaxBytes, keep: o.MaxAge, streams: make(map[string]*stream),
		each: min(max(o.MaxBytes/segmentPart, minSegment), maxSegment),
	}
	byStream, err := list(o.Dir)
	if err != nil {
		return nil, err
	}
	for name, all := range byStream {
		for _, g := range all {
			g.readEnd()
			s.bytes += g.bytes
		}
		s.streams[name] = &stream{list: all}
	}
	return s, nil
}

// list finds the segments of a folder by their stream, oldest first. A folder that does not
// exist has none.
func list(dir string) (map[string][]*segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := make(map[string][]*segment)
	for _, e := range entries { // sorted by name
		name, first, ok := parseName(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out[name] = append(out[name], &segment{path: filepath.Join(dir, e.Name()), first: first, last: first, bytes: info.Size()})
	}
	return out, nil
}

// segmentName is the end of the name of a stream's segment.
func segmentName(first uint64) string { return fmt.Sprintf(".%0*d%s", seqDigits, first, suffix) }

// streamKey is the beginning of the names of a stream's segments. Sources may differ in upper and
// lower case alone, which some file systems do not: so their hash is in it.
func streamKey(stream string) string {
	sum := sha256.Sum256([]byte(stream))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(stream))
	return plain[:min(len(plain), 80)] + "-" + hex.EncodeToString(sum[:4])
}

func parseName(name string) (key string, first uint64, ok bool) {
	rest, ok := strings.CutSuffix(name, suffix)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 1 || len(rest)-dot-1 != seqDigits {
		return "", 0, false
	}
	first, err := strconv.ParseUint(rest[dot+1:], 10, 64)
	return rest[:dot], first, err == nil
}

// readEnd reads what the last whole entry of a segment says.
func (g *segment) readEnd() {
	g.last, g.ended = g.first, timeOf(g.first)
	for e, err := range newBackwards(g.path, g.bytes).entries() {
		if err == nil {
			g.last, g.ended = max(g.first, e.Seq), e.At.Std()
			break
		}
	}
	if g.begun = timeOf(g.first); g.ended.Before(g.begun) {
		g.begun = g.ended
	}
}

// last gives the number of the last entry of all.
func (s *segments) last() (last uint64) {
	for _, st := range s.streams {
		last = max(last, st.list[len(st.list)-1].last)
	}
	return last
}

// write appends entries to a stream, and gives how many of them stand in it: after an
// error those of the segments before.
func (s *segments) write(name string, entries []Entry, now time.Time) (written int, err error) {
	key := streamKey(name)
	st := s.streams[key]
	if st == nil {
		st = &stream{}
		s.streams[key] = st
	}
	for len(entries) > 0 {
		var lines []byte
		n := 0
		for n < len(entries) && (n == 0 || int64(len(lines)) < s.each) {
			lines = append(lines, entries[n].line()...)
			n++
		}
		if err := s.append(st, key, lines, entries[:n], now); err != nil {
			if len(st.list) == 0 {
				delete(s.streams, key)
			}
			return written, err
		}
		entries, written = entries[n:], written+n
	}
	return written, nil
}

// append writes lines to the last segment of a stream, or to a new one.
func (s *segments) append(st *stream, key string, lines []byte, entries []Entry, now time.Time) error {
	g, err := s.segmentFor(st, key, int64(len(lines)), entries[0].Seq, now)
	if err != nil {
		return err
	}
	n, err := st.open.Write(lines)
	if err != nil {
		if n > 0 && st.open.Truncate(g.bytes) != nil { // a torn line stays: a reader finds and skips it
			s.grow(g, int64(n))
		}
		return errors.Join(err, s.drop(st, g))
	}
	s.grow(g, int64(n))
	last := entries[len(entries)-1]
	g.last, g.ended = last.Seq, last.At.Std()
	if st.dirty.IsZero() {
		st.dirty = now
	}
	return nil
}

func (s *segments) grow(g *segment, n int64) {
	g.bytes += n
	s.bytes += n
}

// drop closes a file that could not be written, and removes it if it is empty.
func (s *segments) drop(st *stream, g *segment) error {
	err := st.open.Close()
	st.open, st.dirty = nil, time.Time{}
	if g.bytes == 0 {
		st.list = st.list[:len(st.list)-1]
		err = errors.Join(err, os.Remove(g.path))
	}
	return err
}

// segmentFor opens the segment for the next n bytes: the last one, unless it is full, a day old or
// removed.
func (s *segments) segmentFor(st *stream, key string, n int64, first uint64, now time.Time) (*segment, error) {
	if len(st.list) > 0 {
		g := st.list[len(st.list)-1]
		age := now.Sub(g.begun) // negative if the clock was set back
		if g.bytes+n <= s.each && age >= 0 && age < segmentAge {
			err := s.reopen(st, g)
			if err == nil || !errors.Is(err, fs.ErrNotExist) {
				return g, err
			}
			s.forget(st, len(st.list)-1)
		} else if err := st.sync(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, key+segmentName(first))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	syncDir(s.dir)
	g := &segment{path: path, first: first, last: first, begun: now, ended: now}
	st.list, st.open = append(st.list, g), f
	return g, nil
}

// reopen opens a segment to go on with it. A torn last line, which the end of a process has left,
// is ended: what follows must not become a part of it.
func (s *segments) reopen(st *stream, g *segment) error {
	if st.open != nil {
		return nil
	}
	f, err := os.OpenFile(g.path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.grow(g, info.Size()-g.bytes)
	last := []byte{'\n'}
	if g.bytes > 0 {
		if _, err := f.ReadAt(last, g.bytes-1); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if last[0] != '\n' {
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return errors.Join(err, f.Close())
		}
		s.grow(g, 1)
	}
	st.open = f
	return nil
}

// timeOf gives when an entry of that number was made.
func timeOf(seq uint64) time.Time { return time.UnixMicro(int64(min(seq, math.MaxInt64))) }

// sync puts a stream on the disk and closes its file.
func (st *stream) sync() error {
	if st.open == nil {
		return nil
	}
	err := errors.Join(st.open.Sync(), st.open.Close())
	st.open, st.dirty = nil, time.Time{}
	return err
}

// sync puts on the disk what was written a second ago, or everything.
func (s *segments) sync(now time.Time, all bool) error {
	var errs []error
	for _, st := range s.streams {
		if st.open != nil && (all || now.Sub(st.dirty) >= syncEvery) {
			errs = append(errs, st.sync())
		}
	}
	return errors.Join(errs...)
}

// clean reports whether everything is synced.
func (s *segments) clean() bool {
	for _, st := range s.streams {
		if st.open != nil {
			return false
		}
	}
	return true
}

// syncDir makes the names of new files last; not every system can.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// sweep removes what is older than the log keeps, once an hour, and what is too much.
func (s *segments) sweep(now time.Time) error {
	if s.keep > 0 && now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		for _, st := range s.streams {
			for i, g := range slices.Backward(st.list) { // so that the indices of the rest stay
				if now.Sub(g.ended) <= s.keep {
					continue
				}
				if err := s.remove(st, i); err != nil {
					return err
				}
			}
		}
	}
	for s.bytes > s.most {
		if err := s.remove(s.largest(), 0); err != nil {
			return err
		}
	}
	maps.DeleteFunc(s.streams, func(_ string, st *stream) bool { return len(st.list) == 0 })
	return nil
}

// largest gives the stream that has the most bytes.
func (s *segments) largest() (largest *stream) {
	most := int64(-1)
	for _, key := range slices.Sorted(maps.Keys(s.streams)) {
		sum := int64(0)
		for _, g := range s.streams[key].list {
			sum += g.bytes
		}
		if sum > most {
			largest, most = s.streams[key], sum
		}
	}
	return largest
}

// remove removes a segment of a stream.
func (s *segments) remove(st *stream, i int) error {
	if i == len(st.list)-1 { // it may be open
		if err := st.sync(); err != nil {
			return err
		}
	}
	if err := os.Remove(st.list[i].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.forget(st, i)
	return nil
}

// forget takes a segment whose file is gone out of a stream.
func (s *segments) forget(st *stream, i int) {
	s.bytes -= st.list[i].bytes
	st.list = slices.Delete(st.list, i, i+1)
}
