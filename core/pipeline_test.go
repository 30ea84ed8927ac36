package core_test

import (
	"encoding/json"
	"fmt"
	"slices"
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

// chain gives phases that end at once.
func chain(n int) []core.PhaseDef {
	phases := make([]core.PhaseDef, n)
	for i := range phases {
		phases[i] = core.PhaseDef{Name: fmt.Sprint("p", i), Set: &core.SetPhase{Values: map[string]json.RawMessage{"last": json.RawMessage(fmt.Sprint(i))}}, Output: "out"}
	}
	return phases
}

// fire runs batches of due events until nothing is due at that instant, and gives
// how many there were.
func (w world) fire(t *testing.T, now core.Time, seq *uint64) int {
	t.Helper()
	for batches := range 1000 {
		*seq++
		batch := core.NewBatch(w, core.Clock{Now: now}, *seq)
		due := 0
		for _, ref := range w.refs() {
			s, err := w.Load(ref)
			require.NoError(t, err)
			if at := s.Deadline(); !at.IsZero() && at <= now {
				due++
				res, err := batch.Apply(core.Input{To: ref, Event: core.DueEvent(ref.Kind)})
				require.NoError(t, err)
				require.True(t, res.Changed, "%s is due, and its due event changes nothing: %v", ref, res.Refused)
			}
		}
		w.store(batch)
		if due == 0 {
			return batches
		}
	}
	t.Fatal("something is due for ever")
	return 0
}

// send applies one event in a batch of its own.
func (w world) send(t *testing.T, to effects.Ref, e core.Event, now core.Time, seq *uint64) core.Result {
	t.Helper()
	*seq++
	batch := core.NewBatch(w, core.Clock{Now: now}, *seq)
	res, err := batch.Apply(core.Input{To: to, Event: e})
	require.NoError(t, err)
	w.store(batch)
	return res
}

func (w world) pipeline(t *testing.T, n int) core.Pipeline {
	t.Helper()
	s, err := w.Load(pipelineRef(n))
	require.NoError(t, err)
	require.NotNil(t, s)
	s, err = core.Whole(s, w.Load)
	require.NoError(t, err)
	return s.(core.Pipeline)
}

func pipelineRef(n int) effects.Ref { return effects.Ref{Kind: core.KindPipeline, ID: id(n)} }

func TestAThousandPhasesThatEndAtOnceRunInAFewTransitions(t *testing.T) {
	w, seq := world{}, uint64(0)
	def := core.PipelineDef{Name: "long", Phases: chain(core.MaxPhases)}
	res := w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, start, &seq)
	require.Nil(t, res.Refused)
	batches := w.fire(t, start, &seq)
	p := w.pipeline(t, 1)
	assert.Equal(t, core.PhaseDone, p.Phase.Type)
	assert.JSONEq(t, "999", string(p.Context["last"]))
	assert.Len(t, p.History, core.MaxHistory)
	assert.LessOrEqual(t, batches, 22, "a transition runs many, but not all")
	assert.Greater(t, batches, 10, "a transition must not run them all")
}

