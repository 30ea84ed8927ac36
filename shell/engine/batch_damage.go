package engine

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

// Damaged is a machine whose record was set aside as unreadable.
type Damaged struct {
	Lost  effects.Ref
	Met   effects.Ref  // the machine that was to take an event when the record was met
	Terms []store.Term // the index terms under which it stood
	Raw   []byte       // what is left of the record
}

// Mending is what a hook may look at to find who counts on a damaged machine.
type Mending struct{ b *batch }

// Now is the batch's instant.
func (m Mending) Now() effects.Time { return m.b.now }

// State gives a machine as the batch has it so far; nil if it does not exist, or its
// record is damaged, too. An error means that the store could not be read.
func (m Mending) State(ref effects.Ref) (core.State, error) {
	s, err := m.b.fold.State(ref)
	if err != nil {
		return nil, m.b.broken // what is damaged is set aside with the rest of the batch
	}
	return s, nil
}

// Scan reads a page of a list index from before the batch.
func (m Mending) Scan(kind effects.Kind, term string, from store.Cursor, newest bool, limit int) ([]store.Cursor, error) {
	return m.b.tx.Scan(kind, term, from, newest, limit)
}

// TermNames gives names of list indexes from before the batch.
func (m Mending) TermNames(kind effects.Kind, prefix string, limit int) ([]string, error) {
	return m.b.tx.TermNames(kind, prefix, limit)
}

// MaxBatch bounds the inputs of a batch.
func (m Mending) MaxBatch() int { return m.b.l.e.o.MaxBatch }

// setAside moves records that could not be decoded out of the way.
func (b *batch) setAside() error {
	corrupt := b.corrupt
	b.corrupt = nil
	seen := make(map[effects.Ref]bool, len(corrupt))
	for _, bad := range corrupt {
		q := bad.Quarantined
		ref := effects.Ref{Kind: q.Kind, ID: q.ID}
		if seen[ref] {
			continue
		}
		seen[ref] = true
		b.aside = append(b.aside, ref)
		b.dirty = true
		b.l.e.stats.quarantined.Add(1)
		b.l.e.log.Error("record set aside", "kind", q.Kind, "id", q.ID, "reason", q.Reason)
		terms, err := b.tx.TermsOf(q.Kind, q.ID)
		if err != nil {
			return err
		}
		if err := b.tx.SetAside(q, 0); err != nil {
			return err
		}
		if core.KeepsLogs(q.Kind) {
			if err := b.tx.DeleteRunLogs(q.ID); err != nil {
				return err
			}
		}
		if err := b.mend(Damaged{Lost: ref, Met: bad.of, Terms: terms, Raw: q.Raw}); err != nil {
			return err
		}
	}
	return nil
}

// mend tells who counts on a machine whose record was set aside.
func (b *batch) mend(d Damaged) error {
	if b.l.e.o.Hooks.Mend == nil {
		return nil
	}
	tell, err := b.l.e.o.Hooks.Mend(d, Mending{b})
	if err != nil {
		return err
	}
	return b.tell(tell)
}

// mendAtEnd tells what waits for the end of the batch.
func (b *batch) mendAtEnd() error {
	if err := b.setAside(); err != nil {
		return err
	}
	if b.l.e.o.Hooks.MendAtEnd == nil {
		return nil
	}
	for _, ref := range b.aside {
		tell, err := b.l.e.o.Hooks.MendAtEnd(ref, Mending{b})
		if err != nil {
			return err
		}
		if err := b.tell(tell); err != nil {
			return err
		}
	}
	return nil
}

// tell applies what recovery tells. An input that cannot be decided stops no other.
func (b *batch) tell(inputs []core.Input) error {
	for _, in := range inputs {
		in.Actor = "recovery"
		if _, err := b.apply(in); b.broken != nil {
			return err
		}
	}
	return nil
}

// passOver sets aside what a listing could not read, and gives what else was
// wrong with it. The machine of an outbox entry is told that it is lost.
func (b *batch) passOver(err error) error {
	bad, rest := store.Unreadable(err)
	if rest != nil {
		return rest
	}
	for _, q := range bad {
		q.At = b.now
		b.dirty = true
		b.l.e.stats.quarantined.Add(1)
		b.l.e.log.Error("entry set aside", "kind", q.Kind, "id", q.ID, "n", q.N, "reason", q.Reason)
		if err := b.tx.SetAside(q, 0); err != nil {
			return err
		}
		var err error
		switch q.Kind {
		case store.KindWebhook:
			err = b.tx.DeleteWebhook(q.ID)
		case store.KindOutbox:
			to := b.asker(q.ID)
			ev := core.InterruptEvent(to.Kind, q.N, "what was to be carried out could not be read")
			err = b.ack(effectKey(to, q.N), core.Input{To: to, Actor: "recovery", Event: ev, Ack: q.N})
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// asker finds whose outer effect it is if only the machine's id is left: ids are
// unique across kinds.
func (b *batch) asker(id uuid.UUID) effects.Ref {
	kinds := core.OuterEffectKinds()
	last := len(kinds) - 1
	for _, kind := range kinds[:last] {
		ref := effects.Ref{Kind: kind, ID: id}
		if s, err := b.fold.State(ref); err == nil && s != nil {
			return ref
		}
	}
	return effects.Ref{Kind: kinds[last], ID: id}
}
