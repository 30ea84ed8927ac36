package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

func TestWhatAHandlerHasDoneWhileTheDiskIsFullIsStoredAndNotDoneAgain(t *testing.T) {
	for name, result := range map[string]error{"completed": nil, "failed": errors.New("no luck")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &full{Store: inMemory(t)}
				e := running(t, shell.Options{Store: f, TickRate: time.Hour})
				var runs atomic.Int64
				c := employ(t, e, shell.WorkOptions{}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
					runs.Add(1)
					f.is.Store(true)
					return nil, result
				})
				_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{Retry: core.Retry{MaxAttempts: 1}})
				require.NoError(t, err)
				push(t, e, shell.PushOptions{})
				elapse(10 * time.Second)
				f.is.Store(false)
				elapse(time.Minute) // longer than the visibility timeout
				q := gauges(t, e)
				assert.EqualValues(t, 1, runs.Load())
				assert.EqualValues(t, 1, q.Completed+q.Failed)
				assert.Zero(t, q.TimedOut)
				c.rest()
			})
		})
	}
}

func TestAWorkerThatStopsDoesNotWaitForADiskForLongerThanItsStopTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{Store: inMemory(t)}
		e := running(t, shell.Options{Store: f, TickRate: time.Hour})
		c := employ(t, e, shell.WorkOptions{StopTimeout: 20 * time.Second}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
			f.is.Store(true)
			return nil, nil
		})
		push(t, e, shell.PushOptions{})
		synctest.Wait()
		begin := time.Now()
		c.rest()
		assert.Equal(t, 20*time.Second, time.Since(begin))
		f.is.Store(false)
	})
}

func TestAResultThatIsTooLargeFailsTheItemForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		var runs atomic.Int64
		c := employ(t, e, shell.WorkOptions{}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
			runs.Add(1)
			return json.RawMessage(`"` + strings.Repeat("x", core.MaxInputBytes) + `"`), nil
		})
		push(t, e, shell.PushOptions{})
		elapse(2 * time.Minute)
		c.rest()
		assert.EqualValues(t, 1, runs.Load())
		dead, _, err := e.Queues().Items(bg(), work, "dead", shell.Page{})
		require.NoError(t, err)
		require.Len(t, dead, 1)
		assert.Equal(t, "the handler's result: 1048578 bytes is more than 1048576", dead[0].State.Reason)
	})
}

func TestWorkEndsWithTheEngineAlsoWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{Store: inMemory(t)}
		e, stop := start(t, shell.Options{Store: f, TickRate: time.Hour})
		c := employ(t, e, shell.WorkOptions{}, nil)
		push(t, e, shell.PushOptions{Delay: 30 * time.Second})
		synctest.Wait()
		f.is.Store(true)
		elapse(30*time.Second + 500*time.Millisecond) // the take has failed, and waits to try again
		f.is.Store(false)
		require.NoError(t, stop())
		require.ErrorIs(t, <-c.ended, shell.ErrStopped)
	})
}

// leaping sets the clock just before it carries out its next transaction.
type leaping struct {
	store.Store
	clock *jumping
	by    atomic.Int64
}

func (l *leaping) Update(ctx context.Context, fn func(store.Tx) error) error {
	if by := l.by.Swap(0); by != 0 {
		l.clock.jump(time.Duration(by))
	}
	return l.Store.Update(ctx, fn)
}

func TestALeaseIsExtendedInTimeAlsoWhereTheClockIsSetDuringAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaping{Store: inMemory(t), clock: &jumping{}}
		e := running(t, shell.Options{Store: l, TickRate: 1000 * time.Hour, LeaseTTL: 3000 * time.Hour, Clock: l.clock})
		c := employ(t, e, shell.WorkOptions{Visibility: 24 * time.Hour}, func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
			select {
			case <-time.After(60 * time.Hour):
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		push(t, e, shell.PushOptions{})
		elapse(7*time.Hour + 59*time.Minute + 58*time.Second) // nothing but the extension comes next
		l.by.Store(int64(100 * time.Hour))
		elapse(72 * time.Hour)
		q := gauges(t, e)
		assert.Zero(t, q.TimedOut)
		assert.EqualValues(t, 1, q.Completed)
		c.rest()
	})
}

// gated holds its next transaction back until the gate opens.
type gated struct {
	store.Store
	gate atomic.Pointer[chan struct{}]
}

func (g *gated) Update(ctx context.Context, fn func(store.Tx) error) error {
	if gate := g.gate.Swap(nil); gate != nil {
		<-*gate
	}
	return g.Store.Update(ctx, fn)
}

