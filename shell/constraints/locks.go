package constraints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	switch {
	case c.Name == "":
		return nil, s.Errorf("name", "is missing: give the name of the lock")
	case len(c.Name) > core.MaxNameBytes:
		return nil, s.Errorf("name", "%d bytes is longer than %d", len(c.Name), core.MaxNameBytes)
	case strings.ContainsFunc(c.Name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return nil, s.Errorf("name", "%q has a control character", clip.Text(c.Name, maxQuoted))
	}
	s.parsed.reach.Locks = append(s.parsed.reach.Locks, c.Name)
	return &lockConstraint{Lists: s.Lists, lock: c.Name, ttl: time.Duration(c.TTL)}, nil
}

// Check implements [Constraint]: it takes the lock, which a run that has it already
// only renews.
func (l *lockConstraint) Check(ctx context.Context, in *Input) (Outcome, error) {
	err := l.acquire(ctx, in)
	if !conflict(err) {
		return Outcome{Met: err == nil}, err
	}
	held, err := in.Source.Lock(ctx, in.Scope(), l.lock)
	switch {
	case errors.Is(err, shell.ErrNotFound): // free again
	case err != nil:
		return Outcome{}, fmt.Errorf("read lock %q: %w", l.lock, err)
	default:
		over, by, err := holderIsOver(ctx, in.Source, held.Holder)
		if err != nil {
			return Outcome{}, err
		}
		if !over {
			return Outcome{Message: fmt.Sprintf("lock %q is held by %s", l.lock, by)}, nil
		}
		// A run that ended while its check was under way has left it behind.
		if err := release(ctx, in, l.lock, held.Holder, held.Token); err != nil {
			return Outcome{}, err
		}
	}
	switch err := l.acquire(ctx, in); {
	case conflict(err):
		return Outcome{Message: fmt.Sprintf("lock %q is held by somebody else", l.lock)}, nil
	default:
		return Outcome{Met: err == nil}, err
	}
}

func (l *lockConstraint) acquire(ctx context.Context, in *Input) error {
	_, err := in.Source.SendLock(ctx, in.Scope(), l.lock, core.LockAcquire{
		Name: l.lock, Namespace: in.Job.Namespace, Tenant: in.Job.Tenant, Holder: core.RunLockHolder(in.Run.ID), TTLMS: l.ttl.Milliseconds(),
	})
	return err
}

// release gives a lock back; one that the holder has no more is no error.
func release(ctx context.Context, in *Input, lock, holder string, token uint64) error {
	_, err := in.Source.SendLock(ctx, in.Scope(), lock, core.LockRelease{Holder: holder, Token: token})
	if conflict(err) || errors.Is(err, shell.ErrNotFound) {
		return nil
	}
	return err
}

func conflict(err error) bool {
	r, ok := errors.AsType[*shell.Refusal](err)
	return ok && r.Code == effects.CodeConflict
}

// holderIsOver reports whether a lock is held by a run that has ended and has
// nothing in a cluster, and who holds it, for the reader.
func holderIsOver(ctx context.Context, s Source, holder string) (over bool, by string, err error) {
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

// takeLocks takes all locks, or those that it could not do without stop the run and
// it keeps none. The order of the names lets one of two runs that want the same ones
// have them.
func (e *evaluation) takeLocks(ctx context.Context, list []int) error {
	nameOf := func(i int) string { return e.lockOf(i).lock }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	for n, i := range list {
		e.locks = append(e.locks, nameOf(i))
		if err := e.one(ctx, i); err != nil {
			e.giveBack(ctx)
			return err
		}
		if e.stopped() || e.inDoubt() {
			for _, other := range list[:n] {
				e.findings[other] = finding{} // not to be held against anybody
			}
			e.giveBack(ctx)
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

// lockOf gives the constraint of that number where it is a lock; nil where not.
func (e *evaluation) lockOf(i int) *lockConstraint {
	l, ok := e.plan.constraints[i].c.(*lockConstraint)
	if !ok {
		return nil
	}
	return l
}

// keepNone gives back what the run has of its locks: from an attempt before, or from
// a check whose answer was lost in a crash.
func (e *evaluation) keepNone(ctx context.Context, list []int) {
	for _, i := range list {
		name := e.lockOf(i).lock
		held, err := e.in.Source.Lock(ctx, e.in.Scope(), name)
		if err == nil && held.Holder == core.RunLockHolder(e.in.Run.ID) {
			e.locks = append(e.locks, name)
		}
	}
	e.giveBack(ctx)
}

// giveBackLimit bounds giving locks back when the check itself is not wanted any
// more.
const giveBackLimit = 10 * time.Second

// giveBack gives back what was taken. What cannot be given back stays among the
// locks of the run, which gives it back when it ends.
func (e *evaluation) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	e.locks = slices.DeleteFunc(e.locks, func(name string) bool {
		err := release(ctx, &e.in, name, core.RunLockHolder(e.in.Run.ID), 0)
		if err != nil {
			e.in.Logger.WarnContext(ctx, "lock could not be given back", "lock", name, "error", err)
		}
		return err == nil
	})
	if len(e.locks) == 0 {
		e.locks = nil
	}
}
