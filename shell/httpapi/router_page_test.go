package httpapi_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

func withPageKey(o *httpapi.Options) {
	o.PageKey = func(context.Context) ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }
	o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true}}
}

// ofBrowser is a request of a browser on this machine.
func ofBrowser(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	return r
}

func TestTheSessionOfAVisitorIsGoodWithAllProcesses(t *testing.T) {
	a := divided(t, withPageKey)
	a.header = http.Header{"Authorization": {"Bearer root-secret"}}
	var ids []string
	for p := range 3 {
		ids = append(ids, a.madeLater(tenantIn(p, 0)).String())
	}
	sealed, err := a.processes[0].router.API().SignIn(ofBrowser(t, "POST", "/", ""), "root-secret")
	require.NoError(t, err)
	for _, of := range a.processes {
		api := of.router.API()
		v, err := api.Visitor(ofBrowser(t, "GET", "/", ""), sealed)
		require.NoError(t, err)
		assert.Equal(t, "root", v.Name())
		w := httptest.NewRecorder()
		api.Serve(w, ofBrowser(t, "GET", "/v1/actions", ""), v)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		for _, id := range ids {
			assert.Contains(t, w.Body.String(), id)
			one := httptest.NewRecorder()
			api.Serve(one, ofBrowser(t, "GET", "/v1/actions/"+id, ""), v)
			assert.Equal(t, http.StatusOK, one.Code, one.Body)
		}
	}
	got := a.do("GET", "/v1/actions", nil, func(r *http.Request) { r.Header = http.Header{"Orrery-Session": {sealed[1:]}} })
	assert.Equal(t, http.StatusUnauthorized, got.status, "one that was not given out")
	_, err = a.router.SetTokens([]httpapi.Token{{Name: "next", SHA256: httpapi.HashToken("next-secret"), Admin: true}})
	require.NoError(t, err)
	got = a.do("GET", "/v1/actions", nil, func(r *http.Request) { r.Header = http.Header{"Orrery-Session": {sealed}} })
	assert.Equal(t, http.StatusUnauthorized, got.status, "its token has ended")
}

func TestThePageShowsThePartitionsOfAllProcesses(t *testing.T) {
	a := divided(t, func(o *httpapi.Options) {})
	var ids []string
	for p := range 3 {
		ids = append(ids, a.madeLater(tenantIn(p, 0)).String())
	}
	pages, err := page.New(page.Options{API: a.router.API()})
	require.NoError(t, err)
	get := func(target string) string {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, ofBrowser(t, "GET", target, ""))
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", target, w.Body)
		return w.Body.String()
	}
	list := get("/ui/actions")
	for p, id := range ids {
		assert.Contains(t, list, "/ui/actions/"+id)
		assert.Contains(t, get("/ui/actions/"+id), tenantIn(p, 0))
	}
	for _, target := range []string{"/ui/", "/ui/schedules", "/ui/queues", "/ui/pipelines", "/ui/system", "/ui/events"} {
		get(target)
	}
}

func TestAPageIsToldOfChangesInThePartitionsOfItsProcess(t *testing.T) {
	a := divided(t, func(o *httpapi.Options) {})
	api := a.router.API()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := api.Visitor(r, "")
		if assert.NoError(t, err) {
			assert.NoError(t, api.StreamChanges(w, r, v))
		}
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	buf := make([]byte, 4096)
	n, err := resp.Body.Read(buf)
	require.NoError(t, err)
	assert.Contains(t, string(buf[:n]), "retry: 2000")
	a.madeLater(tenantIn(2, 0))
	n, err = resp.Body.Read(buf)
	require.NoError(t, err)
	assert.Contains(t, string(buf[:n]), "event: changed")
	cancel()
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
