package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// crew is a call of Work that a test stops.
type crew struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

func employ(t *testing.T, e *shell.Engine, o shell.WorkOptions, h shell.Handler) *crew {
	t.Helper()
	ctx, stop := context.WithCancel(bg())
	c := &crew{t: t, stop: stop, ended: make(chan error, 1)}
	go func() { c.ended <- e.Queues().Work(ctx, work, h, o) }()
	return c
}

// rest stops the worker, and waits for it.
func (c *crew) rest() {
	c.t.Helper()
	c.stop()
	require.NoError(c.t, <-c.ended)
}

func gauges(t *testing.T, e *shell.Engine) core.Queue {
	t.Helper()
	q, err := e.Queues().Get(bg(), "ns", "t", "work")
	require.NoError(t, err)
	return q
}

func inBubble(t *testing.T, run func(t *testing.T, e *shell.Engine)) {
	synctest.Test(t, func(t *testing.T) {
		run(t, running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour}))
	})
}

// raise makes a number at least n.
func raise(number *atomic.Int64, n int64) {
	for {
		has := number.Load()
		if n <= has || number.CompareAndSwap(has, n) {
			return
		}
	}
}

func TestNoMoreHandlersRunThanTheConcurrencyAndAllItemsAreDone(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{KeepCompletedMS: 1000 * 3600})
		require.NoError(t, err)
		var now, most, seen atomic.Int64
		c := employ(t, e, shell.WorkOptions{Concurrency: 3, Prefetch: 4}, func(_ context.Context, i core.QueueItem) (json.RawMessage, error) {
			raise(&most, now.Add(1))
			defer now.Add(-1)
			<-time.After(time.Second)
			seen.Add(1)
			return json.RawMessage(`{"done": ` + string(i.Data) + `}`), nil
		})
		for n := range 20 {
			push(t, e, shell.PushOptions{Data: json.RawMessage(fmt.Sprint(n))})
		}
		elapse(7 * time.Second) // 20 items, 3 at a time
		assert.EqualValues(t, 20, seen.Load())
		assert.EqualValues(t, 3, most.Load())
		c.rest()
		items, _, err := e.Queues().Items(bg(), work, "completed", shell.Page{})
		require.NoError(t, err)
		require.Len(t, items, 20)
		for _, i := range items { // which of those that were taken begins first is nobody's promise
			assert.JSONEq(t, `{"done": `+string(i.Data)+`}`, string(i.State.Result))
			assert.EqualValues(t, 1, i.Attempts)
		}
	})
}

func TestTheLeaseOfWhatIsWorkedOnIsExtended(t *testing.T) {
	for name, o := range map[string]shell.WorkOptions{"of the queue": {}, "of the worker": {Visibility: 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *shell.Engine) {
				var runs atomic.Int64
				slow := func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
					runs.Add(1)
					select {
					case <-time.After(10 * time.Minute):
						return nil, nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}
				push(t, e, shell.PushOptions{})
				a, b := employ(t, e, o, slow), employ(t, e, o, slow)
				elapse(time.Minute)
				_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{VisibilityTimeoutMS: 2000})
				require.NoError(t, err)
				elapse(10 * time.Minute)
				assert.EqualValues(t, 1, runs.Load())
				q := gauges(t, e)
				assert.EqualValues(t, 1, q.Completed)
				assert.Zero(t, q.TimedOut)
				a.rest()
				b.rest()
			})
		})
	}
}

func TestTheContextOfAHandlerEndsWhenItsLeaseIsLostAndItsResultIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		causes := make(chan error, 1)
		c := employ(t, e, shell.WorkOptions{Holder: "w"}, func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return json.RawMessage(`"late"`), nil
		})
		pushed := push(t, e, shell.PushOptions{})
		synctest.Wait()
		held, err := e.Queues().Item(bg(), work, pushed.ID)
		require.NoError(t, err)
		c.stop() // it is not to take the item again
		require.NoError(t, e.Queues().Release(bg(), shell.HoldOf(held)))
		require.Len(t, take(t, e, shell.TakeOptions{Holder: "another"}), 1)
		elapse(10 * time.Second) // a third of the visibility timeout
		require.ErrorIs(t, <-causes, shell.ErrLeaseLost)
		require.NoError(t, <-c.ended)
		now, err := e.Queues().Item(bg(), work, pushed.ID)
		require.NoError(t, err)
		assert.Equal(t, "another", now.State.Holder)
	})
}

