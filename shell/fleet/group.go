package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// ErrMoved is why the context of work ends if another instance should have the partition.
var ErrMoved = errors.New("another instance should have the partition")

// ErrUnfit is what work returns, or wraps, if this process cannot work on the partition as it is now, though another one may: a [Group] gives the partition back, goes on with the
// others, and leaves this one to other instances for six leases. If none of them takes it within a lease for each, it is tried here again.
var ErrUnfit = errors.New("this process cannot work on the partition")

// Group is a process of a cluster with several partitions: it owns those that it should have ([Place]), and stands by for the others. Its
// methods are safe for concurrent use; Run is called once.
type Group struct {
	*process
	layout store.Layout
	seats  []*seat       // by the number of the partition
	parted chan struct{} // closed once others know that this process ends

	failing sync.Once
	failed  error // what work has returned, or another reason for which Run ends
	end     context.CancelFunc

	placing // of the goroutine that looks
}

// NewGroup makes a group that does nothing before [Group.Run]. The layout is that of the database ([store.Cluster] Layout); without one that has one partition.
// [Options].Partition and StandBy are not for groups.
func NewGroup(o Options, l store.Layout) (*Group, error) {
	switch {
	case o.Partition != 0:
		return nil, fmt.Errorf("fleet: Partition is %d: want 0, since a group has all partitions of its layout", o.Partition)
	case o.StandBy != nil:
		return nil, errors.New("fleet: StandBy is set: want nil, since a group owns some partitions while it stands by for others")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkLayout(l); err != nil {
		return nil, err
	}
	g := &Group{process: newProcess(o), layout: l, parted: make(chan struct{})}
	g.about = func() State { return State{Partition: -1} }
	for n := range l.Partitions {
		m := newMember(g.process, n)
		m.in = g
		s := &seat{Member: m, row: store.Partition{Number: n}, quiet: silence{lease: o.Lease}}
		g.seats = append(g.seats, s)
	}
	return g, nil
}

func checkLayout(l store.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("fleet: the layout: %w", err)
	}
	if l.Rule != core.PartitionRule {
		return fmt.Errorf("fleet: the layout: rule: %d: want %d, which is the one that this program knows", l.Rule, core.PartitionRule)
	}
	return nil
}

// Layout is that of the database.
func (g *Group) Layout() store.Layout { return g.layout }

// Member is what this process is for one partition: it tells who owns it. The group runs it. nil: there is no such partition.
func (g *Group) Member(partition int) *Member {
	if partition < 0 || partition >= len(g.seats) {
		return nil
	}
	return g.seats[partition].Member
}

// Run calls work for each partition that is this process's, several at once, until ctx ends: then it returns nil, or what work returned other than the
// end of its context. If work returns although its partition is still this process's and ctx has not ended, and not with [ErrUnfit], Run ends all other work, gives all partitions
// back, and returns what work did. A partition that nobody can open ([store.ErrUnusable], [store.ErrCorrupt]) does not end the others: see
// [State].Unusable.
func (g *Group) Run(ctx context.Context, work Work) error {
	if err := g.compare(ctx); err != nil {
		return unlessEnded(ctx, err)
	}
	beside, holders := goroutines{to: g.o.Scheduler}, goroutines{to: g.o.Scheduler}
	enrolled, leave := context.WithCancel(context.WithoutCancel(ctx)) // work may take a while to return
	defer beside.wait()
	defer leave()
	registered := g.registerFirst(ctx)
	beside.start(func() { g.enrol(enrolled, registered) })
	works, end := context.WithCancel(ctx)
	defer end()
	g.end = end
	for {
		g.look(works, func(s *seat, row store.Partition) {
			t := s.take()
			holders.start(func() { g.hold(works, s, t, row, work) })
		})
		if g.sleep(works, "looks", g.every()) != nil {
			break
		}
	}
	g.part(ctx)
	g.follow(ctx, &holders)
	return g.failed
}

