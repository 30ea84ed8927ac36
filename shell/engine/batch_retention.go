package engine

import (
	"errors"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// retention walks through the machines that have ended, from the one that ended first, and
// forgets those that are older than they must be kept (C12). It walks a little at a time.
type retention struct {
	due     bool   // a walk is to be begun
	more    bool   // a walk is under way
	drop    uint64 // the epochs of the journal before this one are to go; 0: none
	kind    int    // its index in [core.Retentions]
	from    store.Cursor
	tenants tenantWalk // of that kind
	checked time.Time
	answers bool      // some may be old enough to be forgotten, see [AnswersKept]
	rests   time.Time // it does not go on before that, since the store lags behind
}

// hasMore reports whether something is left to be done.
func (r *retention) hasMore() bool { return r.more || r.drop != 0 || r.answers }

// goesOn reports whether it is to be done now.
func (r *retention) goesOn(now time.Time) bool { return r.hasMore() && !now.Before(r.rests) }

const (
	retentionEvery = time.Minute
	// expireFor bounds how long one batch decides what to forget: its other half is to
	// store it.
	expireFor = 5 * time.Millisecond
	// restAt is how full the store's log is from which on retention rests, so that nobody
	// else has to wait for room because of it, and restFor how long before it looks again.
	restAt  = 0.5
	restFor = 10 * time.Millisecond
)

// expire carries the walk on by at most a batch.
func (b *batch) expire() error {
	r := &b.retain
	if b.l.stopping {
		return nil
	}
	// The first batch after a start does not rest, however full a crash has left the log: it begins the epoch of
	// this core, and what this core decides must not stand in the epoch of another one.
	first := r.due && !r.more && r.checked.IsZero()
	if !first && b.l.logged != nil && (r.due || r.hasMore()) && b.l.logged.LogStats().Fill >= restAt {
		r.rests = b.mono.Add(restFor)
		return nil
	}
	if first || r.due && !r.more && b.mono.Sub(r.checked) >= retentionEvery {
		*r = retention{more: true, checked: b.mono, drop: r.drop, answers: true}
		if err := b.rotateJournal(first); err != nil {
			return err
		}
	}
	r.due = false
	if b.l.paused { // the epoch of this core has begun, and nothing is forgotten
		r.more = false
		return nil
	}
	if err := b.dropJournal(); err != nil {
		return err
	}
	kinds, begun := core.Retentions(), b.l.now()
	for r.more && len(b.entry.Inputs) < max(b.l.e.o.MaxBatch/2, 1) {
		if r.kind == len(kinds) {
			*r = retention{checked: r.checked, drop: r.drop, answers: r.answers}
			return nil
		}
		k := kinds[r.kind]
		if keep := b.l.e.o.retention(k.Class); keep >= 0 {
			full, err := b.expireKind(k.Kind, b.now.Add(-keep), begun.Add(expireFor))
			if err != nil || full {
				return err // the next batch goes on from here
			}
		}
		if full, err := b.expireTenants(k, begun.Add(expireFor)); err != nil || full {
			return err
		}
		r.kind, r.from, r.tenants = r.kind+1, store.Cursor{}, tenantWalk{}
	}
	return nil
}

// expireKind forgets machines of one kind, in the order of their ends up to the cutoff,
// and reports whether there may be more. What may not be forgotten does not stand in the
// list.
func (b *batch) expireKind(kind effects.Kind, cutoff effects.Time, until time.Time) (more bool, err error) {
	r := &b.retain
	limit := max(b.l.e.o.MaxBatch/4, 1)
	page, err := b.tx.Scan(kind, core.TermEnded, r.from, false, limit)
	if err != nil {
		return false, err
	}
	for i, c := range page {
		if c.At.After(cutoff) {
			return false, nil
		}
		if b.loaded > maxBatchBytes || i > 0 && !b.l.now().Before(until) {
			return true, nil
		}
		r.from = c
		changed, err := b.expireOne(effects.Ref{Kind: kind, ID: c.ID}, cutoff)
		if err != nil {
			return false, err
		}
		if changed {
			b.expired++
		}
	}
	return len(page) == limit, nil
}

// expired reports whether the machine ended before the cutoff and may be forgotten.
func expired(s core.State, cutoff effects.Time) bool {
	at, ended := core.EndedAt(s)
	return ended && !at.After(cutoff) && !core.MustBeKept(s)
}

// metaCore names the core that decided in the current epoch: an epoch is replayed by one.
const metaCore = "journal-core"

// rotateJournal begins an epoch a few times per retention, by its age and by its bytes, and where
// another core decides; and finds the epochs that are wholly older than what is kept, or
// are too much. A clock that was ahead for a while has left an epoch of the future behind:
// the next one begins at once.
func (b *batch) rotateJournal(first bool) error {
	epochs, err := b.tx.Epochs()
	if err != nil || len(epochs) == 0 {
		return err
	}
	begin, err := b.epochIsOver(epochs[len(epochs)-1], first)
	if err != nil {
		return err
	}
	if begin {
		if err := b.tx.BeginEpoch(b.now); err != nil {
			return err
		}
		b.dirty = true
	}
	oldest, err := b.firstKept(epochs)
	if err != nil {
		return err
	}
	if oldest > 0 || first {
		b.retain.drop = epochs[oldest].Number
	}
	return nil
}

// epochIsOver reports whether another epoch is to follow the current one.
func (b *batch) epochIsOver(current store.Epoch, first bool) (bool, error) {
	const parts = 7 // of what is kept, so that no more than one of them is kept beyond it
	if keep := b.l.e.o.JournalRetention; keep >= 0 {
		if age := b.now.Sub(current.Started); age >= keep/parts || age < 0 {
			return true, b.noteCore()
		}
	}
	if most := b.l.e.o.JournalBytes; most >= 0 {
		bytes, err := b.tx.JournalBytes(current.First, 0)
		if err != nil || bytes >= max(most/parts, 1) {
			return err == nil, errors.Join(err, b.noteCore())
		}
	}
	if !first {
		return false, nil
	}
	was, err := b.tx.Meta(metaCore)
	if err != nil || string(was) == strconv.Quote(core.Version) {
		return false, err
	}
	seq, err := b.tx.Seq()
	if err != nil {
		return false, err
	}
	return seq >= current.First, b.noteCore()
}

// noteCore notes the core that decides from now on.
func (b *batch) noteCore() error {
	b.dirty = true
	return b.tx.SetMeta(metaCore, []byte(strconv.Quote(core.Version)))
}

// firstKept gives the index of the first epoch that stays.
func (b *batch) firstKept(epochs []store.Epoch) (oldest int, err error) {
	if keep := b.l.e.o.JournalRetention; keep >= 0 {
		for i, e := range epochs {
			if b.now.Sub(e.Started) >= keep {
				oldest = i
			}
		}
	}
	most := b.l.e.o.JournalBytes
	for most >= 0 && oldest < len(epochs)-1 {
		bytes, err := b.tx.JournalBytes(epochs[oldest].First, 0)
		if err != nil || bytes <= most {
			return oldest, err
		}
		oldest++
	}
	return oldest, nil
}

// dropJournal forgets a part of what is older than the journal must reach, so
// that no batch takes long over it.
func (b *batch) dropJournal() error {
	const limit = 2000
	if b.retain.drop == 0 {
		return nil
	}
	more, err := b.tx.DropEpochs(b.retain.drop, limit)
	if err != nil {
		return err
	}
	b.dirty = true
	if !more {
		b.retain.drop = 0
	}
	return nil
}
