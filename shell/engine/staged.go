package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Where the store is a [store.Stager] the loop decides the next batch while the disk takes
// the one before. A batch has two ends then: when it is staged, carryOver has the loop go on
// from it; when it is durable, letGo lets others know. Between the two nothing of it is
// seen: who has asked waits, and what it has handed out is not begun. The same holds for a
// batch that has changed nothing, if it has read what is not durable.
//
// Staged are the batch that the sync under way takes, and at most one behind it: see [pace]
// for when it is worth it.

// stagedBatch is a batch of which nobody was told.
type stagedBatch struct {
	*batch
	durable func() error               // of [store.Stager.Stage]
	nothing bool                       // it has changed nothing in the store
	counted bool                       // [Hooks.Count] was told
	before  map[effects.Ref]core.State // what it has changed, as it was; made when it is asked for
}

// flight is a batch that the disk is taking.
type flight struct {
	*stagedBatch
	took  time.Duration // once it has ended
	done  chan error
	of    *activity
	ended bool // done was read, and gave err
	err   error
}

// wait waits for the end of the sync.
func (f *flight) wait() error {
	if !f.ended {
		f.of.rest(ofSync)
		err := <-f.done
		f.of.work()
		f.ends(err)
	}
	return f.err
}

// ends notes what done has given.
func (f *flight) ends(err error) {
	f.of.message(ofSync, -1)
	f.ended, f.err = true, err
}

// hasEnded reports whether the sync has.
func (f *flight) hasEnded() bool {
	if f == nil || f.ended {
		return f != nil
	}
	select {
	case err := <-f.done:
		f.ends(err)
	default:
	}
	return f.ended
}

// landing gets what f.done would give; nil where there is no flight.
func (l *loop) landing() <-chan error {
	if l.flight == nil {
		return nil
	}
	return l.flight.done
}

// mustLand reports whether no batch may be decided before the sync under way has ended: one
// is staged behind it already, or the last one has failed, so that the next one is to find out
// how the store is.
func (l *loop) mustLand() bool {
	return l.flight != nil && (l.ahead != nil || l.adrift || l.lastErr != nil)
}

// commit has the store commit what fn does: durable waits for the disk.
func (l *loop) commit(fn func(store.Tx) error) (durable func() error, err error) {
	if l.stager != nil {
		return l.stager.Stage(context.Background(), fn)
	}
	return func() error { return nil }, l.e.store.Update(context.Background(), fn)
}

// stage has the disk take a batch that was carried over: beside the loop where there is
// something to decide meanwhile, after the one that it is taking, or else now.
func (l *loop) stage(s *stagedBatch) {
	switch {
	case l.flight != nil:
		l.ahead = s
	case l.stager != nil && !s.nothing && l.worthwhile():
		l.takeOff(s)
	default:
		l.syncNow(s)
		return
	}
	l.staged++
	s.n = l.staged
}

// pays reports whether that many things are better decided while a sync goes on than after it.
func (l *loop) pays(many int) bool {
	if s := l.e.o.Scheduler; s != nil {
		return s.Ahead(many)
	}
	return l.pace.pays(many)
}

// splits reports whether of that many things half are left to the next batch.
func (l *loop) splits(many int) bool {
	if l.e.o.Scheduler != nil {
		return many > 1 && l.pays(many/2)
	}
	return l.pace.splits(many)
}

// worthwhile reports whether there is something to decide while the disk takes a batch, or
// would be with whatever comes next.
func (l *loop) worthwhile() bool {
	l.drain()
	return l.aheadPays() || l.onePays()
}

// syncNow waits for the disk, if there is anything to wait for, and lets the batch go.
func (l *loop) syncNow(s *stagedBatch) {
	began := l.now()
	if err := s.durable(); err != nil {
		l.drop(err, s, nil)
		return
	}
	if l.stager != nil && !s.nothing {
		l.pace.synced(l.now().Sub(began))
	}
	l.letGo(s)
}

