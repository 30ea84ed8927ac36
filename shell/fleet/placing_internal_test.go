package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

const aLease = 10 * time.Second

// placingGroup is a group of two partitions that does not run: what it decides is asked of it.
func placingGroup(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup(Options{Cluster: renewals{}, Name: "a", Lease: aLease, Events: func(Event) {}}, store.Layout{Partitions: 2, Rule: core.PartitionRule})
	require.NoError(t, err)
	for _, s := range g.seats { // as who has claimed its partition
		s.Member.held = &held{clock: s.o.Clock, lease: s.o.Lease}
	}
	return g
}

func instance(name, core string) Instance {
	return Instance{Instance: store.Instance{Name: name, Session: "session of " + name, Core: core}, Alive: true}
}

// working has a process work on a partition.
func working(s *seat) *tenure {
	s.busy, s.last = true, &tenure{end: func(error) {}}
	return s.last
}

func TestTheCoreThatCountsIsTheGreatestThatHalfOfTheInstancesHaveReached(t *testing.T) {
	for _, row := range []struct {
		want  int
		cores []string
	}{
		{0, nil},
		{9, []string{"9"}},
		{10, []string{"9", "10"}}, // half is enough
		{9, []string{"9", "9", "10"}},
		{10, []string{"9", "10", "10"}},
		{9, []string{"8", "9", "10"}}, // who has a greater one has reached it, too
		{0, []string{"x"}},
	} {
		var live []Instance
		for _, c := range row.cores {
			live = append(live, instance("i", c))
		}
		assert.Equal(t, row.want, coreThatCounts(live), "%v", row.cores)
	}
}

func TestAnInstanceIsGoneOnceItAndWhatItOwnsAreSilent(t *testing.T) {
	g := placingGroup(t)
	g.seats[0].row, g.seats[0].silent = store.Partition{Session: "s", Owner: "b"}, aLease
	of := func(name, session string, alive bool, silent time.Duration) Instance {
		return Instance{Instance: store.Instance{Name: name, Session: session}, Alive: alive, Silent: silent}
	}
	var names []string
	for _, i := range g.living([]Instance{
		of("a", g.self.Session, false, time.Hour), // it knows that it lives
		of("b", "1", true, aLease/2-1),            // its partition is silent, and it is not
		of("b", "2", true, aLease/2),              // it is, too
		of("c", "3", true, aLease-1),              // it owns nothing
		of("d", "4", false, aLease),
	}) {
		names = append(names, i.Name+i.Session)
	}
	assert.Equal(t, []string{"a" + g.self.Session, "b1", "c3"}, names)
}

func TestWhatTheInstancesWereToldBeforeAProcessCameIsNoNewsToIt(t *testing.T) {
	g := placingGroup(t)
	for _, row := range []struct {
		told uint64
		want bool
	}{{3, false}, {3, false}, {4, true}} {
		g.hear(row.told)
		assert.Equal(t, row.want, g.rebalances, "%d", row.told)
	}
}

func TestARebalanceEndsWhatWasToBeKeptAndWaitsForNobody(t *testing.T) {
	g := placingGroup(t)
	now := time.Unix(1000, 0)
	self := Instance{Instance: g.self, Alive: true}
	require.True(t, g.sees([]Instance{self}, now))
	assert.Equal(t, now, g.since)
	g.seats[1].keep = now.Add(time.Hour)
	self.Rebalanced++
	require.True(t, g.sees([]Instance{self}, now))
	assert.True(t, g.seats[1].keep.IsZero())
	assert.Equal(t, now.Add(-aLease), g.since)
}

func TestWhoDrainsDoesNotRefuseForItsCore(t *testing.T) {
	g := placingGroup(t)
	var told []EventKind
	g.o.Events = func(e Event) { told = append(told, e.Kind) }
	self := Instance{Instance: g.self, Alive: true}
	self.Draining = true
	require.True(t, g.sees([]Instance{self, instance("b", "999")}, time.Unix(1000, 0)))
	assert.Equal(t, []EventKind{EventDrains}, told)
}

