package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

const plainJob = `{"pod_spec":{"containers":[{"name":"main"}]}}`

func TestWithoutARunnerJobsAreOnlyShown(t *testing.T) {
	a := start(t, setup{engine: withCluster})
	_, err := a.engine.Jobs().Apply(t.Context(), core.JobSpec{ID: "j", Namespace: "default", Tenant: "default", PodSpec: []byte(`{}`)})
	require.NoError(t, err)
	made, err := a.engine.Jobs().Trigger(t.Context(), shell.Scope{Namespace: "default", Tenant: "default"}, "j", shell.TriggerOptions{By: "test"})
	require.NoError(t, err)
	run := "/v1/runs/" + made.Run.String()
	for _, request := range []string{"PUT /v1/jobs/k", "PUT /v1/jobs/k?dry_run=true", "POST /v1/jobs/j/trigger", "GET " + run + "/logs"} {
		method, path, _ := strings.Cut(request, " ")
		var body any
		if method == http.MethodPut {
			body = plainJob
		}
		r := a.do(method, path, body)
		assert.Equal(t, http.StatusNotImplemented, r.status, request)
		assert.Equal(t, "jobs: no runner is configured here: configure a cluster, or local processes", r.errorText(), request)
	}
	for _, path := range []string{"/v1/jobs", "/v1/jobs/j", "/v1/jobs/j/runs", "/v1/jobs/j/history", "/v1/jobs/j/preview", "/v1/runs", run} {
		assert.Equal(t, http.StatusOK, a.do("GET", path, nil).status, path)
	}
	assert.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/j/pause", nil).status)
	assert.Equal(t, http.StatusOK, a.do("POST", run+"/cancel", nil).status)
	assert.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/jobs/j", nil).status)
}

func TestATokenThatIsNotAnAdminsGetsNoConstraintsWhereNobodyKnowsWhatTheyUse(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Jobs, o.OpenRunners = jobService{}, []string{"kubernetes"}
		o.Tokens = []httpapi.Token{
			{Name: "kate", SHA256: httpapi.HashToken("k"), Tools: []string{"kubernetes"}},
			{Name: "tom", SHA256: httpapi.HashToken("t"), Sessions: true, Git: true},
			{Name: "all", SHA256: httpapi.HashToken("a"), Admin: true},
		}
	}})
	with := `{"pod_spec":{"containers":[{}]},"constraint_config":{"constraints":[]}}`
	actions := `{"pod_spec":{"containers":[{}]},"action_config":{"actions":{}}}`
	assert.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob, bearer("k")).status)
	for _, body := range []string{with, actions} {
		r := a.do("PUT", "/v1/jobs/j", body, bearer("k"))
		assert.Equal(t, http.StatusForbidden, r.status)
		assert.Contains(t, r.errorText(), "the token is bound to tools")
		r = a.do("PUT", "/v1/jobs/j", body, bearer("t"))
		assert.Equal(t, http.StatusForbidden, r.status)
		assert.Contains(t, r.errorText(), `constraint_config: the token "tom" is not an admin's, and the server cannot tell what the constraints would use`)
	}
	assert.Equal(t, http.StatusOK, a.do("PUT", "/v1/jobs/j", with, bearer("a")).status)
	assert.Equal(t, http.StatusForbidden, a.do("POST", "/v1/jobs/j/trigger", nil, bearer("k")).status)
	assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/j/trigger", nil, bearer("a")).status)
}

