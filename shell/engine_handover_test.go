package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

const handoverLease = 10 * time.Second

// heir is a process that owns the partition of a cluster until it is told to stop.
type heir struct {
	*shell.Engine
	*memory.Process
	st    store.Owned
	given chan struct{} // closed once it has given the partition back
	end   context.CancelFunc
	done  chan error
}

// inherit has a process claim the partition, and work on it.
func inherit(t *testing.T, c *memory.Cluster, name string, tool shell.Tool, change func(*shell.Options)) *heir {
	t.Helper()
	h := &heir{Process: c.Process(), given: make(chan struct{}), done: make(chan error, 1)}
	seen, err := h.Look(bg(), 0)
	if !errors.Is(err, store.ErrNotFound) {
		require.NoError(t, err)
	}
	h.st, err = h.Claim(bg(), store.PartitionClaim{Seen: seen, Owner: name})
	require.NoError(t, err)
	o := shell.Options{
		Store: h.st, Tools: tools(tool), Instance: name, Logger: quiet, TickRate: 10 * time.Second, StopTimeout: time.Minute, AbandonAfter: 5 * time.Second,
		Handover: &engine.Handover{Through: h.Process, Owner: name, Lease: handoverLease, Wanted: func() bool { return true }, GiveBack: func() error {
			defer close(h.given)
			return h.st.Close()
		}},
	}
	if change != nil {
		change(&o)
	}
	h.Engine, err = shell.New(o)
	require.NoError(t, err)
	ctx, end := context.WithCancel(bg())
	h.end = end
	go func() { h.done <- h.Run(ctx) }()
	synctest.Wait()
	return h
}

// leave tells it to stop, and sees that it has given the partition back at once.
func (h *heir) leave(t *testing.T) {
	t.Helper()
	h.end()
	synctest.Wait()
	select {
	case <-h.given:
	default:
		require.Fail(t, "the partition was not given back")
	}
}

// over sees that it ends, and that a replay finds all as it was.
func (h *heir) over(t *testing.T) {
	t.Helper()
	h.end()
	require.NoError(t, <-h.done)
	h.closed(t)
}

// closed sees that a replay finds all as it was.
func (h *heir) closed(t *testing.T) {
	t.Helper()
	verify(t, h.st)
	require.NoError(t, h.st.Close())
}

// alone has it keep the partition until all has ended.
func alone(o *shell.Options) { o.Handover.Wanted = func() bool { return false } }

func createCount(t *testing.T, e *shell.Engine, on core.OnInterrupt) core.Action {
	t.Helper()
	a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnInterrupt: on}})
	require.NoError(t, err)
	synctest.Wait()
	return a
}

// behind is a clock that is not the machine's.
type behind struct {
	engine.SystemClock
	by atomic.Int64
}

func (c *behind) Now() time.Time { return c.SystemClock.Now().Add(-time.Duration(c.by.Load())) }

// times are those of the batches that a store has, oldest first.
func times(t *testing.T, st store.Store) (all []time.Time) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		return tx.Journal(1, func(_ uint64, raw []byte) error {
			var e struct{ At effects.Time }
			all = append(all, time.Time{})
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			all[len(all)-1] = e.At.Std()
			return nil
		})
	}))
	return all
}

