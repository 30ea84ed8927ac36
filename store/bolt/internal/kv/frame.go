package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// A frame is what one transaction has changed, in the order in which it did: puts and
// deletions by table and key, absolute, so that doing it twice harms nothing. It begins
// with the version of this form; then come operations, each a byte and what it needs:
//
//	t  length, name          the table of what follows
//	p  length, key, length, value
//	d  length, key
//	x                        the table is not there, and nothing in it
//
// Lengths are unsigned varints.
const (
	frameVersion = 1

	opTable  = 't'
	opPut    = 'p'
	opDelete = 'd'
	opDrop   = 'x'
)

// chunk is how many bytes a frame makes room for at once. The overlay points into it.
const chunk = 64 << 10

// frame is built by a transaction. What it gave out stays where it is.
type frame struct {
	parts [][]byte // the last one is being filled, and may have room for the next frame
	bytes int
	table string
	large []*placed
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
	if f.bytes == 0 {
		f.keep(append(f.room(1), frameVersion))
	}
	if f.table == table {
		return
	}
	f.table = table
	b := append(f.room(1+binary.MaxVarintLen64+len(table)), opTable)
	f.keep(append(binary.AppendUvarint(b, uint64(len(table))), table...))
}

// put gives an entry with its own copies of the key and the value. A value of that many bytes
// or more becomes a part of its own, which nothing but that entry holds.
func (f *frame) put(table string, key, value []byte, large int) entry {
	f.into(table)
	if len(value) >= large {
		return f.putLarge(key, value)
	}
	var k, v []byte
	b := append(f.room(1+2*binary.MaxVarintLen64+len(key)+len(value)), opPut)
	b, k = appendBytes(b, key)
	b, v = appendBytes(b, value)
	f.keep(b)
	return entry{key: k, value: v}
}

func (f *frame) putLarge(key, value []byte) entry {
	b := append(f.room(1+2*binary.MaxVarintLen64+len(key)), opPut)
	b, k := appendBytes(b, key)
	f.keep(binary.AppendUvarint(b, uint64(len(value))))
	rest := f.rest()
	p := &placed{bytes: bytes.Clone(value), at: wal.Extent{Length: len(value), Sum: wal.Sum(value)}}
	p.at.Offset = int64(f.bytes) // in the frame, until it is known where that stands
	f.large = append(f.large, p)
	f.bytes += len(value)
	f.parts = append(f.parts, p.bytes, rest)
	return entry{key: k, placed: p}
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

// redo carries the frames of a log out once more.
type redo struct {
	log    *wal.Log
	into   func(table string) *layer
	large  int
	amount amount
	places bool
	rest   []byte // room for copies, see keep
	n      uint64 // the frame, and where it stands
	at     wal.Position
	off    int // in it, of the value that is put
}

func (r *redo) frame(n uint64, payload []byte, at wal.Position) error {
	r.n, r.at = n, at
	r.amount.log += int64(len(payload))
	return eachOp(payload, &r.off, func(table string) Sink { return redone{r, r.into(table)} })
}

// keep gives a copy that stays where it is.
func (r *redo) keep(b []byte) []byte {
	if r.rest == nil || len(b) > cap(r.rest)-len(r.rest) {
		r.rest = make([]byte, 0, max(chunk, len(b)))
	}
	start := len(r.rest)
	r.rest = append(r.rest, b...)
	r.amount.memory += int64(len(b))
	return r.rest[start:len(r.rest):len(r.rest)]
}

// redone is a layer to which a frame is carried out once more.
type redone struct {
	*redo
	layer *layer
}

func (r redone) Put(key, value []byte) error {
	e := entry{key: r.keep(key)} // not fresh: a checkpoint may have stopped behind it
	if len(value) >= r.large && r.log.Readable(r.at.Segment) == nil {
		e.placed = &placed{log: r.log, at: wal.Extent{Position: r.at, Frame: r.n, Length: len(value), Sum: wal.Sum(value)}}
		e.placed.at.Offset += int64(r.off)
		r.redo.places = true
	} else {
		e.value = r.keep(value)
	}
	r.layer.put(e)
	return nil
}

func (r redone) Delete(key []byte) error {
	r.layer.remove(r.keep(key))
	return nil
}

func (r redone) Drop() error {
	r.layer.drop()
	return nil
}

// eachOp takes a frame apart. What the sink gets are parts of the payload; at becomes the place
// of the last of them.
func eachOp(payload []byte, at *int, into func(table string) Sink) error {
	bad := fmt.Errorf("%w: the frame is none of this package", store.ErrCorrupt)
	if len(payload) == 0 || payload[0] != frameVersion {
		return bad
	}
	rest := payload[1:]
	take := func() ([]byte, bool) {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil, false
		}
		end := size + int(n)
		part := rest[size:end:end]
		*at = len(payload) - len(rest) + size
		rest = rest[end:]
		return part, true
	}
	var sink Sink
	for len(rest) > 0 {
		op := rest[0]
		rest = rest[1:]
		if sink == nil && op != opTable {
			return bad
		}
		var key, value []byte
		var err error
		ok := true
		switch op {
		case opTable:
			if key, ok = take(); ok {
				sink = into(string(key))
			}
		case opPut:
			if key, ok = take(); ok {
				value, ok = take()
			}
			if ok {
				err = sink.Put(key, value)
			}
		case opDelete:
			if key, ok = take(); ok {
				err = sink.Delete(key)
			}
		case opDrop:
			err = sink.Drop()
		default:
			ok = false
		}
		if err != nil {
			return err
		}
		if !ok {
			return bad
		}
	}
	return nil
}