func TestADryRunShowsWhatThenBecomesOfIt(t *testing.T) {
	clock := newClock()
	a := start(t, setup{
		engine: func(o *shell.Options) { o.Clock = clock },
		api: func(o *httpapi.Options) {
			withJobs(o)
			o.Clock = clock
		},
	})
	bodies := []string{
		plainJob,
		`{"pod_spec":{"containers":[{}]},"schedule":"0 3 * * *","timezone":"America/New_York","labels":{"a":"b"}}`,
		`{"pod_spec":{"containers":[{}]},"schedule":"*/5 * * * *","overlap":"replace","retry_config":{"max_retries":2,"backoff_multiplier":1.5}}`,
	}
	for i, body := range bodies {
		plan := a.do("PUT", "/v1/jobs/j?dry_run=true", body)
		require.Equal(t, http.StatusOK, plan.status, plan.body)
		assert.Equal(t, map[bool]string{true: "create", false: "update"}[i == 0], plan.str("would"))
		done := a.do("PUT", "/v1/jobs/j", body)
		assert.Equal(t, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[i == 0], done.status)
		planned, is := plan.object(), done.object()
		assert.Equal(t, planned["next_times_before"], is["next_times_before"])
		delete(is, "next_times_before")
		assert.Equal(t, planned["job"], is)
		assert.Equal(t, "keep", a.do("PUT", "/v1/jobs/j?dry_run=true", body).str("would"))
	}
}

func TestJobsAreTakenAsStrictlyAsAllElse(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	job := func(field, value string) string {
		return fmt.Sprintf(`{"pod_spec":{"containers":[{}]},%q:%s}`, field, value)
	}
	tests := map[string]struct {
		id, body string
		status   int
		says     string
	}{
		"10 000 levels":             {"j", `{"pod_spec":{"containers":` + nested(10_000) + `}}`, 400, "is nested deeper than 200 levels"},
		"10 000 levels unclosed":    {"j", `{"pod_spec":` + strings.Repeat(`{"a":`, 10_000), 400, "pod_spec"},
		"deep constraints":          {"j", job("constraint_config", `{"a":`+nested(500)+`}`), 400, "is nested deeper than 200 levels"},
		"a large pod spec":          {"j", `{"pod_spec":{"containers":[{"name":` + long(64<<10) + `}]}}`, 400, "pod_spec:"},
		"large constraints":         {"j", job("constraint_config", `{"a":`+long(64<<10)+`}`), 400, "constraint_config:"},
		"a body that is too large":  {"j", job("name", long(1<<20)), 413, "body: is larger than the limit of 1048576 bytes"},
		"a long id":                 {strings.Repeat("x", 256), plainJob, 400, "id: 256 bytes is longer than 255"},
		"the longest id":            {strings.Repeat("x", 255), plainJob, 201, ""},
		"an id with a slash":        {url.PathEscape("a/b c"), plainJob, 201, ""},
		"an id with a line break":   {"a%0Ab", plainJob, 400, "control character"},
		"an id that is no UTF-8":    {"a%FFb", plainJob, 400, "UTF-8"},
		"a long name":               {"j", job("name", long(256)), 400, "name: 256 bytes is longer than 255"},
		"a long label":              {"j", job("labels", `{"a":`+long(64)+`}`), 400, "labels.a:"},
		"NUL in the pod spec":       {"j", `{"pod_spec":{"containers":[{"name":"\u0000"}]}}`, 400, "NUL"},
		"a key twice in a pod spec": {"j", `{"pod_spec":{"containers":[{"name":"a","name":"b"}]}}`, 400, "given twice"},
		"a huge number":             {"j", job("start_deadline_seconds", "99999999999999999999"), 400, "start_deadline_seconds:"},
		"a fraction":                {"j", job("max_concurrent_runs", "1.5"), 400, "max_concurrent_runs:"},
	}
	a := start(t, setup{engine: withCluster, api: withJobs})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a.t = t
			r := a.do("PUT", "/v1/jobs/"+test.id, test.body)
			require.Equal(t, test.status, r.status, "%.300s", r.body)
			if test.status == http.StatusCreated {
				assert.Equal(t, http.StatusOK, a.do("GET", r.header.Get("Location"), nil).status)
				return
			}
			assert.Contains(t, r.errorText(), test.says)
			assert.Less(t, len(r.body), 2048, "a bad value is not sent back whole")
		})
	}
}

