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
	_ shell.Clock     = (*incarnation)(nil)
)

// lease is how long an owner may be silent before another one takes over.
const lease = 10 * time.Second

// cluster is what a process sees of the database where processes divide it by themselves: each thing that it is asked for happens
// when that is picked.
type cluster struct {
	*run
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

// partition names one where there are several, so that what goes on at the same time has names of its own.
func (r *run) partition(number int) string {
	if len(r.dbs) == 1 {
		return "the partition"
	}
	return fmt.Sprintf("partition %d", number)
}

// Look implements [store.Cluster].
func (c *cluster) Look(_ context.Context, number int) (store.Partition, error) {
	if err := c.ask("looks at " + c.partition(number)); err != nil {
		return store.Partition{}, err
	}
	row := c.dbs[number].row
	if row.Token == 0 {
		return store.Partition{}, store.ErrNotFound
	}
	return row, nil
}

// Partitions implements [store.Cluster].
func (c *cluster) Partitions(context.Context) (all []store.Partition, err error) {
	if err := c.ask("looks at all partitions"); err != nil {
		return nil, err
	}
	for _, db := range c.dbs {
		if db.row.Token > 0 {
			all = append(all, db.row)
		}
	}
	return all, nil
}

// Claim implements [store.Cluster].
func (c *cluster) Claim(_ context.Context, claim store.PartitionClaim) (store.Owned, error) {
	seen := claim.Seen
	if err := c.ask("claims " + c.partition(seen.Number)); err != nil {
		return nil, err
	}
	db := c.dbs[seen.Number]
	if db.row.Halted != "" && !claim.AcceptLoss {
		return nil, fmt.Errorf("%s: %w: %s", c.partition(seen.Number), errStopped, db.row.Halted)
	}
	if row := db.row; row.Token != seen.Token || row.Owned() && row.Beat != seen.Beat {
		return nil, store.ErrClaimed
	}
	c.count(CountClaims)
	if db.row.Owned() {
		c.count(CountLapsed)
		if !c.calm.IsZero() && c.now.Sub(c.calm) >= 3*lease/2 {
			c.taken = append(c.taken, fmt.Sprintf("%s takes %s from %s", c.of.name, c.partition(seen.Number), db.row.Owner))
		}
		if silent := c.silence(db.sign); silent < lease && db.row.Owner != c.of.name {
			c.taken = append(c.taken, fmt.Sprintf("%s takes %s from %s, which has given a sign of life %s before", c.of.name, c.partition(seen.Number), db.row.Owner, silent))
		}
	}
	if claim.AcceptLoss && db.row.Halted != "" {
		db.goesOn()
	}
	u := c.of.unitFor(seen.Number)
	h := db.open(u)
	h.in = c
	db.row.Token, db.row.Session, db.row.Owner, db.row.Address = uint64(h.number), db.live.Session(), claim.Owner, claim.Address
	db.lives()
	u.handle = h
	c.log("%s owns %s", c.of.name, c.partition(seen.Number))
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
	i.Beat, i.Draining, i.Rebalanced = was.Beat+1, was.Draining && was.Session == i.Session, was.Rebalanced
	c.listed[i.Name] = i
	return nil
}

// Renew implements [store.Cluster].
func (c *cluster) Renew(_ context.Context, i store.Instance, owned ...store.Owned) (rest []store.Owned, err error) {
	if err := c.ask("gives signs of life"); err != nil {
		return owned, err
	}
	for _, o := range owned {
		if h := handleOf(o); h.usable() == nil {
			h.db.lives()
		} else {
			rest = append(rest, o)
		}
	}
	is, ok := c.listed[i.Name]
	if !ok || is.Session != i.Session {
		return rest, store.ErrFenced
	}
	is.Beat++
	c.listed[i.Name] = is
	return rest, nil
}

// handleOf gives what Claim has opened.
func handleOf(o store.Owned) *handle {
	if s, ok := o.(*stager); ok {
		return s.handle
	}
	return o.(*handle)
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

// Rebalance implements [store.Cluster].
func (c *cluster) Rebalance(context.Context) error {
	if err := c.ask("rebalances"); err != nil {
		return err
	}
	for name, i := range c.listed { // order-free: each for itself
		i.Rebalanced++
		c.listed[name] = i
	}
	return nil
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

// AcceptLoss implements [store.Cluster].
func (c *cluster) AcceptLoss(_ context.Context, partition int, halted string) error {
	if err := c.ask("accepts the loss of " + c.partition(partition)); err != nil {
		return err
	}
	return c.dbs[partition].acceptLoss(halted)
}

// Part implements [store.Cluster].
func (c *cluster) Part(_ context.Context, i store.Instance) error {
	if err := c.ask("parts " + i.Name); err != nil {
		return err
	}
	if is, ok := c.listed[i.Name]; ok && is.Session == i.Session {
		is.Draining = true
		c.listed[i.Name] = is
	}
	return nil
}

// Layout implements [store.Cluster].
func (c *cluster) Layout(context.Context) (store.Layout, error) {
	if err := c.ask("reads the layout"); err != nil {
		return store.Layout{}, err
	}
	return c.layout(), nil
}

func (r *run) layout() store.Layout {
	return store.Layout{Partitions: len(r.dbs), Rule: core.PartitionRule}
}

// SetLayout implements [store.Cluster]: it stays as the run has it.
func (c *cluster) SetLayout(_ context.Context, l store.Layout) error {
	is := c.layout()
	return l.CanSet(&is, nil)
}

// Token implements [store.Claimed].
func (h *handle) Token() uint64 { return uint64(h.number) }

// Failed implements [store.Failing]: whoever is under the scheduler learns it by what is refused.
func (h *handle) Failed() <-chan struct{} { return nil }

// Failure implements [store.Failing].
func (h *handle) Failure() error { return h.failed }

// Renew implements [store.Owned].
func (h *handle) Renew(context.Context) error {
	if err := h.in.ask("gives a sign of life" + h.db.suffix()); err != nil {
		return err
	}
	if err := h.usable(); err != nil {
		return err
	}
	h.db.lives()
	return nil
}

// suffix tells partitions apart where there are several.
func (db *database) suffix() string {
	if len(db.dbs) == 1 {
		return ""
	}
	return " for " + db.partition(db.number)
}

// Close implements [store.Store]: where processes divide the database by themselves, it is given back. Else it is the run's.
func (h *handle) Close() error {
	if h.in == nil {
		return nil
	}
	if err := h.in.ask("gives " + h.db.partition(h.db.number) + " back"); err != nil || h.readable() != nil {
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
		Cluster: &cluster{r, i}, Name: i.name, Address: i.name, Lease: lease, Clock: i, Scheduler: i,
	})
	if err != nil {
		return nil, err
	}
	i.member = m
	return func() error {
		return m.Run(ctx, func(ctx context.Context, t fleet.Term) error {
			e, err := r.engine(i.units[0], t.Store, t)
			if err != nil {
				return err
			}
			r.serve(i.units[0], e)
			defer r.serve(i.units[0], nil)
			return e.Run(ctx)
		})
	}, nil
}

func (r *run) serve(u *unit, e *shell.Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.engine = e
}

func (r *run) engineOf(u *unit) *shell.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return u.engine
}

// count counts what several may do at the same time.
func (r *run) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// errNoOwner is what a client is told by an instance that knows nobody who could answer.
var errNoOwner = errors.New("nobody owns the partition, try again")

// reach gives the engine that answers a request which has come to an instance: its own, or that of the owner, to whom it is passed on.
func (r *run) reach(i *incarnation, partition int, name string) (*incarnation, *shell.Engine, error) {
	if e := r.engineOf(i.units[partition]); e != nil || i.member == nil && i.group == nil {
		return i, e, nil
	}
	r.park(i, i.name+" passes on "+name, 0, nil)
	for _, o := range r.all {
		if o.name == i.knows(partition) && o != i {
			r.park(o, o.name+" is passed "+name, 0, nil)
			if e := r.engineOf(o.units[partition]); e != nil {
				r.count(CountForwarded)
				return o, e, nil
			}
		}
	}
	return nil, nil, errNoOwner
}

// knows gives who owns a partition, as far as the process knows.
func (i *incarnation) knows(partition int) string {
	if i.group != nil {
		return i.group.Member(partition).State().Owner
	}
	return i.member.State().Owner
}
