package shell_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// ended gives an engine with a pipeline, a task and a strategy that have ended.
func ended(t *testing.T) (*shell.Engine, core.Pipeline, core.Task, core.Strategy) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), TickRate: time.Hour, ActionRetention: 24 * time.Hour})
	p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
		{Name: "wait", Wait: &core.WaitPhase{ForMS: 60_000}},
		{Name: "count", Run: &core.ToolRun{Tool: "count"}},
	}}})
	require.NoError(t, err)
	p, err = e.Pipelines().Wait(bg(), p.ID)
	require.NoError(t, err)
	task, err := e.Tasks().Create(bg(), core.TaskSpec{Label: "by hand"})
	require.NoError(t, err)
	synctest.Wait()
	_, err = e.Tasks().Send(bg(), task.ID, core.TaskComplete{})
	require.NoError(t, err)
	task, err = e.Tasks().Wait(bg(), task.ID)
	require.NoError(t, err)
	st, err := e.Strategies().Create(bg(), core.StrategySpec{Approaches: []core.Approach{
		{Name: "count", Action: core.ApproachAction{Command: &core.ToolRun{Tool: "count"}}},
	}})
	require.NoError(t, err)
	st, err = e.Strategies().Wait(bg(), st.ID)
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
		_, err := e.Pipelines().Get(bg(), p.ID)
		require.NoError(t, err)
		elapse(3 * time.Hour)
		_, err = e.Pipelines().Get(bg(), p.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Tasks().Get(bg(), task.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Strategies().Get(bg(), st.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestPhasesAreTimedByWhatTheyDoAndEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, _, _ := ended(t)
		_, err := e.Subscribers().Send(bg(), shell.Scope{}, core.BusPublish{Kind: effects.Custom("deploys", "wanted"), Source: effects.EventSource{Component: "test"}})
		require.NoError(t, err)
		p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
			{Name: "a", Manual: &core.ManualPhase{}}, {Name: "b", Manual: &core.ManualPhase{}},
		}}})
		require.NoError(t, err)
		elapse(2 * time.Second)
		for _, ev := range []core.PipelineEvent{
			core.PhaseFailed{Phase: "a", Error: "no"}, core.PipelineRetry{}, core.PhaseComplete{Phase: "a"}, core.PhaseComplete{Phase: "b"},
		} {
			_, err = e.Pipelines().Send(bg(), p.ID, ev)
			require.NoError(t, err)
		}
		synctest.Wait() // counted after the answer
		st, err := e.RunbookStats(bg())
		require.NoError(t, err)
		count := func(kind string, outcome core.PhaseOutcome) (n uint64) {
			for _, c := range st.Phases[shell.PhaseKey{Kind: kind, Outcome: outcome}].Counts {
				n += c
			}
			return n
		}
		assert.EqualValues(t, 1, count("wait", core.HistoryDone))
		assert.EqualValues(t, 1, count("run", core.HistoryDone))
		assert.EqualValues(t, 1, count("manual", core.HistoryFailed))
		assert.EqualValues(t, 2, count("manual", core.HistoryDone))
		assert.InDelta(t, 60, st.Phases[shell.PhaseKey{Kind: "wait", Outcome: core.HistoryDone}].Sum, 0.001)
		assert.EqualValues(t, 1, st.Phases[shell.PhaseKey{Kind: "wait", Outcome: core.HistoryDone}].Counts[6], "up to a minute")
		assert.EqualValues(t, 2, st.Events[effects.KindPipelineComplete])
		assert.EqualValues(t, 1, st.Events[shell.OtherEvents])
		assert.NotContains(t, st.Events, effects.Custom("deploys", "wanted"), "of those there may be any number")
		assert.Equal(t, map[core.PhaseType]uint64{
			core.PhaseInit: 0, core.PhaseBlocked: 0, core.PhaseRunning: 0, core.PhaseDone: 2, core.PhaseFailure: 0, core.PhaseCancelled: 0,
		}, st.Pipelines)
		assert.EqualValues(t, 1, st.Tasks[core.TaskDone])
		assert.EqualValues(t, 1, st.Strategies[core.StrategySucceeded])
	})
}

func TestTheLogTellsOfRunbooksAtTheLevelOfTheirWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		plain := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || strings.HasSuffix(a.Key, "_id") {
				return slog.Attr{}
			}
			return a
		}
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: plain}))
		e, stop := start(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), Logger: log})
		p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Namespace: "ns", Tenant: "t1", Label: "l", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
			{Name: "a", Manual: &core.ManualPhase{}},
		}}})
		require.NoError(t, err)
		_, err = e.Pipelines().Send(bg(), p.ID, core.PhaseFailed{Phase: "a", Error: "no disk"})
		require.NoError(t, err)
		task, err := e.Tasks().Create(bg(), core.TaskSpec{Label: "t"})
		require.NoError(t, err)
		synctest.Wait()
		_, err = e.Tasks().Send(bg(), task.ID, core.TaskRecover{Action: core.RecoverEscalate, Message: "look\nhere"})
		require.NoError(t, err)
		queue := core.QueueRef("ns", "t1", "q")
		for range 2 {
			_, _, err = e.Queues().Push(bg(), "ns", "t1", "q", shell.PushOptions{})
			require.NoError(t, err)
			items, err := e.Queues().Take(bg(), queue, shell.TakeOptions{Holder: "w"})
			require.NoError(t, err)
			require.NoError(t, e.Queues().Fail(bg(), shell.HoldOf(items[0]), "no\nroute", items[0].Attempts == 2))
		}
		_, err = e.Locks().Send(bg(), shell.Scope{Namespace: "ns", Tenant: "t1"}, "main", core.LockAcquire{Name: "main", Namespace: "ns", Tenant: "t1", Holder: "ann"})
		require.NoError(t, err)
		_, err = e.Locks().Send(bg(), shell.Scope{Namespace: "ns", Tenant: "t1"}, "main", core.LockBreak{By: "ops"})
		require.NoError(t, err)
		require.NoError(t, stop())
		for _, line := range []string{
			`level=INFO msg=pipeline.start namespace=ns tenant=t1 label=l pipeline=p` + "\n",
			`level=WARN msg=pipeline.fail namespace=ns tenant=t1 label=l pipeline=p attempt=1 error="no disk" phase=a` + "\n",
			`level=ERROR msg=system.escalate namespace="" tenant="" label=t message="look\nhere"`,
			`level=INFO msg=queue.fail namespace=ns tenant=t1 name=q error="no\nroute" item=00000000-0001-`,
			`level=WARN msg=queue.dead namespace=ns tenant=t1 name=q item=00000000-0001-`,
			`level=WARN msg=lock.break holder=ann name=main namespace=ns reason="broken by ops" tenant=t1 token=`,
		} {
			assert.Contains(t, b.String(), line)
		}
		assert.NotContains(t, b.String(), "pipeline.phase", "that is for debugging")
		assert.NotRegexp(t, ` name=q .* name=q`, b.String(), "nothing stands in a line twice")
	})
}
