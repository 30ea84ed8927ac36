// Package stream is the form in which all that a store holds is sent and kept: one stream of
// bytes, independent of the store that wrote it. [Write] makes one of any [store.Exporter];
// a [Reader] is such an Exporter itself, so any [store.Importer] can be filled from it.
//
// A stream is written and read from its beginning to its end, with a few MiB in memory, or with a
// greater value and its compressed form, which are at most 1 GiB each. It is compressed. Each of its blocks has checksums, and its end says how many entries of each
// kind there were, with a SHA-256 of all that came before: a stream that was cut or
// changed is an error that tells the place, and what was read of it does not count.
//
// format.go has the form, entries.go the form of each kind of entry, write.go and read.go the
// two directions.
package stream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// A stream begins with the magic, whose last digit is the format. Format 2 has the shares of due
// entries, which format 1 has not. Then come blocks:
//
//	checksum (4)   CRC-32C of the rest of the head
//	number   (8)   of the block, from 1
//	section  (1)   what its entries are
//	count    (4)   of entries
//	raw      (4)   bytes of the entries before they were compressed
//	packed   (4)   bytes of what follows the head
//	checksum (4)   CRC-32C of that
//	entries  compressed with zstd
//
// Numbers are big endian. The first block has one entry, the Head as JSON, and the last one, too: the
// end. What is in an end is JSON with the number of entries in each section, and the SHA-256 of all
// bytes before the block. Nothing follows it.
const (
	// Magic is what each stream begins with.
	Magic = "orrery stream 2\n"
	// magicWithoutShares begins a stream of an earlier version.
	magicWithoutShares = "orrery stream 1\n"
	// ContentType is that of a stream sent over HTTP.
	ContentType = "application/vnd.orrery.stream"

	blockHead = 4 + 8 + 1 + 4 + 4 + 4 + 4
	// blockSize is how many bytes of entries are compressed together; a greater entry has a
	// block of its own.
	blockSize = 256 << 10
	// maxBlock is the most that a block may tell, packed or not: a value of any size that a
	// store takes, with what stands around it.
	maxBlock = 1<<30 + 1<<20
)

// section says what the entries of a block are.
type section byte

const (
	sectionHead section = 1 + iota
	sectionRecords
	sectionDue
	sectionTerms
	sectionOutbox
	sectionWebhooks
	sectionRunLogs
	sectionClaims
	sectionQuarantine
	sectionMeta
	sectionJournal // bases and batches
	sectionEpochs
	sectionOmitted
	sectionEnd
	sections
)

var sectionNames = [sections]string{
	"nothing", "head", "records", "due", "terms", "outbox", "webhooks", "run-logs", "claims",
	"quarantine", "meta", "journal", "epochs", "omitted", "end",
}

// String gives the section's name.
func (s section) String() string {
	if s < sections {
		return sectionNames[s]
	}
	return fmt.Sprintf("section %d", byte(s))
}

// Head tells who wrote a stream, and of what.
type Head struct {
	Program string       `json:"program"`        // "orrery"
	By      string       `json:"by,omitempty"`   // the version of the program
	Core    string       `json:"core,omitempty"` // core.Version
	At      effects.Time `json:"at,omitzero"`    // when it was begun
	store.Head
}

const program = "orrery"

// end is the last entry of a stream.
type end struct {
	Entries map[string]uint64 `json:"entries"` // by section, but for the head and the end
	SHA256  string            `json:"sha256"`  // of all bytes before the last block
}

// Progress tells how far a stream has come.
type Progress struct {
	Section string // what is written or read now
	Entries uint64
	Bytes   int64 // of the stream
	Raw     int64 // the same before it was compressed
	About   int64 // what Raw will come to, roughly; zero: unknown
}

// Summary tells what a stream held.
type Summary struct {
	Head    Head
	Entries map[string]uint64 // by section
	Bytes   int64             // of the stream
	Omitted []store.Omission  // what could not be read where it was written; at most [MaxOmitted] of them
	Left    uint64            // how many omissions there were, also beyond that number
}

// MaxOmitted is how many omissions a [Summary] keeps.
const MaxOmitted = 100

// omit notes an omission.
func (s *Summary) omit(o store.Omission) {
	if s.Left++; len(s.Omitted) < MaxOmitted {
		s.Omitted = append(s.Omitted, o)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The encoder and the decoder are safe for concurrent use in the one way in which they are used.
// The encoder makes its channel at its first use, which therefore is in init: a
// bubble of testing/synctest would keep it from everybody else.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
)

func init() { encoder.EncodeAll([]byte{0}, nil) }

// head is the head of a block.
type head struct {
	number      uint64
	section     section
	count       uint32
	raw, packed uint32
	sum         uint32
}

func (h head) put(b []byte) {
	binary.BigEndian.PutUint64(b[4:], h.number)
	b[12] = byte(h.section)
	binary.BigEndian.PutUint32(b[13:], h.count)
	binary.BigEndian.PutUint32(b[17:], h.raw)
	binary.BigEndian.PutUint32(b[21:], h.packed)
	binary.BigEndian.PutUint32(b[25:], h.sum)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:blockHead], castagnoli))
}

// parseHead reads what put wrote; a reason: it is none.
func parseHead(b []byte) (h head, wrong string) {
	if binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:blockHead], castagnoli) {
		return h, "the checksum of the block's head is wrong"
	}
	h = head{
		number: binary.BigEndian.Uint64(b[4:]), section: section(b[12]), count: binary.BigEndian.Uint32(b[13:]),
		raw: binary.BigEndian.Uint32(b[17:]), packed: binary.BigEndian.Uint32(b[21:]), sum: binary.BigEndian.Uint32(b[25:]),
	}
	switch {
	case h.section == 0 || h.section >= sections:
		return h, fmt.Sprintf("section %d is unknown", byte(h.section))
	case h.raw > maxBlock || h.packed > maxBlock:
		return h, fmt.Sprintf("a block of %d bytes, packed %d: at most %d", h.raw, h.packed, maxBlock)
	}
	return h, ""
}
