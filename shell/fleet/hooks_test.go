package fleet_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store/memory"
)

// told collects what a member tells of.
type told struct {
	mu  sync.Mutex
	all []fleet.Event
}

func (l *told) tell(e fleet.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *told) kinds() (all []fleet.EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		all = append(all, e.Kind)
	}
	return all
}

func (l *told) count(kind fleet.EventKind) (n int) {
	for _, k := range l.kinds() {
		if k == kind {
			n++
		}
	}
	return n
}

func (l *told) last(t *testing.T, kind fleet.EventKind) fleet.Event {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Backward(l.all) {
		if e.Kind == kind {
			return e
		}
	}
	require.Fail(t, "not told", "%s", kind)
	return fleet.Event{}
}

func TestAMemberGoesByTheClockOfItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events told
		p := start(memory.NewCluster(), "a", &ledger{}, func(o *fleet.Options) { o.Events = events.tell })
		apart := func() time.Duration { return time.Until(p.Clock().Now()) }
		measured := func(by, within time.Duration) {
			p.SetAhead(by, within)
			pass(lease)
		}
		measured(90*time.Millisecond, time.Millisecond)
		assert.Zero(t, apart(), "so little may be noise")
		measured(4*time.Minute, time.Millisecond)
		assert.Equal(t, 4*time.Minute, apart())
		assert.Equal(t, 4*time.Minute, events.last(t, fleet.EventClock).Ahead)
		measured(4*time.Minute+300*time.Millisecond, 200*time.Millisecond)
		assert.Equal(t, 4*time.Minute, apart(), "the question took longer than that")
		measured(-time.Hour, time.Millisecond)
		assert.Equal(t, -time.Hour, apart())
		measured(time.Minute, time.Millisecond)
		measured(0, time.Millisecond)
		assert.Zero(t, apart())
		assert.Zero(t, events.last(t, fleet.EventClock).Ahead, "that they agree again is told, too")
		told := events.count(fleet.EventClock)
		measured(500*time.Millisecond, time.Millisecond)
		assert.Equal(t, 500*time.Millisecond, apart())
		assert.Equal(t, told, events.count(fleet.EventClock), "less than a second is not")
		measured(-time.Hour, time.Millisecond)
		p.SetAway(errAway)
		pass(time.Second)
		assert.Equal(t, -time.Hour, apart(), "while the database is away the clock goes on")
		assert.WithinDuration(t, time.Now(), p.Clock().Steady(), time.Millisecond, "what is waited for is this machine's")
		p.SetAway(nil)
		require.NoError(t, p.end())
	})
}

func TestATermBeginsWithTheTimeOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		process := memory.NewCluster().Process()
		process.SetAhead(time.Hour, 0)
		err := fleet.Run(t.Context(), fleet.Options{Cluster: process, Name: "a"}, func(_ context.Context, term fleet.Term) error {
			assert.Equal(t, time.Hour, time.Until(term.Clock.Now()))
			return nil
		})
		require.NoError(t, err)
	})
}

func TestWhatAProcessDoesWhileItStandsByHasEndedWhenItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(time.Second)
		var mu sync.Mutex
		var steps []string
		var events told
		step := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, what)
		}
		var b *fleet.Member
		var err error
		b, err = fleet.New(fleet.Options{
			Cluster: c.Process(), Name: "b", Lease: lease, Events: events.tell,
			StandBy: func(ctx context.Context) error {
				step("stands by")
				<-ctx.Done()
				<-time.After(2 * lease) // what it does takes longer to end than an owner may be silent
				assert.False(t, b.State().Works)
				step("stood by")
				return ctx.Err()
			},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- b.Run(ctx, func(ctx context.Context, _ fleet.Term) error {
				step("works")
				<-ctx.Done()
				step("worked")
				return ctx.Err()
			})
		}()
		pass(time.Minute)
		require.NoError(t, a.end())
		pass(time.Second)
		d := start(c, "d", book, nil)
		pass(3 * lease)
		require.True(t, b.State().Works)
		require.Zero(t, d.State().Takeovers, "b has given signs of life meanwhile")
		require.NoError(t, d.end())
		stop()
		require.NoError(t, <-ended)
		assert.Equal(t, []string{"stands by", "stood by", "works", "worked"}, steps)
		assert.Equal(t, []fleet.EventKind{fleet.EventStandsBy, fleet.EventOwns}, events.kinds())
		assert.Equal(t, "a", events.all[0].State.Owner)
		assert.Equal(t, uint64(2), events.all[1].State.Token)
	})
}

func TestWhatFailsWhileAProcessStandsByEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		a := start(c, "a", &ledger{}, nil)
		pass(time.Second)
		errServe := errors.New("the address is gone")
		err := fleet.Run(t.Context(), fleet.Options{
			Cluster: c.Process(), Name: "b", StandBy: func(context.Context) error {
				<-time.After(time.Minute)
				return errServe
			},
		}, func(context.Context, fleet.Term) error {
			assert.Fail(t, "it has no partition")
			return nil
		})
		require.EqualError(t, err, errServe.Error())
		require.NoError(t, a.end())
	})
}

func TestAMemberTellsOfWhatGoesWrongOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		var events told
		a := start(c, "a", book, func(o *fleet.Options) { o.Events = events.tell })
		pass(0)
		b := start(c, "b", book, nil)
		pass(time.Second)
		a.Freeze()
		pass(2 * lease)
		a.Thaw()
		pass(time.Second)
		require.Error(t, events.last(t, fleet.EventLost).Err)
		assert.Equal(t, "b", events.last(t, fleet.EventStandsBy).State.Owner)
		a.SetAway(errAway)
		pass(2 * lease)
		require.ErrorIs(t, events.last(t, fleet.EventAway).Err, errAway)
		require.ErrorIs(t, events.last(t, fleet.EventUnlisted).Err, errAway)
		a.SetAway(nil)
		pass(lease)
		counts := map[fleet.EventKind]int{}
		for _, k := range events.kinds() {
			counts[k]++
		}
		// A sign of life that was on its way when the process froze meets the end of its time or the new owner, whichever it sees first.
		assert.LessOrEqual(t, counts[fleet.EventUnrenewed], 1)
		delete(counts, fleet.EventUnrenewed)
		assert.Equal(t, map[fleet.EventKind]int{
			fleet.EventOwns: 1, fleet.EventLost: 1, fleet.EventStandsBy: 1, fleet.EventAway: 1, fleet.EventUnlisted: 1, fleet.EventBack: 1,
		}, counts)
		require.NoError(t, a.end())
		require.NoError(t, b.end())
	})
}

// timeless is a database that does not tell its time for as long as it is asked.
type timeless struct{ *memory.Process }

func (timeless) Ahead(ctx context.Context) (by, within time.Duration, err error) {
	<-ctx.Done()
	return 0, 0, ctx.Err()
}

func TestAProcessThatIsStoppedAsItsTermBeginsDoesNotSayThatTheDatabaseTellsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events told
		c := memory.NewCluster()
		p := start(c, "a", &ledger{}, func(o *fleet.Options) {
			o.Cluster, o.Events = timeless{c.Process()}, events.tell
		})
		pass(0)
		require.Equal(t, 1, events.count(fleet.EventOwns))
		require.NoError(t, p.end())
		assert.Zero(t, events.count(fleet.EventUntimed))
	})
}
