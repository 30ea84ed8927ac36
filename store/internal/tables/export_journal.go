package tables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// journal gives bases, batches and epochs. An epoch of which anything cannot be read is
// left out with all before it: from the next one on the journal can be replayed. What of it was
// given already does not count, since no epoch has it. lost is why all is left out; nil: it is not.
func (x *exporter) journal(lost error) error {
	epochs, err := x.readEpochs()
	if err != nil {
		return err
	}
	last, err := x.lastSeq()
	if err != nil {
		return err
	}
	kept := 0
	if lost != nil {
		kept = len(epochs)
	}
	for kept < len(epochs) {
		w := journalWalk{exporter: x, epochs: epochs[kept:], at: epochs[kept].First}
		err := w.all()
		if err == nil {
			break
		}
		if x.refused != nil || !errors.Is(err, store.ErrCorrupt) || x.check("journal") != nil {
			return err
		}
		for lost = err; kept < len(epochs) && epochs[kept].First <= w.at; kept++ {
		}
	}
	if kept > 0 {
		o := store.Omission{What: "journal", From: epochs[0].First, To: last, Reason: lost.Error()}
		if kept < len(epochs) {
			o.To = epochs[kept].First - 1
		}
		if err := x.to.Omitted(o); err != nil {
			return err
		}
	}
	if epochs = epochs[kept:]; len(epochs) == 0 {
		epochs = []store.Epoch{{Number: x.epoch.Number + 1, First: last + 1, Started: x.epoch.Started}}
	}
	for _, e := range epochs {
		if err := x.to.Epoch(e); err != nil {
			return err
		}
	}
	return nil
}

// journalWalk goes through the journal by the numbers of the batches, from the first of the
// epochs on.
type journalWalk struct {
	*exporter
	epochs []store.Epoch
	old    int    // how many of the epochs have given the bases of a build that had no archive
	at     uint64 // the number of the batch that comes next
	bases  entries
	// changes are those of at, or of a later batch.
	changes entries
}

// entries are a table on the way through it.
type entries struct {
	c    Cursor
	k, v []byte
}

func (w *journalWalk) open(in int) (e entries, err error) {
	first := SeqKey(w.at)
	e.c = w.table(in).Cursor()
	e.k, e.v, err = seek("journal", e.c, first[:])
	return e, err
}

func (e *entries) next() (err error) {
	e.k, e.v, err = next("journal", e.c)
	return err
}

func (w *journalWalk) all() (err error) {
	if w.bases, err = w.open(inBases); err != nil {
		return err
	}
	if w.changes, err = w.open(inChanges); err != nil {
		return err
	}
	first := SeqKey(w.at)
	err = w.scan("journal", w.table(inJournal), first[:], func(k, v []byte) (bool, error) {
		if len(k) != 8 || binary.BigEndian.Uint64(k) != w.at {
			return false, fmt.Errorf("journal: %w: batch %d is missing, the key %x comes next", store.ErrCorrupt, w.at, k)
		}
		if err := w.basesUpTo(w.at); err != nil {
			return false, err
		}
		if err := w.batch(k, v); err != nil {
			return false, err
		}
		w.at++
		return true, nil
	})
	if err == nil {
		err = w.basesUpTo(^uint64(0))
	}
	return err
}

func (w *journalWalk) batch(k, v []byte) error {
	b := store.Batch{Seq: w.at}
	entry := openEntry(k, v)
	at, err := entry.at()
	if err == nil {
		b.Entry, err = entry.text(w.room.again())
	}
	if err != nil {
		return fmt.Errorf("journal batch %d: %w: %w", w.at, store.ErrCorrupt, err)
	}
	for w.changes.k != nil && string(w.changes.k) < string(k) {
		if err := w.changes.next(); err != nil {
			return err
		}
	}
	if string(w.changes.k) == string(k) {
		if err := w.parseChanges(k, w.changes.v, &b); err != nil {
			return fmt.Errorf("batch %d: %w", w.at, err)
		}
	}
	return w.give(w.to.Batch(at, b))
}

// basesUpTo gives what the epochs keep under numbers up to that one.
func (w *journalWalk) basesUpTo(seq uint64) error {
	for ; w.old < len(w.epochs) && w.epochs[w.old].First <= seq; w.old++ {
		e := w.epochs[w.old]
		table, err := w.openNamed("base", baseTable(e.Number))
		if err == nil {
			err = w.scan("base", table, nil, func(k, v []byte) (bool, error) { return true, w.base(e.Number, e.First, k, v) })
		}
		if err != nil {
			return err
		}
	}
	for b := &w.bases; b.k != nil; {
		if len(b.k) < 16 {
			return fmt.Errorf("base: %w: key %x is no kind and id", store.ErrCorrupt, b.k)
		}
		at, epoch := binary.BigEndian.Uint64(b.k), binary.BigEndian.Uint64(b.k[8:])
		if at > seq {
			break
		}
		if epoch >= w.epochs[0].Number { // else it is being dropped, or left out
			if err := w.base(epoch, at, b.k[16:], b.v); err != nil {
				return err
			}
		}
		if err := b.next(); err != nil {
			return err
		}
	}
	return nil
}

func (w *journalWalk) base(epoch, seq uint64, k, v []byte) error {
	kind, id, ok := splitBaseKey(k)
	if !ok {
		return fmt.Errorf("base of epoch %d: %w: key %x is no kind and id", epoch, store.ErrCorrupt, k)
	}
	r, err := ParseRecord(effects.Kind(w.text(kind)), id, v, w.room.again())
	if err != nil {
		return fmt.Errorf("base of epoch %d: %s: %w", epoch, id, err)
	}
	return w.give(w.to.Base(epoch, seq, r))
}
