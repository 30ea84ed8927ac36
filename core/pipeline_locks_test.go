package core_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// underLocks works under two locks, and then rests.
func underLocks() core.PipelineDef {
	return core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
		{Name: "first", Lock: &core.LockPhase{Name: "l1", TTLMS: 60_000}},
		{Name: "second", Lock: &core.LockPhase{Name: "l2"}},
		{Name: "work", Manual: &core.ManualPhase{}},
		{Name: "rest", Manual: &core.ManualPhase{}},
	}}
}

// Both take l1 and then l2. One fails, and is retried while the other has l1 alone:
// if it took l2 before it had l1 again, each would wait for the other for ever.
func TestARetryTakesItsLocksInTheirOrderSoThatNobodyWaitsForEver(t *testing.T) {
	w, seq := world{}, new(uint64)
	def := underLocks()
	def.Phases = append(def.Phases[:1:1], append([]core.PhaseDef{{Name: "between", Manual: &core.ManualPhase{}}}, def.Phases[1:]...)...)
	for n := 1; n <= 2; n++ {
		w.send(t, pipelineRef(n), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(n), Definition: def}}, start, seq)
		w.fire(t, start, seq)
	}
	w.send(t, pipelineRef(1), core.PhaseComplete{Phase: "between"}, start, seq)
	w.send(t, pipelineRef(1), core.PhaseFailed{Phase: "work", Error: "no"}, start, seq)
	require.Equal(t, "between", w.pipeline(t, 2).Phase.Name, "the other one has l1 now")
	w.send(t, pipelineRef(1), core.PipelineRetry{}, start, seq)
	assert.Equal(t, core.WaitRegain, w.pipeline(t, 1).Waiting.For)
	w.send(t, pipelineRef(2), core.PhaseComplete{Phase: "between"}, start, seq)
	require.Equal(t, "work", w.pipeline(t, 2).Phase.Name, "l2 is free for it")
	w.send(t, pipelineRef(2), core.PhaseComplete{Phase: "work"}, start, seq)
	w.send(t, pipelineRef(2), core.PhaseComplete{Phase: "rest"}, start, seq)
	first := w.pipeline(t, 1)
	assert.Equal(t, core.WaitManual, first.Waiting.For)
	assert.Equal(t, []string{"l1", "l2"}, []string{first.Holds[0].Name, first.Holds[1].Name})
	assert.Empty(t, first.Regain)
}

// atWork gives a pipeline that works under both locks.
func atWork(t *testing.T, def core.PipelineDef) core.Pipeline {
	t.Helper()
	clock := core.Clock{Now: start}
	p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, clock)
	require.Nil(t, refusal(effs))
	for _, e := range []core.PipelineEvent{core.PipelineDue{}, core.Granted{N: 1, Token: 5}, core.Granted{N: 2, Token: 6}} {
		p, effs = p.Apply(e, clock)
		require.Nil(t, refusal(effs))
	}
	require.Equal(t, "work", p.Phase.Name)
	return p
}

func names(holds []core.Hold) []string {
	var out []string
	for _, h := range holds {
		out = append(out, h.Name)
	}
	return out
}

func TestNothingGoesOnWithoutALockThatWasLostWhateverThePhaseSaysOfFailures(t *testing.T) {
	clock := core.Clock{Now: start}
	for name, change := range map[string]func(*core.PhaseDef){
		"nothing":        func(*core.PhaseDef) {},
		"ignore_failure": func(d *core.PhaseDef) { d.IgnoreFailure = true },
		"on_failure":     func(d *core.PhaseDef) { d.OnFailure = "rest" },
		"retry":          func(d *core.PhaseDef) { d.Retry.MaxAttempts = 5 },
	} {
		def := underLocks()
		change(&def.Phases[2])
		p := atWork(t, def)
		for n, lock := range map[uint32]string{1: "l1", 2: "l2"} {
			lost, effs := p.Apply(core.Lost{N: n, Name: lock, Reason: "its lease lapsed"}, clock)
			require.Nil(t, refusal(effs))
			assert.Equal(t, core.Phase{Type: core.PhaseFailure, Name: "work", Error: `lock "` + lock + `": it was lost: its lease lapsed`, Recoverable: true}, lost.Phase, name)
			assert.Equal(t, []string{"l1", "l2"}, names(lost.Regain), "a retry takes both, in their order")
		}
		// What the phase itself does wrong is another matter.
		failed, _ := p.Apply(core.PhaseFailed{Phase: "work", Error: "no", Permanent: true}, clock)
		if name == "ignore_failure" || name == "on_failure" {
			assert.Equal(t, "rest", failed.Phase.Name, name)
			assert.Len(t, failed.Holds, 2)
		}
	}
}