// Whatever is sent about jobs, the answer is JSON, says what is wrong in UTF-8, and
// is never a fault of the server.
func TestNoInputAboutJobsIsAnsweredWithAnInternalError(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
	run := a.do("POST", "/v1/jobs/j/trigger", nil).str("run_id")
	words := []string{
		"", "null", "true", "0", "-1", "1.5", "1e400", `""`, `"x"`, `"\u0000"`, "[]", "{}", "[1]", `{"a":1}`, `{"containers":[{}]}`, `"@daily"`, `"0 3 * * *"`,
		`"Europe/Berlin"`, `"forbid"`, `{"max_retries":2}`, `{"backoff_multiplier":"2"}`, "\xff", "\x00", `{"team":"web"}`,
	}
	fields := []string{
		"id", "namespace", "tenant", "name", "schedule", "timezone", "pod_spec", "constraint_config", "action_config", "retry_config", "overlap", "start_deadline_seconds",
		"max_concurrent_runs", "orphan_policy", "pod_start_timeout_ms", "create_ahead_ms", "constraint_errors", "logs", "labels", "runner", "reason", "nonsense",
	}
	targets := []string{
		"GET /v1/jobs", "PUT /v1/jobs/ID", "GET /v1/jobs/ID", "DELETE /v1/jobs/ID", "POST /v1/jobs/ID/trigger", "POST /v1/jobs/ID/pause", "POST /v1/jobs/ID/resume",
		"POST /v1/jobs/ID/skip-next", "GET /v1/jobs/ID/history", "GET /v1/jobs/ID/preview", "GET /v1/jobs/ID/runs", "GET /v1/runs", "GET /v1/runs/ID",
		"GET /v1/runs/ID/logs", "POST /v1/runs/ID/cancel", "POST /v1/runs/ID/retry",
	}
	params := []string{"namespace", "tenant", "status", "job", "label", "limit", "page_token", "paused", "dry_run", "n", "attempt", "container", "follow", "in_cluster", "x"}
	ids := []string{"j", "new", run, "j:x", ":", "a:b:c", core.RunRef("default", "default", run).ID.String(), "%FF", "%2F", uuid.Nil.String()}
	rapid.Check(t, func(t *rapid.T) {
		method, path, _ := strings.Cut(rapid.SampledFrom(targets).Draw(t, "target"), " ")
		path = strings.ReplaceAll(path, "ID", rapid.SampledFrom(ids).Draw(t, "id"))
		q := url.Values{}
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(params), 0, 3).Draw(t, "params") {
			q.Add(p, rapid.OneOf(rapid.SampledFrom([]string{"", "1", "true", "default", "running", "a=b"}), rapid.String()).Draw(t, "value"))
		}
		if len(q) > 0 {
			path += "?" + q.Encode()
		}
		var body any
		if method != http.MethodGet && rapid.Bool().Draw(t, "body") {
			var members []string
			for _, f := range rapid.SliceOfN(rapid.SampledFrom(fields), 0, 4).Draw(t, "fields") {
				members = append(members, fmt.Sprintf("%q:%s", f, rapid.SampledFrom(words).Draw(t, f)))
			}
			body = "{" + strings.Join(members, ",") + "}"
		}
		r := a.do(method, path, body)
		if r.status >= http.StatusInternalServerError {
			t.Fatalf("%s %s %v: %d %s", method, path, body, r.status, r.body)
		}
		if r.status >= http.StatusBadRequest {
			var e struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error == "" || !utf8.ValidString(r.body) {
				t.Fatalf("%s %s %v: %d %q", method, path, body, r.status, r.body)
			}
		}
	})
}

