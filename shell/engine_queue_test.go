package shell_test

import (
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
	i, duplicate, err := e.Push(bg(), "ns", "t", "work", o)
	require.NoError(t, err)
	require.False(t, duplicate)
	return i
}

func take(t testing.TB, e *shell.Engine, o shell.TakeOptions) []core.QueueItem {
	t.Helper()
	if o.Holder == "" {
		o.Holder = "w"
	}
	items, err := e.Take(bg(), work, o)
	require.NoError(t, err)
	return items
}

func TestItemsSurviveARestartInTheirOrderAndAHolderGoesOn(t *testing.T) {
	st := inBolt(t)
	e, stop := start(t, shell.Options{Store: st})
	first := push(t, e, shell.PushOptions{Data: json.RawMessage(`{"n":1}`), DedupKey: "d"})
	second := push(t, e, shell.PushOptions{Data: json.RawMessage(`{"n":2}`)})
	urgent := push(t, e, shell.PushOptions{Priority: 5})
	again, duplicate, err := e.Push(bg(), "ns", "t", "work", shell.PushOptions{DedupKey: "d"})
	require.NoError(t, err)
	assert.True(t, duplicate)
	assert.Equal(t, first.ID, again.ID)
	held := take(t, e, shell.TakeOptions{})
	require.Len(t, held, 1)
	assert.Equal(t, urgent.ID, held[0].ID)
	require.NoError(t, stop())
	verify(t, st)

	e, stop = start(t, shell.Options{Store: st})
	require.NoError(t, e.Complete(bg(), shell.HoldOf(held[0]), nil))
	err = e.Complete(bg(), shell.HoldOf(held[0]), nil)
	require.ErrorIs(t, err, shell.ErrNotFound, "completing twice")
	items := take(t, e, shell.TakeOptions{Max: 10})
	require.Len(t, items, 2)
	assert.Equal(t, []uuid.UUID{first.ID, second.ID}, []uuid.UUID{items[0].ID, items[1].ID})
	assert.JSONEq(t, `{"n":1}`, string(items[0].Data))
	stranger := shell.HoldOf(items[0])
	stranger.Holder = "somebody else"
	var r *shell.Refusal
	require.ErrorAs(t, e.Complete(bg(), stranger, nil), &r)
	assert.Equal(t, effects.CodeConflict, r.Code)
	require.NoError(t, e.Fail(bg(), shell.HoldOf(items[0]), "no luck", true))
	require.NoError(t, e.Release(bg(), shell.HoldOf(items[1])))
	dead, _, err := e.QueueItems(bg(), work, "dead", shell.Page{})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.Equal(t, "no luck", dead[0].State.Reason)
	moved, err := e.Redrive(bg(), work, uuid.Nil, 0)
	require.NoError(t, err)
	assert.Equal(t, core.QueueMoved{Moved: 1}, moved)
	q, err := e.Queue(bg(), "ns", "t", "work")
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
		require.Error(t, e.Complete(bg(), shell.HoldOf(first), nil), "too late")
		require.NoError(t, e.Complete(bg(), shell.HoldOf(second), nil))
		assert.Empty(t, take(t, e, shell.TakeOptions{Wait: time.Minute}))
		assert.Equal(t, 90*time.Second, time.Since(begin))
	})
}

func TestARateLetsWaitingTakersGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), TickRate: time.Hour})
		_, err := e.ConfigureQueue(bg(), "ns", "t", "work", core.QueueConfig{Rate: core.QueueRate{Limit: 2, PerMS: 1000}})
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
			_, err := e.ConfigureQueue(bg(), "ns", "t", "work", core.QueueConfig{
				Retry: core.Retry{MaxAttempts: 2, BackoffMS: 60_000}, DeadLetterQueue: "dlq", KeyConcurrency: 1, KeyRate: core.QueueRate{Limit: 20, PerMS: 3_600_000},
				KeepCompletedMS: 3_600_000, DedupWindowMS: 4 * 3_600_000, VisibilityTimeoutMS: 600_000,
			})
			require.NoError(t, err)
			push(t, e, shell.PushOptions{Delay: 90 * 24 * time.Hour})
			push(t, e, shell.PushOptions{Delay: 45 * time.Hour, Key: "a"})
			push(t, e, shell.PushOptions{Priority: -9, Data: json.RawMessage(`"last"`)})
			for range 50 {
				for range 1 + rnd.IntN(12) {
					_, _, err := e.Push(bg(), "ns", "t", "work", shell.PushOptions{
						Key: []string{"", "", "a", "b"}[rnd.IntN(4)], Priority: int32(rnd.IntN(3)),
						Delay: time.Duration(rnd.IntN(3)) * time.Hour, DedupKey: []string{"", "", "x", "y"}[rnd.IntN(4)],
					})
					require.NoError(t, err)
				}
				for _, i := range take(t, e, shell.TakeOptions{Max: 8}) {
					switch rnd.IntN(4) {
					case 0:
						require.NoError(t, e.Complete(bg(), shell.HoldOf(i), json.RawMessage(`{"ok": true}`)))
					case 1:
						require.NoError(t, e.Fail(bg(), shell.HoldOf(i), "boom", false))
					case 2:
						require.NoError(t, e.Release(bg(), shell.HoldOf(i)))
					}
				}
				if rnd.IntN(5) == 0 {
					_, _ = e.Redrive(bg(), core.QueueRef("ns", "t", "dlq"), uuid.Nil, 3) // it may not be there yet
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
