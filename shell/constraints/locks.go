package constraints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// lockConstraint is lock: the run holds a lock from now until it ends.
type lockConstraint struct {
	Lists
	lock string
	ttl  time.Duration // 0: until it is released
}

func newLock(s Spec) (Constraint, error) {
	var c struct {
		Name string `json:"name"`
		TTL  span   `json:"ttl"`
	}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	if c.Name == "" {
		return nil, s.Errorf("name", "is missing: give the name of the lock")
	}
	if err := checkName(s.Path+".config.name", c.Name, core.MaxNameBytes); err != nil {
		return nil, err
	}
	s.parsed.reach.Locks = append(s.parsed.reach.Locks, c.Name)
	return &lockConstraint{Lists: s.Lists, lock: c.Name, ttl: time.Duration(c.TTL)}, nil
}

// Check implements [Constraint]: it takes the lock, or renews the run's own.
func (l *lockConstraint) Check(ctx context.Context, in *Input) (Outcome, error) {
	err := l.acquire(ctx, in)
	if !isConflict(err) {
		return Outcome{Met: err == nil}, err
	}
	held, err := in.Source.Lock(ctx, in.Scope(), l.lock)
	switch {
	case errors.Is(err, shell.ErrNotFound): // free again
	case err != nil:
		return Outcome{}, fmt.Errorf("read lock %q: %w", l.lock, err)
	default:
		ended, by, err := holderHasEnded(ctx, in.Source, held.Holder)
		if err != nil {
			return Outcome{}, err
		}
		if !ended {
			return Outcome{Message: fmt.Sprintf("lock %q is held by %s", l.lock, by)}, nil
		}
		// A run that ended while its check was under way still holds it.
		if err := release(ctx, in, l.lock, held.Holder, held.Token); err != nil {
			return Outcome{}, err
		}
	}
	err = l.acquire(ctx, in)
	if isConflict(err) {
		return Outcome{Message: fmt.Sprintf("lock %q is held by somebody else", l.lock)}, nil
	}
	return Outcome{Met: err == nil}, err
}

func (l *lockConstraint) acquire(ctx context.Context, in *Input) error {
	_, err := in.Source.SendLock(ctx, in.Scope(), l.lock, core.LockAcquire{
		Name: l.lock, Namespace: in.Job.Namespace, Tenant: in.Job.Tenant, Holder: core.RunLockHolder(in.Run.ID), TTLMS: l.ttl.Milliseconds(),
	})
	return err
}

// release releases a lock; that the holder does not have it is no error.
func release(ctx context.Context, in *Input, lock, holder string, token uint64) error {
	_, err := in.Source.SendLock(ctx, in.Scope(), lock, core.LockRelease{Holder: holder, Token: token})
	if isConflict(err) || errors.Is(err, shell.ErrNotFound) {
		return nil
	}
	return err
}

func isConflict(err error) bool {
	r, ok := errors.AsType[*shell.Refusal](err)
	return ok && r.Code == effects.CodeConflict
}

// holderHasEnded reports whether a holder is a run that ended without pods; by names it.
func holderHasEnded(ctx context.Context, s Source, holder string) (ended bool, by string, err error) {
	id, ok := core.RunOfLockHolder(holder)
	if !ok {
		return false, fmt.Sprintf("%q", clip.Text(holder, maxQuoted)), nil
	}
	run, err := s.JobRun(ctx, id)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		return true, holder, nil
	case err != nil:
		return false, "", fmt.Errorf("read the run that holds the lock: %w", err)
	}
	return run.State.Terminal() && !run.InCluster, "run " + clip.Text(run.RunID, maxQuoted), nil
}

// takeLocks takes all locks, or none if one of them stops the run. All runs take locks in
// the order of their names, so that of two runs that want the same ones, one gets them.
func (e *evaluation) takeLocks(ctx context.Context, list []int) error {
	nameOf := func(i int) string { return e.lockOf(i).lock }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	for n, i := range list {
		e.locks = append(e.locks, nameOf(i))
		if err := e.check(ctx, i); err != nil {
			e.releaseLocks(ctx)
			return err
		}
		if e.stopped() || e.inDoubt() {
			for _, other := range list[:n] {
				e.findings[other] = finding{} // they are released: nothing is told of them
			}
			e.releaseLocks(ctx)
			return nil
		}
		if !e.findings[i].out.Met {
			e.locks = e.locks[:len(e.locks)-1]
		}
	}
	slices.Sort(e.locks)
	e.locks = slices.Compact(e.locks)
	return nil
}

// lockOf gives the constraint of that number if it is a lock, and nil otherwise.
func (e *evaluation) lockOf(i int) *lockConstraint {
	l, _ := e.plan.constraints[i].c.(*lockConstraint)
	return l
}

// releaseHeld releases the locks of an earlier attempt, or of a check before a crash.
func (e *evaluation) releaseHeld(ctx context.Context, list []int) {
	for _, i := range list {
		name := e.lockOf(i).lock
		held, err := e.in.Source.Lock(ctx, e.in.Scope(), name)
		if err == nil && held.Holder == core.RunLockHolder(e.in.Run.ID) {
			e.locks = append(e.locks, name)
		}
	}
	e.releaseLocks(ctx)
}

// releaseLimit bounds the release of locks after the context of the check has ended.
const releaseLimit = 10 * time.Second

// releaseLocks releases the locks that the check has taken. What cannot be released
// stays among the locks of the run, which releases it when it ends.
func (e *evaluation) releaseLocks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	e.locks = slices.DeleteFunc(e.locks, func(name string) bool {
		err := release(ctx, &e.in, name, core.RunLockHolder(e.in.Run.ID), 0)
		if err != nil {
			e.in.Logger.WarnContext(ctx, "could not release a lock", "lock", name, "error", err)
		}
		return err == nil
	})
	if len(e.locks) == 0 {
		e.locks = nil
	}
}
