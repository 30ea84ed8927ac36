package core_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestADefinitionThatCannotWorkIsRefusedWithThePhaseAndTheField(t *testing.T) {
	run := &core.ToolRun{Tool: "command"}
	for _, row := range []struct {
		name, want string
		change     func(*core.PipelineDef)
	}{
		{"no name", "name: must not be empty", func(d *core.PipelineDef) { d.Name = "" }},
		{"no phases", "phases: 0 phases are not between 1 and 1000", func(d *core.PipelineDef) { d.Phases = nil }},
		{"too many phases", "phases: 1001 phases are not between", func(d *core.PipelineDef) { d.Phases = chain(1001) }},
		{"two of one name", `phases[1].name: there are two phases "a"`, func(d *core.PipelineDef) { d.Phases[1].Name = "a" }},
		{"a name that no reference can name", `phases[1].name: "b.c" has one of`, func(d *core.PipelineDef) { d.Phases[1].Name = "b.c" }},
		{"a name that is taken", `phases[1].name: "phase" is taken`, func(d *core.PipelineDef) { d.Phases[1].Name = "phase" }},
		{"no action", `phase "b" (phases[1]): has no action`, func(d *core.PipelineDef) { d.Phases[1].Run = nil }},
		{"two actions", `phase "b" (phases[1]): has several actions, run and manual`, func(d *core.PipelineDef) { d.Phases[1].Manual = &core.ManualPhase{} }},
		{"no tool", `phase "b" (phases[1]): run.tool: must not be empty`, func(d *core.PipelineDef) { d.Phases[1].Run = &core.ToolRun{} }},
		{"bad input", `phase "b" (phases[1]): run.input: "{" is not valid JSON`, func(d *core.PipelineDef) { d.Phases[1].Run = &core.ToolRun{Tool: "x", Input: json.RawMessage("{")} }},
		{"unknown next", `next: there is no phase "z"`, func(d *core.PipelineDef) { d.Phases[1].Next = "z" }},
		{"a cycle", `phase "c" (phases[2]): next: "a" does not stand later, which makes a cycle: c → a → b → c`, func(d *core.PipelineDef) { d.Phases[2].Next = "a" }},
		{"itself", `next: "c" does not stand later, which makes a cycle: c → c`, func(d *core.PipelineDef) { d.Phases[2].Next = "c" }},
		{"a way around that goes back", `on_failure: "a" does not stand later`, func(d *core.PipelineDef) { d.Phases[2].OnFailure = "a" }},
		{"unknown cleaning up", `on_failure: there is no phase "z"`, func(d *core.PipelineDef) { d.OnFailure = "z" }},
		{"bad pattern", `retry.no_retry[0]: "(" is no regular expression`, func(d *core.PipelineDef) { d.Phases[0].Retry.NoRetry = []string{"("} }},
		{"negative limit", `timeout_ms: -1 is not between`, func(d *core.PipelineDef) { d.Phases[0].TimeoutMS = -1 }},
		{"a reference to a later phase", `run.tool: ${c}: "c" is neither an input nor the output of an earlier phase`, func(d *core.PipelineDef) { d.Phases[1].Run = &core.ToolRun{Tool: "${c}"} }},
		{"a reference that is none", `run.tool: "${c" has no closing`, func(d *core.PipelineDef) { d.Phases[1].Run = &core.ToolRun{Tool: "${c"} }},
		{"an unknown condition", `when.ref: ${z}: "z" is neither`, func(d *core.PipelineDef) { d.Phases[1].When = &core.When{Ref: "z", Equals: json.RawMessage("1")} }},
		{"a merge by an agent", "merge.strategy: \"agent\" is not", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Merge: &core.MergeRun{Repo: "r", Branch: "b", Into: "m", Strategy: effects.MergeAgent}}
		}},
		{"an agent without a program", "strategy.approaches[0].action.agent_prompt.command: must not be empty: a prompt needs a session", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "x", Action: core.ApproachAction{AgentPrompt: &core.AgentPrompt{Prompt: "p"}}}}}}
		}},
		{"a merging agent without a program", "strategy.approaches[0].action.merge.agent.command: must not be empty", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "x", Action: core.ApproachAction{Merge: &core.MergeRun{
				Repo: "r", Branch: "b", Into: "m", Strategy: effects.MergeAgent, Agent: &core.AgentPrompt{Prompt: "p"},
			}}}}}}
		}},
		{"a merge by nobody", "strategy.approaches[0].action.merge.agent: missing", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "x", Action: core.ApproachAction{Merge: &core.MergeRun{
				Repo: "r", Branch: "b", Into: "m", Strategy: effects.MergeAgent,
			}}}}}}
		}},
		{"more approaches than a strategy takes", "strategy.approaches: 33 are not between 1 and 32", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Strategy: &core.StrategyPhase{Approaches: make([]core.Approach, core.MaxApproaches+1)}}
		}},
		{"an agent with too little time", "task: config.heartbeat_timeout_ms: -1 is not between", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Task: &core.AgentPrompt{Prompt: "p", Config: core.TaskConfig{HeartbeatTimeoutMS: -1}}}
		}},
		{"an agent with too many arguments", "task.command: 257 arguments are more than 256", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Task: &core.AgentPrompt{Command: make([]string, 257)}}
		}},
		{"two approaches of one name", `strategy.approaches[1].name: "x" is that of another approach`, approaches(toolApproach, toolApproach)},
		{"an approach with too little time", "strategy.approaches[0].timeout_ms: -1 is not between", approaches(func(a *core.Approach) { toolApproach(a); a.TimeoutMS = -1 })},
		{"an approach without a tool", "strategy.approaches[0].action.command.tool: must not be empty", approaches(func(a *core.Approach) { toolApproach(a); a.Action.Command = &core.ToolRun{} })},
		{"a condition that says nothing", "strategy.approaches[0].fallback_on[0]: give exactly one of", approaches(func(a *core.Approach) { toolApproach(a); a.FallbackOn = make([]core.FallbackCondition, 1) })},
		{"an unknown merge", `strategy.approaches[0].action.merge.strategy: "squash" is unknown`, approaches(func(a *core.Approach) {
			a.Name, a.Action.Merge = "x", &core.MergeRun{Repo: "r", Branch: "b", Into: "m", Strategy: "squash"}
		})},
		{"an agent that has nothing to do", `strategy.approaches[0].action.merge.agent: strategy "rebase" has none`, approaches(func(a *core.Approach) {
			a.Name, a.Action.Merge = "x", &core.MergeRun{Repo: "r", Branch: "b", Into: "m", Strategy: effects.MergeRebase, Agent: &core.AgentPrompt{}}
		})},
		{"an unlock of nothing", `unlock.name: no earlier phase takes a lock or a semaphore "x"`, func(d *core.PipelineDef) {
			d.Phases[2] = core.PhaseDef{Name: "c", Unlock: &core.UnlockPhase{Name: "x"}}
		}},
		{"both waits", "wait: give one of for_ms and until", func(d *core.PipelineDef) { d.Phases[0] = core.PhaseDef{Name: "a", Wait: &core.WaitPhase{}} }},
		{"a bad time", "wait.until: time \"tomorrow\" is not RFC 3339", func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Wait: &core.WaitPhase{Until: "tomorrow"}}
		}},
		{"no pipelines", "pipelines: 0 pipelines are not between 1 and 64", func(d *core.PipelineDef) { d.Phases[0] = core.PhaseDef{Name: "a", Pipelines: &core.PipelinesPhase{}} }},
		{"a bad pipeline within", `pipelines.start[0].definition: name: must not be empty`, func(d *core.PipelineDef) {
			d.Phases[0] = core.PhaseDef{Name: "a", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Definition: core.PipelineDef{Phases: chain(1)}}}}}
		}},
		{"a context beyond all limits", "context_limit: 1048577 is not between", func(d *core.PipelineDef) { d.ContextLimit = core.MaxContextLimit + 1 }},
		{"an unknown result", `result: "z" is neither`, func(d *core.PipelineDef) { d.Result = "z" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "a", Run: run}, {Name: "b", Run: run}, {Name: "c", Run: run}}}
			require.NoError(t, d.Validate())
			row.change(&d)
			assert.ErrorContains(t, d.Validate(), row.want)
			_, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: d}}, core.Clock{Now: start})
			require.NotNil(t, refusal(effs))
			assert.Equal(t, effects.CodeInvalid, refusal(effs).Code)
		})
	}
}

