package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// audited starts an API with a log of requests and tokens of two tenants.
func audited(t *testing.T, more ...func(*httpapi.Options)) (a *api, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "log")
	log, err := audit.Open(audit.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	a = start(t, setup{api: func(o *httpapi.Options) {
		o.Audit = log
		tenant := func(name, tenant string, tools ...string) httpapi.Token {
			return httpapi.Token{Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"ns"}, Tenants: []string{tenant}, Tools: tools}
		}
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true}, {Name: "all", SHA256: httpapi.HashToken("all")},
			{Name: "prom", SHA256: httpapi.HashToken("prom"), Metrics: true},
			tenant("ann", "t1"), tenant("ben", "t2"), tenant("echo-only", "t1", "echo"),
		}
		o.Webhooks = map[string]httpapi.WebhookAuth{"gh": {Scheme: "github", Secrets: []string{"x"}}, "open": {Scheme: "none"}}
		for _, change := range more {
			change(o)
		}
	}})
	return a, dir
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// auditLog reads the log as a token sees it: a line for each entry, newest first.
func auditLog(t *testing.T, a *api, token, query string) []string {
	t.Helper()
	var out []string
	for _, e := range auditEntries(t, a, token, query) {
		out = append(out, fmt.Sprintf("%s %s %s/%s %d %s", e.Token, e.Operation, e.Namespace, e.Tenant, e.Status, e.Path))
	}
	return out
}

func auditEntries(t *testing.T, a *api, token, query string) (entries []audit.Entry) {
	t.Helper()
	for page := ""; ; {
		got := a.do("GET", "/v1/audit?limit=2&"+query+"&page_token="+url.QueryEscape(page), nil, bearer(token))
		require.Equal(t, http.StatusOK, got.status, got.body)
		var list wire.AuditList
		require.NoError(t, json.Unmarshal([]byte(got.body), &list))
		entries = append(entries, list.Entries...)
		if page = list.NextPageToken; page == "" {
			return entries
		}
	}
}

const someAction = `{"tool_name":"echo","tool_input":{"password":"hunter2"},"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`

func TestTheLogHasWhoDidWhatToWhatAndHowItWasAnswered(t *testing.T) {
	a, _ := audited(t)
	id := a.do("POST", "/v1/actions?", someAction, bearer("ann"), from("10.0.0.5:1234"), with("X-Request-Id", "req-1")).str("id")
	a.do("GET", "/v1/actions/"+id, nil, bearer("ann"))
	a.do("POST", "/v1/actions/"+id+"/cancel", nil, bearer("root"), from("[2001:db8::7]:9"))
	a.do("POST", "/v1/actions/"+id+"/cancel", nil, bearer("ann"))
	a.do("GET", "/v1/actions/"+id, nil, bearer("ben"))
	a.do("GET", "/v1/actions?namespace=ns&tenant=t1", nil, bearer("ben"))
	a.do("PUT", "/v1/queues/q1", nil, bearer("ann"))
	a.do("GET", "/v1/queues/q1", nil, bearer("echo-only"))
	a.do("GET", "/v1/info", nil, bearer("guess"), from("10.9.9.9:1"))
	a.do("GET", "/v1/nothing?secret=hunter2", nil, bearer("ann"))
	a.do("DELETE", "/v1/info", nil, bearer("ann"))
	a.do("POST", "/v1/webhooks/open", "x", from("10.7.7.7:1"))
	a.do("POST", "/v1/webhooks/gh", "x", from("10.7.7.7:1"))
	a.do("GET", "/v1/info", nil, bearer("prom"))
	a.do("GET", "/healthz", nil)
	a.do("HEAD", "/v1/backup", nil, bearer("root"))

	entries := map[string]audit.Entry{}
	for _, e := range auditEntries(t, a, "root", "") {
		entries[fmt.Sprintf("%s %s %d", e.Token, e.Operation, e.Status)] = e
	}
	created := entries["ann createAction 201"]
	assert.Equal(t, "/v1/actions/"+id, created.Path, "what was made")
	assert.Equal(t, "10.0.0.5", created.Address)
	assert.Equal(t, "req-1", created.RequestID)
	assert.Equal(t, "api:ann", created.Actor)
	assert.WithinDuration(t, time.Now(), created.At.Std(), time.Hour)
	cancelled := entries["root cancelAction 200"]
	assert.Equal(t, "2001:db8::7", cancelled.Address)
	assert.Equal(t, "ns/t1", cancelled.Namespace+"/"+cancelled.Tenant, "of the action")
	assert.Equal(t, "token: is unknown", entries[" getInfo 401"].Reason)
	assert.Equal(t, "10.9.9.9", entries[" getInfo 401"].Address)
	assert.Equal(t, `tenant: "t1" is not one of the token's: use t2`, entries["ben listActions 403"].Reason)
	assert.Equal(t, "t2", entries["ben listActions 403"].Tenant, "never the one that was asked for")
	assert.Equal(t, "t2", entries["ben getAction 404"].Tenant)
	assert.Empty(t, entries["ben getAction 404"].Reason)
	assert.Equal(t, "/v1/nothing", entries[" unknown 404"].Path)
	assert.Equal(t, "webhook:open", entries[" receiveWebhook 202"].Actor)
	assert.Regexp(t, "^/v1/actions/[0-9a-f-]{36}$", entries[" receiveWebhook 202"].Path)
	assert.Equal(t, "t1", entries[" receiveWebhook 401"].Tenant)
	assert.Equal(t, "webhook:gh", entries[" receiveWebhook 401"].Actor)
	for _, key := range []string{"ann cancelAction 409", "ann putQueue 200", "echo-only getQueue 403", " unknown 405", "prom getInfo 403", "root backup 200"} {
		assert.Contains(t, entries, key)
	}
	assert.Len(t, entries, 14, "no read that succeeded, and no probe: %v", entries)
}