// The lease is let go of when the handler returns: neither the extension that is under way
// then nor what becomes of it may keep the result from being stored, or Work from ending.
func TestWhatAHandlerGivesIsStoredAlsoWhileItsLeaseIsBeingExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Store: inMemory(t)}
		e := running(t, shell.Options{Store: g, TickRate: 1000 * time.Hour, LeaseTTL: 3000 * time.Hour})
		_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{KeepCompletedMS: 1000 * 3600})
		require.NoError(t, err)
		causes := make(chan error, 1)
		c := employ(t, e, shell.WorkOptions{}, func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
			<-time.After(10*time.Second + 500*time.Millisecond)
			causes <- context.Cause(ctx)
			return json.RawMessage(`"done"`), nil
		})
		pushed := push(t, e, shell.PushOptions{})
		elapse(9 * time.Second)
		gate := make(chan struct{})
		g.gate.Store(&gate)
		elapse(2 * time.Second) // the extension is held back, and the handler has returned
		require.Nil(t, g.gate.Load(), "the extension is under way")
		require.NoError(t, <-causes)
		c.stop()
		close(gate)
		require.NoError(t, <-c.ended)
		done, err := e.Queues().Item(bg(), work, pushed.ID)
		require.NoError(t, err)
		assert.Equal(t, core.ItemCompleted, done.State.Type)
		assert.JSONEq(t, `"done"`, string(done.State.Result))
		assert.EqualValues(t, 1, gauges(t, e).Completed)
	})
}

// meanwhile does something just before somebody reads.
type meanwhile struct {
	store.Store
	do atomic.Pointer[func()]
}

func (m *meanwhile) View(ctx context.Context, fn func(store.ReadTx) error) error {
	if do := m.do.Swap(nil); do != nil {
		(*do)()
	}
	return m.Store.View(ctx, fn)
}

func TestAPushWhoseDedupKeyIsLetGoOfMeanwhileAddsTheItem(t *testing.T) {
	m := &meanwhile{Store: inMemory(t)}
	e := running(t, shell.Options{Store: m})
	first := push(t, e, shell.PushOptions{DedupKey: "d"})
	held := take(t, e, shell.TakeOptions{})
	require.Len(t, held, 1)
	complete := func() { assert.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(held[0]), nil)) }
	m.do.Store(&complete)
	second := push(t, e, shell.PushOptions{DedupKey: "d"})
	assert.NotEqual(t, first.ID, second.ID)
	assert.EqualValues(t, 1, gauges(t, e).Ready)
}