func TestTheTimeOfAStoreThatProcessesHaveInTurnDoesNotGoBackUnlessItsClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, clock := memory.NewCluster(), &behind{}
		tool := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })
		a := inherit(t, c, "a", tool, nil)
		created := createCount(t, a.Engine, core.InterruptFail)
		last := len(times(t, a.st))
		a.over(t)
		by := func(o *shell.Options) { o.Clock = clock }

		// The next one's clock is 40 seconds behind: time stands still, and goes on once that has caught up.
		clock.by.Store(int64(40 * time.Second))
		b := inherit(t, c, "b", tool, by)
		soon, err := b.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: core.Scheduled(created.CreatedAt.Add(5 * time.Second))})
		require.NoError(t, err)
		assert.Equal(t, created.CreatedAt, soon.CreatedAt)
		elapse(44 * time.Second)
		assert.Equal(t, core.StatusPending, actionOf(t, b.Engine, soon.ID).Status.Type)
		elapse(2 * time.Second)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, soon.ID).Status.Type)

		// A little step back within its time is none, either.
		createCount(t, b.Engine, core.InterruptFail)
		clock.by.Add(int64(300 * time.Millisecond))
		createCount(t, b.Engine, core.InterruptFail)
		all := times(t, b.st)
		assert.Greater(t, len(all), last)
		assert.True(t, slices.IsSortedFunc(all, time.Time.Compare), "%v", all)

		// A clock that is set back further is followed.
		clock.by.Add(int64(time.Hour))
		now := createCount(t, b.Engine, core.InterruptFail).CreatedAt.Std()
		assert.WithinDuration(t, clock.Now(), now, time.Millisecond)
		b.over(t)
	})
}

func TestAStoreIsHandedOverWhileAToolRunsOnAndItsResultCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := memory.NewCluster(), &counting{}
		tool := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			_, _ = fmt.Fprint(c.Output(), "before, ")
			<-time.After(40 * time.Second)
			_, _ = fmt.Fprint(c.Output(), "and after")
			return json.RawMessage(`"done"`), nil
		})
		a := inherit(t, c, "a", tool, nil)
		made := createCount(t, a.Engine, core.InterruptFail)
		a.leave(t)
		b := inherit(t, c, "b", other, alone)
		elapse(39 * time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, made.ID).Status.Type, "its process lives")
		elapse(1500 * time.Millisecond)
		is := actionOf(t, b.Engine, made.ID)
		assert.Equal(t, core.StatusCompleted, is.Status.Type)
		assert.JSONEq(t, `"done"`, string(is.Status.Result))
		assert.Zero(t, other.n.Load(), "nobody else has run it")
		out, err := b.Actions().Output(bg(), made.ID, 0)
		require.NoError(t, err)
		assert.Equal(t, "before, and after", string(out.Head)+string(out.Tail))
		require.NoError(t, <-a.done, "it ends once it has told all")
		elapse(time.Second)
		all, left, err := b.Formers(bg(), 0, 10)
		require.NoError(t, err)
		assert.Empty(t, all)
		assert.Empty(t, left, "what was taken is deleted")
		assert.Equal(t, []string{"instance/1"}, claims(t, b.st))
		b.over(t)
	})
}

func TestWhatIsReportedWhileNobodyOwnsTheStoreCountsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := memory.NewCluster(), newGate()
		a := inherit(t, c, "a", g, nil)
		made := createCount(t, a.Engine, core.InterruptFail)
		a.leave(t)
		g.open()
		require.NoError(t, <-a.done)
		b := inherit(t, c, "b", g, alone)
		elapse(time.Second)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, made.ID).Status.Type)
		b.over(t)
	})
}

func TestManyHandOverOneAfterTheOtherAndAllTheirResultsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		gates := []*gate{newGate(), newGate(), newGate()}
		var made []core.Action
		var heirs []*heir
		for n, g := range gates {
			h := inherit(t, c, fmt.Sprint("heir-", n), g, nil)
			for range 50 {
				made = append(made, createCount(t, h.Engine, core.InterruptFail))
			}
			h.leave(t)
			heirs = append(heirs, h)
		}
		last := inherit(t, c, "last", newGate(), alone)
		elapse(30 * time.Second)
		for _, g := range gates {
			g.open()
		}
		elapse(3 * time.Second)
		for n, h := range heirs {
			require.NoError(t, <-h.done)
			assert.EqualValues(t, 50, gates[n].n.Load())
		}
		for _, m := range made {
			assert.Equal(t, core.StatusCompleted, actionOf(t, last.Engine, m.ID).Status.Type)
		}
		last.over(t)
	})
}