func TestPipelinesWaitForEachOtherThroughBatches(t *testing.T) {
	w, seq := world{}, uint64(0)
	create := func(n int, def core.PipelineDef, depends ...uuid.UUID) {
		res := w.send(t, pipelineRef(n), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(n), Definition: def, DependsOn: depends}}, start, &seq)
		require.Nil(t, res.Refused)
		w.fire(t, start, &seq)
	}
	create(1, manualDef())
	create(2, manualDef(), id(1))
	create(3, manualDef(), id(1), id(9))
	create(4, core.PipelineDef{Name: "waits", Phases: []core.PhaseDef{{Name: "for", Pipelines: &core.PipelinesPhase{Await: []string{id(1).String()}}}}})
	assert.Equal(t, core.PhaseBlocked, w.pipeline(t, 2).Phase.Type)
	assert.Contains(t, w.pipeline(t, 3).Phase.Reason, id(9).String(), "it names the one that is unknown")

	for _, phase := range []string{"build", "ship"} {
		require.Nil(t, w.send(t, pipelineRef(1), core.PhaseComplete{Phase: phase}, start, &seq).Refused)
	}
	assert.Equal(t, core.PhaseDone, w.pipeline(t, 1).Phase.Type)
	assert.Equal(t, core.PhaseRunning, w.pipeline(t, 2).Phase.Type, "what it depends on is done")
	assert.Equal(t, core.PhaseBlocked, w.pipeline(t, 3).Phase.Type, "the unknown one still blocks")
	assert.Equal(t, core.PhaseDone, w.pipeline(t, 4).Phase.Type, "what it waited for is done")
	require.Nil(t, w.send(t, pipelineRef(3), core.PipelineUnblock{}, start, &seq).Refused)
	assert.Equal(t, core.PhaseRunning, w.pipeline(t, 3).Phase.Type)
	create(5, manualDef(), id(1))
	assert.Equal(t, core.PhaseRunning, w.pipeline(t, 5).Phase.Type, "one that is done already answers at once")
}

func TestCancellingAPipelineCancelsAllThatItRunsAndMeetsNoRefusal(t *testing.T) {
	w, seq := world{}, uint64(0)
	inner := core.PipelineDef{Name: "inner", Phases: []core.PhaseDef{{Name: "work", Run: &core.ToolRun{Tool: "command"}}}}
	def := core.PipelineDef{Name: "outer", Phases: []core.PhaseDef{{Name: "both", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Definition: inner}, {Definition: inner}}, Wait: true}}}}
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, start, &seq).Refused)
	w.fire(t, start, &seq)
	require.Len(t, w.machines(), 5, "the pipeline, two more, and an action of each")

	res := w.send(t, pipelineRef(1), core.PipelineCancel{Reason: "not needed"}, start, &seq)
	assert.Nil(t, res.Refused)
	for _, ref := range w.machines().refs() {
		s, err := w.Load(ref)
		require.NoError(t, err)
		assert.Equal(t, "cancelled", phase(s), ref)
		assert.True(t, s.Deadline().IsZero())
	}
	assert.Empty(t, w.pipeline(t, 1).Abandoned, "both have ended")
}

func TestAChildThatCannotBeMadeFailsItsPhaseInsteadOfBeingDueForEver(t *testing.T) {
	w, seq := world{}, uint64(0)
	def := core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "tool"}}, Phases: []core.PhaseDef{{Name: "work", Run: &core.ToolRun{Tool: "${tool}"}}}}
	spec := core.PipelineSpec{ID: id(1), Definition: def, Context: map[string]json.RawMessage{"tool": json.RawMessage(`""`)}}
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: spec}, start, &seq).Refused)
	w.fire(t, start, &seq)
	p := w.pipeline(t, 1)
	assert.Equal(t, core.PhaseFailure, p.Phase.Type)
	assert.Equal(t, "run.tool: must not be empty", p.Phase.Error)
	assert.False(t, p.Phase.Recoverable)
}

func TestAPipelineEndsWhateverTheAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		def := everyPhase()
		for i := range def.Phases {
			def.Phases[i].TimeoutMS = rapid.SampledFrom([]int64{0, 0, 1000}).Draw(t, "timeout_ms")
			def.Phases[i].Retry = core.Retry{MaxAttempts: rapid.Uint32Range(1, 3).Draw(t, "max_attempts")}
			def.Phases[i].IgnoreFailure = rapid.IntRange(0, 3).Draw(t, "ignore_failure") > 0
		}
		p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, clock)
		held := map[uint32]bool{} // locks and slots, as those who give them see it
		for range 500 {
			for _, e := range effs {
				if lock, ok := e.(effects.AcquireLock); ok {
					held[lock.N] = true
				}
				if slots, ok := e.(effects.AcquireSemaphore); ok {
					held[slots.N] = true
				}
			}
			for _, n := range given(step{effs: effs}) {
				require.True(t, held[n], "what it does not have is given back")
				delete(held, n)
			}
			if p.Phase.Type.Ended() {
				break
			}
			clock.Step++
			e := answerFor(t, p)
			if lost, ok := e.(core.Lost); ok {
				delete(held, lost.N)
			}
			if at := p.Deadline(); !at.IsZero() {
				clock.Now = max(clock.Now, at)
			}
			before := p
			p, effs = p.Apply(e, clock)
			require.Nil(t, refusal(effs), "%s", encoded(before))
		}
		require.True(t, p.Phase.Type.Ended(), "%s", encoded(p))
		require.Empty(t, held, "locks and slots are given back at the end")
		require.Zero(t, p.Deadline())
	})
}

// answerFor gives an event that the pipeline takes: an answer, or its due event.
func answerFor(t *rapid.T, p core.Pipeline) core.PipelineEvent {
	if !p.Deadline().IsZero() && rapid.IntRange(0, 3).Draw(t, "due") == 0 {
		return core.PipelineDue{}
	}
	outcome := rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildSucceeded, core.ChildFailed, core.ChildRefused}).Draw(t, "outcome")
	good := outcome == core.ChildSucceeded
	switch p.Waiting.For {
	case core.WaitChild:
		for _, child := range p.Waiting.Children {
			if !child.Ended {
				return core.ChildEnded{N: child.N, Outcome: outcome, Reason: "no", Result: json.RawMessage(`{"x":1}`)}
			}
		}
	case core.WaitEffect:
		switch {
		case good:
			return core.EffectDone{N: p.Waiting.N}
		case rapid.Bool().Draw(t, "interrupted"):
			return core.EffectInterrupted{N: p.Waiting.N}
		}
		return core.EffectFailed{N: p.Waiting.N, Reason: "no"}
	case core.WaitSignal:
		return core.PipelineSignal{Name: p.Waiting.Name}
	case core.WaitApproval:
		return core.PipelineApprove{Phase: p.Phase.Name, Approved: good}
	case core.WaitManual:
		if good {
			return core.PhaseComplete{Phase: p.Phase.Name}
		}
		return core.PhaseFailed{Phase: p.Phase.Name, Error: "no"}
	case core.WaitHold, core.WaitRegain:
		for _, h := range p.Holds {
			if !h.Granted && good {
				return core.Granted{N: h.N, Name: h.Name, Token: 1}
			}
			if !h.Granted {
				return core.Lost{N: h.N, Name: h.Name}
			}
		}
	case core.WaitTime, core.WaitRetry, core.WaitTransition:
	}
	return core.PipelineDue{}
}

