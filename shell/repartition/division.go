package repartition

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store"
)

// pageKey is the name under which package httpapi keeps the key that seals page tokens.
const pageKey = "httpapi/page_token_key"

// divide copies into another number of partitions.
func divide(ctx context.Context, from []Source, to []Target, o Options) (Report, error) {
	s, err := look(ctx, from, len(to), o)
	if err != nil {
		return Report{}, err
	}
	d := &division{survey: s, report: Report{Batch: s.seq, Records: make([]uint64, len(to))}, left: map[string]*Left{}, metas: map[string][][]byte{}}
	err = together(ctx, to, func(ctx context.Context, sinks []store.Sink) error {
		d.sinks = sinks
		return d.run(ctx)
	})
	for _, what := range slices.Sorted(maps.Keys(d.left)) {
		d.report.Left = append(d.report.Left, *d.left[what])
	}
	return d.report, err
}

// division gives each target its part.
type division struct {
	*survey
	sinks  []store.Sink
	report Report
	left   map[string]*Left
	metas  map[string][][]byte // of the sources that there are
	token  uint64
	last   effects.Ref
	copies []copied // of the records under that id
}

// copied is a record that a target got.
type copied struct {
	to, source int
	state      []byte
}

func (d *division) run(ctx context.Context) error {
	var pullers []*puller
	for k, source := range d.from {
		if source != nil {
			pullers = append(pullers, pull(ctx, source, k))
		}
	}
	pullers = append(pullers, pull(ctx, madeOnes(d.makeSchedulers()), len(d.from)))
	if err := merge(ctx, pullers, d.take); err != nil {
		return err
	}
	return d.end()
}

// take gives an item to its target.
func (d *division) take(it *item) error {
	switch it.part {
	case partAny:
		return d.damaged(it)
	case partBegin:
		return d.begin(it)
	case partRecord:
		return d.record(it)
	case partDue:
		return d.due(it)
	case partTerm:
		return d.term(it)
	case partOutbox:
		return d.outbox(it)
	case partWebhook:
		return d.sinks[0].Webhook(it.webhook) // there is one target, or there is none of them
	case partLog:
		return d.log(it)
	case partClaim:
		d.leave("claim", it.claim.Name, "what an engine had in hand that has crashed counts as interrupted")
	case partMeta:
		of := d.metas[it.name]
		if of == nil {
			of = make([][]byte, len(d.from))
			d.metas[it.name] = of
		}
		of[it.source] = bytes.Clone(it.bytes)
	}
	return nil
}

// leave counts what stays behind.
func (d *division) leave(what, name, reason string) {
	l := d.left[what]
	if l == nil {
		l = &Left{What: what, First: name, Reason: reason}
		d.left[what] = l
	}
	l.Count++
}

func (d *division) omit(o store.Omission) {
	if d.report.Damaged++; len(d.report.Omitted) < MaxOmitted {
		d.report.Omitted = append(d.report.Omitted, o)
	}
}

// damaged passes on what a source could not read, or has set aside.
func (d *division) damaged(it *item) error {
	if it.omitted != nil {
		d.omit(*it.omitted)
		return nil
	}
	return d.sinks[d.own(it.source)].Quarantined(*it.quarantined)
}

// own gives the target that has the number of a source, or else the last one.
func (d *division) own(source int) int { return min(source, d.targets-1) }

// begin begins all targets, once all sources have begun.
func (d *division) begin(it *item) error {
	if it.source == len(d.from) { // the schedulers, which come after the last source
		for _, sink := range d.sinks {
			if err := sink.Begin(store.Head{Seq: d.seq, Token: d.token}); err != nil {
				return err
			}
		}
		d.report.Token = d.token
		return nil
	}
	if it.head.Seq != d.seqs[it.source] {
		return fmt.Errorf("partition %d has batch %d now, and had %d before: nobody may write to it meanwhile", it.source, it.head.Seq, d.seqs[it.source])
	}
	d.token = max(d.token, it.head.Token)
	return nil
}

