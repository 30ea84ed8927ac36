package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/pages"
	"github.com/orrery-go/orrery/store"
)

// reconcile compares what a runner holds with the store, at once and every
// ReconcileEvery, until ctx ends, for lost attempts as soon as a heartbeat misses one, and for strays as soon as a pod is seen that no run wants. It looks for lost attempts and for strays in two
// goroutines, so that a deletion that does not come to an end hides no lost attempt.
func (s *Service) reconcile(ctx context.Context, name string, r Runner) {
	var wg sync.WaitGroup
	again := func(compare func(context.Context, string, Runner) error, at <-chan struct{}) {
		for lasts := true; lasts; lasts = s.pauseUntil(ctx, s.o.ReconcileEvery, at) {
			if err := compare(ctx, name, r); err != nil && ctx.Err() == nil {
				s.log.Error("could not compare the cluster with the store", "runner", name, "error", err)
			}
		}
	}
	wg.Go(func() { again(s.findLost, s.missed[name]) })
	wg.Go(func() { again(s.findStrays, s.strayed[name]) })
	wg.Wait()
}

// pauseUntil is pause, which ends early at a token of at.
func (s *Service) pauseUntil(ctx context.Context, d time.Duration, at <-chan struct{}) bool {
	timer, stop := s.o.Clock.Timer(d)
	defer stop()
	select {
	case <-timer:
	case <-at:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// findStrays deletes the attempts that the runner holds, and whose runs do not have
// them in their cluster, but for those that [Service.spares] names. InCluster is committed before anything is created: so the
// run is read after what is held.
func (s *Service) findStrays(ctx context.Context, name string, r Runner) error {
	known, _, err := s.inCluster(ctx, name)
	if err != nil {
		return err
	}
	held, err := r.Held(ctx)
	if err == nil {
		s.noteStrangers(ctx, name, r, held, known)
		s.places[name].freeWhere(func(a Attempt) bool { // of runs that were abandoned
			return !known[a] && !slices.Contains(held, a) && s.isStray(ctx, name, a)
		})
		s.deleteStrays(ctx, name, r, held, known)
	}
	return err
}

// lostAfter is how long an attempt must be missing before its run is told that it is
// lost.
const lostAfter = 10 * time.Second

// findLost tells a run that its pod is lost, if the attempt was created and the runner
// does not hold it. The runs are read before what is held, and both are compared twice:
// the runner may hear of what it has created a little later.
func (s *Service) findLost(ctx context.Context, name string, r Runner) error {
	if err := s.loseElsewhere(ctx, name); err != nil {
		return err
	}
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
			s.reportLost(ctx, name, a, "the pod is gone, and nobody saw it end")
		}
	}
	return nil
}

// loseElsewhere tells the runs whose pods have another home that these are lost: whoever works on them was the last to open their database,
// and reaches no other computer.
func (s *Service) loseElsewhere(ctx context.Context, name string) error {
	if s.o.Home == "" {
		return nil
	}
	lost := map[Attempt]string{}
	err := s.eachInCluster(ctx, func(o core.Orchestrator) {
		if home := o.Pod.Home; home != "" && home != s.o.Home && s.mayHold(o, name) && (wanted(o, o.RetryAttempt) || o.Step == core.StepAdopted) {
			lost[Attempt{Run: o.ID, N: o.RetryAttempt}] = home
		}
	})
	if err != nil {
		return err
	}
	for a, home := range lost { // order-free: each is told for itself
		s.reportLost(ctx, name, a, fmt.Sprintf("the pod is out of reach: its home is the instance %q, and another one works on the run now", home))
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

// inCluster lists the attempts whose pods a runner may hold, and those of them that it
// must hold: their creation has been answered, they do not wait for room, and nobody is about to delete them.
func (s *Service) inCluster(ctx context.Context, name string) (known, created map[Attempt]bool, err error) {
	known, created = make(map[Attempt]bool), make(map[Attempt]bool)
	err = s.eachInCluster(ctx, func(o core.Orchestrator) {
		if s.mayHold(o, name) {
			a := Attempt{Run: o.ID, N: o.RetryAttempt}
			known[a] = true
			if wanted(o, a.N) && len(o.Pending.Open) == 0 && !o.Pod.Queued || o.Step == core.StepAdopted {
				created[a] = true
			}
		}
	})
	return known, created, err
}

// eachInCluster calls fn with each run that may have pods in a cluster.
func (s *Service) eachInCluster(ctx context.Context, fn func(core.Orchestrator)) error {
	for o, err := range pages.All(ctx, s.pageSize, s.e.Runs().List, shell.JobRunFilter{InCluster: true}) {
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

// mayHold reports whether the runner may hold pods of the run.
func (s *Service) mayHold(o core.Orchestrator, name string) bool {
	return s.isOf(o, name) && o.InCluster
}

// reportLost tells a run that its pod is gone (E10).
func (s *Service) reportLost(ctx context.Context, name string, a Attempt, why string) {
	jobID := ""
	if o, err := s.e.Runs().Get(ctx, a.Run); err == nil {
		jobID = o.JobID
	}
	s.log.Warn("a run has lost its pod", "why", why, "runner", name, "pod", s.nameOf(name, jobID, a), "run", a.Run)
	s.tellRun(ctx, name, Observation{Attempt: a, Phase: PhaseLost, Pod: core.Pod{Reason: why}})
}

const (
	// strayDeletions is how many strays are deleted at a time.
	strayDeletions = 8
	// strayLimit is how long one deletion may take before the next stray is deleted. The
	// next comparison finds the stray once more.
	strayLimit = 2 * time.Minute
)

// deleteStrays deletes what is held and belongs to no run. Those of known were in
// their runs' clusters a moment ago: the runs delete them.
func (s *Service) deleteStrays(ctx context.Context, name string, r Runner, held []Attempt, known map[Attempt]bool) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, strayDeletions)
	for _, a := range held {
		if known[a] || !s.isStray(ctx, name, a) {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.deleteStray(ctx, name, r, a)
		})
	}
}

// isStray reports whether an attempt belongs to no run. An attempt whose run cannot be
// read is none: what is damaged may be mended.
func (s *Service) isStray(ctx context.Context, name string, a Attempt) bool {
	if s.o.Clock.Now().Before(s.keptUntil(name, a)) {
		return false
	}
	o, err := s.e.Runs().Get(ctx, a.Run)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		return !s.spares(name, a)
	case err != nil:
		if ctx.Err() == nil {
			s.log.Error("could not find out which run the pod belongs to", "runner", name, "pod", s.nameOf(name, "", a), "error", err)
		}
		return false
	}
	return !s.mayHold(o, name) || o.RetryAttempt != a.N
}

