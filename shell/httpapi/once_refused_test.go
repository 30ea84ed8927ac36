package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// What a request has made itself is no reason to refuse it when it comes again.
func TestWhatItHasMadeItselfRefusesNoRequestThatComesAgain(t *testing.T) {
	a := start(t, tenantOf(httpapi.TenantLimits{LiveActions: 3}))
	a.header.Set("Authorization", "Bearer a-secret")
	require.Eventually(t, func() bool { return a.engine.UsageState().Counted }, time.Minute, time.Millisecond)
	id := uuid.NewString()
	one := `{"id":"` + id + `","tool_name":"echo",` + later + `}`
	send := func(k, target, body string) answer {
		first := a.do("POST", target, body, key(k))
		require.Less(t, first.status, 300, first.body)
		again := a.do("POST", target, body, key(k))
		assert.Equal(t, first.status, again.status, again.body)
		assert.Equal(t, first.body, again.body)
		assert.Equal(t, first.header.Get("Retry-After"), again.header.Get("Retry-After"))
		assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		return first
	}
	send("a", "/v1/actions", one)
	// Of four entries one is there already, and one is beyond the limit: and stays so, though there is room again.
	const target = "/v1/actions/batch"
	many := `{"mode":"each","actions":[` + one + `,{"tool_name":"echo",` + later + `},{"tool_name":"echo",` + later + `},{"tool_name":"echo",` + later + `}]}`
	got := send("b", target, many)
	assert.Equal(t, []int{409, 201, 201, 429}, statuses(got.results()))
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/"+id+"/cancel", nil).status)
	again := a.do("POST", target, many, key("b"))
	assert.Equal(t, got.body, again.body)
	assert.Equal(t, "60", again.header.Get("Retry-After"))
	assert.Len(t, a.labels("a"), 3)

	assert.Equal(t, http.StatusTooManyRequests, a.do("POST", "/v1/actions/batch", `{"actions":[{"tool_name":"echo",`+later+`},{"tool_name":"echo",`+later+`}]}`, key("c")).status, "what is refused under a key of its own is refused")
	assert.Equal(t, http.StatusConflict, a.do("POST", "/v1/actions", one, key("d")).status)
	assert.Equal(t, http.StatusConflict, a.do("POST", "/v1/actions", one).status)
}

func TestABatchOfItemsIsAnsweredAsTheFirstTime(t *testing.T) {
	a := start(t, setup{})
	body := `{"mode":"each","items":[{"data":1,"dedup_key":"d"},{"data":2,"delay_ms":-1},{"data":3},{"data":4,"dedup_key":"d"},{"data":5,"nonsense":1}]}`
	first := a.do("POST", "/v1/queues/q/items/batch", body, key("k"))
	assert.Equal(t, []int{201, 400, 201, 200, 400}, statuses(first.results()))
	again := a.do("POST", "/v1/queues/q/items/batch", body, key("k"))
	assert.Equal(t, first.body, again.body)
	assert.Len(t, a.do("GET", "/v1/queues/q/items", nil).object()["items"], 2)
}

// Two applies of the same set at once are planned alike, and with other ids: one of the plans is carried out.
func TestASetThatIsAppliedTwiceAtOnceUnderAKeyIsAnsweredAlike(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true}}
	}})
	body := `{"entries":[{"file":"a.toml","recurring":{"namespace":"ns","tenant":"t","name":"r","cron_expr":"0 9 * * *","provider":"echo","payload":{"v":"<b> & c"}}}]}`
	var all sync.WaitGroup
	bodies := make([]string, 8)
	for i := range bodies {
		all.Go(func() { bodies[i] = a.do("POST", "/v1/sets/ours", body, bearer("root"), key("k")).body })
	}
	all.Wait()
	for _, b := range bodies[1:] {
		assert.Equal(t, bodies[0], b)
	}
	assert.Contains(t, bodies[0], `"action":"create"`)

	// What others have changed since is not changed back.
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/recurring/r?namespace=ns&tenant=t", `{"timezone":"Europe/Berlin"}`, bearer("root"), with("Orrery-Take-Over", "true")).status)
	assert.Equal(t, bodies[0], a.do("POST", "/v1/sets/ours", body, bearer("root"), key("k")).body)
	assert.Contains(t, a.do("GET", "/v1/recurring/r?namespace=ns&tenant=t", nil, bearer("root")).body, "Europe/Berlin")
	metrics := a.do("GET", "/metrics", nil, bearer("root")).body
	assert.Contains(t, metrics, `orrery_requests_repeated_total 8`)
	assert.Contains(t, metrics, `orrery_set_changes_total{action="create"} 1`)
}

