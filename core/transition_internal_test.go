package core

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

func TestARefusedTransitionLeavesTheStateAndHasNoEffectButItsFirstRefusal(t *testing.T) {
	before := Lock{ID: LockRef("", "", "main").ID, Name: "main"}
	under := transition{clock: Clock{Now: 1}, event: LockBreak{}}
	under.send(BusRef(), BusUnsubscribe{})
	under.refuse(effects.CodeNotFound, "nobody holds %q", "main")
	under.refuse(effects.CodeInvalid, "and for another reason")

	after, effs := concluded(before, Lock{Name: "changed"}, under)

	assert.Equal(t, before, after)
	assert.Equal(t, []effects.Effect{effects.Refused{
		To: before.Ref(), Event: LockBreak{}.EventType(), Code: effects.CodeNotFound, Reason: `nobody holds "main"`,
	}}, effs)
}

func TestATransitionThatIsNotRefusedGivesTheNewStateWithItsEffectsInTheirOrder(t *testing.T) {
	under := transition{clock: Clock{Now: 1}, event: LockBreak{}}
	under.announce("lock", "lock", "broken", BusRef().ID, nil)
	under.send(BusRef(), BusUnsubscribe{})

	after, effs := concluded(Lock{}, Lock{Name: "changed"}, under)

	assert.Equal(t, Lock{Name: "changed"}, after)
	assert.Equal(t, under.effects, effs)
	assert.Len(t, effs, 2)
}

func runTool(n uint32) effects.Outer { return effects.RunTool{Run: n, Tool: "http"} }

func TestAnAnswerToOneOfSeveralPendingEffectsLeavesTheStateFromBeforeAsItWas(t *testing.T) {
	before := PendingEffects{}.ask(runTool(1)).ask(runTool(2)).ask(runTool(3))

	after, of := before.answered(1)

	assert.Equal(t, runTool(1), of)
	assert.Equal(t, []effects.Outer{runTool(1), runTool(2), runTool(3)}, before.outstanding())
	assert.Equal(t, []effects.Outer{runTool(2), runTool(3)}, after.outstanding())
	assert.EqualValues(t, 4, after.next(), "numbers are not given twice")
}

func TestTwoFuturesOfOneStateDoNotShareTheirPendingEffects(t *testing.T) {
	before := PendingEffects{Open: append(make([]PendingEffect, 0, 4), PendingEffect{Effect: runTool(1)}), Last: 1}

	one, other := before.ask(runTool(2)), before.ask(runTool(7))

	assert.Equal(t, []effects.Outer{runTool(1), runTool(2)}, one.outstanding())
	assert.Equal(t, []effects.Outer{runTool(1), runTool(7)}, other.outstanding())
}

// handler notes what is pending while it handles an answer.
type handler struct {
	transition
	pending PendingEffects
	handled []string
	during  []int
}

func (h *handler) note(what string) {
	h.handled = append(h.handled, what)
	h.during = append(h.during, len(h.pending.Open))
}

func (h *handler) effectDone(effects.Outer, EffectDone)               { h.note("done") }
func (h *handler) effectFailed(effects.Outer, EffectFailed)           { h.note("failed") }
func (h *handler) effectInterrupted(effects.Outer, EffectInterrupted) { h.note("interrupted") }
func (h *handler) effectHandedBack(of effects.Outer) {
	h.note("handed back")
	h.reissue(&h.pending, of)
}

func TestEachAnswerToAnEffectHasItsHandlerAndIsTakenOnce(t *testing.T) {
	for _, tc := range []struct {
		answer Event
		want   string
	}{
		{EffectDone{N: 2}, "done"},
		{EffectFailed{N: 2}, "failed"},
		{EffectInterrupted{N: 2}, "interrupted"},
		{EffectHandedBack{N: 2}, "handed back"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			h := &handler{pending: PendingEffects{}.ask(runTool(1)).ask(runTool(2))}
			assert.True(t, takeEffectAnswer(h, &h.pending, tc.answer))
			assert.False(t, takeEffectAnswer(h, &h.pending, tc.answer), "nobody waits for it")
			assert.False(t, takeEffectAnswer(h, &h.pending, LockBreak{}), "no answer")
			assert.Equal(t, []string{tc.want}, h.handled)
			assert.Equal(t, []int{1}, h.during, "the effect that is answered is pending no longer")
			assert.EqualValues(t, 2, answeredEffect(tc.answer))
		})
	}
}

func TestAnEffectIsReissuedUnderTheNextNumber(t *testing.T) {
	h := &handler{pending: PendingEffects{}.ask(runTool(1)).ask(runTool(2))}

	takeEffectAnswer(h, &h.pending, EffectHandedBack{N: 1})

	assert.Equal(t, []effects.Outer{runTool(2), runTool(3)}, h.pending.outstanding())
	assert.Equal(t, []effects.Effect{runTool(3)}, h.effects)
	assert.EqualValues(t, 3, h.pending.Last)
}

func TestWithdrawnEffectsArePendingNoLongerAndTheirNumbersAreNotGivenAgain(t *testing.T) {
	h := &handler{pending: PendingEffects{}.ask(runTool(1)).ask(runTool(2))}

	h.withdraw(&h.pending)

	assert.Equal(t, PendingEffects{Last: 2}, h.pending)
	assert.Equal(t, []effects.Effect{effects.Withdraw{N: 1}, effects.Withdraw{N: 2}}, h.effects)
}