func TestALockThatCannotBeHadIsAFailureOfItsPhaseAlone(t *testing.T) {
	def := underLocks()
	def.Phases[1].IgnoreFailure = true
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, _ = p.Apply(core.Granted{N: 1, Token: 5}, clock)
	refused, _ := p.Apply(core.ChildEnded{N: 2, Outcome: core.ChildRefused, Reason: "too many wait"}, clock)
	assert.Equal(t, "work", refused.Phase.Name)
	// The other lock is another matter: that one it had.
	lost, _ := p.Apply(core.Lost{N: 1}, clock)
	assert.Equal(t, core.PhaseFailure, lost.Phase.Type)
	assert.Equal(t, []string{"l1"}, names(lost.Regain), "the second one is waited for by its phase")
}

func TestARetryThatIsCutOffWhileItRegainsKeepsTheOrderOfTheLocks(t *testing.T) {
	def := underLocks()
	def.Phases[2].TimeoutMS, def.Phases[2].Retry = 1000, core.Retry{MaxAttempts: 3, BackoffMS: 1000}
	p := atWork(t, def)
	clock := core.Clock{Now: start}
	p, _ = p.Apply(core.PhaseFailed{Phase: "work", Error: "no", Permanent: false}, clock)
	require.Equal(t, core.WaitRetry, p.Waiting.For)
	p, _ = p.Apply(core.Lost{N: 2, Name: "l2"}, clock)
	require.Equal(t, core.PhaseFailure, p.Phase.Type)
	p, _ = p.Apply(core.PipelineRetry{}, clock)
	p, _ = p.Apply(core.Granted{N: 3, Token: 7}, clock)
	require.Equal(t, []string{"l1", "l2"}, names(p.Holds))
	clock.Now = p.Deadline()
	assert.Equal(t, start.Add(time.Second), clock.Now, "the time limit of the phase counts while it regains")
	p, effs := p.Apply(core.PipelineDue{}, clock)
	require.Equal(t, core.WaitRetry, p.Waiting.For)
	assert.Contains(t, effs, effects.Effect(effects.ReleaseLock{Name: "l2", N: 4}), "it waits for it no longer")
	assert.Equal(t, []string{"l1"}, names(p.Holds))
	assert.Equal(t, []string{"l1", "l2"}, names(p.Regain))
	clock.Now = p.Deadline()
	p, effs = p.Apply(core.PipelineDue{}, clock)
	assert.Equal(t, core.WaitRegain, p.Waiting.For)
	assert.Contains(t, effs, effects.Effect(effects.AcquireLock{Name: "l2", Holder: "pipeline:" + id(1).String(), N: 5}), "what it has is not asked for again")
	p, _ = p.Apply(core.Granted{N: 5, Token: 9}, clock)
	assert.Equal(t, core.WaitManual, p.Waiting.For)
	assert.Equal(t, []string{"l1", "l2"}, names(p.Holds))
	assert.Empty(t, p.Regain)
}

func TestCleaningUpWaitsForNoLockThatWasLost(t *testing.T) {
	def := underLocks()
	def.OnFailure, def.Phases[3].Retry = "rest", core.Retry{MaxAttempts: 2, BackoffMS: 1000}
	p := atWork(t, def)
	clock := core.Clock{Now: start}
	p, _ = p.Apply(core.Lost{N: 1, Name: "l1"}, clock)
	require.Equal(t, "rest", p.Phase.Name)
	p, _ = p.Apply(core.PhaseFailed{Phase: "rest", Error: "no"}, clock)
	clock.Now = p.Deadline()
	p, _ = p.Apply(core.PipelineDue{}, clock)
	assert.Equal(t, core.WaitManual, p.Waiting.For, "the second attempt begins as the first did")
	p, _ = p.Apply(core.PhaseComplete{Phase: "rest"}, clock)
	assert.Equal(t, core.PhaseFailure, p.Phase.Type)
	assert.Equal(t, []string{"l1", "l2"}, names(p.Regain))
}

