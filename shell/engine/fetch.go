package engine

import (
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// A store behind a network takes a round trip for each record that is read alone. So a batch tells it
// beforehand what its requests, outcomes and due entries are going to need, and what these lead to:
// see [batch.foresee]. Such a store is a [store.Fetcher], and to any other one nothing is told.

// needs is what a batch is going to read.
type needs struct {
	b      *batch
	refs   []effects.Ref // not yet fetched
	seen   map[effects.Ref]struct{}
	inputs []core.Input // that are going to be decided
}

// decides notes an input that is going to be decided, and what it needs.
func (n *needs) decides(in core.Input) {
	n.inputs = append(n.inputs, in)
	n.add(in.To)
	for _, ref := range core.Names(in.Event) {
		n.add(ref)
	}
	for _, bus := range core.HeardOn(in.Event) {
		n.add(bus)
	}
}

// fetcher gives the transaction, if it wants to be told what is going to be read; else nil.
func (b *batch) fetcher() store.Fetcher {
	f, _ := b.tx.(store.Fetcher)
	return f
}

func (b *batch) needs(many int) *needs {
	return &needs{b: b, refs: make([]effects.Ref, 0, many), seen: make(map[effects.Ref]struct{}, many), inputs: make([]core.Input, 0, many)}
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
			n.decides(r.Inputs[i])
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
		n.decides(core.Input{To: o.of.ref, Event: o.event, Ack: o.of.key.N})
		outbox = append(outbox, o.of.key) // they are deleted: the store looks what they are
	}
	for _, r := range b.l.formers.arrived {
		outbox = append(outbox, r.Key)
	}
	if len(n.refs)+len(outbox)+len(answers) == 0 {
		return nil
	}
	if err := f.Fetch(n.refs, outbox, answers); err != nil {
		return err
	}
	return b.foresee(n)
}

// fetchDecided has ready what these inputs need.
func (b *batch) fetchDecided(inputs []core.Input) error {
	f := b.fetcher()
	if f == nil {
		return nil
	}
	n := b.needs(len(inputs))
	for _, in := range inputs {
		n.decides(in)
	}
	if len(n.refs) == 0 {
		return nil
	}
	if err := f.Fetch(n.refs, nil, nil); err != nil {
		return err
	}
	return b.foresee(n)
}

// maxForeseen bounds how often a batch is tried. What stands further away is read when it is met.
const maxForeseen = 8

// foresee has ready what inputs lead to whose machines were not in memory: the owner of an action that ends, its owner, and
// so on. They are tried, what was missed is fetched in one query, and they are tried again, until nothing is missed: one round
// trip for each level of reference. A trial decides nothing, so it may be wrong about what comes of other inputs of
// the batch; what it does not foresee is read when it is met. Machines in memory have been used of late, and mostly so has
// what they lead to: their inputs are not tried, nor are those that make a machine.
func (b *batch) foresee(n *needs) error {
	if err := b.know(n); err != nil {
		return err
	}
	var far []core.Input
	for _, in := range n.inputs {
		if b.isFar(in.To) || slices.ContainsFunc(core.Names(in.Event), b.isFar) {
			far = append(far, in)
		}
	}
	for range maxForeseen {
		if len(far) == 0 || b.foreseenBytes > maxBatchBytes {
			return nil
		}
		if err := b.try(n, far); err != nil {
			return err
		}
		if len(n.refs) == 0 {
			return nil
		}
		if err := b.fetcher().Fetch(n.refs, nil, nil); err != nil {
			return err
		}
		if err := b.know(n); err != nil {
			return err
		}
	}
	return nil
}

// isFar reports whether a record is there that was fetched, since it was not in memory.
func (b *batch) isFar(ref effects.Ref) bool { return b.foreseen[ref].state != nil }

// know reads what was fetched. What cannot be decoded is left to whoever meets it.
func (b *batch) know(n *needs) error {
	if b.foreseen == nil {
		b.foreseen = make(map[effects.Ref]cached, len(n.refs))
	}
	for _, ref := range n.refs {
		rec, err := b.tx.Get(ref.Kind, ref.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			b.foreseen[ref] = cached{}
		case errors.Is(err, store.ErrCorrupt):
		case err != nil:
			return err
		default:
			if s, err := core.DecodeStateOf(ref, rec.State); err == nil {
				b.foreseen[ref] = readFrom(rec, s)
				b.foreseenBytes += len(rec.State)
			}
		}
	}
	n.refs = n.refs[:0]
	return nil
}

// try decides inputs for nobody, to see what is missed, for as long as one part of a batch may take at each level: what is not tried by then
// is mostly left to the next batch. An error of an input is told when it is decided.
func (b *batch) try(n *needs, inputs []core.Input) error {
	if b.trial == nil {
		b.trial = core.NewBatch(nil, core.Clock{}, 0)
	}
	b.trial.Reset(trial{n}, b.fold.Clock(), b.entry.Seq)
	b.trial.Partition(b.entry.Partition)
	defer b.trial.Reset(nil, core.Clock{}, 0)
	b.broken = nil
	timer := b.l.newStint()
	for _, in := range inputs {
		if timer.over() {
			break
		}
		_, _ = b.trial.Apply(in)
		if b.broken != nil {
			return b.broken
		}
	}
	return nil
}

// trial gives a trial the states that are known, and notes those that are not.
type trial struct{ *needs }

// Load gives nothing for what is not known: to the trial it does not exist.
func (t trial) Load(ref effects.Ref) (core.State, error) {
	if was, changed := t.b.l.since(t.b.n, ref); changed {
		return was, nil
	}
	if c, ok := t.b.foreseen[ref]; ok {
		return c.state, nil
	}
	if c, ok := t.b.l.cache.get(ref); ok {
		return c.state, nil
	}
	t.add(ref)
	return nil, nil
}

// Scan lists what the batch is going to list, too.
func (t trial) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	return t.b.Scan(kind, term, after, limit)
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