// Whatever is asked while nothing can be stored is answered with the error, and
// has not happened.
func TestNothingIsHalfDoneWhenTheDiskIsFull(t *testing.T) {
	f := &full{Store: inMemory(t)}
	e := running(t, shell.Options{Store: f, TickRate: time.Hour})
	pushed := []core.QueueItem{push(t, e, shell.PushOptions{}), push(t, e, shell.PushOptions{})}
	held := take(t, e, shell.TakeOptions{})
	require.Len(t, held, 1)
	h := shell.HoldOf(held[0])
	_, err := e.Locks().Send(bg(), shell.Scope{}, "l", core.LockAcquire{Name: "l", Holder: "a"})
	require.NoError(t, err)
	p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "m", Manual: &core.ManualPhase{}}}}})
	require.NoError(t, err)
	before := gauges(t, e)
	only := func(_ any, err error) error { return err }
	asks := map[string]func() error{
		"push": func() error { _, _, err := e.Queues().Push(bg(), "ns", "t", "work", shell.PushOptions{}); return err },
		"push into a new queue": func() error {
			_, _, err := e.Queues().Push(bg(), "ns", "t", "new", shell.PushOptions{})
			return err
		},
		"take": func() error {
			return only(e.Queues().Take(bg(), work, shell.TakeOptions{Holder: "x", Wait: time.Hour}))
		},
		"complete": func() error { return e.Queues().Complete(bg(), h, nil) },
		"fail":     func() error { return e.Queues().Fail(bg(), h, "no", false) },
		"extend":   func() error { return only(e.Queues().Extend(bg(), h, 0)) },
		"release":  func() error { return e.Queues().Release(bg(), h) },
		"cancel":   func() error { return e.Queues().CancelItem(bg(), work, pushed[1].ID, "") },
		"purge":    func() error { return only(e.Queues().Purge(bg(), work, nil, 0, "")) },
		"configure": func() error {
			return only(e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{Concurrency: 7}))
		},
		"pause": func() error { return only(e.Queues().Pause(bg(), work, "me", "")) },
		"pipeline": func() error {
			return only(e.Pipelines().Create(bg(), core.PipelineSpec{Definition: p.Definition}))
		},
		"phase": func() error { return only(e.Pipelines().Send(bg(), p.ID, core.PhaseComplete{Phase: "m"})) },
		"task":  func() error { return only(e.Tasks().Create(bg(), core.TaskSpec{})) },
		"lock":  func() error { return only(e.Locks().Send(bg(), shell.Scope{}, "l", core.LockRelease{Holder: "a"})) },
		"semaphore": func() error {
			return only(e.Semaphores().Send(bg(), shell.Scope{}, "s", core.SemaphoreConfigure{Name: "s", Slots: 1}))
		},
		"worker": func() error {
			return only(e.Workers().Send(bg(), shell.Scope{}, "w", core.WorkerConfigure{Spec: core.WorkerSpec{Name: "w", Queue: "q", Do: core.WorkerDo{Run: run("count")}}}))
		},
		"event": func() error {
			return only(e.Subscribers().Send(bg(), shell.Scope{}, core.BusPublish{Kind: effects.Custom("a", "b"), Source: effects.EventSource{Component: "test"}}))
		},
	}
	f.is.Store(true)
	for name, ask := range asks {
		require.ErrorContains(t, ask(), "not stored: no space left on device", name)
	}
	f.is.Store(false)
	assert.Equal(t, before, gauges(t, e))
	_, err = e.Queues().Get(bg(), "ns", "t", "new")
	require.ErrorIs(t, err, shell.ErrNotFound)
	l, err := e.Locks().Get(bg(), shell.Scope{}, "l")
	require.NoError(t, err)
	assert.Equal(t, "a", l.Holder)
	p, err = e.Pipelines().Get(bg(), p.ID)
	require.NoError(t, err)
	assert.True(t, atPhase("m")(p))
	all, _, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{})
	require.NoError(t, err)
	assert.Len(t, all, 1)
	require.NoError(t, e.Queues().Complete(bg(), h, nil), "and all goes on")
}

func TestATakerSeesWithinAMomentWhatAnotherInstanceOnTheStoreHasPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		a := running(t, shell.Options{Store: st, TickRate: time.Hour})
		b := running(t, shell.Options{Store: st, TickRate: time.Hour})
		got := make(chan []core.QueueItem, 1)
		go func() { got <- take(t, a, shell.TakeOptions{Wait: time.Minute}) }()
		synctest.Wait()
		begin := time.Now()
		pushed := push(t, b, shell.PushOptions{})
		items := <-got
		require.Len(t, items, 1)
		assert.Equal(t, pushed.ID, items[0].ID)
		assert.LessOrEqual(t, time.Since(begin), 5*time.Second) // of the bubble
	})
}

func TestATakerIsToldOfTheStopAtOnceAlsoWhileToolsStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, stop := start(t, shell.Options{Store: inMemory(t), Tools: tools(newGate()), TickRate: time.Hour})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		told := make(chan time.Time, 1)
		go func() {
			_, err := e.Queues().Take(bg(), work, shell.TakeOptions{Holder: "w", Wait: time.Hour})
			assert.ErrorIs(t, err, shell.ErrStopped)
			told <- time.Now()
		}()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, stop())
		assert.Positive(t, time.Since(begin), "it did wait for what runs")
		assert.Equal(t, begin, <-told)
	})
}

func TestATakeWaitsForAsLongAsItSaysAndNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		push(t, e, shell.PushOptions{Delay: time.Hour})
		for _, wait := range []time.Duration{0, time.Second, 7 * time.Second, time.Minute} {
			begin := time.Now()
			assert.Empty(t, take(t, e, shell.TakeOptions{Wait: wait}))
			assert.Equal(t, wait, time.Since(begin))
		}
	})
}

func TestAWorkerMayHaveMorePlacesThanATakeGivesItems(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		const items = core.MaxQueueTake + 10
		var now, most atomic.Int64
		c := employ(t, e, shell.WorkOptions{Concurrency: 2 * core.MaxQueueTake}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
			raise(&most, now.Add(1))
			<-time.After(time.Second)
			now.Add(-1)
			return nil, nil
		})
		for range items {
			push(t, e, shell.PushOptions{Delay: time.Second})
		}
		elapse(3 * time.Second)
		assert.EqualValues(t, items, most.Load())
		assert.EqualValues(t, items, gauges(t, e).Completed)
		c.rest()
	})
}
