package engine

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// A store behind a network takes a round trip for each record that is read alone. So a batch tells it
// beforehand what its requests, outcomes and due entries are going to need; what these refer to is
// read when it is met. Such a store is a [store.Fetcher], and to any other one nothing is told.

// needs is what a batch is going to read.
type needs struct {
	b    *batch
	refs []effects.Ref
	seen map[effects.Ref]struct{}
}

// fetcher gives the transaction, if it wants to be told what is going to be read; else nil.
func (b *batch) fetcher() store.Fetcher {
	f, _ := b.tx.(store.Fetcher)
	return f
}

func (b *batch) needs(many int) *needs {
	return &needs{b: b, refs: make([]effects.Ref, 0, many), seen: make(map[effects.Ref]struct{}, many)}
}

// add notes a record, unless its state is held in memory.
func (n *needs) add(ref effects.Ref) {
	if ref.IsZero() {
		return
	}
	if _, ok := n.seen[ref]; ok {
		return
	}
	n.seen[ref] = struct{}{}
	if _, ok := n.b.l.cache.get(ref); !ok {
		n.refs = append(n.refs, ref)
	}
}

// fetchGathered has what the gathered requests and outcomes need ready.
func (b *batch) fetchGathered() error {
	f := b.fetcher()
	if f == nil {
		return nil
	}
	n := b.needs(len(b.l.requests) + len(b.l.outcomes))
	var answers []store.AnswerKey
	for _, r := range b.l.requests {
		if r.once != nil {
			answers = append(answers, r.once.key)
		}
		for i := range r.Inputs {
			n.add(r.Inputs[i].To)
			for _, bus := range core.HeardOn(r.Inputs[i].Event) {
				n.add(bus)
			}
		}
		for _, ref := range r.Earlier {
			n.add(ref)
		}
		if r.Write != nil {
			n.add(r.Write.Of)
		}
		if r.Many != nil {
			for _, ref := range r.Many.Want {
				n.add(ref)
			}
		}
		n.add(r.Want)
	}
	outbox := make([]store.EffectKey, 0, len(b.l.outcomes))
	for _, o := range b.l.outcomes {
		n.add(o.of.ref)
		outbox = append(outbox, o.of.key) // they are deleted: the store looks what they are
	}
	if len(n.refs)+len(outbox)+len(answers) == 0 {
		return nil
	}
	return f.Fetch(n.refs, outbox, answers)
}

// fetchDue has the records of due entries ready that are about to be read; but those that
// passes says of that they are not.
func (b *batch) fetchDue(entries []store.DueEntry, passes func(store.DueEntry) bool) error {
	f := b.fetcher()
	if f == nil {
		return nil
	}
	n := b.needs(len(entries))
	for _, d := range entries {
		if !b.passes(d.Kind) && !passes(d) {
			n.add(effects.Ref{Kind: d.Kind, ID: d.Key.ID()})
		}
	}
	if len(n.refs) == 0 {
		return nil
	}
	return f.Fetch(n.refs, nil, nil)
}

// fetchListed has the records of a list ready that is read because each of them is needed: see [core.ScansAll].
func (b *batch) fetchListed(kind effects.Kind, list []core.Cursor) error {
	f := b.fetcher()
	if f == nil || !core.ScansAll(kind) {
		return nil
	}
	n := b.needs(len(list))
	for _, c := range list {
		n.add(effects.Ref{Kind: kind, ID: c.ID})
	}
	if len(n.refs) == 0 {
		return nil
	}
	return f.Fetch(n.refs, nil, nil)
}

// isShared reports whether a due entry says whose it is, so that its record is not read to tell.
func isShared(d store.DueEntry) bool { return d.Share != 0 }

// isNone passes over no entry.
func isNone(store.DueEntry) bool { return false }
