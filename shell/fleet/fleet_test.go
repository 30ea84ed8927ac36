package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 10 * time.Second

var errAway = errors.New("the database is away")

// ledger has who has committed, in the order of the commits.
type ledger struct {
	mu     sync.Mutex
	tokens []uint64
}

func (l *ledger) last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tokens) == 0 {
		return 0
	}
	return l.tokens[len(l.tokens)-1]
}

// process is one of a cluster, in a bubble of synctest.
type process struct {
	*memory.Process
	*fleet.Member
	stop context.CancelFunc
	done chan error
	book *ledger

	mu     sync.Mutex
	causes []error // with which contexts of terms have ended
}

// start runs a member whose work commits each second.
func start(c *memory.Cluster, name string, book *ledger, change func(*fleet.Options)) *process {
	p := &process{Process: c.Process(), done: make(chan error, 1), book: book}
	o := fleet.Options{Cluster: p.Process, Name: name, Address: "http://" + name, Version: "1", Lease: lease}
	if change != nil {
		change(&o)
	}
	var err error
	if p.Member, err = fleet.New(o); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.done <- p.Run(ctx, p.work) }()
	return p
}

func (p *process) work(ctx context.Context, t fleet.Term) error {
	for {
		err := t.Store.Update(ctx, func(store.Tx) error { return nil })
		if err == nil {
			p.book.mu.Lock()
			p.book.tokens = append(p.book.tokens, t.Store.Token())
			p.book.mu.Unlock()
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			p.mu.Lock()
			p.causes = append(p.causes, context.Cause(ctx))
			p.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

func (p *process) lastCause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.causes) == 0 {
		return nil
	}
	return p.causes[len(p.causes)-1]
}

// end stops a process, and gives what Run has returned.
func (p *process) end() error {
	p.Thaw()
	p.stop()
	return <-p.done
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// working gives those that believe to own the partition.
func working(all ...*process) (names []string) {
	for _, p := range all {
		if s := p.State(); s.Works {
			names = append(names, s.Owner)
		}
	}
	return names
}

func TestOneWorksAndAnotherOneFollowsWithinASecondOfACleanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(0)
		b, d := start(c, "b", book, nil), start(c, "d", book, nil)
		pass(time.Minute)
		require.Equal(t, []string{"a"}, working(a, b, d))
		s := b.State()
		assert.Equal(t, []any{"a", "http://a", uint64(1), uint64(0)}, []any{s.Owner, s.Address, s.Token, s.Takeovers})
		assert.Less(t, s.Silent, lease/5)

		moved := b.Changed()
		require.NoError(t, a.end())
		pass(time.Second)
		require.Len(t, working(b, d), 1)
		require.Equal(t, uint64(2), book.last(), "it has committed")
		<-moved
		s = b.State()
		assert.NotEqual(t, "a", s.Owner)
		assert.WithinDuration(t, time.Now(), s.Since, time.Second)
		require.NoError(t, errors.Join(b.end(), d.end()))
	})
}

func TestAFrozenOwnerIsReplacedWithinTheLeaseAndTwoSecondsAndStandsByOnceItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(0)
		b := start(c, "b", book, nil)
		pass(time.Minute)
		a.Freeze()
		pass(lease - lease/5 - time.Second) // the last sign of life may be as old as that
		require.Equal(t, uint64(1), book.last(), "too early")
		pass(lease/5 + 3*time.Second)
		require.Equal(t, uint64(2), book.last(), "b has taken over, and commits")
		a.Thaw()
		pass(2 * time.Second)
		require.Equal(t, []string{"b"}, working(a, b))
		require.ErrorIs(t, a.lastCause(), store.ErrFenced)
		require.Equal(t, uint64(2), book.last(), "nothing that a has begun was committed")
		s := a.State()
		assert.Equal(t, []any{"b", uint64(1), uint64(1)}, []any{s.Owner, s.Takeovers, s.Fenced})
		require.NoError(t, b.end())
		pass(time.Second)
		require.Equal(t, []string{"a"}, working(a))
		require.NoError(t, a.end())
	})
}

