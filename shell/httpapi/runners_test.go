package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

// patient is a service of jobs whose runners are as the test says.
type patient struct {
	jobService
	health map[string]jobs.Health
	stored string // of the logs
}

func (p patient) Health() map[string]jobs.Health { return p.health }

func (patient) TenantsOf(runner string) []shell.Scope {
	return map[string][]shell.Scope{"lame": {{Namespace: "*", Tenant: "bank"}, {Namespace: "shop", Tenant: "*"}}}[runner]
}

func (p patient) Logs(_ context.Context, _ core.Orchestrator, _ uint32, o jobs.LogOptions, w io.Writer) error {
	down := &jobs.DownError{Runner: "kubernetes", Health: p.health["kubernetes"]}
	if p.stored == "" {
		return down
	}
	o.Kept(down)
	_, err := io.WriteString(w, p.stored)
	return err
}

// withHealth gives an API runners of which one is down, one degraded and one well.
func withHealth(o *httpapi.Options) {
	withJobs(o)
	now := time.Now()
	o.Jobs = patient{health: map[string]jobs.Health{
		"kubernetes": {
			Status: jobs.HealthDown, Since: now.Add(-time.Minute), SeenAt: now.Add(-90 * time.Second),
			Error: "cannot watch jobs: connection refused", LastError: "connection refused", LastErrorAt: now.Add(-time.Second),
		},
		"lame":  {Status: jobs.HealthDegraded, Error: "cannot watch events: forbidden", SeenAt: now},
		"local": {Status: jobs.HealthWorks},
	}}
	o.Clock = nil
}

func TestRunnersAreShownAsTheyAreToWhoMayUseThem(t *testing.T) {
	a := start(t, setup{api: withHealth})
	body := a.do("GET", "/v1/runners", nil).body
	assert.Contains(t, body, `{"name":"kubernetes","status":"down","since":"`)
	assert.Contains(t, body, `"error":"cannot watch jobs: connection refused","last_error":"connection refused","last_error_at":"`)
	assert.Contains(t, body, `{"name":"local","status":"works","since":null,"error":"","last_error":"","last_error_at":null,"seen_at":null,"watch_age_seconds":0,"max_pods":0,"pods":0,"pods_waiting":0}`)
}

// aRefusal is an error of a cluster that names a job of another tenant, a user and an address.
const aRefusal = `cannot delete Job: jobs.batch "payroll-acme-0" is forbidden: User "system:serviceaccount:ops:orrery" cannot delete; https://10.1.2.3:6443`

// withTenants gives the runners' errors names, and the API tokens of tenants and an admin's.
func withTenants(o *httpapi.Options) {
	withHealth(o)
	health := map[string]jobs.Health{}
	for name, status := range map[string]jobs.HealthStatus{"kubernetes": jobs.HealthDown, "lame": jobs.HealthDegraded} {
		health[name] = jobs.Health{
			Status: status, Error: aRefusal, LastError: aRefusal, LastErrorAt: time.Now(),
			Brief: "cannot delete Job: forbidden", LastBrief: "forbidden",
		}
	}
	o.Jobs, o.OpenRunners = patient{health: health}, []string{"kubernetes", "lame"}
	o.Tokens = []httpapi.Token{
		{Name: "admin", SHA256: httpapi.HashToken("admin"), Admin: true},
		{Name: "reader", SHA256: httpapi.HashToken("reader")},
		{Name: "bank", SHA256: httpapi.HashToken("bank"), Tenants: []string{"bank"}},
		{Name: "other", SHA256: httpapi.HashToken("other"), Namespaces: []string{"default"}, Tenants: []string{"default"}},
	}
}

func TestARunnerIsListedForTokensOfItsTenantsAndWithoutTheNamesOfOthers(t *testing.T) {
	a := start(t, setup{api: withTenants})
	for token, want := range map[string]struct{ names, told bool }{
		"admin": {names: true, told: true}, "reader": {told: true}, "bank": {told: true}, "other": {},
	} {
		body := a.do("GET", "/v1/runners", nil, bearer(token)).body
		assert.Contains(t, body, `"name":"kubernetes","status":"down"`, token)
		assert.Equal(t, want.told, strings.Contains(body, `"name":"lame"`), "%s: %s", token, body)
		assert.Equal(t, want.names, strings.Contains(body, "payroll-acme"), "%s: %s", token, body)
		assert.Equal(t, want.names, strings.Contains(body, "10.1.2.3"), "%s: %s", token, body)
		assert.Equal(t, !want.names, strings.Contains(body, `"error":"cannot delete Job: forbidden","last_error":"forbidden"`), "%s: %s", token, body)
	}
}

