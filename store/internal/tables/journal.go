package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// EpochValue is the stored form of an epoch, under its number.
type EpochValue struct {
	First   uint64       `json:"first"`
	Started effects.Time `json:"started"`
}

// readEpochs gives the epochs, at least one; it reads them once.
func (t *ReadTx) readEpochs() ([]store.Epoch, error) {
	if t.epochs != nil {
		return t.epochs, nil
	}
	var found []store.Epoch
	err := t.scan("epochs", t.table(inEpochs), nil, func(k, v []byte) (bool, error) {
		if len(k) != 8 {
			return false, fmt.Errorf("epochs: %w: key %x has %d bytes, not 8", store.ErrCorrupt, k, len(k))
		}
		var e EpochValue
		if err := ParseJSON(k, v, &e); err != nil {
			return false, fmt.Errorf("epoch %d: %w", binary.BigEndian.Uint64(k), err)
		}
		found = append(found, store.Epoch{Number: binary.BigEndian.Uint64(k), First: e.First, Started: e.Started})
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("epochs: %w: there is none, a store always has one", store.ErrCorrupt)
	}
	t.epochs = found
	return found, nil
}

// Epochs implements [store.ReadTx].
func (t *ReadTx) Epochs() ([]store.Epoch, error) {
	if err := t.check("epochs"); err != nil {
		return nil, err
	}
	epochs, err := t.readEpochs()
	return slices.Clone(epochs), err
}

// current gives the last epoch. Most transactions need only that one.
func (t *ReadTx) current() (e store.Epoch, err error) {
	if n := len(t.epochs); n > 0 {
		return t.epochs[n-1], nil
	}
	epochs, err := t.readEpochs()
	if err != nil {
		return e, err
	}
	return epochs[len(epochs)-1], nil
}

// Seq implements [store.ReadTx].
func (t *ReadTx) Seq() (seq uint64, err error) {
	if err := t.check("seq"); err != nil {
		return 0, err
	}
	return t.lastSeq()
}

// lastSeq is the last key that the journal ever had. Where retention has dropped all
// batches, the current epoch still says which one comes next.
func (t *ReadTx) lastSeq() (seq uint64, err error) {
	defer Guard("seq", &err)
	e, err := t.current()
	if err != nil {
		return 0, err
	}
	seq = e.First - 1
	if k := t.b.PastLast(NameJournal); len(k) == 8 {
		seq = max(seq, binary.BigEndian.Uint64(k))
	}
	if k, _ := t.table(inJournal).WarmCursor().Last(); len(k) == 8 {
		seq = max(seq, binary.BigEndian.Uint64(k))
	} else if k != nil {
		return 0, fmt.Errorf("seq: %w: journal key %x has %d bytes, not 8", store.ErrCorrupt, k, len(k))
	}
	return seq, nil
}

// lastSeq of a writer is read once.
func (t *Tx) lastSeq() (uint64, error) {
	if t.seqKnown {
		return t.seq, nil
	}
	seq, err := t.ReadTx.lastSeq()
	t.seq, t.seqKnown = seq, err == nil
	return seq, err
}

// Journal implements [store.ReadTx].
func (t *ReadTx) Journal(from uint64, fn func(seq uint64, entry []byte) error) error {
	if err := t.check("journal"); err != nil {
		return err
	}
	epochs, err := t.readEpochs()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	want := max(from, epochs[0].First) // what stands before is being dropped
	key := SeqKey(want)
	return t.scan("journal", t.table(inJournal), key[:], func(k, v []byte) (bool, error) {
		if len(k) != 8 {
			return false, fmt.Errorf("journal: %w: key %x has %d bytes, not 8", store.ErrCorrupt, k, len(k))
		}
		seq := binary.BigEndian.Uint64(k)
		if seq != want {
			return false, fmt.Errorf("journal: %w: batch %d is missing, %d comes next", store.ErrCorrupt, want, seq)
		}
		want++
		entry, err := parseEntry(k, v, &t.texts)
		if err != nil {
			return false, fmt.Errorf("journal batch %d: %w", seq, err)
		}
		return true, fn(seq, entry)
	})
}

// AppendJournal implements [store.Tx].
func (t *Tx) AppendJournal(seq uint64, at effects.Time, entry []byte) (err error) {
	if err := t.check("append journal"); err != nil {
		return err
	}
	defer Guard("append journal", &err)
	last, err := t.lastSeq()
	if err != nil {
		return fmt.Errorf("append journal: %w", err)
	}
	if seq != last+1 {
		return fmt.Errorf("append journal: batch %d is out of order: want %d", seq, last+1)
	}
	key := SeqKey(seq)
	t.scratch = appendEntry(t.scratch[:0], key[:], at, entry)
	t.table(inJournal).PutNew(key[:], t.scratch)
	t.changed.begin(t, seq)
	t.seq, t.appended = seq, true
	return nil
}

// unappended fails where records were put for a batch that is not there.
func (t *Tx) unappended() error {
	if t.put != 0 && (!t.seqKnown || t.put > t.seq) {
		return fmt.Errorf("records were put for batch %d, which was not appended to the journal", t.put)
	}
	return nil
}

// BeginEpoch implements [store.Tx].
func (t *Tx) BeginEpoch(at effects.Time) (err error) {
	if err := t.check("begin epoch"); err != nil {
		return err
	}
	defer Guard("begin epoch", &err)
	if err := t.unappended(); err != nil {
		return fmt.Errorf("begin epoch: %w", err)
	}
	last, err := t.current()
	if err != nil {
		return fmt.Errorf("begin epoch: %w", err)
	}
	seq, err := t.lastSeq()
	if err != nil {
		return fmt.Errorf("begin epoch: %w", err)
	}
	e := store.Epoch{Number: last.Number + 1, First: seq + 1, Started: ClampTime(at)}
	key := SeqKey(e.Number)
	if err := t.putJSON("begin epoch", inEpochs, key[:], EpochValue{e.First, e.Started}); err != nil {
		return err
	}
	t.epochs = append(t.epochs, e)
	return nil
}

// keepBase copies a record as it stands before its first change in the current epoch, in
// that batch.
func (t *Tx) keepBase(e store.Epoch, seq uint64, kind effects.Kind, id uuid.UUID, raw []byte) {
	at, epoch := SeqKey(seq), SeqKey(e.Number)
	t.table(inBases).PutNew(append(append(at[:], epoch[:]...), CountKey(kind, id[:])...), raw)
}

// Base implements [store.ReadTx].
func (t *ReadTx) Base(epoch uint64, fn func(store.Record) error) error {
	if err := t.check("base"); err != nil {
		return err
	}
	epochs, err := t.readEpochs()
	if err != nil {
		return fmt.Errorf("base of epoch %d: %w", epoch, err)
	}
	i := slices.IndexFunc(epochs, func(e store.Epoch) bool { return e.Number == epoch })
	if i < 0 {
		return fmt.Errorf("base of epoch %d: %w: the journal covers %d to %d", epoch, store.ErrNotFound, epochs[0].Number, epochs[len(epochs)-1].Number)
	}
	var bad []error
	visit := func(k, v []byte) error {
		kind, id, ok := splitBaseKey(k)
		r, err := store.Record{}, fmt.Errorf("%w: key %x is no kind and id", store.ErrCorrupt, k)
		if ok {
			r, err = ParseRecord(effects.Kind(t.text(kind)), id, v, &t.texts)
		}
		if err != nil {
			bad = appendBad(bad, &store.RecordError{Op: "base", Kind: effects.Kind(kind), ID: id, Err: err})
			return nil
		}
		return fn(r)
	}
	base, err := t.openNamed("base", baseTable(epoch)) // of a build that had no archive
	if err == nil {
		err = t.scan("base", base, nil, func(k, v []byte) (bool, error) { return true, visit(k, v) })
	}
	if err == nil {
		first := SeqKey(epochs[i].First)
		err = t.scan("base", t.table(inBases), first[:], func(k, v []byte) (bool, error) {
			switch {
			case len(k) < 16:
				return true, visit(nil, nil)
			case i+1 < len(epochs) && binary.BigEndian.Uint64(k) > epochs[i+1].First: // several may begin at one batch
				return false, nil
			case binary.BigEndian.Uint64(k[8:]) != epoch:
				return true, nil
			}
			return true, visit(k[16:], v)
		})
	}
	return errors.Join(append(bad, err)...)
}

// openNamed is named for callers without a guard of their own.
func (t *ReadTx) openNamed(op, name string) (table *table, err error) {
	defer Guard(op, &err)
	return t.named(name), nil
}

// DropEpochs implements [store.Tx].
func (t *Tx) DropEpochs(before uint64, limit int) (more bool, err error) {
	if err := t.check("drop epochs"); err != nil {
		return false, err
	}
	defer Guard("drop epochs", &err)
	if limit < 1 {
		return false, fmt.Errorf("drop epochs: limit is %d: want at least 1", limit)
	}
	epochs, err := t.readEpochs()
	if err != nil {
		return false, fmt.Errorf("drop epochs: %w", err)
	}
	if last := epochs[len(epochs)-1].Number; before > last {
		return false, fmt.Errorf("drop epochs before %d: the current epoch is %d and stays", before, last)
	}
	// The epochs go first: no reader may start from a half that is left.
	for len(epochs) > 0 && epochs[0].Number < before {
		key := SeqKey(epochs[0].Number)
		t.table(inEpochs).Delete(key[:])
		epochs = epochs[1:]
	}
	t.epochs = slices.Clone(epochs)
	first := SeqKey(epochs[0].First)
	left := limit // the archive goes by itself: see pastOptions
	for _, table := range []int{inJournal, inChanges, inBases} {
		if left = deleteBefore(t.table(table), first[:], left); left == 0 {
			return true, nil
		}
	}
	return t.dropBases(epochs[0].Number, left)
}

// dropBases deletes the bases of all epochs before that one, at most limit
// entries of them.
func (t *Tx) dropBases(number uint64, limit int) (more bool, err error) {
	var old []string
	err = t.buckets(BasePrefix, func(name string) bool {
		n, err := strconv.ParseUint(strings.TrimPrefix(name, BasePrefix), 10, 64)
		if err == nil && n < number {
			old = append(old, name)
		}
		return err == nil && n < number
	})
	if err != nil {
		return false, fmt.Errorf("drop epochs: %w", err)
	}
	for _, name := range old {
		if limit = deleteBefore(t.named(name), nil, limit); limit == 0 {
			return true, nil
		}
		t.b.Drop(name)
	}
	return false, nil
}

// deleteBefore deletes the entries before end (nil: all), at most limit, and
// gives how many more it might have deleted; 0 says that some may be left.
func deleteBefore(table *table, end []byte, limit int) (left int) {
	c := table.WarmCursor()
	k, _ := c.First()
	for ; k != nil && (end == nil || string(k) < string(end)); limit-- {
		if limit == 0 {
			return 0
		}
		table.Delete(k)
		k, _ = c.Next()
	}
	return max(limit, 0)
}

// BatchAt gives the clock reading of a batch; ok is false if the journal does not have it.
func (t *ReadTx) BatchAt(seq uint64) (at effects.Time, ok bool, err error) {
	if err := t.check("a batch"); err != nil {
		return 0, false, err
	}
	defer Guard("a batch", &err)
	key := SeqKey(seq)
	raw, ok := t.table(inJournal).Get(key[:])
	if !ok {
		return 0, false, nil
	}
	at, err = EntryAt(key[:], raw)
	return at, err == nil, err
}
