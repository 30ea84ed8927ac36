package core_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// announces reports whether one of the effects tells that items are ready.
func announces(effs []effects.Effect, action string) bool {
	return slices.ContainsFunc(effs, func(e effects.Effect) bool {
		emit, ok := e.(effects.Emit)
		return ok && emit.Event.Kind == effects.EventKind{Category: "queue", Action: action}
	})
}

func TestWhoWasGivenLessThanHeAskedForIsToldWhenTheLimitsGrow(t *testing.T) {
	slow := core.QueueRate{Limit: 1, PerMS: 24 * 60 * 60 * 1000}
	for name, row := range map[string]struct{ was, is core.QueueConfig }{
		"concurrency":       {core.QueueConfig{Concurrency: 1}, core.QueueConfig{Concurrency: 2}},
		"rate":              {core.QueueConfig{Rate: slow}, core.QueueConfig{}},
		"key rate":          {core.QueueConfig{KeyRate: slow}, core.QueueConfig{}},
		"a faster key rate": {core.QueueConfig{KeyRate: slow}, core.QueueConfig{KeyRate: core.QueueRate{Limit: 100}}},
	} {
		clock := core.Clock{Now: start}
		q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: row.was}, clock)
		for range 3 {
			q, _ = applied(t, q, core.QueuePush{Name: "q", Key: "k"}, clock)
		}
		owner := core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(8)}, N: 2}
		q, effs := applied(t, q, core.QueueTake{Holder: "w", Max: 2, Owner: owner}, clock)
		require.Len(t, takenBy(step{effs: effs}), 1, name)
		clock.Now = clock.Now.Add(time.Second)
		q, effs = applied(t, q, core.QueueConfigure{Config: row.is}, clock)
		assert.True(t, announces(effs, "ready"), name)
		_, effs = applied(t, q, core.QueueTake{Holder: "w", Max: 1, Owner: owner}, clock)
		assert.Len(t, takenBy(step{effs: effs}), 1, name)
	}
}

func TestAConfigurationWakesNobodyForNothing(t *testing.T) {
	clock := core.Clock{Now: start}
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q"}, clock)
	_, effs := applied(t, q, core.QueueConfigure{}, clock)
	assert.Empty(t, effs, "nothing is ready")
	q, _ = applied(t, q, core.QueuePush{Name: "q"}, clock)
	q, _ = applied(t, q, core.QueuePause{}, clock)
	_, effs = applied(t, q, core.QueueConfigure{Config: core.QueueConfig{Concurrency: 9}}, clock)
	assert.Empty(t, effs, "it is paused")
}

// More keys wait for the old rate than one event looks at: those that it leaves run
// with the takes that follow.
func TestEveryKeyThatTheOldRateHeldBackRunsOnceItIsGone(t *testing.T) {
	const keys = 300
	clock := core.Clock{Now: start}
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{KeyRate: core.QueueRate{Limit: 1, PerMS: 24 * 60 * 60 * 1000}}}, clock)
	for n := range keys {
		for range 2 {
			clock.Step++
			q, _ = applied(t, q, core.QueuePush{Name: "q", Key: fmt.Sprint(n)}, clock)
		}
	}
	taken := 0
	take := func() int {
		next, effs := q.Apply(core.QueueTake{Holder: "w", Max: 256, VisibilityMS: core.MaxVisibilityMS}, clock)
		if refusal(effs) != nil {
			return 0
		}
		q = next
		return len(takenBy(step{effs: effs}))
	}
	for n := take(); n > 0; n = take() {
		taken += n
	}
	require.Equal(t, keys, taken, "one of each key")
	clock.Now = clock.Now.Add(time.Second)
	q, _ = applied(t, q, core.QueueConfigure{}, clock)
	assert.EqualValues(t, 128, q.Ready, "one event looks at no more")
	for n := take(); n > 0; n = take() {
		taken += n
	}
	assert.Equal(t, 2*keys, taken)
}

// A slower rate holds from now on: what it says is later than what was said before.
func TestASlowerRateOfKeysHoldsForThoseThatWait(t *testing.T) {
	clock := core.Clock{Now: start}
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{KeyRate: core.QueueRate{Limit: 1, PerMS: 10_000, Burst: 3}}}, clock)
	for range 3 {
		q, _ = applied(t, q, core.QueuePush{Name: "q", Key: "k"}, clock)
	}
	q, _ = applied(t, q, core.QueueTake{Holder: "w", Max: 2, VisibilityMS: core.MaxVisibilityMS}, clock)
	require.EqualValues(t, 1, q.Ready)
	q, _ = applied(t, q, core.QueueConfigure{Config: core.QueueConfig{KeyRate: core.QueueRate{Limit: 1, PerMS: 10_000}}}, clock)
	_, effs := q.Apply(core.QueueTake{Holder: "w"}, clock)
	require.NotNil(t, refusal(effs), "the burst is gone")
}

