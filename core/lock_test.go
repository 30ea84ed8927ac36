package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// tokensOf lists the tokens of the grants that a transition announces.
func tokensOf(t tb, effs []effects.Effect) (tokens []uint64) {
	t.Helper()
	for _, e := range effs {
		if emit, ok := e.(effects.Emit); ok && emit.Event.Kind.Action == "acquired" {
			var data struct {
				Token uint64 `json:"token"`
			}
			require.NoError(t, json.Unmarshal(emit.Event.Data, &data))
			tokens = append(tokens, data.Token)
		}
	}
	return tokens
}

// One step may bring many events to a lock, since machines answer one another
// within an input; and a lock that is free is forgotten.
func TestNoTokenIsEverGivenTwiceThoughAFreeLockIsForgotten(t *testing.T) {
	for _, kind := range []effects.Kind{core.KindLock, core.KindSemaphore} {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				state, last := absent(kind), uint64(0)
				clock := core.Clock{Now: start, Step: 1}
				for range 40 {
					if rapid.IntRange(0, 3).Draw(t, "next input") == 0 {
						clock.Step++
						clock = core.Clock{Now: drawClock(t, clock).Now, Step: clock.Step}
					}
					next, effs := apply(state, drawEvent(t, state, clock), clock)
					for _, token := range tokensOf(t, effs) {
						require.Greater(t, token, last)
						last = token
					}
					state = next
				}
			})
		})
	}
}

func TestALockOrSemaphoreThatNobodyUsesIsForgottenInTheEnd(t *testing.T) {
	for _, kind := range []effects.Kind{core.KindLock, core.KindSemaphore} {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				state := absent(kind)
				clock := core.Clock{Now: start}
				for range 15 {
					clock = core.Clock{Now: clock.Now.Add(1000), Step: clock.Step + uint64(rapid.IntRange(0, 1).Draw(t, "step"))}
					state, _ = apply(state, drawEvent(t, state, clock), clock)
				}
				for range 3*core.MaxWaiters + 3 { // each step brings a due event, or ends a holder
					if !exists(state) {
						return
					}
					clock.Step++
					clock.Now = max(clock.Now, state.Deadline())
					var e core.Event = core.LockDue{}
					switch s := state.(type) {
					case core.Lock:
						if s.Holder != "" {
							e = core.LockBreak{}
						}
					case core.Semaphore:
						e = core.SemaphoreDue{}
						if s.Configured {
							e = core.SemaphoreConfigure{Name: s.Name, Namespace: s.Namespace, Tenant: s.Tenant}
						} else if len(s.Holders) > 0 {
							e = core.SemaphoreBreak{}
						}
					}
					next, effs := apply(state, e, clock)
					require.Nil(t, refusal(effs), "%s", encoded(state))
					state = next
				}
				t.Fatalf("it is still there: %s", encoded(state))
			})
		})
	}
}

// A grant that its owner refuses goes back, so that a pipeline that is gone does
// not hold a lock for ever; what was granted in between goes on to the next.
func TestAGrantToAMachineThatIsGoneIsGivenBack(t *testing.T) {
	w := world{}
	lock, semaphore := core.LockRef("", "", "merge"), core.SemaphoreRef("", "", "build")
	batch := core.NewBatch(w, core.Clock{Now: start}, 1)
	for _, in := range []core.Input{
		{To: lock, Event: core.LockAcquire{Name: "merge", Holder: "ann"}},
		{To: lock, Event: core.LockAcquire{Name: "merge", Owner: pipelineOwner(1, 1)}},
		{To: lock, Event: core.LockAcquire{Name: "merge", Owner: pipelineOwner(2, 1)}},
		{To: semaphore, Event: core.SemaphoreAcquire{Name: "build", Holder: "ann", Total: 2, Slots: 2}},
		{To: semaphore, Event: core.SemaphoreAcquire{Name: "build", Owner: pipelineOwner(1, 1), Slots: 2}},
		{To: semaphore, Event: core.SemaphoreAcquire{Name: "build", Owner: pipelineOwner(1, 2), Slots: 1}},
	} {
		res, err := batch.Apply(in)
		require.NoError(t, err)
		require.Nil(t, res.Refused)
	}
	s, err := batch.State(lock)
	require.NoError(t, err)
	require.Len(t, s.(core.Lock).Waiters, 2)

	for _, in := range []core.Input{
		{To: lock, Event: core.LockRelease{Holder: "ann"}},
		{To: semaphore, Event: core.SemaphoreRelease{Holder: "ann"}},
	} {
		res, err := batch.Apply(in)
		require.NoError(t, err)
		assert.True(t, res.Changed)
	}
	s, err = batch.State(lock)
	require.NoError(t, err)
	assert.Empty(t, s.(core.Lock).Holder, "neither pipeline exists")
	assert.Empty(t, s.(core.Lock).Waiters)
	s, err = batch.State(semaphore)
	require.NoError(t, err)
	assert.Zero(t, s.(core.Semaphore).Held())
}

