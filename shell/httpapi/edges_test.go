package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestANameMayHaveAnyCharacterWhereItIsEncoded(t *testing.T) {
	a := start(t, setup{})
	for _, name := range []string{"a/b", "a//b", "a/", "a/../b", "?x=1&y", "#", "a b+c", "%2F", "ä€😀", "{name}", "items"} {
		at := "/v1/queues/" + url.PathEscape(name)
		r := a.do("POST", at+"/items", `{"data": 1}`)
		require.Equal(t, http.StatusCreated, r.status, "%q: %s", name, r.body)
		assert.Equal(t, http.StatusOK, a.do("GET", r.header.Get("Location"), nil).status, name)
		assert.Equal(t, name, a.do("GET", at, nil).str("name"))
		assert.Contains(t, a.do("POST", at+"/take", `{"holder": "w"}`).body, `"attempts":1`, name)
	}
	for _, name := range []string{"%00", "%0a", "%ff", "%C0%AF"} {
		assert.Equal(t, http.StatusBadRequest, a.do("POST", "/v1/queues/"+name+"/items", `{"data": 1}`).status, name)
		assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/queues/"+name, nil).status, name)
	}
	for _, path := range []string{"/v1/queues//items", "/v1/queues/../actions", "/v1/queues/work/", "/v1//queues"} {
		assert.Equal(t, http.StatusNotFound, a.do("GET", path, nil).status, path)
	}
}

func TestAnAnswerWithoutAnyWriteCountsAsWhatItsReaderGets(t *testing.T) {
	a := start(t, setup{})
	require.Equal(t, http.StatusOK, a.do("HEAD", "/v1/backup", nil).status)
	assert.Contains(t, a.do("GET", "/metrics", nil).body, `orrery_http_requests_total{route="GET /v1/backup",status="200"} 1`)
}

func TestAWaitThatIsNoNumberIsRefusedAlsoWhereThereIsNothingToWaitFor(t *testing.T) {
	a := start(t, setup{})
	r := a.do("POST", "/v1/pipelines", `{"definition": {"name": "p", "phases": [{"name": "x", "checkpoint": {"message": "m"}}]}}`)
	require.Contains(t, r.body, `"phase":{"type":"done"}`)
	assert.Equal(t, http.StatusBadRequest, a.do("GET", r.header.Get("Location")+"?wait_seconds=soon", nil).status)
	assert.Equal(t, http.StatusOK, a.do("GET", r.header.Get("Location")+"?wait_seconds=1", nil).status)
}

func TestAStreamOfEventsEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{stopped: true, api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "a", SHA256: httpapi.HashToken("secret"), Expires: time.Now().Add(40 * time.Second)}}
		}})
		begin := time.Now()
		conn := serve(t, a).dial()
		t.Cleanup(func() { _ = conn.Close() })
		_, err := fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n")
		require.NoError(t, err)
		line(t, bufio.NewReader(conn), "0") // the last chunk
		assert.Equal(t, 45*time.Second, time.Since(begin), "at the first sign of life after it")
	})
}

func TestAMisspeltInputOfAPipelineIsNamedWithWhatWasMeant(t *testing.T) {
	a := start(t, setup{})
	r := a.do("POST", "/v1/pipelines", `{"definition": {"name": "p", "inputs": [{"name": "branch", "required": true}], "phases": [{"name": "x", "manual": {}}]}, "context": {"brnch": "main"}}`)
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.Equal(t, `context.brnch: pipeline "p" declares no input "brnch": did you mean "branch"?`, r.errorText())
}

func TestAToolMayBeNamedByTheContextAndOneThatIsNotThereIsNamedWhereverItStands(t *testing.T) {
	a := start(t, setup{})
	r := a.do("POST", "/v1/pipelines", `{"definition": {"name": "p", "inputs": [{"name": "t"}], "phases": [{"name": "x", "run": {"tool": "${t}"}}]}, "context": {"t": "echo"}}`)
	assert.Equal(t, http.StatusCreated, r.status, r.body)
	const phase = `{"name": "x", "run": {"tool": "nope"}}`
	const approach = `{"approaches": [{"name": "y", "action": {"command": {"tool": "nope"}}}]}`
	for at, do := range map[string]string{
		"do.run.tool": `{"run": {"tool": "nope"}}`,
		"do.strategy.approaches[0].action.command.tool":                          `{"strategy": ` + approach + `}`,
		"do.pipeline.phases[0].run.tool":                                         `{"pipeline": {"name": "p", "phases": [` + phase + `]}}`,
		"do.pipeline.phases[0].pipelines.start[0].definition.phases[0].run.tool": `{"pipeline": {"name": "p", "phases": [{"name": "x", "pipelines": {"start": [{"definition": {"name": "q", "phases": [` + phase + `]}}]}}]}}`,
	} {
		r := a.do("PUT", "/v1/workers/w", `{"queue": "q", "do": `+do+`}`)
		assert.Equal(t, http.StatusBadRequest, r.status)
		assert.Contains(t, r.errorText(), at+`: "nope" is unknown`)
	}
}