const noSuchPartition = "it belongs to no tenant, and there is no partition any more that has the number of its partition"

func (d *division) record(it *item) error {
	r := it.record
	ref := it.ref()
	to := it.to
	if to < 0 {
		var err error
		if to, err = d.place(it.source, ref, r); err != nil {
			d.omit(store.Omission{What: "record", Name: ref.String(), Reason: err.Error()})
			q := store.Quarantined{Kind: r.Kind, ID: r.ID, At: d.o.At, Reason: err.Error(), Raw: r.State}
			return d.sinks[d.own(it.source)].Quarantined(q)
		}
	}
	if to == nowhere {
		return nil
	}
	if err := d.once(to, it.source, ref, r); err != nil {
		return err
	}
	d.report.Records[to]++
	return d.sinks[to].Record(r)
}

// once refuses a second record under an id in one target. Sources may each have one, of different tenants: an id is unique within a partition.
func (d *division) once(to, source int, ref effects.Ref, r store.Record) error {
	if ref != d.last {
		d.last, d.copies = ref, d.copies[:0]
	}
	for _, c := range d.copies {
		if c.to == to {
			return fmt.Errorf("%w: %s is in partition %d%s and in partition %d%s, and both belong in partition %d of the copy, where an id can be there once: "+
				"delete one of them, or let it end and be forgotten, or copy into a number of partitions that keeps them apart, as the same number does",
				ErrTwice, ref, c.source, tenantOf(r.Kind, c.state), source, tenantOf(r.Kind, r.State), to)
		}
	}
	n := len(d.copies)
	d.copies = slices.Grow(d.copies, 1)[:n+1]
	c := &d.copies[n] // whose buffer is used again
	c.to, c.source, c.state = to, source, append(c.state[:0], r.State...)
	return nil
}

// tenantOf says whose a record is, if it has a tenant.
func tenantOf(kind effects.Kind, state []byte) string {
	of, err := core.StoredScope(kind, state)
	if err != nil || of == (core.Scope{}) {
		return ""
	}
	return fmt.Sprintf(" (namespace %q, tenant %q)", of.Namespace, of.Tenant)
}

// place gives the target of a record; nowhere: it stays behind, and is counted. The error says why it cannot be decoded.
func (d *division) place(source int, ref effects.Ref, r store.Record) (int, error) {
	if to, ok := d.find(source, ref); ok {
		if to == nowhere {
			d.leaveRecord(ref, r)
		}
		return to, nil
	}
	b, err := core.StoredBelonging(r.Kind, r.State)
	switch {
	case err != nil:
		return 0, err
	case ref.Kind == core.KindScheduler:
		return nowhere, nil // its runs stand in those that the copy has made
	}
	to, ok := d.find(source, b.With)
	switch {
	case !ok:
		to = nowhere
		d.leave(string(ref.Kind), ref.String(), "the machine to which it belongs is not there, such as "+b.With.String())
	case to == nowhere:
		d.leave(string(ref.Kind), ref.String(), noSuchPartition)
	}
	d.late[source].add(ref, to)
	return to, nil
}

// leaveRecord counts a record that stays behind, unless it says nothing that the next start does not say again.
func (d *division) leaveRecord(ref effects.Ref, r store.Record) {
	if ref == core.BusRef() {
		if bus, err := core.DecodeState(r.Kind, r.State); err == nil {
			for _, sub := range bus.(core.Bus).Subscribers {
				d.leave("subscriber", sub.Name, "it is of no tenant, and not in the partition in which those are")
			}
		}
		return
	}
	d.leave(string(ref.Kind), ref.String(), noSuchPartition)
}

// of gives the target of what belongs to a record, which is nowhere as the record is.
func (d *division) of(it *item, ref effects.Ref, what string) int {
	if it.to >= 0 {
		return it.to
	}
	if ref.Kind == core.KindScheduler {
		return nowhere
	}
	to, ok := d.find(it.source, ref)
	if !ok {
		d.leave(what, ref.String(), "the record to which it belongs is not there")
		return nowhere
	}
	return to
}

