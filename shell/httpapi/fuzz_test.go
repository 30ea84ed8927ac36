package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store/memory"
)

// fuzzedAPI is a server over an engine with one tool, for as long as the target runs.
func fuzzedAPI(f *testing.F) http.Handler {
	f.Helper()
	st := memory.New()
	log := slog.New(slog.DiscardHandler)
	engine, err := shell.New(shell.Options{Store: st, Logger: log, Tools: map[string]shell.Tool{
		"echo": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { return c.Input, nil }),
	}})
	require.NoError(f, err)
	server, err := httpapi.New(httpapi.Options{Engine: engine, Logger: log, RequestTimeout: time.Second})
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		assert.NoError(f, <-done)
		assert.NoError(f, st.Close())
	})
	return server.Handler()
}

// Whatever is sent to whichever operation: the answer is not that the server is at
// fault, it is described, and it costs a bounded amount of time and memory.
func FuzzAnyRequestIsAnswered(f *testing.F) {
	h := fuzzedAPI(f)
	operations := slices.Sorted(maps.Keys(described()))
	for n, op := range operations {
		f.Add(uint8(n), "a", "", []byte(`{}`))
		if strings.HasPrefix(op, "GET") {
			f.Add(uint8(n), "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10", "limit=2&page_token=AAAA", []byte(nil))
		}
	}
	f.Add(uint8(slices.Index(operations, "POST /v1/actions")), "", "", []byte(`{"tool_name":"echo","tool_input":{"a":[1]},"recurrence":{"cron":"* * * * *"},"labels":{"a":"b"}}`))
	f.Add(uint8(slices.Index(operations, "POST /v1/pipelines")), "", "", []byte(`{"definition":{"name":"p","phases":[{"name":"a","run":{"tool":"echo","input":"${b.c}"}}]},"context":{"b":{"c":1}}}`))
	f.Add(uint8(slices.Index(operations, "PUT /v1/queues/{name}")), "q", "", []byte(`{"retry":{"no_retry":["(a+)+$"]},"rate":{"limit":1,"per_ms":1}}`))
	f.Add(uint8(slices.Index(operations, "POST /v1/recurring")), "", "namespace=n&tenant=t", []byte(`{"cron_expr":"0 9 * * MON#2","provider":"echo","action_type":"a","timezone":"Europe/Berlin"}`))
	f.Add(uint8(slices.Index(operations, "POST /v1/strategies")), "", "", []byte(`{"name":"s","approaches":[{"name":"a","action":{"command":{"argv":["x"]}},"fallback_on":{"pattern":"a?"}}]}`))
	f.Fuzz(func(t *testing.T, n uint8, id, query string, body []byte) {
		defer boundtest.Within(t, len(id)+len(query)+len(body))()
		method, path, _ := strings.Cut(operations[int(n)%len(operations)], " ")
		for _, parameter := range []string{"{id}", "{name}", "{route}", "{phase}"} {
			path = strings.ReplaceAll(path, parameter, url.PathEscape(id))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a stream ends with its caller
		defer cancel()
		req := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:7460/", bytes.NewReader(body))
		u, err := url.Parse(path)
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawPath, req.URL.RawQuery = u.Path, u.RawPath, query
		req.Host, req.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
		if len(body) > 0 {
			req.Header.Set("Content-Type", "application/json")
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if rec.Code == http.StatusMovedPermanently || rec.Code == http.StatusTemporaryRedirect {
			return // net/http cleans paths
		}
		require.NotEqual(t, http.StatusInternalServerError, rec.Code, "%s %s?%s: %s", method, path, query, rec.Body)
		checkDescribed(t, req, rec.Code)
	})
}
