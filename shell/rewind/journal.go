package rewind

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// journal is what the journal has of the batches that are to be undone.
type journal struct {
	ctx       context.Context //nolint:containedctx // lives as long as one Export
	o         Options
	report    *Report
	epochs    []store.Epoch
	last      uint64              // batch of the source
	to        uint64              // batch that stays
	core      string              // that decided it; empty: it is not known
	until     effects.Time        // what came later than that is left out
	aside     map[effects.Ref]int // records that were set aside, and how often since the batch that stays
	changes   *sorter
	digests   []uint64            // from that of the batch that stays on: what is not found yet
	known     bool                // the first of them is
	counted   bool                // the journal has all changes of the epoch of the batch that stays, up to it
	unchecked map[uint64]struct{} // batches of which nobody knows all that they left
	key       []byte
	value     []byte
}

// An entry of changes has a key of kind, 0, id, the batch (inverted: the last one comes first), and its
// sort; the value of a change begins with its flags and the batch before.
const (
	sortChange = 0
	sortBase   = 1 // what an epoch keeps: the state before its first batch, if nothing changed it by then

	flagNew    = 1
	flagGone   = 2
	flagBased  = 4 // what stood there a base has
	changeTail = 8 + 1
)

// read reads all that it takes to undo.
func (j *journal) read(tx store.ReadTx) (err error) {
	if j.last, err = tx.Seq(); err != nil {
		return err
	}
	if j.epochs, err = tx.Epochs(); err != nil {
		return err
	}
	if err := j.target(tx); err != nil {
		return err
	}
	list, err := tx.Quarantine(1 << 20)
	if err != nil {
		return err
	}
	for _, q := range list {
		ref := effects.Ref{Kind: q.Kind, ID: q.ID}
		since := j.aside[ref]
		if q.At.After(j.report.To.At) {
			since++
		}
		j.aside[ref] = since
	}
	j.digests = make([]uint64, j.last-j.to+1)
	if err := j.stays(tx); err != nil {
		return err
	}
	if err := j.undone(tx); err != nil {
		return err
	}
	return j.bases(tx)
}

// target finds the batch that stays, and what is to be told of it.
func (j *journal) target(tx store.ReadTx) (err error) {
	first := j.epochs[0].First
	if j.report.From, _, err = place(tx, j.last); err != nil {
		return err
	}
	j.to = j.o.Batch
	if !j.o.At.IsZero() {
		if j.to, err = j.batchAt(tx, first); err != nil {
			return err
		}
	}
	switch {
	case j.to > j.last:
		return fmt.Errorf("batch %d is to come: the store has %s", j.to, j.report.From)
	case j.to+1 < first:
		return fmt.Errorf("%w: it begins with batch %d, so batch %d is the first one that can be had", ErrUnreachable, first, first-1)
	}
	if j.report.To, j.core, err = place(tx, j.to); err != nil {
		return err
	}
	if j.until = max(j.report.To.At, j.o.At); j.until.IsZero() && j.to < j.last {
		next, _, err := place(tx, j.to+1)
		if err != nil {
			return err
		}
		j.until = next.At
	}
	return nil
}

// place gives the clock reading and the core of a batch, as far as the journal has it.
func place(tx store.ReadTx, seq uint64) (p Place, decidedBy string, err error) {
	p.Batch = seq
	b, err := tx.Batch(seq)
	if errors.Is(err, store.ErrNotFound) {
		return p, "", nil
	}
	if err != nil {
		return p, "", err
	}
	e, err := core.DecodeEntry(b.Entry)
	if err != nil {
		return p, "", fmt.Errorf("batch %d: %w: %w", seq, store.ErrCorrupt, err)
	}
	p.At = e.At
	return p, e.Core, nil
}

// errFound ends a walk.
var errFound = errors.New("found")