func TestATenantSeesOfTheLogWhatItsTokenDidAndWhatWasDoneInItsTenant(t *testing.T) {
	a, _ := audited(t)
	make := func(token, more string) string {
		return a.do("POST", "/v1/actions", strings.Replace(someAction, "{", "{"+more, 1), bearer(token), from("10.0.0.5:1234")).str("id")
	}
	ofAnn, ofBen := make("ann", ""), make("ben", "")
	a.do("POST", "/v1/actions/"+ofAnn+"/cancel", nil, bearer("root"), from("10.1.1.1:1"), with("X-Request-Id", "secret-id"))
	a.do("GET", "/v1/actions/"+ofAnn, nil, bearer("ben"))
	a.do("GET", "/v1/actions?tenant=t1", nil, bearer("ben"))
	a.do("PUT", "/v1/queues/q", nil, bearer("echo-only"))
	a.do("GET", "/v1/info", nil, bearer("wrong"))
	a.do("POST", "/v1/webhooks/gh", "x", from("10.7.7.7:1"))

	assert.ElementsMatch(t, []string{
		"ann createAction ns/t1 201 /v1/actions/" + ofAnn, "root cancelAction ns/t1 200 /v1/actions/" + ofAnn + "/cancel",
		"echo-only putQueue ns/t1 403 /v1/queues/q", " receiveWebhook ns/t1 401 /v1/webhooks/gh",
	}, auditLog(t, a, "ann", ""))
	assert.ElementsMatch(t, []string{
		"ben createAction ns/t2 201 /v1/actions/" + ofBen, "ben getAction ns/t2 404 /v1/actions/" + ofAnn, "ben listActions ns/t2 403 /v1/actions",
	}, auditLog(t, a, "ben", ""))
	assert.Equal(t, []string{"echo-only putQueue ns/t1 403 /v1/queues/q"}, auditLog(t, a, "echo-only", ""), "who is bound to tools sees its own alone")
	assert.Len(t, auditLog(t, a, "root", ""), 8)
	assert.NotContains(t, fmt.Sprint(auditLog(t, a, "all", "")), "getInfo", "an unbound token is no admin")
	for _, e := range auditEntries(t, a, "ann", "token=root") {
		assert.Empty(t, e.Address+e.RequestID, "another token's")
	}
	for _, e := range auditEntries(t, a, "root", "token=root") {
		assert.Equal(t, "10.1.1.1", e.Address)
	}
	got := a.do("GET", "/v1/audit?tenant=t1", nil, bearer("ben"))
	assert.Equal(t, http.StatusForbidden, got.status)
	assert.Equal(t, http.StatusForbidden, a.do("GET", "/v1/audit", nil, bearer("prom")).status)
}

