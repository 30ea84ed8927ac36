package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
)

// instance is a machine with a clock, on which one process runs after another.
type instance struct {
	name   string
	offset time.Duration // of its wall clock
	frozen time.Time     // until then nothing of it moves; zero: it does
	runs   *incarnation  // nil: none does
	begun  int
}

// incarnation is a process, with what it is for each partition.
type incarnation struct {
	*world
	on      *instance
	name    string
	units   []*unit       // by the number of the partition
	former  []*unit       // of which tools ran on as the process claimed the partition anew
	member  *fleet.Member // nil: it is in no fleet of one partition
	group   *fleet.Group  // nil: it is in no fleet of several
	end     context.CancelFunc
	dead    bool // it has crashed: nothing of it moves before the run is over
	leaving bool // the run is over: all that waits of it goes on
	told    bool // its context has ended
	ended   bool // Run has returned
	err     error
}

// unit is an engine of a process with its own opening of a partition. It is its [shell.Clock] and its Scheduler.
type unit struct {
	*incarnation
	name      string
	partition int
	engine    *shell.Engine // nil: it stands by
	handle    *handle
	ending    ending
	at        []context.Context // of the tools that run
}

// parks has a goroutine of it wait.
func (u *unit) parks(name string, d time.Duration, early func() bool) {
	u.park(u.incarnation, name, d, early)
}

// moves reports whether what is its own may happen.
func (i *incarnation) moves() bool {
	return i.leaving || !i.dead && !i.on.frozen.After(i.now)
}

// serves reports whether requests reach it.
func (i *incarnation) serves() bool { return i != nil && !i.dead && !i.ended }

// Now implements [shell.Clock].
func (i *incarnation) Now() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now.Add(i.on.offset)
}

// Steady implements [shell.Clock].
func (i *incarnation) Steady() time.Time { return i.time() }

// Timer implements [shell.Clock].
func (u *unit) Timer(d time.Duration) (<-chan time.Time, func()) {
	c := make(chan time.Time, 1)
	s := &stimulus{name: u.name + " time", of: u.incarnation, timer: true, fire: func() { c <- time.Time{} }}
	cancel := u.plan(s, d)
	return c, func() {
		cancel()
		if s.fired { // it was counted until now
			u.Add(-1)
		}
	}
}

// Timer implements [shell.Clock], of which a fleet under a scheduler asks for none.
func (i *incarnation) Timer(d time.Duration) (<-chan time.Time, func()) { return i.units[0].Timer(d) }

// AfterFunc implements [engine.Scheduler].
func (u *unit) AfterFunc(name string, d time.Duration, f func()) func() {
	return u.plan(&stimulus{name: u.name + " " + name, of: u.incarnation, timer: true, fire: func() {
		f()
		u.Add(-1)
	}}, d)
}

type clientKey struct{}

// Answered implements [engine.Scheduler]: a reply is on its way until it is picked.
func (u *unit) Answered(ctx context.Context) {
	name, _ := ctx.Value(clientKey{}).(string)
	u.parks(u.name+" replies to "+name, 0, nil)
}

// start has a process begin on an instance.
func (r *run) start(on *instance) {
	on.begun++
	i := &incarnation{world: r.world, on: on, name: fmt.Sprintf("%s.%d", on.name, on.begun)}
	for _, db := range r.dbs {
		u := &unit{incarnation: i, name: i.name, partition: db.number}
		if len(r.dbs) > 1 {
			u.name = fmt.Sprintf("%s/%d", i.name, db.number)
		}
		u.handle = &handle{db: db, of: u, number: -1} // that of nobody
		i.units = append(i.units, u)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i.end = cancel
	enter := r.alone
	switch {
	case r.o.Partitions > 0:
		enter = r.joinGroup
	case r.o.Fleet:
		enter = r.join
	}
	work, err := enter(ctx, i)
	if err != nil {
		r.broken = err
		cancel()
		return
	}
	on.runs = i
	r.all = append(r.all, i)
	r.log("%s begins", i.name)
	r.Add(1)
	go func() {
		err := work()
		r.mu.Lock()
		i.ended, i.err = true, err
		r.mu.Unlock()
		r.log("%s has ended: %v", i.name, err)
		r.Add(-1)
	}()
}

// alone has a process open the store, and run an engine on it.
func (r *run) alone(ctx context.Context, i *incarnation) (func() error, error) {
	u := i.units[0]
	u.handle = r.dbs[0].open(u)
	st := store.Store(u.handle)
	if r.stages {
		st = &stager{handle: u.handle}
	}
	e, err := r.engine(u, st, fleet.Term{})
	u.engine = e
	return func() error { return e.Run(ctx) }, err
}

// tell tells a process to end. The loop of its engine counts then.
func (r *run) tell(i *incarnation) {
	for _, u := range i.units {
		if r.mustCount(u) {
			r.Add(1)
		}
	}
	i.end()
}

// mustCount reports whether something notices that the context of a process ends, and counts then.
func (r *run) mustCount(u *unit) bool {
	if u.group != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return u.ending == listens
	}
	return r.engineOf(u) != nil && !u.ended
}