func TestACancelReachesWhatAFormerOwnerCarriesOut(t *testing.T) {
	for _, told := range []bool{true, false} { // by the owner that has decided it, or by the one after
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.NewCluster()
				causes := make(chan error, 1)
				tool := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil, context.Cause(ctx)
				})
				a := inherit(t, c, "a", tool, nil)
				made := createCount(t, a.Engine, core.InterruptFail)
				a.leave(t)
				b := inherit(t, c, "b", tool, alone)
				elapse(time.Second)
				_, err := b.Actions().Cancel(bg(), made.ID, "")
				require.NoError(t, err)
				if !told {
					b.over(t)
					b = inherit(t, c, "c", tool, alone)
				}
				elapse(time.Second)
				select {
				case cause := <-causes:
					require.ErrorIs(t, cause, shell.ErrCancelled)
				default:
					require.Fail(t, "it was not cancelled")
				}
				assert.Equal(t, core.StatusCancelled, actionOf(t, b.Engine, made.ID).Status.Type)
				require.NoError(t, <-a.done)
				b.over(t)
			})
		})
	}
}

func TestAFormerOwnerThatIsSilentForALeaseIsGoneAndItsResultTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := memory.NewCluster(), newGate()
		causes := make(chan error, 1)
		tool := shell.ToolFunc(func(ctx context.Context, call shell.Call) (json.RawMessage, error) {
			defer func() { causes <- context.Cause(ctx) }()
			return g.Run(ctx, call)
		})
		a := inherit(t, c, "a", tool, nil)
		failed, again := createCount(t, a.Engine, core.InterruptFail), createCount(t, a.Engine, core.InterruptRetry)
		causes = make(chan error, 2)
		a.leave(t)
		other := &counting{}
		b := inherit(t, c, "b", other, alone)
		elapse(time.Minute / 2)
		a.SetAway(errors.New("it is cut off"))
		elapse(handoverLease - 2*time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, failed.ID).Status.Type, "not yet a lease")
		elapse(3 * time.Second)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: core.ReasonRecovered}, actionOf(t, b.Engine, failed.ID).Status)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, again.ID).Status.Type)
		assert.EqualValues(t, 1, other.n.Load())
		elapse(time.Second)
		a.SetAway(nil)
		require.NoError(t, <-a.done)
		require.ErrorIs(t, <-causes, shell.ErrFenced)
		elapse(time.Second)
		assert.Equal(t, core.StatusFailed, actionOf(t, b.Engine, failed.ID).Status.Type)
		b.over(t)
	})
}

func TestAnOutageOfTheDatabaseInterruptsNothingThatFormerOwnersCarryOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := memory.NewCluster(), newGate()
		a := inherit(t, c, "a", g, nil)
		made := createCount(t, a.Engine, core.InterruptFail)
		a.leave(t)
		b := inherit(t, c, "b", &counting{}, alone)
		elapse(time.Second)
		c.SetAway(errors.New("it is away"))
		elapse(2 * handoverLease)
		g.open()
		elapse(handoverLease)
		c.SetAway(nil)
		elapse(handoverLease)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, made.ID).Status.Type)
		require.NoError(t, <-a.done)
		b.over(t)
	})
}

func TestWhatAFormerOwnerCutsOffAtTheEndOfItsTimeIsToldInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		a := inherit(t, c, "a", newGate(), nil)
		failed, again := createCount(t, a.Engine, core.InterruptFail), createCount(t, a.Engine, core.InterruptRetry)
		a.leave(t)
		other := &counting{}
		b := inherit(t, c, "b", other, alone)
		elapse(59 * time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, failed.ID).Status.Type)
		elapse(2 * time.Second)
		require.NoError(t, <-a.done)
		assert.Contains(t, actionOf(t, b.Engine, failed.ID).Status.Reason, "interrupted by a shutdown")
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, again.ID).Status.Type)
		b.over(t)
	})
}

