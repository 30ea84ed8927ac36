package core_test

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindStrategy, kit{
	typ:     "Strategy",
	absent:  core.Strategy{},
	apply:   applying(core.Strategy.Apply),
	made:    func() core.State { return madeStrategy(goldenStrategySpec()) },
	hostile: hostileStrategy,
	draw:    drawStrategyEvent,
	own:     core.StrategyDue{},
	states:  goldenStrategyStates,
	events:  goldenStrategyEvents,
	phase:   func(s core.State) string { return string(s.(core.Strategy).Status) },
	phases:  []string{"absent", "running", "succeeded", "exhausted", "cancelled"},
	invariants: []invariant{
		on("A strategy that has ended stays so, but for expire.", func(s step, b, a core.Strategy) string {
			if _, ok := s.event.(core.StrategyExpire); ok || !b.Status.Ended() {
				return ""
			}
			return unless(encoded(a) == encoded(b), "%s → %s", encoded(b), encoded(a))
		}),
		on("The end is told once to the bus and to the owner: with the entry into an end.", func(s step, b, a core.Strategy) string {
			want := 0
			if a.Status.Ended() && !b.Status.Ended() {
				want = 1
			}
			bus := len(emitted(s, "strategy:success")) + len(emitted(s, "strategy:exhausted")) + len(emitted(s, "strategy:cancelled"))
			owners := want
			if a.Owner.IsZero() {
				owners = 0
			}
			return unless(bus == want && len(sends[core.ChildEnded](s)) == owners, "%s → %s with %v", b.Status, a.Status, s.effs)
		}),
		on("Current never decreases, grows by at most one with an event, names an approach, and grows exactly with strategy:fallback.", func(s step, b, a core.Strategy) string {
			if !exists(a) {
				return ""
			}
			falls := uint32(len(emitted(s, "strategy:fallback")))
			return unless(falls <= 1 && a.Current == b.Current+falls && int(a.Current) < len(a.Approaches), "%d → %d of %d with %d fallbacks", b.Current, a.Current, len(a.Approaches), falls)
		}),
		on("A fallback follows only on a failure that matches a condition of its approach.", func(_ step, b, a core.Strategy) string {
			if a.Current == b.Current || !exists(a) {
				return ""
			}
			out := a.Outcomes[len(a.Outcomes)-1]
			for _, f := range b.Approaches[b.Current].FallbackOn {
				took := out.FinishedAt.Sub(out.StartedAt).Milliseconds()
				if f.AnyError || f.Error != "" && core.MatchPattern(f.Error, out.Error) || f.TimeoutMS > 0 && out.TimedOut && took >= f.TimeoutMS {
					return unless(out.Outcome == core.OutcomeTryNext && out.Error != "", "%+v", out)
				}
			}
			return fmt.Sprintf("%+v matches none of %+v", out, b.Approaches[b.Current].FallbackOn)
		}),
		on("Each approach that was begun has one outcome, in order, but for the present one.", func(_ step, _, a core.Strategy) string {
			if !exists(a) {
				return ""
			}
			want := a.N
			if a.Status == core.StrategyRunning && want > 0 {
				want--
			}
			for i, out := range a.Outcomes {
				if out.Name != a.Approaches[i].Name || i < len(a.Outcomes)-1 && out.Outcome != core.OutcomeTryNext {
					return fmt.Sprintf("outcome %d is %+v", i, out)
				}
			}
			return unless(uint32(len(a.Outcomes)) == want && a.N <= a.Current+1, "%d outcomes of %d approaches that were begun, at %d", len(a.Outcomes), a.N, a.Current)
		}),
		on("At most one child or merge is waited for, none after the end, and what is given up is cancelled or withdrawn.", func(s step, b, a core.Strategy) string {
			if b.Child != a.Child && !b.Child.IsZero() { // given up, unless it has ended by itself
				ended, _ := s.event.(core.ChildEnded)
				cancelled := 0
				for _, e := range s.effs {
					if send, ok := e.(effects.Send); ok && send.To == b.Child && send.Event.EventType() == "cancel" {
						cancelled++
					}
				}
				if (ended.Child == b.Child) == (cancelled == 1) {
					return fmt.Sprintf("%s was left with %v", b.Child, s.effs)
				}
			}
			if !exists(a) {
				return unless(!exists(b) || b.Child.IsZero() && len(waitedFor(b)) == 0, "%s and %v are lost", b.Child, waitedFor(b))
			}
			if problem := numbered(s, b.Pending, a.Pending, 1); problem != "" {
				return problem
			}
			waits := len(waitedFor(a))
			if !a.Child.IsZero() {
				waits++
			}
			want := 0
			if a.Status == core.StrategyRunning && a.N > 0 {
				want = 1
			}
			return unless(waits == want, "%s waits for %d: %s and %v", a.Status, waits, a.Child, waitedFor(a))
		}),
		on("A due event leaves no deadline that has come.", func(s step, _, a core.Strategy) string {
			if _, due := s.event.(core.StrategyDue); !due || refusal(s.effs) != nil {
				return ""
			}
			return unless(a.Deadline().IsZero() || a.Deadline() > s.clock.Now, "due at %s, at %s", a.Deadline(), s.clock.Now)
		}),
		on("Once created, the spec never changes.", func(_ step, b, a core.Strategy) string {
			was, is := fieldsOf(b.StrategySpec), fieldsOf(a.StrategySpec)
			return unless(!exists(b) || !exists(a) || was == is, "%s → %s", was, is)
		}),
	},
})