func TestRunsAreListedByJobTenantStateAndPlace(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	for _, tenant := range []string{"t1", "t2"} {
		for _, id := range []string{"a", "b"} {
			scope := "?namespace=ns&tenant=" + tenant
			require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/"+id+scope, plainJob).status)
			for range 3 {
				require.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/"+id+"/trigger"+scope, nil).status)
			}
		}
	}
	first := a.do("GET", "/v1/runs?namespace=ns&tenant=t1&job=a", nil)
	run := runsOf(t, first)[0]
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/runs/"+run+"/cancel", nil).status)
	waited := a.do("GET", "/v1/runs/"+run+"?wait_seconds=60", nil)
	require.Equal(t, "cancelled", waited.str("state"))
	require.Eventually(t, func() bool { return len(runsOf(t, a.do("GET", "/v1/runs?in_cluster=true", nil))) == 11 }, time.Minute, 10*time.Millisecond, "the others get there by themselves")
	for query, want := range map[string]int{
		"":                                     12,
		"?namespace=ns":                        12,
		"?tenant=t2":                           6,
		"?job=a":                               6,
		"?job=a&namespace=ns&tenant=t1":        3,
		"?job=none":                            0,
		"?status=cancelled":                    1,
		"?status=cancelled&job=b":              0,
		"?status=container_creating&tenant=t1": 5,
		"?in_cluster=true":                     11,
		"?in_cluster=false":                    1,
		"?in_cluster=false&namespace=ns&tenant=t2":      0,
		"?in_cluster=true&job=a&namespace=ns&tenant=t1": 2,
	} {
		assert.Len(t, runsOf(t, a.do("GET", "/v1/runs"+query, nil)), want, query)
	}
	assert.Len(t, runsOf(t, a.do("GET", "/v1/jobs/a/runs?namespace=ns&tenant=t1", nil)), 3)
	assert.Len(t, runsOf(t, a.do("GET", "/v1/jobs/a/runs?namespace=ns&tenant=t1&status=cancelled", nil)), 1)
	var paged []string
	token := ""
	for range 20 {
		r := a.do("GET", "/v1/runs?job=b&limit=1&page_token="+token, nil)
		paged = append(paged, runsOf(t, r)...)
		if token = r.str("next_page_token"); token == "" {
			break
		}
	}
	assert.Len(t, paged, 6)
	assert.Equal(t, runsOf(t, a.do("GET", "/v1/runs?job=b", nil)), paged)
}

