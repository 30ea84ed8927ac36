package core_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestWhatWasDecidedByRulesBefore16NotesNoHome(t *testing.T) {
	home := json.RawMessage(`{"home":"a"}`)
	for rules, want := range map[core.Rules]string{15: "", 16: "a", 0: "a"} {
		c := core.Clock{Now: start, Rules: rules}
		task, _ := core.Task{}.Apply(core.TaskCreate{Spec: core.TaskSpec{ID: id(1), Command: []string{"agent"}}}, c)
		task, _ = task.Apply(core.TaskStart{}, c)
		task, _ = task.Apply(core.EffectDone{N: 1, Result: home}, c)
		assert.Equal(t, want, task.Home, "rules %d", rules)

		p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: worktrees(1)}}, c)
		p, _ = p.Apply(core.PipelineStart{}, c)
		p, _ = p.Apply(core.EffectDone{N: 1, Result: home}, c)
		assert.Len(t, p.Worktrees, len(want), "rules %d", rules)
	}
}

// worktrees is a definition that makes some, then waits.
func worktrees(n int) core.PipelineDef {
	d := core.PipelineDef{Name: "p"}
	for i := range n {
		phase := core.PhaseDef{Name: fmt.Sprintf("tree%d", i)}
		phase.Worktree = &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: "b", Path: fmt.Sprintf("wt%d", i)}
		d.Phases = append(d.Phases, phase)
	}
	last := core.PhaseDef{Name: "work"}
	last.Manual = &core.ManualPhase{}
	d.Phases = append(d.Phases, last)
	return d
}

func TestAPipelineKnowsTheHomesOfItsLastHundredWorktrees(t *testing.T) {
	c := core.Clock{Now: start}
	p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: worktrees(core.MaxWorktrees + 2)}}, c)
	p, _ = p.Apply(core.PipelineStart{}, c)
	for n := range uint32(core.MaxWorktrees + 2) {
		var effs []effects.Effect
		before := p
		p, effs = p.Apply(core.EffectDone{N: n + 1, Result: json.RawMessage(fmt.Sprintf(`{"home":"h%d"}`, n%2))}, c)
		require.NotEmpty(t, effs)
		assert.Len(t, before.Worktrees, int(min(n, core.MaxWorktrees)), "the state from before is as it was")
	}
	require.Len(t, p.Worktrees, core.MaxWorktrees)
	assert.Equal(t, "wt2", p.Worktrees[0].Path)

	p, _ = p.Apply(core.HomeLost{Home: "h0"}, c)
	assert.Equal(t, `worktree wt2, and 49 more, is out of reach: its home is the instance "h0", and another one works on the pipeline now`, p.Phase.Error)
	assert.True(t, p.Phase.Recoverable)
	assert.Len(t, p.Worktrees, core.MaxWorktrees/2, "those of the other home are where they were")
}

func TestAHomeThatIsNoTextOrTooLongIsBounded(t *testing.T) {
	c := core.Clock{Now: start}
	for result, want := range map[string]int{`{"home":7}`: 0, `"home"`: 0, ``: 0, `{"home":"` + longText(5000) + `"}`: core.MaxNameBytes} {
		task, _ := core.Task{}.Apply(core.TaskCreate{Spec: core.TaskSpec{ID: id(1), Command: []string{"agent"}}}, c)
		task, _ = task.Apply(core.TaskStart{}, c)
		task, _ = task.Apply(core.EffectDone{N: 1, Result: json.RawMessage(result)}, c)
		assert.Len(t, task.Home, want, result[:min(len(result), 20)])
	}
}

func longText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}
