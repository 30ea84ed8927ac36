package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// harmed is a database that does not answer some questions as it should.
type harmed struct {
	*memory.Process
	rule    int                   // of the layout; 0: it is as it is
	hangs   atomic.Bool           // looks are not answered
	parting time.Duration         // that a Part takes
	closing error                 // of the first Close
	late    atomic.Int64          // so many renewals find their time over
	renews  atomic.Int64          // how many there were
	wrong   atomic.Pointer[error] // of renewals
}

func (h *harmed) Layout(ctx context.Context) (store.Layout, error) {
	l, err := h.Process.Layout(ctx)
	if h.rule != 0 {
		l.Rule = h.rule
	}
	return l, err
}

func (h *harmed) Partitions(ctx context.Context) ([]store.Partition, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Process.Partitions(ctx)
}

func (h *harmed) Look(ctx context.Context, partition int) (store.Partition, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return store.Partition{}, ctx.Err()
	}
	return h.Process.Look(ctx, partition)
}

func (h *harmed) Part(ctx context.Context, i store.Instance) error {
	<-time.After(h.parting)
	return h.Process.Part(ctx, i)
}

func (h *harmed) Renew(ctx context.Context, i store.Instance, owned ...store.Owned) ([]store.Owned, error) {
	h.renews.Add(1)
	if h.late.Load() > 0 {
		h.late.Add(-1)
		return owned, context.DeadlineExceeded
	}
	if wrong := h.wrong.Load(); wrong != nil {
		return nil, *wrong
	}
	return h.Process.Renew(ctx, i, owned...)
}

func (h *harmed) Claim(ctx context.Context, c store.PartitionClaim) (store.Owned, error) {
	o, err := h.Process.Claim(ctx, c)
	if err != nil || h.closing == nil {
		return o, err
	}
	closing := h.closing
	h.closing = nil
	return harmedOwned{o, closing}, nil
}

type harmedOwned struct {
	store.Owned
	closing error
}

func (o harmedOwned) Close() error { return errors.Join(o.closing, o.Owned.Close()) }

func TestALookThatFailsBeginsTheSilenceAnew(t *testing.T) {
	t.Run("of a group", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, book := divided(t), &journal{}
			a, b := join(t, c, "a", book), join(t, c, "b", book)
			pass(time.Minute)
			own := b.owns()
			a.Freeze()
			pass(lease - time.Second)
			c.SetAway(errAway)
			pass(time.Second)
			c.SetAway(nil)
			pass(lease - 2*time.Second)
			require.Equal(t, own, b.owns(), "in an outage nobody can give a sign of life")
			pass(4 * time.Second)
			require.Len(t, b.owns(), many)
			require.NoError(t, errors.Join(a.end(), b.end()))
		})
	})
	t.Run("of a member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, book := memory.NewCluster(), &ledger{}
			a := start(c, "a", book, nil)
			pass(time.Second)
			b := start(c, "b", book, nil)
			pass(time.Second)
			a.Freeze()
			pass(lease - time.Second)
			c.SetAway(errAway)
			pass(time.Second)
			c.SetAway(nil)
			pass(lease - 2*time.Second)
			require.False(t, b.State().Works)
			pass(4 * time.Second)
			require.True(t, b.State().Works)
			require.NoError(t, errors.Join(a.end(), b.end()))
		})
	})
}

func TestALookIsGivenUpAfterHalfALease(t *testing.T) {
	t.Run("of a group", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, db := divided(t), &harmed{}
			a := join(t, c, "a", &journal{}, func(p *party, o *fleet.Options) {
				db.Process = p.Process
				o.Cluster = db
			})
			pass(time.Second)
			db.hangs.Store(true)
			pass(lease/2 + time.Second)
			require.Equal(t, 1, a.told.count(fleet.EventAway))
			require.NoError(t, a.end())
		})
	})
	t.Run("of a member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, db, book := memory.NewCluster(), &harmed{}, &ledger{}
			a := start(c, "a", book, nil)
			pass(time.Second)
			var events told
			b := start(c, "b", book, func(o *fleet.Options) {
				db.Process = o.Cluster.(*memory.Process)
				o.Cluster, o.Events = db, events.tell
			})
			pass(time.Second)
			db.hangs.Store(true)
			pass(lease/2 + time.Second)
			require.Equal(t, 1, events.count(fleet.EventAway))
			require.NoError(t, errors.Join(b.end(), a.end()))
		})
	})
}

