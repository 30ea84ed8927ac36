package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// fold is one replay.
type fold struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call of Verify
	tx      *snapshot
	limit   int
	program map[string]core.Subscriber
	report  Report

	epochs []store.Epoch
	epoch  int // index of the epoch that is being folded
	states *states
	lists  *lists
	own    core.Entry           // what this build would write
	parted bool                 // a batch has stored something else
	aside  map[effects.Ref]bool // whose records were set aside
}

func (f *fold) run() error {
	var last uint64
	err := f.tx.read(func(tx store.ReadTx) (err error) {
		if last, err = tx.Seq(); err != nil {
			return err
		}
		if f.epochs, err = tx.Epochs(); err != nil {
			return err
		}
		f.aside, err = setAside(tx)
		return err
	})
	if err != nil {
		return err
	}
	f.epoch, f.own = -1, core.NewEntry(0, 0, "")
	if err := f.readFirst(); err != nil {
		return err
	}
	if err := f.tx.each(f.ctx, f.batch); err != nil {
		return err
	}
	if f.report.Batches > 0 && last != f.report.FirstBatch+f.report.Batches-1 {
		if err := f.diverge(Divergence{What: fmt.Sprintf("the journal ends at batch %d, the store says %d", f.report.FirstBatch+f.report.Batches-1, last)}); err != nil {
			return err
		}
	}
	return f.tx.read(f.compare)
}

func (f *fold) diverge(d Divergence) error {
	f.report.Divergences = append(f.report.Divergences, d)
	if len(f.report.Divergences) >= f.limit {
		return errEnough
	}
	return nil
}

// batch makes one batch again.
func (f *fold) batch(d decoded) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	seq := d.seq
	if f.report.Batches == 0 {
		f.report.FirstBatch = seq
	} else if want := f.report.FirstBatch + f.report.Batches; seq != want {
		if err := f.diverge(Divergence{Seq: seq, What: fmt.Sprintf("the journal lacks batch %d", want)}); err != nil {
			return err
		}
	}
	f.report.Batches++
	if err := f.enterEpoch(seq); err != nil {
		return err
	}
	if d.err != nil {
		return f.diverge(Divergence{Seq: seq, What: d.err.Error()})
	}
	e := d.entry
	if e.Seq != seq {
		if err := f.diverge(Divergence{Seq: seq, What: fmt.Sprintf("it says that it is batch %d", e.Seq)}); err != nil {
			return err
		}
	}
	if e.Core != f.own.Core || e.TZDB != f.own.TZDB {
		f.report.OtherCores[e.Core]++
		f.report.OtherTZDBs[e.TZDB]++
	}
	sum, lost, err := f.apply(e)
	if err != nil || !d.noted || sum == d.sum || sum-lost == d.sum || f.parted {
		return err
	}
	f.parted = true // what follows from it is not told of each batch
	return f.diverge(Divergence{Seq: seq, What: "it has stored something else than the replay: this is the first batch that differs"})
}

// apply makes the inputs of an entry again, and gives the digest of what they change. lost is
// the part of it that deletes machines whose records were set aside: the engine may have found
// none any more to delete.
func (f *fold) apply(e core.Entry) (sum, lost uint64, err error) {
	batch := core.NewBatch(f, core.Clock{Now: e.At, Rules: core.RulesOf(e.Core)}, e.Seq)
	batch.Partition(e.Partition)
	batch.Subscribers(f.program)
	for i, in := range e.Inputs {
		f.report.Inputs++
		res, err := batch.Apply(in)
		what := ""
		switch {
		case err != nil:
			what = err.Error()
		case !res.Changed:
			what = fmt.Sprintf("input %d (%s) changed nothing in the replay", i, in.Event.EventType())
			if res.Refused != nil {
				what += ": " + res.Refused.Reason
			}
		}
		if what != "" {
			if err := f.diverge(Divergence{Seq: e.Seq, Ref: in.To, What: what}); err != nil {
				return 0, 0, err
			}
		}
	}
	for _, c := range batch.Changes() {
		f.lists.move(c.Ref, c.Before, c.After)
		stored, err := f.states.put(c.Ref, c.After)
		if err != nil {
			return 0, 0, err
		}
		digest := store.Digest(c.Ref.Kind, c.Ref.ID, stored)
		sum += digest
		if c.After == nil && f.aside[c.Ref] {
			lost += digest
		}
	}
	return sum, lost, f.states.trim()
}

// readFirst reads what the records that the journal touches were before it: the
// earliest base has it.
func (f *fold) readFirst() error {
	if len(f.epochs) == 0 {
		return nil
	}
	for _, ep := range f.epochs {
		err := f.base(ep, func(ref effects.Ref, r store.Record) error {
			if r.Seq >= f.epochs[0].First {
				return nil // the journal makes it
			}
			if known, err := f.states.knows(ref); err != nil || known {
				return err // an earlier base has it
			}
			f.states.putStored(ref, r.State)
			if core.Scanned(r.Kind) {
				if s, err := core.DecodeState(r.Kind, r.State); err == nil { // who loads it is told
					f.lists.move(ref, nil, s)
				}
			}
			return f.states.trim()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) base(ep store.Epoch, fn func(ref effects.Ref, r store.Record) error) error {
	return f.tx.read(func(tx store.ReadTx) error {
		return tx.Base(ep.Number, func(r store.Record) error { return fn(effects.Ref{Kind: r.Kind, ID: r.ID}, r) })
	})
}

// enterEpoch looks at what the records of the batch's epoch were before it: one that the
// journal has touched must stand there as the replay has left it.
func (f *fold) enterEpoch(seq uint64) error {
	next := f.epoch
	for next+1 < len(f.epochs) && f.epochs[next+1].First <= seq {
		next++
	}
	if next == f.epoch {
		return nil
	}
	f.epoch = next
	return f.base(f.epochs[next], func(ref effects.Ref, r store.Record) error {
		is, err := f.states.compare(ref, r.State)
		if err != nil || is.same {
			return err
		}
		d := Divergence{Ref: ref, Seq: seq, What: "the state kept at the epoch's start differs", Want: is.want, Found: bytes.Clone(r.State)}
		if !is.known { // and it was not there before the journal either
			d.What = "the state kept at the epoch's start is of a record that is not in the replay"
			f.states.putStored(ref, r.State)
		}
		return errors.Join(f.diverge(d), f.states.trim())
	})
}

// Load gives the batch the state that the replay has so far.
func (f *fold) Load(ref effects.Ref) (core.State, error) {
	s, known, err := f.states.get(ref)
	if err != nil || known {
		return s, err
	}
	var size int
	if f.report.FirstBatch > 1 {
		if s, size, err = f.before(ref); err != nil {
			return nil, err
		}
	}
	f.states.remember(ref, s, size)
	return s, nil
}

// before gives the state of a record from before the journal, of which no base has it: the
// journal does not change it.
func (f *fold) before(ref effects.Ref) (s core.State, size int, err error) {
	err = f.tx.read(func(tx store.ReadTx) error {
		rec, err := tx.Get(ref.Kind, ref.ID)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
			return nil
		case err != nil:
			return err
		case rec.Seq >= f.report.FirstBatch:
			return nil // the journal will make it
		}
		s, err = core.DecodeState(ref.Kind, rec.State)
		size = len(rec.State)
		return err
	})
	return s, size, err
}
