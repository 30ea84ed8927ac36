// Package replay folds the journal of a store through the core and compares
// what comes out with what is stored, byte for byte (F3).
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

// Options bound a verification. The zero value is a sound default.
type Options struct {
	// MaxDivergences ends the comparison early (default 100): the first ones
	// tell what is wrong.
	MaxDivergences int
}

// Report is what a verification found.
type Report struct {
	FirstBatch  uint64 // the first batch that the journal still holds; 0: none
	Batches     uint64
	Inputs      uint64
	Entities    uint64 // machines that the journal touched
	Untouched   uint64 // stored machines that it did not touch: only their form was checked
	OtherCores  map[string]uint64
	OtherTZDBs  map[string]uint64
	Divergences []Divergence
	Truncated   bool // there are more divergences
}

// Clean reports whether nothing differed.
func (r Report) Clean() bool { return len(r.Divergences) == 0 }

// Divergence is one difference between the replay and the store.
type Divergence struct {
	Ref   effects.Ref // zero where it concerns the journal itself
	Seq   uint64      // the batch at which it shows; 0: at the end
	What  string
	Want  []byte // by the replay; nil: nothing
	Found []byte // in the store; nil: nothing
}

// String gives the divergence in one line.
func (d Divergence) String() string {
	s := d.What
	if !d.Ref.IsZero() {
		s = d.Ref.String() + ": " + s
	}
	if d.Seq != 0 {
		s = fmt.Sprintf("batch %d: %s", d.Seq, s)
	}
	if d.Want != nil || d.Found != nil {
		s += fmt.Sprintf(": replayed %s, stored %s", text(d.Want), text(d.Found))
	}
	return s
}

func text(b []byte) string {
	const limit = 2000
	switch {
	case b == nil:
		return "nothing"
	case len(b) > limit:
		return string(b[:limit]) + "…"
	default:
		return string(b)
	}
}

var errEnough = errors.New("enough divergences")

// Verify replays the journal from its first batch and compares with the stored
// records, their due and list entries, and the outbox. It reads one consistent
// snapshot and writes nothing; it may run beside a working engine. The error
// says that the verification itself could not be done; what differs stands in
// the report.
//
// Memory: the states of the machines that the journal touched.
func Verify(ctx context.Context, st store.Store, o Options) (Report, error) {
	if o.MaxDivergences <= 0 {
		o.MaxDivergences = 100
	}
	f := &fold{
		ctx: ctx, limit: o.MaxDivergences,
		states: make(map[effects.Ref][]byte), base: make(map[effects.Ref][]byte),
		live: make(map[effects.Ref]core.State), outbox: make(map[store.EffectKey]outer),
		first: make(map[effects.Ref][]byte), lists: make(map[listKey]*list),
		report: Report{OtherCores: map[string]uint64{}, OtherTZDBs: map[string]uint64{}},
	}
	err := st.View(ctx, func(tx store.ReadTx) error {
		f.tx = tx
		return f.run()
	})
	if errors.Is(err, errEnough) {
		f.report.Truncated = true
		err = nil
	}
	return f.report, err
}

// fold is one replay.
type fold struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call of Verify
	tx     store.ReadTx
	limit  int
	report Report

	epochs  []store.Epoch
	epoch   int                    // index of the epoch that is being folded
	base    map[effects.Ref][]byte // states before their first change in that epoch
	first   map[effects.Ref][]byte // states from before the journal, of what it touches somewhere
	states  map[effects.Ref][]byte // every machine touched so far; nil: gone
	live    map[effects.Ref]core.State
	outbox  map[store.EffectKey]outer // outer effects that were not answered
	lists   map[listKey]*list
	scanned []*list // those that the present batch has read
}

// outer is an outer effect as the outbox has it.
type outer struct{ lane, form string }

func formOf(e effects.Outer) outer { return outer{lane: e.Lane(), form: string(e.AppendJSON(nil))} }

func (f *fold) run() error {
	epochs, err := f.tx.Epochs()
	if err != nil {
		return err
	}
	f.epochs, f.epoch = epochs, -1
	if err := f.readFirst(); err != nil {
		return err
	}
	err = f.tx.Journal(0, func(seq uint64, raw []byte) error {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		return f.batch(seq, raw)
	})
	if err != nil {
		return err
	}
	if last, err := f.tx.Seq(); err != nil {
		return err
	} else if f.report.Batches > 0 && last != f.report.FirstBatch+f.report.Batches-1 {
		if err := f.diverge(Divergence{What: fmt.Sprintf("the journal ends at batch %d, the store says %d", f.report.FirstBatch+f.report.Batches-1, last)}); err != nil {
			return err
		}
	}
	return f.compare()
}

