package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// A segment is a header of headerSize bytes, records one behind the other, each
// beginning at a multiple of align, then zeros or what a recycled file had there.
// Numbers are little endian, checksums CRC-32C.
const (
	headerSize = 512
	headerUsed = 84
	recordSize = 40 // of a record's head, that is of a record without payload
	align      = 8
	// MaxPayload is the greatest number of bytes in one frame.
	MaxPayload = 1 << 30
)

// The kinds of records.
const (
	// kindFrame holds what was appended.
	kindFrame uint32 = 0x4d415246 // FRAM
	// kindEnd stands behind the last frame of a segment that has a next one: a
	// segment that ends so and is the last that is there has lost its successor.
	kindEnd uint32 = 0x53444e45 // ENDS
	// kindMark stands behind the last frame of a log that was closed: it calls
	// that frame synced, which no other frame does yet.
	kindMark uint32 = 0x4b52414d // MARK
)

// magic begins a segment; its last byte is the version of the format.
var magic = [8]byte{'O', 'R', 'R', 'Y', 'L', 'O', 'G', 1}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// flagNoSync is set in a segment that was written without syncs.
const flagNoSync uint32 = 1

// header is the head of a segment. It is durable before the segment has its name.
type header struct {
	id      [16]byte
	nonce   uint64 // in each record of the segment, so that those of the file's earlier lives are none
	seq     uint64 // the segment's own number, that of its file name
	follows uint64 // seq of the segment before it; 0: there was none
	first   uint64 // number of the first frame
	synced  uint64 // frames up to this one were durable before the segment had its name
	size    int64  // of the file
	prev    uint32 // checksum of frame first-1, which may be of another log; 0: there was none
	flags   uint32
}

func (h *header) encode(b *[headerSize]byte) {
	le := binary.LittleEndian
	*b = [headerSize]byte{}
	copy(b[:], magic[:])
	copy(b[8:], h.id[:])
	le.PutUint64(b[24:], h.nonce)
	le.PutUint64(b[32:], h.seq)
	le.PutUint64(b[40:], h.follows)
	le.PutUint64(b[48:], h.first)
	le.PutUint64(b[56:], h.synced)
	le.PutUint64(b[64:], uint64(h.size))
	le.PutUint32(b[72:], h.prev)
	le.PutUint32(b[76:], h.flags)
	le.PutUint32(b[80:], crc32.Checksum(b[:headerUsed-4], castagnoli))
}

// decodeHeader tells why the bytes are no header.
func decodeHeader(b *[headerSize]byte) (header, error) {
	le := binary.LittleEndian
	if sum := crc32.Checksum(b[:headerUsed-4], castagnoli); sum != le.Uint32(b[80:]) {
		return header{}, fmt.Errorf("the checksum of the segment's header is %08x, not %08x", sum, le.Uint32(b[80:]))
	}
	if [8]byte(b[:8]) != magic {
		return header{}, fmt.Errorf("the segment begins with %q, not %q: another format", b[:8], magic[:])
	}
	h := header{
		id: [16]byte(b[8:24]), nonce: le.Uint64(b[24:]), seq: le.Uint64(b[32:]), follows: le.Uint64(b[40:]),
		first: le.Uint64(b[48:]), synced: le.Uint64(b[56:]), size: int64(le.Uint64(b[64:])),
		prev: le.Uint32(b[72:]), flags: le.Uint32(b[76:]),
	}
	if h.seq <= h.follows || h.first == 0 || h.synced < h.first-1 || h.size < headerSize+recordSize || h.nonce == 0 {
		return header{}, fmt.Errorf("the segment's header makes no sense: %+v", h)
	}
	return h, nil
}

// record is a frame, an end or a mark. Its head is
//
//	kind u32 | checksum u32 | nonce u64 | number u64 | synced u64 | length u32 | prev u32
//
// and the checksum is over all of it but itself, and over the payload.
type record struct {
	kind    uint32
	sum     uint32
	number  uint64 // of an end and a mark: the number of the next frame
	synced  uint64 // up to which frame the log was synced when this was written
	prev    uint32 // checksum of frame number-1
	payload []byte
	end     int64 // offset behind it, aligned
}

// span is what a frame with that many bytes of payload takes in a segment.
func span(payload int64) int64 { return (recordSize + payload + align - 1) &^ (align - 1) }

// putRecord fills in the head of the record that b is, payload included, without the
// padding behind it, and returns its checksum.
func putRecord(b []byte, kind uint32, nonce uint64, r record) uint32 {
	le := binary.LittleEndian
	le.PutUint32(b, kind)
	le.PutUint64(b[8:], nonce)
	le.PutUint64(b[16:], r.number)
	le.PutUint64(b[24:], r.synced)
	le.PutUint32(b[32:], uint32(len(b)-recordSize))
	le.PutUint32(b[36:], r.prev)
	sum := checksum(b)
	le.PutUint32(b[4:], sum)
	return sum
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// decodeHead reads a record's head, of which the checksum is still to be compared; it
// tells whether room bytes, head included, could hold such a record.
func decodeHead(b []byte, nonce uint64, room int64) (r record, length int64, ok bool) {
	le := binary.LittleEndian
	if le.Uint64(b[8:]) != nonce {
		return record{}, 0, false
	}
	r = record{kind: le.Uint32(b), sum: le.Uint32(b[4:]), number: le.Uint64(b[16:]), synced: le.Uint64(b[24:]), prev: le.Uint32(b[36:])}
	length = int64(le.Uint32(b[32:]))
	switch r.kind {
	case kindFrame:
	case kindEnd, kindMark:
		if length != 0 {
			return record{}, 0, false
		}
	default:
		return record{}, 0, false
	}
	ok = length <= MaxPayload && span(length) <= room && r.number != 0 && r.number != math.MaxUint64 && r.synced < r.number
	return r, length, ok
}
