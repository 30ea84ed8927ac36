package tables

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// What a batch has changed stands under its number:
//
//	version (1), the digest (8), and for each record, by kind and id:
//	  length, kind; id (16); flags (1); the batch before, where there was one;
//	  and, unless a base has what stood there: prefix, suffix, length, middle of the delta
//	checksum (4), CRC-32C of the key and all of that
//
// Lengths and numbers are unsigned varints, the digest and the checksum big endian.
const (
	changesVersion = 1
	changedNew     = 1
	changedGone    = 2
	changedBased   = 4 // with changedGone: a base has what stood there
	changesHead    = 1 + 8
)

// changes gathers what a transaction changes, batch by batch.
type changes struct {
	seq    uint64 // zero: nothing was gathered
	dirty  bool   // something is not yet put
	digest uint64
	b      []byte
}

// begin ends the batch before, unless it is the same one.
func (c *changes) begin(t *Tx, seq uint64) {
	if c.seq == seq {
		return
	}
	c.put(t)
	c.seq, c.digest, c.dirty = seq, 0, true
	c.b = append(append(c.b[:0], changesVersion), make([]byte, changesHead-1)...)
}

// add notes that a record is written; old is what stood there, with Version 0 nothing. based
// says that a base has that.
func (c *changes) add(w *store.Write, old *store.Record, based bool) {
	c.dirty = true
	c.digest += store.Digest(w.Kind, w.ID, w.State)
	change := store.Changed{Kind: w.Kind, ID: w.ID, Before: old.Seq, Gone: w.State == nil}
	if inBase := change.Gone && based; old.Version != 0 && !inBase {
		change.Delta = store.DeltaOf(old.State, w.State)
	}
	c.b = appendChanged(c.b, &change, old.Version == 0)
}

// appendChanged appends one change; isNew: there was no record.
func appendChanged(b []byte, c *store.Changed, isNew bool) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(c.Kind))), c.Kind...)
	b = append(b, c.ID[:]...)
	d := &c.Delta
	switch {
	case isNew:
		return append(b, changedNew)
	case c.Gone && d.Prefix == 0 && d.Suffix == 0 && len(d.Middle) == 0: // a state is never empty
		return binary.AppendUvarint(append(b, changedGone|changedBased), c.Before)
	}
	flags := byte(0)
	if c.Gone {
		flags = changedGone
	}
	b = binary.AppendUvarint(append(b, flags), c.Before)
	b = binary.AppendUvarint(b, uint64(d.Prefix))
	b = binary.AppendUvarint(b, uint64(d.Suffix))
	return append(binary.AppendUvarint(b, uint64(len(d.Middle))), d.Middle...)
}

// put writes what was gathered.
func (c *changes) put(t *Tx) {
	if !c.dirty || t.b == nil {
		return
	}
	key := SeqKey(c.seq)
	sealed := sealChanges(c.b, key[:], c.digest)
	t.table(inChanges).PutNew(key[:], sealed)
	c.b, c.dirty = sealed[:len(c.b)], false
}

// sealChanges fills in the digest, and appends the checksum.
func sealChanges(b, key []byte, digest uint64) []byte {
	binary.BigEndian.PutUint64(b[1:], digest)
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b))
}

// Batch of a writer reads also what it has written itself.
func (t *Tx) Batch(seq uint64) (store.Batch, error) {
	t.changed.put(t)
	return t.ReadTx.Batch(seq)
}

// Batches of a writer, likewise.
func (t *Tx) Batches(from uint64, fn func(store.Batch) error) error {
	t.changed.put(t)
	return t.ReadTx.Batches(from, fn)
}

