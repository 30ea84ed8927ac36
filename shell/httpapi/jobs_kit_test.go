package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/podspec"
)

// cluster carries out what runs ask for: everything works at once, and pods do
// what a test says.
type cluster struct{}

func (cluster) Carry(_ context.Context, _ effects.Ref, e effects.Outer) (json.RawMessage, error) {
	switch e.(type) {
	case effects.FetchLogs:
		return json.RawMessage(`{"api_calls":1,"logs":{"stored":true,"bytes":512,"dropped":90,"truncated":true}}`), nil
	case effects.CheckConstraints:
		return json.RawMessage(`{"should_proceed":true,"message":"all met","checks":[{"name":"window","phase":"pre","attempt":0,"met":true}]}`), nil
	default:
		return json.RawMessage(`{"api_calls":1}`), nil
	}
}

// withCluster gives an engine a cluster.
func withCluster(o *shell.Options) {
	o.Interpreters = make(map[string]shell.Interpreter)
	for _, lane := range []string{effects.LaneConstraints, effects.LaneActions, effects.LaneRun, effects.FetchLogs{}.Lane()} {
		o.Interpreters[lane] = cluster{}
	}
}

// jobService is a [httpapi.JobService]: it has what the logs of each attempt are.
type jobService struct {
	logs func(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error
}

func (jobService) Check(spec core.JobSpec) error {
	var pod struct {
		Containers []json.RawMessage `json:"containers"`
	}
	if err := json.Unmarshal(spec.PodSpec, &pod); err != nil || len(pod.Containers) == 0 {
		return errors.New("pod_spec.containers: must have at least one element")
	}
	if spec.Runner == "mars" {
		return errors.Join(fmt.Errorf("runner: %q is unknown: use kubernetes", spec.Runner), errors.New("pod_spec: it is far"))
	}
	return nil
}

func (jobService) MayRun(spec core.JobSpec) error {
	if spec.Runner == "theirs" && spec.Tenant != "they" {
		return fmt.Errorf("runner: %q is not for jobs of %s/%s", spec.Runner, spec.Namespace, spec.Tenant)
	}
	return nil
}

func (jobService) RunnerOf(spec core.JobSpec) string { return cmp.Or(spec.Runner, "kubernetes") }

func (s jobService) Logs(ctx context.Context, run core.Orchestrator, attempt uint32, o jobs.LogOptions, w io.Writer) error {
	if s.logs != nil {
		return s.logs(ctx, run, attempt, o, w)
	}
	if o.Container == "sidecar" {
		return lasting{errors.New("container: \"sidecar\" is unknown: use main")}
	}
	if run.ExecutionStartedAt.IsZero() && attempt == run.RetryAttempt {
		return fmt.Errorf("%w: it has not begun", jobs.ErrNoPod)
	}
	_, err := fmt.Fprintf(w, "attempt %d of %s\n\x1b[31mred\x1b[0m text\n", attempt, run.RunID)
	return err
}

// lasting is an error that trying again does not mend.
type lasting struct{ error }

func (lasting) Permanent() bool { return true }

// withJobs gives an API a job service.
func withJobs(o *httpapi.Options) {
	o.Jobs, o.OpenRunners = jobService{}, []string{"kubernetes"}
	o.ParsePodSpec = func(text []byte) (json.RawMessage, error) {
		_, spec, err := podspec.Parse(text)
		return spec, err
	}
	o.JobUses = func(spec core.JobSpec) (jobs.Reach, error) {
		var reach jobs.Reach
		err := strictjson.DecodeAt("constraint_config", spec.ConstraintConfig, &reach)
		return reach, err
	}
}

// pod tells a run what its pod does.
func (s *story) pod(t *testing.T, d *datadriven.TestData) string {
	id, err := uuid.Parse(s.name(d.CmdArgs[0].Key))
	require.NoError(t, err)
	engine := s.api.engineOf(effects.Ref{Kind: core.KindOrchestrator, ID: id})
	run, err := engine.Runs().Get(t.Context(), id)
	require.NoError(t, err)
	pod := core.Pod{Name: "orrery-pod-0", Node: "node-1", StartedAt: effects.TimeOf(s.clock.Now())}
	var ev core.OrchestratorEvent = core.PodRunning{Attempt: run.RetryAttempt, Pod: pod}
	if len(d.CmdArgs) > 1 {
		var code int32
		d.ScanArgs(t, "exit", &code)
		pod.ExitCode, pod.FinishedAt = &code, pod.StartedAt
		ev = core.PodEnded{Attempt: run.RetryAttempt, Pod: pod}
	}
	run, err = engine.Runs().Send(t.Context(), id, ev)
	require.NoError(t, err)
	return string(run.State)
}