func toolApproach(a *core.Approach) { a.Name, a.Action.Command = "x", &core.ToolRun{Tool: "command"} }

// approaches makes the first phase a strategy.
func approaches(each ...func(*core.Approach)) func(*core.PipelineDef) {
	return func(d *core.PipelineDef) {
		list := make([]core.Approach, len(each))
		for i := range list {
			each[i](&list[i])
		}
		d.Phases[0] = core.PhaseDef{Name: "a", Strategy: &core.StrategyPhase{Approaches: list}}
	}
}

func TestAPipelineIsRefusedWithTheFieldThatIsWrong(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(*core.PipelineSpec)
	}{
		{"no id", "id: must be a UUID", func(s *core.PipelineSpec) { s.ID = uuid.Nil }},
		{"depends on itself", "depends_on[0]", func(s *core.PipelineSpec) { s.DependsOn = []uuid.UUID{s.ID} }},
		{"depends twice on one", "depends_on[1]", func(s *core.PipelineSpec) { s.DependsOn = []uuid.UUID{id(2), id(2)} }},
		{"missing input", "context.target: the input is missing", func(s *core.PipelineSpec) { s.Definition.Inputs = []core.InputDef{{Name: "target", Required: true}} }},
		{"context too long", "context: 65541 bytes are more than 65536", func(s *core.PipelineSpec) {
			s.Context = map[string]json.RawMessage{"abc": json.RawMessage(`"` + strings.Repeat("x", core.DefaultContextLimit) + `"`)}
		}},
		{"context no JSON", "definition and context: ", func(s *core.PipelineSpec) { s.Context = map[string]json.RawMessage{"x": json.RawMessage("{")} }},
		{"invalid text deep inside", "a text is not valid UTF-8", func(s *core.PipelineSpec) { s.Definition.Phases[0].Manual.Instructions = "\xff" }},
		{"a definition too long", "definition: ", func(s *core.PipelineSpec) {
			for i := range s.Definition.Phases {
				s.Definition.Phases[i].Manual = &core.ManualPhase{Instructions: strings.Repeat("x", 60_000)}
			}
			s.Definition.Phases = append(s.Definition.Phases, chain(1)...)
			for i := range 8 {
				s.Definition.Phases = append(s.Definition.Phases, core.PhaseDef{Name: fmt.Sprint("m", i), Manual: &core.ManualPhase{Instructions: strings.Repeat("x", 60_000)}})
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := core.PipelineSpec{ID: id(1), Definition: manualDef()}
			row.change(&spec)
			_, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: spec}, core.Clock{Now: start})
			require.NotNil(t, refusal(effs))
			assert.Contains(t, refusal(effs).Reason, row.want)
		})
	}
}