// batchAt gives the batch before the first one that was decided later than asked for.
func (j *journal) batchAt(tx store.ReadTx, first uint64) (uint64, error) {
	to, later := j.last, effects.Time(0)
	err := tx.Journal(first, func(seq uint64, raw []byte) error {
		e, err := core.DecodeEntry(raw)
		if err != nil {
			return fmt.Errorf("batch %d: %w: %w", seq, store.ErrCorrupt, err)
		}
		if !e.At.After(j.o.At) {
			return j.ctx.Err()
		}
		to, later = seq-1, e.At
		return errFound
	})
	switch {
	case err != nil && !errors.Is(err, errFound):
		return 0, fmt.Errorf("find the batch of %s: %w", j.o.At, err)
	case to+1 == first && later.IsZero():
		return 0, fmt.Errorf("%w: it has no batch that tells a time", ErrUnreachable)
	case to+1 == first:
		return 0, fmt.Errorf("%w: it begins with batch %d of %s, which is later than %s", ErrUnreachable, first, later, j.o.At)
	}
	return to, nil
}

// epochOf gives the epoch of the batch that stays; false: the journal begins behind it.
func (j *journal) epochOf() (e store.Epoch, ok bool) {
	for _, next := range j.epochs {
		if next.First <= j.to {
			e, ok = next, true
		}
	}
	return e, ok
}

// stays reads from the epoch's first batch up to the one that stays which records they changed: so
// the versions can be told of those that are gone. If they cannot be read, the versions begin anew.
func (j *journal) stays(tx store.ReadTx) error {
	e, ok := j.epochOf()
	if j.counted = ok; !ok {
		return nil
	}
	err := tx.Batches(e.First, func(b store.Batch) error {
		if b.Seq > j.to {
			return errFound
		}
		j.counted = j.counted && b.Known
		if b.Seq == j.to && b.Known {
			j.digests[0], j.known = b.Digest, true
		}
		for i := range b.Changes {
			c := b.Changes[i]
			c.Delta = store.Delta{}
			if err := j.addChange(b.Seq, &c); err != nil {
				return err
			}
		}
		return j.ctx.Err()
	})
	switch {
	case err == nil, errors.Is(err, errFound):
		return nil
	case errors.Is(err, store.ErrCorrupt): // the export tells
		j.counted = false
		return nil
	}
	return err
}

// undone reads the batches that are to be undone.
func (j *journal) undone(tx store.ReadTx) error {
	next, bad := j.to+1, uint64(0)
	var why error
	for next <= j.last {
		err := tx.Batches(next, func(b store.Batch) error {
			if b.Seq != next {
				return fmt.Errorf("%w: batch %d is missing, %d comes next", store.ErrCorrupt, next, b.Seq)
			}
			if !b.Known {
				bad, why = b.Seq, errors.New("an earlier build did not note what it changed")
			}
			next++
			if why != nil {
				return j.ctx.Err()
			}
			j.digests[b.Seq-j.to] = b.Digest
			for i := range b.Changes {
				if err := j.addChange(b.Seq, &b.Changes[i]); err != nil {
					return err
				}
			}
			return j.ctx.Err()
		})
		switch {
		case err == nil && next <= j.last:
			err = fmt.Errorf("%w: it is missing", store.ErrCorrupt)
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			return err
		}
		if err != nil {
			bad, why = next, err
			next++
		}
	}
	if why != nil {
		return fmt.Errorf("%w: batch %d cannot be undone: %w: batch %d is the first one that can be had", ErrUnreachable, bad, why, bad)
	}
	return nil
}