func TestWhichPartitionsMayBeClaimed(t *testing.T) {
	owned := store.Partition{Session: "mine", Owner: "a"}
	for name, row := range map[string]struct {
		change func(*seat)
		want   bool
	}{
		"nobody owns it":                  {func(s *seat) { s.row = store.Partition{} }, true},
		"this process holds it":           {func(s *seat) { s.row, s.held = store.Partition{}, true }, false},
		"nobody can open it":              {func(s *seat) { s.row, s.bad = store.Partition{}, &store.Partition{} }, false},
		"somebody else owns it":           {func(s *seat) { s.mine = "earlier" }, false},
		"its owner is silent":             {func(s *seat) { s.mine, s.silent = "earlier", aLease }, true},
		"its owner is silent, not enough": {func(s *seat) { s.mine, s.silent = "earlier", aLease-1 }, false},
		"its store could not give it back, and it is still this process's": {func(*seat) {}, true},
		"the same, and it was to be another instance's":                    {func(s *seat) { s.last = &tenure{to: "b"} }, false},
	} {
		s := placingGroup(t).seats[0]
		s.row, s.mine = owned, "mine"
		row.change(s)
		assert.Equal(t, row.want, s.open(), name)
	}
}

func TestAPartitionThatNobodyCouldOpenIsTriedOnceItHasChanged(t *testing.T) {
	was := store.Partition{Token: 4, Beat: 7, Halted: "commits are not there"}
	for name, row := range map[string]struct {
		is    store.Partition
		tried bool
	}{
		"as it was":                    {was, false},
		"another sign of life":         {store.Partition{Token: 4, Beat: 8, Halted: was.Halted}, false},
		"somebody has claimed it":      {store.Partition{Token: 5, Beat: 7, Halted: was.Halted}, true},
		"it is not stopped any more":   {store.Partition{Token: 4, Beat: 7}, true},
		"it is stopped for some other": {store.Partition{Token: 4, Beat: 7, Halted: "other commits are not there"}, true},
	} {
		s := placingGroup(t).seats[0]
		s.bad = &was
		s.unusable(errors.New(was.Halted))
		s.o.Events = func(e Event) { assert.NotEqual(t, EventUnusable, e.Kind, name) }
		s.see(row.is, time.Unix(1000, 0), time.Unix(1000, 0))
		assert.Equal(t, row.tried, s.bad == nil, name)
		assert.Equal(t, row.tried, s.State().Unusable == nil, name)
	}
}

func TestWhatAProcessShouldHaveItDoesNotKeepForAnother(t *testing.T) {
	g := placingGroup(t)
	now := time.Unix(1000, 0)
	s := g.seats[0]
	s.keep = now.Add(time.Hour) // of the term before, in which another instance should have had it
	held := 0
	g.place([]Instance{{Instance: g.self, Alive: true}}, now, func(*seat, store.Partition) { held++ })
	require.Equal(t, 2, held)
	assert.True(t, s.keep.IsZero())
}