func TestEachTextOfAPhaseThatMayHaveReferencesIsLookedThrough(t *testing.T) {
	const no = "${nope}"
	agent := func(a core.AgentPrompt) *core.AgentPrompt {
		a.Command = append(a.Command, "agent")
		return &a
	}
	approach := func(a core.ApproachAction) core.PhaseDef {
		return core.PhaseDef{Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "a", Action: a}}}}
	}
	merge := func(repo, branch, into, prompt string) *core.MergeRun {
		return &core.MergeRun{Repo: repo, Branch: branch, Into: into, Strategy: effects.MergeAgent, Agent: agent(core.AgentPrompt{Prompt: prompt})}
	}
	for field, phase := range map[string]core.PhaseDef{
		"run.tool":        {Run: &core.ToolRun{Tool: no}},
		"run.input":       {Run: &core.ToolRun{Tool: "t", Input: json.RawMessage(`["${nope}"]`)}},
		"task.prompt":     {Task: agent(core.AgentPrompt{Prompt: no})},
		"task.workspace":  {Task: agent(core.AgentPrompt{Prompt: "p", Workspace: no})},
		"task.command[0]": {Task: agent(core.AgentPrompt{Prompt: "p", Command: []string{no}})},
		"task.env.A":      {Task: agent(core.AgentPrompt{Prompt: "p", Env: map[string]string{"A": no}})},

		"strategy.approaches[0].action.command.tool":        approach(core.ApproachAction{Command: &core.ToolRun{Tool: no}}),
		"strategy.approaches[0].action.agent_prompt.prompt": approach(core.ApproachAction{AgentPrompt: agent(core.AgentPrompt{Prompt: no})}),
		"strategy.approaches[0].action.merge.repo":          approach(core.ApproachAction{Merge: merge(no, "b", "i", "p")}),
		"strategy.approaches[0].action.merge.branch":        approach(core.ApproachAction{Merge: merge("r", no, "i", "p")}),
		"strategy.approaches[0].action.merge.into":          approach(core.ApproachAction{Merge: merge("r", "b", no, "p")}),
		"strategy.approaches[0].action.merge.agent.prompt":  approach(core.ApproachAction{Merge: merge("r", "b", "i", no)}),

		"push.queue":               {Push: &core.PushPhase{Queue: no}},
		"push.data":                {Push: &core.PushPhase{Queue: "q", Data: json.RawMessage(`"${nope}"`)}},
		"push.key":                 {Push: &core.PushPhase{Queue: "q", Key: no}},
		"push.dedup_key":           {Push: &core.PushPhase{Queue: "q", DedupKey: no}},
		"wait.until":               {Wait: &core.WaitPhase{Until: no}},
		"signal.name":              {Signal: &core.SignalPhase{Name: no}},
		"approval.message":         {Approval: &core.ApprovalPhase{Message: no}},
		"approval.channel":         {Approval: &core.ApprovalPhase{Channel: no}},
		"pipelines.start[0].label": {Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Label: no, Definition: manualDef()}}}},
		"pipelines.await[0]":       {Pipelines: &core.PipelinesPhase{Await: []string{no}}},
		"lock.name":                {Lock: &core.LockPhase{Name: no}},
		"semaphore.name":           {Semaphore: &core.SemaphorePhase{Name: no}},
		"worktree.repo":            {Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: no, Branch: "b", Path: "p"}},
		"worktree.branch":          {Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: no, Path: "p"}},
		"worktree.path":            {Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: "b", Path: no}},
		"worktree.base":            {Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: "b", Path: "p", Base: no}},
		"notify.title":             {Notify: &core.NotifyPhase{Title: no}},
		"notify.message":           {Notify: &core.NotifyPhase{Title: "t", Message: no}},
		"notify.channel":           {Notify: &core.NotifyPhase{Title: "t", Channel: no}},
		"checkpoint.message":       {Checkpoint: &core.CheckpointPhase{Message: no}},
		"set.values.A":             {Set: &core.SetPhase{Values: map[string]json.RawMessage{"A": json.RawMessage(`"${nope}"`)}}},
		"manual.instructions":      {Manual: &core.ManualPhase{Instructions: no}},
		"wake.worker":              {Wake: &core.WakePhase{Worker: no}},
	} {
		phase.Name = "work"
		assert.ErrorContains(t, core.PipelineDef{Name: "p", Phases: []core.PhaseDef{phase}}.Validate(), field+": ${nope}")
	}
}