func TestARunAndItsLogsTellTenantsOfTheirRunnerWithoutTheNamesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withTenants})
		as := func(token, method, path string, body any) answer {
			return a.do(method, path, body, bearer(token))
		}
		require.Equal(t, http.StatusCreated, as("other", "PUT", "/v1/jobs/j", plainJob).status)
		run := as("other", "POST", "/v1/jobs/j/trigger", nil).str("run")
		synctest.Wait()
		for _, path := range []string{"/v1/runs/" + run, "/v1/runs", "/v1/runs/" + run + "/logs"} {
			for _, token := range []string{"other", "reader"} {
				body := as(token, "GET", path, nil).body
				assert.Contains(t, body, "is down: cannot delete Job: forbidden", path)
				assert.NotContains(t, body, "payroll-acme", path)
				assert.NotContains(t, body, "10.1.2.3", path)
			}
			assert.Contains(t, as("admin", "GET", path, nil).body, "payroll-acme", path)
		}
	})
}

func TestLogsThatAreStoredAreGivenWhileTheRunnerIsDownAndAreSaidToBeThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: func(o *httpapi.Options) {
			withTenants(o)
			p, is := o.Jobs.(patient)
			require.True(t, is)
			p.stored = "begun\n"
			h := p.health["kubernetes"]
			h.Error += ": für\r\nSet-Cookie: a=b"
			p.health["kubernetes"], o.Jobs = h, p
		}})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob, bearer("other")).status)
		run := a.do("POST", "/v1/jobs/j/trigger", nil, bearer("other")).str("run")
		synctest.Wait()
		for token, want := range map[string]string{
			"other": "runner kubernetes is down: cannot delete Job: forbidden",
			"admin": "runner kubernetes is down: " + strings.ReplaceAll(aRefusal, "\n", "; ") + ": f?r?; Set-Cookie: a=b",
		} {
			r := a.do("GET", "/v1/runs/"+run+"/logs", nil, bearer(token))
			assert.Equal(t, http.StatusOK, r.status, r.body)
			assert.Equal(t, "begun\n", r.body)
			assert.Equal(t, want, r.header.Get("X-Orrery-Logs-Stored-Only"))
			assert.Empty(t, r.header.Get("Set-Cookie"))
		}
	})
}

func TestTheMetricsShowHowRunnersAre(t *testing.T) {
	a := start(t, setup{api: withHealth})
	body := a.do("GET", "/metrics", nil).body
	for _, line := range []string{`orrery_runner_up{runner="kubernetes"} 0`, `orrery_runner_up{runner="lame"} 1`, `orrery_runner_up{runner="local"} 1`,
		`orrery_runner_degraded{runner="kubernetes"} 0`, `orrery_runner_degraded{runner="lame"} 1`, `orrery_runner_degraded{runner="local"} 0`} {
		assert.Contains(t, body, line+"\n")
	}
	assert.Regexp(t, `orrery_runner_watch_age_seconds\{runner="kubernetes"\} (9\d|\d{3,})`, body)
	assert.NotContains(t, body, `orrery_runner_watch_age_seconds{runner="local"}`)
}

// Whoever applies, reads and cancels must go on while a cluster is away.
func TestADaemonWhoseClusterIsAwayIsReadyAndSaysSo(t *testing.T) {
	a := start(t, setup{api: withHealth})
	r := a.do("GET", "/readyz", nil)
	assert.Equal(t, http.StatusOK, r.status)
	assert.JSONEq(t, `{"status":"ready","runners":{"kubernetes":"down","lame":"degraded"}}`, r.body)
	assert.NotContains(t, r.body, "refused", "anyone may ask")
}

func TestARunSaysThatItsRunnerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: withCluster, api: withHealth})
		require.Equal(t, http.StatusCreated, a.do("PUT", "/v1/jobs/j", plainJob).status)
		run := a.do("POST", "/v1/jobs/j/trigger", nil).str("run")
		synctest.Wait()
		got := a.do("GET", "/v1/runs/"+run, nil)
		assert.Regexp(t, `^as of when runner kubernetes could last be asked: it is down since .*Z: cannot watch jobs: connection refused$`, got.str("note"))
		assert.Contains(t, a.do("GET", "/v1/runs", nil).body, `"note":"as of when runner kubernetes could last be asked`)
		logs := a.do("GET", "/v1/runs/"+run+"/logs", nil)
		assert.Equal(t, http.StatusServiceUnavailable, logs.status)
		assert.Contains(t, logs.body, "logs: runner kubernetes is down since ")
		assert.Equal(t, http.StatusOK, a.do("POST", "/v1/runs/"+run+"/cancel", nil).status)
		synctest.Wait()
		assert.NotContains(t, a.do("GET", "/v1/runs/"+run, nil).body, `"note"`, "it has ended")
	})
}
