package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// The machines know the clock readings of batches and nothing of what lies between two of them.
// The loop does: it finds out when nobody was there to decide, and why ([core.Absence]). The
// last absences stand in the store from the first batch after them on, so that a daemon that is
// killed right after its start does not lose the outage before. The machines that one of them
// has held up are told with the event by which they decide: it is journaled with that.

// metaPresence names what the store keeps of it.
const metaPresence = "presence"

// maxAbsences is how many of the last absences are known.
const maxAbsences = 16

// minAbsence is how long the daemon must have stood still, or how far the clock must have moved,
// to count: a busy computer is no suspended process, and clocks are corrected all the time.
const minAbsence = time.Second

// presence is what the store keeps.
type presence struct {
	Absences []core.Absence `json:"absences,omitempty"`
	Stopped  effects.Time   `json:"stopped,omitzero"` // since when the daemon is, cleanly; zero: it is not
	Off      effects.Time   `json:"off,omitzero"`     // since when it runs with [Options.DisablePaced]; zero: it does not
	Paused   effects.Time   `json:"paused,omitzero"`  // since when it is paused; zero: it is not
}

// readPresence reads it. What cannot be read is as good as nothing.
func readPresence(tx store.ReadTx) (p presence) {
	raw, err := tx.Meta(metaPresence)
	if err != nil || raw == nil || json.Unmarshal(raw, &p) != nil {
		return presence{}
	}
	return p
}

func (p presence) note(tx store.Tx) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return tx.SetMeta(metaPresence, raw)
}

// watch is what the loop knows of when it was there.
type watch struct {
	wall     effects.Time // the last reading of the clock, and
	steady   time.Time    // of the steady one at the same time
	asleep   time.Duration
	absences []core.Absence
	off      effects.Time // see [presence], as is
	paused   effects.Time
	open     bool // the last of them ends with the next batch
	unsaved  bool // the store does not have them all
}

// cameBack notes at a start how long nobody was there. It is called in a transaction that may
// be repeated, before this instance has a claim.
func (l *loop) cameBack(tx store.Tx, now effects.Time) error {
	if !l.watch.steady.IsZero() {
		return nil // the instance was fenced: another one was there
	}
	p := readPresence(tx)
	since, cause, err := l.lastSign(tx, p, now)
	if err != nil {
		return err
	}
	l.watch.absences = p.Absences
	if !p.Off.IsZero() {
		l.watch.add(core.Absence{From: p.Off, To: since, Cause: core.AbsentOff})
	}
	if !p.Paused.IsZero() {
		l.watch.add(core.Absence{From: p.Paused, To: since, Cause: core.AbsentPaused})
	}
	if !since.IsZero() {
		l.watch.add(core.Absence{From: since, To: now, Cause: cause})
	}
	if l.e.o.DisablePaced {
		l.watch.off = now
	}
	if l.paused {
		l.watch.paused = now
	}
	return l.watch.presence().note(tx)
}

// lastSign is the last sign of life of a daemon that is gone, and what became of it; zero: none
// was there before, or one is there now. A clean stop gives its claim back.
func (l *loop) lastSign(tx store.Tx, p presence, now effects.Time) (at effects.Time, cause core.AbsenceCause, err error) {
	if !p.Stopped.IsZero() {
		return p.Stopped, core.AbsentStopped, nil
	}
	claims, err := tx.Claims(ClaimPrefix)
	if err != nil {
		return 0, "", err
	}
	cause = core.AbsentStopped // by a version that did not note when
	for _, c := range claims {
		switch {
		case c.Holder == "":
		case c.Session == l.e.store.Session() && c.Until.After(now):
			return 0, "", nil
		default:
			cause, at = core.AbsentKilled, max(at, c.Renewed)
		}
	}
	seq, err := tx.Seq()
	if err != nil || seq == 0 {
		return 0, "", err
	}
	last, err := timeOf(tx, seq)
	return max(at, last), cause, err
}

// timeOf is the time of a batch; zero: it cannot be read.
func timeOf(tx store.Tx, seq uint64) (at effects.Time, err error) {
	err = tx.Journal(seq, func(_ uint64, raw []byte) error {
		var entry struct {
			At effects.Time `json:"at"`
		}
		if json.Unmarshal(raw, &entry) == nil {
			at = max(at, entry.At)
		}
		return nil
	})
	_, err = store.Unreadable(err) // what cannot be read says nothing
	return at, err
}

// presence gives what the store is to keep.
func (w *watch) presence() presence {
	return presence{Absences: w.absences, Off: w.off, Paused: w.paused}
}

