package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/pack"
)

// Records and the journal's entries, which are most of what is stored, are packed:
//
//	form (1 byte: 1); checksum (4), CRC-32C of the value's key and of all that follows;
//	a record's version and batch, or an entry's time; the length of the text; the text, packed
//
// The checksum is big endian, numbers are unsigned varints. Up to format 3 such a value was a JSON
// object as the others are, and is read as one where it begins with a brace:
//
//	{"crc":"1a2b3c4d","version":3,"seq":123,"state":{...}}
//	{"crc":"1a2b3c4d","at":"2026-11-23T14:45:01.250Z","batch":{...}}

const (
	formPacked = 1
	packedHead = 1 + 4
	// packedMost bounds how much longer a text can be than its packed form.
	packedMost = 128
)

// Texts is memory for Texts that live as long as the transaction: the first ones take what they need,
// then they share.
type Texts struct{ free []byte }

const textsShare = 64 << 10

// take gives room for n bytes.
func (t *Texts) take(n int) []byte {
	if cap(t.free)-len(t.free) < n {
		t.free = make([]byte, 0, max(n, min(2*cap(t.free), textsShare)))
	}
	from := len(t.free)
	t.free = t.free[:from+n]
	return t.free[from : from : from+n]
}

// again gives all of it once more: what was there is not needed any longer.
func (t *Texts) again() *Texts {
	t.free = t.free[:0]
	return t
}

// openPack appends the beginning of a packed value, with room for the checksum.
func openPack(b []byte) []byte { return append(b, formPacked, 0, 0, 0, 0) }

// appendPacked appends the end of a packed value: the text, and before it how long it is.
func appendPacked(b, text []byte) []byte {
	return pack.Append(binary.AppendUvarint(b, uint64(len(text))), text)
}

// closePacked fills in the checksum of the value that begins at start.
func closePacked(b []byte, start int, s sum) []byte {
	c := crc32.Update(uint32(s), castagnoli, b[start+packedHead:])
	binary.BigEndian.PutUint32(b[start+1:], c)
	return b
}

// text reads the end of a packed value into room.
func (p *packed) text(room *Texts) []byte {
	n := p.number()
	if p.err == nil && n > packedMost*uint64(len(p.rest)) {
		p.err = errPacked
	}
	if p.err != nil {
		return nil
	}
	text, err := pack.AppendText(room.take(int(n)), p.rest)
	if err != nil || uint64(len(text)) != n {
		p.err = errPacked
		return nil
	}
	return text
}

// packed reads the fields of a value in their order. The first thing that is not as expected spoils
// all that follows.
type packed struct {
	rest []byte
	err  error
}

var errPacked = fmt.Errorf("%w: the value has another form than expected", store.ErrCorrupt)

// openPacked checks a value and gives its fields.
func openPacked(raw []byte, s sum) packed {
	if len(raw) < packedHead || raw[0] != formPacked {
		return packed{err: fmt.Errorf("%w: the value is neither an envelope nor packed as this package does it", store.ErrCorrupt)}
	}
	want := binary.BigEndian.Uint32(raw[1:])
	if got := crc32.Update(uint32(s), castagnoli, raw[packedHead:]); got != want {
		return packed{err: fmt.Errorf("%w: the checksum is %08x, the content has %08x", store.ErrCorrupt, want, got)}
	}
	return packed{rest: raw[packedHead:]}
}

func (p *packed) number() uint64 {
	if p.err != nil {
		return 0
	}
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.err = errPacked
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// isEnvelope reports whether a value is as formats before 4 had it.
func isEnvelope(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// AppendRecord appends the stored form of a record.
func AppendRecord(b []byte, kind effects.Kind, id uuid.UUID, version, seq uint64, state []byte) []byte {
	start := len(b)
	b = binary.AppendUvarint(openPack(b), version)
	b = binary.AppendUvarint(b, seq)
	return closePacked(appendPacked(b, state), start, recordSum(kind, id))
}

// recordRoom is the most that AppendRecord adds to the state, unless that has bytes that are no JSON text.
const recordRoom = packedHead + 3*binary.MaxVarintLen64

// ParseRecord reads what AppendRecord wrote; the state is part of raw or of room.
func ParseRecord(kind effects.Kind, id uuid.UUID, raw []byte, room *Texts) (store.Record, error) {
	r := store.Record{Kind: kind, ID: id}
	if isEnvelope(raw) {
		f := openFields(raw, recordSum(kind, id))
		r.Version = f.number(`"version":`)
		r.Seq = f.number(`,"seq":`)
		r.State = f.remainder(`,"state":`)
		return r, f.err
	}
	p := openPacked(raw, recordSum(kind, id))
	r.Version = p.number()
	r.Seq = p.number()
	r.State = p.text(room)
	return r, p.err
}

// Legible gives what can be read of a record's value, however damaged it is: who mends what it
// leads to looks for names and ids in it, and so does a person.
func Legible(raw []byte) []byte {
	if len(raw) <= packedHead || raw[0] != formPacked {
		return raw
	}
	p := packed{rest: raw[packedHead:]}
	for range 3 { // version, batch, length
		p.number()
	}
	if p.err != nil {
		return raw
	}
	text, err := pack.AppendText(nil, p.rest)
	if err != nil && len(text) == 0 {
		return raw
	}
	return text
}

func appendEntry(b, key []byte, at effects.Time, entry []byte) []byte {
	start := len(b)
	b = binary.AppendUvarint(openPack(b), uint64(ClampTime(at)))
	return closePacked(appendPacked(b, entry), start, sumOf(key))
}

// openedEntry is an entry of the journal whose checksum was checked, and whose time was read.
type openedEntry struct {
	packed packed       // what follows the time
	ms     effects.Time // the time
	// of formats before 4:
	isFormer bool
	former   fields
	time     []byte // nil: null
}

// openEntry checks what appendEntry wrote.
func openEntry(key, raw []byte) (e openedEntry) {
	if e.isFormer = isEnvelope(raw); !e.isFormer {
		e.packed = openPacked(raw, sumOf(key))
		e.ms = effects.Time(e.packed.number())
		return e
	}
	e.former = openFields(raw, sumOf(key))
	if bytes.HasPrefix(e.former.rest, []byte(`"at":null`)) {
		e.former.name(`"at":null`)
	} else {
		e.time = e.former.text(`"at":`)
	}
	return e
}

// at gives the clock reading.
func (e *openedEntry) at() (effects.Time, error) {
	switch {
	case !e.isFormer:
		return e.ms, e.packed.err
	case e.former.err != nil || e.time == nil:
		return 0, e.former.err
	}
	return effects.ParseTime(string(e.time))
}

// text gives the batch, which is part of the value or of room.
func (e *openedEntry) text(room *Texts) ([]byte, error) {
	if e.isFormer {
		text := e.former.remainder(`,"batch":`)
		return text, e.former.err
	}
	text := e.packed.text(room)
	return text, e.packed.err
}

// parseEntry reads the text of an entry.
func parseEntry(key, raw []byte, room *Texts) ([]byte, error) {
	e := openEntry(key, raw)
	return e.text(room)
}

// EntryAt reads the clock reading of an entry.
func EntryAt(key, raw []byte) (effects.Time, error) {
	e := openEntry(key, raw)
	return e.at()
}
