package sim

import (
	"context"
	"time"

	"github.com/orrery-go/orrery/shell/fleet"
)

// CountMoved counts in [Report].Counts the partitions that an instance has given back for another one.
const CountMoved = "a partition moves"

// placedWithin is within what time each partition is where it should be, once no fault happens any more: a lease until the last one has lapsed, six for one that was
// taken in place of another, and then one moves at a time, with timers that come late.
const placedWithin = 10 * time.Minute

// ending is what a unit knows of the end of its context.
type ending int

const (
	idle    ending = iota // it has no engine
	listens               // it notices the end
	told                  // it has noticed it
)

// joinGroup has a process take part in a cluster of several partitions: it runs an engine for each that it owns.
func (r *run) joinGroup(ctx context.Context, i *incarnation) (func() error, error) {
	g, err := fleet.NewGroup(fleet.Options{
		Cluster: &cluster{r, i}, Name: i.name, Address: i.name, Lease: lease, Clock: i, Scheduler: i,
		Events: func(e fleet.Event) {
			if e.Kind == fleet.EventMoved {
				r.count(CountMoved)
			}
		},
	}, r.layout())
	if err != nil {
		return nil, err
	}
	i.group = g
	return func() error {
		return g.Run(ctx, func(ctx context.Context, t fleet.Term) error { return r.workOn(ctx, i.units[t.Partition], t) })
	}, nil
}

// unitFor gives what an engine of a process for a partition is to be: another one than the engine before, if tools of that run on.
func (i *incarnation) unitFor(partition int) *unit {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.units[partition]
	if u.engine != nil {
		i.former = append(i.former, u)
		u = &unit{incarnation: i, name: u.name + "+", partition: partition}
		i.units[partition] = u
	}
	return u
}

// workOn runs the engine of a unit. An engine is told to end while its loop waits, so that is a thing of its own.
func (r *run) workOn(ctx context.Context, u *unit, t fleet.Term) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e, err := r.engine(u, t.Store, t)
	if err != nil {
		return err
	}
	running, end := context.WithCancel(context.Background())
	defer end()
	r.becomes(u, listens)
	over := false // guarded by r.mu
	stop := context.AfterFunc(ctx, func() { r.tellUnit(u, &over, end) })
	defer stop()
	r.serve(u, e)
	defer r.serve(u, nil)
	err = e.Run(running)
	r.mu.Lock()
	over, u.ending = true, idle
	r.mu.Unlock()
	return err
}

func (r *run) becomes(u *unit, is ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.ending = is
}

// tellUnit has the engine of a unit told, once its loop waits. Whoever has ended the context has counted for it.
func (r *run) tellUnit(u *unit, over *bool, end func()) {
	r.becomes(u, told)
	r.plan(&stimulus{name: u.name + " is told to end", of: u.incarnation, early: func() bool { return !r.waitsNow(u.incarnation, u.name+" commit") }, fire: func() {
		r.mu.Lock()
		gone := *over
		r.mu.Unlock()
		if gone { // meanwhile, by itself
			r.Add(-1)
			return
		}
		end() // what was counted for this is the loop's
	}}, time.Hour)
	r.Add(-1)
}

// drains reports whether an instance is registered, and can (on) be drained.
func (r *run) drains(name string, on bool) bool {
	i, ok := r.listed[name]
	return ok && i.Draining != on
}

// drain has an instance drained for a while; in half of the runs the first one stays drained.
func (r *run) drain(name string, d time.Duration) {
	r.setDrain(name, true)
	if r.stays == "" && r.seed/12%2 == 0 && len(r.instances) > 1 {
		r.stays = name
		return
	}
	r.after("drain of "+name+" ends", d, func() {
		if name != r.stays {
			r.setDrain(name, false)
		}
	})
}

func (r *run) setDrain(name string, on bool) {
	if i, ok := r.listed[name]; ok {
		i.Draining = on
		r.listed[name] = i
	}
}

// undrain ends all drains, but of those that end themselves, and of one that stays drained.
func (r *run) undrain() {
	for _, on := range r.instances {
		if i := on.runs; i.serves() && !i.told && i.name != r.stays {
			r.setDrain(i.name, false)
		}
	}
}

// notePlaces notes since when each partition is owned by the instance that should have it.
func (r *run) notePlaces() {
	switch is := r.o.Partitions == 0 || r.inPlace(); {
	case !is:
		r.placed = time.Time{}
	case r.placed.IsZero():
		r.placed = r.now
	}
}

func (r *run) inPlace() bool {
	var names []string
	all := len(r.instances)
	for _, on := range r.instances {
		if i := on.runs; i.serves() && !i.told {
			if i.name == r.stays {
				all--
				continue
			}
			names = append(names, i.name)
		}
	}
	for n, db := range r.dbs {
		if db.row.Owner == "" || db.row.Owner != fleet.Place(n, names) {
			return false
		}
	}
	return len(names) == all
}

// settled reports whether nothing has to move any more, and nothing has moved for a while; then it stays calm for a while.
func (r *run) settled() bool {
	return r.o.Partitions == 0 || !r.placed.IsZero() && r.now.Sub(r.placed) >= 8*lease-calmFor
}

func (r *run) checkPlaces(bad func(rule, format string, args ...any)) {
	switch {
	case r.o.Partitions == 0:
	case !r.settled():
		for n, db := range r.dbs {
			bad(RulePlace, "partition %d is owned by %q, %s after the last fault", n, db.row.Owner, r.now.Sub(r.drained))
		}
	case r.placed.Sub(r.drained) > placedWithin:
		bad(RulePlace, "that takes %s after the last fault, more than %s", r.placed.Sub(r.drained), placedWithin)
	}
}
