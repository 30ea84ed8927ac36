package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// A file begins with a head of 40 bytes: the magic, the archive's id, the bytes that count
// of the file before it (what is behind them was never published), and the checksum of all that. Then
// come blocks, each of one table:
//
//	checksum (4)   CRC-32C of what follows, up to the entries
//	length   (4)   of the block, from the checksum on
//	raw      (4)   bytes of the entries before they were compressed
//	count    (4)   of entries
//	checksum (4)   of the entries, compressed
//	table    (1 + n), first key (2 + n), last key (2 + n)   each with its length before it
//	entries  compressed with zstd: length, key, length, value, the lengths as varints
//
// Numbers are big endian. Blocks stand in the order in which they were written, those of one
// table so in the order of their keys.
const (
	magic     = "orrery-past1"
	headSize  = 40
	blockHead = 20
	// maxBlock is the greatest length that a block may tell, packed or not: a value of any size
	// that the store takes, of 1 GiB at most, with its key, what stands around them, and what
	// bytes that cannot be packed grow by.
	maxBlock = 1<<30 + 1<<20
	// namesAhead is how much is read to learn what a block has.
	namesAhead = 512
)

const (
	flagsRead  = os.O_RDONLY
	flagsWrite = os.O_RDWR
	flagsNew   = os.O_RDWR | os.O_CREATE | os.O_TRUNC
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is what a file tells of itself.
type head struct {
	id     [16]byte
	before int64 // bytes of the file before that count
	// none: a loss of power has left the file without a head, or it is damaged. Then it is nobody's: it counts as
	// the archive's own, and is removed if it is not needed.
	none bool
}

func newHead(id [16]byte, before int64) []byte {
	b := append([]byte(magic), id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(before))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func readHead(f disk.File) (head, error) {
	var b [headSize]byte
	if _, err := f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
		return head{none: true}, nil
	} else if err != nil {
		return head{}, err
	}
	if string(b[:len(magic)]) != magic || binary.BigEndian.Uint32(b[headSize-4:]) != crc32.Checksum(b[:headSize-4], castagnoli) {
		return head{none: true}, nil
	}
	id := [16]byte(b[len(magic):])
	return head{id: id, before: int64(binary.BigEndian.Uint64(b[len(magic)+len(id):]))}, nil
}

// block tells where a block stands, and what is in it.
type block struct {
	at          int64
	length      int64
	table       string
	first, last []byte
}

// builder gathers entries of a table, up to a block.
type builder struct {
	table       string
	raw, out    []byte
	count       uint32
	first, last []byte
}

func (b *builder) add(key, value []byte) {
	if b.count == 0 {
		b.first = append(b.first[:0], key...)
	}
	b.last = append(b.last[:0], key...)
	b.count++
	b.raw = append(binary.AppendUvarint(b.raw, uint64(len(key))), key...)
	b.raw = append(binary.AppendUvarint(b.raw, uint64(len(value))), value...)
}

// encoder and decoder are safe for concurrent use in the one way in which they are used. The
// encoder makes its channel at its first use, which therefore is here: a bubble of
// testing/synctest would keep it from everybody else.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
)

// begin begins without any entry. Room for a value far beyond the usual is given back.
func (b *builder) begin(usual int) {
	raw, out := b.raw[:0], b.out[:0]
	if cap(raw)+cap(out) > 8*usual {
		raw, out = nil, nil
	}
	*b = builder{raw: raw, out: out}
}

func init() { encoder.EncodeAll([]byte{0}, nil) }