func (f *fold) diverge(d Divergence) error {
	f.report.Divergences = append(f.report.Divergences, d)
	if len(f.report.Divergences) >= f.limit {
		return errEnough
	}
	return nil
}

// batch makes one batch again.
func (f *fold) batch(seq uint64, raw []byte) error {
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
	e, err := core.DecodeEntry(raw)
	if err != nil {
		return f.diverge(Divergence{Seq: seq, What: err.Error()})
	}
	if e.Seq != seq {
		if err := f.diverge(Divergence{Seq: seq, What: fmt.Sprintf("it says that it is batch %d", e.Seq)}); err != nil {
			return err
		}
	}
	if own := core.NewEntry(0, 0, ""); e.Core != own.Core || e.TZDB != own.TZDB {
		f.report.OtherCores[e.Core]++
		f.report.OtherTZDBs[e.TZDB]++
	}
	return f.apply(e)
}

func (f *fold) apply(e core.Entry) error {
	batch := core.NewBatch(f, core.Clock{Now: e.At, Rules: core.RulesOf(e.Core)}, e.Seq)
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
				return err
			}
		}
		if in.Ack != 0 {
			delete(f.outbox, store.EffectKey{ID: in.To.ID, N: in.Ack})
		}
	}
	f.endScans()
	for _, c := range batch.Changes() {
		f.states[c.Ref] = nil
		delete(f.live, c.Ref)
		if c.After != nil {
			f.states[c.Ref] = c.After.AppendJSON(nil)
			f.live[c.Ref] = c.After
			f.place(c.Ref, c.After)
		}
	}
	for _, w := range batch.Withdrawn() {
		delete(f.outbox, store.EffectKey{ID: w.From.ID, N: w.N})
	}
	for _, o := range batch.Outer() {
		f.outbox[store.EffectKey{ID: o.From.ID, N: o.Effect.Number()}] = formOf(o.Effect)
	}
	return nil
}

// enterEpoch loads what the records of the batch's epoch were before it.
func (f *fold) enterEpoch(seq uint64) error {
	next := f.epoch
	for next+1 < len(f.epochs) && f.epochs[next+1].First <= seq {
		next++
	}
	if next == f.epoch {
		return nil
	}
	f.epoch = next
	f.base = make(map[effects.Ref][]byte)
	return f.tx.Base(f.epochs[next].Number, func(r store.Record) error {
		ref := effects.Ref{Kind: r.Kind, ID: r.ID}
		f.base[ref] = bytes.Clone(r.State)
		// A record that an earlier epoch touched must stand here as it left it.
		if was, ok := f.states[ref]; ok && !bytes.Equal(was, r.State) {
			return f.diverge(Divergence{Ref: ref, Seq: seq, What: "the state kept at the epoch's start differs", Want: was, Found: bytes.Clone(r.State)})
		}
		return nil
	})
}

// Load gives the batch the state that the replay has so far.
func (f *fold) Load(ref effects.Ref) (core.State, error) {
	if s, ok := f.live[ref]; ok {
		return s, nil
	}
	if _, ok := f.states[ref]; ok {
		return nil, nil // gone
	}
	raw, touched := f.base[ref]
	if !touched {
		var err error
		if raw, err = f.before(ref); err != nil || raw == nil {
			return nil, err
		}
	}
	s, err := core.DecodeState(ref.Kind, raw)
	if err != nil {
		return nil, err
	}
	f.live[ref] = s
	if touched {
		f.states[ref] = raw
	}
	f.outstanding(ref, s)
	return s, nil
}

// before gives the state of a record from before the journal: where a batch looks
// at one that it does not change, no base of this epoch has it.
func (f *fold) before(ref effects.Ref) ([]byte, error) {
	if raw, ok := f.first[ref]; ok {
		return raw, nil
	}
	rec, err := f.tx.Get(ref.Kind, ref.ID)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, err
	case rec.Seq >= f.report.FirstBatch:
		return nil, nil // the journal will make it
	}
	return bytes.Clone(rec.State), nil
}

