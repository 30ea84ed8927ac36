package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// auditedDivided starts two processes with a log of requests each, and tokens of which one is bound to a tenant of partition 1.
func auditedDivided(t *testing.T) (*api, []*audit.Log) {
	t.Helper()
	var logs []*audit.Log
	for i := range 2 {
		log, err := audit.Open(audit.Options{Dir: filepath.Join(t.TempDir(), fmt.Sprint("log", i))})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, log.Close()) })
		logs = append(logs, log)
	}
	a := start(t, setup{partitions: 3, logs: logs, api: func(o *httpapi.Options) {
		withPageKey(o)
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
			{Name: "ann", SHA256: httpapi.HashToken("ann"), Namespaces: []string{"ns"}, Tenants: []string{tenantIn(1, 0)}},
		}
	}})
	a.header = http.Header{"Authorization": {"Bearer root"}}
	return a, logs
}

// auditPages reads the list to its end.
func (a *api) auditPages(query string, limit int) (lines []string) {
	a.t.Helper()
	for token, pages := "", 0; ; pages++ {
		require.Less(a.t, pages, 100)
		got := a.do("GET", fmt.Sprintf("/v1/audit?limit=%d&page_token=%s&%s", limit, url.QueryEscape(token), query), nil)
		require.Equal(a.t, http.StatusOK, got.status, got.body)
		var list wire.AuditList
		require.NoError(a.t, json.Unmarshal([]byte(got.body), &list))
		assert.LessOrEqual(a.t, len(list.Entries), limit)
		assert.Empty(a.t, list.Unanswered)
		for _, e := range list.Entries {
			lines = append(lines, fmt.Sprint(e.Instance, " ", e.Seq, " ", e.Path))
		}
		if token = list.NextPageToken; token == "" {
			return lines
		}
	}
}

func TestTheLogsOfAllProcessesAreOneList(t *testing.T) {
	a, logs := auditedDivided(t)
	put := func(p, n int) {
		got := a.do("PUT", fmt.Sprintf("/v1/queues/q%d?namespace=ns&tenant=%s", n, tenantIn(p, 0)), `{}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
	}
	for n := range 8 { // by each of the two processes
		put(n%2, n)
		put((n+1)%2, n+100)
	}
	for range 5 {
		put(1, 200) // more of one than fit a page
	}
	var want []audit.Entry
	for i, log := range logs {
		page, err := log.Read(t.Context(), audit.Query{Limit: 1000})
		require.NoError(t, err)
		for _, e := range page.Entries {
			e.Instance = []string{"mine", "other"}[i]
			want = append(want, e)
		}
	}
	require.Len(t, want, 21)
	slices.SortStableFunc(want, func(x, y audit.Entry) int { return -int(int64(x.Seq) - int64(y.Seq)) }) // those of "mine" come first
	var lines []string
	for _, e := range want {
		lines = append(lines, fmt.Sprint(e.Instance, " ", e.Seq, " ", e.Path))
	}
	for _, limit := range []int{1, 2, 7, 21, 100} {
		assert.Equal(t, lines, a.auditPages("", limit), "%d at a time", limit)
	}
	for _, name := range []string{"mine", "other"} {
		own := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l[:4] != name[:4] })
		assert.Equal(t, own, a.auditPages("instance="+name, 3))
	}
	got := a.do("GET", "/v1/audit?instance=third", nil)
	assert.Equal(t, http.StatusBadRequest, got.status)
	assert.Equal(t, `instance: there is none of the name "third" that is alive: use one of mine, other`, got.errorText())
	for _, wrong := range []string{"page_token=x", "limit=0", "status=some", "nope=1"} {
		assert.Equal(t, http.StatusBadRequest, a.do("GET", "/v1/audit?"+wrong, nil).status, wrong)
	}
}

func TestATokenSeesOfAllLogsWhatItWouldSeeOfOne(t *testing.T) {
	a, _ := auditedDivided(t)
	for p := range 2 {
		require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/q?namespace=ns&tenant="+tenantIn(p, 0), `{}`).status)
	}
	var list wire.AuditList
	got := a.do("GET", "/v1/audit", nil, bearer("ann"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NoError(t, json.Unmarshal([]byte(got.body), &list))
	require.Len(t, list.Entries, 1)
	assert.Equal(t, "other", list.Entries[0].Instance)
	assert.Equal(t, tenantIn(1, 0), list.Entries[0].Tenant)
	assert.Empty(t, list.Entries[0].Address)
}

func TestAProcessThatDoesNotGiveItsLogIsNamed(t *testing.T) {
	a, _ := auditedDivided(t)
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/q?namespace=ns&tenant="+tenantIn(0, 0), `{}`).status)
	o := a.routerOptions
	silent := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	o.Instances = func(context.Context) (map[string]http.Handler, error) {
		return map[string]http.Handler{"gone": silent}, nil
	}
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	got := a.do("GET", "/v1/audit", nil)
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.Contains(t, got.body, `"unanswered":[{"instance":"gone","error":"instance: gone does not answer"}]`)
	assert.Contains(t, got.body, `"instance":"mine"`)
	got = a.do("GET", "/v1/audit?instance=gone", nil)
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Equal(t, "instance: gone does not answer", got.errorText())

	o.Instances = func(context.Context) (map[string]http.Handler, error) { return nil, assert.AnError }
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	got = a.do("GET", "/v1/audit", nil)
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Equal(t, "instances: the database does not tell which processes there are", got.errorText())

	o.Instances = nil
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	got = a.do("GET", "/v1/audit", nil)
	assert.Equal(t, http.StatusNotImplemented, got.status)
	assert.Contains(t, got.errorText(), "?instance=mine")
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/audit?instance=mine", nil).status)
	o.Name, o.Instances = "", func(context.Context) (map[string]http.Handler, error) { return nil, nil }
	_, err = httpapi.NewRouter(o)
	assert.ErrorContains(t, err, "RouterOptions.Name is empty, and Instances is given")
}
