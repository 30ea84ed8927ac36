package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Options say what a process takes part in, and as what.
type Options struct {
	// Cluster is the database that is shared.
	Cluster store.Cluster
	// Partition is the number of the one that this process works on while it owns it; not for a [Group].
	Partition int
	// Name tells this process from the others: each has its own.
	Name string
	// Address is where others reach this process, and Version what it is. Both are told to them, nothing more.
	Address, Version string
	// Abilities is what this process can do, such as a hash of its tools, routes and runners: whoever lists the instances sees which ones differ.
	Abilities string
	// Core is the version of the rules by which the engines of this process decide. Empty: [core.Version].
	Core string
	// Lease is how long an owner may be silent before another process takes over; all have the same. Zero: 10 seconds.
	Lease time.Duration
	// AcceptLoss takes each partition over once that was stopped because its database had lost commits.
	AcceptLoss bool
	// Clock is where time comes from. Nil: [engine.SystemClock].
	Clock engine.Clock
	// Scheduler is told what of the member runs, for simulations; without StandBy. Nil: nobody is.
	Scheduler Scheduler
	// Logger is told who works, and what goes wrong. Nil: nobody is told.
	Logger *slog.Logger
	// Events is told that instead of Logger, for words or metrics of one's own. It is called by several goroutines, and holds up what it is told of until
	// it returns. Nil: Logger is told.
	Events func(Event)
	// Bound says that work of a partition that this process owns stands on this machine, such as a session or a worktree, so that a [Group] does not
	// give it back before that has ended. It is called by several goroutines, and answers at once. Nil: nothing does.
	Bound func(partition int) bool
	// StandBy is what the process does while it stands by, such as to pass requests on. Its context ends once the partition is this process's; when it has returned,
	// the member is known to work, and work is called. Where it returns an error before that, Run gives up, and returns it. Nil: nothing. Not for a [Group],
	// which owns one partition and stands by for another one at the same time.
	StandBy func(ctx context.Context) error
}

// minLease is one whose fifth is still long beside a round trip to a database.
const minLease = 100 * time.Millisecond

func (o Options) withDefaults() (Options, error) {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	switch {
	case o.Cluster == nil:
		return o, errors.New("fleet: Cluster is nil: want the database that is shared")
	case o.Name == "":
		return o, errors.New("fleet: Name is empty: want one that no other process of the cluster has")
	case o.Partition < 0:
		return o, fmt.Errorf("fleet: Partition is %d: want 0 or more", o.Partition)
	case o.Scheduler != nil && o.StandBy != nil:
		return o, errors.New("fleet: StandBy is set, and Scheduler too: want one of them, since nobody counts what StandBy runs")
	case o.Lease < minLease:
		return o, fmt.Errorf("fleet: Lease is %s: want at least %s", o.Lease, minLease)
	}
	o.Core = cmp.Or(o.Core, core.Version)
	if o.Clock == nil {
		o.Clock = engine.SystemClock{}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler)).With("instance", o.Name)
	return o, nil
}

// Term is the time from when a process has claimed a partition until it gives it back, or has lost it.
type Term struct {
	Partition int
	// Partitions is how many the layout of the [Group] has, for the engine, which then refuses what belongs to another one; 0 for a [Member] that
	// is alone, which does not know it.
	Partitions int
	// Store is the partition's; the process closes it once the function has returned.
	Store store.Owned
	// Clock is [Member.Clock], for the engine.
	Clock engine.Clock
	// Handover is for the engine, too: with it the engine gives the partition back as soon as it is told to stop, if another process is alive, and work returns once the tools have
	// ended that ran, whose results count at that other process. Whoever uses the store beside the engine has its GiveBack preceded by
	// what ends that. Nil: the database keeps nothing for that ([store.Handover]).
	Handover *engine.Handover
}

// Work is what a process does while it owns a partition. Its context ends when the process is told to stop, or when it has lost the
// partition; then the cause is the store's [store.Failing] Failure. With [ErrMoved] it ends because another process should have the partition. Until Work returns, or its engine has handed the partition over, that is this process's, if nobody takes it over.
type Work func(ctx context.Context, t Term) error

