package httpapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt"
)

// What a process that dies after the commit leaves behind is what stands in its files then: they are copied while it works, and opened by
// another one. It gives the answers that the first one gave, with their headers, byte for byte.
func TestAProcessAfterACrashAnswersAsTheOneBefore(t *testing.T) {
	dir, left := t.TempDir(), t.TempDir()
	st, err := bolt.Open(filepath.Join(dir, "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	a := start(t, setup{store: st, api: withJobs})
	requests := []struct {
		method, target, body string
		opts                 []func(*http.Request)
	}{
		{"POST", "/v1/actions", `{"tool_name":"echo","tool_input":{"a":  "<b>&"},` + later + `}`, nil},
		{"PUT", "/v1/jobs/j", `{"schedule":"@daily","pod_spec":{"containers":[{"name":"main","image":"x"}]}}`, []func(*http.Request){with("If-None-Match", "*")}},
		{"POST", "/v1/jobs/j/trigger", `{}`, nil},
		{"PUT", "/v1/queues/q", `{"concurrency":7}`, nil},
		{"POST", "/v1/queues/q/items", `{"data":{"b": [1,  2.50]}}`, nil},
		{"POST", "/v1/queues/q/take", `{"holder":"h"}`, nil},
		{"POST", "/v1/sets/s", `{"entries":[{"file":"a.toml","recurring":{"namespace":"ns","tenant":"t","name":"r","cron_expr":"@daily","provider":"echo","payload":{"v":"<b>"}}}]}`, nil},
		{"POST", "/v1/recurring", `{"namespace":"ns","tenant":"t","name":"other","cron_expr":"@daily","provider":"echo","action_type":"x","payload":{}}`, nil},
		{"PUT", "/v1/recurring/other?namespace=ns&tenant=t", `{"name":"renamed"}`, nil},
		{"DELETE", "/v1/recurring/renamed?namespace=ns&tenant=t", ``, nil},
	}
	send := func(a *api, n int) answer {
		r := requests[n]
		var body any
		if r.body != "" {
			body = r.body
		}
		return a.do(r.method, r.target, body, append(r.opts, key(string(rune('a'+n))))...)
	}
	firsts := make([]answer, len(requests))
	for n := range requests {
		firsts[n] = send(a, n)
		require.Less(t, firsts[n].status, 300, firsts[n].body)
	}
	require.NoError(t, os.CopyFS(left, os.DirFS(dir)))

	after, err := bolt.Open(filepath.Join(left, "orrery.db"), bolt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, after.Close()) })
	b := start(t, setup{store: after, api: withJobs})
	for n, first := range firsts {
		again := send(b, n)
		assert.Equal(t, first.status, again.status, again.body)
		assert.Equal(t, first.body, again.body)
		for _, h := range []string{"Location", "Etag", "Content-Type", "Retry-After"} {
			assert.Equal(t, first.header.Get(h), again.header.Get(h), "%s %s: %s", requests[n].method, requests[n].target, h)
		}
		assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"), requests[n].target)
	}
}