func (d *division) due(it *item) error {
	to := d.of(it, effects.Ref{Kind: it.due.Kind, ID: it.due.Key.ID()}, "due entry")
	if to == nowhere {
		return nil
	}
	return d.sinks[to].Due(it.due)
}

func (d *division) term(it *item) error {
	to := d.of(it, effects.Ref{Kind: it.kind, ID: it.record.ID}, "list entry")
	if to == nowhere {
		return nil
	}
	return d.sinks[to].Term(it.kind, it.record.ID, it.term)
}

func (d *division) outbox(it *item) error {
	to := d.of(it, effects.Ref{Kind: it.outbox.Kind, ID: it.outbox.Key.ID}, "outbox entry")
	if to == nowhere {
		return nil
	}
	return d.sinks[to].Outbox(it.outbox)
}

// log gives what an action, or a run, has written.
func (d *division) log(it *item) error {
	run := it.ref().ID
	for _, kind := range []effects.Kind{core.KindAction, core.KindOrchestrator} {
		if to, ok := d.find(it.source, effects.Ref{Kind: kind, ID: run}); ok {
			if to == nowhere {
				return nil
			}
			return d.sinks[to].RunLog(run, it.n, it.bytes)
		}
	}
	d.leave("log", run.String(), "whatever has written it is not there")
	return nil
}

// end gives the small values, and where the journal begins.
func (d *division) end() error {
	for _, name := range engine.MetasOfPartition() {
		if d.metas[name] == nil {
			d.metas[name] = make([][]byte, len(d.from))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.metas)) {
		if err := d.meta(name); err != nil {
			return err
		}
	}
	for _, sink := range d.sinks {
		if err := sink.Epoch(store.Epoch{Number: d.epoch + 1, First: d.seq + 1, Started: d.o.At}); err != nil {
			return err
		}
	}
	return nil
}

// meta gives one small value to all targets.
func (d *division) meta(name string) error {
	var of [][]byte // of the sources that there are
	for k, source := range d.from {
		if source != nil {
			of = append(of, d.metas[name][k])
		}
	}
	for to, sink := range d.sinks {
		value, known := engine.MetaOfPartition(name, of, to, d.seen)
		if !known {
			value, known = jobs.MetaOfPartition(name, of)
		}
		if !known && name != pageKey {
			if value = engine.CommonMeta(of); value == nil && to == 0 {
				d.leave("small value", name, "the partitions have different ones")
			}
		}
		if value == nil {
			continue
		}
		if err := sink.Meta(name, value); err != nil {
			return err
		}
	}
	return nil
}

// madeOnes gives records that the copy makes, which are sorted.
type madeOnes []made

// Export implements [store.Exporter].
func (m madeOnes) Export(_ context.Context, to store.Sink) error {
	f := to.(*feeder)
	if err := f.Begin(store.Head{}); err != nil {
		return err
	}
	for _, r := range m {
		f.item.to = r.to
		if err := f.Record(r.Record); err != nil {
			return err
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(m), func(r made) bool { return r.state.Deadline().IsZero() })
	slices.SortStableFunc(waiting, func(a, b made) int {
		x, y := store.NewDueKey(a.state.Deadline(), a.ID), store.NewDueKey(b.state.Deadline(), b.ID)
		return bytes.Compare(x[:], y[:])
	})
	for _, r := range waiting {
		f.item.to = r.to
		e := store.DueEntry{Key: store.NewDueKey(r.state.Deadline(), r.ID), Kind: r.Kind, Share: engine.DueShare(core.ScopeOf(r.state))}
		if err := f.Due(e); err != nil {
			return err
		}
	}
	for _, r := range m {
		f.item.to = r.to
		for _, t := range r.state.Terms() {
			if err := f.Term(r.Kind, r.ID, t); err != nil {
				return err
			}
		}
	}
	return nil
}
