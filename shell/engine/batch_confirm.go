package engine

import (
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// setAdrift notes that the last batch is stored although nobody was told
// ([store.ErrUnconfirmed]): what the loop would have done then, the next batch finds out.
func (l *loop) setAdrift() {
	l.adrift = true
	if missed := l.e.o.Hooks.Missed; missed != nil {
		missed()
	}
	l.sweep, l.webhooks = sweep{active: true}, true // whatever that batch has made due
}

// catchUp brings the loop and the outbox together after a batch that is stored and was
// not confirmed: what that batch has handed out was never started and waits again, and
// what it has withdrawn or stopped is cancelled.
func (b *batch) catchUp() error {
	if !b.l.adrift {
		return nil
	}
	begun := make(map[store.EffectKey]bool, len(b.l.running)+len(b.l.outcomes))
	for key := range b.l.running {
		begun[key] = true
	}
	for _, o := range b.l.outcomes {
		begun[o.of.key] = true
	}
	stays := make(map[store.EffectKey]bool, len(begun))
	var idle []store.OutboxEntry
	var held []core.StoppedEffect
	err := b.tx.Outbox(func(o store.OutboxEntry) error {
		if o.Holder != b.l.claim || o.Token != b.l.token {
			return nil
		}
		if stays[o.Key] = true; !begun[o.Key] {
			o.Effect = slices.Clone(o.Effect)
			idle = append(idle, o)
		}
		held = append(held, core.StoppedEffect{From: effects.Ref{Kind: o.Kind, ID: o.Key.ID}, N: o.Key.N})
		return nil
	})
	if err := b.passOver(err); err != nil {
		return err
	}
	for _, o := range idle {
		if err := b.wait(o); err != nil {
			return err
		}
	}
	for _, o := range held {
		if err := b.stopOne(o.From, o.N); err != nil {
			return err
		}
	}
	for key := range b.l.running { // in any order: each is dropped by itself
		if !stays[key] {
			b.unwanted = append(b.unwanted, key)
		}
	}
	b.dirty = true
	return nil
}

// wait puts an entry that was handed out and certainly not started back into its lane.
func (b *batch) wait(o store.OutboxEntry) error {
	o.Holder, o.Token = "", 0
	b.waiting[o.Lane] = true
	b.dirty = true
	return b.tx.PutOutbox(o)
}
