package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// window is how many bytes a reader asks for at once.
const window = 256 << 10

// reader reads the records of one segment. A record's payload is valid until the next
// call.
type reader struct {
	f     io.ReaderAt
	name  string
	nonce uint64
	size  int64 // of the segment, as its header has it
	buf   []byte
	at    int64 // offset of buf in the segment
}

// view gives n bytes of the segment at off, which must be in it.
func (r *reader) view(off, n int64) ([]byte, error) {
	if off >= r.at && off+n <= r.at+int64(len(r.buf)) {
		return r.buf[off-r.at:][:n], nil
	}
	want := min(max(n, window), r.size-off)
	if int64(cap(r.buf)) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.at = r.buf[:want], off
	if got, err := r.f.ReadAt(r.buf, off); int64(got) < want {
		r.buf = r.buf[:0]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading %s at offset %d: %w", r.name, off, err)
	}
	return r.buf[:n], nil
}

// record reads the record at off; !ok: the bytes there are none of this segment. The
// error is one of reading.
func (r *reader) record(off int64) (rec record, ok bool, err error) {
	room := r.size - off
	if room < recordSize {
		return record{}, false, nil
	}
	b, err := r.view(off, recordSize)
	if err != nil {
		return record{}, false, err
	}
	rec, length, ok := decodeHead(b, r.nonce, room)
	if !ok {
		return record{}, false, nil
	}
	if b, err = r.view(off, recordSize+length); err != nil {
		return record{}, false, err
	}
	if checksum(b) != rec.sum {
		return record{}, false, nil
	}
	rec.payload, rec.end = b[recordSize:], off+span(length)
	return rec, true, nil
}

// cursor walks along the frames of a segment that follow one another.
type cursor struct {
	*reader
	off  int64  // of the next record
	next uint64 // its number
	prev uint32 // checksum of the frame before it
}

// frame reads the next frame and passes it; !ok: the record there, if it is one, is no
// frame, or not the next.
func (c *cursor) frame() (rec record, ok bool, err error) {
	rec, ok, err = c.record(c.off)
	if err != nil || !ok || rec.number != c.next || rec.prev != c.prev {
		return record{}, false, err
	}
	if rec.kind == kindFrame {
		c.off, c.next, c.prev = rec.end, c.next+1, rec.sum
	}
	return rec, true, nil
}

// again reads the next frame, which was valid when the log was opened.
func (c *cursor) again() (record, error) {
	rec, ok, err := c.frame()
	if err == nil && (!ok || rec.kind != kindFrame) {
		err = &Damage{File: c.name, Offset: c.off, Frame: c.next, Reason: "the frame is not valid any more"}
	}
	return rec, err
}

// laterSynced looks behind the valid frames for records that were written later, and
// returns up to which frame they call the log synced; 0: none does.
func (c *cursor) laterSynced() (synced uint64, err error) {
	synced, _, err = c.later()
	return synced, err
}

// later does that, and gives the highest number of them, too; 0: there is none.
func (c *cursor) later() (synced, number uint64, err error) {
	for off := c.off; off+recordSize <= c.size; {
		b, err := c.view(off, recordSize)
		if err != nil {
			return 0, 0, err
		}
		if binary.LittleEndian.Uint64(b[8:]) == c.nonce {
			rec, ok, err := c.record(off)
			if err != nil {
				return 0, 0, err
			}
			if ok && rec.number >= c.next {
				synced, number = max(synced, rec.synced), max(number, rec.number)
				off = rec.end
				continue
			}
		}
		off += align
	}
	return synced, number, nil
}