// takeOff has the disk take a batch, beside the loop, which must land it.
func (l *loop) takeOff(s *stagedBatch) {
	f := &flight{stagedBatch: s, done: make(chan error, 1), of: &l.e.activity}
	l.flight, l.ahead = f, nil
	f.of.add(1)
	go func() {
		defer f.of.add(-1)
		began := l.now()
		err := s.durable()
		f.took = l.now().Sub(began)
		f.of.message(ofSync, 1)
		f.done <- err
	}()
}

// land waits for the sync under way, and lets go what has become durable.
func (l *loop) land() {
	f := l.flight
	err := f.wait()
	l.flight = nil
	if err != nil {
		l.drop(err, f.stagedBatch, l.ahead)
		return
	}
	l.pace.synced(f.took)
	if l.ahead != nil {
		l.takeOff(l.ahead)
	}
	l.letGo(f.stagedBatch)
}

// settle waits until all that was staged is durable, and lets it go, or has failed.
func (l *loop) settle() {
	for l.flight != nil {
		l.land()
	}
}

// drop forgets a batch that may not be durable, and one that was decided on top of it, nil
// if none was.
func (l *loop) drop(err error, s, onTop *stagedBatch) {
	l.ahead = nil
	wrote := !s.nothing
	if onTop != nil {
		_ = onTop.durable() // whatever it says, what it rests on is not confirmed
		l.takeBack(onTop)
		wrote = wrote || !onTop.nothing
	}
	l.takeBack(s)
	if wrote && !errors.Is(err, store.ErrUnconfirmed) && !refusedByFence(err) {
		err = fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
	}
	l.failed(err)
}

// takeBack undoes what carryOver did that must not stay if the batch may not be durable. What
// it has found of the store stays: it is so, or the store is broken.
func (l *loop) takeBack(s *stagedBatch) {
	l.requests = slices.Concat(s.requests, l.requests)
	l.outcomes = slices.Concat(s.outcomes, l.outcomes)
	l.formers.arrived = slices.Concat(s.arrived, l.formers.arrived)
	for _, launch := range s.launches {
		l.vacate(launch.queue)
	}
}

// allowed is [Hooks.Allowed], which is asked only once what was decided before is counted:
// that waits for the disk.
func (l *loop) allowed() func(core.Scope, effects.Kind) core.Allowance {
	ask := l.e.o.Hooks.Allowed
	if ask == nil {
		return nil
	}
	return func(of core.Scope, kind effects.Kind) core.Allowance {
		l.count()
		return ask(of, kind)
	}
}

// count tells who counts of the batch that is on its way, as soon as it is durable.
func (l *loop) count() {
	if l.flight != nil && l.flight.wait() == nil {
		l.tellCount(l.flight.stagedBatch)
	}
}

func (l *loop) tellCount(s *stagedBatch) {
	if count := l.e.o.Hooks.Count; count != nil && !s.counted {
		count(s.committed())
	}
	s.counted = true
}

func (s *stagedBatch) committed() Committed {
	return Committed{Events: s.fold.Events(), Changes: s.changes, b: s.batch}
}

// since gives a machine as it was before the first batch that has changed it of those that
// were staged after the n-th and are not let go; changed is false if none has, or n is 0.
func (l *loop) since(n uint64, ref effects.Ref) (s core.State, changed bool) {
	if n == 0 || n == l.staged {
		return nil, false
	}
	if l.flight != nil && l.flight.n > n {
		s, changed = l.flight.was(ref)
	}
	if !changed && l.ahead != nil && l.ahead.n > n {
		s, changed = l.ahead.was(ref)
	}
	return s, changed
}

// was gives a machine as it was before the batch, if that has changed it.
func (s *stagedBatch) was(ref effects.Ref) (core.State, bool) {
	if s.before == nil {
		s.before = make(map[effects.Ref]core.State, len(s.changes))
		for _, c := range s.changes {
			s.before[c.Ref] = c.Before
		}
	}
	before, changed := s.before[ref]
	return before, changed
}