// A signal that was accepted was told to its sender as taken: a failure of another
// phase must not lose it.
func TestASignalThatCameEarlyIsThereStillAfterARetry(t *testing.T) {
	def := manualDef()
	def.Phases = append(def.Phases, core.PhaseDef{Name: "go", Signal: &core.SignalPhase{Name: "go"}})
	clock := core.Clock{Now: start}
	p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, clock)
	for _, e := range []core.PipelineEvent{
		core.PipelineDue{}, core.PipelineSignal{Name: "go", Payload: json.RawMessage(`7`)}, core.PhaseFailed{Phase: "build", Error: "no"},
		core.PipelineRetry{}, core.PhaseComplete{Phase: "build"}, core.PhaseComplete{Phase: "ship"},
	} {
		var effs []effects.Effect
		p, effs = p.Apply(e, clock)
		require.Nil(t, refusal(effs), e.EventType())
	}
	assert.Equal(t, core.PhaseDone, p.Phase.Type)
	assert.Equal(t, "7", string(p.Context["go"]))

	for _, end := range []core.PipelineEvent{core.PipelineCancel{}, core.PhaseFailed{Phase: "build", Permanent: true}} {
		p = begunPipeline(def, clock)
		p, _ = p.Apply(core.PipelineSignal{Name: "go"}, clock)
		p, _ = p.Apply(end, clock)
		assert.Empty(t, p.Signals, "nothing takes it any more")
	}
}

// Each attempt waits under another number. If each took a place, one impatient
// pipeline would leave none for others.
func TestAPipelineThatAwaitsAnotherAgainAndAgainTakesOnePlace(t *testing.T) {
	w, seq, now := world{}, new(uint64), start
	w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: manualDef()}}, now, seq)
	w.fire(t, now, seq)
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{
		Name: "await", Pipelines: &core.PipelinesPhase{Await: []string{id(1).String()}}, TimeoutMS: 1000, Retry: core.Retry{MaxAttempts: 1000},
	}}}
	w.send(t, pipelineRef(2), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(2), Definition: def}}, now, seq)
	for range core.MaxWatchers + 10 {
		w.fire(t, now, seq)
		require.Equal(t, core.WaitChild, w.pipeline(t, 2).Waiting.For)
		now = now.Add(time.Second)
		w.fire(t, now, seq)
		now = now.Add(time.Millisecond)
	}
	w.fire(t, now, seq)
	assert.Len(t, w.pipeline(t, 1).Watchers, 1)
	for _, phase := range []string{"build", "ship"} {
		res := w.send(t, pipelineRef(1), core.PhaseComplete{Phase: phase}, now, seq)
		assert.Nil(t, res.Refused)
	}
	assert.Equal(t, core.PhaseDone, w.pipeline(t, 2).Phase.Type, "it is told under its present number")
}

func TestAConditionOnWhatIsNotThereEqualsNothingNotEvenNull(t *testing.T) {
	for name, row := range map[string]struct {
		context string
		not     bool
		runs    bool
	}{
		"not there":          {`{}`, false, false},
		"not there, negated": {`{}`, true, true},
		"null":               {`{"ok":null}`, false, true},
		"null, negated":      {`{"ok":null}`, true, false},
	} {
		def := core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "build"}}, Phases: []core.PhaseDef{
			{Name: "ask", Manual: &core.ManualPhase{}, When: &core.When{Ref: "build.ok", Equals: json.RawMessage("null"), Not: row.not}},
		}}
		clock := core.Clock{Now: start}
		p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def, Context: map[string]json.RawMessage{"build": json.RawMessage(row.context)}}}, clock)
		require.Nil(t, refusal(effs))
		p, _ = p.Apply(core.PipelineDue{}, clock)
		assert.Equal(t, row.runs, p.Phase.Type == core.PhaseRunning, name)
	}
}

func TestARejectionIsNotAskedForAgainByItself(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "ask", Approval: &core.ApprovalPhase{}, Retry: core.Retry{MaxAttempts: 3}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, effs := p.Apply(core.PipelineApprove{Phase: "ask", By: "ann", Comment: "not on a Friday"}, clock)
	require.Nil(t, refusal(effs))
	assert.Equal(t, core.Phase{Type: core.PhaseFailure, Name: "ask", Error: "rejected by ann: not on a Friday", Recoverable: true}, p.Phase)
}

func TestAWayAroundIsNotTakenWhileCleaningUp(t *testing.T) {
	def := manualDef()
	def.OnFailure = "ship"
	def.Phases[1].OnFailure = "last"
	def.Phases = append(def.Phases, core.PhaseDef{Name: "more", Manual: &core.ManualPhase{}}, core.PhaseDef{Name: "last", Manual: &core.ManualPhase{}})
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, _ = p.Apply(core.PhaseFailed{Phase: "build", Error: "no"}, clock)
	require.Equal(t, "ship", p.Phase.Name)
	p, _ = p.Apply(core.PhaseFailed{Phase: "ship", Error: "neither"}, clock)
	assert.Equal(t, core.Phase{Type: core.PhaseFailure, Name: "build", Error: `no; then phase "ship" failed: neither`, Recoverable: true}, p.Phase)
}