func TestAnOutageOfTheDatabaseMakesNobodyTakeOver(t *testing.T) {
	for name, outage := range map[string]func(c *memory.Cluster){
		"long": func(c *memory.Cluster) {
			c.SetAway(errAway)
			pass(10 * lease)
			c.SetAway(nil)
		},
		"now and then": func(c *memory.Cluster) { // it answers for less than the owner needs
			for range 100 {
				c.SetAway(errAway)
				pass(lease / 3)
				c.SetAway(nil)
				pass(lease / 10)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, book := memory.NewCluster(), &ledger{}
				a := start(c, "a", book, nil)
				pass(0)
				b := start(c, "b", book, nil)
				pass(time.Minute)
				outage(c)
				pass(5 * lease)
				require.Equal(t, []string{"a"}, working(a, b))
				require.NoError(t, a.lastCause())
				require.NoError(t, b.State().Err)
				require.Zero(t, b.State().Takeovers)
				require.NoError(t, errors.Join(a.end(), b.end()))
			})
		})
	}
}

func TestAnOwnerThatIsCutOffIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(0)
		b := start(c, "b", book, nil)
		pass(time.Minute)
		a.SetAway(errAway)
		pass(lease + 2*time.Second)
		require.Equal(t, uint64(2), book.last())
		a.SetAway(nil)
		pass(lease)
		require.Equal(t, []string{"b"}, working(a, b))
		b.SetAway(errAway)
		pass(time.Second)
		require.NoError(t, b.end(), "it cannot give the partition back")
		pass(lease + 2*time.Second)
		require.Equal(t, []string{"a"}, working(a))
		require.NoError(t, a.end())
	})
}

func TestAStandbyThatWasSuspendedCountsAfresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(0)
		b := start(c, "b", book, nil)
		pass(time.Minute)
		a.Freeze()
		b.Freeze()
		pass(5 * lease)
		b.Thaw()
		a.Thaw()
		pass(lease)
		require.Equal(t, []string{"a"}, working(a, b))
		require.Zero(t, b.State().Takeovers)
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestAStoreThatFailsIsOpenedAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		p := c.Process()
		m, err := fleet.New(fleet.Options{Cluster: p, Name: "a"})
		require.NoError(t, err)
		terms := make(chan fleet.Term)
		causes := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- m.Run(ctx, func(ctx context.Context, term fleet.Term) error {
				terms <- term
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return context.Cause(ctx)
			})
		}()
		first := <-terms
		first.Store.(*memory.Owned).Fail(store.ErrUnconfirmed)
		require.ErrorIs(t, <-causes, store.ErrUnconfirmed)
		began := time.Now()
		second := <-terms
		assert.Less(t, time.Since(began), time.Second)
		assert.Greater(t, second.Store.Token(), first.Store.Token())

		// It could not give the partition back: it need not wait for a lease, since nobody but itself owns it.
		p.SetAway(errAway)
		second.Store.(*memory.Owned).Fail(store.ErrUnconfirmed)
		require.ErrorIs(t, <-causes, store.ErrUnconfirmed)
		pass(time.Second)
		p.SetAway(nil)
		began = time.Now()
		third := <-terms
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, uint64(2), m.State().Fenced)
		assert.Equal(t, third.Store.Token(), m.State().Token)
		stop()
		require.ErrorIs(t, <-causes, context.Canceled)
		require.NoError(t, <-done)
	})
}

func TestAPartitionThatIsStoppedEndsRunUntilTheLossIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(time.Second)
		c.Halt(0, "commits 7 to 9 are not there")
		pass(2 * time.Second)
		err := <-a.done
		require.ErrorIs(t, err, store.ErrUnusable)
		require.ErrorContains(t, err, "commits 7 to 9 are not there")
		require.ErrorIs(t, a.lastCause(), store.ErrFenced)

		told := func(o *fleet.Options) { o.AcceptLoss = true }
		b := start(c, "b", book, told)
		pass(time.Second)
		require.Equal(t, []string{"b"}, working(b))
		c.Halt(0, "again")
		pass(2 * time.Second)
		require.Empty(t, working(b), "one loss was accepted, not each")
		require.ErrorIs(t, b.end(), store.ErrUnusable)
	})
}

func TestWorkThatReturnsEndsRunAndGivesThePartitionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		wrong := errors.New("no such tool")
		err := fleet.Run(t.Context(), fleet.Options{Cluster: c.Process(), Name: "a"}, func(context.Context, fleet.Term) error { return wrong })
		require.ErrorIs(t, err, wrong)
		b := start(c, "b", book, nil)
		pass(0)
		require.Equal(t, []string{"b"}, working(b))
		require.NoError(t, b.end())
	})
}

func TestWorkKeepsThePartitionUntilItHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- fleet.Run(ctx, fleet.Options{Cluster: c.Process(), Name: "a"}, func(ctx context.Context, term fleet.Term) error {
				<-ctx.Done()
				<-time.After(3 * lease) // tools come to their end
				return term.Store.Update(context.WithoutCancel(ctx), func(store.Tx) error { return nil })
			})
		}()
		pass(0)
		b := start(c, "b", book, nil)
		pass(time.Second)
		stop()
		pass(2 * lease)
		list, err := b.Member.Instances(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.NoError(t, <-done)
		pass(time.Second)
		require.Equal(t, []string{"b"}, working(b))
		require.NoError(t, b.end())
	})
}

func TestInstancesTellWhoIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := memory.NewCluster(), &ledger{}
		a := start(c, "a", book, nil)
		pass(0) // it is the one that works
		b, d := start(c, "b", book, nil), start(c, "d", book, nil)
		pass(lease)
		b.Freeze()
		require.NoError(t, d.end())
		pass(2 * lease)
		list, err := a.Member.Instances(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2, "d has left")
		assert.Equal(t, []any{"a", "http://a", "1", true}, []any{list[0].Name, list[0].Address, list[0].Version, list[0].Alive})
		assert.Equal(t, []any{"b", false}, []any{list[1].Name, list[1].Alive})
		assert.GreaterOrEqual(t, list[1].Silent, lease)
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	p := memory.NewCluster().Process()
	for want, o := range map[string]fleet.Options{
		"Cluster is nil":                 {Name: "a"},
		"Name is empty":                  {Cluster: p},
		"Partition is -1: want 0":        {Cluster: p, Name: "a", Partition: -1},
		"Lease is 1ms: want at least 10": {Cluster: p, Name: "a", Lease: time.Millisecond},
		"StandBy is set, and Scheduler":  {Cluster: p, Name: "a", Scheduler: &counting{}, StandBy: func(context.Context) error { return nil }},
	} {
		_, err := fleet.New(o)
		require.ErrorContains(t, err, want)
	}
}

// Under faults at random, commits are never made by two owners in turn, none takes over while the database is away, and soon after the
// last fault one works.
func TestUnderFaultsOnlyTheNewestOwnerCommits(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faults(t, rand.New(rand.NewPCG(seed, 17))) }) // a seed is a run
		})
	}
}

func faults(t *testing.T, r *rand.Rand) {
	c, book := memory.NewCluster(), &ledger{}
	all := make([]*process, 3)
	for i := range all {
		all[i] = start(c, string(rune('a'+i)), book, nil)
	}
	takeovers := func() (n uint64) {
		for _, p := range all {
			n += p.State().Takeovers
		}
		return n
	}
	away := false
	for range 40 {
		before := takeovers()
		p := all[r.IntN(len(all))]
		switch r.IntN(9) {
		case 0, 1:
			p.Freeze()
		case 2, 3:
			p.Thaw()
		case 4:
			p.SetAway(errAway)
		case 5:
			p.SetAway(nil)
		case 6:
			away = true
			c.SetAway(errAway)
			synctest.Wait()
			before = takeovers()
		case 7:
			if away {
				away = false
				c.SetAway(nil)
			}
		case 8: // one ends, and is started again
			i := r.IntN(len(all))
			require.NoError(t, all[i].end())
			before -= all[i].State().Takeovers
			all[i] = start(c, string(rune('a'+i)), book, nil)
		}
		pass(time.Duration(r.Int64N(int64(lease))))
		if away {
			require.Equal(t, before, takeovers(), "a takeover in an outage")
		}
	}
	c.SetAway(nil)
	for _, p := range all {
		p.SetAway(nil)
		p.Thaw()
	}
	pass(lease + 2*time.Second)
	require.Len(t, working(all...), 1)
	book.mu.Lock()
	n := len(book.tokens)
	require.IsNonDecreasing(t, book.tokens, "an owner that was replaced has committed")
	book.mu.Unlock()
	pass(2 * time.Second)
	rows, err := c.Process().Partitions(t.Context())
	require.NoError(t, err)
	require.Len(t, book.tokens, int(rows[0].Last), "commits that are told are there, and no others")
	require.Greater(t, len(book.tokens), n, "it commits")
	require.Equal(t, rows[0].Token, book.last())
	for _, p := range all {
		require.NoError(t, p.end())
	}
}
