package wal

import "testing"

// CloseToRename has files closed before they are renamed, as on Windows.
func CloseToRename(t testing.TB) {
	was := closeToRename
	closeToRename = true
	t.Cleanup(func() { closeToRename = was })
}

// Place is where a record is.
type Place struct {
	Off, End int64
	Number   uint64
	Frame    bool // not an end or a mark
}

// Records lists the valid records of a segment that follow one another.
func Records(content []byte) []Place {
	h, err := decodeHeader((*[headerSize]byte)(content))
	if err != nil {
		panic(err)
	}
	c := &cursor{reader: &reader{f: bytesAt(content), nonce: h.nonce, size: h.size}, off: headerSize, next: h.first, prev: h.prev}
	var all []Place
	for {
		off := c.off
		rec, ok, err := c.frame()
		if err != nil {
			panic(err)
		}
		if !ok {
			return all
		}
		all = append(all, Place{Off: off, End: off + recordSize + int64(len(rec.payload)), Number: rec.number, Frame: rec.kind == kindFrame})
		if rec.kind != kindFrame {
			return all
		}
	}
}

// HeaderSize and HeaderUsed are the sizes of a segment's header, with and without what
// is always zero.
const (
	HeaderSize = headerSize
	HeaderUsed = headerUsed
)

// Segment is a segment with frames, for a log whose first segment it is.
func Segment(id [16]byte, size int, payloads ...string) []byte {
	h := header{id: id, nonce: 0x0123456789abcdef, seq: 1, first: 1, size: int64(size)}
	var head [headerSize]byte
	h.encode(&head)
	b := make([]byte, size)
	off, prev := copy(b, head[:]), uint32(0)
	for i, p := range payloads {
		var f []byte
		f, prev = appendFrame(nil, h.nonce, record{number: uint64(i) + 1, synced: uint64(max(i-1, 0)), prev: prev}, []byte(p))
		off += copy(b[off:], f)
	}
	return b
}

type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) { return copy(p, b[off:]), nil }