func goldenAgent() core.AgentPrompt {
	return core.AgentPrompt{Prompt: "Keep <their> tests.", Command: []string{"agent"}, Workspace: "w", Env: map[string]string{"A": "1"}, Config: core.TaskConfig{TimeoutMS: 60_000}}
}

func goldenStrategySpec() core.StrategySpec {
	return core.StrategySpec{
		ID: id(1), Namespace: "merges", Tenant: "tenant-1", Label: "Größe <3", PipelineID: id(2),
		Owner: core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(2)}, N: 3}, Approaches: core.MergeChain("repo", "feature", "main", goldenAgent()),
	}
}

func commandSpec() core.StrategySpec {
	return core.StrategySpec{ID: id(3), Approaches: []core.Approach{
		{
			Name: "quick", TimeoutMS: 30_000, FallbackOn: []core.FallbackCondition{{TimeoutMS: 10_000}, {Error: "exit status [12]"}},
			Action: core.ApproachAction{Command: &core.ToolRun{Tool: "command", Input: json.RawMessage(` {"argv": ["<a>"]} `), TimeoutMS: 20_000}},
		},
		{Name: "slow", FallbackOn: []core.FallbackCondition{{AnyError: true}}, Action: core.ApproachAction{AgentPrompt: &core.AgentPrompt{Prompt: "Do it.", Command: []string{"agent"}}}},
	}}
}

// madeStrategy gives the strategy of a spec, and what some events make of it.
func madeStrategy(spec core.StrategySpec, events ...core.StrategyEvent) core.Strategy {
	s, _ := core.Strategy{}.Apply(core.StrategyCreate{Spec: spec}, core.Clock{Now: start})
	return afterEvents(core.Strategy.Apply, s, events...)
}

func goldenStrategyStates() []core.State {
	spec := goldenStrategySpec()
	agent := []core.StrategyEvent{core.StrategyDue{}, core.EffectFailed{N: 1, Reason: "not a fast-forward"}, core.EffectFailed{N: 2, Reason: "CONFLICT in a.go"}}
	return []core.State{
		madeStrategy(spec), madeStrategy(spec, core.StrategyDue{}), madeStrategy(commandSpec()), madeStrategy(commandSpec(), core.StrategyDue{}),
		madeStrategy(spec, agent...), madeStrategy(spec, append(agent[:3:3], core.StrategyEvaluate{N: 3, Success: true, Output: json.RawMessage(`{"a": "<"}`)})...),
		madeStrategy(spec, append(agent[:3:3], core.StrategyEvaluate{N: 3, Error: "no <way>"})...), madeStrategy(spec, append(agent[:2:2], core.StrategyCancel{})...),
	}
}

func goldenStrategyEvents() []core.Event {
	child := effects.Ref{Kind: core.KindTask, ID: id(4)}
	return []core.Event{
		core.StrategyCreate{Spec: goldenStrategySpec()}, core.StrategyCreate{Spec: commandSpec()}, core.StrategyDue{},
		core.StrategyEvaluate{N: 1, Success: true, Output: json.RawMessage(`{"a":1}`)}, core.StrategyEvaluate{N: 1, Error: "no"},
		core.StrategyCancel{Reason: "not needed"}, core.StrategyExpire{},
		core.ChildEnded{Child: child, N: 1, Outcome: core.ChildSucceeded, Result: json.RawMessage(`{"a":1}`)}, core.ChildEnded{Child: child, N: 1, Outcome: core.ChildRefused, Reason: "no"},
		core.EffectDone{N: 1}, core.EffectFailed{N: 1, Reason: "conflict"}, core.EffectInterrupted{N: 1}, core.EffectHandedBack{N: 1},
	}
}

