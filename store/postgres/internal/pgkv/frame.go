package pgkv

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"

	"github.com/orrery-go/orrery/store"
)

// A frame is what one transaction has changed, in the order in which it did: puts and
// deletions by table and key, absolute, so that doing it twice harms nothing. The log has it
// as
//
//	version (1), how it is packed (1), checksum of what follows (4), CRC-32C, big endian
//
// and then, compressed where that makes it smaller, operations, each a byte and what it needs:
//
//	t  length, name          the table of what follows
//	p  length, key, length, value
//	d  length, key
//	x                        the table is not there, and nothing in it
//
// Lengths are unsigned varints.
const (
	frameVersion = 1
	frameHead    = 6

	packedPlain = 0
	packedS2    = 1

	opTable  = 't'
	opPut    = 'p'
	opDelete = 'd'
	opDrop   = 'x'

	// MaxFrame is the greatest frame: PostgreSQL takes values of less than 1 GiB.
	MaxFrame = 512 << 20
	// MaxKey is the longest key: PostgreSQL's index takes entries of a third of a page.
	MaxKey = 2500
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunk is how many bytes a frame makes room for at once. The overlay points into it.
const chunk = 64 << 10

// frame is built by a transaction. What it gave out stays where it is.
type frame struct {
	parts [][]byte // the last one is being filled, and may have room for the next frame
	bytes int
	table string
}

// room gives n bytes to append to, which are not moved.
func (f *frame) room(n int) []byte {
	if last := len(f.parts) - 1; last >= 0 && cap(f.parts[last])-len(f.parts[last]) >= n {
		return f.parts[last]
	}
	f.parts = append(f.parts, make([]byte, 0, max(n, chunk)))
	return f.parts[len(f.parts)-1]
}

// keep ends what was appended to room.
func (f *frame) keep(b []byte) {
	last := len(f.parts) - 1
	f.bytes += len(b) - len(f.parts[last])
	f.parts[last] = b
}

// rest is the room that the frame has left, for the next one.
func (f *frame) rest() []byte {
	if len(f.parts) == 0 {
		return nil
	}
	last := f.parts[len(f.parts)-1]
	return last[len(last):len(last):cap(last)]
}

func (f *frame) into(table string) {
	if f.table == table && f.bytes > 0 {
		return
	}
	f.table = table
	b := append(f.room(1+binary.MaxVarintLen64+len(table)), opTable)
	f.keep(append(binary.AppendUvarint(b, uint64(len(table))), table...))
}

// put gives an entry with its own copies of the key and the value.
func (f *frame) put(table string, key, value []byte) entry {
	f.into(table)
	var k, v []byte
	b := append(f.room(1+2*binary.MaxVarintLen64+len(key)+len(value)), opPut)
	b, k = appendBytes(b, key)
	b, v = appendBytes(b, value)
	f.keep(b)
	return entry{key: k, value: v}
}

func (f *frame) remove(table string, key []byte) (k []byte) {
	f.into(table)
	b := append(f.room(1+binary.MaxVarintLen64+len(key)), opDelete)
	b, k = appendBytes(b, key)
	f.keep(b)
	return k
}

func (f *frame) drop(table string) {
	f.into(table)
	f.keep(append(f.room(1), opDrop))
}

func appendBytes(b, what []byte) (all, copied []byte) {
	b = binary.AppendUvarint(b, uint64(len(what)))
	start := len(b)
	b = append(b, what...)
	return b, b[start:len(b):len(b)]
}

// leastPacked is the least frame that is worth compressing.
const leastPacked = 512

// pack gives the frame in the form of the log.
func (f *frame) pack() []byte {
	b := make([]byte, frameHead, frameHead+f.bytes)
	for _, part := range f.parts {
		b = append(b, part...)
	}
	b[0], b[1] = frameVersion, packedPlain
	if f.bytes >= leastPacked {
		packed := make([]byte, frameHead+s2.MaxEncodedLen(f.bytes))
		if n := len(s2.Encode(packed[frameHead:], b[frameHead:])); n < f.bytes {
			packed[0], packed[1] = frameVersion, packedS2
			b = packed[:frameHead+n]
		}
	}
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[frameHead:], castagnoli))
	return b
}

// unpack gives the operations of a frame.
func unpack(b []byte) ([]byte, error) {
	if len(b) < frameHead || b[0] != frameVersion || b[1] > packedS2 {
		return nil, fmt.Errorf("%w: the frame is none of this package", store.ErrCorrupt)
	}
	if crc32.Checksum(b[frameHead:], castagnoli) != binary.BigEndian.Uint32(b[2:]) {
		return nil, fmt.Errorf("%w: the checksum of the frame is wrong", store.ErrCorrupt)
	}
	if b[1] == packedPlain {
		return b[frameHead:], nil
	}
	ops, err := s2.Decode(nil, b[frameHead:])
	if err != nil {
		return nil, fmt.Errorf("%w: the frame cannot be decompressed: %w", store.ErrCorrupt, err)
	}
	return ops, nil
}

// redo carries a frame of the log out once more. The layers keep parts of it. What it puts is not
// fresh: a checkpoint may have stopped behind it.
func redo(frame []byte, into func(table string) *layer) (bytes int, err error) {
	ops, err := unpack(frame)
	if err != nil {
		return 0, err
	}
	bad := fmt.Errorf("%w: the frame is none of this package", store.ErrCorrupt)
	rest := ops
	take := func() ([]byte, bool) {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil, false
		}
		end := size + int(n)
		part := rest[size:end:end]
		rest = rest[end:]
		return part, true
	}
	var l *layer
	for len(rest) > 0 {
		op := rest[0]
		rest = rest[1:]
		if l == nil && op != opTable {
			return 0, bad
		}
		var key, value []byte
		ok := true
		switch op {
		case opTable:
			if key, ok = take(); ok {
				l = into(string(key))
			}
		case opPut:
			if key, ok = take(); ok {
				value, ok = take()
			}
			if ok {
				l.put(entry{key: key, value: value})
			}
		case opDelete:
			if key, ok = take(); ok {
				l.remove(key)
			}
		case opDrop:
			l.drop()
		default:
			ok = false
		}
		if !ok {
			return 0, bad
		}
	}
	return len(ops), nil
}
