package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// many is how many partitions the groups of these tests have.
const many = 8

var layout = store.Layout{Partitions: many, Rule: core.PartitionRule}

// divided makes a cluster of several partitions.
func divided(t *testing.T) *memory.Cluster {
	t.Helper()
	c := memory.NewCluster()
	require.NoError(t, c.Process().SetLayout(t.Context(), layout))
	return c
}

// commit is one that somebody has made.
type commit struct {
	partition int
	token     uint64
	by        string
}

// journal has the commits in their order.
type journal struct {
	mu  sync.Mutex
	all []commit
}

func (j *journal) note(c commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, c)
}

func (j *journal) since(n int) []commit {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all[n:])
}

// party is one group of a cluster, in a bubble of synctest. Its work commits each second.
type party struct {
	*memory.Process
	*fleet.Group
	name string
	told told
	stop context.CancelFunc
	done chan error
	book *journal

	mu     sync.Mutex
	causes map[int]error           // with which the context of the last work on each partition has ended
	linger map[int]time.Duration   // for how long work goes on then
	ends   map[int]<-chan struct{} // of the last handover of each partition
	bound  map[int]bool
	wrong  error // what work returns at once
	unfit  bool  // work returns that it is not possible here
	hands  bool  // work gives its partition back as soon as it is told to end
	idle   bool  // work commits once
}

func join(t *testing.T, c *memory.Cluster, name string, book *journal, change ...func(*party, *fleet.Options)) *party {
	t.Helper()
	p := &party{
		Process: c.Process(), name: name, done: make(chan error, 1), book: book,
		causes: map[int]error{}, ends: map[int]<-chan struct{}{}, linger: map[int]time.Duration{}, bound: map[int]bool{},
	}
	o := fleet.Options{Cluster: p.Process, Name: name, Address: "http://" + name, Version: "1", Abilities: "tools", Lease: lease, Events: p.told.tell, Bound: p.isBound}
	for _, change := range change {
		change(p, &o)
	}
	var err error
	p.Group, err = fleet.NewGroup(o, layout)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.done <- p.Run(ctx, p.work) }()
	return p
}

func (p *party) isBound(partition int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[partition]
}

func (p *party) bind(partition int, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound[partition] = is
}

func (p *party) cause(partition int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.causes[partition]
}

func (p *party) endsOf(partition int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[partition]
}

func (p *party) work(ctx context.Context, t fleet.Term) error {
	if p.wrong != nil {
		return p.wrong
	}
	p.mu.Lock()
	unfit := p.unfit
	p.mu.Unlock()
	if unfit {
		return fmt.Errorf("%w: no connection is left", fleet.ErrUnfit)
	}
	for {
		if t.Store.Update(ctx, func(store.Tx) error { return nil }) == nil {
			p.book.note(commit{t.Partition, t.Store.Token(), p.name})
		}
		next := time.After(time.Second)
		if p.idle {
			next = nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			p.mu.Lock()
			p.causes[t.Partition] = context.Cause(ctx)
			linger := p.linger[t.Partition]
			p.mu.Unlock()
			if p.hands {
				p.mu.Lock()
				p.ends[t.Partition] = t.Handover.Ends
				p.mu.Unlock()
				_ = t.Handover.GiveBack()
			}
			<-time.After(linger)
			return context.Cause(ctx)
		}
	}
}

// owns gives the partitions that this process believes to own.
func (p *party) owns() (list []int) {
	for n := range many {
		if p.Member(n).State().Works {
			list = append(list, n)
		}
	}
	return list
}

func (p *party) end() error {
	p.Thaw()
	p.stop()
	return <-p.done
}

// owners gives who works on each partition.
func owners(all ...*party) map[int]string {
	m := map[int]string{}
	for _, p := range all {
		for _, n := range p.owns() {
			m[n] += p.name
		}
	}
	return m
}

// placed gives who should.
func placed(names ...string) map[int]string {
	m := map[int]string{}
	for n := range many {
		m[n] = fleet.Place(n, names)
	}
	return m
}

// countMoves counts what was given back for others.
func countMoves(all ...*party) (n int) {
	for _, p := range all {
		for _, k := range p.told.kinds() {
			if k == fleet.EventMoved {
				n++
			}
		}
	}
	return n
}

