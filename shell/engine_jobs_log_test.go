package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/locked"
)

// lines collects a log as JSON objects.
type lines struct{ locked.Buffer }

// named gives the lines of a log event.
func (l *lines) named(t *testing.T, name string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if m["msg"] == name {
			out = append(out, m)
		}
	}
	return out
}

// badAction is a cluster whose actions fail.
type badAction struct{ *fakeCluster }

func (b badAction) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, errors.New("nobody listens")
}

// 004 Logging.
func TestWhatARunDoesIsLoggedWithItsFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newCluster(), &lines{}
		c.runFor = 15 * time.Second
		c.exit = func(uuid.UUID, uint32) int32 { return 1 }
		c.report.Checks = []core.ConstraintCheck{{Name: "timeWindow", Message: "outside", Actions: []core.ActionRequest{{Type: "log", ContinueOnError: true}, {Type: core.ActionSkipNext}}}}
		o := c.options(inMemory(t))
		o.Interpreters[effects.LaneActions] = badAction{c}
		o.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		e := c.use(running(t, o))
		spec := nightly()
		spec.RetryConfig.MaxRetries = 1
		applied(t, e, spec)
		run := runOf(t, e, triggered(t, e, "nightly"))
		end, err := e.Runs().Wait(bg(), run.ID)
		require.NoError(t, err)
		require.Equal(t, core.OrchestratorFailed, end.State)
		synctest.Wait()

		fields := func(m map[string]any) []any {
			return []any{m["level"], m["run_id"], m["job_id"], m["scheduled_at"], m["state"], m["attempt"]}
		}
		line := func(level, state string, attempt float64) []any {
			return []any{level, run.RunID, "nightly", run.ScheduledAt.String(), state, attempt}
		}
		var states []any
		for _, m := range log.named(t, "run.state") {
			assert.Equal(t, line("INFO", m["state"].(string), m["attempt"].(float64)), fields(m))
			states = append(states, m["state"], m["attempt"])
		}
		assert.Equal(t, []any{
			"pre_run", 0., "pending", 0., "condition_pending", 0., "condition_running", 0., "action_pending", 0., "action_running", 0.,
			"container_creating", 0., "running", 0., "terminating", 0., "retrying", 0.,
			"pending", 1., "condition_pending", 1., "condition_running", 1., "action_pending", 1., "action_running", 1.,
			"container_creating", 1., "running", 1., "terminating", 1., "failed", 1.,
		}, states)

		violated := log.named(t, "run.constraint_violated")
		require.Len(t, violated, 4)
		assert.Equal(t, line("WARN", "condition_running", 0), fields(violated[0]))
		assert.Equal(t, []any{"timeWindow", "outside"}, []any{violated[0]["constraint"], violated[0]["message"]})
		assert.Equal(t, line("WARN", "terminating", 0), fields(violated[1]))

		actions := log.named(t, "run.action")
		require.Len(t, actions, 8)
		assert.Equal(t, line("ERROR", "action_running", 0), fields(actions[0]))
		assert.Equal(t, []any{"log", "nobody listens"}, []any{actions[0]["type"], actions[0]["error"]})
		assert.Equal(t, line("INFO", "action_running", 0), fields(actions[1]))
		assert.Equal(t, line("INFO", "terminating", 1), fields(actions[7]))

		failed := log.named(t, "run.error")
		require.Len(t, failed, 1)
		assert.Equal(t, line("ERROR", "failed", 1), fields(failed[0]))
		assert.Equal(t, "exit code 1", failed[0]["error"])
		beats := log.named(t, "run.heartbeat")
		require.NotEmpty(t, beats)
		assert.Equal(t, "DEBUG", beats[0]["level"])
		assert.Equal(t, []any{run.RunID, run.ID.String(), 1.}, []any{beats[0]["run_id"], beats[0]["orchestrator_id"], beats[0]["heartbeats"]})
		assert.Len(t, log.named(t, "run.metrics"), 1)
	})
}

func TestWhatJobsDecideIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newCluster(), &lines{}
		o := c.options(inMemory(t))
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
		e := c.use(running(t, o))
		spec := nightly()
		spec.Schedule, spec.Overlap, spec.PodStartTimeoutMS = "@every 10m", core.OverlapForbid, 3_600_000
		applied(t, e, spec)
		triggered(t, e, "nightly") // its pod never starts
		elapse(11 * time.Minute)
		for _, ev := range []core.JobEvent{core.JobPause{Reason: "holidays"}, core.JobResume{}, core.JobSkipNext{Reason: "r"}, core.JobDelete{Reason: "done"}} {
			_, err := e.Jobs().Send(bg(), tenant, "nightly", ev)
			require.NoError(t, err)
		}
		elapse(time.Minute)
		for name, want := range map[string]map[string]any{
			"job.create": {"level": "INFO"}, "job.trigger": {"level": "INFO", "by": "ann"}, "job.pause": {"level": "INFO", "paused_reason": "holidays"},
			"job.skipped": {"level": "INFO", "count": "1"}, "job.resume": {"level": "INFO"}, "job.skip_next": {"level": "INFO", "reason": "r"}, "job.delete": {"level": "INFO"},
		} {
			found := log.named(t, name)
			require.NotEmpty(t, found, name)
			assert.Equal(t, []any{"nightly", "ns", "t"}, []any{found[0]["job_id"], found[0]["namespace"], found[0]["tenant"]}, name)
			for k, v := range want {
				assert.Equal(t, v, found[0][k], "%s %s", name, k)
			}
		}
		assert.Equal(t, "cancelled", log.named(t, "run.state")[len(log.named(t, "run.state"))-1]["state"])
	})
}

func TestATimeThatWasMissedIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, log := inMemory(t), newCluster(), &lines{}
		e, stop := start(t, c.options(st))
		spec := nightly()
		spec.Schedule, spec.StartDeadlineSeconds = "@every 10m", 1
		applied(t, e, spec)
		require.NoError(t, stop())
		<-time.After(2 * time.Hour)
		o := c.options(st)
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
		e = c.use(running(t, o))
		elapse(time.Minute)
		missed := log.named(t, "job.missed")
		require.Len(t, missed, 1)
		assert.Equal(t, []any{"WARN", "nightly"}, []any{missed[0]["level"], missed[0]["job_id"]})
		s, err := e.JobStats(bg())
		require.NoError(t, err)
		assert.Positive(t, s.Verdicts[core.VerdictMissed])
	})
}
