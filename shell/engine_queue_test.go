package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
)

var work = core.QueueRef("ns", "t", "work")

func push(t testing.TB, e *shell.Engine, o shell.PushOptions) core.QueueItem {
	t.Helper()
	i, duplicate, err := e.Queues().Push(bg(), "ns", "t", "work", o)
	require.NoError(t, err)
	require.False(t, duplicate)
	return i
}

func take(t testing.TB, e *shell.Engine, o shell.TakeOptions) []core.QueueItem {
	t.Helper()
	if o.Holder == "" {
		o.Holder = "w"
	}
	items, err := e.Queues().Take(bg(), work, o)
	assert.NoError(t, err) // also beside the test's own goroutine
	return items
}

func TestItemsSurviveARestartInTheirOrderAndAHolderGoesOn(t *testing.T) {
	st := inBolt(t)
	e, stop := start(t, shell.Options{Store: st})
	first := push(t, e, shell.PushOptions{Data: json.RawMessage(`{"n":1}`), DedupKey: "d"})
	second := push(t, e, shell.PushOptions{Data: json.RawMessage(`{"n":2}`)})
	urgent := push(t, e, shell.PushOptions{Priority: 5})
	again, duplicate, err := e.Queues().Push(bg(), "ns", "t", "work", shell.PushOptions{DedupKey: "d"})
	require.NoError(t, err)
	assert.True(t, duplicate)
	assert.Equal(t, first.ID, again.ID)
	held := take(t, e, shell.TakeOptions{})
	require.Len(t, held, 1)
	assert.Equal(t, urgent.ID, held[0].ID)
	require.NoError(t, stop())
	verify(t, st)

	e, stop = start(t, shell.Options{Store: st})
	require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(held[0]), nil))
	err = e.Queues().Complete(bg(), shell.HoldOf(held[0]), nil)
	require.ErrorIs(t, err, shell.ErrNotFound, "completing twice")
	items := take(t, e, shell.TakeOptions{Max: 10})
	require.Len(t, items, 2)
	assert.Equal(t, []uuid.UUID{first.ID, second.ID}, []uuid.UUID{items[0].ID, items[1].ID})
	assert.JSONEq(t, `{"n":1}`, string(items[0].Data))
	stranger := shell.HoldOf(items[0])
	stranger.Holder = "somebody else"
	var r *shell.Refusal
	require.ErrorAs(t, e.Queues().Complete(bg(), stranger, nil), &r)
	assert.Equal(t, effects.CodeConflict, r.Code)
	require.NoError(t, e.Queues().Fail(bg(), shell.HoldOf(items[0]), "no luck", true))
	require.NoError(t, e.Queues().Release(bg(), shell.HoldOf(items[1])))
	dead, _, err := e.Queues().Items(bg(), work, "dead", shell.Page{})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.Equal(t, "no luck", dead[0].State.Reason)
	moved, err := e.Queues().Redrive(bg(), work, uuid.Nil, 0)
	require.NoError(t, err)
	assert.Equal(t, core.QueueMoved{Moved: 1}, moved)
	q, err := e.Queues().Get(bg(), "ns", "t", "work")
	require.NoError(t, err)
	assert.EqualValues(t, 2, q.Ready)
	require.NoError(t, stop())
	verify(t, st)
}

func TestATakerIsWokenByAPushAndATimeOutGivesTheItemToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
		begin := time.Now()
		var wg sync.WaitGroup
		got := make(chan core.QueueItem, 2)
		for n := range 2 {
			wg.Go(func() {
				for _, i := range take(t, e, shell.TakeOptions{Holder: fmt.Sprint(n), Wait: 2 * time.Minute}) {
					got <- i
				}
			})
		}
		synctest.Wait()
		pushed := push(t, e, shell.PushOptions{})
		synctest.Wait()
		first := <-got
		assert.Equal(t, pushed.ID, first.ID)
		assert.Zero(t, time.Since(begin), "it did not wait for a poll")
		wg.Wait()
		second := <-got
		assert.Equal(t, pushed.ID, second.ID)
		assert.NotEqual(t, first.State.Holder, second.State.Holder)
		assert.EqualValues(t, 2, second.Attempts)
		assert.Equal(t, 30*time.Second, time.Since(begin), "the visibility timeout")
		require.Error(t, e.Queues().Complete(bg(), shell.HoldOf(first), nil), "too late")
		require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(second), nil))
		assert.Empty(t, take(t, e, shell.TakeOptions{Wait: time.Minute}))
		assert.Equal(t, 90*time.Second, time.Since(begin))
	})
}

func TestARateLetsWaitingTakersGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
		_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{Rate: core.QueueRate{Limit: 2, PerMS: 1000}})
		require.NoError(t, err)
		for range 5 {
			push(t, e, shell.PushOptions{})
		}
		begin := time.Now()
		for n := range 5 {
			require.Len(t, take(t, e, shell.TakeOptions{Max: 3, Wait: time.Minute}), 1)
			assert.Equal(t, time.Duration(n)*500*time.Millisecond, time.Since(begin))
		}
	})
}

// Many operations on several queues, in many batches, with the journal cut off
// behind them, while items from before the cut still wait.
func TestWhatManyQueuesDidReplaysByteForByteAlsoFromACutJournal(t *testing.T) {
	for _, keep := range []time.Duration{0, 7 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			st := inMemory(t)
			e := running(t, shell.Options{Store: st, TickRate: time.Hour, JournalRetention: keep})
			rnd := rand.New(rand.NewPCG(1, 2))
			_, err := e.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{
				Retry: core.Retry{MaxAttempts: 2, BackoffMS: 60_000}, DeadLetterQueue: "dlq", KeyConcurrency: 1, KeyRate: core.QueueRate{Limit: 20, PerMS: 3_600_000},
				KeepCompletedMS: 3_600_000, DedupWindowMS: 4 * 3_600_000, VisibilityTimeoutMS: 600_000,
			})
			require.NoError(t, err)
			push(t, e, shell.PushOptions{Delay: 90 * 24 * time.Hour})
			push(t, e, shell.PushOptions{Delay: 45 * time.Hour, Key: "a"})
			push(t, e, shell.PushOptions{Priority: -9, Data: json.RawMessage(`"last"`)})
			for range 50 {
				for range 1 + rnd.IntN(12) {
					_, _, err := e.Queues().Push(bg(), "ns", "t", "work", shell.PushOptions{
						Key: []string{"", "", "a", "b"}[rnd.IntN(4)], Priority: int32(rnd.IntN(3)),
						Delay: time.Duration(rnd.IntN(3)) * time.Hour, DedupKey: []string{"", "", "x", "y"}[rnd.IntN(4)],
					})
					require.NoError(t, err)
				}
				for _, i := range take(t, e, shell.TakeOptions{Max: 8}) {
					switch rnd.IntN(4) {
					case 0:
						require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(i), json.RawMessage(`{"ok": true}`)))
					case 1:
						require.NoError(t, e.Queues().Fail(bg(), shell.HoldOf(i), "boom", false))
					case 2:
						require.NoError(t, e.Queues().Release(bg(), shell.HoldOf(i)))
					}
				}
				if rnd.IntN(5) == 0 {
					_, _ = e.Queues().Redrive(bg(), core.QueueRef("ns", "t", "dlq"), uuid.Nil, 3) // it may not be there yet
				}
				elapse(time.Hour)
			}
			rep, err := replay.Verify(bg(), st, replay.Options{})
			require.NoError(t, err)
			assert.Empty(t, rep.Divergences)
			assert.Equal(t, keep > 0, rep.FirstBatch > 1)
			assert.Greater(t, rep.Inputs, uint64(50))
			assert.Equal(t, keep > 0, rep.Untouched > 0, "what the journal does not touch any more")
		})
	}
}