func TestPlacesAreTheSameForEachInstanceAndStayAsTheyAre(t *testing.T) {
	got := ""
	for n := range 16 {
		got += fleet.Place(n, []string{"a", "b", "c"})
	}
	assert.Equal(t, "acbccbacaccbbaac", got, "another rule would be another one than that of instances that run already")
	assert.Empty(t, fleet.Place(0, nil))
	for n := range 64 {
		all, less := fleet.Place(n, []string{"c", "a", "b"}), fleet.Place(n, []string{"a", "c"})
		if all != "b" {
			assert.Equal(t, all, less, "one that goes moves nothing but what it had")
		}
	}
}

func TestOneInstanceHasAllPartitionsAndAnotherOneGetsItsShareOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book)
		pass(time.Second)
		require.Len(t, a.owns(), many)
		b := join(t, c, "b", book)
		pass(lease - time.Second)
		require.Empty(t, b.owns(), "it has only just come")
		share := 0
		for _, name := range placed("a", "b") {
			if name == "b" {
				share++
			}
		}
		require.Greater(t, share, 1)
		for range 30 {
			before := len(a.owns())
			pass(lease / 20)
			require.LessOrEqual(t, before-len(a.owns()), 1)
			require.GreaterOrEqual(t, len(a.owns())+len(b.owns()), many-1, "one moves at a time")
		}
		require.Equal(t, placed("a", "b"), owners(a, b))
		require.Equal(t, share, countMoves(a))
		require.Zero(t, countMoves(b))
		e := a.told.last(t, fleet.EventMoved)
		require.NoError(t, e.Err)
		assert.Equal(t, "b", e.To)
		require.ErrorIs(t, a.cause(e.State.Partition), fleet.ErrMoved)
		s := a.Member(e.State.Partition).State()
		assert.Equal(t, []any{"b", "http://b", false}, []any{s.Owner, s.Address, s.Works})
		pass(time.Hour)
		require.Equal(t, share, countMoves(a, b), "nothing more moves")
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestAnInstanceThatStopsIsFollowedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b, d := join(t, c, "a", book), join(t, c, "b", book), join(t, c, "d", book)
		pass(time.Minute)
		require.Equal(t, placed("a", "b", "d"), owners(a, b, d))
		moved := countMoves(a)
		require.NoError(t, a.end())
		pass(time.Second)
		require.Equal(t, placed("b", "d"), owners(b, d))
		require.Equal(t, moved, countMoves(a), "who ends moves nothing, it gives all back")
		list, err := b.Group.Instances(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.NoError(t, errors.Join(b.end(), d.end()))
	})
}

func TestWhatAFrozenInstanceHadIsTakenOverByWhoShouldHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b, d := join(t, c, "a", book), join(t, c, "b", book), join(t, c, "d", book)
		pass(time.Minute)
		moved := countMoves(a, b, d)
		a.Freeze()
		pass(lease + 2*time.Second)
		require.Equal(t, placed("b", "d"), owners(b, d))
		require.Equal(t, moved, countMoves(a, b, d), "each was taken by the right one at once")
		at := len(book.since(0))
		a.Thaw()
		pass(2 * time.Second)
		require.Empty(t, a.owns())
		for _, made := range book.since(at) {
			require.NotEqual(t, "a", made.by)
		}
		pass(lease + 10*time.Second)
		require.Equal(t, placed("a", "b", "d"), owners(a, b, d), "it gets its own back")
		require.NoError(t, errors.Join(a.end(), b.end(), d.end()))
	})
}

func TestWhoStopsKeepsNothingFromOthersWhileItsLastWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book)
		pass(time.Minute)
		last := a.owns()[0]
		a.mu.Lock()
		a.linger[last] = 3 * lease
		a.mu.Unlock()
		a.stop()
		pass(time.Second)
		require.Equal(t, []int{last}, a.owns())
		require.Len(t, b.owns(), many-1, "they are not left to it, although it is alive")
		require.NoError(t, a.end())
		pass(time.Second)
		require.Len(t, b.owns(), many)
		require.NoError(t, b.end())
	})
}