func TestTheLogIsChosenFromByTimeTokenOperationStatusAndTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := audited(t)
		for _, token := range []string{"ann", "ben", "nobody"} {
			a.do("POST", "/v1/actions", someAction, bearer(token))
			a.do("PUT", "/v1/queues/q", nil, bearer(token))
			a.do("GET", "/v1/pipelines/0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10", nil, bearer(token))
			<-time.After(time.Hour)
		}
		count := func(query string) int { return len(auditEntries(t, a, "root", query)) }
		for query, want := range map[string]int{
			"": 9, "token=ann": 3, "token=": 3, "operation=putQueue": 3, "status=4xx": 5, "status=401": 3, "status=2xx": 4, "status=404": 2,
			"tenant=t1": 3, "namespace=ns": 6, "namespace=ns&tenant=t2&status=404": 1, "token=zoe": 0,
			"since=" + url.QueryEscape(time.Now().Add(-90*time.Minute).Format(time.RFC3339)):                 3,
			"until=" + url.QueryEscape(time.Now().Add(-90*time.Minute).Format(time.RFC3339)):                 6,
			"since=" + url.QueryEscape(time.Now().Add(-150*time.Minute).Format(time.RFC3339)) + "&token=ben": 3,
		} {
			assert.Equal(t, want, count(query), query)
		}
		for query, says := range map[string]string{
			"since=yesterday": `since: time "yesterday" is not RFC 3339, such as`, "until=1": "until:", "status=40": `status: "40" is unknown: use a status such as 403, or 4xx`,
			"status=x": "status:", "limit=0": "limit:", "page_token=zz": "page_token", "who=a": `query: "who" is unknown`,
		} {
			got := a.do("GET", "/v1/audit?"+query, nil, bearer("root"))
			assert.Equal(t, http.StatusBadRequest, got.status, query)
			assert.Contains(t, got.errorText(), says)
		}
	})
}

func TestEqualRefusalsAreCountedNotListed(t *testing.T) {
	a, _ := audited(t)
	for range 30 { // an address that sends more is slowed down
		a.do("GET", "/v1/actions", nil, bearer("wrong"), from("10.9.9.9:1"))
	}
	sum := uint64(0)
	entries := auditEntries(t, a, "root", "status=401")
	for _, e := range entries {
		sum += e.Count
	}
	assert.Equal(t, uint64(30), sum)
	assert.Len(t, entries, 2)
}

func TestReadsAreInTheLogIfAskedFor(t *testing.T) {
	a, _ := audited(t, func(o *httpapi.Options) { o.AuditReads = true })
	a.do("GET", "/v1/actions", nil, bearer("ann"))
	a.do("GET", "/healthz", nil)
	a.do("GET", "/metrics", nil, bearer("prom"))
	assert.ElementsMatch(t, []string{"ann listActions ns/t1 200 /v1/actions", "prom metrics / 200 /metrics"}, auditLog(t, a, "root", ""))
}

func TestNothingOfABodyOrAQueryIsInTheLog(t *testing.T) {
	a, dir := audited(t, func(o *httpapi.Options) { o.AuditReads = true })
	for _, token := range []string{"ann", "wrong-hunter2", "root"} {
		a.do("POST", "/v1/actions", someAction, bearer(token))
		a.do("POST", "/v1/actions", `{"hunter2":1}`, bearer(token))
		a.do("POST", "/v1/actions", strings.Replace(someAction, "echo", "hunter2", 1), bearer(token))
		a.do("POST", "/v1/queues/q/items", `{"data":"hunter2","dedup_key":"hunter2"}`, bearer(token))
		a.do("GET", "/v1/actions?label=hunter2%3Dx&status=hunter2", nil, bearer(token), with("X-Api-Key", "hunter2"))
		a.do("GET", "/v1/actions?hunter2=1", nil, bearer(token))
	}
	assert.NotEmpty(t, auditLog(t, a, "root", ""))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.NotContains(t, string(b), "hunter2", f)
	}
}

