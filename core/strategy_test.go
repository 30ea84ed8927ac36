package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestAStrategyIsRefusedWithTheFieldAndTheValueThatIsWrong(t *testing.T) {
	merge := func(s *core.StrategySpec, change func(*core.MergeRun)) { change(s.Approaches[2].Action.Merge) }
	for _, row := range []struct {
		name, want string
		change     func(*core.StrategySpec)
	}{
		{"no id", "id: must be a UUID", func(s *core.StrategySpec) { s.ID = [16]byte{} }},
		{"no approach", "approaches: must not be empty", func(s *core.StrategySpec) { s.Approaches = nil }},
		{"too many", "approaches: 33 are more than 32", func(s *core.StrategySpec) { s.Approaches = make([]core.Approach, 33) }},
		{"label", "label: ", func(s *core.StrategySpec) { s.Label = "\xff" }},
		{"owner", "owner: ", func(s *core.StrategySpec) { s.Owner.Ref.Kind = "planet" }},
		{"no name", "approaches[1].name: must not be empty", func(s *core.StrategySpec) { s.Approaches[1].Name = "" }},
		{"same name", `approaches[1].name: "fast-forward" is that of another approach`, func(s *core.StrategySpec) { s.Approaches[1].Name = "fast-forward" }},
		{"time", "approaches[0].timeout_ms: -1 is not between", func(s *core.StrategySpec) { s.Approaches[0].TimeoutMS = -1 }},
		{"empty condition", "approaches[0].fallback_on[0]: give exactly one of", func(s *core.StrategySpec) { s.Approaches[0].FallbackOn = []core.FallbackCondition{{}} }},
		{"negative condition", "approaches[0].fallback_on[0].timeout_ms: -1", func(s *core.StrategySpec) { s.Approaches[0].FallbackOn = []core.FallbackCondition{{TimeoutMS: -1}} }},
		{"many conditions", "approaches[0].fallback_on: 33 conditions are more than 32", func(s *core.StrategySpec) { s.Approaches[0].FallbackOn = make([]core.FallbackCondition, 33) }},
		{"two actions", "approaches[0].action: give exactly one of", func(s *core.StrategySpec) { s.Approaches[0].Action.Command = &core.ToolRun{Tool: "http"} }},
		{"input", "approaches[0].action.command: tool_input: ", func(s *core.StrategySpec) {
			s.Approaches[0].Action = core.ApproachAction{Command: &core.ToolRun{Tool: "http", Input: json.RawMessage("{")}}
		}},
		{"interrupt", "approaches[0].action.command: policy.on_interrupt: ", func(s *core.StrategySpec) {
			s.Approaches[0].Action = core.ApproachAction{Command: &core.ToolRun{Tool: "http", OnInterrupt: "pray"}}
		}},
		{"option for a branch", `approaches[2].action.merge.branch: "--upload-pack=x" is no name of a branch`, func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Branch = "--upload-pack=x" }) }},
		{"range for a branch", "approaches[2].action.merge.into: ", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Into = "a..b" }) }},
		{"itself", "approaches[2].action.merge.into: \"feature\" is the branch itself", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Into = m.Branch }) }},
		{"outside", "approaches[2].action.merge.repo: ", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Repo = "a/../../b" }) }},
		{"strategy", `approaches[2].action.merge.strategy: "octopus" is unknown`, func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Strategy = "octopus" }) }},
		{"idle agent", "approaches[2].action.merge.agent: strategy \"rebase\" has none", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Strategy = effects.MergeRebase }) }},
		{"agent's program", "approaches[2].action.merge.agent.command: must not be empty", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Agent.Command = nil }) }},
		{"agent's limits", "approaches[2].action.merge.agent: config.timeout_ms: ", func(s *core.StrategySpec) { merge(s, func(m *core.MergeRun) { m.Agent.Config.TimeoutMS = -1 }) }},
		{"altogether too large", "approaches: as JSON its ", func(s *core.StrategySpec) {
			s.Approaches = nil
			for i := range 10 {
				s.Approaches = append(s.Approaches, core.Approach{Name: fmt.Sprint(i), Action: core.ApproachAction{AgentPrompt: &core.AgentPrompt{Prompt: strings.Repeat("a", 60_000), Command: []string{"a"}}}})
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			after, effs := core.Strategy{}.Apply(core.StrategyCreate{Spec: changed(goldenStrategySpec(), row.change)}, core.Clock{Now: start})
			requireInvalid(t, after, effs, row.want)
		})
	}
}

