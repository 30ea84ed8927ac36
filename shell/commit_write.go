package shell

import (
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// write stores the changes and the journal.
func (p *plan) write(seq uint64) error {
	if len(p.entry.Inputs) == 0 {
		return nil
	}
	p.writes = make([]store.Write, 0, len(p.changes))
	for _, c := range p.changes {
		if err := p.dropLogs(c); err != nil {
			return err
		}
		w := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID}
		if c.Before != nil {
			m := p.meta[c.Ref]
			w.Prev = store.Prev{Version: m.version, Seq: m.seq, Due: c.Before.Deadline(), Terms: c.Before.Terms()}
		}
		if c.After != nil {
			w.State = p.encode(c.After)
			w.Due, w.Terms = c.After.Deadline(), c.After.Terms()
		}
		p.writes = append(p.writes, w)
	}
	if err := p.tx.Put(seq, p.writes); err != nil {
		return err
	}
	return p.tx.AppendJournal(seq, p.now, p.encode(p.entry))
}

// encode appends a stored form to the loop's buffer, which serves one batch
// after the other: what it held is no longer used then. Where the buffer moves
// as it grows, earlier forms stay in the old one.
func (p *plan) encode(v interface{ AppendJSON([]byte) []byte }) []byte {
	start := len(p.l.buf)
	p.l.buf = v.AppendJSON(p.l.buf)
	return p.l.buf[start:len(p.l.buf):len(p.l.buf)]
}

// outbox commits the outer effects: handed out where their lane has a free
// place, to wait where it has none.
func (p *plan) outbox(seq uint64) error {
	for _, w := range p.batch.Withdrawn() {
		key := effectKey(w.From.ID, w.N)
		if err := p.tx.DeleteOutbox(key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	for _, o := range p.batch.Outer() {
		e := store.OutboxEntry{
			Key: effectKey(o.From.ID, o.Effect.Number()), Seq: seq, Kind: o.From.Kind,
			Lane: o.Effect.Lane(), Effect: p.encode(o.Effect),
		}
		handed, err := p.handOut(&e, false)
		if errors.Is(err, errStale) {
			continue // started and ended within this batch
		}
		if err != nil {
			return err
		}
		if !handed {
			p.waiting[e.Lane] = true
		}
		if err := p.tx.PutOutbox(e); err != nil {
			return err
		}
	}
	return nil
}

// handOut reserves a place for the entry, and marks it as this instance's. Who
// has waited goes first.
func (p *plan) handOut(e *store.OutboxEntry, waited bool) (bool, error) {
	la := p.l.lane(e.Lane)
	if p.l.stopping || la.running+p.reserved[e.Lane] >= la.limit || (la.waiting || p.waiting[e.Lane]) && !waited {
		return false, nil
	}
	ref := effects.Ref{Kind: e.Kind, ID: e.Key.ID}
	s, err := p.batch.State(ref)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return false, err
	}
	effect := core.OutstandingEffect(s, e.Key.N)
	if effect == nil {
		return false, errStale
	}
	e.Holder, e.Token = p.l.claim, p.l.token
	p.reserved[e.Lane]++
	p.launches = append(p.launches, launch{key: e.Key, lane: e.Lane, effect: effect, state: s})
	return true, nil
}

// errStale: the entry's machine does not wait for it any more.
var errStale = errors.New("outbox entry that nobody waits for")

// startWaiting hands out what waits in lanes that have a free place again.
func (p *plan) startWaiting() error {
	if p.l.stopping {
		return nil
	}
	names := make([]string, 0, len(p.l.lanes))
	for name, la := range p.l.lanes { // the order of lanes does not matter: they share nothing
		if la.waiting && la.running+p.reserved[name] < la.limit {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		la := p.l.lanes[name]
		free := la.limit - la.running - p.reserved[name]
		entries, err := p.tx.Waiting(name, free)
		if err := p.passOver(err); err != nil {
			return err
		}
		for _, e := range entries {
			p.dirty = true
			e.Effect = slices.Clone(e.Effect)
			_, err := p.handOut(&e, true)
			switch {
			case errors.Is(err, errStale):
				p.l.e.log.Error("stale outbox entry dropped", "kind", e.Kind, "id", e.Key.ID, "n", e.Key.N)
				err = p.tx.DeleteOutbox(e.Key)
			case err == nil:
				err = p.tx.PutOutbox(e)
			}
			if err != nil {
				return err
			}
		}
		p.waiting[name] = len(entries) == free
	}
	return nil
}

func (p *plan) sweepDone() bool { return p.l.sweep.active && !p.sweep.active }

func (p *plan) findNextDue() error {
	at, ok, err := p.tx.NextDue(p.now)
	if !ok {
		at = 0
	}
	p.nextDue = at
	return err
}

// committed carries the batch over into the loop, answers, and lets the effects
// go.
func (l *loop) committed(p *plan) {
	e := l.e
	if p.batch == nil {
		return
	}
	l.sweep, l.webhooks, l.retention, l.nextRecover = p.sweep, p.webhooks, p.retain, p.recover
	l.nextDue = p.nextDue
	if p.renewed {
		l.nextRenew = p.mono.Add(l.renewEvery())
	}
	if len(p.entry.Inputs) > 0 {
		l.lastSeq = p.entry.Seq
		l.remember(p)
		e.stats.batches.Add(1)
		e.stats.expired.Add(p.expired)
		e.stats.inputs.Add(uint64(len(p.entry.Inputs)))
	}
	for name, w := range p.waiting {
		l.lane(name).waiting = w
	}
	for _, w := range p.batch.Withdrawn() {
		if r, ok := l.running[effectKey(w.From.ID, w.N)]; ok {
			r.dropped = true
			r.cancel(ErrCancelled)
		}
	}
	for _, s := range p.launches {
		l.lane(s.lane).running++
		e.stats.running.Add(1)
		l.start(s)
	}
	l.reply(p)
	clear(l.outcomes)
	l.outcomes = l.outcomes[:0]
	e.announce(p)
}

// remember keeps the new states for the batches that follow.
func (l *loop) remember(p *plan) {
	i := 0
	for _, c := range p.changes {
		w := p.writes[i]
		i++
		if c.After == nil {
			l.cache.drop(c.Ref)
			continue
		}
		if at := w.Due; !at.IsZero() && (l.nextDue.IsZero() || at < l.nextDue) && !p.skips(c.Ref.Kind) {
			l.nextDue = at
		}
		if _, ended := core.EndedAt(c.After); ended {
			l.cache.drop(c.Ref)
			continue
		}
		switch c.Ref.Kind {
		case core.KindOccurrence, core.KindQueueDedup:
			continue // read again at most once
		case core.KindQueueItem:
			if i, ok := c.After.(core.QueueItem); ok && (i.State.Type == core.ItemCompleted || i.State.Type == core.ItemDead) {
				l.cache.drop(c.Ref)
				continue
			}
		}
		l.cache.put(c.Ref, cached{state: c.After, version: w.Prev.Version + 1, seq: p.entry.Seq, size: len(w.State)})
	}
}

func (l *loop) reply(p *plan) {
	for i, r := range l.requests {
		r.done <- p.replies[i]
	}
	clear(l.requests)
	l.requests = l.requests[:0]
}
