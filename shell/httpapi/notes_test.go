package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

// counted is a service of jobs that counts how often it is asked how its runners are.
type counted struct {
	jobService
	asked *atomic.Int32
}

func (p counted) Health() map[string]jobs.Health {
	p.asked.Add(1)
	return map[string]jobs.Health{"kubernetes": {Status: jobs.HealthDown, Since: time.Now(), SeenAt: time.Now(), Error: "gone"}}
}

// ailing is a service of jobs whose runner is as given, and that says what a pod waits for.
type ailing struct {
	jobService
	health map[string]jobs.Health
	waits  string
}

func (p *ailing) Health() map[string]jobs.Health { return p.health }

func (p *ailing) NoteOf(core.Orchestrator) string { return p.waits }

// keeping is a cluster that deletes nothing.
type keeping struct{ cluster }

func (c keeping) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	if _, deletes := e.(effects.DeleteRun); deletes {
		return nil, errors.New("cannot delete Job: forbidden")
	}
	return c.cluster.Carry(ctx, ref, e)
}

func TestAPendingRunSaysWhichRunItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: withJobs, engine: func(o *shell.Options) {
			withCluster(o)
			o.Interpreters[effects.LaneRun] = keeping{}
		}})
		one := strings.Replace(plainJob, "{", `{"max_concurrent_runs":1,`, 1)
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", one).status)
		trigger := func() (id, runID string) {
			r := a.do("POST", "/v1/jobs/j/trigger", nil)
			<-time.After(100 * time.Millisecond) // the run's time is its own
			return r.str("run"), r.str("run_id")
		}
		first, firstID := trigger()
		assert.NotContains(t, a.do("GET", "/v1/runs/"+first, nil).body, `"note"`)
		second, _ := trigger()
		assert.Equal(t, "it waits for run "+firstID+" to end", a.do("GET", "/v1/runs/"+second, nil).str("note"))

		require.Equal(t, http.StatusOK, a.do("POST", "/v1/runs/"+first+"/cancel", nil).status)
		synctest.Wait()
		note := a.do("GET", "/v1/runs/"+second, nil).str("note")
		assert.Regexp(t, `^it waits for run `+firstID+` to end, whose pod cannot be deleted since \S+Z: cannot delete Job: forbidden$`, note)
		trigger()
		assert.Equal(t, 2, strings.Count(a.do("GET", "/v1/runs", nil).body, `"note":"`+note+`"`))

		two := strings.Replace(plainJob, "{", `{"max_concurrent_runs":2,`, 1)
		require.Equal(t, http.StatusOK, a.do("PUT", "/v1/jobs/j", two).status)
		synctest.Wait()
		assert.NotContains(t, a.do("GET", "/v1/runs/"+second, nil).body, `"note"`, "it has its place now")
		assert.Regexp(t, `"note":"it waits for one of 2 runs of its job to end, such as run `+firstID+`, whose pod`, a.do("GET", "/v1/runs", nil).body)
	})
}

func TestAListOfRunsAsksOnceHowTheRunnersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := new(atomic.Int32)
		a := start(t, setup{engine: withCluster, api: func(o *httpapi.Options) {
			withJobs(o)
			o.Jobs = counted{asked: asked}
		}})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		for range 5 {
			a.do("POST", "/v1/jobs/j/trigger", nil)
			<-time.After(100 * time.Millisecond)
		}
		before := asked.Load()
		assert.Equal(t, 5, strings.Count(a.do("GET", "/v1/runs", nil).body, "could last be asked"))
		assert.EqualValues(t, 1, asked.Load()-before)
	})
}

func TestTheNoteOfARunIsWhatConcernsItInItsState(t *testing.T) {
	at := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	health := func(status jobs.HealthStatus) jobs.Health {
		return jobs.Health{Status: status, Since: at, Error: "cannot watch jobs: gone", SeenAt: at}
	}
	unseen := health(jobs.HealthDown)
	unseen.SeenAt = time.Time{}
	const (
		down     = "as of when runner kubernetes could last be asked: it is down since 2026-11-21T18:00:00Z: cannot watch jobs: gone"
		neverYet = "runner kubernetes is down since 2026-11-21T18:00:00Z: cannot watch jobs: gone"
		degraded = "runner kubernetes is degraded since 2026-11-21T18:00:00Z: cannot watch jobs: gone"
		ends     = "pod p is being deleted: it waits"
	)
	synctest.Test(t, func(t *testing.T) {
		service := &ailing{}
		a := start(t, setup{engine: withCluster, api: func(o *httpapi.Options) {
			withJobs(o)
			o.Jobs = service
		}})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		run := a.do("POST", "/v1/jobs/j/trigger", nil).str("run")
		synctest.Wait()
		id := uuid.MustParse(run)
		for _, step := range []struct {
			state core.OrchestratorStatus
			event core.OrchestratorEvent // with which it comes there
			notes map[jobs.HealthStatus]string
		}{
			{core.OrchestratorContainerCreating, nil, map[jobs.HealthStatus]string{jobs.HealthDegraded: degraded}},
			{core.OrchestratorRunning, core.PodRunning{Pod: core.Pod{Name: "p"}}, nil},
		} {
			if step.event != nil {
				_, err := a.engine.Runs().Send(t.Context(), id, step.event)
				require.NoError(t, err)
			}
			for _, c := range []struct {
				health jobs.Health
				want   string
			}{
				{health(jobs.HealthWorks), ""},
				{health(jobs.HealthDegraded), step.notes[jobs.HealthDegraded]},
				{health(jobs.HealthDown), down},
				{unseen, neverYet},
				{jobs.Health{}, ""},
			} {
				for _, waits := range []string{"", ends} {
					service.health, service.waits = map[string]jobs.Health{"kubernetes": c.health}, waits
					got := a.do("GET", "/v1/runs/"+run, nil)
					require.Equal(t, string(step.state), got.str("state"))
					want := c.want
					if want == "" {
						want = waits
					}
					if want == "" {
						assert.NotContains(t, got.body, `"note"`)
						continue
					}
					assert.Equal(t, want, got.str("note"), "%s, %s, %q", step.state, c.health.Status, waits)
				}
			}
		}
	})
}
