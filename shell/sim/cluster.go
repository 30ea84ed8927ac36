package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
)

var (
	_ store.Cluster   = (*cluster)(nil)
	_ store.Owned     = (*handle)(nil)
	_ store.Owned     = (*stager)(nil)
	_ store.Stager    = (*stager)(nil)
	_ fleet.Scheduler = (*incarnation)(nil)
)

// lease is how long an owner may be silent before another one takes over.
const lease = 10 * time.Second

// cluster is what a process sees of the database where processes divide it by themselves: each thing that it is asked for happens
// when that is picked.
type cluster struct {
	*database
	of *incarnation
}

// ask waits for its turn. What takes longer than half a lease is given up by who asks.
func (c *cluster) ask(what string) error {
	since := c.of.time()
	c.of.park(c.of, c.of.name+" "+what, 0, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.of.leaving:
		return errOver
	case c.away.After(c.now):
		return errAway
	case c.now.Sub(since) >= lease/2:
		return fmt.Errorf("%s: %w", what, context.DeadlineExceeded)
	}
	return nil
}

// Look implements [store.Cluster].
func (c *cluster) Look(context.Context, int) (store.Partition, error) {
	if err := c.ask("looks at the partition"); err != nil {
		return store.Partition{}, err
	}
	if c.row.Token == 0 {
		return store.Partition{}, store.ErrNotFound
	}
	return c.row, nil
}

// Partitions implements [store.Cluster].
func (c *cluster) Partitions(ctx context.Context) ([]store.Partition, error) {
	p, err := c.Look(ctx, 0)
	if err != nil {
		return nil, err
	}
	return []store.Partition{p}, nil
}

// Claim implements [store.Cluster].
func (c *cluster) Claim(_ context.Context, claim store.PartitionClaim) (store.Owned, error) {
	if err := c.ask("claims the partition"); err != nil {
		return nil, err
	}
	if seen := claim.Seen; c.row.Token != seen.Token || c.row.Owned() && c.row.Beat != seen.Beat {
		return nil, store.ErrClaimed
	}
	c.counts[CountClaims]++
	if c.row.Owned() {
		c.counts[CountLapsed]++
	}
	h := c.open(c.of)
	h.in = c
	c.row.Token, c.row.Beat, c.row.Session, c.row.Owner, c.row.Address = uint64(h.number), c.row.Beat+1, c.live.Session(), claim.Owner, claim.Address
	c.of.handle = h
	c.log("%s owns the partition", c.of.name)
	if c.stages {
		return &stager{handle: h}, nil
	}
	return h, nil
}

// Register implements [store.Cluster].
func (c *cluster) Register(_ context.Context, i store.Instance) error {
	if err := c.ask("registers"); err != nil {
		return err
	}
	was := c.listed[i.Name]
	i.Beat, i.Draining = was.Beat+1, was.Draining && was.Session == i.Session
	c.listed[i.Name] = i
	return nil
}

// Renew implements [store.Cluster].
func (c *cluster) Renew(_ context.Context, i store.Instance) error {
	if err := c.ask("is still there"); err != nil {
		return err
	}
	is, ok := c.listed[i.Name]
	if !ok || is.Session != i.Session {
		return store.ErrFenced
	}
	is.Beat++
	c.listed[i.Name] = is
	return nil
}

// Leave implements [store.Cluster].
func (c *cluster) Leave(_ context.Context, i store.Instance) error {
	if err := c.ask("leaves"); err != nil {
		return err
	}
	if c.listed[i.Name].Session == i.Session {
		delete(c.listed, i.Name)
	}
	return nil
}

// Instances implements [store.Cluster].
func (c *cluster) Instances(context.Context) (all []store.Instance, err error) {
	if err := c.ask("lists the others"); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.listed)) {
		all = append(all, c.listed[name])
	}
	return all, nil
}

