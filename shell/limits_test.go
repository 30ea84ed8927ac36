package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// waiting is a tool whose runs end when the channel is closed.
type waiting chan struct{}

func (w waiting) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	select {
	case <-w:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestTimesOfAScheduleAreSkippedWhileItsTenantIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, log := make(waiting), &bytes.Buffer{}
		full := shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}
		e := running(t, shell.Options{
			Store: inBolt(t), Tools: tools(free), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Limits: shell.Limits{Live: shell.LiveLimits{Actions: 100}, Lives: map[shell.Scope]shell.LiveLimits{full: {Actions: 2}}},
		})
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		other := everyMinute()
		other.Tenant = "tenant-2"
		beside, err := e.Recurring().Create(bg(), other)
		require.NoError(t, err)
		elapse(5*time.Minute + time.Second)
		usage, err := e.Usage(bg(), full)
		require.NoError(t, err, "what is bound is counted")
		assert.EqualValues(t, 2, usage.LiveActions)
		assert.Equal(t, map[shell.Scope]uint64{full: 3}, e.Limited())
		history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
		require.NoError(t, err)
		require.Len(t, history, 5, "each time has a verdict, and none is decided twice")
		for i, o := range history {
			if want := core.VerdictSkipped; i < 3 {
				assert.Equal(t, want, o.Verdict)
				assert.Equal(t, "limit: the tenant has as many as its limit allows: 2 actions that have not ended (max_live_actions)", o.Reason)
			}
		}
		assert.Equal(t, 3, strings.Count(log.String(), "a machine is not made"), "once a minute: %s", log)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		refusal := &shell.Refusal{}
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, effects.CodeLimited, refusal.Code)
		got, err := e.Recurring().Get(bg(), beside.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 5, got.ExecutionCount, "another tenant's goes on")

		close(free)
		elapse(time.Minute)
		got, err = e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 3, got.ExecutionCount, "what has ended leaves room")
		assert.EqualValues(t, 3, got.SkippedCount)
	})
}

func TestTimesOfAJobAreSkippedAndItemsOfAWorkerWaitWhileTheirTenantIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, c := make(waiting), newCluster()
		c.runFor = 2 * time.Hour
		o := c.options(inMemory(t))
		o.Tools, o.Limits.Live = tools(free), shell.LiveLimits{Actions: 1, Runs: 1}
		e := c.use(running(t, o))
		synctest.Wait() // what there was is counted
		spec := nightly()
		spec.Schedule = ""
		applied(t, e, spec)
		triggered(t, e, spec.ID)
		_, err := e.Jobs().Trigger(bg(), tenant, spec.ID, shell.TriggerOptions{})
		require.ErrorContains(t, err, "1 runs that have not ended (max_live_runs)")
		hourly := nightly()
		hourly.ID, hourly.Schedule = "hourly", "@every 10m"
		applied(t, e, hourly)

		_, err = e.Workers().Send(bg(), tenant, "w", core.WorkerConfigure{Spec: core.WorkerSpec{
			Name: "w", Namespace: "ns", Tenant: "t", Queue: "q", Concurrency: 3, Do: core.WorkerDo{Run: &core.ToolRun{Tool: "count"}},
		}})
		require.NoError(t, err)
		for range 3 {
			_, _, err := e.Queues().Push(bg(), "ns", "t", "q", shell.PushOptions{Data: json.RawMessage("1")})
			require.NoError(t, err)
		}
		_, err = e.Workers().Send(bg(), tenant, "w", core.WorkerWake{})
		require.NoError(t, err)
		elapse(25 * time.Minute)
		occurrences, _, err := e.Jobs().History(bg(), tenant, "hourly", shell.Page{})
		require.NoError(t, err)
		require.NotEmpty(t, occurrences)
		for _, o := range occurrences {
			assert.Equal(t, core.VerdictSkipped, o.Verdict)
			assert.Contains(t, o.Reason, "max_live_runs")
		}
		j, err := e.Jobs().Get(bg(), tenant, "hourly")
		require.NoError(t, err)
		assert.Positive(t, j.NextRunAt.Sub(effects.TimeOf(time.Now())), "it is not due for ever")
		q, err := e.Queues().Get(bg(), "ns", "t", "q")
		require.NoError(t, err)
		assert.EqualValues(t, 1, q.InFlight)
		assert.EqualValues(t, 2, q.Ready+q.Delayed, "they wait")
		close(free)
		elapse(time.Minute)
		q, err = e.Queues().Get(bg(), "ns", "t", "q")
		require.NoError(t, err)
		assert.EqualValues(t, 3, q.Completed, "none is lost")
		assert.Zero(t, q.Failed)
	})
}

func TestAnActionStartsNoPipelineBeyondALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := shell.Options{Store: inMemory(t), Tools: builtIn(), Limits: shell.Limits{Live: shell.LiveLimits{Pipelines: 1}}}
		e := running(t, o)
		synctest.Wait() // what there was is counted
		input := json.RawMessage(`{"definition":{"name":"p","phases":[{"name":"a","manual":{}}]}}`)
		for _, want := range []core.StatusType{core.StatusCompleted, core.StatusFailed} {
			a, err := e.Actions().Create(bg(), core.ActionSpec{Namespace: "ns", Tenant: "t", ToolName: shell.PipelineToolName, ToolInput: input, Trigger: at(0)})
			require.NoError(t, err)
			elapse(time.Second)
			a = actionOf(t, e, a.ID)
			assert.Equal(t, want, a.Status.Type)
			if want == core.StatusFailed {
				assert.Contains(t, a.Status.Reason, "1 pipelines that have not ended (max_live_pipelines)")
			}
		}
		assert.Equal(t, map[shell.Scope]uint64{tenant: 1}, e.Limited())
	})
}

func TestALimitOfWhatMachinesMakeIsNotNegative(t *testing.T) {
	_, err := shell.New(shell.Options{Store: inMemory(t), Limits: shell.Limits{
		Live: shell.LiveLimits{Runs: -1}, Lives: map[shell.Scope]shell.LiveLimits{tenant: {StoredBytes: -2}},
	}})
	require.Error(t, err)
	assert.Equal(t, "shell: Options.Limits.Live: -1 must not be negative\n"+
		`shell: Options.Limits.Lives["ns", "t"]: -2 must not be negative`, fmt.Sprint(err))
}