// lasting has its process go on, until ends is closed, though the engine is told to stop.
func lasting(ends <-chan struct{}) func(*shell.Options) {
	return func(o *shell.Options) { o.Handover.Ends, o.Handover.Wanted = ends, nil }
}

func TestWhatRunsOnOfAStoreThatHasMovedIsCutOffOnlyOnceItsProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, ends := memory.NewCluster(), newGate(), make(chan struct{})
		log := &logLines{}
		a := inherit(t, c, "a", g, func(o *shell.Options) {
			lasting(ends)(o)
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
		})
		long, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{OnInterrupt: core.InterruptFail, TimeoutMS: time.Hour.Milliseconds()}})
		require.NoError(t, err)
		synctest.Wait()
		a.leave(t)
		assert.Len(t, log.with(`msg="giving the store to another process, while this one goes on" running=1 stop_timeout=1m0s`), 1)
		assert.Empty(t, log.with("stopping"), "the process does not stop")
		b := inherit(t, c, "b", &counting{}, alone)
		elapse(30 * time.Minute)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, long.ID).Status.Type, "the stop timeout is a minute, and the process lives")
		close(ends)
		elapse(59 * time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, long.ID).Status.Type)
		elapse(2 * time.Second)
		require.NoError(t, <-a.done)
		assert.Len(t, log.with("stopping what runs on of a store that was another process's"), 1)
		assert.Contains(t, actionOf(t, b.Engine, long.ID).Status.Reason, "interrupted by a shutdown")
		b.over(t)
	})
}

func TestWhatRunsOnOfAStoreThatHasMovedEndsByItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ends := memory.NewCluster(), make(chan struct{})
		a := inherit(t, c, "a", newGate(), lasting(ends))
		made, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{TimeoutMS: time.Hour.Milliseconds()}})
		require.NoError(t, err)
		synctest.Wait()
		a.leave(t)
		b := inherit(t, c, "b", &counting{}, alone)
		elapse(59 * time.Minute)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, made.ID).Status.Type)
		elapse(2 * time.Minute)
		require.NoError(t, <-a.done, "the engine ends, and its process goes on")
		assert.Contains(t, actionOf(t, b.Engine, made.ID).Status.Reason, "time limit")
		b.over(t)
	})
}

func TestWhatKeepsAStoreThatMovesIsCutOffAndTheRestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, kept, ends := memory.NewCluster(), newGate(), newGate(), make(chan struct{})
		a := inherit(t, c, "a", g, func(o *shell.Options) {
			lasting(ends)(o)
			o.Tools["kept"] = stationary{kept}
		})
		goesOn := createCount(t, a.Engine, core.InterruptFail)
		cut, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: "kept", Policy: core.RunPolicy{OnInterrupt: core.InterruptRetry}})
		require.NoError(t, err)
		synctest.Wait()
		a.end()
		elapse(59 * time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, a.Engine, cut.ID).Status.Type)
		elapse(2 * time.Second)
		select {
		case <-a.given:
		default:
			require.Fail(t, "the partition was not given back")
		}
		kept.open()
		b := inherit(t, c, "b", &counting{}, func(o *shell.Options) { o.Tools["kept"] = &counting{} })
		elapse(10 * time.Second)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, cut.ID).Status.Type, "the next owner has tried it again")
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, goesOn.ID).Status.Type)
		g.open()
		require.NoError(t, <-a.done)
		elapse(time.Second)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, goesOn.ID).Status.Type)
		b.over(t)
	})
}

// balking is a store whose commits take as long as it is told, once each time.
type balking struct {
	store.Owned
	next atomic.Pointer[[]time.Duration]
}

