package shell

import (
	"errors"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// unreadable is a record that could not be decoded, and the machine that was to
// take an event when it was met.
type unreadable struct {
	store.Quarantined
	of effects.Ref
}

// setAside moves records that could not be decoded out of the way.
func (p *plan) setAside() error {
	corrupt := p.corrupt
	p.corrupt = nil
	seen := make(map[effects.Ref]bool, len(corrupt))
	for _, bad := range corrupt {
		q := bad.Quarantined
		ref := effects.Ref{Kind: q.Kind, ID: q.ID}
		if seen[ref] {
			continue
		}
		seen[ref] = true
		if q.Kind == core.KindAction {
			p.aside = append(p.aside, q.ID)
		}
		p.dirty = true
		p.l.e.stats.quarantined.Add(1)
		p.l.e.log.Error("record set aside", "kind", q.Kind, "id", q.ID, "reason", q.Reason)
		terms, err := p.tx.TermsOf(q.Kind, q.ID)
		if err != nil {
			return err
		}
		if err := p.tx.SetAside(q, 0); err != nil {
			return err
		}
		if q.Kind == core.KindOrchestrator {
			if err := p.tx.DeleteRunLogs(q.ID); err != nil {
				return err
			}
		}
		if err := p.mend(bad, terms); err != nil {
			return err
		}
	}
	return nil
}

// mend tells who counts on a record that was set aside: the queue that it was a
// part of, and who waits for its machine.
func (p *plan) mend(bad unreadable, terms []store.Term) error {
	lost := effects.Ref{Kind: bad.Kind, ID: bad.ID}
	tell := core.LostTo(lost, bad.Raw)
	var more []core.Input
	var err error
	queue := bad.of
	switch lost.Kind {
	case core.KindOrchestrator:
		more, err = p.mendRun(lost.ID, terms)
	case core.KindScheduler:
		more, err = p.mendScheduler(lost.ID)
	case core.KindQueue:
		queue = lost
		fallthrough
	case core.KindQueueItem, core.KindQueueKey, core.KindQueueDedup:
		if queue.Kind == core.KindQueue {
			tell = append(tell, core.Input{To: queue, Actor: "recovery", Event: core.MendQueue(queue.ID, lost, terms, bad.Raw)})
		}
	}
	if err != nil {
		return err
	}
	for _, in := range append(tell, more...) {
		in.Actor = "recovery"
		if _, err := p.apply(in); p.broken != nil {
			return err
		}
	}
	return nil
}

// passOver sets aside what a listing could not read, and gives what else was
// wrong with it. The machine of an outbox entry is told that it is lost.
func (p *plan) passOver(err error) error {
	bad, rest := store.Unreadable(err)
	if rest != nil {
		return rest
	}
	for _, q := range bad {
		q.At = p.now
		p.dirty = true
		p.l.e.stats.quarantined.Add(1)
		p.l.e.log.Error("entry set aside", "kind", q.Kind, "id", q.ID, "n", q.N, "reason", q.Reason)
		if err := p.tx.SetAside(q, 0); err != nil {
			return err
		}
		var err error
		switch q.Kind {
		case store.KindWebhook:
			err = p.tx.DeleteWebhook(q.ID)
		case store.KindOutbox:
			to := p.asker(q.ID)
			ev := core.InterruptEvent(to.Kind, q.N, "what was to be carried out could not be read")
			err = p.ack(effectKey(q.ID, q.N), core.Input{To: to, Actor: "recovery", Event: ev, Ack: q.N})
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// asker finds whose outer effect it is where only the machine's id is left: ids
// are unique across kinds.
func (p *plan) asker(id uuid.UUID) effects.Ref {
	for _, kind := range []effects.Kind{core.KindPipeline, core.KindTask, core.KindStrategy, core.KindOrchestrator} {
		ref := effects.Ref{Kind: kind, ID: id}
		if s, err := p.batch.State(ref); err == nil && s != nil {
			return ref
		}
	}
	return effects.Ref{Kind: core.KindAction, ID: id}
}

// freeKeys releases the dedup keys of actions that were set aside: they will
// not do it themselves.
func (p *plan) freeKeys() error {
	if err := p.setAside(); err != nil {
		return err
	}
	for _, id := range p.aside {
		held, err := p.tx.Scan(core.KindDedup, core.HolderTerm(id), store.Cursor{}, false, p.l.e.o.MaxBatch)
		if err != nil {
			return err
		}
		for _, c := range held {
			ref := effects.Ref{Kind: core.KindDedup, ID: c.ID}
			if _, err := p.apply(core.Input{To: ref, Actor: "recovery", Event: core.DedupRelease{Holder: id}}); p.broken != nil {
				return err
			}
		}
	}
	return nil
}