func TestWhenAPartitionIsGivenToWhoShouldHaveIt(t *testing.T) {
	now := time.Unix(1000, 0)
	const none, first, second = -1, 0, 1
	for name, row := range map[string]struct {
		change func(*Group)
		want   int // the partition that is given back
	}{
		"nothing has changed for a lease":                    {func(*Group) {}, second},
		"somebody has just come":                             {func(g *Group) { g.since = now.Add(1 - aLease) }, none},
		"somebody has just come, and this process drains":    {func(g *Group) { g.since, g.draining = now, true }, second},
		"it is kept, since it was taken in place of another": {func(g *Group) { g.seats[1].keep = now.Add(1) }, none},
		"it is kept, and this process drains":                {func(g *Group) { g.seats[1].keep, g.draining = now.Add(1), true }, second},
		"nobody is able":                                     {func(g *Group) { g.able = nil }, none},
		"the last one has no owner yet":                      {func(g *Group) { g.moving = g.seats[0] }, none},
		"the last one nobody takes in a lease":               {func(g *Group) { g.moving, g.seats[0].silent = g.seats[0], aLease }, second},
		"the last one is another one's": {func(g *Group) {
			g.moving, g.seats[0].row = g.seats[0], store.Partition{Session: "s", Owner: "b"}
		}, second},
		"the last one is this process's again": {func(g *Group) {
			g.moving = g.seats[0]
			working(g.seats[0])
		}, first},
		"work on the last one has not ended": {func(g *Group) {
			g.moving, g.seats[0].silent = g.seats[0], aLease
			working(g.seats[0]).to = "b"
		}, none},
	} {
		g := placingGroup(t)
		g.able, g.since = []string{"b"}, now.Add(-aLease)
		working(g.seats[1])
		row.change(g)
		gave := none
		for n, s := range g.seats {
			if s.last != nil {
				s.last.end = func(why error) {
					assert.Equal(t, none, gave, "%s: one moves after the other", name)
					assert.Equal(t, []any{ErrMoved, "b"}, []any{why, s.last.to}, name)
					gave = n
				}
			}
		}
		g.giveOneBack(now)
		assert.Equal(t, row.want, gave, name)
	}
}

func TestATermThatHasEndedDoesNotEndTheNextOne(t *testing.T) {
	s := placingGroup(t).seats[0]
	first := s.take()
	s.leave(first) // tools run on
	second := s.take()
	s.leave(first)
	assert.True(t, s.isHeld())
	s.leave(second)
	assert.False(t, s.isHeld())
}

func TestThatAPartitionCannotBeClaimedIsToldOnceAndNotIfAnotherOneWasFaster(t *testing.T) {
	g := placingGroup(t)
	var told []EventKind
	g.o.Events = func(e Event) { told = append(told, e.Kind) }
	s := g.seats[0]
	s.unclaimed(t.Context(), s.row, store.ErrClaimed)
	assert.Empty(t, told)
	for range 2 {
		s.unclaimed(t.Context(), s.row, errors.New("no connection is left"))
	}
	assert.Equal(t, []EventKind{EventUnclaimed}, told)
}

// Whatever the reason is, and whether the look or the claim has found it, it is not tried at each look.
func TestAPartitionThatCannotBeOpenedIsNotClaimedAgainAsLongAsItIsAsItWas(t *testing.T) {
	for _, why := range []error{store.ErrUnusable, store.ErrCorrupt} {
		s := placingGroup(t).seats[0]
		row := store.Partition{Token: 4, Beat: 7}
		s.unclaimed(t.Context(), row, why)
		require.ErrorIs(t, s.State().Unusable, why)
		s.see(row, time.Unix(1000, 0), time.Unix(1000, 0))
		assert.False(t, s.open(), "%v", why)
		require.ErrorIs(t, s.State().Unusable, why)
	}
}

func TestALossIsToldOfItsPartitionAsOneThatNobodyCanOpen(t *testing.T) {
	s := placingGroup(t).seats[1]
	s.see(store.Partition{Number: 1, Token: 4, Halted: "commits are not there", Lost: true}, time.Unix(1000, 0), time.Unix(1000, 0))
	why := s.State().Unusable
	require.ErrorIs(t, why, store.ErrUnusable)
	require.ErrorIs(t, why, store.ErrLost)
	assert.ErrorContains(t, why, "partition 1: ")
	assert.ErrorContains(t, why, ": commits are not there")
}

// Looks that succeed say nothing of what this process holds, so that nothing would take back what one that fails has said.
func TestALookThatFailsSaysNothingOfWhatThisProcessHolds(t *testing.T) {
	g := placingGroup(t)
	working(g.seats[0])
	g.missed(store.ErrUnreachable)
	require.NoError(t, g.seats[0].State().Err)
	require.ErrorIs(t, g.seats[1].State().Err, store.ErrUnreachable)
}