func TestSignalsAndCheckpointsAreKeptOnlyUpToTheirLimits(t *testing.T) {
	s := kitOf(core.KindPipeline).made().(core.Pipeline)
	var effs []effects.Effect
	for i := range core.MaxCheckpoints + 5 {
		s, effs = s.Apply(core.PipelineCheckpoint{Message: fmt.Sprint(i, strings.Repeat("é", 1000))}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	assert.Len(t, s.Checkpoints, core.MaxCheckpoints)
	assert.True(t, strings.HasPrefix(s.Checkpoints[0].Message, "5é"), "the last ones are kept")
	assert.LessOrEqual(t, len(s.Checkpoints[0].Message), core.MaxCheckpointBytes)
	for i := range core.MaxSignals {
		s, effs = s.Apply(core.PipelineSignal{Name: fmt.Sprint(i)}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	_, effs = s.Apply(core.PipelineSignal{Name: "more"}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Contains(t, refusal(effs).Reason, "64 signals wait for their phases already")
}

func TestThePhaseThatFailedIsTriedAgainByItsRetryOnly(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "a", Manual: &core.ManualPhase{}, Retry: core.Retry{MaxAttempts: 3, BackoffMS: 1000, NoRetry: []string{"^forbidden"}}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	final, _ := p.Apply(core.PhaseFailed{Phase: "a", Error: "forbidden by ann"}, clock)
	assert.Equal(t, core.PhaseFailure, final.Phase.Type, "no attempt follows after that error")
	assert.True(t, final.Phase.Recoverable, "a person may still retry")
	for attempt, wait := range []time.Duration{time.Second, 2 * time.Second} {
		p, _ = p.Apply(core.PhaseFailed{Phase: "a", Error: "no"}, clock)
		require.Equal(t, core.WaitRetry, p.Waiting.For)
		assert.Equal(t, clock.Now.Add(wait), p.Deadline())
		clock.Now = p.Deadline()
		p, _ = p.Apply(core.PipelineDue{}, clock)
		assert.Equal(t, uint32(attempt+2), p.Attempt)
	}
	p, _ = p.Apply(core.PhaseFailed{Phase: "a", Error: "no"}, clock)
	assert.Equal(t, core.PhaseFailure, p.Phase.Type, "three attempts are all")
}

func TestAPipelineThatTakesTooLongCleansUpAndFails(t *testing.T) {
	def := manualDef()
	def.TimeoutMS, def.OnFailure = 1000, "ship"
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	clock.Now = p.Deadline()
	assert.Equal(t, start.Add(time.Second), clock.Now)
	p, _ = p.Apply(core.PipelineDue{}, clock)
	require.Equal(t, "ship", p.Phase.Name, "it cleans up")
	assert.Zero(t, p.Deadline(), "without a limit")
	p, _ = p.Apply(core.PhaseComplete{Phase: "ship"}, clock)
	assert.Equal(t, core.Phase{Type: core.PhaseFailure, Name: "build", Error: "the pipeline timed out after 1s", Recoverable: true}, p.Phase)
}

func TestALockThatIsHeldIsNotAskedForAgainAndLostOnesAreForgotten(t *testing.T) {
	lock := &core.LockPhase{Name: "main"}
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "a", Lock: lock}, {Name: "b", Lock: lock}, {Name: "c", Manual: &core.ManualPhase{}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	p, effs := p.Apply(core.Granted{N: 1, Token: 5}, clock)
	require.Equal(t, "c", p.Phase.Name)
	assert.JSONEq(t, `{"name":"main","token":5}`, string(p.Context["b"]))
	for _, e := range effs {
		_, asks := e.(effects.AcquireLock)
		assert.False(t, asks, "%v", e)
	}
	refusedLock, effs := p.Apply(core.ChildEnded{N: 1, Outcome: core.ChildRefused}, clock)
	require.NotNil(t, refusal(effs), "a lock that is granted was not refused")
	assert.Len(t, refusedLock.Holds, 1)
}

func TestAnEffectThatKillsItsHolderIsNotRepeatedForEver(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "a", Notify: &core.NotifyPhase{Title: "t"}}}}
	clock := core.Clock{Now: start}
	p := begunPipeline(def, clock)
	for n := range uint32(core.DefaultMaxAttempts) {
		require.Equal(t, core.PhaseRunning, p.Phase.Type)
		require.Equal(t, n+1, p.Waiting.N)
		p, _ = p.Apply(core.EffectInterrupted{N: n + 1, Reason: core.ReasonRecovered}, clock)
	}
	assert.Equal(t, core.PhaseFailure, p.Phase.Type)
	assert.Equal(t, core.ReasonRecovered, p.Phase.Error)
}

func TestAnItemCanBePushedWithoutWaitingAndAnyListOfIDsAwaited(t *testing.T) {
	def := core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "ids"}}, Phases: []core.PhaseDef{
		{Name: "push", Push: &core.PushPhase{Queue: "q"}},
		{Name: "until", Wait: &core.WaitPhase{Until: "2020-01-01T00:00:00Z"}},
		{Name: "start", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Definition: manualDef()}}}},
		{Name: "await", Pipelines: &core.PipelinesPhase{Await: []string{"${ids}", "${start}"}}},
	}}
	clock := core.Clock{Now: start}
	spec := core.PipelineSpec{ID: id(1), Definition: def, Context: map[string]json.RawMessage{"ids": json.RawMessage(`["` + id(2).String() + `"]`)}}
	p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: spec}, clock)
	p, effs := p.Apply(core.PipelineDue{}, clock)
	require.Equal(t, "push", p.Phase.Name)
	pushes := sends[core.QueuePush](step{effs: effs})
	require.Len(t, pushes, 1)
	assert.True(t, pushes[0].Owner.IsZero(), "its end is of no interest")
	p, effs = p.Apply(core.QueuePushed{N: pushes[0].Ack.N, Item: id(9)}, clock)
	require.Equal(t, "await", p.Phase.Name, p.Phase.Error)
	require.Len(t, p.Waiting.Children, 2)
	assert.Equal(t, pipelineRef(2), p.Waiting.Children[0].Ref)
	s := step{effs: effs}
	assert.Len(t, sends[core.PipelineWatch](s), 2)
	assert.Empty(t, sends[core.QueueCancelItem](s))
}