func TestAnOperatorSeesPausesPurgesAndDeletesAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
		var pushed []uuid.UUID
		for n := range 5 {
			pushed = append(pushed, push(t, e, shell.PushOptions{Data: json.RawMessage(fmt.Sprint(n))}).ID)
		}
		push(t, e, shell.PushOptions{Delay: time.Hour, Key: "k"})

		var listed []uuid.UUID
		for p := (shell.Page{Limit: 2}); ; {
			items, next, err := e.Queues().Items(bg(), work, "ready", p)
			require.NoError(t, err)
			for _, i := range items {
				listed = append(listed, i.ID)
			}
			if p.Token = next; next == "" {
				break
			}
		}
		assert.Equal(t, pushed, listed, "in the order in which they will be taken")
		_, _, err := e.Queues().Items(bg(), work, "ready", shell.Page{Token: "forged"})
		require.ErrorIs(t, err, shell.ErrPageToken)
		_, _, err = e.Queues().Items(bg(), work, "odd", shell.Page{})
		require.ErrorContains(t, err, `state: "odd" is unknown`)
		_, err = e.Queues().Item(bg(), core.QueueRef("", "", "other"), pushed[0])
		require.ErrorIs(t, err, shell.ErrNotFound, "the item of another queue")

		_, err = e.Queues().Pause(bg(), work, "ann", "holidays")
		require.NoError(t, err)
		paused := true
		queues, _, err := e.Queues().List(bg(), shell.QueueFilter{Scope: &shell.Scope{Namespace: "ns", Tenant: "t"}, Paused: &paused}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, queues, 1)
		assert.EqualValues(t, 5, queues[0].Ready)
		got := make(chan []core.QueueItem)
		go func() { got <- take(t, e, shell.TakeOptions{Max: 2, Wait: time.Minute}) }()
		synctest.Wait()
		begin := time.Now()
		_, err = e.Queues().Resume(bg(), work)
		require.NoError(t, err)
		held := <-got
		assert.Len(t, held, 2)
		assert.Zero(t, time.Since(begin), "who waits is woken")

		i, err := e.Queues().Extend(bg(), shell.HoldOf(held[0]), time.Hour)
		require.NoError(t, err)
		assert.Equal(t, effects.TimeOf(time.Now().Add(time.Hour)), i.State.Until)
		require.NoError(t, e.Queues().CancelItem(bg(), work, pushed[4], "not needed"))
		moved, err := e.Queues().Purge(bg(), work, nil, 2, "")
		require.NoError(t, err)
		assert.Equal(t, core.QueueMoved{Moved: 2, More: true}, moved)
		require.ErrorContains(t, e.Queues().Delete(bg(), work), "holds 3 items")
		require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(held[0]), nil))
		require.NoError(t, e.Queues().Complete(bg(), shell.HoldOf(held[1]), nil))
		moved, err = e.Queues().Purge(bg(), work, nil, 0, "")
		require.NoError(t, err)
		assert.Equal(t, core.QueueMoved{Moved: 1}, moved)
		moved, err = e.Queues().Purge(bg(), work, nil, 0, "")
		require.NoError(t, err)
		assert.Zero(t, moved, "nothing to purge is no error")
		require.NoError(t, e.Queues().Delete(bg(), work))
		_, err = e.Queues().Get(bg(), "ns", "t", "work")
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Queues().Take(bg(), work, shell.TakeOptions{Holder: "w"})
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestATakerThatGivesUpLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
		ctx, cancel := context.WithTimeout(bg(), 2*time.Second)
		defer cancel()
		_, err := e.Queues().Take(ctx, work, shell.TakeOptions{Holder: "impatient", Wait: time.Hour})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got := make(chan []core.QueueItem)
		go func() { got <- take(t, e, shell.TakeOptions{Wait: time.Minute}) }()
		synctest.Wait()
		begin := time.Now()
		push(t, e, shell.PushOptions{})
		assert.Len(t, <-got, 1)
		assert.Zero(t, time.Since(begin))
	})
}