// Drain implements [store.Cluster].
func (c *cluster) Drain(_ context.Context, name string, on bool) error {
	if err := c.ask("drains " + name); err != nil {
		return err
	}
	i, ok := c.listed[name]
	if !ok {
		return store.ErrNotFound
	}
	i.Draining = on
	c.listed[name] = i
	return nil
}

// Layout implements [store.Cluster]: it is one partition.
func (c *cluster) Layout(context.Context) (store.Layout, error) {
	if err := c.ask("reads the layout"); err != nil {
		return store.Layout{}, err
	}
	return store.Layout{}, store.ErrNotFound
}

// SetLayout implements [store.Cluster]: it stays one partition.
func (c *cluster) SetLayout(_ context.Context, l store.Layout) error {
	return l.CanSet(&store.Layout{Partitions: 1, Rule: core.PartitionRule}, nil)
}

// Token implements [store.Claimed].
func (h *handle) Token() uint64 { return uint64(h.number) }

// Failed implements [store.Failing]: whoever is under the scheduler learns it by what is refused.
func (h *handle) Failed() <-chan struct{} { return nil }

// Failure implements [store.Failing].
func (h *handle) Failure() error { return h.failed }

// Renew implements [store.Owned].
func (h *handle) Renew(context.Context) error {
	if err := h.in.ask("gives a sign of life"); err != nil {
		return err
	}
	if err := h.usable(); err != nil {
		return err
	}
	h.db.row.Beat++
	return nil
}

// Close implements [store.Store]: where processes divide the database by themselves, it is given back. Else it is the run's.
func (h *handle) Close() error {
	if h.in == nil {
		return nil
	}
	if err := h.in.ask("gives the partition back"); err != nil || h.usable() != nil {
		return nil //nolint:nilerr // whoever opens it next waits for a lease
	}
	h.db.row.Session, h.db.row.Owner, h.db.row.Address = "", "", ""
	h.db.row.Beat++
	return nil
}

// Sleep implements [fleet.Scheduler].
func (i *incarnation) Sleep(ctx context.Context, name string, d time.Duration) {
	c := make(chan struct{})
	i.plan(&stimulus{
		name: i.name + " " + name, of: i, timer: true, early: func() bool { return ctx.Err() != nil }, fire: func() { close(c) },
	}, d)
	i.Add(-1)
	<-c
}

// join has a process take part in the cluster: it runs an engine while it owns the partition.
func (r *run) join(ctx context.Context, i *incarnation) (func() error, error) {
	m, err := fleet.New(fleet.Options{
		Cluster: &cluster{r.db, i}, Name: i.name, Address: i.name, Lease: lease, Clock: i, Scheduler: i,
	})
	if err != nil {
		return nil, err
	}
	i.member = m
	return func() error {
		return m.Run(ctx, func(ctx context.Context, t fleet.Term) error {
			e, err := r.engine(i, t.Store, t.Handover)
			if err != nil {
				return err
			}
			r.serve(i, e)
			defer r.serve(i, nil)
			return e.Run(ctx)
		})
	}, nil
}

func (r *run) serve(i *incarnation, e *shell.Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i.engine = e
}

func (r *run) engineOf(i *incarnation) *shell.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return i.engine
}

// errNoOwner is what a client is told by an instance that knows nobody who could answer.
var errNoOwner = errors.New("nobody owns the partition, try again")

// reach gives the engine that answers a request which has come to an instance: its own, or that of the owner, to whom it is passed on.
func (r *run) reach(i *incarnation, name string) (*shell.Engine, error) {
	if e := r.engineOf(i); e != nil || i.member == nil {
		return e, nil
	}
	r.park(i, i.name+" passes on "+name, 0, nil)
	for _, o := range r.all {
		if o.name == i.member.State().Owner && o != i {
			r.park(o, o.name+" is passed "+name, 0, nil)
			if e := r.engineOf(o); e != nil {
				r.mu.Lock()
				r.counts[CountForwarded]++
				r.mu.Unlock()
				return e, nil
			}
		}
	}
	return nil, errNoOwner
}
