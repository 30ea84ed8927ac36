package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// ErrSetAside says that the machine's record could not be read, and was set aside. The
// store's quarantine has its bytes and the reason.
var ErrSetAside = errors.New("its record could not be read, and was set aside")

// maxAside bounds the machines that are remembered as set aside.
const maxAside = 1000

// asideSet remembers the machines whose records were set aside: each is gone, but was
// there.
type asideSet struct {
	mu sync.Mutex
	m  map[effects.Ref]struct{}
}

func (a *asideSet) add(refs ...effects.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = make(map[effects.Ref]struct{})
	}
	for _, ref := range refs {
		if len(a.m) < maxAside {
			a.m[ref] = struct{}{}
		}
	}
}

// forget takes out the machines that a batch has written: a machine that was made again under
// the id of one that was set aside is there.
func (a *asideSet) forget(changes []core.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.m) == 0 {
		return
	}
	for _, c := range changes {
		if c.After != nil {
			delete(a.m, c.Ref)
		}
	}
}

func (a *asideSet) has(ref effects.Ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.m[ref]
	return ok
}

// rememberAside notes what earlier runs have set aside.
func (e *Engine) rememberAside(ctx context.Context) error {
	return e.store.View(ctx, func(tx store.ReadTx) error {
		found, err := tx.Quarantine(maxAside)
		for _, q := range found {
			e.aside.add(effects.Ref{Kind: q.Kind, ID: q.ID})
		}
		if errors.Is(err, store.ErrCorrupt) {
			return nil // what was set aside stops nobody, even if it is damaged again
		}
		return err
	})
}

// Suspect has the loop read the records of these machines anew, and set aside those that
// cannot be read. It does not wait for it.
func (e *Engine) Suspect(ctx context.Context, refs ...effects.Ref) {
	if len(refs) > 0 {
		e.Post(ctx, Request{Suspects: refs})
	}
}

// confirmDamage has a record set aside that could not be read, and gives the reader's error.
func (e *Engine) confirmDamage(ctx context.Context, ref effects.Ref, err error) error {
	if _, lost := e.Ask(ctx, Request{Suspects: []effects.Ref{ref}}); lost != nil || !e.aside.has(ref) {
		return err
	}
	return setAsideError(ref)
}

// setAsideError is an [ErrNotFound], too: who asks for nothing else sees no difference.
func setAsideError(ref effects.Ref) error {
	return fmt.Errorf("%s %w: %w", ref, ErrNotFound, ErrSetAside)
}

// readAnew sets aside those of the machines whose records cannot be read.
func (b *batch) readAnew(refs []effects.Ref) error {
	for _, ref := range refs {
		b.l.cache.drop(ref) // what is stored counts
		b.broken = nil
		_, err := b.fold.State(ref)
		switch {
		case b.broken != nil:
			return b.broken
		case errors.Is(err, store.ErrCorrupt):
			if err := b.setAside(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bounds of the scrub: how often it reads a part, and how often it notes where it is.
const (
	scrubEvery = time.Second
	scrubNote  = time.Minute
	scrubMeta  = "scrub" // the name of its position in the store
)

// scrub reads all records, one part after the other and slowly, and has those set aside
// that cannot be read. After a walk it begins the next one.
func (e *Engine) scrub(ctx context.Context) {
	at, noted := e.scrubbedTo(ctx), e.o.Clock.Steady()
	stored := at // a small store is walked through each second: that must not be a commit each
	var logged time.Time
	for {
		timer, stop := e.o.Clock.Timer(scrubEvery)
		select {
		case <-timer:
		case <-ctx.Done():
		}
		stop()
		next, err := e.scrubPart(ctx, at)
		now := e.o.Clock.Steady()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoWalker):
			e.log.Warn("nothing is scrubbed", "error", err)
			return
		case err != nil && (logged.IsZero() || now.Sub(logged) >= scrubNote):
			logged = now
			e.log.Error("the scrub could not read records; it goes on behind them", "after", at.String(), "error", err)
		}
		if next.IsZero() && (!at.IsZero() || err == nil) {
			e.stats.scrubWalks.Add(1)
		}
		if at = next; at != stored && (at.IsZero() || now.Sub(noted) >= scrubNote) {
			if noted = now; e.noteScrub(ctx, at) {
				stored = at
			}
		}
	}
}

var errNoWalker = errors.New("this store cannot be walked through part by part")

// scrubPart reads the records of a second, and gives where the next part begins; zero: at
// the beginning. The error is of what could not be read and is not set aside.
func (e *Engine) scrubPart(ctx context.Context, after effects.Ref) (next effects.Ref, err error) {
	var bad []effects.Ref
	seen, walked := 0, false
	err = e.store.View(ctx, func(tx store.ReadTx) (err error) {
		w, ok := tx.(store.Walker)
		if !ok {
			return errNoWalker
		}
		walked = true
		next, err = w.RecordPage(after, e.o.ScrubRate, func(r store.Record) error {
			seen++
			ref := effects.Ref{Kind: r.Kind, ID: r.ID}
			if s, err := core.DecodeState(r.Kind, r.State); err != nil || s.Ref() != ref {
				bad = append(bad, ref)
			}
			return nil
		})
		return err
	})
	unreadable, rest := store.Unreadable(err)
	for _, q := range unreadable {
		seen++
		bad = append(bad, effects.Ref{Kind: q.Kind, ID: q.ID})
	}
	e.stats.scrubbed.Add(uint64(seen))
	e.Suspect(ctx, bad...)
	switch {
	case !walked:
		return after, rest
	case next == after, seen < e.o.ScrubRate && rest == nil:
		return effects.Ref{}, rest
	}
	return next, rest
}

// scrubbedTo gives how far an earlier run has come.
func (e *Engine) scrubbedTo(ctx context.Context) (at effects.Ref) {
	_ = e.store.View(ctx, func(tx store.ReadTx) error { // else the walk begins anew
		raw, err := tx.Meta(scrubMeta)
		if err == nil && raw != nil {
			err = json.Unmarshal(raw, &at)
		}
		return err
	})
	return at
}

// noteScrub notes how far it has come, and reports whether that is stored.
func (e *Engine) noteScrub(ctx context.Context, at effects.Ref) bool {
	err := e.store.Update(ctx, func(tx store.Tx) error {
		raw, err := json.Marshal(at)
		if err != nil {
			return err
		}
		return tx.SetMeta(scrubMeta, raw)
	})
	if err != nil && ctx.Err() == nil {
		e.log.Warn("the scrub could not note where it is", "error", err)
	}
	return err == nil
}
