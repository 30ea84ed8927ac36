package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/store/memory"
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

// jobsPage is the page over an engine with jobs, as a browser on this machine sees it.
type jobsPage struct {
	t       *testing.T
	engine  *shell.Engine
	page    *page.Page
	service *jobsService
	cluster *jobsCluster
	cookie  *http.Cookie
}

var jobsScope = shell.Scope{Namespace: "default", Tenant: "default"}

func newJobsPage(t *testing.T, tokens ...httpapi.Token) *jobsPage {
	t.Helper()
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	p := &jobsPage{t: t, cluster: &jobsCluster{checks: `{"should_proceed":true,"message":"all met","checks":[{"name":"window","phase":"pre","met":true,"message":"it is open"}]}`}}
	p.service = &jobsService{logs: func(attempt uint32, _ jobs.LogOptions, w io.Writer) error {
		_, err := fmt.Fprintf(w, "attempt %d\n", attempt)
		return err
	}}
	interpreters := make(map[string]shell.Interpreter)
	for _, lane := range []string{effects.LaneConstraints, effects.LaneActions, effects.LaneRun, effects.FetchLogs{}.Lane()} {
		interpreters[lane] = p.cluster
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	p.engine, err = shell.New(shell.Options{Store: s, Logger: log, Interpreters: interpreters})
	require.NoError(t, err)
	api, err := httpapi.New(httpapi.Options{
		Engine: p.engine, Logger: log, Version: "v1", Tokens: tokens, Jobs: p.service, OpenRunners: []string{""},
		JobUses: func(core.JobSpec) (jobs.Reach, error) { return jobs.Reach{}, nil },
	})
	require.NoError(t, err)
	p.page, err = page.New(page.Options{API: api, Logger: log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.engine.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	return p
}

// ask sends a request as a browser does; a form makes it a POST.
func (p *jobsPage) ask(path string, form url.Values) *httptest.ResponseRecorder {
	p.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r := httptest.NewRequestWithContext(p.t.Context(), method, "/ui"+path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.cookie != nil {
		r.AddCookie(p.cookie)
	}
	w := httptest.NewRecorder()
	p.page.ServeHTTP(w, r)
	return w
}

// get reads a page.
func (p *jobsPage) get(path string) string {
	p.t.Helper()
	w := p.ask(path, nil)
	require.Equal(p.t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	return w.Body.String()
}

var proofOf = regexp.MustCompile(`name="proof" value="([^"]+)"`)

// act sends the form of an act, with the proof that the form has, and gives where it leads.
func (p *jobsPage) act(path string, fields ...string) (to string) {
	p.t.Helper()
	w := p.send(path, fields...)
	require.Equal(p.t, http.StatusSeeOther, w.Code, "%s: %s", path, w.Body)
	return strings.TrimPrefix(w.Header().Get("Location"), "/ui")
}

func (p *jobsPage) send(path string, fields ...string) *httptest.ResponseRecorder {
	p.t.Helper()
	proof := proofOf.FindStringSubmatch(p.get(path))
	require.NotNil(p.t, proof, path)
	form := url.Values{"proof": {html.UnescapeString(proof[1])}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return p.ask(path, form)
}

func (p *jobsPage) apply(spec core.JobSpec) {
	p.t.Helper()
	spec.Namespace, spec.Tenant = jobsScope.Namespace, jobsScope.Tenant
	if spec.PodSpec == nil {
		spec.PodSpec = []byte(`{"containers":[{"name":"main"}]}`)
	}
	_, err := p.engine.Jobs().Apply(p.t.Context(), spec)
	require.NoError(p.t, err)
}

func (p *jobsPage) trigger(job string) uuid.UUID {
	p.t.Helper()
	made, err := p.engine.Jobs().Trigger(p.t.Context(), jobsScope, job, shell.TriggerOptions{By: "test"})
	require.NoError(p.t, err)
	return made.Run
}

// until waits for a run to come to a state.
func (p *jobsPage) until(id uuid.UUID, state core.OrchestratorStatus) core.Orchestrator {
	p.t.Helper()
	return p.when(id, func(o core.Orchestrator) bool { return o.State == state })
}

// when waits for a run of which something holds.
func (p *jobsPage) when(id uuid.UUID, holds func(core.Orchestrator) bool) core.Orchestrator {
	p.t.Helper()
	changes := p.engine.Subscribe(func(effects.Event) bool { return true }, 1)
	defer changes.Close()
	for {
		run, err := p.engine.Runs().Get(p.t.Context(), id)
		require.NoError(p.t, err)
		if holds(run) {
			return run
		}
		select {
		case <-changes.C:
		case <-time.After(50 * time.Millisecond): // what announces nothing
		case <-p.t.Context().Done():
			p.t.Fatalf("the run stays %s", run.State)
		}
	}
}

// pod tells a run that its pod runs, and then that it has ended with an exit code.
func (p *jobsPage) pod(id uuid.UUID, code int32) {
	p.t.Helper()
	run := p.until(id, core.OrchestratorContainerCreating)
	pod := core.Pod{Name: "orrery-pod-0", Node: "node-1"}
	_, err := p.engine.Runs().Send(p.t.Context(), id, core.PodRunning{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(p.t, err)
	pod.ExitCode = &code
	_, err = p.engine.Runs().Send(p.t.Context(), id, core.PodEnded{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(p.t, err)
}

var errNoLogs = errors.New("the runner is tired")