func (s *balking) Update(ctx context.Context, fn func(store.Tx) error) error {
	if all := s.next.Load(); all != nil && len(*all) > 0 {
		rest := (*all)[1:]
		s.next.Store(&rest)
		<-time.After((*all)[0])
	}
	return s.Owned.Update(ctx, fn)
}

// alive is a tool of a minute and more that tells how many runs of it there are at a time.
type alive struct {
	now, most atomic.Int32
	deaf      time.Duration // for which it does not return once it is to end
	lasts     time.Duration
}

func (a *alive) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	a.most.Store(max(a.most.Load(), a.now.Add(1)))
	defer a.now.Add(-1)
	select {
	case <-time.After(a.lasts):
		return json.RawMessage(`1`), nil
	case <-ctx.Done():
		<-time.After(a.deaf)
		return nil, context.Cause(ctx)
	}
}

// The loop comes late to the end of the stop's time: what is to be cut off then is cut off, and has its time to return, before anything else is decided.
func TestAStoreThatMovesIsHandedOverAlthoughACommitHasTakenLongerThanTheStopMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ends, portable, kept := memory.NewCluster(), make(chan struct{}), &alive{lasts: 20 * time.Minute}, newGate()
		var st *balking
		a := inherit(t, c, "a", portable, func(o *shell.Options) {
			lasting(ends)(o)
			st = &balking{Owned: o.Store.(store.Owned)} //nolint:forcetypeassert // inherit has claimed it
			o.Store, o.Tools["kept"], o.Tools["short"] = st, stationary{kept}, &alive{lasts: 30 * time.Second}
		})
		policy := core.RunPolicy{OnInterrupt: core.InterruptRetry, TimeoutMS: time.Hour.Milliseconds()}
		var made []core.Action
		for _, tool := range []string{"count", "kept", "short"} {
			is, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: tool, Policy: policy})
			require.NoError(t, err)
			made = append(made, is)
		}
		elapse(10 * time.Second)
		a.end()
		synctest.Wait()
		st.next.Store(&[]time.Duration{3 * time.Minute}) // for what the short one has come to
		elapse(5 * time.Minute)
		<-a.given
		b := inherit(t, c, "b", portable, func(o *shell.Options) { o.Tools["kept"] = &alive{}; alone(o) })
		elapse(time.Minute)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, made[1].ID).Status.Type)
		assert.Equal(t, core.StatusRunning, actionOf(t, b.Engine, made[0].ID).Status.Type)
		elapse(20 * time.Minute)
		require.NoError(t, <-a.done)
		is := actionOf(t, b.Engine, made[0].ID)
		assert.Equal(t, core.StatusCompleted, is.Status.Type)
		assert.EqualValues(t, 1, is.Attempt)
		assert.EqualValues(t, 1, portable.most.Load(), "runs of the tool at a time")
		b.over(t)
	})
}

// A store whose database was away for too long in a commit takes nothing more until it is opened anew: its process cannot do that before the engine has ended.
func TestAnEngineWhoseStoreHasFailedForGoodEndsAlthoughItsProcessGoesOn(t *testing.T) {
	for name, when := range map[string]time.Duration{"before it is told to stop": 0, "while it gives the store back": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, long := memory.NewCluster(), &alive{lasts: time.Hour}
				a := inherit(t, c, "a", long, func(o *shell.Options) {
					lasting(make(chan struct{}))(o)
					o.Tools["kept"] = pinned{&alive{lasts: time.Hour}}
				})
				for _, tool := range []string{"kept", "count"} {
					_, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: tool, Policy: core.RunPolicy{TimeoutMS: 2 * time.Hour.Milliseconds()}})
					require.NoError(t, err)
				}
				elapse(time.Second)
				if when > 0 {
					a.end()
				}
				elapse(when)
				a.st.(*memory.Owned).Fail(errors.New("the database was away for too long")) //nolint:forcetypeassert // the cluster's
				a.end()
				elapse(59 * time.Second)
				require.EqualValues(t, 1, long.now.Load(), "it has the time of a stop")
				elapse(20 * time.Second)
				require.Zero(t, long.now.Load())
				select {
				case err := <-a.done:
					require.ErrorContains(t, err, "the database was away for too long")
				default:
					require.Fail(t, "the engine has not ended")
				}
			})
		})
	}
}