func TestListsOfAnotherTenantAreRefusedByName(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "a", SHA256: httpapi.HashToken("secret"), Namespaces: []string{"ns"}, Tenants: []string{"alice"}}}
	}})
	for _, of := range []string{"actions", "queues", "pipelines", "tasks", "strategies", "workers", "locks", "semaphores"} {
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/"+of+"?tenant=alice", nil, bearer("secret")).status, of)
		for _, other := range []string{"tenant=bob", "namespace=other", "tenant="} {
			assert.Equal(t, http.StatusForbidden, a.do("GET", "/v1/"+of+"?"+other, nil, bearer("secret")).status, of)
		}
	}
}

// Which of two faults is told is part of the API: a client may rely on the status, and what a
// token may not know must not show.
func TestOfTwoFaultsTheStatusIsThatOfTheOneThatIsCheckedFirst(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "a", SHA256: httpapi.HashToken("secret"), Namespaces: []string{"ns"}, Tenants: []string{"alice"}, Tools: []string{"echo"}}}
	}})
	for request, c := range map[string]struct {
		body any
		want int
	}{
		"GET /v1/actions?tenant=bob&status=bogus":                 {nil, http.StatusBadRequest},
		"GET /v1/actions?tenant=bob&label=bogus":                  {nil, http.StatusForbidden},
		"GET /v1/pipelines?tenant=bob&status=bogus":               {nil, http.StatusForbidden},
		"GET /v1/recurring?tenant=bob":                            {nil, http.StatusBadRequest},
		"GET /v1/recurring?namespace=other":                       {nil, http.StatusBadRequest},
		"GET /v1/recurring?namespace=ns&tenant=bob&enabled=bogus": {nil, http.StatusForbidden},
		"POST /v1/pipelines":                                      {`{"id":"bogus","tenant":"bob","definition":{"name":"d","phases":[{"name":"p","run":{"tool":"hold"}}]}}`, http.StatusBadRequest},
		"POST /v1/tasks":                                          {`{"id":"bogus","tenant":"bob","command":["true"]}`, http.StatusBadRequest},
		"POST /v1/strategies":                                     {`{"id":"bogus","tenant":"bob","approaches":[]}`, http.StatusBadRequest},
		"POST /v1/locks/l/break":                                  {`{"bogus":1}`, http.StatusForbidden},
		"POST /v1/semaphores/s/break":                             {`{"bogus":1}`, http.StatusBadRequest},
		"PUT /v1/semaphores/s":                                    {`{}`, http.StatusForbidden},
		"POST /v1/queues/q/take?bogus=1":                          {`{}`, http.StatusBadRequest},
		"POST /v1/queues/q/take":                                  {`{"bogus":1}`, http.StatusForbidden},
		"PUT /v1/jobs/j?dry_run=bogus":                            {`{}`, http.StatusBadRequest},
		"PUT /v1/jobs/j":                                          {`{"bogus":1}`, http.StatusBadRequest},
		"POST /v1/jobs/j/trigger":                                 {`{"bogus":1}`, http.StatusForbidden},
		"POST /v1/workers/gone/wake":                              {`{"bogus":1}`, http.StatusNotFound},
	} {
		method, path, _ := strings.Cut(request, " ")
		r := a.do(method, path, c.body, bearer("secret"))
		assert.Equal(t, c.want, r.status, "%s: %s", request, r.errorText())
	}
}

func TestListsHaveOnlyWhatTheirParametersNameAlsoWhereOneOfTwoIsGiven(t *testing.T) {
	a := start(t, setup{})
	for _, of := range []struct{ namespace, tenant string }{{"n1", "t1"}, {"n1", "t2"}, {"n2", "t1"}} {
		at := "?namespace=" + of.namespace + "&tenant=" + of.tenant
		scope := fmt.Sprintf(`"namespace": %q, "tenant": %q`, of.namespace, of.tenant)
		for _, made := range []answer{
			a.do("PUT", "/v1/queues/q"+at, `{}`),
			a.do("PUT", "/v1/workers/w"+at, `{"queue": "q", "do": {"run": {"tool": "echo"}}}`),
			a.do("POST", "/v1/locks/l/acquire"+at, `{"holder": "h"}`),
			a.do("PUT", "/v1/semaphores/s"+at, `{"slots": 1}`),
			a.do("POST", "/v1/pipelines", `{`+scope+`, "definition": {"name": "p", "phases": [{"name": "x", "manual": {}}]}}`),
			a.do("POST", "/v1/tasks", `{`+scope+`}`),
			a.do("POST", "/v1/strategies", `{`+scope+`, "approaches": [{"name": "y", "action": {"command": {"tool": "echo"}}}]}`),
		} {
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, made.status, made.body)
		}
	}
	for _, of := range []string{"queues", "workers", "locks", "semaphores", "pipelines", "tasks", "strategies"} {
		for query, n := range map[string]int{"": 3, "?namespace=n1": 2, "?tenant=t1": 2, "?namespace=n2&tenant=t1": 1, "?namespace=n2&tenant=t2": 0, "?namespace=": 0} {
			list, ok := a.do("GET", "/v1/"+of+query, nil).object()[of].([]any)
			require.True(t, ok, of)
			assert.Len(t, list, n, "%s%s", of, query)
		}
	}
}