// runsOf gives the ids of the runs of a page.
func runsOf(t *testing.T, r answer) []string {
	t.Helper()
	var page struct {
		Runs []map[string]any `json:"runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &page), r.body)
	ids := []string{}
	for _, run := range page.Runs {
		assert.NotContains(t, run, "config")
		ids = append(ids, fmt.Sprint(run["id"]))
	}
	return ids
}

func TestTheMetricsTellOfJobsAndTheirRuns(t *testing.T) {
	a := start(t, setup{engine: withCluster, api: withJobs})
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
	require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/k", `{"pod_spec":{"containers":[{}]},"constraint_config":{"constraints":[]}}`).status)
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/jobs/k/pause", nil).status)
	before := a.do("GET", "/metrics", nil).body
	for _, line := range []string{`orrery_job_runs_ended_total{outcome="orphaned"} 0`, `orrery_job_times_total{verdict="missed"} 0`, `orrery_job_runs{status="retrying"} 0`} {
		assert.Contains(t, before, "\n"+line+"\n", "from 0 on")
	}
	ends := func(job string, code int32) {
		run, err := uuid.Parse(a.do("POST", "/v1/jobs/"+job+"/trigger", nil).str("run"))
		require.NoError(t, err)
		awaitRun(t, a, run, func(o core.Orchestrator) bool {
			return o.State == core.OrchestratorContainerCreating && len(o.Pending.Open) == 0
		})
		_, err = a.engine.Runs().Send(t.Context(), run, core.PodRunning{})
		require.NoError(t, err)
		_, err = a.engine.Runs().Send(t.Context(), run, core.PodEnded{Pod: core.Pod{ExitCode: &code}})
		require.NoError(t, err)
		awaitRun(t, a, run, func(o core.Orchestrator) bool { return o.Reported })
	}
	ends("j", 0)
	ends("j", 1)
	ends("k", 0)
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/j/trigger", nil).status)
	body := ""
	require.Eventually(t, func() bool { // events are announced after the answer
		body = a.do("GET", "/metrics", nil).body
		return strings.Contains(body, "\norrery_job_triggers_total 4\n")
	}, time.Minute, 10*time.Millisecond)
	for _, line := range []string{
		`orrery_jobs{status="enabled"} 1`, `orrery_jobs{status="paused"} 1`,
		`orrery_job_runs{status="completed"} 2`, `orrery_job_runs{status="failed"} 1`, `orrery_job_runs_in_cluster 1`,
		`orrery_job_runs_ended_total{outcome="completed"} 2`, `orrery_job_runs_ended_total{outcome="failed"} 1`,
		`orrery_job_times_total{verdict="dispatched"} 4`, `orrery_job_triggers_total 4`, `orrery_job_retries_total 0`,
		`orrery_job_constraints_violated_total 0`, `orrery_job_actions_total 0`, `orrery_job_actions_failed_total 0`, `orrery_job_heartbeats_total 0`,
		`orrery_job_constraint_errors_total 0`, `orrery_job_cleanups_failed_total 0`,
		`orrery_job_run_phase_duration_seconds_count{outcome="completed",phase="total"} 2`,
		`orrery_job_run_phase_duration_seconds_count{outcome="failed",phase="execution"} 1`,
		`orrery_job_run_phase_duration_seconds_bucket{outcome="completed",phase="pod_start",le="+Inf"} 2`,
	} {
		assert.Contains(t, body, "\n"+line+"\n")
	}
	assert.Regexp(t, `\norrery_job_constraints_checked_total [1-9]`, body)
	assert.Regexp(t, `\norrery_job_api_calls_total (9|10)\n`, body, "three of each run that ended, and perhaps the creation of the last")
	for _, phase := range []string{"pre_run", "constraint_check", "pod_start", "execution", "termination", "total"} {
		assert.Contains(t, body, `phase="`+phase+`"`)
	}
}

// awaitRun waits until a run is as it has to be.
func awaitRun(t *testing.T, a *api, run uuid.UUID, is func(core.Orchestrator) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		o, err := a.engine.Runs().Get(t.Context(), run)
		return err == nil && is(o)
	}, 2*time.Minute, time.Millisecond)
}

func TestWhatRunsAnnounceIsInTheStreamOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withJobs})
		r := follow(t, a, "?category=job&category=run")
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		assert.Contains(t, line(t, r, "data:"), `"kind":{"category":"job","action":"created"}`)
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/jobs/j/trigger", nil).status)
		assert.Contains(t, line(t, r, "data:"), `"kind":{"category":"job","action":"triggered"}`)
		assert.Contains(t, line(t, r, "data:"), `"kind":{"category":"run","action":"pre_run"}`)
		var said string
		for !strings.Contains(said, `"kind":{"category":"run","action":"container_creating"}`) {
			said = line(t, r, "data:")
		}
		assert.Contains(t, said, `"run_id":"j:`)
	})
}

func TestAWaitForARunEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withJobs})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		run := a.do("POST", "/v1/jobs/j/trigger", nil).str("run")
		still := a.do("GET", "/v1/runs/"+run+"?wait_seconds=5", nil)
		assert.Equal(t, http.StatusOK, still.status)
		assert.Equal(t, "container_creating", still.str("state"))
		done := make(chan answer)
		go func() { done <- a.do("GET", "/v1/runs/"+run+"?wait_seconds=20", nil) }()
		synctest.Wait()
		assert.Equal(t, http.StatusOK, a.do("POST", "/v1/runs/"+run+"/cancel", nil).status)
		assert.Equal(t, "cancelled", (<-done).str("state"))
	})
}

// roomy is a service of jobs that tells of its runners' room.
type roomy struct{ jobService }

func (roomy) Pods() map[string]jobs.Pods {
	return map[string]jobs.Pods{"local": {Max: 5, Living: 4, Waiting: 3}}
}

func TestTheMetricsShowTheRoomOfRunners(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) { o.Jobs = roomy{} }})
	body := a.do("GET", "/metrics", nil).body
	for _, line := range []string{`orrery_runner_max_pods{runner="local"} 5`, `orrery_runner_pods{runner="local"} 4`, `orrery_runner_pods_waiting{runner="local"} 3`} {
		assert.Contains(t, body, line+"\n")
	}
}
