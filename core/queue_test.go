package core_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// applied carries out a transition that must be taken.
func applied(t tb, q core.Queue, e core.QueueEvent, c core.Clock) (core.Queue, []effects.Effect) {
	t.Helper()
	next, effs := q.Apply(e, c)
	require.Nil(t, refusal(effs), "%s: %v", e.EventType(), refusal(effs))
	return next, effs
}

func TestKeysTakeTurns(t *testing.T) {
	keys := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		q, clock := core.Queue{}, core.Clock{Now: start}
		left := map[string]int{}
		for range rapid.IntRange(1, 30).Draw(t, "items") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			q, _ = applied(t, q, core.QueuePush{Name: "q", Key: key}, clock)
			clock.Step++
			left[key]++
		}
		since := map[string]map[string]bool{} // which keys were served since a key was served last
		for q.Ready > 0 {
			var effs []effects.Effect
			q, effs = applied(t, q, core.QueueTake{Holder: "w"}, clock)
			i := takenBy(step{effs: effs})[0]
			if served := since[i.Key]; served != nil {
				for _, other := range keys {
					if other != i.Key && left[other] > 0 {
						require.True(t, served[other], "key %q was served twice while %q waited", i.Key, other)
					}
				}
			}
			left[i.Key]--
			since[i.Key] = map[string]bool{}
			for _, other := range keys {
				if since[other] != nil {
					since[other][i.Key] = true
				}
			}
			if rapid.Bool().Draw(t, "complete") {
				q, _ = applied(t, q, core.QueueComplete{Item: i.ID, Holder: "w", Attempt: 1}, clock)
			}
		}
		require.Zero(t, q.Waiting)
	})
}

// In any stretch of time no more are taken than the rate and its burst allow, and
// no fewer where enough is asked for.
func TestARateIsNeitherExceededNorWasted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := core.QueueRate{
			Limit: rapid.Uint32Range(1, 5000).Draw(t, "limit"), PerMS: rapid.SampledFrom([]int64{1, 7, 1000, 60_000}).Draw(t, "per"),
			Burst: rapid.Uint32Range(1, 5).Draw(t, "burst"),
		}
		q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{Rate: rate}}, core.Clock{Now: start})
		clock := core.Clock{Now: start}
		for range 60 {
			q, _ = applied(t, q, core.QueuePush{Name: "q"}, clock)
		}
		taken, first := int64(0), clock.Now
		for q.Ready > 0 {
			next, effs := q.Apply(core.QueueTake{Holder: "w", Max: 256}, clock)
			if r := refusal(effs); r == nil {
				q = next
				taken += int64(len(takenBy(step{effs: effs})))
			}
			elapsed := int64(clock.Now - first)
			each := (rate.PerMS*1000 + int64(rate.Limit) - 1) / int64(rate.Limit)
			early := max(each*int64(rate.Burst-1), 999)
			require.LessOrEqual(t, taken, (elapsed*1000+early)/each+1, "after %d ms", elapsed)
			require.GreaterOrEqual(t, taken, min(60, elapsed*1000/each), "after %d ms", elapsed)
			clock.Now = max(q.NextTake(clock.Now), clock.Now.Add(time.Millisecond))
		}
	})
}

func TestAClockThatGoesBackDoesNotStopARateForLong(t *testing.T) {
	q, _ := applied(t, core.Queue{}, core.QueueCreate{Name: "q", Config: core.QueueConfig{Rate: core.QueueRate{Limit: 1, PerMS: 1000}}}, core.Clock{Now: start})
	q, _ = applied(t, q, core.QueuePush{Name: "q"}, core.Clock{Now: start})
	q, _ = applied(t, q, core.QueuePush{Name: "q"}, core.Clock{Now: start})
	q, _ = applied(t, q, core.QueueTake{Holder: "w"}, core.Clock{Now: start})
	back := start.Add(-30 * 365 * 24 * time.Hour)
	_, effs := applied(t, q, core.QueueTake{Holder: "w"}, core.Clock{Now: back})
	assert.Len(t, takenBy(step{effs: effs}), 1)
}

