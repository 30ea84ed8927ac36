package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// watched gives a pipeline that runs a command of git, and whose end is awaited by so many.
func watched(t *testing.T, watchers int) core.Pipeline {
	t.Helper()
	spec := core.PipelineSpec{ID: id(1), Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
		{Name: "tree", Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "/r", Branch: "b", Path: "/p"}},
	}}}
	p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: spec}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	p, effs = p.Apply(core.PipelineDue{}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	require.Contains(t, encoded(p), `"asked":{"last":1,"open":[{"type":"worktree_add"`)
	for i := range watchers {
		p.Watchers = append(p.Watchers, pipelineOwner(2+i, 1))
	}
	return p
}

func TestAnInputThatCausesMoreThanMaxDeliveriesIsRefusedAndUndone(t *testing.T) {
	cancel := func(watchers int) (observed, observed, core.Result, error) {
		p := watched(t, watchers)
		batch := core.NewBatch(world{p.Ref(): encoded(p)}, core.Clock{Now: start}, 1)
		before := observe(batch)
		res, err := batch.Apply(core.Input{To: p.Ref(), Event: core.PipelineCancel{}})
		return before, observe(batch), res, err
	}
	_, after, res, err := cancel(core.MaxDeliveries - 1)
	require.NoError(t, err, "the cancel and one event for each watcher are as many as may be")
	assert.True(t, res.Changed)
	assert.Contains(t, after.Events, "pipeline:cancelled")
	assert.NotEqual(t, "[]", after.Withdrawn, "the command of git was taken back")

	before, after, res, err := cancel(core.MaxDeliveries)
	require.ErrorContains(t, err, `event "cancel" to pipeline/`)
	require.ErrorContains(t, err, "caused more than 10000 events")
	assert.Zero(t, res)
	assert.Equal(t, before, after, "no change, no announcement and no withdrawal is left")
}

func TestSlotsThatAreGrantedToAMachineThatIsGoneGoToTheNextWaiter(t *testing.T) {
	var s core.Semaphore
	apply := func(e core.SemaphoreEvent) {
		var effs []effects.Effect
		s, effs = s.Apply(e, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	apply(core.SemaphoreAcquire{Name: "s", Holder: "ann", Total: 1})
	apply(core.SemaphoreAcquire{Name: "s", Owner: pipelineOwner(7, 1)})
	apply(core.SemaphoreAcquire{Name: "s", Owner: pipelineOwner(8, 1)})
	require.Len(t, s.Waiters, 2)

	batch := core.NewBatch(world{s.Ref(): encoded(s)}, core.Clock{Now: start}, 1)
	res, err := batch.Apply(core.Input{To: s.Ref(), Event: core.SemaphoreRelease{Holder: "ann"}})
	require.NoError(t, err)
	require.True(t, res.Changed)
	require.NotNil(t, res.Refused, "pipeline 7 does not exist, so that it refuses the grant")
	now, err := batch.State(s.Ref())
	require.NoError(t, err)
	s = now.(core.Semaphore)
	assert.Empty(t, s.Waiters)
	assert.Empty(t, s.Holders, "pipeline 7 gave its slot back, and then so did pipeline 8")
}
