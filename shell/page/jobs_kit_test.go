package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

// jobsCluster carries out what runs ask for at once; what constraints come to, a test says.
type jobsCluster struct {
	checks string
	stuck  bool // nothing can be deleted
}

func (c *jobsCluster) Carry(_ context.Context, _ effects.Ref, e effects.Outer) (json.RawMessage, error) {
	switch e.(type) {
	case effects.FetchLogs:
		return json.RawMessage(`{"api_calls":1,"logs":{"stored":true,"bytes":512,"dropped":90,"truncated":true}}`), nil
	case effects.CheckConstraints:
		return json.RawMessage(c.checks), nil
	case effects.DeleteRun:
		if c.stuck {
			return nil, errors.New("pods is forbidden: <no right>")
		}
		return json.RawMessage(`{"api_calls":1}`), nil
	default:
		return json.RawMessage(`{"api_calls":1}`), nil
	}
}

// jobsService writes the logs that a test says.
type jobsService struct {
	logs func(attempt uint32, o jobs.LogOptions, w io.Writer) error
}

func (jobsService) Check(core.JobSpec) error          { return nil }
func (jobsService) MayRun(core.JobSpec) error         { return nil }
func (jobsService) RunnerOf(spec core.JobSpec) string { return spec.Runner }

func (s *jobsService) Logs(_ context.Context, _ core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error {
	return s.logs(attempt, o, w)
}

// jobsPage is a kit whose engine has jobs.
type jobsPage struct {
	*kit
	service *jobsService
	cluster *jobsCluster
}

var jobsScope = shell.Scope{Namespace: "default", Tenant: "default"}

func newJobsPage(t *testing.T, tokens ...httpapi.Token) *jobsPage {
	t.Helper()
	return newJobsPageWith(t, func(*httpapi.Options) {}, tokens...)
}

// newJobsPageWith is newJobsPage with other options of the API.
func newJobsPageWith(t *testing.T, change func(*httpapi.Options), tokens ...httpapi.Token) *jobsPage {
	t.Helper()
	p := &jobsPage{
		cluster: &jobsCluster{checks: `{"should_proceed":true,"message":"all met","checks":[{"name":"window","phase":"pre","met":true,"message":"it is open"}]}`},
		service: &jobsService{logs: func(attempt uint32, _ jobs.LogOptions, w io.Writer) error {
			_, err := fmt.Fprintf(w, "attempt %d\n", attempt)
			return err
		}},
	}
	p.kit = newKitOn(t, func(o *shell.Options) {
		for _, lane := range []string{effects.LaneConstraints, effects.LaneActions, effects.LaneRun, effects.FetchLogs{}.Lane()} {
			o.Interpreters[lane] = p.cluster
		}
	}, func(o *httpapi.Options) {
		o.Jobs, o.OpenRunners = p.service, []string{""}
		o.JobUses = func(core.JobSpec) (jobs.Reach, error) { return jobs.Reach{}, nil }
		change(o)
	}, tokens...)
	return p
}

func (k *kit) apply(spec core.JobSpec) {
	k.t.Helper()
	spec.Namespace, spec.Tenant = jobsScope.Namespace, jobsScope.Tenant
	if spec.PodSpec == nil {
		spec.PodSpec = []byte(`{"containers":[{"name":"main"}]}`)
	}
	_, err := k.engine.Jobs().Apply(k.t.Context(), spec)
	require.NoError(k.t, err)
}

func (k *kit) trigger(job string) uuid.UUID {
	k.t.Helper()
	made, err := k.engine.Jobs().Trigger(k.t.Context(), jobsScope, job, shell.TriggerOptions{By: "test"})
	require.NoError(k.t, err)
	return made.Run
}

// reaches waits for a run to come to a state.
func (k *kit) reaches(id uuid.UUID, state core.OrchestratorStatus) core.Orchestrator {
	k.t.Helper()
	return k.when(id, func(o core.Orchestrator) bool { return o.State == state })
}

// when waits for a run of which something holds.
func (k *kit) when(id uuid.UUID, holds func(core.Orchestrator) bool) core.Orchestrator {
	k.t.Helper()
	changes := k.engine.Subscribe(func(effects.Event) bool { return true }, 1)
	defer changes.Close()
	for {
		run, err := k.engine.Runs().Get(k.t.Context(), id)
		require.NoError(k.t, err)
		if holds(run) {
			return run
		}
		select {
		case <-changes.C:
		case <-time.After(50 * time.Millisecond): // what announces nothing
		case <-k.t.Context().Done():
			k.t.Fatalf("the run stays %s", run.State)
		}
	}
}

// pod tells a run that its pod runs, and then that it has ended with an exit code.
func (k *kit) pod(id uuid.UUID, code int32) {
	k.t.Helper()
	run := k.reaches(id, core.OrchestratorContainerCreating)
	pod := core.Pod{Name: "orrery-pod-0", Node: "node-1"}
	_, err := k.engine.Runs().Send(k.t.Context(), id, core.PodRunning{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(k.t, err)
	pod.ExitCode = &code
	_, err = k.engine.Runs().Send(k.t.Context(), id, core.PodEnded{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(k.t, err)
}

var errNoLogs = errors.New("the runner is tired")