func TestWhoWasGoneBeforeAnOutageIsGoneAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a, b := join(t, c, "a", book), join(t, c, "b", book)
		pass(time.Minute)
		alive := func() bool {
			list, err := a.Group.Instances(t.Context())
			require.NoError(t, err)
			return list[1].Alive
		}
		outage := func() {
			c.SetAway(errAway)
			pass(5 * lease)
			c.SetAway(nil)
		}
		b.Freeze()
		pass(lease / 2) // a has seen its last sign of life
		outage()
		require.True(t, alive(), "it may just not have come to say so")
		pass(lease)
		require.False(t, alive())
		outage()
		require.False(t, alive())
		require.NoError(t, errors.Join(a.end(), b.end()))
	})
}

func TestASignOfLifeWhoseTimeWasOverBeforeItBeganIsTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, db := divided(t), &harmed{}
		a := join(t, c, "a", &journal{}, func(p *party, o *fleet.Options) {
			db.Process = p.Process
			o.Cluster = db
		})
		renewals := func() int64 {
			before := db.renews.Load()
			pass(lease / 5)
			return db.renews.Load() - before
		}
		pass(lease)
		require.EqualValues(t, 1, renewals())
		db.late.Store(1)
		require.EqualValues(t, 2, renewals())
		db.late.Store(100)
		require.EqualValues(t, 2, renewals(), "once, and not for ever")
		db.late.Store(0)
		require.NoError(t, a.end())
	})
}

func TestWhyAProcessIsNotListedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, db := divided(t), &harmed{}
		a := join(t, c, "a", &journal{}, func(p *party, o *fleet.Options) {
			db.Process = p.Process
			o.Cluster = db
		})
		pass(lease)
		wrong := errors.New("permission denied for table instances")
		db.wrong.Store(&wrong)
		pass(lease)
		require.ErrorIs(t, a.told.last(t, fleet.EventUnlisted).Err, wrong)
		require.Equal(t, 1, a.told.count(fleet.EventUnlisted))
		db.wrong.Store(nil)
		require.NoError(t, a.end())
	})
}

func TestADatabaseThatIsDividedByAnotherRuleIsRefused(t *testing.T) {
	db := &harmed{Process: divided(t).Process(), rule: 2}
	g, err := fleet.NewGroup(fleet.Options{Cluster: db, Name: "a"}, layout)
	require.NoError(t, err)
	require.EqualError(t, g.Run(t.Context(), nil), "fleet: the layout is 8 partitions by rule 1, and the database has 8 partitions by rule 2: want that")
}

// groupOf runs a group with that work.
func groupOf(t *testing.T, o fleet.Options, work fleet.Work) (g *fleet.Group, stop context.CancelFunc, done <-chan error) {
	t.Helper()
	o.Name, o.Lease = "a", lease
	g, err := fleet.NewGroup(o, layout)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, work) }()
	return g, stop, ended
}

func untilItEnds(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWorkOfOnePartitionThatReturnsWithoutAnErrorEndsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := divided(t)
		_, stop, done := groupOf(t, fleet.Options{Cluster: c.Process()}, func(ctx context.Context, term fleet.Term) error {
			assert.Equal(t, 8, term.Partitions)
			if term.Partition != 3 {
				return untilItEnds(ctx)
			}
			<-time.After(time.Second / 2)
			return nil
		})
		pass(time.Second)
		select {
		case err := <-done:
			require.NoError(t, err)
		default:
			require.Fail(t, "it runs on")
		}
		stop()
		rows, err := c.Process().Partitions(t.Context())
		require.NoError(t, err)
		require.Len(t, rows, many)
		for _, row := range rows {
			require.False(t, row.Owned(), "partition %d", row.Number)
		}
	})
}

