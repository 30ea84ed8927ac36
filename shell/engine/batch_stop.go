package engine

import (
	"errors"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// stop sees to the effects that machines have asked to stop: what nobody has begun is handed
// back at once, by an input of its own, and what runs is cancelled once the batch is durable.
func (b *batch) stop() error {
	for i := 0; i < len(b.fold.Stopped()); i++ { // what is handed back may stop others
		of := b.fold.Stopped()[i]
		if err := b.stopOne(of.From, of.N); err != nil {
			return err
		}
	}
	return nil
}

// stopOne does so for one effect.
func (b *batch) stopOne(ref effects.Ref, n uint32) error {
	s, err := b.fold.State(ref)
	if err != nil || !core.Stopping(s, n) {
		return nil //nolint:nilerr // a record that cannot be read is set aside; what has ended needs nothing
	}
	key := effectKey(ref, n)
	e, err := b.tx.OutboxEntry(key)
	switch {
	case errors.Is(err, store.ErrNotFound): // it arose in this batch
	case errors.Is(err, store.ErrCorrupt):
		return nil // who finds it tells the machine, see passOver
	case err != nil:
		return err
	case !e.Waiting():
		b.stops = append(b.stops, key)
		return nil
	}
	return b.ack(key, core.Input{To: ref, Actor: "engine", Event: core.HandBackEvent(ref.Kind, n), Ack: n})
}