// Whatever a record holds and the clock says, what is stored of a rate can be read
// again.
func TestTheTimesOfARateAreStoredAlsoAtTheEndOfTime(t *testing.T) {
	rate := core.QueueRate{Limit: 1, PerMS: 30 * 24 * 60 * 60 * 1000}
	for _, tat := range []int64{0, math.MinInt64, math.MaxInt64, -1, int64(effects.MaxTime) * 1000} {
		for _, now := range []core.Time{effects.MinTime, start, effects.MaxTime - 1, effects.MaxTime} {
			clock := core.Clock{Now: now}
			q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{Rate: rate, KeyRate: rate}}, clock)
			for range 3 {
				q, _ = applied(t, q, core.QueuePush{Name: "q", Key: "k"}, clock)
			}
			q.RateTAT = tat
			owner := core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(8)}, N: 2}
			for range 3 {
				q, _ = applied(t, q, core.QueueTake{Holder: "w", Owner: owner}, clock)
				again, err := core.DecodeState(core.KindQueue, q.AppendJSON(nil))
				require.NoError(t, err)
				assert.Equal(t, encoded(q), encoded(again))
			}
		}
	}
}

// A key of which nothing is left is remembered for as long as its rate says: else
// one item at a time would go as fast as it can.
func TestTheRateOfAKeyHoldsAlsoWhereNothingOfItIsLeftBetween(t *testing.T) {
	clock := core.Clock{Now: start}
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{KeyRate: core.QueueRate{Limit: 1, PerMS: 10_000}}}, clock)
	push := func() {
		clock.Step++
		q, _ = applied(t, q, core.QueuePush{Name: "q", Key: "k"}, clock)
	}
	push()
	q, effs := applied(t, q, core.QueueTake{Holder: "w"}, clock)
	taken := takenBy(step{effs: effs})
	q, _ = applied(t, q, core.QueueComplete{Item: taken[0].ID, Holder: "w", Attempt: 1}, clock)
	require.Zero(t, q.Held())
	push()
	_, effs = q.Apply(core.QueueTake{Holder: "w"}, clock)
	require.NotNil(t, refusal(effs), "the second one waits")
	clock.Now = clock.Now.Add(10 * time.Second)
	q, effs = applied(t, q, core.QueueTake{Holder: "w"}, clock)
	taken = takenBy(step{effs: effs})
	require.Len(t, taken, 1)
	q, _ = applied(t, q, core.QueueComplete{Item: taken[0].ID, Holder: "w", Attempt: 1}, clock)
	assert.EqualValues(t, 1, q.KeyCount)
	clock.Now = q.Deadline()
	assert.Equal(t, start.Add(20*time.Second), clock.Now)
	q, _ = applied(t, q, core.QueueDue{}, clock)
	assert.Zero(t, q.KeyCount, "then it is forgotten")
}

func TestADedupKeyIsHeldUntilItsWindowEndsAndNoLonger(t *testing.T) {
	clock := core.Clock{Now: start}
	push := core.QueuePush{Name: "q", DedupKey: "d"}
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{DedupWindowMS: 1000}}, clock)
	q, _ = applied(t, q, push, clock)
	clock.Now, clock.Step = start.Add(999*time.Millisecond), 1
	_, effs := q.Apply(push, clock)
	require.NotNil(t, refusal(effs))
	clock.Now, clock.Step = start.Add(time.Second), 2
	q, _ = applied(t, q, push, clock)
	assert.EqualValues(t, 2, q.Ready)
	assert.EqualValues(t, 1, q.Windows)
}

// A holder that was too slow, and has taken the item again since, answers for its
// first take: that must not end the second one.
func TestAnAnswerForAnEarlierTakeIsRefusedAlsoOfTheSameHolder(t *testing.T) {
	clock := core.Clock{Now: start}
	q, _ := applied(t, core.Queue{}, core.QueuePush{Name: "q"}, clock)
	q, _ = applied(t, q, core.QueueTake{Holder: "w", VisibilityMS: 1000}, clock)
	clock.Now = start.Add(time.Second)
	q, effs := applied(t, q, core.QueueTake{Holder: "w", VisibilityMS: 1000}, clock)
	taken := takenBy(step{effs: effs})
	require.Len(t, taken, 1)
	require.EqualValues(t, 2, taken[0].Attempts)
	for attempt, ok := range map[uint32]bool{0: false, 1: false, 2: true, 3: false} {
		for _, e := range []core.QueueEvent{
			core.QueueComplete{Item: taken[0].ID, Holder: "w", Attempt: attempt}, core.QueueFail{Item: taken[0].ID, Holder: "w", Attempt: attempt},
			core.QueueExtend{Item: taken[0].ID, Holder: "w", Attempt: attempt}, core.QueueRelease{Item: taken[0].ID, Holder: "w", Attempt: attempt},
		} {
			_, effs := q.Apply(e, clock)
			assert.Equal(t, ok, refusal(effs) == nil, "%s for attempt %d", e.EventType(), attempt)
		}
	}
}