// What the server says of an input that it does not understand may quote it.
func TestTheReasonOfARefusalDoesNotQuoteAnInput(t *testing.T) {
	a, _ := audited(t, func(o *httpapi.Options) {
		withJobs(o)
		o.Tokens = append(o.Tokens, httpapi.Token{Name: "kube", SHA256: httpapi.HashToken("kube"), Namespaces: []string{"ns"}, Tenants: []string{"t1"}, Tools: []string{"kubernetes", "echo"}})
	})
	got := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"x","run":{"tool":"kubernetes","input":{"pod_spec":"x","hunter2":"hunter2"}}}]}}`, bearer("kube"))
	require.Equal(t, http.StatusForbidden, got.status, got.body)
	require.Contains(t, got.body, "hunter2", "the caller is told")
	entries := auditEntries(t, a, "root", "status=403")
	require.Len(t, entries, 1)
	assert.Empty(t, entries[0].Reason)
}

func TestWithoutALogThereIsNoneToRead(t *testing.T) {
	a := start(t, setup{})
	got := a.do("GET", "/v1/audit", nil)
	assert.Equal(t, http.StatusNotImplemented, got.status)
	assert.Contains(t, got.errorText(), "set enabled = true in [audit]")
	assert.NotContains(t, a.do("GET", "/metrics", nil).body, "orrery_audit")
}

func TestTheLogIsCountedInTheMetrics(t *testing.T) {
	a, _ := audited(t)
	a.do("PUT", "/v1/queues/q", nil, bearer("ann"))
	assert.Len(t, auditLog(t, a, "root", ""), 1)
	body := a.do("GET", "/metrics", nil, bearer("prom")).body
	assert.Contains(t, body, "orrery_audit_lines_total 1\n")
	assert.Contains(t, body, "orrery_audit_dropped_total 0\n")
	assert.Regexp(t, `orrery_audit_bytes [1-9]`, body)
}

func TestARequestOfAnotherSiteIsInTheLog(t *testing.T) {
	log, err := audit.Open(audit.Options{Dir: filepath.Join(t.TempDir(), "log")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	a := start(t, setup{api: func(o *httpapi.Options) { o.Audit = log }, engine: func(*shell.Options) {}})
	a.do("GET", "/v1/info", nil, func(r *http.Request) { r.Host = "evil.example" })
	entries := auditEntries(t, a, "", "")
	require.Len(t, entries, 1)
	assert.Equal(t, "unknown /v1/info 403", fmt.Sprintf("%s %s %d", entries[0].Operation, entries[0].Path, entries[0].Status))
	assert.Contains(t, entries[0].Reason, "evil.example")
}

func TestTheLogHasALineForEachStatusThatEntriesOfABatchAreRefusedWith(t *testing.T) {
	a, _ := audited(t)
	got := a.do("POST", "/v1/actions/batch", `{"mode":"each","actions":[`+someAction+`,{"tenant":"t2","tool_name":"hunter2"},{"tenant":"t2","tool_name":"echo"},{"tool_name":"hunter2"}]}`, bearer("ann"))
	require.Equal(t, []int{201, 403, 403, 400}, statuses(got.results()))
	assert.ElementsMatch(t, []string{
		"ann createActions ns/t1 200 /v1/actions/batch", "ann createActions ns/t1 403 /v1/actions/batch", "ann createActions ns/t1 400 /v1/actions/batch",
	}, auditLog(t, a, "root", ""))
	for _, e := range auditEntries(t, a, "root", "") {
		switch e.Status {
		case http.StatusForbidden:
			assert.Equal(t, `actions[1].tenant: "t2" is not one of the token's: use t1`, e.Reason)
		default:
			assert.Empty(t, e.Reason)
		}
	}
}
