package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/pages"
)

// reconcile holds what a runner has against the store, in both directions, at once
// and every ReconcileEvery, until ctx ends: lost attempts and strays by themselves,
// so that a deletion that does not come to an end hides nothing that is lost.
func (s *Service) reconcile(ctx context.Context, name string, r Runner) {
	var wg sync.WaitGroup
	for _, look := range []func(context.Context, string, Runner) error{s.findLost, s.findStrays} {
		wg.Go(func() {
			for again := true; again; again = s.pause(ctx, s.o.ReconcileEvery) {
				if err := look(ctx, name, r); err != nil && ctx.Err() == nil {
					s.log.Error("cluster and store could not be held against one another", "runner", name, "error", err)
				}
			}
		})
	}
	wg.Wait()
}

// findStrays deletes the attempts that the runner holds, and whose runs do not have
// them in their cluster. InCluster is committed before anything is created: so the
// run is read after what is held.
func (s *Service) findStrays(ctx context.Context, name string, r Runner) error {
	known, _, err := s.inCluster(ctx, name)
	if err != nil {
		return err
	}
	held, err := r.Held(ctx)
	if err != nil {
		return err
	}
	s.deleteStrays(ctx, name, r, held, known)
	return nil
}

// lostAfter is how long a lost attempt is not held before its run is told.
const lostAfter = 10 * time.Second

// findLost tells the runs whose attempts were created, and that the runner does not
// hold. The runs are read before what is held, and all is looked at twice: the runner
// may hear of what it has created a little later.
func (s *Service) findLost(ctx context.Context, name string, r Runner) error {
	missing, err := s.notHeld(ctx, name, r)
	if err != nil || len(missing) == 0 || !s.pause(ctx, lostAfter) {
		return err
	}
	still, err := s.notHeld(ctx, name, r)
	if err != nil {
		return err
	}
	for a := range missing {
		if still[a] {
			s.lost(ctx, name, a)
		}
	}
	return nil
}

// notHeld gives the attempts that must be there, and that the runner does not hold.
func (s *Service) notHeld(ctx context.Context, name string, r Runner) (map[Attempt]bool, error) {
	_, missing, err := s.inCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	held, err := r.Held(ctx)
	for _, a := range held {
		delete(missing, a)
	}
	return missing, err
}

// inCluster lists the attempts that runs may have with a runner, and those of them
// that must be there: their creation has been answered, and nobody is about to
// delete them.
func (s *Service) inCluster(ctx context.Context, name string) (known, created map[Attempt]bool, err error) {
	known, created = make(map[Attempt]bool), make(map[Attempt]bool)
	err = s.eachInCluster(ctx, func(o core.Orchestrator) {
		if s.has(o, name) {
			a := Attempt{Run: o.ID, N: o.RetryAttempt}
			known[a] = true
			if wanted(o, a.N) && len(o.Pending.Open) == 0 || o.Step == core.StepAdopted {
				created[a] = true
			}
		}
	})
	return known, created, err
}

// eachInCluster reads the runs that may have something in a cluster.
func (s *Service) eachInCluster(ctx context.Context, fn func(core.Orchestrator)) error {
	for o, err := range pages.All(s.pageSize, func(p shell.Page) ([]core.Orchestrator, string, error) {
		return s.e.Runs().List(ctx, shell.JobRunFilter{InCluster: true}, p)
	}) {
		if err != nil {
			return err
		}
		fn(o)
	}
	return nil
}

// isOf reports whether the run is one of the runner's.
func (s *Service) isOf(o core.Orchestrator, name string) bool {
	n, _, err := s.runner(o.Config)
	return err == nil && n == name
}

// has reports whether the run may have something with the runner.
func (s *Service) has(o core.Orchestrator, name string) bool { return s.isOf(o, name) && o.InCluster }

// lost tells a run that its pod is gone (E10).
func (s *Service) lost(ctx context.Context, name string, a Attempt) {
	s.log.Warn("a pod is gone, and nobody saw it end", "runner", name, "pod", a.Name(), "run", a.Run)
	k := sink{s: s, runner: name}
	k.tell(ctx, Observation{Attempt: a, Phase: PhaseLost, Pod: core.Pod{Reason: "the pod is gone, and nobody saw it end"}})
}

const (
	// strayDeletions is how many strays are deleted at a time.
	strayDeletions = 8
	// strayLimit is how long one may take before the next one has its turn. It is tried
	// again the next time.
	strayLimit = 2 * time.Minute
)

