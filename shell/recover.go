package shell

import (
	"errors"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// recoverLost settles what was handed out to instances that are gone (A9, C8):
// their claims are fenced, so that a holder that only stalled cannot commit any
// more (R5), and each machine is told by its interrupt event.
func (p *plan) recoverLost() error {
	if p.l.stopping || p.l.nextRecover.IsZero() || p.mono.Before(p.l.nextRecover) {
		return nil
	}
	lanes, err := p.tx.WaitingLanes() // another instance may have left some behind
	if err := p.passOver(err); err != nil {
		return err
	}
	for _, name := range lanes {
		p.waiting[name] = true
	}
	claims, err := p.tx.Claims(claimPrefix)
	if err != nil {
		return err
	}
	next := p.mono.Add(p.l.e.o.TickRate)
	live := map[string]uint64{p.l.claim: p.l.token}
	for _, c := range claims {
		if c.Holder == "" || c.Name == p.l.claim {
			continue
		}
		if wait := p.goneIn(c); wait > 0 {
			live[c.Name] = c.Token
			next = earliest(next, p.mono.Add(wait))
			continue
		}
		p.l.e.log.Warn("an instance is gone; settling what it ran", "claim", c.Name, "holder", c.Holder, "last_seen", c.Renewed.String())
		if err := p.tx.Fence(c.Name); err != nil {
			return err
		}
		p.dirty = true
	}
	more, err := p.interruptOrphans(live)
	if more {
		next = p.mono
	}
	p.recover = next
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
func (p *plan) goneIn(c store.Claim) time.Duration {
	seen := p.l.sightings[c.Name]
	if seen.token != c.Token || seen.renewed != c.Renewed || seen.at.IsZero() {
		seen = sighting{token: c.Token, renewed: c.Renewed, at: p.mono}
		p.l.sightings[c.Name] = seen
	}
	gone, patience := c.Renewed.Add(p.l.e.o.RecoverAfter), p.l.e.o.RecoverAfter
	if s := p.l.e.store.Session(); s == "" || c.Session == s { // it may be alive: only its lapsed claim tells
		gone = max(gone, c.Until)
		patience = max(patience, p.l.e.o.LeaseTTL)
	}
	return max(min(gone.Sub(p.now), patience-p.mono.Sub(seen.at)), 0)
}

// interruptOrphans settles handed-out effects whose holder is not live.
func (p *plan) interruptOrphans(live map[string]uint64) (more bool, err error) {
	var orphans []store.OutboxEntry
	stop := errors.New("enough")
	err = p.tx.Outbox(func(o store.OutboxEntry) error {
		if o.Waiting() {
			return nil
		}
		if token, ok := live[o.Holder]; ok && token == o.Token {
			return nil
		}
		if len(orphans) == p.l.e.o.MaxBatch {
			more = true
			return stop
		}
		o.Effect = nil // valid in the callback only, and not needed
		orphans = append(orphans, o)
		return nil
	})
	if !errors.Is(err, stop) {
		if err := p.passOver(err); err != nil {
			return false, err
		}
	}
	for _, o := range orphans {
		ev := core.InterruptEvent(o.Kind, o.Key.N, core.ReasonRecovered)
		if ev == nil {
			return false, fmt.Errorf("outbox entry of kind %q has no interrupt event", o.Kind)
		}
		p.l.e.stats.recovered.Add(1)
		if err := p.ack(o.Key, core.Input{To: effects.Ref{Kind: o.Kind, ID: o.Key.ID}, Actor: "recovery", Event: ev, Ack: o.Key.N}); err != nil {
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

// retention walks through what is finished and forgets what is older than it
// must be kept (C12). It walks a little at a time.
type retention struct {
	due     bool   // a walk is to be begun
	more    bool   // a walk is under way
	drop    uint64 // the epochs of the journal before this one are to go; 0: none
	kind    int
	from    store.Cursor
	checked time.Time
}

const retentionEvery = time.Minute

// expire carries the walk on by at most a batch.
func (p *plan) expire() error {
	r := &p.retain
	if p.l.stopping {
		return nil
	}
	if r.due && !r.more && (r.checked.IsZero() || p.mono.Sub(r.checked) >= retentionEvery) {
		first := r.checked.IsZero() // a stop may have come before all was dropped
		*r = retention{more: true, checked: p.mono, drop: r.drop}
		if err := p.rotateJournal(first); err != nil {
			return err
		}
	}
	r.due = false
	if err := p.dropJournal(); err != nil {
		return err
	}
	kinds := []struct {
		kind effects.Kind
		keep time.Duration
	}{
		{core.KindAction, p.l.e.o.ActionRetention}, {core.KindOccurrence, p.l.e.o.HistoryRetention},
		{core.KindPipeline, p.l.e.o.ActionRetention}, {core.KindTask, p.l.e.o.ActionRetention}, {core.KindStrategy, p.l.e.o.ActionRetention},
		{core.KindOrchestrator, p.l.e.o.ActionRetention},
	}
	for r.more && len(p.entry.Inputs) < p.l.e.o.MaxBatch/2 {
		if r.kind == len(kinds) {
			*r = retention{checked: r.checked, drop: r.drop}
			return nil
		}
		k := kinds[r.kind]
		if k.keep < 0 {
			r.nextKind()
			continue
		}
		full, err := p.expireKind(k.kind, p.now.Add(-k.keep))
		if err != nil || full {
			return err // the next batch goes on from here
		}
		r.nextKind()
	}
	return nil
}

func (r *retention) nextKind() { r.kind, r.from = r.kind+1, store.Cursor{} }

// expireKind looks at the oldest ones of one kind, and reports whether there
// may be more. Nothing that was created after the cutoff can have ended before
// it, so the walk ends there.
func (p *plan) expireKind(kind effects.Kind, cutoff effects.Time) (more bool, err error) {
	r := &p.retain
	limit := max(p.l.e.o.MaxBatch/4, 1)
	page, err := p.tx.Scan(kind, core.TermAll, r.from, false, limit)
	if err != nil {
		return false, err
	}
	for _, c := range page {
		if c.At.After(cutoff) {
			return false, nil
		}
		if p.loaded > maxBatchBytes {
			return true, nil
		}
		r.from = c
		ref := effects.Ref{Kind: kind, ID: c.ID}
		s, err := p.batch.State(ref)
		if err != nil || s == nil || !expired(s, cutoff) {
			continue // a corrupt one is set aside with the rest of the batch
		}
		if _, err := p.apply(core.Input{To: ref, Actor: "retention", Event: core.ExpireEvent(kind)}); err != nil {
			if p.broken != nil {
				return false, p.broken
			}
			continue
		}
		p.expired++
	}
	return len(page) == limit, nil
}

// expired reports whether the machine ended before the cutoff.
func expired(s core.State, cutoff effects.Time) bool {
	at, ended := core.EndedAt(s)
	return ended && !at.After(cutoff)
}

// rotateJournal begins an epoch a few times per retention, and finds the epochs
// that are wholly older than it. A clock that was ahead for a while has left an
// epoch of the future behind: the next one begins at once.
func (p *plan) rotateJournal(first bool) error {
	keep := p.l.e.o.JournalRetention
	if keep < 0 {
		return nil
	}
	epochs, err := p.tx.Epochs()
	if err != nil || len(epochs) == 0 {
		return err
	}
	if age := p.now.Sub(epochs[len(epochs)-1].Started); age >= keep/7 || age < 0 {
		if err := p.tx.BeginEpoch(p.now); err != nil {
			return err
		}
		p.dirty = true
	}
	oldest := 0 // the first epoch that stays
	for i, e := range epochs {
		if p.now.Sub(e.Started) >= keep {
			oldest = i
		}
	}
	if oldest > 0 || first {
		p.retain.drop = epochs[oldest].Number
	}
	return nil
}

// dropJournal forgets a part of what is older than the journal must reach, so
// that no batch takes long over it.
func (p *plan) dropJournal() error {
	const limit = 2000
	if p.retain.drop == 0 {
		return nil
	}
	more, err := p.tx.DropEpochs(p.retain.drop, limit)
	if err != nil {
		return err
	}
	p.dirty = true
	if !more {
		p.retain.drop = 0
	}
	return nil
}
