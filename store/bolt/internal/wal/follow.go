package wal

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

var (
	// ErrFork says that the frames of two logs follow the same one, as a copy of the database
	// went on by itself.
	ErrFork = errors.New("two logs go on from the same frame")
	// ErrStop is returned by the function that a Follow calls, to end it.
	ErrStop = errors.New("stop")
)

// KeptFrame is a frame of a segment that was kept.
type KeptFrame struct {
	Log     [16]byte // which log it is of
	Number  uint64
	Sum     uint32 // its checksum
	Payload []byte
}

// Follow calls fn with each frame behind one that is named by number and checksum, in order, as
// far as pieces have them, whose order is that of [Kept]. The log that has it is followed before
// others. The payload is valid during the call only. Where fn returns ErrStop, it ends without
// an error; else the error says why there is no more: [ErrMissing], [ErrDamaged] or [ErrFork].
func Follow(pieces []Piece, fsys disk.FS, log [16]byte, n uint64, sum uint32, fn func(KeptFrame) error) error {
	if fsys == nil {
		fsys = disk.OS
	}
	w := follower{pieces: pieces, fs: fsys, log: log, n: n, sum: sum, fn: fn}
	w.findMoved()
	for {
		before := w.n
		err := w.piece()
		switch {
		case errors.Is(err, ErrStop):
			return nil
		case errors.Is(err, ErrDamaged) && w.n > before: // there may be a copy that is whole
		case err != nil:
			return err
		}
	}
}

type follower struct {
	pieces []Piece
	fs     disk.FS
	log    [16]byte
	n      uint64 // the last frame
	sum    uint32 // its checksum
	fn     func(KeptFrame) error
}

// findMoved finds the frame that is named, if a crash followed before anything called it synced:
// the next start wrote it anew, into a segment whose header calls it synced, where it has another checksum.
// It is the same commit, as it is of the same log.
func (w *follower) findMoved() {
	for i := range w.pieces {
		p := &w.pieces[i]
		if p.id != w.log || w.n < p.first || w.n > p.synced || w.n >= w.until(p) {
			continue
		}
		f, c, err := w.open(p)
		if err != nil {
			continue // whoever chooses the piece tells
		}
		if _, err := w.seek(p, c); err == nil && c.next == w.n+1 {
			w.sum = c.prev
		}
		_ = f.Close()
	}
}

// piece passes the frames of the one piece that goes on from here.
func (w *follower) piece() error {
	next, err := w.choose()
	if err != nil {
		return err
	}
	f, c, err := w.open(next)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := w.seek(next, c); err != nil {
		return err
	}
	w.log = next.id
	for until := w.until(next); c.next < until; {
		rec, ok, err := c.frame()
		if err != nil {
			return err
		}
		if !ok || rec.kind != kindFrame {
			return w.ended(next, c)
		}
		w.n, w.sum = rec.number, rec.sum
		if err := w.fn(KeptFrame{Log: w.log, Number: w.n, Sum: w.sum, Payload: rec.payload}); err != nil {
			return err
		}
	}
	return nil
}

// until gives the first frame that a piece does not have any more: after a crash the frames that
// might not have been on the disk were written anew, into a later segment.
func (w *follower) until(p *Piece) uint64 {
	until := uint64(math.MaxUint64)
	for i := range w.pieces {
		if later := &w.pieces[i]; later.id == p.id && later.seq > p.seq {
			until = min(until, later.first)
		}
	}
	return until
}

// choose finds the piece that has the next frame.
func (w *follower) choose() (*Piece, error) {
	var found []*Piece
	var bad []error
	seen := map[string]bool{}
	for _, own := range []bool{true, false} { // others need not be read if its own log goes on
		for i := range w.pieces {
			p := &w.pieces[i]
			if (p.id == w.log) != own || p.first > w.n+1 || w.n+1 >= w.until(p) || p.first == w.n+1 && p.prev != w.sum || seen[keptName(&p.header)] {
				continue
			}
			has, err := w.has(p)
			if err != nil {
				bad = append(bad, err)
			} else if has {
				seen[keptName(&p.header)] = true
				found = append(found, p)
			}
		}
		if own && len(found) > 0 {
			return found[0], nil
		}
	}
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%w: behind frame %d, %s and %s: keep the other one's files elsewhere, and try again", ErrFork, w.n, found[0].Path, found[1].Path)
	case len(found) == 1:
		return found[0], nil
	}
	return nil, errors.Join(append(bad, w.missing())...)
}

// has reports whether a piece goes on behind the last frame.
func (w *follower) has(p *Piece) (bool, error) {
	f, c, err := w.open(p)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	if there, err := w.seek(p, c); err != nil || !there {
		return false, err
	}
	rec, ok, err := c.frame()
	if err != nil || ok {
		return ok && rec.kind == kindFrame, err
	}
	return false, w.ended(p, c)
}

// seek passes the frames up to the last one; false: the piece does not have that one.
func (w *follower) seek(p *Piece, c *cursor) (bool, error) {
	for c.next <= w.n {
		rec, ok, err := c.frame()
		if err != nil {
			return false, err
		}
		if !ok || rec.kind != kindFrame {
			return false, w.ended(p, c)
		}
	}
	return c.next == w.n+1 && c.prev == w.sum, nil
}

// ended tells whether what the cursor stands before is the end, or a frame that is not as it was
// written: in a segment that was kept nothing was cut off, in the last one of a log something may
// have been that was never synced.
func (w *follower) ended(p *Piece, c *cursor) error {
	if _, ok, err := c.frame(); err != nil || ok { // ok: a mark or an end
		return err
	}
	synced, next, err := c.later()
	if err != nil {
		return err
	}
	if synced >= c.next || next > c.next && filepath.Ext(p.Path) == KeptSuffix {
		return &Damage{File: c.name, Offset: c.off, Frame: c.next, Reason: "the frame is not valid, but there are later ones"}
	}
	return nil
}

// missing says why no piece goes on.
func (w *follower) missing() error {
	for i := range w.pieces {
		if p := &w.pieces[i]; p.first > w.n+1 {
			return fmt.Errorf("%w: the frames from %d to %d were not kept; %s begins with the next one", ErrMissing, w.n+1, p.first-1, p.Path)
		}
	}
	for i := range w.pieces {
		if p := &w.pieces[i]; p.first == w.n+1 {
			return fmt.Errorf("%w: no frame behind %d was kept of this database: %s is of another one, or of another copy", ErrMissing, w.n, p.Path)
		}
	}
	return fmt.Errorf("%w: no frame behind %d was kept", ErrMissing, w.n)
}

func (w *follower) open(p *Piece) (disk.File, *cursor, error) {
	f, err := w.fs.OpenFile(p.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	r := &reader{f: f, name: p.Path, nonce: p.nonce, size: p.size}
	return f, &cursor{reader: r, off: headerSize, next: p.first, prev: p.prev}, nil
}