// lateClock is one whose timers of a length never fire, as on a machine that has no time for them.
type lateClock struct {
	shell.Clock
	never time.Duration
}

func (c lateClock) Timer(d time.Duration) (<-chan time.Time, func()) {
	if d == c.never {
		return nil, func() {}
	}
	return c.Clock.Timer(d)
}

// pinned is a tool that needs the process that owns the store.
type pinned struct{ *alive }

func (pinned) Stationary() {}

// A tool that ran on under a claim that is released would run beside the one that the next owner begins in its place.
func TestNothingRunsOnOfAStoreThatIsReleasedSinceItCouldNotBeHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, portable := memory.NewCluster(), &alive{lasts: 20 * time.Minute, deaf: time.Second}
		a := inherit(t, c, "a", portable, func(o *shell.Options) {
			lasting(make(chan struct{}))(o)
			o.AbandonAfter += 7
			o.Clock, o.Tools["kept"] = lateClock{engine.SystemClock{}, o.AbandonAfter}, pinned{&alive{lasts: time.Hour, deaf: 10 * time.Minute}}
		})
		policy := core.RunPolicy{OnInterrupt: core.InterruptRetry, TimeoutMS: time.Hour.Milliseconds()}
		for _, tool := range []string{"kept", "count"} {
			_, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: tool, Policy: policy})
			require.NoError(t, err)
		}
		elapse(10 * time.Second)
		a.end()
		elapse(65 * time.Second)
		require.EqualValues(t, 1, portable.now.Load())
		require.NoError(t, <-a.done)
		assert.Zero(t, portable.now.Load(), "it was cancelled, and has returned, before the claim was released")
		assert.Empty(t, claims(t, a.st))
		require.NoError(t, a.st.Close())
		b := inherit(t, c, "b", portable, func(o *shell.Options) { o.Tools["kept"] = &alive{}; alone(o) })
		elapse(21 * time.Minute)
		assert.EqualValues(t, 1, portable.most.Load(), "runs of the tool at a time")
		b.over(t)
	})
}

func TestANotificationThatIsBeingToldKeepsAStoreThatMovesForSecondsAndIsToldByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ends, told := memory.NewCluster(), make(chan struct{}), 0
		channel := func(tell carrying) func(*shell.Options) {
			return func(o *shell.Options) {
				lasting(ends)(o)
				o.Interpreters = map[string]shell.Interpreter{effects.LaneNotify: tell}
			}
		}
		a := inherit(t, c, "a", newGate(), channel(func(ctx context.Context) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		goesOn := createCount(t, a.Engine, core.InterruptFail)
		p := begin(t, a.Engine, core.PhaseDef{Name: "tell", Notify: &core.NotifyPhase{Title: "x"}})
		synctest.Wait()
		began := time.Now()
		a.end()
		<-a.given
		assert.Equal(t, 5*time.Second, time.Since(began), "the stop timeout is a minute")
		b := inherit(t, c, "b", &counting{}, channel(func(context.Context) (json.RawMessage, error) {
			told++
			return nil, nil
		}))
		elapse(time.Second)
		assert.Equal(t, 1, told)
		assert.Equal(t, core.PhaseDone, state(t, b.Engine, p.ID).Phase.Type)
		require.Equal(t, core.StatusRunning, actionOf(t, b.Engine, goesOn.ID).Status.Type)
		close(ends)
		elapse(2 * time.Minute)
		require.NoError(t, <-a.done)
		b.over(t)
	})
}

// stationary is a tool that needs the process that owns the store.
type stationary struct{ *gate }