// failure is why a store of the process refuses everything; nil: none does.
func (i *incarnation) failure() error {
	for _, u := range i.units {
		if err := u.handle.failure(); err != nil && !errors.Is(err, store.ErrFenced) {
			return err
		}
	}
	return nil
}

// commits reports whether an engine of the process waits for the store.
func (r *run) commits(i *incarnation) bool {
	return slices.ContainsFunc(i.units, func(u *unit) bool { return r.waits(i, u.name+" commit") })
}

// engine makes one of a process.
func (r *run) engine(u *unit, st store.Store, t fleet.Term) (*shell.Engine, error) {
	o := shell.Options{
		TickRate: r.every, DefaultTimeout: time.Minute, AbandonAfter: 5 * time.Second, StopTimeout: 10 * time.Second,
		LeaseTTL: 3 * r.every, DefaultConcurrency: r.places, Logger: slog.New(slog.DiscardHandler),
	}
	if r.o.Fleet { // tools of which a stop does not wait for the end go on for a while
		o.StopTimeout, o.Handover = 40*time.Second, t.Handover
	}
	o.Tools = map[string]shell.Tool{"work": script{}}
	if r.o.Engine != nil {
		r.o.Engine(&o)
	}
	o.Tools = r.wrapped(u, o.Tools)
	lanes := o.Interpreters
	o.Interpreters = map[string]shell.Interpreter{}
	for lane, inner := range lanes {
		o.Interpreters[lane] = &interpreter{u, inner}
	}
	o.Store, o.Clock, o.Scheduler, o.Instance, o.Partition, o.Partitions = st, u, u, u.incarnation.name, u.partition, t.Partitions
	return shell.New(o)
}

// wrapped has tools wait for their turn.
func (r *run) wrapped(u *unit, tools map[string]shell.Tool) map[string]shell.Tool {
	all := map[string]shell.Tool{}
	for name, inner := range tools {
		all[name] = &tool{of: u, run: r, inner: inner}
	}
	return all
}

// crash ends a process as a lost machine does: nothing of it moves any more.
func (r *run) crash(on *instance) {
	i := on.runs
	i.dead = true
	on.runs = nil
	on.frozen = time.Time{}
	r.forsake(i)
}

// look sees to it that somebody runs where nobody does: what systemd, or whoever stands by, does.
func (r *run) look() {
	for _, on := range r.instances {
		if i := on.runs; i != nil && i.ended {
			on.runs = nil
			r.forsake(i)
			if i.err != nil && !errors.Is(i.err, store.ErrFenced) {
				r.counts["ended with an error"]++
			}
		}
		if i := on.runs; i != nil && i.failure() != nil {
			r.crash(on) // its store refuses everything: whoever operates it starts it anew
		}
	}
	if r.succession || r.isStopped() { // whoever begins ends with the reason: they are started once the loss is accepted
		return
	}
	for _, on := range r.instances {
		if on.runs == nil && r.returns() || r.successor() == on {
			r.succession = true
			r.after("a successor begins", r.takesOver(), func() {
				r.succession = false
				if r.isStopped() {
					return
				}
				for _, on := range r.instances {
					if on.runs == nil && r.returns() || r.successor() == on {
						r.start(on)
						return
					}
				}
			})
			return
		}
	}
}

// returns reports whether a process begins on an instance that has none, whatever the others do.
func (r *run) returns() bool {
	return r.o.Fleet || r.o.Shared && (!r.sparse || !slices.ContainsFunc(r.instances, func(on *instance) bool { return on.runs != nil }))
}

func (r *run) takesOver() time.Duration { return 10 * time.Second }

// successor is who takes the store over whose owner is gone or silent; nil: nobody does.
func (r *run) successor() *instance {
	if r.o.Shared || r.o.Fleet {
		return nil
	}
	for _, on := range r.instances {
		if on.runs != nil && !on.runs.units[0].handle.stale() && !on.frozen.After(r.now) {
			return nil
		}
	}
	for n := range r.instances {
		on := r.instances[(r.last+1+n)%len(r.instances)]
		if on.runs == nil && !on.frozen.After(r.now) {
			return on
		}
	}
	return nil
}

// leave ends all processes once the run is over, also those that have crashed.
func (r *run) leave() error {
	for _, i := range r.all {
		if err := r.leaveOne(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) leaveOne(i *incarnation) error {
	r.mu.Lock()
	i.dead, i.leaving = true, true
	r.mu.Unlock()
	for range 100_000 {
		r.mu.Lock()
		var s *stimulus
		for _, o := range r.possible {
			if o.of == i && (s == nil || o.at.Before(s.at)) && (i.told || !o.timer) {
				s = o
			}
		}
		if s != nil {
			r.happen(s)
			continue
		}
		ended := i.ended
		r.mu.Unlock()
		switch {
		case ended:
			i.end()
			return nil
		case i.told:
			return fmt.Errorf("%s does not end, and waits for nothing", i.name)
		}
		i.told = true
		r.tell(i)
		r.awaitQuiet()
	}
	return fmt.Errorf("%s does not end", i.name)
}