// keptUntil is until when a runner leaves an attempt that has ended; zero if it does not.
func (s *Service) keptUntil(name string, a Attempt) time.Time {
	if k, ok := as[Keeper](s.o.Runners[name]); ok {
		return k.Keeps(a)
	}
	return time.Time{}
}

// deleteStray deletes a stray, unless it belongs to a run by now.
func (s *Service) deleteStray(ctx context.Context, name string, r Runner, a Attempt) {
	log := s.log.With("runner", name, "pod", s.nameOf(name, "", a), "run", a.Run)
	if s.keptUntil(name, a).IsZero() {
		log.Warn("a pod belongs to no run: deleting it")
	} else {
		log.Info("the time of a pod that was kept is over: deleting it")
	}
	ctx, done := s.withTimeout(ctx, strayLimit)
	defer done()
	err := s.confirm(ctx)
	if err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			log.Error("it is not certain that the database is still this process's: leaving the pod alone", "error", err)
		}
		return
	}
	_, err = s.remove(ctx, name, r, a, func() bool { return !s.isStray(ctx, name, a) })
	if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		log.Error("could not delete a pod that belongs to no run; trying again later", "error", err)
	}
}

// sawUnwanted has strays be looked for at once if a pod is one that was seen to wait or to run, and that its run refuses: a process that has lost the database may
// have sent its creation late.
func (s *Service) sawUnwanted(ctx context.Context, name string, o Observation) {
	if o.Phase != PhaseCreated && o.Phase != PhaseRunning || !s.isStray(ctx, name, o.Attempt) {
		return
	}
	select {
	case s.strayed[name] <- struct{}{}:
	default: // it is being looked for
	}
}

// confirm finds out by a commit that the database was this process's until now: what was read of it is not what was true before another
// process took it over.
func (s *Service) confirm(ctx context.Context) error {
	if s.database == "" {
		return nil // it is damaged, and what is written there may be of use to who mends it
	}
	return s.e.Store().Update(ctx, func(tx store.Tx) error { return tx.SetMeta(databaseMeta, []byte(s.database)) })
}

// errTooLong is the cause of a context that [Service.withTimeout] ends.
var errTooLong = errors.New("it takes too long")

// withTimeout bounds a context by the service's clock; done releases what it needs.
func (s *Service) withTimeout(ctx context.Context, d time.Duration) (_ context.Context, done func()) {
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

// cleanUp looks after what belongs to no runner, as often as reconcile does.
func (s *Service) cleanUp(ctx context.Context) {
	for lasts := true; lasts; lasts = s.pause(ctx, s.o.ReconcileEvery) {
		s.cleanUpStep(ctx, "the runs of unknown runners", s.logUnknownRunners)
		s.cleanUpStep(ctx, "the locks of ended runs", s.releaseLocks)
		s.cleanUpStep(ctx, "the jobs of ended actions", s.deleteActionJobs)
	}
}

func (s *Service) cleanUpStep(ctx context.Context, what string, fn func(context.Context) error) {
	if err := fn(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("could not clean up; trying again later", "what", what, "error", err)
	}
}

// logUnknownRunners logs the runners that are not configured any more, and that runs
// may have pods with: nobody watches those pods, and the runs will be orphaned.
func (s *Service) logUnknownRunners(ctx context.Context) error {
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

// releaseLocks releases the locks of runs that have ended: a run releases those that it
// knows of, but a checker may have taken one for a run that had ended by then.
func (s *Service) releaseLocks(ctx context.Context) error {
	for l, err := range pages.All(ctx, s.pageSize, s.e.Locks().List, shell.MachineFilter{}) {
		if err == nil {
			err = s.releaseLock(ctx, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) releaseLock(ctx context.Context, l core.Lock) error {
	id, isRun := core.RunOfLockHolder(l.Holder)
	if !isRun || !s.runHasEnded(ctx, id) {
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

// runHasEnded reports whether a run has ended, and neither pods nor effects of it are
// left.
func (s *Service) runHasEnded(ctx context.Context, id uuid.UUID) bool {
	o, err := s.e.Runs().Get(ctx, id)
	if errors.Is(err, shell.ErrNotFound) {
		return true
	}
	return err == nil && o.State.Terminal() && !o.InCluster && len(o.Pending.Open) == 0
}