// deleteStrays deletes what is held and belongs to no run. Those of known were in
// their runs' clusters a moment ago: the runs delete them.
func (s *Service) deleteStrays(ctx context.Context, name string, r Runner, held []Attempt, known map[Attempt]bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, strayDeletions)
	for _, a := range held {
		if known[a] || !s.stray(ctx, name, a) {
			continue
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-places }()
			s.deleteStray(ctx, name, r, a)
		})
	}
}

// stray reports whether an attempt belongs to no run. Where the store cannot tell,
// it does not: what is damaged may be mended.
func (s *Service) stray(ctx context.Context, name string, a Attempt) bool {
	o, err := s.e.Runs().Get(ctx, a.Run)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		return true
	case err != nil:
		if ctx.Err() == nil {
			s.log.Error("it cannot be told whose pod it is", "runner", name, "pod", a.Name(), "error", err)
		}
		return false
	}
	return !s.has(o, name) || o.RetryAttempt != a.N
}

// deleteStray deletes it, unless it has become a run's meanwhile.
func (s *Service) deleteStray(ctx context.Context, name string, r Runner, a Attempt) {
	log := s.log.With("runner", name, "pod", a.Name(), "run", a.Run)
	log.Warn("a pod belongs to no run: deleting it")
	ctx, done := s.within(ctx, strayLimit)
	defer done()
	_, err := s.remove(ctx, r, a, func() bool { return !s.stray(ctx, name, a) })
	if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		log.Error("a pod that belongs to no run could not be deleted; trying again later", "error", err)
	}
}

// errTooLong is the cause of a context that [Service.within] ends.
var errTooLong = errors.New("it takes too long")

// within bounds a context by the service's clock; done waits for all that it needs.
func (s *Service) within(ctx context.Context, d time.Duration) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if s.pause(ctx, d) {
			cancel(errTooLong)
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// tidy looks after what belongs to no runner, as often as reconcile does.
func (s *Service) tidy(ctx context.Context) {
	for {
		s.look(ctx, "the runs of unknown runners", s.tellUnknown)
		s.look(ctx, "the locks of ended runs", s.releaseLocks)
		s.look(ctx, "the jobs of ended actions", s.deleteActionJobs)
		if !s.pause(ctx, s.o.ReconcileEvery) {
			return
		}
	}
}

func (s *Service) look(ctx context.Context, after string, fn func(context.Context) error) {
	if err := fn(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("could not clean up; trying again later", "what", after, "error", err)
	}
}

// tellUnknown names the runners that runs have something with, and that are not
// configured any more: nobody hears of those runs, which will be orphaned.
func (s *Service) tellUnknown(ctx context.Context) error {
	unknown := make(map[string]int)
	err := s.eachInCluster(ctx, func(o core.Orchestrator) {
		if _, _, err := s.runner(o.Config); err != nil {
			unknown[o.Config.Runner]++
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		s.log.Error("runs have pods with a runner that is not configured: they have no heartbeats, and their pods stay",
			"runner", name, "runs", unknown[name], "configured", namesOf(s.o.Runners))
	}
	return err
}

// releaseLocks gives back the locks of runs that are over: a run gives back what it
// knows of, but a checker may have taken one for a run that had gone by then.
func (s *Service) releaseLocks(ctx context.Context) error {
	for l, err := range pages.All(s.pageSize, func(p shell.Page) ([]core.Lock, string, error) {
		return s.e.Locks().List(ctx, shell.MachineFilter{}, p)
	}) {
		if err != nil {
			return err
		}
		if err := s.releaseLock(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) releaseLock(ctx context.Context, l core.Lock) error {
	id, isRun := core.RunOfLockHolder(l.Holder)
	if !isRun || !s.runIsOver(ctx, id) {
		return nil
	}
	_, err := s.e.Locks().Send(ctx, shell.Scope{Namespace: l.Namespace, Tenant: l.Tenant}, l.Name,
		core.LockRelease{Holder: l.Holder, Owner: l.Owner, Token: l.Token})
	if _, refused := errors.AsType[*shell.Refusal](err); refused {
		return nil // somebody else has it by now
	}
	if err == nil {
		s.log.Warn("released the lock of a run that has ended", "lock", l.Name, "run", id)
	}
	return err
}

// runIsOver reports whether nothing of a run will go on.
func (s *Service) runIsOver(ctx context.Context, id uuid.UUID) bool {
	o, err := s.e.Runs().Get(ctx, id)
	if errors.Is(err, shell.ErrNotFound) {
		return true
	}
	return err == nil && o.State.Terminal() && !o.InCluster && len(o.Pending.Open) == 0
}
