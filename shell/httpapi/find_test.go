package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestWhatIsFoundByTheBeginningOfItsIDIsWhatTheTokenSees(t *testing.T) {
	of := func(name string, change func(*httpapi.Token)) httpapi.Token {
		k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name + "-secret"), Namespaces: []string{"ns"}}
		change(&k)
		return k
	}
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{
			of("all", func(k *httpapi.Token) { k.Namespaces, k.Admin = nil, true }), of("one", func(k *httpapi.Token) { k.Tenants = []string{"t1"} }),
			of("tool", func(k *httpapi.Token) { k.Tenants, k.Tools = []string{"t1"}, []string{"hold"} }),
		}
	}})
	make := func(path, id, tenant, more string) {
		r := a.do("POST", path, fmt.Sprintf(`{"id":%q,"namespace":"ns","tenant":%q%s}`, id, tenant, more), bearer("all-secret"))
		require.Equal(t, http.StatusCreated, r.status, r.body)
	}
	const at, first, second, third = "0193f2a4-5b6c-4d8e-9f01-", "000000000001", "000000000002", "00000000ffff"
	const action = `,"tool_name":"echo","label":"import","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`
	make("/v1/actions", at+first, "t1", action)
	make("/v1/actions", at+second, "t2", action)
	make("/v1/tasks", at+third, "t1", `,"label":"review"`)
	make("/v1/actions", "0193f2a5-0000-4000-8000-"+first, "t1", action)

	found := func(token, query string) (out []string) {
		r := a.do("GET", "/v1/find?"+query, nil, bearer(token+"-secret"))
		require.Equal(t, http.StatusOK, r.status, r.body)
		for _, f := range r.object()["found"].([]any) {
			f := f.(map[string]any)
			out = append(out, fmt.Sprint(f["kind"], " ", f["id"].(string)[24:], " ", f["tenant"], " ", f["name"]))
		}
		return out
	}
	one, two, task := "action "+first+" t1 import", "action "+second+" t2 import", "task "+third+" t1 review"
	assert.Equal(t, []string{one, two, task}, found("all", "q=0193F2A4"))
	assert.Equal(t, []string{one, task}, found("one", "q=0193f2a4"))
	assert.Equal(t, []string{one, task}, found("all", "q=0193f2a4&tenant=t1"))
	assert.Empty(t, found("tool", "q=0193f2a4"), "it sees another tool's actions alone, and no task")
	assert.Equal(t, []string{task}, found("one", "q=0193f2a4&kind=task"))
	assert.Equal(t, []string{two}, found("all", "q="+at+second))
	assert.Empty(t, found("one", "q="+at+second), "another tenant's")
	assert.Equal(t, []string{one, two}, found("all", "q="+at+"00000000000"))
	assert.Empty(t, found("all", "q=ffffffff"))
	assert.Equal(t, []string{one, two, task}, found("all", "q=0193f2a4&namespace=ns"))
	assert.Empty(t, found("all", "q=0193f2a4&namespace=other"))
	const quoted = "0193f2a6-0000-4000-8000-" + first
	make("/v1/actions", quoted, `t"1`, action)
	assert.Len(t, found("all", "q=0193f2a6&tenant=t%221"), 1, "a tenant whose name is written otherwise in a record")
	r := a.do("GET", "/v1/find?q=0193f2a4&limit=2", nil, bearer("one-secret"))
	assert.Equal(t, false, r.object()["more"], "what the token does not see does not count")
	r = a.do("GET", "/v1/find?q=0193f2a4&limit=2", nil, bearer("all-secret"))
	assert.Equal(t, true, r.object()["more"])
	assert.Len(t, r.object()["found"], 2)

	for query, want := range map[string]string{
		"q=0193f2a":             `q: "0193f2a" is not the beginning of an id, of eight digits at least, such as 0193f2a4`,
		"":                      `q: "" is not the beginning of an id, of eight digits at least, such as 0193f2a4`,
		"q=0193f2a45":           `q: "0193f2a45" is not the beginning of an id, of eight digits at least, such as 0193f2a4`,
		"q=0193f2a4&kind=queue": `kind: "queue" is unknown: use action, recurring, orchestrator, pipeline, task, strategy, backfill, occurrence`,
	} {
		r := a.do("GET", "/v1/find?"+query, nil, bearer("all-secret"))
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Equal(t, want, r.errorText())
	}
}

func TestMoreThanAPageOfIDsThatBeginAlikeIsSearchedToItsEnd(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{
			{Name: "all", SHA256: httpapi.HashToken("all-secret"), Admin: true},
			{Name: "last", SHA256: httpapi.HashToken("last-secret"), Namespaces: []string{"ns"}, Tenants: []string{"last"}},
		}
	}})
	for from := 0; from < 1200; from += 600 {
		body := `{"actions":[`
		for n := from; n < from+600; n++ {
			body += fmt.Sprintf(`{"id":"0193f2a4-5b6c-4d8e-9f01-%012x","namespace":"ns","tenant":"many","tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}},`, n)
		}
		r := a.do("POST", "/v1/actions/batch", body[:len(body)-1]+`]}`, bearer("all-secret"))
		require.Equal(t, http.StatusOK, r.status, r.body)
	}
	const id = "0193f2a4-5b6c-4d8e-9f01-ffffffffffff"
	r := a.do("POST", "/v1/actions", `{"id":"`+id+`","namespace":"ns","tenant":"last","tool_name":"hold"}`, bearer("all-secret"))
	require.Equal(t, http.StatusCreated, r.status, r.body)
	r = a.do("GET", "/v1/find?q=0193f2a4", nil, bearer("last-secret"))
	require.Equal(t, http.StatusOK, r.status, r.body)
	assert.Contains(t, r.body, id)
	assert.Len(t, r.object()["found"], 1)
}

func TestAMachineOfEachKindIsFoundByATokenOfItsTenantAndByNoOther(t *testing.T) {
	for _, kind := range []string{"actions", "recurring", "runs", "pipelines", "tasks", "strategies", "backfills", "occurrences"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSweepWorld(t, kind, 1)
				defer w.stop()
				id := w.things[0]["id"]
				for token, want := range map[string]int{"admin": 1, "a": 1, "reader": 1, "b": 0} {
					found := w.do("GET", "/v1/find?q="+id, nil, bearer(token+"-secret")).object()["found"].([]any)
					assert.Len(t, found, want, token)
				}
				assert.Len(t, w.do("GET", "/v1/find?tenant=a&q="+id, nil, bearer("any-secret")).object()["found"].([]any), 1)
				may := w.do("GET", "/v1/"+kind+"/"+id, nil, bearer("tool-secret")).status == http.StatusOK
				found := w.do("GET", "/v1/find?q="+id, nil, bearer("tool-secret")).object()["found"].([]any)
				assert.Equal(t, may, len(found) == 1, "a token that is bound to a tool finds what it may read, and nothing else")
			})
		})
	}
}
