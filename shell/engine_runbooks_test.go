package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// ended gives an engine with a pipeline, a task and a strategy that have ended.
func ended(t *testing.T) (*shell.Engine, core.Pipeline, core.Task, core.Strategy) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), TickRate: time.Hour, ActionRetention: 24 * time.Hour})
	p, err := e.CreatePipeline(bg(), core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
		{Name: "wait", Wait: &core.WaitPhase{ForMS: 60_000}},
		{Name: "count", Run: &core.ToolRun{Tool: "count"}},
	}}})
	require.NoError(t, err)
	p, err = e.WaitPipeline(bg(), p.ID)
	require.NoError(t, err)
	task, err := e.CreateTask(bg(), core.TaskSpec{Label: "by hand"})
	require.NoError(t, err)
	synctest.Wait()
	_, err = e.SendTask(bg(), task.ID, core.TaskComplete{})
	require.NoError(t, err)
	task, err = e.WaitTask(bg(), task.ID)
	require.NoError(t, err)
	st, err := e.CreateStrategy(bg(), core.StrategySpec{Approaches: []core.Approach{
		{Name: "count", Action: core.ApproachAction{Command: &core.ToolRun{Tool: "count"}}},
	}})
	require.NoError(t, err)
	st, err = e.WaitStrategy(bg(), st.ID)
	require.NoError(t, err)
	return e, p, task, st
}

func TestWhoWaitsForAMachineOfARunbookIsToldOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, task, st := ended(t)
		assert.Equal(t, core.PhaseDone, p.Phase.Type)
		assert.Equal(t, core.TaskSuccess, task.State.Result.Type)
		assert.Equal(t, core.StrategySucceeded, st.Status)
	})
}

// C12.
func TestMachinesOfRunbooksGoWhenTheirRetentionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, p, task, st := ended(t)
		elapse(23 * time.Hour)
		_, err := e.Pipeline(bg(), p.ID)
		require.NoError(t, err)
		elapse(3 * time.Hour)
		_, err = e.Pipeline(bg(), p.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Task(bg(), task.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Strategy(bg(), st.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}