// follow waits until no partition is held any more. Tools may run on here for a while after a partition was given back, so it looks meanwhile which process
// owns each partition.
func (g *Group) follow(ctx context.Context, holders *goroutines) {
	if g.o.Scheduler != nil {
		holders.wait()
		return
	}
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer end()
		holders.wait()
	}()
	for g.sleep(following, "looks", g.every()) == nil {
		g.watch(following)
	}
}

// compare waits until the database says how it is divided, and fails if that is another layout than the group's.
func (g *Group) compare(ctx context.Context) error {
	for {
		limit, cancel := g.limited(ctx, g.o.Lease/2)
		is, err := g.o.Cluster.Layout(limit)
		cancel()
		if errors.Is(err, store.ErrNotFound) {
			is, err = store.Layout{Partitions: 1, Rule: core.PartitionRule}, nil
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && is != g.layout:
			return fmt.Errorf("fleet: the layout is %s, and the database has %s: want that", g.layout, is)
		case err == nil:
			return nil
		}
		g.missed(err)
		if err := g.sleep(ctx, "looks", g.every()); err != nil {
			return err
		}
	}
}

// registerFirst has this process in the list of instances before it looks at partitions: one that is not there should have none.
func (g *Group) registerFirst(ctx context.Context) (registered bool) {
	limit, cancel := g.limited(ctx, g.o.Lease/2)
	defer cancel()
	_ = g.renew(limit, &registered) // it is tried again, and that tells
	return registered
}

// part says that this process ends, before it gives its partitions back: those who wait for them need not wait for it.
func (g *Group) part(ctx context.Context) {
	defer close(g.parted)
	limit, cancel := g.limited(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = g.o.Cluster.Part(limit, g.self) // else they wait for a lease
}

// fail ends Run, of whose works ctx is the context.
func (g *Group) fail(ctx context.Context, err error) {
	g.failing.Do(func() { g.failed = err })
	if g.o.Scheduler != nil && ctx.Err() == nil {
		for _, s := range g.seats {
			if s.works() {
				g.o.Scheduler.Add(1) // for who is told
			}
		}
	}
	g.end()
}

// hold claims a partition, and works on it.
func (g *Group) hold(ctx context.Context, s *seat, t *tenure, row store.Partition, work Work) {
	defer s.leave(t)
	st, err := s.claim(ctx, row, s.mine)
	if err != nil {
		s.unclaimed(ctx, row, err)
		return
	}
	s.complained, s.mine = false, st.Session()
	s.took(st, row)
	living, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.enter(t, end)
	runsOn := false
	lost, err := s.term(living, st, func(ctx context.Context, term Term) error {
		defer s.worked(t)
		err := work(ctx, term)
		if errors.Is(err, ErrUnfit) {
			s.leaveToOthers()
		}
		return err
	}, around{ends: ctx.Done(), gave: func(wrong error) {
		if to := s.gives(t); to != "" && s.worksAt(t) {
			runsOn = true
			g.pass(Event{Kind: EventMoved, State: s.State(), To: to, Err: wrong})
		}
	}})
	if lost {
		return
	}
	err = unlessEnded(living, err)
	switch to := s.movesTo(t); {
	case to != "" && !runsOn:
		g.pass(Event{Kind: EventMoved, State: s.State(), To: to, Err: err})
	case to != "" && err != nil:
		g.pass(Event{Kind: EventRanOn, State: s.State(), To: to, Err: err})
	case to == "" && errors.Is(err, ErrUnfit):
		s.tell(EventUnfit, err)
	case to == "" && (err != nil || ctx.Err() == nil):
		g.fail(ctx, err)
	}
}

// sleep tells those of a group apart that sleep at the same time.
func (m *Member) sleep(ctx context.Context, name string, d time.Duration) error {
	if m.in != nil && m.o.Scheduler != nil {
		name = fmt.Sprintf("%s for partition %d", name, m.partition)
	}
	return m.process.sleep(ctx, name, d)
}

// seat is one partition in a group.
type seat struct {
	*Member

	// Of the goroutine that looks:
	row    store.Partition // as it was seen last
	quiet  silence
	silent time.Duration // for which nobody has owned it, or its owner has given no sign of life
	keep   time.Time     // taken in place of another one, it is kept until then
	held   bool          // this process had or claimed it when the last look began

	// Of the goroutine that holds it, and of the one that looks while nobody does:
	mine       string           // session of the last term
	bad        *store.Partition // as it was when nobody could open it; nil: it can be
	complained bool             // that it cannot be claimed

	hold  sync.Mutex // guards what follows, which work may change although it has given the partition back
	last  *tenure    // nil: there was none yet
	busy  bool       // it goes on: the partition was not given back
	unfit time.Time  // until when others go before, since work was not possible here
}

// tenure is what a process has to do with a partition from when it begins to claim that until work on it has returned. Once it has given the partition back it may
// claim it anew, while tools of the tenure before run on. The lock of the seat guards it.
type tenure struct {
	end context.CancelCauseFunc // of the work; nil: nothing works
	to  string                  // who is to have the partition; empty: it was not given back for anybody
}

// unclaimed notes why the partition could not be claimed.
func (s *seat) unclaimed(ctx context.Context, row store.Partition, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrUnusable), errors.Is(err, store.ErrCorrupt):
		s.bad = &row
		s.unusable(err)
	case !s.complained && !errors.Is(err, store.ErrClaimed): // then another one was faster
		s.complained = true
		s.tell(EventUnclaimed, err)
	}
}

