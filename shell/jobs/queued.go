package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// queuedReason is [core.Pod.Reason] of a run that waits for room.
const queuedReason = "Queued"

// queue has an attempt wait for room, unless it has a place by now: what lives may have become known meanwhile, and it among them. First its
// run is told: the limit of its start does not run while it waits.
func (s *Service) queue(ctx context.Context, name string, o core.Orchestrator) (waits bool, err error) {
	p, a := s.places[name], Attempt{Run: o.ID, N: o.RetryAttempt}
	pod := core.Pod{Name: a.Name(), Reason: queuedReason, Message: p.whyWait(name), Queued: true}
	s.tellRun(ctx, name, Observation{Attempt: a, Phase: PhaseCreated, Pod: pod})
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	return p.await(a, scopeOf(o)), nil
}

func (s *Service) tellRun(ctx context.Context, name string, o Observation) {
	k := sink{s: s, runner: name}
	k.tell(shell.WithActor(ctx, "runner:"+name), o)
}

func scopeOf(o core.Orchestrator) shell.Scope {
	return shell.Scope{Namespace: o.Namespace, Tenant: o.Tenant}
}

// queuedCreations is how many attempts that have waited for room are created at a time.
const queuedCreations = 16

// admit creates the attempts that wait for room as there is some, until ctx ends.
func (s *Service) admit(ctx context.Context, name string, r Runner) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, queuedCreations)
	create := func(a Attempt) {
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-slots }()
				s.createQueued(ctx, name, r, a)
			})
		case <-ctx.Done():
		}
	}
	var wait backoff
	for again, err := s.recall(ctx, name, r); ; again, err = s.recall(ctx, name, r) {
		if err == nil {
			for _, a := range again {
				create(a)
			}
			break
		}
		if ctx.Err() == nil {
			s.log.Error("could not find out which pods live: no other is created until then; trying again", "runner", name, "error", err)
		}
		if !s.pause(ctx, wait.next()) {
			return
		}
	}
	p := s.places[name]
	for {
		for a, ok := p.next(); ok && ctx.Err() == nil; a, ok = p.next() {
			create(a)
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
	}
}

// recall finds out what lives and who waits, after a start. again are attempts that have
// their place, and whose creation may have been cut off.
func (s *Service) recall(ctx context.Context, name string, r Runner) (again []Attempt, err error) {
	p := s.places[name]
	held := make(map[Attempt]shell.Scope)
	if p.limit > 0 {
		all, err := r.Held(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			held[a] = shell.Scope{} // of no run, unless it is found below
		}
	}
	var waiting []core.Orchestrator
	err = s.eachInCluster(ctx, func(o core.Orchestrator) {
		a := Attempt{Run: o.ID, N: o.RetryAttempt}
		_, there := held[a]
		if there {
			held[a] = scopeOf(o)
		}
		creating := s.isOf(o, name) && wanted(o, a.N) && o.State == core.OrchestratorContainerCreating && len(o.Pending.Open) == 0
		switch {
		case creating && there:
			again = append(again, a)
		case creating && o.Pod.Queued:
			waiting = append(waiting, o)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(waiting, func(a, b core.Orchestrator) int {
		return cmp.Or(cmp.Compare(a.CreationAskedAt, b.CreationAskedAt), cmp.Compare(a.RunID, b.RunID))
	})
	for _, o := range waiting {
		p.await(Attempt{Run: o.ID, N: o.RetryAttempt}, scopeOf(o))
	}
	for _, a := range p.learn(held) {
		if !slices.Contains(again, a) {
			again = append(again, a)
		}
	}
	return again, nil
}

// createQueued creates an attempt that has a place now. The effect that asked for it was
// answered: so its run is told how that went. It counts as queued until it is there, so
// that a restart creates it again.
func (s *Service) createQueued(ctx context.Context, name string, r Runner, a Attempt) {
	p := s.places[name]
	if !s.takeTurn(ctx, name, r, a) {
		if s.pause(ctx, rereadAfter) {
			p.again(a)
			return
		}
		p.free(a)
	}
	p.served(a)
}

// rereadAfter is how long an attempt whose run could not be read keeps its place.
const rereadAfter = time.Second

// takeTurn is one turn of an attempt; false: its run could not be read, or it is not certain that the database is this process's.
func (s *Service) takeTurn(ctx context.Context, name string, r Runner, a Attempt) bool {
	p := s.places[name]
	ctx, done := p.make(ctx, a)
	defer done()
	unlock, err := s.runLocks.Lock(ctx, a.Run)
	if err != nil {
		p.free(a)
		return true
	}
	defer unlock()
	o, err := s.e.Runs().Get(ctx, a.Run)
	switch {
	case err != nil && !errors.Is(err, shell.ErrNotFound):
		if ctx.Err() == nil {
			s.log.Error("could not read a run that has waited for room; trying again", "runner", name, "pod", a.Name(), "error", err)
			return false
		}
		p.free(a)
	case err != nil || !wanted(o, a.N):
		p.free(a)
	case o.State != core.OrchestratorRunning:
		return s.createInTurn(ctx, name, r, o)
	}
	return true
}

// createInTurn creates the present attempt of a run that has a place now, and tells the run
// how that went. It reports false if that has to wait, see [shell.Engine.Confirm].
func (s *Service) createInTurn(ctx context.Context, name string, r Runner, o core.Orchestrator) bool {
	a := Attempt{Run: o.ID, N: o.RetryAttempt}
	if err := s.MayRun(o.Config); err != nil { // it has waited from before a restart
		s.places[name].free(a)
		s.tellNotCreated(ctx, name, a, shell.Permanent(err))
		return true
	}
	if s.e.Confirm() != nil {
		return false
	}
	limit, stop := s.withTimeout(ctx, time.Duration(o.CreateTimeoutMS())*time.Millisecond)
	_, err := r.Create(limit, s.runOf(o))
	if cause := context.Cause(limit); err != nil && errors.Is(cause, errTooLong) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	stop()
	switch {
	case shell.IsNotStarted(err):
		return false
	case err == nil:
		s.tellThere(ctx, name, a)
	case ctx.Err() == nil: // nothing cut it off but its limit
		s.tellNotCreated(ctx, name, a, err)
	}
	return true
}

// tellThere tells a run that was told that it waits for room that its pod is there.
func (s *Service) tellThere(ctx context.Context, name string, a Attempt) {
	s.tellRun(ctx, name, Observation{Attempt: a, Phase: PhaseCreated, Pod: core.Pod{Name: a.Name()}})
}

// tellNotCreated tells a run that its attempt was not created: for good if the error is
// permanent.
func (s *Service) tellNotCreated(ctx context.Context, name string, a Attempt, err error) {
	s.tellRun(ctx, name, Observation{
		Attempt: a, Phase: PhaseRefused, Pod: core.Pod{Reason: "creating the pod: " + err.Error()}, Final: shell.IsPermanent(err),
	})
}