func drawApproach(t *rapid.T, i int) core.Approach {
	a := core.Approach{Name: fmt.Sprintf("way %d", i), TimeoutMS: rapid.SampledFrom([]int64{0, 0, 1, 60_000}).Draw(t, "timeout_ms")}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		a.FallbackOn = append(a.FallbackOn, rapid.SampledFrom([]core.FallbackCondition{
			{AnyError: true}, {AnyError: true}, {Error: "conflict|a"}, {TimeoutMS: 1000}, {TimeoutMS: 3_600_000},
		}).Draw(t, "condition"))
	}
	prompt := &core.AgentPrompt{Prompt: "Do it.", Command: []string{"agent"}}
	merge := &core.MergeRun{Repo: "r", Branch: "b", Into: "main", Strategy: effects.MergeRebase}
	switch rapid.IntRange(0, 3).Draw(t, "action") {
	case 0:
		a.Action.Command = &core.ToolRun{Tool: "http", Input: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(` {"a": "<"}`)}).Draw(t, "input")}
	case 1:
		a.Action.Merge = merge
	case 2:
		merge.Strategy, merge.Agent = effects.MergeAgent, prompt
		a.Action.Merge = merge
	case 3:
		a.Action.AgentPrompt = prompt
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { a.Name = "" },
			func() { a.TimeoutMS = -1 },
			func() { a.FallbackOn = []core.FallbackCondition{{}} },
			func() { a.FallbackOn = []core.FallbackCondition{{Error: "("}} },
			func() { a.Action = core.ApproachAction{} },
			func() { a.Action = core.ApproachAction{Command: &core.ToolRun{Input: json.RawMessage("{")}} },
			func() { a.Action = core.ApproachAction{Merge: &core.MergeRun{Strategy: effects.MergeAgent}} },
			func() { a.Action = core.ApproachAction{AgentPrompt: &core.AgentPrompt{Prompt: "\xff"}} },
		}).Draw(t, "oddity")()
	}
	return a
}

func drawStrategySpec(t *rapid.T) core.StrategySpec {
	s := core.StrategySpec{ID: drawID(t, "id"), Owner: drawOwner(t), Label: rapid.SampledFrom([]string{"", "merge", "\xff"}).Draw(t, "label")}
	for i := range rapid.SampledFrom([]int{0, 1, 3, 3, 3, 3, core.MaxApproaches + 1}).Draw(t, "approaches") {
		s.Approaches = append(s.Approaches, drawApproach(t, i))
	}
	return s
}

func drawStrategyEvent(t *rapid.T, state core.State, _ core.Clock) core.Event {
	s := state.(core.Strategy)
	if !exists(s) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.StrategyCreate{Spec: drawStrategySpec(t)}
	}
	reason := func() string {
		return rapid.OneOf(rapid.SampledFrom([]string{"CONFLICT", "other"}), rapid.Custom(func(t *rapid.T) string { return drawText(t, "reason") })).Draw(t, "reason")
	}
	n := rapid.SampledFrom([]uint32{s.N, s.N, s.N, 0, math.MaxUint32}).Draw(t, "n")
	switch rapid.SampledFrom([]string{"due", "due", "due", "child", "child", "child", "answer", "answer", "evaluate", "evaluate", "cancel", "expire", "create"}).Draw(t, "event") {
	case "due":
		return core.StrategyDue{}
	case "child":
		return core.ChildEnded{
			Child: rapid.SampledFrom([]effects.Ref{s.Child, s.Child, s.Child, {Kind: core.KindTask, ID: id(8)}, {}}).Draw(t, "child"), N: n,
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildFailed, core.ChildFailed, core.ChildCancelled, core.ChildRefused, "lost"}).Draw(t, "outcome"),
			Result:  drawJSON(t, "result"), Reason: reason(),
		}
	case "answer":
		return drawAnswer(t, s)
	case "evaluate":
		return core.StrategyEvaluate{N: n, Success: rapid.Bool().Draw(t, "success"), Output: drawJSON(t, "output"), Error: reason()}
	case "cancel":
		return core.StrategyCancel{Reason: drawText(t, "reason")}
	case "expire":
		return core.StrategyExpire{}
	}
	return core.StrategyCreate{Spec: drawStrategySpec(t)}
}

func hostileStrategy(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 0, 1, 2, math.MaxUint32 - 1, math.MaxUint32}).Draw(t, label)
	}
	spec := drawStrategySpec(t)
	if rapid.Bool().Draw(t, "exists") && spec.ID == uuid.Nil {
		spec.ID = id(1)
	}
	return core.Strategy{
		StrategySpec: spec,
		Status:       rapid.SampledFrom([]core.StrategyStatus{"", "odd", core.StrategyRunning, core.StrategyRunning, core.StrategyRunning, core.StrategySucceeded, core.StrategyExhausted, core.StrategyCancelled}).Draw(t, "status"),
		Current:      count("current"), N: count("n"), Repeats: count("repeats"), StartedAt: drawTime(t, c),
		Child:    rapid.SampledFrom([]effects.Ref{{}, {Kind: core.KindTask, ID: id(8)}, {Kind: core.KindAction}, {Kind: "planet", ID: id(8)}}).Draw(t, "child"),
		Outcomes: rapid.SliceOfN(rapid.Just(core.ApproachOutcome{Name: "way 0"}), 0, 3).Draw(t, "outcomes"),
		Pending:  drawPending(t), CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c), FinishedAt: drawTime(t, c),
	}
}
