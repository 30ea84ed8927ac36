package shell

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

const (
	usageRecords = 500    // of one part of the count
	maxPending   = 50_000 // changes that are kept while a part is read
)

// tally is one count of what is stored: a walk through the records, in which the changes
// of what it has passed are counted as they come.
type tally struct {
	of      map[Scope]Usage
	queues  map[uuid.UUID]Scope // whose items are whose
	at      effects.Ref         // the last record that was counted
	done    bool                // all were
	gaps    int
	parts   []countedPart // that have seen batches of which the changes are still to come
	pending []usageChange // of records behind at, since the part under way began
	lost    bool          // more of them came than are kept
}

// countedPart is what records a part has read, and the last batch that it has seen.
type countedPart struct {
	after, last effects.Ref // last zero: all behind after
	base        uint64
}

// usageChange is a change of what a tenant has, by the batch of that number.
type usageChange struct {
	seq   uint64
	ref   effects.Ref
	scope Scope
	of    Usage
	sign  int64
}

func newTally() *tally {
	return &tally{of: make(map[Scope]Usage), queues: make(map[uuid.UUID]Scope)}
}

func (t *tally) add(scope Scope, d Usage, sign int64) {
	sum := t.of[scope]
	sum.add(d, sign)
	if sum == (Usage{}) {
		delete(t.of, scope)
	} else {
		t.of[scope] = sum
	}
}

// change counts a change of what was passed, and keeps one of what was not.
func (t *tally) change(c usageChange) {
	switch {
	case t == nil:
	case !t.done && compareRefs(c.ref, t.at) > 0:
		if t.lost = t.lost || len(t.pending) == maxPending; !t.lost {
			t.pending = append(t.pending, c)
		}
	case c.seq > t.baseOf(c.ref):
		t.add(c.scope, c.of, c.sign)
	}
}

// baseOf gives the last batch that the count of a record has seen, if one that is still
// to come may have been seen, else 0.
func (t *tally) baseOf(ref effects.Ref) uint64 {
	for _, p := range t.parts {
		if compareRefs(ref, p.after) > 0 && (p.last == effects.Ref{} || compareRefs(ref, p.last) <= 0) {
			return p.base
		}
	}
	return 0
}

// observed notes that all changes up to a batch have come.
func (t *tally) observed(seq uint64) {
	if t == nil {
		return
	}
	t.parts = slices.DeleteFunc(t.parts, func(p countedPart) bool { return p.base <= seq })
}

// merge counts what a part has read, and what has changed meanwhile.
func (t *tally) merge(p usagePart) {
	for scope, d := range p.of { // order-free: sums
		t.add(scope, d, 1)
	}
	t.parts = append(t.parts, countedPart{t.at, p.last, p.base})
	t.at, t.done = p.last, p.last == effects.Ref{}
	if t.lost {
		t.gaps++
	}
	pending := t.pending
	t.pending, t.lost = nil, false
	for _, c := range pending {
		if t.done || compareRefs(c.ref, t.at) <= 0 { // the next part sees the others
			t.change(c)
		}
	}
	if t.done {
		t.queues = nil
	}
}

// usagePart is one part of a count.
type usagePart struct {
	t      *tally
	of     map[Scope]Usage
	last   effects.Ref // zero: this is the last part
	base   uint64      // the last batch that it has seen
	walked bool        // it has come to the records
}

func (p *usagePart) read(tx store.ReadTx) (err error) {
	if p.base, err = tx.Seq(); err != nil {
		return err
	}
	p.walked = true
	add := func(r store.Record) error {
		p.add(tx, r)
		return nil
	}
	if w, ok := tx.(store.Walker); ok {
		p.last, err = w.RecordPage(p.t.at, usageRecords, add)
		return err
	}
	return tx.Records(add)
}

func (p *usagePart) add(tx store.ReadTx, r store.Record) {
	s, err := core.DecodeState(r.Kind, r.State)
	if err != nil {
		return // what cannot be decoded is nobody's: it is set aside when it is met
	}
	scope := core.ScopeOf(s)
	switch s := s.(type) {
	case core.Queue: // they come before their items: records are ordered by kind
		p.t.queues[s.ID] = scope
	case core.QueueItem:
		scope = p.queue(tx, s.Queue)
	}
	sum := p.of[scope]
	sum.add(usageOf(s, len(r.State)), 1)
	p.of[scope] = sum
}

// queue gives whose a queue is.
func (p *usagePart) queue(tx store.ReadTx, id uuid.UUID) Scope {
	if of, ok := p.t.queues[id]; ok {
		return of
	}
	r, err := tx.Get(core.KindQueue, id) // it was made after the walk had passed the queues
	if err != nil {
		return Scope{}
	}
	s, err := core.DecodeState(r.Kind, r.State)
	if err != nil {
		return Scope{}
	}
	p.t.queues[id] = core.ScopeOf(s)
	return p.t.queues[id]
}

func compareRefs(a, b effects.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.ID[:], b.ID[:]))
}