func TestTheMergeChainIsThatOfTheSpecification(t *testing.T) {
	chain := core.MergeChain("repo", "feature", "main", goldenAgent())
	var told []string
	for _, a := range chain {
		told = append(told, fmt.Sprintf("%s by %s, fallback on %+v", a.Name, a.Action.Merge.Strategy, a.FallbackOn))
	}
	assert.Equal(t, []string{
		"fast-forward by fast-forward, fallback on [{Error:not a fast-forward AnyError:false TimeoutMS:0}]",
		"rebase by rebase, fallback on [{Error:conflict AnyError:false TimeoutMS:0}]",
		"agent by agent, fallback on []",
	}, told)
	assert.NoError(t, core.StrategySpec{ID: id(1), Approaches: chain}.Validate())
}

// apply gives one input to all machines, and stores what it did.
func (w world) apply(t tb, seq uint64, in core.Input, c core.Clock) core.Result {
	batch := core.NewBatch(w, c, seq)
	res, err := batch.Apply(in)
	require.NoError(t, err)
	w.store(batch)
	return res
}

// A strategy whose child cannot be made is told so, and tries the next approach:
// the input is not undone, which would leave the strategy due for ever.
func TestAChildThatIsRefusedIsAFailureOfItsApproach(t *testing.T) {
	spec := commandSpec()
	spec.Approaches[0].FallbackOn = []core.FallbackCondition{{Error: "exists already"}}
	ref, clock := effects.Ref{Kind: core.KindStrategy, ID: spec.ID}, core.Clock{Now: start}
	w := world{}
	w.apply(t, 1, core.Input{To: ref, Event: core.StrategyCreate{Spec: spec}}, clock)
	squatter := goldenActionSpec()
	squatter.ID, squatter.DedupKey = core.ChildID(spec.ID, "action", stepOf(2, 0), 1), ""
	squatter.Namespace, squatter.Tenant = spec.Namespace, spec.Tenant
	w[effects.Ref{Kind: core.KindAction, ID: squatter.ID}] = encoded(core.Action{ActionSpec: squatter})

	res := w.apply(t, 2, core.Input{To: ref, Event: core.StrategyDue{}}, clock)

	require.True(t, res.Changed)
	s := load[core.Strategy](w, core.KindStrategy)[ref]
	assert.EqualValues(t, 1, s.Current)
	assert.Contains(t, s.Outcomes[0].Error, "exists already")
	require.Equal(t, core.KindTask, s.Child.Kind)
	assert.Equal(t, core.TaskPending, load[core.Task](w, core.KindTask)[s.Child].State.Type)
}

func TestCancellingAStrategyCancelsItsChildAndTheChildsSession(t *testing.T) {
	spec := commandSpec()
	spec.Approaches = spec.Approaches[1:]
	ref, clock := effects.Ref{Kind: core.KindStrategy, ID: spec.ID}, core.Clock{Now: start}
	w := world{}
	w.apply(t, 1, core.Input{To: ref, Event: core.StrategyCreate{Spec: spec}}, clock)
	w.apply(t, 2, core.Input{To: ref, Event: core.StrategyDue{}}, clock)
	child := load[core.Strategy](w, core.KindStrategy)[ref].Child
	w.apply(t, 3, core.Input{To: child, Event: core.TaskDue{}}, clock)

	res := w.apply(t, 4, core.Input{To: ref, Event: core.StrategyCancel{Reason: "not needed"}}, clock)

	assert.True(t, res.Changed)
	assert.Equal(t, core.StrategyCancelled, load[core.Strategy](w, core.KindStrategy)[ref].Status)
	task := load[core.Task](w, core.KindTask)[child]
	assert.Equal(t, core.TaskResult{Type: core.TaskCancelled, Reason: "not needed"}, task.State.Result)
	assert.Equal(t, []effects.Outer{effects.Kill{N: 2, Session: task.SessionID}}, core.Outstanding(task))
}