func TestWhatASilentOwnerHadDoesNotWaitForItToLeaveTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		b := join(t, c, "b", book)
		pass(100 * time.Millisecond)
		a := join(t, c, "a", book)
		pass(time.Minute)
		require.NotEmpty(t, a.owns())
		pass(100 * time.Millisecond) // it has just given a sign of life, which b finds in the list two seconds later
		a.Freeze()
		pass(lease + 1300*time.Millisecond)
		require.Len(t, b.owns(), many)
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestAnOutageMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book)
		pass(time.Minute)
		was := owners(a, b)
		moved := countMoves(a, b)
		c.SetAway(errAway)
		pass(5 * lease)
		c.SetAway(nil)
		pass(5 * lease)
		require.Equal(t, was, owners(a, b))
		require.Equal(t, moved, countMoves(a, b))
		counts := map[fleet.EventKind]int{}
		for _, k := range a.told.kinds() {
			counts[k]++
		}
		assert.Equal(t, []int{1, 1, 0}, []int{counts[fleet.EventAway], counts[fleet.EventBack], counts[fleet.EventLost]}, "told once, not for each partition")
		assert.Equal(t, -1, a.told.last(t, fleet.EventAway).State.Partition)
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestAfterAnOutageNobodyCountsAsGoneBeforeALeaseHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book)
		pass(time.Minute)
		b.Freeze()
		c.SetAway(errAway)
		pass(5 * lease)
		c.SetAway(nil)
		alive := func() bool {
			list, err := a.Group.Instances(t.Context())
			require.NoError(t, err)
			return list[1].Alive
		}
		require.True(t, alive(), "it may just not have come to say so")
		pass(lease - time.Second)
		require.True(t, alive())
		pass(time.Second)
		require.False(t, alive())
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestRestartsInTurnMoveNoMoreThanTheyMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		all := map[string]*party{}
		for _, name := range []string{"a", "b", "d"} {
			all[name] = join(t, c, name, book)
		}
		each := func() []*party { return slices.Collect(maps.Values(all)) }
		pass(time.Minute)
		moved := countMoves(each()...)
		for _, name := range []string{"a", "b", "d"} {
			old := all[name]
			moved -= countMoves(old)
			require.NoError(t, old.end())
			pass(3 * time.Second)
			all[name] = join(t, c, name, book)
			pass(3 * time.Second)
			require.Equal(t, moved, countMoves(each()...), "somebody has come or gone within a lease")
			require.Len(t, owners(each()...), many)
		}
		pass(lease + 10*time.Second)
		require.Equal(t, placed("a", "b", "d"), owners(each()...))
		for _, p := range all {
			require.NoError(t, p.end())
		}
	})
}

func TestADrainedInstanceGivesAllBackButWhatIsBoundToItsMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book)
		pass(time.Minute)
		stays := a.owns()[0]
		a.bind(stays, true)
		require.NoError(t, b.Process.Drain(t.Context(), "a", true))
		pass(30 * time.Second)
		require.Equal(t, []int{stays}, a.owns())
		require.Len(t, b.owns(), many-1)
		assert.Equal(t, fleet.EventDrains, a.told.last(t, fleet.EventDrains).Kind)
		list, err := b.Group.Instances(t.Context())
		require.NoError(t, err)
		require.True(t, list[0].Draining)
		a.bind(stays, false)
		pass(2 * time.Second)
		require.Empty(t, a.owns())
		require.NoError(t, b.Process.Drain(t.Context(), "b", true))
		pass(30 * time.Second)
		require.Len(t, b.owns(), many, "nobody is there who could have them")
		require.NoError(t, b.Process.Drain(t.Context(), "a", false))
		pass(30 * time.Second)
		require.Len(t, a.owns(), many)
		assert.Equal(t, fleet.EventUndrained, a.told.last(t, fleet.EventUndrained).Kind)
		require.NoError(t, b.end())
		b = join(t, c, "b", book)
		pass(time.Minute)
		require.Equal(t, placed("a", "b"), owners(a, b), "an instance that was started anew does not drain")
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestWhatIsBoundToAMachineDoesNotMoveToWhoShouldHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book)
		pass(time.Second)
		for n := range many {
			a.bind(n, true)
		}
		b := join(t, c, "b", book)
		pass(time.Minute)
		require.Len(t, a.owns(), many)
		for n := range many {
			a.bind(n, false)
		}
		pass(30 * time.Second)
		require.Equal(t, placed("a", "b"), owners(a, b))
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestAPartitionThatItsInstanceDoesNotTakeIsTakenByTheNextOneALeaseLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		// It is registered, and alive, and takes nothing.
		ghost := c.Process()
		name := "g"
		require.NoError(t, ghost.Register(t.Context(), store.Instance{Name: name, Session: "1", Core: core.Version}))
		ctx, stop := context.WithCancel(t.Context())
		var lives sync.WaitGroup
		lives.Go(func() {
			for ctx.Err() == nil {
				_, _ = ghost.Renew(ctx, store.Instance{Name: name, Session: "1", Core: core.Version})
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
		a := join(t, c, "a", book)
		own := 0
		for _, to := range placed("a", name) {
			if to == "a" {
				own++
			}
		}
		pass(lease - time.Second)
		require.Len(t, a.owns(), own)
		pass(3 * time.Second)
		require.Len(t, a.owns(), many)
		pass(4 * lease)
		require.Len(t, a.owns(), many, "it does not try the same again at once")
		require.Zero(t, countMoves(a))
		stop()
		lives.Wait()
		require.NoError(t, a.end())
	})
}