func TestALockIsAnsweredToAHolderFromOutside(t *testing.T) {
	batch := core.NewBatch(world{}, core.Clock{Now: start}, 1)
	res, err := batch.Apply(core.Input{To: core.LockRef("", "", "merge"), Event: core.LockAcquire{Name: "merge", Holder: "ann", TTLMS: 1000}})
	require.NoError(t, err)
	require.IsType(t, core.Lock{}, res.Answer)
	assert.Equal(t, stepOf(1, 0), res.Answer.(core.Lock).Token)
	assert.Contains(t, string(res.Answer.AppendJSON(nil)), `"holder":"ann"`)
}

func TestTheLineOfALockAndOfASemaphoreHasALimitAndAReasonableSize(t *testing.T) {
	longest := strings.Repeat("x", core.MaxNameBytes)
	c := core.Clock{Now: start, Step: 1}
	lock, _ := core.Lock{}.Apply(core.LockAcquire{Name: "merge", Holder: "ann"}, c)
	semaphore, _ := core.Semaphore{}.Apply(core.SemaphoreConfigure{Name: "build", Slots: core.MaxSemaphoreSlots}, c)
	owner := func(i int) core.Owner {
		return core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(i + 1)}, N: math.MaxUint32}
	}
	for i := range core.MaxWaiters {
		var effs []effects.Effect
		lock, effs = lock.Apply(core.LockAcquire{Name: "merge", Holder: longest, Owner: owner(i), TTLMS: core.MaxLeaseMS}, c)
		require.Nil(t, refusal(effs))
	}
	for i := range core.MaxHolders + core.MaxWaiters {
		var effs []effects.Effect
		semaphore, effs = semaphore.Apply(core.SemaphoreAcquire{Name: "build", Holder: longest, Owner: owner(i), TTLMS: core.MaxLeaseMS}, c)
		require.Nil(t, refusal(effs))
	}
	assert.Len(t, semaphore.Holders, core.MaxHolders, "more wait, though there are slots")
	assert.Len(t, semaphore.Waiters, core.MaxWaiters)
	assert.Less(t, len(encoded(lock)), 2<<20)
	assert.Less(t, len(encoded(semaphore)), 2<<20)

	_, effs := lock.Apply(core.LockAcquire{Name: "merge", Owner: owner(9999)}, c)
	assert.Equal(t, fmt.Sprintf(`lock "merge": %d wait for it already, which is the limit`, core.MaxWaiters), refusal(effs).Reason)
	_, effs = semaphore.Apply(core.SemaphoreAcquire{Name: "build", Owner: owner(9999)}, c)
	assert.Equal(t, fmt.Sprintf(`semaphore "build": %d wait for it already, which is the limit`, core.MaxWaiters), refusal(effs).Reason)
	_, effs = semaphore.Apply(core.SemaphoreAcquire{Name: "build", Holder: "bob"}, c)
	assert.Equal(t, effects.CodeConflict, refusal(effs).Code)
}

func TestLocksAndSemaphoresAreListedByWhetherTheyAreHeld(t *testing.T) {
	names := func(s core.State) (out []string) {
		for _, term := range s.Terms() {
			out = append(out, term.Name)
		}
		return out
	}
	held, free := "held:true\x1fdev\x1ftenant-1", "held:false\x1fdev\x1ftenant-1"
	assert.Equal(t, []string{core.TermAll, held}, names(lockStates()[0]))
	assert.Equal(t, []string{core.TermAll, free}, names(lockStates()[3]))
	assert.Equal(t, []string{core.TermAll, free}, names(semaphoreStates()[0]))
	assert.Equal(t, []string{core.TermAll, held}, names(semaphoreStates()[1]))
}

func TestRenewingWithoutALengthKeepsTheLengthOfTheLease(t *testing.T) {
	clock := core.Clock{Now: start}
	l, effs := core.Lock{}.Apply(core.LockAcquire{Name: "main", Holder: "ann", TTLMS: 1000}, clock)
	require.Nil(t, refusal(effs))
	s, effs := core.Semaphore{}.Apply(core.SemaphoreAcquire{Name: "main", Holder: "ann", Total: 1, TTLMS: 1000}, clock)
	require.Nil(t, refusal(effs))
	clock.Now = clock.Now.Add(500 * time.Millisecond)
	l, effs = l.Apply(core.LockRenew{Holder: "ann"}, clock)
	require.Nil(t, refusal(effs))
	s, effs = s.Apply(core.SemaphoreRenew{Holder: "ann"}, clock)
	require.Nil(t, refusal(effs))
	assert.Equal(t, start.Add(1500*time.Millisecond), l.Until)
	assert.Equal(t, start.Add(1500*time.Millisecond), s.Holders[0].Until)
	l, _ = l.Apply(core.LockRenew{Holder: "ann", TTLMS: 5000}, clock)
	assert.Equal(t, start.Add(5500*time.Millisecond), l.Until)
	assert.EqualValues(t, 5000, l.TTLMS, "and the next renewal keeps this one")
}

func TestALeaseAtTheEndOfTimeIsNotDueForEver(t *testing.T) {
	clock := core.Clock{Now: effects.MaxTime}
	l, _ := core.Lock{}.Apply(core.LockAcquire{Name: "main", Holder: "ann", TTLMS: 1000}, clock)
	s, _ := core.Semaphore{}.Apply(core.SemaphoreAcquire{Name: "main", Holder: "ann", Total: 1, TTLMS: 1000}, clock)
	assert.Zero(t, l.Deadline())
	assert.Zero(t, s.Deadline())
}