func TestTheIdsOfItemsNeverRepeatAndStandInTheOrderOfThePushes(t *testing.T) {
	seen := map[uuid.UUID]bool{}
	for _, queue := range []uuid.UUID{id(1), id(2), core.QueueRef("", "", "q").ID} {
		for step := range uint64(20) {
			last := uuid.Nil
			for n := uint64(1); n <= 20; n++ {
				i := core.ItemID(queue, n, step)
				assert.False(t, seen[i])
				assert.Equal(t, uuid.Version(8), i.Version())
				assert.Equal(t, uuid.RFC4122, i.Variant())
				assert.Less(t, last.String(), i.String())
				seen[i], last = true, i
			}
		}
	}
	assert.NotEqual(t, core.ItemID(id(1), math.MaxUint64, 1), core.ItemID(id(1), math.MaxUint64, 2))
}

func TestATakeByAMachineIsAnsweredAlsoWhereNothingIsThere(t *testing.T) {
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(8)}, N: 2}
	_, effs := core.Queue{}.Apply(core.QueueTake{Holder: "w", Owner: owner}, core.Clock{Now: start})
	assert.Equal(t, []effects.Effect{effects.Send{To: owner.Ref, Event: core.QueueTaken{N: 2}}}, effs)
	q := madeQueue()
	_, effs = q.Apply(core.QueueTake{Holder: "w", Owner: owner}, core.Clock{Now: start})
	assert.Equal(t, []effects.Effect{effects.Send{To: owner.Ref, Event: core.QueueTaken{N: 2}}}, effs)
}

func TestADueQueueIsNotDueAtOnceAgain(t *testing.T) {
	q, clock := core.Queue{}, core.Clock{Now: start}
	for range 300 { // more than one event lets happen
		q, _ = applied(t, q, core.QueuePush{Name: "q", DelayMS: 1000}, clock)
		clock.Step++
	}
	rounds := 0
	for clock.Now = start.Add(time.Second); q.Delayed > 0; clock.Now = q.Deadline() {
		q, _ = applied(t, q, core.QueueDue{}, clock)
		rounds++
		require.True(t, q.Deadline().IsZero() || q.Deadline() > clock.Now)
	}
	assert.Equal(t, 3, rounds)
	assert.EqualValues(t, 300, q.Ready)
}

func TestNamesAreHashedAsUUIDVersion5(t *testing.T) {
	space := uuid.MustParse("6f727265-7279-5f67-8f2d-6f7272657279")
	assert.Equal(t, uuid.NewSHA1(space, []byte("queue\x1fns\x1ft\x1fname")), core.QueueRef("ns", "t", "name").ID)
}

func TestOneEventMovesNoMoreThanABoundedAmountOfData(t *testing.T) {
	q, clock := core.Queue{}, core.Clock{Now: start}
	large := json.RawMessage(`"` + strings.Repeat("x", core.MaxInputBytes-2) + `"`)
	for range 40 {
		q, _ = applied(t, q, core.QueuePush{Name: "q", Data: large}, clock)
	}
	q, effs := applied(t, q, core.QueueTake{Holder: "w", Max: 256}, clock)
	assert.Len(t, takenBy(step{effs: effs}), 16)
	q, effs = applied(t, q, core.QueuePurge{}, clock)
	assert.Contains(t, effs, effects.Effect(effects.Answer{Value: core.QueueMoved{Moved: 16, More: true}}))
	assert.EqualValues(t, 8, q.Ready)
	_, effs = q.Apply(core.QueuePush{Name: "q", Data: append(large, ' ', '1')}, clock)
	require.NotNil(t, refusal(effs))
	assert.Contains(t, refusal(effs).Reason, "data:")
}