func TestWorkOfOnePartitionThatFailsEndsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		wrong := errors.New("no such tool")
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) { p.wrong = wrong })
		require.ErrorIs(t, <-a.done, wrong)
		b := join(t, c, "b", book)
		pass(time.Second)
		require.Len(t, b.owns(), many, "all was given back")
		require.NoError(t, b.end())
	})
}

func (p *party) setUnfit(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unfit = is
}

func TestWhatAProcessCannotWorkOnIsLeftToOthersForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) { p.unfit = true })
		b := join(t, c, "b", book)
		pass(9 * lease) // in each second of which b commits once where it works
		worked := map[int]int{}
		for _, c := range book.since(0) {
			require.Equal(t, "b", c.by)
			worked[c.partition]++
		}
		for n := range many {
			assert.Greater(t, worked[n], 60, "partition %d waits a lease for b each time that a has tried, which it does once in six leases", n)
		}
		assert.Greater(t, a.told.count(fleet.EventUnfit), 1, "it is tried")
		a.setUnfit(false)
		pass(20 * lease)
		require.Equal(t, placed("a", "b"), owners(a, b))
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestWhatTheOnlyProcessCannotWorkOnIsTriedAgainAfterALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) { p.unfit = true })
		pass(time.Second)
		require.Equal(t, many, a.told.count(fleet.EventUnfit))
		a.setUnfit(false)
		pass(lease / 2)
		require.Empty(t, a.owns())
		pass(lease)
		require.Len(t, a.owns(), many)
		require.NoError(t, a.end())
	})
}

func TestASecondProcessOfANameThatEndsDoesNotDrainTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book)
		pass(3 * lease)
		require.Len(t, a.owns(), many)
		second := join(t, c, "a", book)
		pass(lease)
		require.NoError(t, second.end())
		pass(3 * lease)
		assert.Zero(t, a.told.count(fleet.EventDrains))
		assert.Len(t, a.owns(), many)
		require.NoError(t, a.end())
	})
}

func TestAPartitionThatNobodyCanOpenDoesNotEndTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book)
		pass(time.Second)
		c.Halt(3, "commits 7 to 9 are not there")
		pass(time.Minute)
		require.Equal(t, []int{0, 1, 2, 4, 5, 6, 7}, a.owns())
		s := a.Member(3).State()
		require.ErrorIs(t, s.Unusable, store.ErrUnusable)
		require.ErrorContains(t, s.Unusable, "commits 7 to 9 are not there")
		n := 0
		for _, k := range a.told.kinds() {
			if k == fleet.EventUnusable {
				n++
			}
		}
		assert.Equal(t, 1, n, "told once")
		row, err := a.Process.Look(t.Context(), 3)
		require.NoError(t, err)
		require.NoError(t, a.Process.AcceptLoss(t.Context(), 3, row.Halted))
		pass(time.Second)
		require.Len(t, a.owns(), many, "whoever accepts the loss need not start anybody anew")
		require.NoError(t, a.Member(3).State().Unusable)
		drained := join(t, c, "drained", book)
		pass(time.Second)
		require.NoError(t, a.Process.Drain(t.Context(), "drained", true))
		pass(time.Minute)
		c.Halt(3, "commits 8 and 9 are not there")
		pass(time.Second)
		require.ErrorContains(t, drained.Member(3).State().Unusable, "commits 8 and 9 are not there", "one that claims nothing tells it, too")
		require.NoError(t, drained.end())
		pass(time.Minute)
		require.Len(t, a.owns(), many-1)
		require.NoError(t, a.end())
		b := join(t, c, "b", book, func(_ *party, o *fleet.Options) { o.AcceptLoss = true })
		pass(time.Second)
		require.Len(t, b.owns(), many)
		require.NoError(t, b.Member(3).State().Unusable)
		require.NoError(t, b.end())
	})
}

