package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

var (
	_ store.Cluster = (*Process)(nil)
)

// Cluster is a database in memory with partitions that several processes of a test share: see [store.Cluster]. Each has a
// [Process] of its own, which the test freezes or cuts off.
type Cluster struct {
	mu         sync.Mutex
	partitions map[int]*partition
	instances  map[string]store.Instance
	formers    *Formers
	layout     *store.Layout // nil: none was set
	away       error         // nil: the database answers
}

// partition is one, as the database has it.
type partition struct {
	row   store.Partition
	data  *data
	owner *Owned // nil: nobody owns it
}

// NewCluster makes an empty one.
func NewCluster() *Cluster {
	c := &Cluster{partitions: make(map[int]*partition), instances: make(map[string]store.Instance)}
	c.formers = NewFormers(c.session)
	return c
}

// session gives that of a partition's owner; empty: nobody owns it. The caller holds the lock.
func (c *Cluster) session(number int) string {
	if p := c.partitions[number]; p != nil {
		return p.row.Session
	}
	return ""
}

// SetAway makes everything that a process asks of the database fail with err, as in an outage, and change nothing; nil ends it.
func (c *Cluster) SetAway(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

// Halt stops a partition that was opened once, as a loss of commits does: its owner can do nothing any more, and nobody opens it
// unless the loss is accepted.
func (c *Cluster) Halt(partition int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitions[partition]
	if p == nil {
		return
	}
	p.disown()
	p.row.Token++
	p.row.Halted, p.row.Lost = why, true
}

// disown takes a partition from its owner, who learns it when he asks the database next.
func (p *partition) disown() {
	p.row.Session, p.row.Owner, p.row.Address, p.owner = "", "", "", nil
	p.row.Beat++
}

// Process is what one process sees of a [Cluster].
type Process struct {
	c *Cluster

	mu   sync.Mutex
	ice  chan struct{} // closed once the process is not frozen; nil: it is not
	away error         // nil: it reaches the database

	ahead, within time.Duration // of the database's clock
}

// Process gives the database to one more process.
func (c *Cluster) Process() *Process { return &Process{c: c} }

// Freeze makes whatever the process asks of the database wait before it takes place, until Thaw, as if the process were stopped.
// What it has begun goes on from there, however long that took.
func (p *Process) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ice == nil {
		p.ice = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (p *Process) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ice != nil {
		close(p.ice)
		p.ice = nil
	}
}

// SetAway makes all that this process asks of the database fail with err, as if it were cut off; nil ends it.
func (p *Process) SetAway(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = err
}

// SetAhead says how far the database's clock is ahead of the process's, and how far that may be wrong.
func (p *Process) SetAhead(by, within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead, p.within = by, within
}

// Ahead implements [store.Timed].
func (p *Process) Ahead(ctx context.Context) (by, within time.Duration, err error) {
	err = p.ask(ctx, func() error { return nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ahead, p.within, err
}

// wait returns once the process is not frozen.
func (p *Process) wait() {
	p.mu.Lock()
	ice := p.ice
	p.mu.Unlock()
	if ice != nil {
		<-ice
	}
}

func (p *Process) cut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}

// ask runs fn on the database, with its lock held.
func (p *Process) ask(ctx context.Context, fn func() error) error {
	p.wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := p.cut(); err != nil {
		return err
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.away != nil {
		return p.c.away
	}
	return fn()
}

// Look implements [store.Cluster].
func (p *Process) Look(ctx context.Context, number int) (row store.Partition, err error) {
	err = p.ask(ctx, func() error {
		part := p.c.partitions[number]
		if part == nil {
			return store.ErrNotFound
		}
		row = part.row
		return nil
	})
	if err != nil {
		return store.Partition{}, fmt.Errorf("look at partition %d: %w", number, err)
	}
	return row, nil
}

// Partitions implements [store.Cluster].
func (p *Process) Partitions(ctx context.Context) (all []store.Partition, err error) {
	err = p.ask(ctx, func() error {
		for _, n := range slices.Sorted(maps.Keys(p.c.partitions)) {
			all = append(all, p.c.partitions[n].row)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return all, nil
}

// Claim implements [store.Cluster].
func (p *Process) Claim(ctx context.Context, claim store.PartitionClaim) (store.Owned, error) {
	var o *Owned
	err := p.ask(ctx, func() (err error) {
		o, err = p.claim(claim)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim partition %d: %w", claim.Seen.Number, err)
	}
	return o, nil
}

func (p *Process) claim(claim store.PartitionClaim) (*Owned, error) {
	seen := claim.Seen
	if err := p.c.checkLayout(seen.Number); err != nil {
		return nil, err
	}
	part := p.c.partitions[seen.Number]
	if part == nil {
		if seen.Token != 0 || seen.Number < 0 {
			return nil, store.ErrNotFound
		}
		part = &partition{row: store.Partition{Number: seen.Number}, data: newData()}
		p.c.partitions[seen.Number] = part
	}
	switch {
	case part.row.Halted != "" && !claim.AcceptLoss:
		return nil, fmt.Errorf("%w: %w: %s", store.ErrUnusable, store.ErrLost, part.row.Halted)
	case part.row.Token != seen.Token, part.row.Owned() && part.row.Beat != seen.Beat:
		return nil, fmt.Errorf("%w: %s", store.ErrClaimed, cmp.Or(part.row.Owner, "one that has gone meanwhile"))
	}
	session := rand.Text()
	part.row.Token++
	part.row.Beat++
	part.row.Session, part.row.Owner, part.row.Address, part.row.Halted, part.row.Lost = session, claim.Owner, claim.Address, "", false
	o := &Owned{Store: newStore(session, part.data), process: p, part: part, token: part.row.Token, failed: make(chan struct{})}
	o.fence, part.owner = o, o
	return o, nil
}

// AcceptLoss implements [store.Cluster].
func (p *Process) AcceptLoss(ctx context.Context, number int, halted string) error {
	err := p.ask(ctx, func() error {
		part := p.c.partitions[number]
		if part == nil {
			return store.ErrNotFound
		}
		if err := part.row.CanAcceptLoss(halted); err != nil {
			return err
		}
		part.row.Halted, part.row.Lost = "", false
		part.row.Beat++
		return nil
	})
	if err != nil {
		return fmt.Errorf("accept the loss of partition %d: %w", number, err)
	}
	return nil
}

// Register implements [store.Cluster].
func (p *Process) Register(ctx context.Context, i store.Instance) error {
	if i.Name == "" || i.Session == "" {
		return fmt.Errorf("register an instance: name %q, session %q: want both", i.Name, i.Session)
	}
	err := p.ask(ctx, func() error {
		was := p.c.instances[i.Name]
		i.Beat, i.Draining, i.Rebalanced = was.Beat+1, was.Draining && was.Session == i.Session, was.Rebalanced
		p.c.instances[i.Name] = i
		return nil
	})
	if err != nil {
		return fmt.Errorf("register instance %s: %w", i.Name, err)
	}
	return nil
}

// Renew implements [store.Cluster].
func (p *Process) Renew(ctx context.Context, i store.Instance, owned ...store.Owned) (rest []store.Owned, err error) {
	err = p.ask(ctx, func() error {
		for _, of := range owned {
			o, ok := of.(*Owned)
			if !ok || o.process != p || o.part.owner != o || o.refuses != nil {
				rest = append(rest, of)
				continue
			}
			o.part.row.Beat++
		}
		is, ok := p.c.instances[i.Name]
		if !ok || is.Session != i.Session {
			return store.ErrFenced
		}
		is.Beat++
		p.c.instances[i.Name] = is
		return nil
	})
	switch {
	case errors.Is(err, store.ErrFenced):
		return rest, fmt.Errorf("renew instance %s: %w", i.Name, err)
	case err != nil:
		return owned, fmt.Errorf("renew instance %s: %w", i.Name, err)
	}
	return rest, nil
}

// Leave implements [store.Cluster].
func (p *Process) Leave(ctx context.Context, i store.Instance) error {
	err := p.ask(ctx, func() error {
		if p.c.instances[i.Name].Session == i.Session {
			delete(p.c.instances, i.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take out instance %s: %w", i.Name, err)
	}
	return nil
}

// Instances implements [store.Cluster].
func (p *Process) Instances(ctx context.Context) (all []store.Instance, err error) {
	err = p.ask(ctx, func() error {
		for _, name := range slices.Sorted(maps.Keys(p.c.instances)) {
			all = append(all, p.c.instances[name])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return all, nil
}

// Drain implements [store.Cluster].
func (p *Process) Drain(ctx context.Context, name string, on bool) error {
	err := p.ask(ctx, func() error {
		i, ok := p.c.instances[name]
		if !ok {
			return store.ErrNotFound
		}
		i.Draining = on
		p.c.instances[name] = i
		return nil
	})
	if err != nil {
		return fmt.Errorf("drain instance %s: %w", name, err)
	}
	return nil
}

// Part implements [store.Cluster].
func (p *Process) Part(ctx context.Context, i store.Instance) error {
	err := p.ask(ctx, func() error {
		if is, ok := p.c.instances[i.Name]; ok && is.Session == i.Session {
			is.Draining = true
			p.c.instances[i.Name] = is
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("part instance %s: %w", i.Name, err)
	}
	return nil
}

// Rebalance implements [store.Cluster].
func (p *Process) Rebalance(ctx context.Context) error {
	err := p.ask(ctx, func() error {
		for name, i := range p.c.instances { // order-free: each for itself
			i.Rebalanced++
			p.c.instances[name] = i
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rebalance: %w", err)
	}
	return nil
}

// Layout implements [store.Cluster].
func (p *Process) Layout(ctx context.Context) (l store.Layout, err error) {
	err = p.ask(ctx, func() error {
		if p.c.layout == nil {
			return store.ErrNotFound
		}
		l = *p.c.layout
		return nil
	})
	if err != nil {
		return store.Layout{}, fmt.Errorf("read the layout: %w", err)
	}
	return l, nil
}

// SetLayout implements [store.Cluster].
func (p *Process) SetLayout(ctx context.Context, l store.Layout) error {
	return p.ask(ctx, func() error {
		if err := l.CanSet(p.c.layout, slices.Sorted(maps.Keys(p.c.partitions))); err != nil {
			return err
		}
		p.c.layout = &l
		return nil
	})
}

// checkLayout refuses a partition that the layout does not have.
func (c *Cluster) checkLayout(number int) error {
	if l := c.layout; l != nil && number >= l.Partitions {
		return fmt.Errorf("%w: the database has %s: want a number below that", store.ErrUnusable, l)
	}
	return nil
}