func TestAPanicFailsTheAttemptAndTheWorkerGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		c := employ(t, e, shell.WorkOptions{}, func(_ context.Context, i core.QueueItem) (json.RawMessage, error) {
			switch i.Attempts {
			case 1:
				panic("boom")
			case 2:
				runtime.Goexit()
			}
			return nil, nil
		})
		push(t, e, shell.PushOptions{})
		synctest.Wait()
		q := gauges(t, e)
		assert.EqualValues(t, 2, q.Failed)
		assert.EqualValues(t, 1, q.Completed)
		c.rest()
	})
}

func TestAnErrorIsTriedAgainUntilTheAttemptsAreUsedUpAndAPermanentOneIsNot(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		var runs sync.Map
		count := func(i core.QueueItem) *atomic.Int64 {
			n, _ := runs.LoadOrStore(string(i.Data), new(atomic.Int64))
			return n.(*atomic.Int64)
		}
		c := employ(t, e, shell.WorkOptions{Concurrency: 2}, func(_ context.Context, i core.QueueItem) (json.RawMessage, error) {
			count(i).Add(1)
			switch string(i.Data) {
			case `"permanent"`:
				return nil, fmt.Errorf("wrapped: %w", shell.Permanent(errors.New("no such user")))
			case `"no JSON"`:
				return json.RawMessage(`{`), nil
			}
			return nil, errors.New("try later")
		})
		for _, data := range []string{`"permanent"`, `"no JSON"`, `"passing"`} {
			push(t, e, shell.PushOptions{Data: json.RawMessage(data)})
		}
		synctest.Wait()
		c.rest()
		dead, _, err := e.Queues().Items(bg(), work, "dead", shell.Page{})
		require.NoError(t, err)
		require.Len(t, dead, 3)
		reasons := map[string]string{}
		for _, i := range dead {
			reasons[string(i.Data)] = i.State.Reason
		}
		assert.Equal(t, map[string]string{
			`"permanent"`: "wrapped: no such user", `"no JSON"`: "the handler's result is not valid JSON", `"passing"`: "try later",
		}, reasons)
		for data, want := range map[string]int64{`"permanent"`: 1, `"no JSON"`: 1, `"passing"`: 3} {
			assert.Equal(t, want, count(core.QueueItem{Data: json.RawMessage(data)}).Load(), data)
		}
	})
}

func TestAStopWaitsForHandlersAndGivesBackWhatWasNotBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		var begun atomic.Int64
		c := employ(t, e, shell.WorkOptions{Concurrency: 2, Prefetch: 5, StopTimeout: time.Minute}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
			begun.Add(1)
			<-time.After(20 * time.Second)
			return nil, nil
		})
		for range 10 {
			push(t, e, shell.PushOptions{})
		}
		elapse(time.Second)
		q := gauges(t, e)
		require.EqualValues(t, 7, q.InFlight)
		begin := time.Now()
		c.rest()
		assert.Equal(t, 19*time.Second, time.Since(begin))
		q = gauges(t, e)
		assert.EqualValues(t, 2, begun.Load())
		assert.EqualValues(t, 2, q.Completed)
		assert.EqualValues(t, 8, q.Ready)
		assert.Zero(t, q.InFlight)
		for _, i := range take(t, e, shell.TakeOptions{Max: 8}) {
			assert.EqualValues(t, 1, i.Attempts, "what was given back does not count")
		}
	})
}

func TestAHandlerThatOutlivesTheStopTimeoutIsToldAndItsItemGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		c := employ(t, e, shell.WorkOptions{StopTimeout: time.Minute}, func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		push(t, e, shell.PushOptions{})
		synctest.Wait()
		begin := time.Now()
		c.rest()
		assert.Equal(t, time.Minute, time.Since(begin))
		q := gauges(t, e)
		assert.EqualValues(t, 1, q.Ready)
		assert.Zero(t, q.Failed)
	})
}

