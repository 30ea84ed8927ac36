package engine

import (
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// sweepDue takes what is due: all of it in time order if it fits into the batch (B1), and into the
// time of one, else as much of it from the backlog, each tenant in turn.
func (b *batch) sweepDue() error {
	if !b.sweep.active || b.l.stopping || b.l.paused {
		return nil
	}
	b.restoreBacklog()
	if b.l.backlog.entries > 0 {
		return b.sweepBacklog(nil)
	}
	limit := b.l.e.o.MaxBatch
	entries, err := b.nextPage(limit)
	if err != nil {
		return err
	}
	if len(entries) >= limit {
		return b.sweepBacklog(entries)
	}
	if err := b.fetchDue(entries, isNone); err != nil {
		return err
	}
	timer := b.l.newStint()
	for i, d := range entries {
		if b.loaded > maxBatchBytes || timer.over() {
			return b.putOffAll(entries[i:])
		}
		if b.passes(d.Kind) {
			continue
		}
		if err := b.due(d, false); err != nil {
			return err
		}
	}
	b.endSweep()
	return nil
}

// endSweep ends the sweep, or begins it anew if something was left: that may stand before the place
// to which it has read.
func (b *batch) endSweep() { b.sweep = sweep{active: b.sweep.left} }

// putOffAll puts what is left of all that is due into the backlog: the next batch takes from each
// tenant in turn, so that few machines that take long do not put off those of other tenants.
func (b *batch) putOffAll(entries []store.DueEntry) error {
	b.l.backlog.touched = true
	for _, d := range entries {
		if err := b.putOff(d); err != nil {
			return err
		}
	}
	if b.l.backlog.entries == 0 {
		b.endSweep()
	}
	return nil
}

// skips reports whether machines of that kind are not woken at all.
func (b *batch) skips(kind effects.Kind) bool { return b.l.e.o.DisablePaced && core.Paced(kind) }

// due wakes one machine. An entry that leads nowhere is set aside, so that it
// stops nobody (A10, 002 section 6). One from the backlog may have gone since it was read.
func (b *batch) due(d store.DueEntry, backlog bool) error {
	ref := effects.Ref{Kind: d.Kind, ID: d.Key.ID()}
	before, err := b.fold.State(ref)
	ev := b.dueEvent(ref.Kind, before)
	switch {
	case errors.Is(err, store.ErrCorrupt): // the record is set aside like any other, and the entry led to it alone
		if err := b.setAside(); err != nil {
			return err
		}
		return b.tx.RemoveDue(d)
	case err != nil:
		return err
	case before != nil && ev != nil && (before.Deadline() == d.Key.At() || b.decided(ref)):
		late := b.now.Sub(d.Key.At())
		b.lag = max(b.lag, late)
		b.l.e.stats.lateness.observe(late.Seconds())
		_, _ = b.apply(core.Input{To: ref, Actor: "clock", Event: ev}) // what cannot be decided stays due
		return b.broken
	case backlog || before == nil && b.decided(ref):
		if backlog && b.l.backlog.others && b.l.e.o.Hooks.Overtaken != nil {
			b.l.e.o.Hooks.Overtaken(ref)
		}
		return nil // its entry went with what has happened since, or goes with this batch
	case before != nil && ev != nil: // a sound record: only the entry is wrong
		b.dirty = true
		b.l.e.log.Error("stray due entry removed", "ref", ref.String(), "due", d.Key.At().String(), "waits_for", before.Deadline().String())
		return b.tx.RemoveDue(d)
	}
	const reason = "the due index names a record that is not there"
	b.dirty = true
	b.l.e.stats.quarantined.Add(1)
	b.l.e.log.Error("due entry set aside", "ref", ref.String(), "due", d.Key.At().String(), "reason", reason)
	return b.tx.SetAside(store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: b.now, Reason: reason}, d.Key.At())
}

// dueEvent is what tells a machine in that state that its deadline has come; nil where its
// kind has no deadlines.
func (b *batch) dueEvent(kind effects.Kind, s core.State) core.Event {
	if s == nil || b.l.e.o.Hooks.DueEvent == nil {
		return core.DueEvent(kind)
	}
	return b.l.e.o.Hooks.DueEvent(s)
}

// decided reports whether this batch has changed the machine before.
func (b *batch) decided(ref effects.Ref) bool {
	return slices.ContainsFunc(b.fold.Changes(), func(c core.Change) bool { return c.Ref == ref })
}

// dueNow wakes the machines whose deadlines have come by this batch itself: what was
// created for now runs without waiting for another batch, as far as the time allows. With a
// strict tick that is done at ticks only, and whole: the next one is far.
func (b *batch) dueNow() error {
	if b.l.stopping || b.l.paused || (b.l.e.o.StrictTick && !b.l.sweep.active) {
		return nil
	}
	const rounds = 4 // a machine wakes one that it has made; the rest waits for the sweep
	timer := b.l.newStint()
	for range rounds {
		woke := false
		for _, ref := range b.fold.Due() {
			if b.skips(ref.Kind) || b.mustWait(ref) {
				continue
			}
			if timer.over() && !b.l.e.o.StrictTick {
				b.sweep.left = b.sweep.active
				return nil
			}
			s, err := b.fold.State(ref)
			if err != nil {
				s = nil // which apply meets, too
			}
			res, _ := b.apply(core.Input{To: ref, Actor: "clock", Event: b.dueEvent(ref.Kind, s)})
			if b.broken != nil {
				return b.broken
			}
			woke = woke || res.Changed
		}
		if !woke {
			return nil
		}
	}
	return nil
}

// mustWait reports whether a machine that is due waits for the tick: between two
// strict ticks only those that are paced, and what they have dispatched, are woken.
func (b *batch) mustWait(ref effects.Ref) bool {
	if !b.l.e.o.StrictTick || !b.l.sweep.paced || core.Paced(ref.Kind) {
		return false
	}
	s, err := b.fold.State(ref)
	return err != nil || !core.PacedWith(s)
}

// findNextDue finds when something will be due next.
func (b *batch) findNextDue() error {
	at, ok, err := b.tx.NextDue(b.now)
	if !ok {
		at = 0
	}
	b.nextDue = at
	return err
}