// Items are found by their id alone: that of another queue, which may be another
// tenant's, must be none of this one's.
func TestAnItemOfAnotherQueueIsAsIfItWereNotThere(t *testing.T) {
	w, seq := world{}, new(uint64)
	mine, other := core.QueueRef("", "mine", "q"), core.QueueRef("", "other", "q")
	w.send(t, mine, core.QueuePush{Tenant: "mine", Name: "q"}, start, seq)
	w.send(t, other, core.QueuePush{Tenant: "other", Name: "q"}, start, seq)
	res := w.send(t, other, core.QueueTake{Holder: "w"}, start, seq)
	item := res.Answer.(core.QueueItems)[0]
	for _, e := range []core.QueueEvent{
		core.QueueComplete{Item: item.ID, Holder: "w", Attempt: 1}, core.QueueFail{Item: item.ID, Holder: "w", Attempt: 1},
		core.QueueCancelItem{Item: item.ID}, core.QueueRedrive{Item: item.ID},
	} {
		res := w.send(t, mine, e, start, seq)
		require.NotNil(t, res.Refused, e.EventType())
		assert.Equal(t, effects.CodeNotFound, res.Refused.Code)
		assert.False(t, res.Changed)
	}
}

func TestAQueueThatKeepsDeadOrCompletedItemsIsNotDeleted(t *testing.T) {
	clock := core.Clock{Now: start}
	for name, end := range map[string]func(uuid.UUID) core.QueueEvent{
		"completed": func(item uuid.UUID) core.QueueEvent { return core.QueueComplete{Item: item, Holder: "w", Attempt: 1} },
		"dead": func(item uuid.UUID) core.QueueEvent {
			return core.QueueFail{Item: item, Holder: "w", Attempt: 1, Permanent: true}
		},
	} {
		q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{KeepCompletedMS: 1000}}, clock)
		q, _ = applied(t, q, core.QueuePush{Name: "q"}, clock)
		q, effs := applied(t, q, core.QueueTake{Holder: "w"}, clock)
		item := takenBy(step{effs: effs})[0].ID
		q, _ = applied(t, q, end(item), clock)
		_, effs = q.Apply(core.QueueDelete{}, clock)
		require.NotNil(t, refusal(effs), name)
		assert.Contains(t, refusal(effs).Reason, map[string]string{"completed": "keeps 1 items that are completed: purge them first", "dead": "holds 1 items: purge or finish"}[name])
		_, effs = q.Apply(core.QueueCancelItem{Item: item}, clock)
		assert.Equal(t, name == "dead", refusal(effs) == nil, "what is completed cannot be cancelled")
	}
}

// An item that was given up has freed its dedup key. Where it gets another chance,
// the key may be another item's by then, and stays so.
func TestAnItemFreesNoDedupKeyThatIsAnothersByNow(t *testing.T) {
	clock := core.Clock{Now: start}
	push := core.QueuePush{Name: "q", DedupKey: "d"}
	q, _ := applied(t, core.Queue{}, push, clock)
	q, effs := applied(t, q, core.QueueTake{Holder: "w"}, clock)
	first := takenBy(step{effs: effs})[0].ID
	q, _ = applied(t, q, core.QueueFail{Item: first, Holder: "w", Attempt: 1, Permanent: true}, clock)
	clock.Step++
	q, _ = applied(t, q, push, clock)
	q, _ = applied(t, q, core.QueueRedrive{Item: first}, clock)
	q, effs = applied(t, q, core.QueueTake{Holder: "w", Max: 2}, clock)
	require.Len(t, takenBy(step{effs: effs}), 2)
	q, _ = applied(t, q, core.QueueComplete{Item: first, Holder: "w", Attempt: 1}, clock)
	_, effs = q.Apply(push, clock)
	require.NotNil(t, refusal(effs), "the second item lives")
	assert.Equal(t, effects.CodeExists, refusal(effs).Code)
}