func TestARequestThatComesAgainFindsWhatItHasRenamedOrRemoved(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true}, {Name: "t", SHA256: httpapi.HashToken("t"), Namespaces: []string{"n"}, Tenants: []string{"t"}}}
	}})
	const make = `{"namespace":"n","tenant":"t","name":"old","cron_expr":"@daily","provider":"echo","action_type":"x","payload":{}}`
	made := a.do("POST", "/v1/recurring", make, bearer("t"))
	require.Less(t, made.status, 300, made.body)
	const at = "/v1/recurring/old?namespace=n&tenant=t"
	first := a.do("PUT", at, `{"name":"new"}`, bearer("t"), key("k"))
	require.Equal(t, http.StatusOK, first.status, first.body)
	assert.Equal(t, first.body, a.do("PUT", at, `{"name":"new"}`, bearer("t"), key("k")).body)
	assert.Equal(t, http.StatusNotFound, a.do("PUT", at, `{"name":"newer"}`, bearer("t"), key("k")).status, "another request under the key finds nothing")
	assert.Equal(t, http.StatusNotFound, a.do("PUT", at, `{"name":"new"}`, bearer("root"), key("k")).status, "nor does another token's")

	// One that has the old name now stays as it is.
	require.Less(t, a.do("POST", "/v1/recurring", make, bearer("t")).status, 300)
	assert.Equal(t, first.body, a.do("PUT", at, `{"name":"new"}`, bearer("t"), key("k")).body)
	assert.Contains(t, a.do("GET", at, nil, bearer("t")).body, `"name":"old"`)

	// A deletion may have a body.
	for range 2 {
		assert.Less(t, a.do("DELETE", at, `{}`, bearer("t"), key("d")).status, 300)
	}
	assert.Equal(t, http.StatusNotFound, a.do("DELETE", at, `{ }`, bearer("t"), key("d")).status)
}

// Who retries an action once makes a new one, and whoever does it after him is given that.
func TestAnActionThatIsRetriedOnceIsMadeByTheSameRequestAgain(t *testing.T) {
	a := start(t, setup{})
	old := a.do("POST", "/v1/actions", `{"tool_name":"fail"}`).str("id")
	a.ended(old)
	retry := func(k string) answer {
		return a.do("POST", "/v1/actions/"+old+"/retry", `{"once":true}`, key(k))
	}
	first, again, other := retry("k"), retry("k"), retry("l")
	require.Equal(t, http.StatusCreated, first.status, first.body)
	assert.Equal(t, http.StatusCreated, again.status)
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
	assert.Equal(t, http.StatusOK, other.status)
	assert.Equal(t, first.str("id"), other.str("id"))
}