func TestWhatGoesWrongWithAPartitionThatMovesIsToldOfTheMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := divided(t)
		var events told
		wrong := errors.New("not all was stored")
		_, stop, done := groupOf(t, fleet.Options{Cluster: c.Process(), Events: events.tell}, func(ctx context.Context, _ fleet.Term) error {
			if err := untilItEnds(ctx); !errors.Is(err, fleet.ErrMoved) {
				return err
			}
			return wrong
		})
		pass(time.Second)
		b := join(t, c, "b", &journal{})
		pass(3 * lease)
		require.NotEmpty(t, b.owns())
		assert.Equal(t, len(b.owns()), events.count(fleet.EventMoved), "each is told once")
		require.ErrorIs(t, events.last(t, fleet.EventMoved).Err, wrong)
		assert.Zero(t, events.count(fleet.EventRanOn), "nothing has run on")
		stop()
		require.NoError(t, <-done)
		require.NoError(t, b.end())
	})
}

func TestWhatRanOnOfAPartitionThatHasMovedIsToldOnceMoreIfItFailed(t *testing.T) {
	for name, wrong := range map[string]error{"it failed": errors.New("the tool has no disk"), "it did not": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := divided(t)
				var events told
				_, stop, done := groupOf(t, fleet.Options{Cluster: c.Process(), Events: events.tell}, func(ctx context.Context, term fleet.Term) error {
					if err := untilItEnds(ctx); !errors.Is(err, fleet.ErrMoved) {
						return err
					}
					_ = term.Handover.GiveBack()
					<-time.After(time.Second)
					return wrong
				})
				pass(time.Second)
				b := join(t, c, "b", &journal{})
				pass(3 * lease)
				moved := len(b.owns())
				require.NotZero(t, moved)
				assert.Equal(t, moved, events.count(fleet.EventMoved))
				require.NoError(t, events.last(t, fleet.EventMoved).Err)
				if wrong == nil {
					moved = 0
				}
				assert.Equal(t, moved, events.count(fleet.EventRanOn))
				stop()
				require.NoError(t, <-done)
				require.NoError(t, b.end())
			})
		})
	}
}

func TestAProcessThatEndsGivesNothingBackBeforeOthersKnowThatItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, db := divided(t), &harmed{parting: time.Second}
		a := join(t, c, "a", &journal{}, func(p *party, o *fleet.Options) {
			db.Process = p.Process
			o.Cluster = db
		})
		pass(time.Second)
		a.stop()
		pass(time.Second / 2)
		rows, err := c.Process().Partitions(t.Context())
		require.NoError(t, err)
		for _, row := range rows {
			require.True(t, row.Owned(), "partition %d", row.Number)
		}
		require.NoError(t, <-a.done)
	})
}

// What says that another process owns the partition, be it the store as it is closed or the work, has the member stand by again, and its end counts
// as no failure.
func TestAMemberThatLearnsAtTheEndOfATermThatItWasReplacedStandsByAgain(t *testing.T) {
	for name, row := range map[string]struct {
		closing, work error
	}{
		"as its store is closed": {closing: store.ErrFenced},
		"by its work":            {work: fmt.Errorf("commit 7: %w", store.ErrFenced)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &harmed{Process: memory.NewCluster().Process(), closing: row.closing}
				var events told
				m, err := fleet.New(fleet.Options{Cluster: db, Name: "a", Lease: lease, Events: events.tell})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				terms := 0
				done := make(chan error, 1)
				go func() {
					done <- m.Run(ctx, func(ctx context.Context, _ fleet.Term) error {
						if terms++; terms == 1 {
							return row.work
						}
						if err := untilItEnds(ctx); row.work == nil {
							return err
						}
						return row.work // as the process is told to end
					})
				}()
				pass(time.Second)
				require.Equal(t, 2, terms)
				require.ErrorIs(t, events.last(t, fleet.EventLost).Err, store.ErrFenced)
				require.EqualValues(t, 1, m.State().Fenced)
				stop()
				require.NoError(t, <-done)
				require.Equal(t, 1, events.count(fleet.EventLost))
			})
		})
	}
}
