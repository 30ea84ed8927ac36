package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// What failed today is found whenever it was made.
func TestWhatHasFailedStandsInAListByTheTimeAtWhichItDid(t *testing.T) {
	end := start.Add(time.Hour)
	for _, s := range []core.State{
		core.Action{ActionSpec: core.ActionSpec{ID: id(1), Namespace: "n", Tenant: "t"}, Status: core.Status{Type: core.StatusFailed}, CreatedAt: start, FinishedAt: end},
		core.Pipeline{PipelineSpec: core.PipelineSpec{ID: id(1), Namespace: "n", Tenant: "t"}, Phase: core.Phase{Type: core.PhaseFailure}, CreatedAt: start, FinishedAt: end},
		core.Strategy{StrategySpec: core.StrategySpec{ID: id(1), Namespace: "n", Tenant: "t"}, Status: core.StrategyExhausted, CreatedAt: start, FinishedAt: end},
	} {
		assert.Contains(t, s.Terms(), effects.Term{Name: "failed\x1fn\x1ft", At: end}, "%T", s)
	}
	task := core.Task{State: core.TaskState{Type: core.TaskDone, Result: core.TaskResult{Type: core.TaskFailed}}, CreatedAt: start, FinishedAt: end}
	assert.Contains(t, task.Terms(), effects.Term{Name: core.TermWithin("failed", core.Scope{}), At: end})
	task.State.Result.Type = core.TaskCancelled
	assert.NotContains(t, task.Terms(), effects.Term{Name: core.TermWithin("failed", core.Scope{}), At: end})
	run := core.Orchestrator{State: core.OrchestratorOrphaned, CreatedAt: start, CompletedAt: end}
	assert.Contains(t, run.Terms(), effects.Term{Name: core.TermWithin("failed", core.Scope{}), At: end})
}

func TestAPipelineThatWaitsForSomebodyStandsInAListUntilItGoesOn(t *testing.T) {
	p := core.Pipeline{PipelineSpec: core.PipelineSpec{ID: id(1), Namespace: "n", Tenant: "t"}, Phase: core.Phase{Type: core.PhaseRunning}, Waiting: core.Waiting{For: core.WaitApproval}, CreatedAt: start}
	waits := effects.Term{Name: "waits:approval\x1fn\x1ft", At: start}
	assert.Contains(t, p.Terms(), waits)
	p.Waiting.For = core.WaitChild
	assert.NotContains(t, p.Terms(), waits)
}

// What reaches into a day is looked for no further back than entries of a class reach.
func TestAnEntryOfSeveralTimesStandsInTheListOfItsClass(t *testing.T) {
	classes := core.SpanClasses()
	for class, bound := range classes {
		span := bound
		if bound == 0 {
			span = classes[class-1] + time.Millisecond
		}
		o := core.Occurrence{ID: id(1), Schedule: core.KindRecurring, Namespace: "n", Tenant: "t", DueAt: start, LastDueAt: start.Add(span), Verdict: core.VerdictMissed}
		assert.Contains(t, o.Terms(), effects.Term{Name: core.SpanTerm(class), At: start}, span)
		assert.Contains(t, o.Terms(), effects.Term{Name: core.TermWithin(core.SpanTerm(class), core.Scope{Namespace: "n", Tenant: "t"}), At: start}, span)
	}
	o := core.Occurrence{ID: id(1), Schedule: core.KindRecurring, DueAt: start, LastDueAt: start, Verdict: core.VerdictMissed}
	for _, term := range o.Terms() {
		assert.NotContains(t, term.Name, "span:")
	}
}
