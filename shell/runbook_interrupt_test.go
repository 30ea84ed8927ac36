package shell_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// firstHangs is a tool whose first run lasts until it is stopped.
type firstHangs struct{ runs atomic.Int64 }

func (f *firstHangs) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	if f.runs.Add(1) == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return json.RawMessage(`"done"`), nil
}

// At most once is at most once: no retry of a phase repeats a run that was cut
// off, wherever it stands, unless its author allows it or a person asks for it.
func TestAnInterruptedRunIsNotRepeatedByTheRetryOfItsPhase(t *testing.T) {
	retry := core.Retry{MaxAttempts: 5, BackoffMS: 1000}
	once, again := run("count"), run("count")
	again.OnInterrupt = core.InterruptRetry
	strategy := &core.StrategyPhase{Approaches: []core.Approach{
		{Name: "first", Action: core.ApproachAction{Command: once}, FallbackOn: []core.FallbackCondition{{AnyError: true}}},
		{Name: "then", Action: core.ApproachAction{Command: run("broken")}},
	}}
	child := &core.PipelinesPhase{Wait: true, Start: []core.PipelineStartDef{{Definition: core.PipelineDef{Name: "c", Phases: []core.PhaseDef{
		{Name: "one", Run: once, Retry: retry, IgnoreFailure: true}, {Name: "two", Run: run("broken")},
	}}}}}
	for name, c := range map[string]struct {
		phase core.PhaseDef
		runs  int64
		ends  core.PhaseType
	}{
		"a run":                      {core.PhaseDef{Name: "one", Retry: retry, Run: once}, 1, core.PhaseFailure},
		"a run that may be repeated": {core.PhaseDef{Name: "one", Retry: retry, Run: again}, 2, core.PhaseDone},
		"within a strategy":          {core.PhaseDef{Name: "one", Retry: retry, Strategy: strategy}, 1, core.PhaseFailure},
		"within a pipeline":          {core.PhaseDef{Name: "one", Retry: retry, Pipelines: child}, 1, core.PhaseFailure},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, tool := inMemory(t), &firstHangs{}
				broken := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, assert.AnError })
				o := shell.Options{Store: st, TickRate: time.Minute, StopTimeout: time.Second, Tools: map[string]shell.Tool{"count": tool, "broken": broken}}
				e, stop := start(t, o)
				p := begin(t, e, c.phase)
				synctest.Wait()
				require.EqualValues(t, 1, tool.runs.Load())
				require.NoError(t, stop())
				e, stop = start(t, o)
				elapse(10 * time.Minute)
				got := state(t, e, p.ID)
				assert.Equal(t, c.ends, got.Phase.Type, "%+v", got.Phase)
				assert.Equal(t, c.runs, tool.runs.Load())
				if c.ends == core.PhaseFailure {
					assert.Contains(t, got.Phase.Error, "interrupted: ")
					assert.True(t, got.Phase.Recoverable)
					_, err := e.Pipelines().Send(bg(), p.ID, core.PipelineRetry{})
					require.NoError(t, err)
					elapse(10 * time.Minute)
					assert.Greater(t, tool.runs.Load(), int64(1), "a person asked for it")
				}
				require.NoError(t, stop())
				verify(t, st)
			})
		})
	}
}
