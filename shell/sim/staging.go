package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// CountAhead counts in [Report].Counts what was decided on top of a batch that was not durable yet.
const CountAhead = "a batch is decided ahead"

// stager is an opening of the database that is a [store.Stager]: what was staged is in the memory of its process until
// it is made durable, which are things that happen of their own.
type stager struct {
	*handle
	head *memory.Store // the database with all that was staged
	many int           // batches that were staged so far, of which so many
	upTo int           // are durable
	gone int           // counts how often what was staged has been lost without harm to the store
}

// Ahead implements [engine.Scheduler]: the seed says whether an engine decides ahead in this step.
func (i *incarnation) Ahead(int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return rand.New(rand.NewPCG(i.seed, 1<<62|uint64(i.steps))).IntN(2) == 0 //nolint:gosec // a seed is a run
}

// Update implements [store.Store].
func (s *stager) Update(ctx context.Context, fn func(store.Tx) error) error {
	durable, err := s.Stage(ctx, fn)
	if unknown := durable(); unknown != nil {
		return unknown
	}
	return err
}

// nothingStaged is durable at once.
func nothingStaged() error { return nil }

// Stage implements [store.Stager].
func (s *stager) Stage(ctx context.Context, fn func(store.Tx) error) (durable func() error, err error) {
	name := s.begins()
	if err := s.usable(); err != nil {
		return nothingStaged, err
	}
	f := s.db.meets()
	if f.Kind != "" {
		s.of.log("%s: %s", name, f.Kind)
	}
	if s.many == s.upTo { // what others have made of the database since is not this one's
		s.head = s.db.live
	}
	base := s.head
	if s.many > s.upTo {
		s.db.counts[CountAhead]++
	}
	if f.Kind == RefuseCommit {
		return s.made(name, Fault{}, s.many, base), errors.Join(errRefused, s.dry(ctx, base, fn))
	}
	next := base.Copy(base.Session())
	if err := s.db.refuses(name, s.db.spoilt(next).Update(ctx, fn)); err != nil {
		return s.made(name, Fault{}, s.many, base), err // it rests on what it has read
	}
	s.head = next
	s.many++
	return s.made(name, f, s.many, next), nil
}

// made gives what makes the first n of the batches durable, after which the database is that one.
func (s *stager) made(name string, f Fault, n int, after *memory.Store) func() error {
	var known bool
	var err error
	gone := s.gone
	return func() error {
		switch {
		case known:
		case gone != s.gone:
			known, err = true, unconfirmed(name)
		default:
			known, err = true, s.make(name, f, n, after)
		}
		return err
	}
}

func (s *stager) make(name string, f Fault, n int, after *memory.Store) error {
	if n <= s.upTo && f.Kind == "" {
		s.of.parks(name+" is durable", 0, nil)
		return nil
	}
	write := func() error {
		for !s.db.defects.hasty && s.db.away.After(s.of.time()) {
			s.of.parks(name+" is written again", s.db.away.Sub(s.of.time()), nil)
		}
		if err := s.usable(); err != nil || n <= s.upTo {
			return err
		}
		s.db.live, s.upTo = after, n
		s.hears()
		return nil
	}
	switch f.Kind {
	case Unconfirm:
		s.of.parks(name+" is not confirmed", f.For, nil)
		if err := s.usable(); err != nil {
			return err
		}
		if f.N%2 == 0 && n > s.upTo {
			s.many, s.gone = s.upTo, s.gone+1
		}
		return unconfirmed(name)
	case LoseCommit:
		s.of.parks(name+" is looked up, and written", f.For, nil)
		return write()
	case LoseBoth:
		s.of.parks(name+" is written", 0, nil)
		if f.N%2 == 0 {
			if err := write(); err != nil {
				return err
			}
		}
		s.of.parks(name+" is given up", f.For, nil)
		return s.fail(name)
	default:
		if s.db.defects.hasty {
			s.db.after(name+" is written late", f.For+3*time.Second, func() { _ = write() })
			return nil
		}
		s.of.parks(name+" is written", 0, nil)
		if err := write(); err != nil {
			return err
		}
		s.of.parks(name+" is durable", f.For, nil)
		if s.stale() && f.Kind == LoseAnswer {
			return fmt.Errorf("%w: %w", store.ErrUnconfirmed, store.ErrFenced)
		}
		return nil
	}
}
