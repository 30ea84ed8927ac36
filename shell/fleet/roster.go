package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/orrery-go/orrery/store"
)

// Instance is a process of the cluster, as this one sees it.
type Instance struct {
	store.Instance
	// Silent is how long ago its last sign of life was seen here; one that was just seen for the first time has 0.
	Silent time.Duration
	// Alive: that is less than the lease.
	Alive bool
	// Differs: what it can do ([Options].Abilities) is not what this process can.
	Differs bool
}

// process is what a program is in its cluster, whatever it owns: one entry in the list of instances.
type process struct {
	o      Options
	self   store.Instance
	roster roster
	lives  lives
	clock  *clock
	about  func() State // what an event says that is of the process
	looks  question     // of a group, at all partitions
	signs  question     // whether a sign of life is taken
	rival  rival        // of who renews
}

func newProcess(o Options) *process {
	return &process{
		o: o, self: store.Instance{Name: o.Name, Session: rand.Text(), Address: o.Address, Version: o.Version, Able: o.Abilities, Core: o.Core},
		roster: roster{seen: make(map[string]sighting)}, clock: &clock{Clock: o.Clock},
	}
}

// roster has when this process has seen the signs of life of the others.
type roster struct {
	mu     sync.Mutex
	list   []store.Instance    // as it was seen last
	seen   map[string]sighting // by the session of the registration
	looked time.Time           // when that was; zero: never
	wrong  error               // why the last sign of life of this process was not taken; nil: it was
}

type sighting struct {
	beat uint64
	at   time.Time // on the steady clock
}

// Instances lists the processes that are registered, by name. Who is alive follows from what this one has seen since [Member.Run] began; after
// half a lease in which it has seen nothing that begins anew.
func (m *Member) Instances(ctx context.Context) ([]Instance, error) { return m.instances(ctx) }

// Instances lists the processes that are registered, by name. Who is alive follows from what this one has seen since [Group.Run] began; after
// half a lease in which it has seen nothing that begins anew.
func (g *Group) Instances(ctx context.Context) ([]Instance, error) { return g.instances(ctx) }

func (p *process) instances(ctx context.Context) ([]Instance, error) {
	list, err := p.o.Cluster.Instances(ctx)
	if err != nil {
		return nil, err
	}
	r := &p.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	now, there := p.o.Clock.Steady(), make(map[string]sighting, len(list))
	gap := now.Sub(r.looked) >= p.o.Lease/2
	for _, i := range list {
		last, ok := r.seen[i.Session]
		switch {
		case !ok || last.beat != i.Beat:
			last = sighting{i.Beat, now}
		case gap && now.Sub(last.at) < p.o.Lease+now.Sub(r.looked): // it was alive when this process looked last
			last.at = now
		}
		there[i.Session] = last
	}
	r.list, r.seen, r.looked = list, there, now
	return p.listed(now), nil
}

// listed gives the list as it was seen last, and who is alive now; the lock of the roster is held.
func (p *process) listed(now time.Time) (all []Instance) {
	for _, i := range p.roster.list {
		silent := now.Sub(p.roster.seen[i.Session].at)
		all = append(all, Instance{Instance: i, Silent: silent, Alive: silent < p.o.Lease, Differs: i.Able != p.self.Able})
	}
	return all
}

// lastListed gives the list as it was seen last.
func (p *process) lastListed() []Instance {
	p.roster.mu.Lock()
	defer p.roster.mu.Unlock()
	return p.listed(p.o.Clock.Steady())
}

// enrol keeps this process in the list of instances, and those partitions with their owner that are its own, until ctx ends, and takes it out then.
func (p *process) enrol(ctx context.Context, registered bool) {
	beside := goroutines{to: p.o.Scheduler}
	for late, watches := false, false; ; {
		err := p.renew(ctx, &registered)
		if late = !late && errors.Is(err, context.DeadlineExceeded); late {
			continue // the time for it was over before it was asked, as in a process that was frozen: it is tried again at once
		}
		p.roster.mu.Lock()
		p.roster.wrong = err
		p.roster.mu.Unlock()
		if !watches {
			watches = true
			beside.start(func() { p.watchOthers(ctx) })
		}
		if p.sleep(ctx, "renews", p.o.Lease/5) != nil {
			break
		}
	}
	beside.wait()
	if registered {
		limit, cancel := p.limited(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := p.o.Cluster.Leave(limit, p.self); err != nil {
			p.tell(EventRemains, err)
		}
	}
}

// watchOthers looks at the list of instances, and at the time of the database, until ctx ends. It is apart from what gives signs of life, which waits for nothing else.
func (p *process) watchOthers(ctx context.Context) {
	complained := false
	for {
		p.roster.mu.Lock()
		err := p.roster.wrong
		p.roster.mu.Unlock()
		if err == nil {
			_, err = p.instances(ctx)
		}
		if err == nil {
			err = p.followClock(ctx)
		}
		switch {
		case err == nil:
			complained = false
		case ctx.Err() == nil && !complained:
			complained = true
			p.tell(EventUnlisted, err)
		}
		if p.sleep(ctx, "watches the others", p.o.Lease/5) != nil {
			return
		}
	}
}

// every is the time between two looks.
func (p *process) every() time.Duration { return min(500*time.Millisecond, p.o.Lease/20) }

func (p *process) sleep(ctx context.Context, name string, d time.Duration) error {
	if p.o.Scheduler != nil {
		p.o.Scheduler.Sleep(ctx, name, d)
		return context.Cause(ctx)
	}
	c, stop := p.o.Clock.Timer(d)
	defer stop()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell passes on an event of the process; no lock is held.
func (p *process) tell(kind EventKind, err error) {
	p.pass(Event{Kind: kind, State: p.about(), Err: err})
}

func (p *process) pass(e Event) {
	if p.o.Events != nil {
		p.o.Events(e)
		return
	}
	l := p.o.Logger
	if e.State.Partition >= 0 {
		l = l.With("partition", e.State.Partition)
	}
	e.log(l)
}
