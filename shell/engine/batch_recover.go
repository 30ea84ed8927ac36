package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// recoverLost takes back what was handed out to instances that are gone (A9, C8):
// their claims are fenced, so that a holder that only stalled cannot commit any
// more (R5), and each machine is told by its interrupt event.
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
	claims, err := b.tx.Claims(claimPrefix)
	if err != nil {
		return err
	}
	next := b.mono.Add(b.l.e.o.TickRate)
	live := map[string]uint64{b.l.claim: b.l.token}
	for _, c := range claims {
		if c.Holder == "" || c.Name == b.l.claim {
			continue
		}
		if wait := b.goneIn(c); wait > 0 {
			live[c.Name] = c.Token
			next = earliest(next, b.mono.Add(wait))
			continue
		}
		b.l.e.log.Warn("an instance is gone; telling the machines whose effects it carried out", "claim", c.Name, "holder", c.Holder, "last_seen", c.Renewed.String())
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

// sighting is when this instance, by its steady clock, first saw a claim of
// another one as it still is.
type sighting struct {
	token   uint64
	renewed effects.Time
	at      time.Time
}

// goneIn is how long the holder must still be waited for; 0: it is gone. Where
// the wall clock was set back, its silence while we watched tells, too.
func (b *batch) goneIn(c store.Claim) time.Duration {
	seen := b.l.sightings[c.Name]
	if seen.token != c.Token || seen.renewed != c.Renewed || seen.at.IsZero() {
		seen = sighting{token: c.Token, renewed: c.Renewed, at: b.mono}
		b.l.sightings[c.Name] = seen
	}
	gone, patience := c.Renewed.Add(b.l.e.o.RecoverAfter), b.l.e.o.RecoverAfter
	if s := b.l.e.store.Session(); s == "" || c.Session == s { // it may be alive: only its lapsed claim tells
		gone = max(gone, c.Until)
		patience = max(patience, b.l.e.o.LeaseTTL)
	}
	return max(min(gone.Sub(b.now), patience-b.mono.Sub(seen.at)), 0)
}

// interruptOrphans tells the machines whose outer effects were handed out to a holder
// that is not live.
func (b *batch) interruptOrphans(live map[string]uint64) (more bool, err error) {
	var orphans []store.OutboxEntry
	stop := errors.New("enough")
	err = b.tx.Outbox(func(o store.OutboxEntry) error {
		if o.Waiting() {
			return nil
		}
		if token, ok := live[o.Holder]; ok && token == o.Token {
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
	for _, o := range orphans {
		ev := core.InterruptEvent(o.Kind, o.Key.N, core.ReasonRecovered)
		if ev == nil {
			return false, fmt.Errorf("outbox entry of kind %q has no interrupt event", o.Kind)
		}
		b.l.e.stats.recovered.Add(1)
		if err := b.ack(o.Key, core.Input{To: effects.Ref{Kind: o.Kind, ID: o.Key.ID}, Actor: "recovery", Event: ev, Ack: o.Key.N}); err != nil {
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
