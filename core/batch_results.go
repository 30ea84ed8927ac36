package core

import (
	"github.com/orrery-go/orrery/effects"
)

// Changes lists what the inputs did, in the order of each machine's first
// change. A machine that was made and unmade within the batch is left out.
func (t *Batch) Changes() []Change { return t.AppendChanges(make([]Change, 0, len(t.order))) }

// AppendChanges appends [Batch.Changes].
func (t *Batch) AppendChanges(out []Change) []Change {
	for _, s := range t.order {
		if s.before != nil || s.now != nil {
			out = append(out, Change{Ref: s.ref, Before: s.before, After: s.now})
		}
	}
	return out
}

// Due lists the machines that this batch has left with a deadline that has come.
func (t *Batch) Due() []effects.Ref {
	var out []effects.Ref
	for _, s := range t.order {
		if s.now == nil {
			continue
		}
		if at := s.now.Deadline(); !at.IsZero() && !at.After(t.clock.Now) {
			out = append(out, s.ref)
		}
	}
	return out
}

// Outer lists the outer effects, in the order in which they arose.
func (t *Batch) Outer() []OuterEffect { return t.outer }

// Withdrawn lists the outer effects of earlier batches that were taken back.
func (t *Batch) Withdrawn() []WithdrawnEffect { return t.withdraw }

// Stopped lists the outer effects that were asked to end ([effects.Stop]), those of this batch
// included; some may have been withdrawn since.
func (t *Batch) Stopped() []StoppedEffect { return t.stop }

// Events lists what was announced on the bus, in order.
func (t *Batch) Events() []effects.Event { return t.events }