func TestAStoreThatFailsIsOpenedAnewByItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		terms := make(chan fleet.Term, 64)
		p := c.Process()
		g, err := fleet.NewGroup(fleet.Options{Cluster: p, Name: "a", Lease: lease}, layout)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- g.Run(ctx, func(ctx context.Context, term fleet.Term) error {
				if term.Partition == 2 {
					terms <- term
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		first := <-terms
		b := join(t, c, "b", book, func(_ *party, o *fleet.Options) { o.Lease = time.Hour }) // it does not take over
		p.SetAway(errAway)
		first.Store.(*memory.Owned).Fail(store.ErrUnconfirmed)
		pass(time.Second)
		p.SetAway(nil)
		began := time.Now()
		second := <-terms
		assert.Less(t, time.Since(began), time.Second, "nobody but itself owns it")
		assert.Greater(t, second.Store.Token(), first.Store.Token())
		stop()
		require.NoError(t, <-done)
		require.NoError(t, b.end())
	})
}

func TestWorkThatTakesLongToEndKeepsItsPartitionWhileItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) {
			for n := range many {
				p.linger[n] = 3 * lease
			}
		})
		pass(time.Second)
		b := join(t, c, "b", book)
		pass(3 * lease)
		require.Empty(t, b.owns(), "it gives signs of life until work has returned")
		require.Len(t, a.owns(), many, "and nothing else moves")
		pass(2 * lease)
		require.Len(t, b.owns(), 1)
		require.NoError(t, errors.Join(b.end(), a.end()))
	})
}

func TestWhileToolsRunOnTheFormerOwnerKnowsTheNextOneAndMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) {
			p.hands = true
			for n := range many {
				p.linger[n] = 100 * lease
			}
		})
		pass(time.Second)
		b := join(t, c, "b", book)
		pass(5 * lease)
		require.Equal(t, placed("a", "b"), owners(a, b), "all that should move has moved")
		for _, n := range b.owns() {
			require.Equal(t, "b", a.Member(n).State().Owner)
			require.Equal(t, "http://b", a.Member(n).State().Address)
		}
		a.stop()
		pass(lease)
		require.Len(t, b.owns(), many)
		for n := range many {
			require.Equal(t, "b", a.Member(n).State().Owner, "also while it ends")
		}
		require.NoError(t, <-a.done)
		require.NoError(t, b.end())
	})
}

func TestARebalanceHasNothingWaitThatWasTakenInPlaceOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book)
		b := join(t, c, "b", book)
		pass(3 * lease)
		b.Freeze()
		pass(2 * lease)
		require.Len(t, a.owns(), many)
		b.Thaw()
		pass(lease / 2)
		mine, other := -1, -1
		for n := range many {
			if fleet.Place(n, []string{"a", "b"}) == "b" {
				mine, other = other, n
			}
		}
		require.GreaterOrEqual(t, mine, 0, "two at least should be b's")
		a.bind(mine, true)
		told, err := b.Group.Rebalance(t.Context())
		require.NoError(t, err)
		require.Len(t, told, many)
		assert.Equal(t, fleet.Placing{
			Partition: mine, Owner: "a", Should: "b", Keeps: "a gives back one partition after the other, and none with sessions, worktrees or programs on its machine",
		}, told[mine])
		pass(lease / 2)
		want := placed("a", "b")
		want[mine] = "a"
		require.Equal(t, want, owners(a, b), "within less than a lease")
		require.Contains(t, a.told.kinds(), fleet.EventRebalances)
		told, err = a.Placings(t.Context())
		require.NoError(t, err)
		for n, p := range told {
			keeps := ""
			if n == mine {
				keeps = "sessions, worktrees or programs on the machine of a"
			}
			assert.Equal(t, fleet.Placing{Partition: n, Owner: want[n], Should: placed("a", "b")[n], Keeps: keeps}, p)
		}
		require.NoError(t, errors.Join(b.end(), a.end()))
	})
}