// Run makes a [Member] and runs it.
func Run(ctx context.Context, o Options, work Work) error {
	m, err := New(o)
	if err != nil {
		return err
	}
	return m.Run(ctx, work)
}

// Member is what a process is for one partition. Its methods are safe for concurrent use; Run is called once.
type Member struct {
	*process
	partition int
	in        *Group // nil: it is alone

	mu      sync.Mutex
	state   State
	sign    time.Time // of the owner, on the steady clock
	held    *held     // nil: it has claimed nothing yet
	changed chan struct{}
}

// New makes one that does nothing before [Member.Run].
func New(o Options) (*Member, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := newMember(newProcess(o), o.Partition)
	m.about = m.State
	return m, nil
}

// partitions is how many there are; 0: it is alone, and does not know it.
func (m *Member) partitions() int {
	if m.in == nil {
		return 0
	}
	return m.in.layout.Partitions
}

func newMember(p *process, partition int) *Member {
	return &Member{process: p, partition: partition, state: State{Partition: partition}, sign: p.o.Clock.Steady(), changed: make(chan struct{})}
}

// Run stands by, and calls work whenever the partition is this process's, until ctx ends: then it returns nil, or what work returned other
// than the end of its context. If work returns although the partition is still this process's and ctx has not ended, Run gives the
// partition back and returns what work did. It also returns where trying again does not help ([store.ErrUnusable], [store.ErrCorrupt]).
// A member of a [Group] is run by that.
func (m *Member) Run(ctx context.Context, work Work) error {
	if m.in != nil {
		return fmt.Errorf("fleet: partition %d is run by its group: want Group.Run", m.partition)
	}
	beside := goroutines{to: m.o.Scheduler}
	enrolled, leave := context.WithCancel(context.WithoutCancel(ctx)) // work may take a while to return
	defer beside.wait()
	defer leave()
	beside.start(func() { m.enrol(enrolled, false) })
	mine := "" // the session of the last term
	for {
		st, err := m.standBy(ctx, mine)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		again, err := m.term(ctx, st, work, around{ends: ctx.Done(), gave: func(error) {}})
		if !again {
			return unlessEnded(ctx, err)
		}
		mine = st.Session()
		if m.sleep(ctx, "stands by", m.every()) != nil {
			return nil
		}
	}
}

// unlessEnded drops an error that says no more than that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// standBy does what is to be done meanwhile, until the partition is this process's.
func (m *Member) standBy(ctx context.Context, mine string) (store.Owned, error) {
	if m.o.StandBy == nil {
		st, seen, err := m.await(ctx, mine)
		if err == nil {
			m.took(st, seen)
		}
		return st, err
	}
	waiting, end := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := m.o.StandBy(waiting)
		if err != nil {
			end(err)
		}
		ended <- err
	}()
	st, seen, err := m.await(waiting, mine)
	end(nil)
	if err == nil {
		defer m.keepAlive(m, st)() // it may take a while to return
	}
	wrong := <-ended
	switch {
	case err == nil && (wrong == nil || ctx.Err() == nil && errors.Is(wrong, context.Canceled)): // it says that it was told to end
		m.took(st, seen)
		return st, nil
	case err == nil:
		err = st.Close()
	case wrong == nil:
		return nil, err
	}
	if errors.Is(err, wrong) {
		err = nil
	}
	return nil, errors.Join(wrong, err)
}

// await stands by until the partition is this process's. mine is the session of its last term: a partition that still has it, since its store
// could not give it back, is claimed at once.
func (m *Member) await(ctx context.Context, mine string) (_ store.Owned, seen store.Partition, _ error) {
	quiet, complained := silence{lease: m.o.Lease}, false
	for {
		began := m.o.Clock.Steady()
		row, err := m.look(ctx)
		ended := m.o.Clock.Steady()
		claim := false
		switch {
		case ctx.Err() != nil:
			return nil, row, context.Cause(ctx)
		case errors.Is(err, store.ErrNotFound):
			row, claim = store.Partition{Number: m.partition}, true
			m.saw(row, mine, ended)
		case err != nil:
			quiet.missed()
			m.missed(err)
		default:
			silent := quiet.see(row, began, ended)
			m.saw(row, mine, quiet.since)
			claim = !row.Owned() || row.Session == mine || silent >= m.o.Lease
		}
		if claim {
			st, err := m.claim(ctx, row, mine)
			switch {
			case err == nil:
				return st, row, nil
			case ctx.Err() != nil:
				return nil, row, context.Cause(ctx)
			case errors.Is(err, store.ErrUnusable), errors.Is(err, store.ErrCorrupt):
				return nil, row, err
			case !complained && !errors.Is(err, store.ErrClaimed): // then another one was faster
				complained = true
				m.tell(EventUnclaimed, err)
			}
		}
		if err := m.sleep(ctx, "looks", m.every()); err != nil {
			return nil, row, err
		}
	}
}

