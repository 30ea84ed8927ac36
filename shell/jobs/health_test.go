package jobs_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestTroubleIsASentenceWithoutItsSubject(t *testing.T) {
	since := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	for want, h := range map[string]jobs.Health{
		"":                       {Status: jobs.HealthWorks, LastError: "it has passed"},
		"is down":                {Status: jobs.HealthDown},
		"is degraded: no events": {Status: jobs.HealthDegraded, Error: "no events"},
		"is down since 2026-11-21T18:00:00Z: connection refused": {Status: jobs.HealthDown, Since: since, Error: "connection refused"},
	} {
		assert.Equal(t, want, h.Trouble())
	}
	var err error = &jobs.DownError{Runner: "cluster", Health: jobs.Health{Status: jobs.HealthDown}}
	down := errors.As(err, new(*jobs.DownError))
	assert.True(t, down)
	assert.Equal(t, "runner cluster is down", err.Error())
}

// ill is a runner that says how it is.
type ill struct {
	*runnertest.Fake
	health jobs.Health
}

func (i *ill) Health() jobs.Health { return i.health }

func TestLogsOfARunWhoseRunnerIsDownAreRefusedAtOnceUnlessItIsSoBack(t *testing.T) {
	runner := &ill{}
	withRig(t, func(r *rig) {
		runner.Fake = r.fake
		runner.Fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Starts: true, Output: "hello\n"} }
		r.o.Runners = map[string]jobs.Runner{"fake": runner}
	}, func(t *testing.T, r *rig) {
		run, _ := r.started(job("nightly"))
		runner.health = jobs.Health{Status: jobs.HealthDown, Since: time.Now().Add(-time.Minute), Error: "connection refused"}
		assert.Equal(t, map[string]jobs.Health{"fake": runner.health}, r.s.Health())
		err := r.s.Logs(t.Context(), run, 0, jobs.LogOptions{}, io.Discard)
		down, is := errors.AsType[*jobs.DownError](err)
		require.True(t, is, "%v", err)
		assert.Contains(t, down.Error(), "runner fake is down since ")

		const kept = "began\n"
		require.NoError(t, r.logs.PutLog(t.Context(), run.ID, 0, []byte(kept)))
		var out bytes.Buffer
		err = r.s.Logs(t.Context(), run, 0, jobs.LogOptions{}, &out)
		_, is = errors.AsType[*jobs.DownError](err)
		assert.True(t, is, "%v", err)
		assert.Equal(t, kept, out.String(), "what was stored so far, beside the error")
		out.Reset()
		var told *jobs.DownError
		require.NoError(t, r.s.Logs(t.Context(), run, 0, jobs.LogOptions{Kept: func(d *jobs.DownError) {
			told = d
			assert.Zero(t, out.Len(), "before it")
		}}, &out))
		require.NotNil(t, told)
		assert.Equal(t, "connection refused", told.Health.Error)
		assert.Equal(t, kept, out.String())
		delete(r.logs.m, jobs.Attempt{Run: run.ID})

		for _, well := range []jobs.Health{
			{Status: jobs.HealthDown, Since: time.Now().Add(-time.Second)}, {Status: jobs.HealthDegraded}, {Status: jobs.HealthWorks},
		} {
			runner.health = well
			var out bytes.Buffer
			require.NoError(t, r.s.Logs(t.Context(), run, 0, jobs.LogOptions{}, &out))
			assert.Equal(t, "hello\n", out.String())
		}
	})
}

func TestARunnerThatDoesNotSayHowItIsWorksWhileItsWatchRuns(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		assert.Equal(t, jobs.HealthWorks, r.s.Health()["fake"].Status)
	})
}