func TestAProcessClaimsAPartitionAnewWhileToolsOfItsFormerTermRunOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, func(p *party, _ *fleet.Options) {
			p.hands = true
			for n := range many {
				p.linger[n] = 1000 * lease
			}
		})
		pass(time.Second)
		b := join(t, c, "b", book)
		pass(5 * lease)
		moved := b.owns()
		require.NotEmpty(t, moved)
		for _, n := range moved {
			requireOpen(t, a.endsOf(n), "its process goes on")
		}
		require.Equal(t, len(moved), countMoves(a), "they are given away although tools run on")
		require.NoError(t, b.end())
		pass(2 * lease)
		require.Len(t, a.owns(), many)
		n := moved[0]
		require.Greater(t, a.Member(n).State().Takeovers, uint64(1))
		from := len(book.since(0))
		pass(2 * time.Second)
		require.True(t, slices.ContainsFunc(book.since(from), func(c commit) bool { return c.partition == n && c.by == "a" }), "it works on it")
		a.stop()
		pass(time.Second)
		<-a.endsOf(n)
		require.NoError(t, <-a.done)
	})
}

// requireOpen sees that a channel is not closed.
func requireOpen(t *testing.T, c <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-c:
		require.Fail(t, "closed", why)
	default:
	}
}

func TestAGroupNeedsTheLayoutOfItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := divided(t)
		g, err := fleet.NewGroup(fleet.Options{Cluster: c.Process(), Name: "a"}, store.Layout{Partitions: 4, Rule: core.PartitionRule})
		require.NoError(t, err)
		err = g.Run(t.Context(), nil)
		require.EqualError(t, err, "fleet: the layout is 4 partitions by rule 1, and the database has 8 partitions by rule 1: want that")
		undivided := memory.NewCluster()
		one, err := fleet.NewGroup(fleet.Options{Cluster: undivided.Process(), Name: "a"}, store.Layout{Partitions: 1, Rule: core.PartitionRule})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, one.Run(ctx, func(ctx context.Context, term fleet.Term) error {
			assert.Zero(t, term.Partition)
			assert.Equal(t, 1, term.Partitions)
			stop()
			<-ctx.Done()
			return ctx.Err()
		}))
	})
}

func TestOptionsOfAGroupSayWhatIsWrong(t *testing.T) {
	p := memory.NewCluster().Process()
	for want, row := range map[string]struct {
		o fleet.Options
		l store.Layout
	}{
		"Cluster is nil":                 {fleet.Options{Name: "a"}, layout},
		"Partition is 2: want 0":         {fleet.Options{Cluster: p, Name: "a", Partition: 2}, layout},
		"StandBy is set: want nil":       {fleet.Options{Cluster: p, Name: "a", StandBy: func(context.Context) error { return nil }}, layout},
		"the layout: partitions: 0":      {fleet.Options{Cluster: p, Name: "a"}, store.Layout{Rule: 1}},
		"the layout: rule: 9: want 1, w": {fleet.Options{Cluster: p, Name: "a"}, store.Layout{Partitions: 2, Rule: 9}},
	} {
		_, err := fleet.NewGroup(row.o, row.l)
		require.ErrorContains(t, err, want)
	}
	g, err := fleet.NewGroup(fleet.Options{Cluster: p, Name: "a"}, layout)
	require.NoError(t, err)
	require.Nil(t, g.Member(many))
	require.Nil(t, g.Member(-1))
	require.Equal(t, layout, g.Layout())
	require.ErrorContains(t, g.Member(1).Run(t.Context(), nil), "partition 1 is run by its group")
}

func TestInstancesTellWhoCanDoOtherThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book, func(_ *party, o *fleet.Options) { o.Abilities = "other tools" })
		pass(time.Second)
		list, err := a.Group.Instances(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		assert.Equal(t, []any{"tools", false, "other tools", true}, []any{list[0].Able, list[0].Differs, list[1].Able, list[1].Differs})
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestANewerCoreTakesOverOnceHalfOfTheInstancesHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		core := func(version string) func(*party, *fleet.Options) {
			return func(_ *party, o *fleet.Options) { o.Core = version }
		}
		a, b, d := join(t, c, "a", book, core("9")), join(t, c, "b", book, core("9")), join(t, c, "d", book, core("9"))
		pass(time.Minute)
		require.NoError(t, d.end())
		pass(2 * time.Second)
		d = join(t, c, "d", book, core("10"))
		pass(time.Minute)
		require.Equal(t, placed("a", "b"), owners(a, b, d), "one of three has it")
		require.EqualError(t, d.told.last(t, fleet.EventRefuses).Err, "its core is 10, and half of the instances or more have 9: want that in all")
		require.NotContains(t, a.told.kinds(), fleet.EventRefuses)

		require.NoError(t, b.end())
		b = join(t, c, "b", book, core("10"))
		pass(time.Minute)
		require.Equal(t, placed("b", "d"), owners(a, b, d), "two of three have it")
		require.EqualError(t, a.told.last(t, fleet.EventRefuses).Err, "its core is 9, and half of the instances or more have 10: want that in all")
		assert.Equal(t, fleet.EventAgrees, d.told.last(t, fleet.EventAgrees).Kind)

		require.NoError(t, errors.Join(b.end(), d.end()))
		pass(time.Minute)
		require.Len(t, a.owns(), many, "nobody else is there")
		list, err := a.Group.Instances(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "9", list[0].Core)
		require.NoError(t, a.end())
	})
}

// Under faults at random each partition has one owner that writes, nobody takes over in an outage, and a while after the last fault each is owned
// by the instance that should have it.
func TestUnderFaultsEachPartitionFindsItsPlace(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { partyFaults(t, rand.New(rand.NewPCG(seed, 43))) }) // a seed is a run
		})
	}
}

func partyFaults(t *testing.T, r *rand.Rand) {
	c, book := divided(t), &journal{}
	names := []string{"a", "b", "d"}
	all := make([]*party, len(names))
	for i, name := range names {
		all[i] = join(t, c, name, book)
	}
	takeovers := func() (n uint64) {
		for _, p := range all {
			for k := range many {
				n += p.Member(k).State().Takeovers
			}
		}
		return n
	}
	for range 30 {
		i := r.IntN(len(all))
		p := all[i]
		switch r.IntN(12) {
		case 0, 1:
			p.Freeze()
		case 2, 3:
			p.Thaw()
		case 4:
			p.SetAway(errAway)
		case 5, 6:
			p.SetAway(nil)
		case 7:
			c.SetAway(errAway)
			synctest.Wait()
			before := takeovers()
			pass(time.Duration(r.Int64N(int64(3 * lease))))
			require.Equal(t, before, takeovers(), "a takeover in an outage")
			c.SetAway(nil)
		case 8:
			require.NoError(t, p.end())
			all[i] = join(t, c, names[i], book)
		case 9:
			_ = c.Process().Drain(t.Context(), names[i], true) // it may have left
		case 10:
			_ = c.Process().Drain(t.Context(), names[i], false)
		case 11:
			n := r.IntN(many)
			p.bind(n, !p.isBound(n))
		}
		pass(time.Duration(r.Int64N(int64(lease))))
	}
	for i, p := range all {
		p.SetAway(nil)
		p.Thaw()
		for n := range many {
			p.bind(n, false)
		}
		_ = c.Process().Drain(t.Context(), names[i], false)
	}
	pass(20 * lease)
	require.Equal(t, placed(names...), owners(all...))
	newest := map[int]uint64{}
	made := map[int]int{}
	for _, m := range book.since(0) {
		require.GreaterOrEqual(t, m.token, newest[m.partition], "partition %d: an owner that was replaced has committed", m.partition)
		newest[m.partition] = m.token
		made[m.partition]++
	}
	rows, err := c.Process().Partitions(t.Context())
	require.NoError(t, err)
	for _, row := range rows {
		require.Equal(t, int(row.Last), made[row.Number], "commits that are told are there, and no others")
		require.Equal(t, row.Token, newest[row.Number])
	}
	var why []error
	for _, p := range all {
		why = append(why, p.end())
	}
	require.NoError(t, errors.Join(why...))
}
