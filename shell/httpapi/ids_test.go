package httpapi_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// twoTenants is an API with the tokens "one" and "two", each of a tenant of its own with all rights.
func twoTenants(t *testing.T) *api {
	t.Helper()
	return start(t, setup{engine: withCluster, api: func(o *httpapi.Options) {
		withJobs(o)
		for _, name := range []string{"one", "two"} {
			o.Tokens = append(o.Tokens, httpapi.Token{
				Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"n"}, Tenants: []string{name}, Sessions: true, Git: true, Runners: []string{"local"},
			})
		}
	}})
}

// The creations of what is found by its id, with a place for it.
var createdByID = map[string]string{
	"/v1/actions":    `{ID"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`,
	"/v1/pipelines":  `{ID"hold":true,"definition":{"name":"p","phases":[{"name":"x","manual":{}}]}}`,
	"/v1/strategies": `{ID"approaches":[{"name":"x","action":{"command":{"tool":"echo","input":{}}}}]}`,
	"/v1/tasks":      `{ID"label":"x"}`,
}

// An id is the caller's: 122 random bits (or 74 beside a time) that nobody guesses. Who was told
// one of another tenant's learns that it is taken, in the same words whatever it is the id of and
// whosever it is.
func TestAnIDThatIsTakenTellsNothingButThat(t *testing.T) {
	a := twoTenants(t)
	var taken []string
	for path, body := range createdByID {
		for _, of := range []string{"one", "two"} {
			taken = append(taken, madeID(t, a.do("POST", path, strings.Replace(body, "ID", "", 1), bearer(of))))
		}
	}
	for path, body := range createdByID {
		for _, id := range taken {
			r := a.do("POST", path, strings.Replace(body, "ID", `"id":"`+id+`",`, 1), bearer("two"))
			assert.Equal(t, http.StatusConflict, r.status, path)
			assert.Equal(t, "id: "+id+" exists already", r.errorText(), path)
			assert.Empty(t, r.header.Get("Location"), path)
		}
		fresh := uuid.NewString()
		assert.Equal(t, fresh, madeID(t, a.do("POST", path, strings.Replace(body, "ID", `"id":"`+fresh+`",`, 1), bearer("two"))), path)
	}
}

// A name, a dedup key and a run belong to their tenant: what another tenant has under the same
// one changes no answer.
func TestANameThatAnotherTenantHasChangesNoAnswer(t *testing.T) {
	requests := []struct{ request, body string }{
		{"PUT /v1/jobs/x", `{"pod_spec":{"containers":[{}]},"schedule":"0 9 * * *"}`},
		{"POST /v1/jobs/x/trigger", `{"dedup_key":"k"}`},
		{"PUT /v1/queues/x", `{}`},
		{"POST /v1/queues/x/items", `{"data":1,"dedup_key":"k"}`},
		{"POST /v1/queues/x/take", `{"holder":"h"}`},
		{"PUT /v1/workers/x", `{"queue":"x","do":{"run":{"tool":"echo","input":{}}}}`},
		{"POST /v1/locks/x/acquire", `{"holder":"h"}`},
		{"PUT /v1/semaphores/x", `{"slots":1}`},
		{"POST /v1/semaphores/x/acquire", `{"holder":"h"}`},
		{"POST /v1/actions", `{"tool_name":"echo","dedup_key":"k","trigger":{"type":"scheduled","next_tick_at":"2099-01-01T00:00:00Z"}}`},
		{"POST /v1/recurring", `{"namespace":"n","tenant":"TENANT","cron_expr":"0 9 * * *","provider":"echo","action_type":"x","dedup_key":"k"}`},
		{"POST /v1/pipelines", `{"label":"x","hold":true,"definition":{"name":"x","phases":[{"name":"x","manual":{}}]}}`},
		{"POST /v1/strategies", `{"label":"x","approaches":[{"name":"x","action":{"command":{"tool":"echo","input":{}}}}]}`},
		{"POST /v1/tasks", `{"label":"x"}`},
	}
	differs := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|20\d\d-\d\d-\d\dT[0-9:.]+Z|"token":\d+|"oldest_ready_seconds":[0-9.e-]+`)
	answers := func(a *api, tenant string) []string {
		var out []string
		for _, q := range requests {
			method, path, _ := strings.Cut(q.request, " ")
			r := a.do(method, path, strings.ReplaceAll(q.body, "TENANT", tenant), bearer(tenant))
			require.Less(t, r.status, 300, "%s: %s", q.request, r.body)
			out = append(out, q.request+" "+http.StatusText(r.status)+" "+strings.ReplaceAll(differs.ReplaceAllString(r.body, "…"), tenant, "TENANT"))
		}
		return out
	}
	alone := answers(twoTenants(t), "two")
	shared := twoTenants(t)
	answers(shared, "one")
	assert.Equal(t, alone, answers(shared, "two"))
}