// outstanding notes what was handed out before the journal begins.
func (f *fold) outstanding(ref effects.Ref, s core.State) {
	for _, e := range core.Outstanding(s) {
		f.outbox[store.EffectKey{ID: ref.ID, N: e.Number()}] = formOf(e)
	}
}

// compare holds the end of the replay against the store.
func (f *fold) compare() error {
	places := make(map[effects.Ref]effects.Time)
	found := make(map[effects.Ref]bool, len(f.states))
	err := f.tx.Records(func(r store.Record) error {
		ref := effects.Ref{Kind: r.Kind, ID: r.ID}
		want, touched := f.states[ref]
		if touched {
			found[ref] = true
			if !bytes.Equal(want, r.State) {
				return f.diverge(Divergence{Ref: ref, What: "the stored state differs", Want: want, Found: bytes.Clone(r.State)})
			}
		} else {
			f.report.Untouched++
		}
		s, ok := f.live[ref]
		if !ok {
			var err error
			if s, err = core.DecodeState(r.Kind, r.State); err != nil {
				return f.diverge(Divergence{Ref: ref, What: err.Error()})
			}
			f.outstanding(ref, s)
		}
		if at := s.Deadline(); !at.IsZero() {
			places[ref] = at
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.compareMissing(found); err != nil {
		return err
	}
	if err := f.compareDue(places); err != nil {
		return err
	}
	return f.compareOutbox()
}

// compareMissing names what the replay has and the store has not. What was set
// aside as undecodable is not missing: it was reported then.
func (f *fold) compareMissing(found map[effects.Ref]bool) error {
	aside := make(map[effects.Ref]bool)
	list, err := f.tx.Quarantine(1 << 20)
	if err != nil {
		return err
	}
	for _, q := range list {
		aside[effects.Ref{Kind: q.Kind, ID: q.ID}] = true
	}
	for ref, want := range f.states { // the order of divergences of one kind does not matter
		f.report.Entities++
		if want == nil || found[ref] || aside[ref] {
			continue
		}
		if err := f.diverge(Divergence{Ref: ref, What: "the record is missing", Want: want}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) compareDue(places map[effects.Ref]effects.Time) error {
	var after *store.DueKey
	const page = 10_000
	for {
		entries, err := f.tx.Due(nil, after, effects.MaxTime, page)
		if err != nil {
			return err
		}
		for _, d := range entries {
			key := d.Key
			after = &key
			ref := effects.Ref{Kind: d.Kind, ID: key.ID()}
			if at, ok := places[ref]; !ok || at != key.At() {
				if err := f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("it stands in the due index at %s, but waits for %s", key.At(), at)}); err != nil {
					return err
				}
			}
			delete(places, ref)
		}
		if len(entries) < page {
			break
		}
	}
	for ref, at := range places {
		if err := f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("it waits for %s, but does not stand in the due index", at)}); err != nil {
			return err
		}
	}
	return nil
}

// standsIn reports whether an outbox entry stands in the lane, in whatever share of it:
// entries of earlier builds have none.
func standsIn(e store.OutboxEntry, lane string) bool {
	at, _ := store.SplitLane(e.Lane)
	return at == lane
}

func (f *fold) compareOutbox() error {
	err := f.tx.Outbox(func(e store.OutboxEntry) error {
		ref := effects.Ref{Kind: e.Kind, ID: e.Key.ID}
		want, ok := f.outbox[e.Key]
		delete(f.outbox, e.Key)
		switch {
		case !ok:
			return f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d is not outstanding in the replay", e.Key.N), Found: bytes.Clone(e.Effect)})
		case len(e.Effect) > 0 && want.form != string(e.Effect): // else the state has it
			return f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d differs", e.Key.N), Want: []byte(want.form), Found: bytes.Clone(e.Effect)})
		case !standsIn(e, want.lane):
			return f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d stands in the wrong lane", e.Key.N), Want: []byte(want.lane), Found: []byte(e.Lane)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, want := range f.outbox {
		if err := f.diverge(Divergence{What: fmt.Sprintf("outbox entry %d of %s is missing", key.N, key.ID), Want: []byte(want.form)}); err != nil {
			return err
		}
	}
	return nil
}