// Whichever of them is carried out, and whatever the others see of it meanwhile.
func TestAllWhoSendTheSameRequestAtOnceAreAnsweredAlike(t *testing.T) {
	a := start(t, setup{api: withJobs})
	old := a.do("POST", "/v1/actions", `{"tool_name":"fail"}`).str("id")
	a.ended(old)
	for _, r := range []struct{ method, target, body string }{
		{"POST", "/v1/actions", `{"id":"` + uuid.NewString() + `","tool_name":"echo",` + later + `}`},
		{"POST", "/v1/actions/" + old + "/retry", `{"once":true}`},
		{"POST", "/v1/actions/batch", `{"actions":[{"id":"` + uuid.NewString() + `","tool_name":"echo",` + later + `},{"tool_name":"echo",` + later + `}]}`},
		{"PUT", "/v1/jobs/j", `{"schedule":"@daily","pod_spec":{"containers":[{"name":"main","image":"x"}]}}`},
		{"PUT", "/v1/queues/q", `{"concurrency":7}`},
		{"POST", "/v1/queues/q/items", `{"data":1,"dedup_key":"d"}`},
		{"POST", "/v1/queues/q/take", `{"holder":"h"}`},
		{"POST", "/v1/sets/s", `{"entries":[{"file":"a.toml","recurring":{"namespace":"ns","tenant":"t","name":"r","cron_expr":"@daily","provider":"echo","payload":{}}}]}`},
		{"PUT", "/v1/recurring/r?namespace=ns&tenant=t", `{"description":"d"}`},
		{"DELETE", "/v1/jobs/j", ``},
	} {
		var body any
		if r.body != "" {
			body = r.body
		}
		opts := []func(*http.Request){key(r.method + r.target)}
		if r.method == http.MethodPut && r.target[:5] == "/v1/r" {
			opts = append(opts, with("Orrery-Take-Over", "true"))
		}
		got := make([]answer, 12)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = a.do(r.method, r.target, body, opts...) })
		}
		all.Wait()
		require.Less(t, got[0].status, 300, "%s: %s", r.target, got[0].body)
		first := 0
		for _, g := range got {
			assert.Equal(t, got[0].status, g.status, "%s: %s", r.target, g.body)
			assert.Equal(t, got[0].body, g.body, r.target)
			assert.Equal(t, got[0].header.Get("Location"), g.header.Get("Location"), r.target)
			if g.header.Get("Idempotency-Replayed") == "" {
				first++
			}
		}
		assert.Equal(t, 1, first, "%s: one was not answered as before", r.target)
	}
}

func TestAConditionIsAPartOfTheRequestThatAKeyIsFor(t *testing.T) {
	a := start(t, setup{})
	put := func(opts ...func(*http.Request)) answer {
		return a.do("PUT", "/v1/queues/q", `{"concurrency":7}`, append(opts, key("k"))...)
	}
	first := put()
	require.Equal(t, http.StatusOK, first.status, first.body)
	for header, value := range map[string]string{"If-Match": "*", "If-None-Match": "*", "Orrery-Take-Over": "true"} {
		got := put(with(header, value))
		assert.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", header, got.body)
	}
	assert.Equal(t, first.body, put().body)
	assert.Equal(t, first.body, put(with("Accept", "text/plain"), with("X-Request-Id", "x")).body, "other headers are not")
	assert.Equal(t, http.StatusUnprocessableEntity, a.do("PUT", "/v1/queues/q", `{"concurrency": 7}`, key("k")).status, "the bytes count, not what they mean")
	assert.Equal(t, http.StatusUnprocessableEntity, a.do("DELETE", "/v1/queues/q", nil, key("k")).status)

	chunked := func(r *http.Request) {
		r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(""))
		r.Header.Set("Content-Type", "application/json")
	}
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/queues/q/pause", nil, key("p")).status)
	assert.Equal(t, http.StatusOK, a.do("POST", "/v1/queues/q/pause", nil, key("p"), chunked).status, "a body that is empty is none, as a proxy may send it")

	// A condition that held the first time is not asked again.
	made := a.do("PUT", "/v1/queues/new", `{}`, with("If-None-Match", "*"), key("n"))
	require.Equal(t, http.StatusOK, made.status, made.body)
	assert.Equal(t, made.body, a.do("PUT", "/v1/queues/new", `{}`, with("If-None-Match", "*"), key("n")).body)
	edit := func(k string) answer {
		return a.do("PUT", "/v1/queues/new", `{"concurrency":1}`, with("If-Match", made.header.Get("Etag")), key(k))
	}
	require.Equal(t, http.StatusOK, edit("e").status)
	assert.Equal(t, http.StatusOK, edit("e").status)
	assert.Equal(t, http.StatusPreconditionFailed, edit("f").status)
}