// seal gives the block of what was gathered, and begins the next one. It is valid until then.
func (b *builder) seal() []byte {
	out := append(b.out[:0], make([]byte, blockHead)...)
	out = append(append(out, byte(len(b.table))), b.table...)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(b.first))), b.first...)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(b.last))), b.last...)
	names := len(out)
	out = encoder.EncodeAll(b.raw, out)
	binary.BigEndian.PutUint32(out[4:], uint32(len(out)))
	binary.BigEndian.PutUint32(out[8:], uint32(len(b.raw)))
	binary.BigEndian.PutUint32(out[12:], b.count)
	binary.BigEndian.PutUint32(out[16:], crc32.Checksum(out[names:], castagnoli))
	binary.BigEndian.PutUint32(out, crc32.Checksum(out[4:names], castagnoli))
	b.out, b.raw, b.count = out, b.raw[:0], 0
	return out
}

// names parses what a block tells of itself; rest is what stands behind it. It trusts the
// lengths only as far as b reaches.
func names(b []byte) (bl block, rest []byte, ok bool) {
	take := func(size int) (part []byte) {
		if ok = ok && len(rest) >= size; !ok {
			return nil
		}
		n := int(rest[0])
		if size == 2 {
			n = int(binary.BigEndian.Uint16(rest))
		}
		if ok = len(rest) >= size+n; !ok {
			return nil
		}
		part, rest = rest[size:size+n], rest[size+n:]
		return part
	}
	rest, ok = b, true
	bl.table = string(take(1))
	bl.first, bl.last = take(2), take(2)
	return bl, rest, ok
}

// sound reports whether the checksum of a block's head is right; rest is what of b stands
// behind the head.
func sound(b, rest []byte) bool {
	return binary.BigEndian.Uint32(b) == crc32.Checksum(b[4:len(b)-len(rest)], castagnoli)
}

// damaged says where a file is damaged.
func damaged(path string, at int64, what string) error {
	return fmt.Errorf("%w: %s, byte %d: %s", ErrCorrupt, path, at, what)
}

// read reads a block, as it is, and checks it.
func (f *file) read(bl block) (raw []byte, err error) {
	b := make([]byte, bl.length)
	if _, err := f.ReadAt(b, bl.at); err != nil {
		return nil, fmt.Errorf("%s, byte %d: %w", f.path, bl.at, err)
	}
	now, packed, ok := names(b[blockHead:])
	same := ok && now.table == bl.table && bytes.Equal(now.first, bl.first) && bytes.Equal(now.last, bl.last)
	if !same || binary.BigEndian.Uint32(b[8:]) > maxBlock || !sound(b, packed) {
		return nil, damaged(f.path, bl.at, "the head of the block changed")
	}
	if binary.BigEndian.Uint32(b[16:]) != crc32.Checksum(packed, castagnoli) {
		return nil, damaged(f.path, bl.at, "the checksum of the block is wrong")
	}
	return b, nil
}

// entries gives the entries of a block.
func (f *file) entries(bl block) ([]entry, error) {
	b, err := f.read(bl)
	if err != nil {
		return nil, err
	}
	size, count := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	_, packed, _ := names(b[blockHead:])
	raw, err := decoder.DecodeAll(packed, make([]byte, 0, size))
	if err != nil || len(raw) != int(size) {
		return nil, damaged(f.path, bl.at, fmt.Sprintf("the block cannot be unpacked: %v", err))
	}
	list := make([]entry, 0, min(int(count), len(raw)))
	for range count {
		var e entry
		var n int
		if e.key, n = takeBytes(raw); n >= 0 {
			raw = raw[n:]
			if e.value, n = takeBytes(raw); n >= 0 {
				raw = raw[n:]
			}
		}
		if n < 0 {
			return nil, damaged(f.path, bl.at, "an entry is longer than the block")
		}
		list = append(list, e)
	}
	return list, nil
}

// entry is one key with its value.
type entry struct{ key, value []byte }

// takeBytes gives what stands behind its length, and how long both are; -1: it is cut off.
func takeBytes(b []byte) (part []byte, n int) {
	l, size := binary.Uvarint(b)
	if size <= 0 || l > uint64(len(b)-size) {
		return nil, -1
	}
	end := size + int(l)
	return b[size:end:end], end
}