// endPause notes that the engine was paused, and that it is no more.
func (w *watch) endPause(l *loop) {
	from := w.paused
	w.paused, w.unsaved = 0, true
	if !from.IsZero() {
		w.add(core.Absence{From: from, To: l.wall(), Cause: core.AbsentPaused})
	}
}

// add notes an absence, which ends with the next batch.
func (w *watch) add(a core.Absence) {
	if !a.From.Before(a.To) {
		return // the clock was set back meanwhile
	}
	w.absences = append(slices.Clip(w.absences), a)
	if n := len(w.absences); n > maxAbsences {
		w.absences = slices.Clone(w.absences[n-maxAbsences:])
	}
	w.open, w.unsaved = true, true
}

// look reads the clocks, and notes what has become of the time since the last look. planned is
// when the loop was to wake by the steady clock at the latest; zero: it did not sleep. It gives
// the reading of the wall clock.
func (l *loop) look(planned time.Time) effects.Time {
	w, steady, wall := &l.watch, l.now(), l.wall()
	if w.steady.IsZero() {
		w.steady, w.wall, w.asleep = steady, wall, asleep(l.e.o.Clock)
		return wall
	}
	expected := w.wall.Add(steady.Sub(w.steady))
	moved := wall.Sub(expected)
	w.steady, w.wall = steady, wall
	for _, s := range l.pulse.standstills(steady) {
		w.add(core.Absence{From: expected.Add(-steady.Sub(s.from)), To: expected.Add(-steady.Sub(s.to)), Cause: core.AbsentSuspended})
		w.open = steady.Sub(s.to) < minAbsence // else the loop was there again, and busy
	}
	if late := steady.Sub(planned); !planned.IsZero() && late >= minAbsence {
		w.add(core.Absence{From: expected.Add(-late), To: expected, Cause: core.AbsentSuspended})
	}
	switch {
	case moved >= minAbsence:
		was := w.asleep
		w.asleep = asleep(l.e.o.Clock)
		w.add(core.Absence{From: expected, To: wall, Cause: jumpCause(moved, was, w.asleep)})
	case moved <= -minAbsence: // what lies ahead now was no absence of what comes then
		n := len(w.absences)
		ahead := func(a core.Absence) bool { return a.To.After(wall) }
		w.open = w.open && n > 0 && !ahead(w.absences[n-1])
		w.absences = slices.DeleteFunc(slices.Clone(w.absences), ahead)
		w.unsaved = w.unsaved || len(w.absences) < n
	}
	return wall
}

// jumpCause says why the wall clock has moved on without the steady one, given how long the
// machine had been suspended before and since; below 0: that is not known.
func jumpCause(moved, was, is time.Duration) core.AbsenceCause {
	slept := is - was
	switch {
	case was < 0 || is < 0:
		return core.AbsentJump
	case slept >= moved-minAbsence:
		return core.AbsentSuspended
	case slept < minAbsence:
		return core.AbsentClockSet
	}
	return core.AbsentJump // a part each
}

// asleep is how long the machine has been suspended in all; below 0: the clock cannot tell.
func asleep(c Clock) time.Duration {
	if c, ok := c.(SuspendClock); ok {
		return c.Suspended()
	}
	return -1
}

// presence notes the absences in the batch, and when the last of them has ended: now.
func (b *batch) presence() error {
	w := &b.l.watch
	b.absences = w.absences
	if w.open {
		b.absences = slices.Clone(w.absences)
		last := &b.absences[len(b.absences)-1]
		last.To = max(last.To, b.now)
	}
	if !w.unsaved {
		return nil
	}
	b.dirty = true
	p := w.presence()
	p.Absences = b.absences
	return p.note(b.tx)
}

// informed gives an input with what its machine is to know of the absences.
func (b *batch) informed(in core.Input) core.Input {
	off, paused := b.l.watch.off, b.l.watch.paused
	if len(b.absences) == 0 && off.IsZero() && paused.IsZero() || !core.Informs(in.Event) {
		return in
	}
	if s, err := b.fold.State(in.To); err == nil && s != nil {
		known := slices.Clip(b.absences)
		if !paused.IsZero() {
			known = append(known, core.Absence{From: paused, To: b.now, Cause: core.AbsentPaused})
		}
		if !off.IsZero() {
			known = append(known, core.Absence{From: off, To: b.now, Cause: core.AbsentOff})
		}
		in.Event = core.Informed(s, in.Event, known, b.now)
	}
	return in
}