// The children of a strategy are made of its stored spec: what the journal makes
// of an input must be what the live child is made of.
func TestTheChildOfAReplayedStrategyIsTheSame(t *testing.T) {
	spec := commandSpec()
	ref, clock := effects.Ref{Kind: core.KindStrategy, ID: spec.ID}, core.Clock{Now: start}
	e, err := core.DecodeEvent(core.KindStrategy, core.AppendEvent(nil, core.StrategyCreate{Spec: spec}))
	require.NoError(t, err)
	live, replayed := core.NewBatch(loader{}, clock, 1), core.NewBatch(loader{}, clock, 1)
	for batch, create := range map[*core.Batch]core.Event{live: core.StrategyCreate{Spec: spec}, replayed: e} {
		for _, e := range []core.Event{create, core.StrategyDue{}} {
			res, err := batch.Apply(core.Input{To: ref, Event: e})
			require.NoError(t, err)
			require.Nil(t, res.Refused)
		}
	}
	require.Len(t, live.Changes(), 2)
	for i, c := range live.Changes() {
		assert.Equal(t, encoded(c.After), encoded(replayed.Changes()[i].After))
	}
}

func TestAFailureWithAnOutputThatIsNoJSONIsReplayedAsTheFailureThatItWas(t *testing.T) {
	running := madeStrategy(commandSpec(), core.StrategyDue{})
	e := core.StrategyEvaluate{N: 1, Error: "exit status 1", Output: json.RawMessage("{")}
	live, effs := running.Apply(e, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Equal(t, encoded(live), encoded(reapply(t, core.KindStrategy, running, e, core.Clock{Now: start})))
}

// However its approaches come out, a strategy tries each at most once, in order,
// through its real children, and ends.
func TestAStrategyEndsWhateverItsApproachesComeTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := core.StrategySpec{ID: id(1)}
		for i := range rapid.IntRange(1, 5).Draw(t, "approaches") {
			spec.Approaches = append(spec.Approaches, drawApproach(t, i))
		}
		ref, clock, w := effects.Ref{Kind: core.KindStrategy, ID: id(1)}, core.Clock{Now: start}, world{}
		if !w.apply(t, 1, core.Input{To: ref, Event: core.StrategyCreate{Spec: spec}}, clock).Changed {
			return // an odd approach
		}
		for seq := uint64(2); seq < 400; seq++ {
			in, ok := nextInput(t, w, &clock)
			if !ok {
				break
			}
			w.apply(t, seq, in, clock)
		}
		s := load[core.Strategy](w, core.KindStrategy)[ref]
		require.True(t, s.Status.Ended(), "%s", encoded(s))
		for other := range w { // order-free
			state, _ := w.Load(other)
			require.Empty(t, core.Outstanding(state), "%s", other)
			require.Zero(t, state.Deadline(), "%s", other)
		}
	})
}

// nextInput answers what some machine waits for, or lets time pass to the next
// deadline; false where nothing is to be expected any more.
func nextInput(t *rapid.T, w world, clock *core.Clock) (core.Input, bool) {
	var due effects.Ref
	var at core.Time
	for _, ref := range w.refs() {
		s, err := w.Load(ref)
		require.NoError(t, err)
		if open := core.Outstanding(s); len(open) > 0 {
			reason := rapid.SampledFrom([]string{"", "", "CONFLICT", "other"}).Draw(t, "reason")
			e := core.AnswerEvent(ref.Kind, open[0].Number(), nil, core.Failure{Reason: reason})
			if ref.Kind != core.KindAction && rapid.IntRange(0, 4).Draw(t, "crash") == 0 {
				e = core.InterruptEvent(ref.Kind, open[0].Number(), "crash")
			}
			return core.Input{To: ref, Event: e}, true
		}
		if d := s.Deadline(); !d.IsZero() && (at.IsZero() || d < at) {
			due, at = ref, d
		}
	}
	if at.IsZero() {
		return core.Input{}, false
	}
	clock.Now = max(clock.Now, at)
	return core.Input{To: due, Event: core.DueEvent(due.Kind)}, true
}

func TestEachMergeMayBeInterruptedAsOftenAsTheFirst(t *testing.T) {
	clock := core.Clock{Now: start}
	s, effs := core.Strategy{}.Apply(core.StrategyCreate{Spec: goldenStrategySpec()}, clock)
	require.Nil(t, refusal(effs))
	s, _ = s.Apply(core.StrategyDue{}, clock)
	for _, name := range []string{"fast-forward", "rebase"} {
		require.Equal(t, name, s.Approaches[s.Current].Name)
		for range core.MaxEffectRepeats {
			s, _ = s.Apply(core.EffectInterrupted{N: s.Pending.Last}, clock)
			require.Len(t, s.Pending.Open, 1, "%s is asked for again", name)
		}
		s, _ = s.Apply(core.EffectFailed{N: s.Pending.Last, Reason: "not a fast-forward"}, clock)
	}
}