// look asks the database who owns the partition. One that answers later than half a lease is as good as one that does not.
func (m *Member) look(ctx context.Context) (store.Partition, error) {
	limit, cancel := m.limited(ctx, m.o.Lease/2)
	defer cancel()
	return m.o.Cluster.Look(limit, m.partition)
}

// claim takes the partition if it is still as it was seen.
func (m *Member) claim(ctx context.Context, seen store.Partition, mine string) (store.Owned, error) {
	if seen.Owned() && seen.Session != mine { // several may have seen the same silence
		if err := m.sleep(ctx, "waits for its turn", m.turn()); err != nil {
			return nil, err
		}
	}
	h := &held{clock: m.o.Clock, lease: m.o.Lease, sent: momentOf(m.o.Clock)}
	st, err := m.o.Cluster.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: m.o.Name, Address: m.o.Address, AcceptLoss: m.accepts()})
	if err == nil {
		m.mu.Lock()
		m.held = h
		m.mu.Unlock()
	}
	return st, err
}

// holds is what is known of the last claim.
func (m *Member) holds() *held {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// turn is how long this process lets others be faster, at most a twentieth of the lease: another time for each name.
func (m *Member) turn() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.o.Name)) // it never fails
	return m.o.Lease / 20 * time.Duration(h.Sum32()%64) / 64
}

// around is what a term is told of its process, and tells it.
type around struct {
	ends <-chan struct{}   // closed once the process is told to end
	gave func(wrong error) // is told that the partition was given back, though work on it may go on
}

// term calls work while the partition is this process's; again: it has lost it, and is to stand by.
func (m *Member) term(ctx context.Context, st store.Owned, work Work, is around) (again bool, err error) {
	living, end := context.WithCancelCause(ctx)
	owning, stop := context.WithCancel(context.WithoutCancel(ctx)) // work may take a while to return
	beside := goroutines{to: m.o.Scheduler}
	die, holds := m.keepAlive(m, st), m.holds()
	beside.watch(func() {
		select {
		case <-st.Failed():
			end(st.Failure())
		case <-owning.Done():
		}
	})
	if err := m.followClock(living); err != nil && living.Err() == nil {
		m.tell(EventUntimed, err)
	}
	lost := error(nil)
	giveBack := sync.OnceValue(func() error {
		stop()
		die()
		beside.wait()
		if f := st.Failure(); f != nil {
			lost = f
		}
		m.parts(ctx)
		closed := st.Close()
		if lost == nil && errors.Is(closed, store.ErrFenced) { // nobody has noticed before
			lost = closed
		}
		if lost == nil && closed == nil {
			holds.givenBack()
		}
		m.ended(st, lost)
		is.gave(closed)
		return closed
	})
	err = work(living, Term{Partition: m.partition, Partitions: m.partitions(), Store: st, Clock: m.clock, Handover: m.handover(is.ends, holds.surely, giveBack)})
	end(nil)
	if errors.Is(err, store.ErrFenced) {
		lost = err
	}
	closed := giveBack() // unless work did
	switch {
	case lost == nil:
		return false, errors.Join(err, closed)
	case ctx.Err() != nil && errors.Is(err, lost): // the context of work has ended with that, just before
		return false, nil
	case ctx.Err() != nil:
		return false, err
	}
	m.tell(EventLost, lost)
	return true, nil
}

// parts waits until others know that this process ends, if it does, so that they do not leave the partition to it.
func (m *Member) parts(ctx context.Context) {
	if m.in != nil && m.o.Scheduler == nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrMoved) {
		<-m.in.parted
	}
}