// bases reads what the epochs that are undone, wholly or in part, keep. What cannot be read of it
// is missed where it is needed.
func (j *journal) bases(tx store.ReadTx) error {
	since, _ := j.epochOf()
	for _, e := range j.epochs {
		if e.First < since.First {
			continue
		}
		err := tx.Base(e.Number, func(r store.Record) error {
			if r.Seq >= e.First {
				return fmt.Errorf("%w: epoch %d, which begins with batch %d, keeps %s/%s of batch %d", store.ErrCorrupt, e.Number, e.First, r.Kind, r.ID, r.Seq)
			}
			j.setKey(effects.Ref{Kind: r.Kind, ID: r.ID}, e.First, sortBase)
			j.value = binary.AppendUvarint(j.value[:0], r.Version)
			j.value = binary.AppendUvarint(j.value, r.Seq)
			j.value = append(j.value, r.State...)
			return errors.Join(j.changes.add(j.key, j.value), j.ctx.Err())
		})
		if _, err = store.Unreadable(err); err != nil {
			return err
		}
	}
	return j.changes.begin()
}

func (j *journal) setKey(ref effects.Ref, seq uint64, sort byte) {
	j.key = appendRef(j.key[:0], ref)
	j.key = binary.BigEndian.AppendUint64(j.key, ^seq)
	j.key = append(j.key, sort)
}

// appendRef appends a record's name, in the order of kinds and ids.
func appendRef(b []byte, ref effects.Ref) []byte {
	return append(append(append(b, ref.Kind...), 0), ref.ID[:]...)
}

func (j *journal) addChange(seq uint64, c *store.Changed) error {
	j.setKey(effects.Ref{Kind: c.Kind, ID: c.ID}, seq, sortChange)
	flags, d := byte(0), &c.Delta
	if c.Before == 0 {
		flags |= flagNew
	}
	if c.Gone {
		flags |= flagGone
		if d.Prefix == 0 && d.Suffix == 0 && len(d.Middle) == 0 {
			flags |= flagBased
		}
	}
	if c.Before >= seq {
		return fmt.Errorf("%w: batch %d says that batch %d changed %s/%s before", store.ErrCorrupt, seq, c.Before, c.Kind, c.ID)
	}
	j.value = binary.AppendUvarint(append(j.value[:0], flags), c.Before)
	j.value = binary.AppendUvarint(j.value, uint64(d.Prefix))
	j.value = binary.AppendUvarint(j.value, uint64(d.Suffix))
	j.value = append(j.value, d.Middle...)
	return j.changes.add(j.key, j.value)
}

// entry is an entry of changes taken apart.
type entry struct {
	seq   uint64
	base  bool
	flags byte
	// of a change
	before uint64
	delta  store.Delta
	// of a base
	version, of uint64
	state       []byte
}

// parse takes an entry apart that this package has made. All of it is valid as long as key and value.
func parse(key, value []byte) (name []byte, e entry) {
	cut := len(key) - changeTail
	e.seq, e.base = ^binary.BigEndian.Uint64(key[cut:]), key[cut+8] == sortBase
	number := func() uint64 {
		n, size := binary.Uvarint(value)
		value = value[size:]
		return n
	}
	if e.base {
		e.version, e.of = number(), number()
		e.state = value
		return key[:cut], e
	}
	e.flags, value = value[0], value[1:]
	e.before = number()
	e.delta = store.Delta{Prefix: int(number()), Suffix: int(number())}
	e.delta.Middle = value
	return key[:cut], e
}

func refOf(name []byte) effects.Ref {
	cut := len(name) - len(uuid.UUID{})
	return effects.Ref{Kind: effects.Kind(name[:cut-1]), ID: uuid.UUID(name[cut:])}
}

// unequal gives the last batch whose digest was not found; zero: there is none.
func (j *journal) unequal() uint64 {
	for i, rest := range slices.Backward(j.digests) {
		seq := j.to + uint64(i)
		if _, untold := j.unchecked[seq]; rest != 0 && !untold && (i > 0 || j.known) {
			return seq
		}
	}
	return 0
}

// untold notes that nobody knows all that a batch left, since a record of it was set aside.
func (j *journal) untold(seq uint64) {
	if j.unchecked == nil {
		j.unchecked = map[uint64]struct{}{}
	}
	j.unchecked[seq] = struct{}{}
}
