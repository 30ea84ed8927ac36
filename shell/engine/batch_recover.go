package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// recoverLost takes back what was handed out to instances that are gone (A9, C8), in two
// steps. Once a claim tells that nobody works under it any more, its session is over or
// its lease has lapsed, the machines are told by their interrupt events whose effects may
// be carried out twice, see [effects.Outer]. Once the holder has been silent for
// RecoverAfter too, the claim is fenced, so that a holder that only stalled cannot commit
// any more (R5), and the others are told. What a stalled holder comes to between the two
// steps is refused: its machine waits for the effect's next number.
func (b *batch) recoverLost() error {
	if b.l.stopping || b.l.nextRecover.IsZero() || b.mono.Before(b.l.nextRecover) {
		return nil
	}
	lanes, err := b.tx.WaitingLanes() // another instance may have left some behind
	if err := b.passOver(err); err != nil {
		return err
	}
	for _, name := range lanes {
		b.waiting[name] = true
	}
	if f := &b.l.formers; !f.known { // who is gone is known once the database has told
		b.recover = b.mono.Add(b.l.e.o.Handover.every())
		return nil
	}
	claims, err := b.tx.Claims(ClaimPrefix)
	if err != nil {
		return err
	}
	next := b.mono.Add(b.l.e.o.TickRate)
	live := map[string]holding{b.l.claim: {token: b.l.token}}
	for _, c := range claims {
		if c.Holder == "" || c.Name == b.l.claim {
			continue
		}
		if b.l.formers.carriesOn(c) {
			live[c.Name] = holding{token: c.Token}
			continue
		}
		if lapses, gone := b.silence(c); gone > 0 && !b.l.formers.gone[c.Session] {
			live[c.Name] = holding{token: c.Token, lapsed: lapses == 0}
			next = earliest(next, b.mono.Add(gone))
			if lapses > 0 {
				next = earliest(next, b.mono.Add(lapses))
			}
			continue
		}
		if !b.l.formers.gone[c.Session] { // else the log says so
			b.l.e.log.Warn("an instance is gone; telling the machines whose effects it carried out", "claim", c.Name, "holder", c.Holder, "last_seen", c.Renewed.String())
		}
		if err := b.tx.Fence(c.Name); err != nil {
			return err
		}
		b.dirty = true
	}
	more, err := b.interruptOrphans(live)
	if more {
		next = b.mono
	}
	b.recover = next
	return err
}

// holding is a claim whose holder is not known to be gone.
type holding struct {
	token  uint64
	lapsed bool // nobody works under it any more, or may: what is repeatable need not wait
}

// lost reports whether an entry is to be taken back from the instance that has it in hand.
func (h holding) lost(o store.OutboxEntry) bool {
	switch {
	case o.Token != h.token:
		return true
	case !h.lapsed:
		return false
	}
	if len(o.Effect) == 0 {
		return false // what is repeatable stands in its entry
	}
	e, err := effects.DecodeOuter(o.Effect)
	return err == nil && e.Repeatable()
}

// sighting is when this instance, by its steady clock, first saw a claim of
// another one as it still is.
type sighting struct {
	token   uint64
	renewed effects.Time
	at      time.Time
}

// silence is how long until the claim tells that nobody works under it, and until its
// holder counts as gone; 0: it does. Where the wall clock was set back, its silence while
// we watched tells, too.
func (b *batch) silence(c store.Claim) (lapses, gone time.Duration) {
	seen := b.l.sightings[c.Name]
	if seen.token != c.Token || seen.renewed != c.Renewed || seen.at.IsZero() {
		seen = sighting{token: c.Token, renewed: c.Renewed, at: b.l.now()} // not b.mono: the transaction may have had to wait
		b.l.sightings[c.Name] = seen
	}
	left := func(until effects.Time, patience time.Duration) time.Duration {
		return max(min(until.Sub(b.now), patience-b.mono.Sub(seen.at)), 0)
	}
	after, ttl := b.l.e.o.RecoverAfter, b.l.e.o.LeaseTTL
	if s := b.l.e.store.Session(); s != "" && c.Session != s {
		return 0, left(c.Renewed.Add(after), after) // an exclusive store: its process has ended
	}
	return left(c.Until, ttl), left(max(c.Renewed.Add(after), c.Until), max(after, ttl))
}

// interruptOrphans tells the machines whose outer effects are lost to those who had them
// in hand.
func (b *batch) interruptOrphans(live map[string]holding) (more bool, err error) {
	var orphans []store.OutboxEntry
	stop := errors.New("enough")
	err = b.tx.Outbox(func(o store.OutboxEntry) error {
		if o.Waiting() {
			return nil
		}
		if h, ok := live[o.Holder]; ok && !h.lost(o) {
			return nil
		}
		if len(orphans) == b.l.e.o.MaxBatch {
			more = true
			return stop
		}
		o.Effect = nil // valid in the callback only, and not needed
		orphans = append(orphans, o)
		return nil
	})
	if !errors.Is(err, stop) {
		if err := b.passOver(err); err != nil {
			return false, err
		}
	}
	inputs := make([]core.Input, len(orphans))
	for i, o := range orphans {
		ev := core.InterruptEvent(o.Kind, o.Key.N, core.ReasonRecovered)
		if ev == nil {
			return false, fmt.Errorf("outbox entry of kind %q has no interrupt event", o.Kind)
		}
		inputs[i] = core.Input{To: effects.Ref{Kind: o.Kind, ID: o.Key.ID}, Actor: "recovery", Event: ev, Ack: o.Key.N}
	}
	if err := b.fetchDecided(inputs); err != nil {
		return false, err
	}
	for i, in := range inputs {
		b.l.e.stats.recovered.Add(1)
		if err := b.ack(orphans[i].Key, in); err != nil {
			return false, err
		}
	}
	return more, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