func TestAPhaseWaitsForAReferenceOrAnInstantAndStartsOrAwaits(t *testing.T) {
	of := func(phase core.PhaseDef) error {
		phase.Name = "work"
		return core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "at"}}, Phases: []core.PhaseDef{phase}}.Validate()
	}
	require.NoError(t, of(core.PhaseDef{Wait: &core.WaitPhase{Until: "${at}"}}))
	require.NoError(t, of(core.PhaseDef{Wait: &core.WaitPhase{Until: "2026-01-02T03:04:05Z"}}))
	require.ErrorContains(t, of(core.PhaseDef{Wait: &core.WaitPhase{Until: "tomorrow"}}), "wait.until: ")
	require.ErrorContains(t, of(core.PhaseDef{Pipelines: &core.PipelinesPhase{
		Start: []core.PipelineStartDef{{Definition: manualDef()}}, Await: []string{id(4).String()},
	}}), "pipelines: give one of start and await")
	env := make(map[string]string, core.MaxMapEntries)
	for i := range core.MaxMapEntries {
		env[strconv.Itoa(i)] = ""
	}
	task := core.PhaseDef{Task: &core.AgentPrompt{Prompt: "p", Command: []string{"agent"}, Env: env}}
	require.NoError(t, of(task))
	env["one more"] = ""
	require.ErrorContains(t, of(task), "task.env: ")
}

func TestFillingInAnApproachLeavesTheDefinitionAsItWas(t *testing.T) {
	def := core.PipelineDef{
		Name: "p", Inputs: []core.InputDef{{Name: "tool", Default: json.RawMessage(`"make"`)}},
		Phases: []core.PhaseDef{{Name: "work", Strategy: &core.StrategyPhase{Approaches: []core.Approach{
			{Name: "a", Action: core.ApproachAction{Command: &core.ToolRun{Tool: "${tool}"}}},
		}}}},
	}
	p := begunPipeline(def, core.Clock{Now: start})

	require.Equal(t, core.PhaseRunning, p.Phase.Type)
	for _, d := range []core.PipelineDef{def, p.Definition} {
		assert.Equal(t, "${tool}", d.Phases[0].Strategy.Approaches[0].Action.Command.Tool)
	}
}