// parseChanges reads what put wrote.
func (t *ReadTx) parseChanges(key, raw []byte, b *store.Batch) error {
	bad := fmt.Errorf("changes: %w: what stands there is none of this package", store.ErrCorrupt)
	if len(raw) < changesHead+4 || raw[0] != changesVersion {
		return bad
	}
	end := len(raw) - 4
	if crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, raw[:end]) != binary.BigEndian.Uint32(raw[end:]) {
		return fmt.Errorf("changes: %w: the checksum is wrong", store.ErrCorrupt)
	}
	b.Known, b.Digest = true, binary.BigEndian.Uint64(raw[1:])
	p := changeParser{rest: raw[changesHead:end], ok: true}
	for p.ok && len(p.rest) > 0 {
		c := store.Changed{Kind: effects.Kind(t.text(p.bytes(p.number())))}
		c.ID = uuid.UUID(append(p.bytes(uint64(IDLen)), make([]byte, IDLen)...)[:IDLen])
		flags := p.bytes(1)
		if !p.ok {
			break
		}
		c.Gone = flags[0]&changedGone != 0
		if flags[0]&changedNew == 0 {
			c.Before = p.number()
			if flags[0]&changedBased == 0 {
				c.Delta = store.Delta{Prefix: int(p.number()), Suffix: int(p.number()), Middle: p.bytes(p.number())}
			}
		}
		b.Changes = append(b.Changes, c)
	}
	if !p.ok {
		return bad
	}
	return nil
}

// changeParser takes a value apart; what is not as expected spoils all that follows.
type changeParser struct {
	rest []byte
	ok   bool
}

func (p *changeParser) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	if p.ok = p.ok && size > 0; !p.ok {
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *changeParser) bytes(n uint64) []byte {
	if p.ok = p.ok && n <= uint64(len(p.rest)); !p.ok {
		return nil
	}
	part := p.rest[:n:n]
	p.rest = p.rest[n:]
	return part
}

// Batch implements [store.ReadTx].
func (t *ReadTx) Batch(seq uint64) (b store.Batch, err error) {
	if err := t.check("batch"); err != nil {
		return b, err
	}
	defer Guard("batch", &err)
	epochs, err := t.readEpochs()
	if err != nil {
		return b, fmt.Errorf("batch %d: %w", seq, err)
	}
	key := SeqKey(seq)
	raw, ok := t.table(inJournal).Get(key[:])
	if !ok || seq < epochs[0].First {
		return b, fmt.Errorf("batch %d: %w: the journal does not have it", seq, store.ErrNotFound)
	}
	b.Seq = seq
	if b.Entry, err = parseEntry(key[:], raw, &t.texts); err == nil {
		if raw, ok = t.table(inChanges).Get(key[:]); ok {
			err = t.parseChanges(key[:], raw, &b)
		}
	}
	if err != nil {
		return b, fmt.Errorf("batch %d: %w", seq, err)
	}
	return b, nil
}

// Batches implements [store.ReadTx].
func (t *ReadTx) Batches(from uint64, fn func(store.Batch) error) error {
	key := SeqKey(from)
	c := t.table(inChanges).Cursor()
	k, v, err := seek("batches", c, key[:])
	if err != nil {
		return err
	}
	return t.Journal(from, func(seq uint64, entry []byte) error {
		b := store.Batch{Seq: seq, Entry: entry}
		key := SeqKey(seq)
		for k != nil && string(k) < string(key[:]) {
			if k, v, err = next("batches", c); err != nil {
				return err
			}
		}
		if string(k) == string(key[:]) {
			if err := t.parseChanges(k, v, &b); err != nil {
				return fmt.Errorf("batch %d: %w", seq, err)
			}
		}
		return fn(b)
	})
}

// JournalBytes implements [store.ReadTx]: as the backing knows it, or else by reading it. What an earlier
// build of package bolt wrote into the file, or a backup, does not count there.
func (t *ReadTx) JournalBytes(from, before uint64) (int64, error) {
	if err := t.check("journal bytes"); err != nil {
		return 0, err
	}
	if s, ok := t.b.(Sizer); ok {
		return s.JournalBytes(from, before), nil
	}
	n, first := int64(0), SeqKey(from)
	for _, in := range []int{inJournal, inChanges, inBases} {
		err := t.scan("journal bytes", t.table(in), first[:], func(k, v []byte) (bool, error) {
			if before != 0 && len(k) >= 8 && binary.BigEndian.Uint64(k) >= before {
				return false, nil
			}
			n += int64(len(k) + len(v))
			return true, nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