// take begins to hold the partition.
func (s *seat) take() *tenure {
	s.hold.Lock()
	defer s.hold.Unlock()
	s.last, s.busy = &tenure{}, true
	return s.last
}

// gives notes that the partition was given back, and tells for whom.
func (s *seat) gives(t *tenure) (to string) {
	s.leave(t)
	return s.movesTo(t)
}

// leave ends to hold it.
func (s *seat) leave(t *tenure) {
	s.hold.Lock()
	defer s.hold.Unlock()
	if s.last == t {
		s.busy = false
	}
}

// leaveToOthers has other instances go before for six leases.
func (s *seat) leaveToOthers() {
	s.hold.Lock()
	defer s.hold.Unlock()
	s.unfit = s.o.Clock.Steady().Add(kept * s.o.Lease)
}

// isUnfit reports whether other instances go before.
func (s *seat) isUnfit(now time.Time) bool {
	s.hold.Lock()
	defer s.hold.Unlock()
	return now.Before(s.unfit)
}

// enter notes that work begins.
func (s *seat) enter(t *tenure, end context.CancelCauseFunc) {
	s.hold.Lock()
	defer s.hold.Unlock()
	t.end = end
}

// worked notes that work has returned.
func (s *seat) worked(t *tenure) {
	s.hold.Lock()
	defer s.hold.Unlock()
	t.end = nil
}

// worksAt reports whether work has not returned.
func (s *seat) worksAt(t *tenure) bool {
	s.hold.Lock()
	defer s.hold.Unlock()
	return t.end != nil
}

func (s *seat) movesTo(t *tenure) string {
	s.hold.Lock()
	defer s.hold.Unlock()
	return t.to
}

func (s *seat) isHeld() bool {
	s.hold.Lock()
	defer s.hold.Unlock()
	return s.busy
}

// works reports whether something works on it that was not told to end for another instance.
func (s *seat) works() bool {
	s.hold.Lock()
	defer s.hold.Unlock()
	return s.busy && s.last.end != nil && s.last.to == ""
}

// moves reports whether it was given back for another instance last.
func (s *seat) moves() bool {
	s.hold.Lock()
	defer s.hold.Unlock()
	return s.last != nil && s.last.to != ""
}

// giveBack ends the work, since another instance should have the partition.
func (s *seat) giveBack(to string) {
	s.hold.Lock()
	defer s.hold.Unlock()
	t := s.last
	if !s.busy || t.end == nil {
		return
	}
	t.to = to
	if s.o.Scheduler != nil {
		s.o.Scheduler.Add(1) // for who is told
	}
	t.end(ErrMoved)
}
