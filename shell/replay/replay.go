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

	epochs []store.Epoch
	epoch  int                    // index of the epoch that is being folded
	base   map[effects.Ref][]byte // states before their first change in that epoch
	states map[effects.Ref][]byte // every machine touched so far; nil: gone
	live   map[effects.Ref]core.State
	outbox map[store.EffectKey]outer // outer effects that were not answered
	seq    uint64                    // the batch that is being made again
	bus    []busForm                 // what is known of the bus, oldest first; see unchangedBus
	asked  bool                      // bus was looked up
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

// batch makes one Turn again.
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
	b, err := core.DecodeBatch(raw)
	if err != nil {
		return f.diverge(Divergence{Seq: seq, What: err.Error()})
	}
	if b.Seq != seq {
		if err := f.diverge(Divergence{Seq: seq, What: fmt.Sprintf("it says that it is batch %d", b.Seq)}); err != nil {
			return err
		}
	}
	if own := core.NewBatch(0, 0, ""); b.Core != own.Core || b.TZDB != own.TZDB {
		f.report.OtherCores[b.Core]++
		f.report.OtherTZDBs[b.TZDB]++
	}
	return f.turn(b)
}

func (f *fold) turn(b core.Batch) error {
	f.seq = b.Seq
	turn := core.NewTurn(f, core.Clock{Now: b.At}, b.Seq)
	for i, in := range b.Inputs {
		f.report.Inputs++
		res, err := turn.Apply(in)
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
			if err := f.diverge(Divergence{Seq: b.Seq, Ref: in.To, What: what}); err != nil {
				return err
			}
		}
		if in.Ack != 0 {
			delete(f.outbox, store.EffectKey{ID: in.To.ID, N: in.Ack})
		}
	}
	for _, c := range turn.Changes() {
		f.states[c.Ref] = nil
		delete(f.live, c.Ref)
		if c.After != nil {
			f.states[c.Ref] = c.After.AppendJSON(nil)
			f.live[c.Ref] = c.After
		}
	}
	for _, w := range turn.Withdrawn() {
		delete(f.outbox, store.EffectKey{ID: w.From.ID, N: w.N})
	}
	for _, o := range turn.Outer() {
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

// Load gives the turn the state that the replay has so far.
func (f *fold) Load(ref effects.Ref) (core.State, error) {
	if s, ok := f.live[ref]; ok {
		return s, nil
	}
	if _, ok := f.states[ref]; ok {
		return nil, nil // gone
	}
	raw, ok := f.base[ref]
	if !ok && ref == core.BusRef() {
		var err error
		if raw, err = f.unchangedBus(); err != nil {
			return nil, err
		}
		ok = raw != nil
	}
	if !ok {
		return nil, nil
	}
	s, err := core.DecodeState(ref.Kind, raw)
	if err != nil {
		return nil, err
	}
	f.live[ref], f.states[ref] = s, raw
	if a, ok := s.(core.Action); ok && a.Status.Type == core.StatusRunning {
		// It was handed out before the journal begins.
		f.outbox[store.EffectKey{ID: ref.ID, N: a.Run}] = formOf(effects.RunTool{Run: a.Run, Tool: a.ToolName})
	}
	return s, nil
}

// busForm is the bus as an epoch kept it before its first change in it, or as it
// is stored.
type busForm struct {
	epoch   int    // index of the epoch; that after the last one: as it is stored
	written uint64 // the batch that wrote it last
	state   []byte
}

// unchangedBus gives the bus where the present epoch does not change it: every
// event is routed by it, so that it is read without being written, which is why
// the base of the epoch lacks it. It stands in the base of the next epoch that
// changes it, or else in its record; where that was written at this batch or
// later, there was none before.
func (f *fold) unchangedBus() ([]byte, error) {
	if !f.asked {
		f.asked = true
		if err := f.readBus(); err != nil {
			return nil, err
		}
	}
	for _, b := range f.bus {
		if b.epoch <= f.epoch {
			continue
		}
		if b.written < f.seq {
			return b.state, nil
		}
		return nil, nil
	}
	return nil, nil
}

func (f *fold) readBus() error {
	ref := core.BusRef()
	note := func(epoch int) func(store.Record) error {
		return func(r store.Record) error {
			if r.Kind == ref.Kind && r.ID == ref.ID {
				f.bus = append(f.bus, busForm{epoch: epoch, written: r.Seq, state: bytes.Clone(r.State)})
			}
			return nil
		}
	}
	for i := f.epoch + 1; i < len(f.epochs); i++ {
		if err := f.tx.Base(f.epochs[i].Number, note(i)); err != nil {
			return err
		}
	}
	r, err := f.tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return note(len(f.epochs))(r)
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
			if a, ok := s.(core.Action); ok && a.Status.Type == core.StatusRunning {
				f.outbox[store.EffectKey{ID: ref.ID, N: a.Run}] = formOf(effects.RunTool{Run: a.Run, Tool: a.ToolName})
			}
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

func (f *fold) compareOutbox() error {
	err := f.tx.Outbox(func(e store.OutboxEntry) error {
		ref := effects.Ref{Kind: e.Kind, ID: e.Key.ID}
		want, ok := f.outbox[e.Key]
		delete(f.outbox, e.Key)
		switch {
		case !ok:
			return f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d is not outstanding in the replay", e.Key.N), Found: bytes.Clone(e.Effect)})
		case want.form != string(e.Effect):
			return f.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d differs", e.Key.N), Want: []byte(want.form), Found: bytes.Clone(e.Effect)})
		case want.lane != e.Lane:
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