func TestAManualPhaseIsEndedInItsPresentAttemptAlone(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "look", Manual: &core.ManualPhase{}, Retry: core.Retry{MaxAttempts: 3}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, _ = p.Apply(core.PhaseFailed{Phase: "look", Attempt: 1, Error: "no"}, clock)
	clock.Now = p.Deadline()
	p, _ = p.Apply(core.PipelineDue{}, clock)
	require.EqualValues(t, 2, p.Attempt)
	for attempt, ok := range map[uint32]bool{0: true, 1: false, 2: true, 3: false} {
		_, effs := p.Apply(core.PhaseComplete{Phase: "look", Attempt: attempt}, clock)
		assert.Equal(t, ok, refusal(effs) == nil, "complete of attempt %d", attempt)
		_, effs = p.Apply(core.PhaseFailed{Phase: "look", Attempt: attempt}, clock)
		assert.Equal(t, ok, refusal(effs) == nil, "failure of attempt %d", attempt)
	}
}

func TestJitterSpreadsByWhoWaitsAndByTheAttempt(t *testing.T) {
	r := core.Retry{BackoffMS: 100_000, FactorPercent: 100, JitterPercent: 50}
	attempts, waiters := map[int64]bool{}, map[int64]bool{}
	for n := range 20 {
		attempts[r.Delay(id(1), uint32(n+1))] = true
		waiters[r.Delay(id(n), 1)] = true
		for d := range attempts {
			assert.GreaterOrEqual(t, d, int64(50_000))
			assert.LessOrEqual(t, d, int64(100_000))
		}
	}
	assert.Greater(t, len(attempts), 15)
	assert.Greater(t, len(waiters), 15)
}

func TestAFailureThatNoRetryHelpsIsNotTriedAgainAndStaysSoAfterCleaningUp(t *testing.T) {
	def := manualDef()
	def.OnFailure, def.Phases[0].Retry, def.TimeoutMS = "ship", core.Retry{MaxAttempts: 3}, 60_000
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	for permanent, recoverable := range map[bool]bool{true: false, false: true} {
		failed := p
		for range 3 {
			failed, _ = failed.Apply(core.PhaseFailed{Phase: "build", Error: "no", Permanent: permanent}, clock)
			if failed.Phase.Name == "ship" {
				break
			}
			failed, _ = failed.Apply(core.PipelineDue{}, core.Clock{Now: failed.Deadline()})
		}
		require.Equal(t, "ship", failed.Phase.Name)
		assert.Equal(t, map[bool]uint32{true: 1, false: 3}[permanent], failed.History[0].Attempts)
		failed, _ = failed.Apply(core.PhaseComplete{Phase: "ship"}, clock)
		assert.Equal(t, recoverable, failed.Phase.Recoverable)
		clock := core.Clock{Now: start.Add(time.Hour)}
		again, effs := failed.Apply(core.PipelineRetry{}, clock)
		assert.Equal(t, recoverable, refusal(effs) == nil)
		if recoverable {
			assert.Equal(t, clock.Now.Add(time.Minute), again.EndsBy, "the time of the run counts from the retry")
		}
	}
}

func TestAWaitThatIsLongerThanItsTimeLimitFails(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "wait", Wait: &core.WaitPhase{ForMS: 5000}, TimeoutMS: 1000}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	clock.Now = p.Deadline()
	assert.Equal(t, start.Add(time.Second), clock.Now)
	p, _ = p.Apply(core.PipelineDue{}, clock)
	assert.Equal(t, core.PhaseFailure, p.Phase.Type)
	assert.Equal(t, "timed out after 1s", p.Phase.Error)
}

func TestTheNotificationOfAnApprovalThatWasNotBegunIsAskedForAgain(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "ask", Approval: &core.ApprovalPhase{Message: "ship?", Notify: true}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, effs := p.Apply(core.EffectHandedBack{N: 1}, clock)
	require.Len(t, effs, 1)
	notify := effs[0].(effects.Notify)
	assert.EqualValues(t, 2, notify.N)
	assert.Equal(t, "ship?", notify.Message)
	assert.Equal(t, core.WaitApproval, p.Waiting.For)
}