func TestAPageTokenOfItemsNamesAListThatThereIs(t *testing.T) {
	a := start(t, setup{})
	a.push(shell.PushOptions{})
	for _, token := range []string{"x", ".", "x.y", "completed.", "ready.x", "ready"} {
		assert.Equal(t, http.StatusBadRequest, a.do("GET", "/v1/queues/work/items?state=ready&page_token="+token, nil).status, token)
	}
}

func TestWhatIsPendingIsReadyWaitingOrDelayedAndWhatIsPausedIsListedWithinATenant(t *testing.T) {
	a := start(t, setup{})
	a.push(shell.PushOptions{})
	a.push(shell.PushOptions{Delay: time.Hour})
	a.push(shell.PushOptions{Key: "k"})
	a.push(shell.PushOptions{Key: "k"})
	for state, n := range map[string]int{"pending": 4, "ready": 2, "waiting": 1, "delayed": 1, "processing": 0} {
		assert.Len(t, a.do("GET", "/v1/queues/work/items?state="+state, nil).object()["items"], n, state)
	}
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/other", `{}`).status)
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/queues/other/pause", nil).status)
	for query, n := range map[string]int{"paused=true": 1, "paused=false": 1, "paused=true&namespace=default&tenant=default": 1, "namespace=default&tenant=default": 2} {
		assert.Len(t, a.do("GET", "/v1/queues?"+query, nil).object()["queues"], n, query)
	}
}

func TestMachinesOfAnotherTenantOrOfNoToolDoNotExistForAToken(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		token := func(name, tenant string, tools ...string) httpapi.Token {
			return httpapi.Token{Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"ns"}, Tenants: []string{tenant}, Tools: tools}
		}
		o.Tokens = []httpapi.Token{token("ann", "t1"), token("ben", "t2"), token("echo-only", "t1", "echo")}
		o.Tokens[0].Sessions = true
	}})
	for of, body := range map[string]string{
		"pipelines":  `{"definition": {"name": "p", "phases": [{"name": "x", "run": {"tool": "hold"}}]}}`,
		"tasks":      `{}`,
		"strategies": `{"approaches": [{"name": "y", "action": {"command": {"tool": "hold"}}}]}`,
	} {
		made := a.do("POST", "/v1/"+of, body, bearer("ann"))
		require.Equal(t, http.StatusCreated, made.status, made.body)
		at := made.header.Get("Location")
		for _, stranger := range []string{"ben", "echo-only"} {
			assert.Equal(t, http.StatusNotFound, a.do("GET", at, nil, bearer(stranger)).status, "%s %s", stranger, of)
			assert.Equal(t, http.StatusNotFound, a.do("POST", at+"/cancel", nil, bearer(stranger)).status, "%s %s", stranger, of)
			assert.Empty(t, a.do("GET", "/v1/"+of, nil, bearer(stranger)).object()[of], "%s %s", stranger, of)
		}
		assert.Len(t, a.do("GET", "/v1/"+of, nil, bearer("ann")).object()[of], 1)
		again := fmt.Sprintf(`{"id": %q, "definition": {"name": "p", "phases": [{"name": "x", "manual": {}}]}}`, made.str("id"))
		assert.Equal(t, http.StatusConflict, a.do("POST", "/v1/pipelines", again, bearer("ann")).status, "an id is one machine's, whatever its kind")
		assert.Equal(t, http.StatusOK, a.do("POST", at+"/cancel", nil, bearer("ann")).status, of)
	}
}

func TestAStreamThatHasEndedMakesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, start(t, setup{}))
		var last net.Conn
		for range 64 {
			last, _ = p.follow(t)
		}
		for range 3 { // who was refused takes no room
			_, status := p.follow(t)
			assert.Contains(t, status, "429")
		}
		require.NoError(t, last.Close())
		synctest.Wait()
		_, status := p.follow(t)
		assert.Contains(t, status, "200")
	})
}

func TestWhoApprovesUnderAnotherNameIsNamedByTheTokenToo(t *testing.T) {
	for body, want := range map[string]string{`"by":"ann",`: "ann (token ci)", `"by":"ci",`: "ci", "": "ci"} {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "ci", SHA256: httpapi.HashToken("s")}}
		}})
		as := bearer("s")
		id := a.do("POST", "/v1/pipelines", `{"definition":{"name":"p","phases":[{"name":"a","approval":{"message":"sure?"}}]}}`, as).str("id")
		require.Eventually(t, func() bool {
			return a.do("POST", "/v1/pipelines/"+id+"/approve", `{`+body+`"phase":"a","approved":true}`, as).status == 200
		}, time.Minute, 10*time.Millisecond, "it waits for that soon")
		assert.Contains(t, a.do("GET", "/v1/pipelines/"+id, nil, as).body, `"a":{"by":"`+want+`"`)
	}
}
