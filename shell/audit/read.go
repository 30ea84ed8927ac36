package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/effects"
)

// Query chooses entries of a log.
type Query struct {
	// Before goes on where a page ended: only entries with a smaller Seq. 0: from the newest.
	Before uint64
	// Since and Until bound At: from Since on, before Until; zero: no bound.
	Since, Until effects.Time
	// Keep chooses entries; nil: all.
	Keep func(*Entry) bool
	// Limit is how many entries a page has at most (default 100).
	Limit int
}

// Page is a part of a log, newest first.
type Page struct {
	Entries []Entry
	// Next is Query.Before of the next page; 0: there is none. A page may have fewer entries
	// than its limit, and none at all, before the last one.
	Next uint64
	// Damaged counts the lines between the entries that are none: torn by the end of a
	// process or of the disk's room, or changed by somebody.
	Damaged int
}

const (
	defaultLimit = 100
	maxScan      = 4 << 20  // bytes that are read for one page
	block        = 16 << 10 // that is read at once; more than a line
)

// Read reads a page of the log in a folder, which may be written meanwhile. A folder that does not
// exist is an empty log.
func Read(ctx context.Context, dir string, q Query) (Page, error) {
	all, err := list(dir)
	if err != nil {
		return Page{}, err
	}
	q.Limit = cmp.Or(q.Limit, defaultLimit)
	r := reader{q: q}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c := &cursor{segments: all[key]}
		if err := r.advance(c); err != nil {
			return Page{}, err
		}
		r.cursors = append(r.cursors, c)
	}
	return r.page(ctx)
}

// cursor is a place in a stream.
type cursor struct {
	segments []*segment // that are not begun, oldest first
	file     *backwards
	head     Entry  // the newest entry that was not given; Seq 0: none is left
	passed   uint64 // the number of the head, or of the last one
	damaged  int    // lines that were passed since the head before
}

// reader merges the streams of a log.
type reader struct {
	q       Query
	cursors []*cursor
	read    int64
}

// advance moves a cursor to its next entry, towards the past.
func (r *reader) advance(c *cursor) error {
	c.head = Entry{}
	for {
		for c.file == nil {
			n := len(c.segments)
			if n == 0 {
				return nil
			}
			g := c.segments[n-1]
			c.segments = c.segments[:n-1]
			if r.q.Before > 0 && g.first >= r.q.Before {
				continue
			}
			c.file = newBackwards(g.path, g.bytes)
			if err := c.file.seek(r.q.Before); err != nil {
				return err
			}
		}
		had := c.file.read
		line, err := c.file.next()
		r.read += c.file.read - had
		switch {
		case errors.Is(err, io.EOF):
			c.file = nil
			continue
		case errors.Is(err, errLong):
			c.damaged++
			continue
		case err != nil:
			return err
		}
		if seq, ok := seqOf(line); ok && r.q.Before > 0 && seq >= r.q.Before {
			continue
		}
		e, err := parse(line)
		// Numbers fall towards the past; others would send a reader of pages in a circle.
		if err == nil && (c.passed == 0 || e.Seq < c.passed) && (r.q.Before == 0 || e.Seq < r.q.Before) {
			c.head, c.passed = e, e.Seq
			return nil
		}
		c.damaged++
	}
}

// page merges the streams until the page is full.
func (r *reader) page(ctx context.Context) (Page, error) {
	var p Page
	for {
		c := r.newest()
		if c == nil {
			for _, c := range r.cursors {
				p.Damaged += c.damaged
			}
			return p, nil
		}
		e := c.head
		if e.Seq/1000 < uint64(max(r.q.Since, 0)) { // no At is later than its Seq says
			return p, nil
		}
		p.Damaged += c.damaged
		c.damaged = 0
		if (r.q.Since == 0 || !e.At.Before(r.q.Since)) && (r.q.Until == 0 || e.At.Before(r.q.Until)) && (r.q.Keep == nil || r.q.Keep(&e)) {
			p.Entries = append(p.Entries, e)
		}
		if err := r.advance(c); err != nil {
			return p, err
		}
		if (len(p.Entries) >= r.q.Limit || r.read > maxScan) && r.newest() != nil {
			p.Next = e.Seq
			return p, nil
		}
		if err := ctx.Err(); err != nil {
			return p, err
		}
	}
}

// newest gives the cursor with the newest entry; nil if none is left.
func (r *reader) newest() (newest *cursor) {
	for _, c := range r.cursors {
		if c.head.Seq > 0 && (newest == nil || c.head.Seq > newest.head.Seq) {
			newest = c
		}
	}
	return newest
}

// backwards reads the lines of a file from its end on. It opens the file for each block, so that
// a log of many streams needs few descriptors.
type backwards struct {
	path string
	at   int64  // what stands before is not read
	buf  []byte // what stands from there on, and was not given
	read int64
}

func newBackwards(path string, size int64) *backwards { return &backwards{path: path, at: size} }

// errLong is a line that is too long for an entry.
var errLong = errors.New("the line is too long")

// next gives the line before; [io.EOF] at the beginning of the file.
func (b *backwards) next() ([]byte, error) {
	long := false
	for {
		whole := bytes.TrimSuffix(b.buf, []byte{'\n'})
		if i := bytes.LastIndexByte(whole, '\n'); i >= 0 || b.at == 0 {
			line := whole[i+1:]
			b.buf = b.buf[:i+1]
			switch {
			case long:
				return nil, errLong
			case len(line) > 0:
				return line, nil
			case b.at == 0 && len(b.buf) == 0:
				return nil, io.EOF
			}
			continue
		}
		if len(whole) > maxLine {
			long, b.buf = true, b.buf[:1] // which is no end of a line
		}
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads the block before. A file that was removed meanwhile has nothing more.
func (b *backwards) fill() error {
	from := max(b.at-block, 0)
	head := make([]byte, b.at-from, b.at-from+int64(len(b.buf)))
	err := readAt(b.path, head, from)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
		b.at, b.buf = 0, nil
		return nil
	}
	if err != nil {
		return err
	}
	b.read += int64(len(head))
	b.at, b.buf = from, append(head, b.buf...)
	return nil
}

func readAt(path string, b []byte, from int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = f.ReadAt(b, from)
	return errors.Join(err, f.Close())
}

// seek goes to the end of the lines whose numbers are smaller than seq, or to a place a little
// after; 0 stays at the end.
func (b *backwards) seek(seq uint64) error {
	if seq == 0 {
		return nil
	}
	low, high := int64(0), b.at // the place is between them
	for high-low > 2*block {
		middle := low + (high-low)/2
		probe := make([]byte, min(block, high-middle))
		if err := readAt(b.path, probe, middle); errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
			b.at = 0
			return nil
		} else if err != nil {
			return err
		}
		b.read += int64(len(probe))
		start := bytes.IndexByte(probe, '\n') + 1
		found, ok := seqOf(probe[start:])
		switch {
		case start == 0 || !ok: // damaged: look at every line
			return nil
		case found >= seq:
			high = middle + int64(start)
		default:
			low = middle + int64(start)
		}
	}
	b.at = high
	return nil
}

// seqOf reads the number of a line without the rest.
func seqOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	end := bytes.IndexByte(rest, ',')
	if !ok || end < 1 || end > seqDigits {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil
}

// entries gives the lines of a file from its end on; an error is that of a line.
func (b *backwards) entries() func(yield func(Entry, error) bool) {
	return func(yield func(Entry, error) bool) {
		for {
			line, err := b.next()
			var e Entry
			switch {
			case err == nil:
				e, err = parse(line)
			case errors.Is(err, errLong):
			default:
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