func TestWorkEndsWithTheEngineAlsoWhileAllPlacesAreInUse(t *testing.T) {
	for _, items := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			e, stop := start(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
			c := employ(t, e, shell.WorkOptions{StopTimeout: time.Hour}, func(ctx context.Context, _ core.QueueItem) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			for range items {
				push(t, e, shell.PushOptions{})
			}
			synctest.Wait()
			begin := time.Now()
			require.NoError(t, stop())
			require.ErrorIs(t, <-c.ended, shell.ErrStopped)
			assert.Zero(t, time.Since(begin))
			require.ErrorIs(t, e.Queues().Work(bg(), work, nil, shell.WorkOptions{}), shell.ErrStopped, "and does not begin after it")
		})
	}
}

func TestAWorkerWaitsForAQueueThatDoesNotExistYet(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		done := make(chan time.Time, 1)
		c := employ(t, e, shell.WorkOptions{}, func(context.Context, core.QueueItem) (json.RawMessage, error) {
			done <- time.Now()
			return nil, nil
		})
		elapse(time.Minute + 500*time.Millisecond) // just after the first take gave up
		begin := time.Now()
		push(t, e, shell.PushOptions{})
		assert.Equal(t, begin, <-done)
		c.rest()
	})
}

func TestOptionsAndTakesThatAreWrongEndWorkAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		push(t, e, shell.PushOptions{})
		for want, o := range map[string]shell.WorkOptions{
			"Concurrency is -1":    {Concurrency: -1},
			"Concurrency is 4097":  {Concurrency: shell.MaxWorkConcurrency + 1},
			"Prefetch is -1":       {Prefetch: -1},
			"must not be negative": {Visibility: -1},
			"visibility_ms":        {Visibility: 365 * 24 * time.Hour},
			"holder":               {Holder: "a\nb"},
		} {
			require.ErrorContains(t, e.Queues().Work(bg(), work, nil, o), want)
		}
	})
}

func TestTwoWorkersNeverHoldOneItem(t *testing.T) {
	inBubble(t, func(t *testing.T, e *shell.Engine) {
		var mu sync.Mutex
		held, twice, done := map[uuid.UUID]bool{}, 0, 0
		h := func(_ context.Context, i core.QueueItem) (json.RawMessage, error) {
			mu.Lock()
			if held[i.ID] {
				twice++
			}
			held[i.ID] = true
			mu.Unlock()
			<-time.After(time.Duration(1+i.Attempts) * time.Second)
			mu.Lock()
			defer mu.Unlock()
			held[i.ID] = false
			if i.Attempts == 1 && i.Priority%3 == 0 {
				return nil, errors.New("once more")
			}
			done++
			return nil, nil
		}
		crews := []*crew{employ(t, e, shell.WorkOptions{Concurrency: 4}, h), employ(t, e, shell.WorkOptions{Concurrency: 4, Prefetch: 2}, h)}
		for n := range 60 {
			push(t, e, shell.PushOptions{Priority: int32(n)})
		}
		elapse(time.Minute)
		for _, c := range crews {
			c.rest()
		}
		assert.Equal(t, 60, done)
		assert.Zero(t, twice)
	})
}

// lingering answers only a while after it has committed.
type lingering struct {
	store.Store
	take atomic.Int64
}

func (l *lingering) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := l.Store.Update(ctx, fn)
	<-time.After(time.Duration(l.take.Load()))
	return err
}

func TestWhatIsTakenForACallerWhoGoesMeanwhileIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &lingering{Store: inMemory(t)}
		e := running(t, shell.Options{Store: st, TickRate: time.Hour})
		pushed := push(t, e, shell.PushOptions{})
		synctest.Wait()
		st.take.Store(int64(time.Second))
		ctx, cancel := context.WithCancel(bg())
		gone := make(chan error, 1)
		go func() {
			items, err := e.Queues().Take(ctx, work, shell.TakeOptions{Holder: "gone", Wait: time.Minute})
			assert.Empty(t, items)
			gone <- err
		}()
		elapse(500 * time.Millisecond)
		held, err := e.Queues().Item(bg(), work, pushed.ID)
		require.NoError(t, err)
		require.Equal(t, "gone", held.State.Holder, "it is taken, and not yet answered")
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		st.take.Store(0)
		synctest.Wait()
		items := take(t, e, shell.TakeOptions{})
		require.Len(t, items, 1)
		assert.EqualValues(t, 1, items[0].Attempts)
	})
}