func TestAPushThatIsRefusedFailsItsPhase(t *testing.T) {
	for _, wait := range []bool{false, true} {
		def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "push", Push: &core.PushPhase{Queue: "q", Wait: wait}}}}
		w := world{}
		apply := func(seq uint64, to effects.Ref, e core.Event) {
			batch := core.NewBatch(w, core.Clock{Now: start}, seq)
			_, err := batch.Apply(core.Input{To: to, Event: e})
			require.NoError(t, err)
			w.store(batch)
		}
		p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, core.Clock{Now: start})
		p, effs := p.Apply(core.PipelineDue{}, core.Clock{Now: start})
		w[p.Ref()] = encoded(p)
		push := sends[core.QueuePush](step{effs: effs})[0]
		push.Key = "\xff" // whatever the reason is
		apply(1, core.QueueRef("", "", "q"), push)
		s, err := w.Load(p.Ref())
		require.NoError(t, err)
		got := s.(core.Pipeline).Phase
		assert.Equal(t, core.PhaseFailure, got.Type)
		assert.Contains(t, got.Error, "queue refused: key: ")
	}
}

func TestAPipelineOfAnotherTenantIsAsIfItWereNotThere(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "wait", Signal: &core.SignalPhase{Name: "go"}}}}
	p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Tenant: "a", Definition: def}}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(2)}, N: 1}
	_, effs = p.Apply(core.PipelineWatch{Owner: owner, Tenant: "b"}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, effects.CodeNotFound, refusal(effs).Code)
	_, effs = p.Apply(core.PipelineWatch{Owner: owner, Tenant: "a"}, core.Clock{Now: start})
	assert.Nil(t, refusal(effs))
}

// Rules before 13 announced no approval: what they have decided is replayed as it was.
func TestAnApprovalIsAnnouncedByTheRulesOf13(t *testing.T) {
	for rules, want := range map[core.Rules]bool{12: false, 13: true, 0: true} {
		p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{
			ID: id(1), Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "ask", Approval: &core.ApprovalPhase{Message: "sure?"}}}},
		}}, core.Clock{Now: start, Rules: rules})
		p, effs := p.Apply(core.PipelineDue{}, core.Clock{Now: start, Rules: rules})
		require.True(t, p.AwaitsApproval())
		announced := slices.ContainsFunc(effs, func(e effects.Effect) bool {
			emit, ok := e.(effects.Emit)
			return ok && emit.Event.Kind == effects.KindPipelineApproval
		})
		assert.Equal(t, want, announced, "rules %d", rules)
	}
}