func (stationary) Stationary() {}

func TestAStoreIsKeptWhileWhatRunsCannotGoOnWithoutIt(t *testing.T) {
	for name, change := range map[string]func(*shell.Options){
		"a stationary tool": func(o *shell.Options) { o.Tools["count"] = stationary{o.Tools["count"].(*gate)} }, //nolint:forcetypeassert // it is
		"nobody takes it":   alone,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, g := memory.NewCluster(), newGate()
				a := inherit(t, c, "a", g, change)
				made := createCount(t, a.Engine, core.InterruptFail)
				a.end()
				elapse(30 * time.Second)
				require.Equal(t, core.StatusRunning, actionOf(t, a.Engine, made.ID).Status.Type)
				g.open()
				require.NoError(t, <-a.done)
				require.Equal(t, core.StatusCompleted, actionOf(t, a.Engine, made.ID).Status.Type)
				assert.Empty(t, claims(t, a.st), "as a stop without handover")
				a.closed(t)
			})
		})
	}
}

func TestAHandoverThatTheDatabaseRefusesIsAStopAsWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := memory.NewCluster(), newGate()
		a := inherit(t, c, "a", g, func(o *shell.Options) { o.Handover.Through = deaf{o.Handover.Through} })
		made := createCount(t, a.Engine, core.InterruptFail)
		a.end()
		elapse(time.Second)
		require.Equal(t, core.StatusRunning, actionOf(t, a.Engine, made.ID).Status.Type)
		g.open()
		require.NoError(t, <-a.done)
		assert.Equal(t, core.StatusCompleted, actionOf(t, a.Engine, made.ID).Status.Type)
		a.closed(t)
	})
}

// deaf is a database that notes no former owner.
type deaf struct{ store.Handover }

func (deaf) Remain(context.Context, store.Former) error { return errors.New("it is full") }

// hesitant is a database that notes a former owner only once it was asked often.
type hesitant struct {
	store.Handover
	asked *int
}

func (h hesitant) Remain(ctx context.Context, f store.Former) error {
	if *h.asked++; *h.asked < 1000 {
		return errors.New("it is full")
	}
	return h.Handover.Remain(ctx, f)
}

func TestAHandoverThatTheDatabaseRefusesIsTriedAgainWhileTheProcessLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g, ends, asked := memory.NewCluster(), newGate(), make(chan struct{}), 0
		a := inherit(t, c, "a", g, func(o *shell.Options) {
			lasting(ends)(o)
			o.Handover.Through = hesitant{o.Handover.Through, &asked}
		})
		made, err := a.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{TimeoutMS: time.Hour.Milliseconds()}})
		require.NoError(t, err)
		synctest.Wait()
		a.end()
		elapse(10 * time.Minute)
		require.Equal(t, 1000, asked)
		b := inherit(t, c, "b", &counting{}, alone)
		g.open()
		require.NoError(t, <-a.done)
		elapse(time.Second)
		assert.Equal(t, core.StatusCompleted, actionOf(t, b.Engine, made.ID).Status.Type)
		b.over(t)
	})
}

func TestTheOptionsOfAHandoverAreChecked(t *testing.T) {
	c := memory.NewCluster()
	give := func() error { return nil }
	for want, h := range map[string]*shell.Handover{
		"Handover.Through is nil":  {GiveBack: give},
		"Handover.GiveBack is nil": {Through: c.Process()},
		"Handover.Lease is 1ms":    {Through: c.Process(), GiveBack: give, Lease: time.Millisecond},
	} {
		_, err := shell.New(shell.Options{Store: memory.New(), Handover: h})
		require.ErrorContains(t, err, want)
	}
	_, err := shell.New(shell.Options{Store: memory.NewSession(""), Handover: &shell.Handover{Through: c.Process(), GiveBack: give}})
	require.ErrorContains(t, err, "not this process's alone")
}
