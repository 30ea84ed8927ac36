package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Whoever plays the stories does not see that there are three partitions.
func TestStoriesOverThreePartitions(t *testing.T) { playStories(t, false, 3) }

func TestStoriesWhoseRequestsAreSentTwiceOverThreePartitions(t *testing.T) { playStories(t, true, 3) }

// Rights are the same over three partitions.
func TestEveryOperationOverThreePartitionsAnswersEachKindOfTokenAsTheTableSays(t *testing.T) {
	sweepAll(t, 3, map[string]bool{ // a backup that names no partition is answered with what to do instead
		"backup": true,
	})
}

// tenantIn gives a tenant of the namespace "ns" that lives in a partition, the n-th one.
func tenantIn(partition, n int) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("t%d", i)
		if core.Partition(shell.Scope{Namespace: "ns", Tenant: name}, 3) != partition {
			continue
		}
		if n--; n < 0 {
			return name
		}
	}
}

// dueLate is the body of an action of a tenant that is not due for long.
func dueLate(tenant string, id uuid.UUID) string {
	return fmt.Sprintf(`{"id":%q,"namespace":"ns","tenant":%q,"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`, id, tenant)
}

// madeLater makes such an action.
func (a *api) madeLater(tenant string) uuid.UUID {
	a.t.Helper()
	id := uuid.New()
	got := a.do("POST", "/v1/actions", dueLate(tenant, id))
	require.Equal(a.t, http.StatusCreated, got.status, got.body)
	return id
}

// idsOf reads the ids of a list.
func idsOf(t *testing.T, list answer, field string) (ids []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, list.status, list.body)
	elements, ok := list.object()[field].([]any)
	require.True(t, ok, list.body)
	for _, e := range elements {
		of, ok := e.(map[string]any)
		require.True(t, ok)
		id, ok := of["id"].(string)
		require.True(t, ok)
		ids = append(ids, id)
	}
	return ids
}

// allPages reads a list to its end.
func (a *api) allPages(target string, limit int, opts ...func(*http.Request)) (ids []string, pages int) {
	a.t.Helper()
	token := ""
	for {
		got := a.do("GET", fmt.Sprintf("%s&limit=%d&page_token=%s", target, limit, url.QueryEscape(token)), nil, opts...)
		page := idsOf(a.t, got, "actions")
		assert.LessOrEqual(a.t, len(page), limit)
		ids, pages = append(ids, page...), pages+1
		if token, _ = got.object()["next_page_token"].(string); token == "" {
			return ids, pages
		}
		require.Less(a.t, pages, 1000)
	}
}

// A list over three partitions is, page by page, that of one engine that has all.
func TestAMergedListIsThatOfOneEngineThatHasAll(t *testing.T) {
	few := []string{"t0", "t1", "t2", "t3", "t4"}
	tokens := []httpapi.Token{
		{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true},
		{Name: "few", SHA256: httpapi.HashToken("few-secret"), Namespaces: []string{"ns"}, Tenants: few},
	}
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 1))
		worlds := map[*api]*clock{}
		var one, three *api
		for _, partitions := range []int{1, 3} {
			c := newClock()
			a := start(t, setup{
				partitions: partitions,
				engine:     func(o *shell.Options) { o.Clock = c },
				api: func(o *httpapi.Options) {
					o.Clock, o.Tokens, o.MaxListsPerToken = c, tokens, 1
				},
			})
			a.header = http.Header{"Authorization": {"Bearer root-secret"}}
			worlds[a] = c
			if three = a; partitions == 1 {
				one = a
			}
		}
		for range 60 {
			var id uuid.UUID
			for i := range id {
				id[i] = byte(random.Uint32())
			}
			id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
			by := []time.Duration{0, 0, time.Millisecond, time.Second}[random.IntN(4)]
			body := dueLate(fmt.Sprintf("t%d", random.IntN(9)), id)
			for a, c := range worlds { // order-free: they know nothing of each other
				c.advance(by)
				got := a.do("POST", "/v1/actions", body)
				require.Equal(t, http.StatusCreated, got.status, got.body)
			}
		}
		for _, target := range []string{"/v1/actions?order=newest", "/v1/actions?order=oldest", "/v1/actions?tool=echo", "/v1/actions?namespace=ns", "/v1/actions?status=failed"} {
			for _, bearerToken := range []string{"root-secret", "few-secret"} {
				want, _ := one.allPages(target, 1000, bearer(bearerToken))
				for _, limit := range []int{1, 7, 50} {
					got, pages := three.allPages(target, limit, bearer(bearerToken))
					assert.Equal(t, want, got, "seed %d: %s, %d at a time, by %s", seed, target, limit, bearerToken)
					assert.LessOrEqual(t, pages, len(want)/limit+1, "seed %d: %s: pages are full", seed, target)
				}
			}
		}
		three.stop()
		one.stop()
	}
}

func divided(t *testing.T, change func(*httpapi.Options)) *api {
	t.Helper()
	return start(t, setup{partitions: 3, api: change})
}

func TestAPageTokenOfSeveralPartitionsIsGoodForItsListAlone(t *testing.T) {
	a := divided(t, func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true}, {Name: "other", SHA256: httpapi.HashToken("other-secret"), Admin: true}}
	})
	a.header = http.Header{"Authorization": {"Bearer root-secret"}}
	for p := range 3 {
		for range 4 {
			a.madeLater(tenantIn(p, 0))
		}
	}
	token := a.do("GET", "/v1/actions?limit=5", nil).str("next_page_token")
	form, text, ok := strings.Cut(token, ".")
	require.True(t, ok)
	require.Equal(t, "m1", form)
	parts := strings.Split(text, ".")
	require.Len(t, parts, 3)
	with := func(change func(p []string) []string) string {
		return form + "." + strings.Join(change(append([]string{}, parts...)), ".")
	}
	ask := func(target, token string, opts ...func(*http.Request)) answer {
		return a.do("GET", target+"limit=5&page_token="+url.QueryEscape(token), nil, opts...)
	}
	require.Equal(t, http.StatusOK, ask("/v1/actions?", token).status)
	longest := 0 // a partition of which the page had nothing has a short part
	for i, p := range parts {
		if len(p) > len(parts[longest]) {
			longest = i
		}
	}
	flipped := func(s string) string {
		if s[20] == 'A' {
			return s[:20] + "B" + s[21:]
		}
		return s[:20] + "A" + s[21:]
	}
	for what, got := range map[string]answer{
		"another list":     ask("/v1/pipelines?", token),
		"other filters":    ask("/v1/actions?tool=echo&", token),
		"another token":    ask("/v1/actions?", token, bearer("other-secret")),
		"a changed part":   ask("/v1/actions?", with(func(p []string) []string { p[longest] = flipped(p[longest]); return p })),
		"swapped parts":    ask("/v1/actions?", with(func(p []string) []string { p[0], p[1] = p[1], p[0]; return p })),
		"too few parts":    ask("/v1/actions?", with(func(p []string) []string { return p[:2] })),
		"too many parts":   ask("/v1/actions?", with(func(p []string) []string { return append(p, "-") })),
		"all have ended":   ask("/v1/actions?", "m1.-.-.-"),
		"of one":           ask("/v1/actions?", "p1."+parts[0]),
		"of one partition": ask("/v1/actions?namespace=ns&tenant="+tenantIn(0, 0)+"&", token),
		"nothing":          ask("/v1/actions?", "x"),
	} {
		assert.Equal(t, http.StatusBadRequest, got.status, "%s: %s", what, got.body)
		assert.Contains(t, got.body, "page_token: is none that this list gave out", what)
	}
	assert.NotContains(t, token, "=")
}

func TestARequestGoesToThePartitionThatHasItsMachine(t *testing.T) {
	a := divided(t, nil)
	for p := range 3 {
		id := a.madeLater(tenantIn(p, 0)).String()
		for range 2 { // the second time it is remembered
			got := a.do("GET", "/v1/actions/"+id, nil)
			require.Equal(t, http.StatusOK, got.status, got.body)
			assert.Equal(t, tenantIn(p, 0), got.str("tenant"))
		}
		at, ok := a.router.Remembers("/v1/actions/" + id)
		assert.True(t, ok)
		assert.Equal(t, p, at)
		a.router.Misremember("/v1/actions/"+id, (p+1)%3) // as if it was deleted there, and made anew here
		got := a.do("POST", "/v1/actions/"+id+"/cancel", `{"reason":"no more"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		assert.Contains(t, got.body, "no more", "the body is sent again, too")
		a.router.Misremember("/v1/actions/"+id, (p+1)%3)
		got = a.do("GET", "/v1/changes/action/"+id, nil)
		assert.Equal(t, http.StatusOK, got.status, got.body)

		got = a.do("POST", "/v1/recurring", fmt.Sprintf(`{"namespace":"ns","tenant":%q,"name":"x","cron_expr":"0 9 * * *","action_type":"x","provider":"echo"}`, tenantIn(p, 0)))
		require.Equal(t, http.StatusCreated, got.status, got.body)
		schedule := got.str("recurring_id")
		a.router.Misremember("/v1/recurring/"+schedule, (p+1)%3)
		got = a.do("POST", "/v1/backfills", fmt.Sprintf(`{"recurring_id":%q,"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`, schedule))
		assert.Equal(t, http.StatusCreated, got.status, "the schedule of the body is looked for, too: %s", got.body)
		assert.Equal(t, tenantIn(p, 0), got.str("tenant"))
	}
	gone := uuid.NewString()
	got := a.do("GET", "/v1/actions/"+gone, nil)
	assert.Equal(t, http.StatusNotFound, got.status)
	assert.Equal(t, "action not found", got.errorText())
	a.router.Misremember("/v1/actions/"+gone, 2)
	got = a.do("POST", "/v1/actions/"+gone+"/cancel", `{}`)
	assert.Equal(t, http.StatusNotFound, got.status)
	assert.Equal(t, "action not found", got.errorText())
	_, ok := a.router.Remembers("/v1/actions/" + gone)
	assert.False(t, ok)
}

func TestAnIDThatIsThereInTwoPartitionsIsToBeNamedWithItsTenant(t *testing.T) {
	a := divided(t, nil)
	id := uuid.New()
	for _, p := range []int{0, 2} {
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", dueLate(tenantIn(p, 0), id)).status)
	}
	got := a.do("POST", "/v1/actions/"+id.String()+"/cancel", nil)
	assert.Equal(t, http.StatusConflict, got.status)
	assert.Equal(t, fmt.Sprintf("id: %s is there in partitions 0 and 2: name namespace and tenant, or a partition with the header Orrery-Partition", id), got.errorText())
	assert.NotContains(t, a.do("GET", "/v1/actions", nil).body, "cancelled", "nothing was done")
	got = a.do("POST", "/v1/actions/"+id.String()+"/cancel?namespace=ns&tenant="+tenantIn(2, 0), nil)
	assert.Equal(t, http.StatusOK, got.status, got.body)
	assert.Equal(t, tenantIn(2, 0), got.str("tenant"))
	got = a.do("GET", "/v1/actions/"+id.String(), nil, with(httpapi.HeaderPartition, "0"))
	assert.Equal(t, tenantIn(0, 0), got.str("tenant"))
	require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", dueLate(tenantIn(1, 0), id)).status)
	assert.Contains(t, a.do("GET", "/v1/actions/"+id.String(), nil).errorText(), " is there in partitions 0, 1 and 2: name")
}

func TestOnePartitionAnswersForItselfAlone(t *testing.T) {
	a := divided(t, nil)
	mine, theirs := a.madeLater(tenantIn(0, 0)).String(), a.madeLater(tenantIn(1, 0)).String()
	got := a.do("GET", "/v1/actions", nil, with(httpapi.HeaderPartition, "0"))
	assert.Equal(t, []string{mine}, idsOf(t, got, "actions"))
	assert.ElementsMatch(t, []string{mine, theirs}, idsOf(t, a.do("GET", "/v1/actions", nil), "actions"))
	for partition, want := range map[string]string{
		"1":  "503 Orrery-Partition: this process does not own partition 1: nothing was done",
		"3":  `400 Orrery-Partition: "3" is not a partition: want one number from 0 to 2`,
		"-1": `400 Orrery-Partition: "-1" is not a partition: want one number from 0 to 2`,
		"x":  `400 Orrery-Partition: "x" is not a partition: want one number from 0 to 2`,
	} {
		got := a.do("GET", "/v1/actions", nil, with(httpapi.HeaderPartition, partition))
		assert.Equal(t, want, fmt.Sprint(got.status, " ", got.errorText()))
		if got.status == http.StatusServiceUnavailable {
			assert.Equal(t, "mine", got.header.Get("Orrery-Stands-By"), "whoever passed it on asks the owner")
			assert.Equal(t, "1", got.header.Get("Retry-After"))
			assert.Regexp(t, `level=DEBUG msg="request refused".*does not own partition 1`, a.logs.String())
			assert.NotContains(t, a.logs.String(), "request ended early", "whoever passed it on asks again several times a second")
		}
	}
	tenant := tenantIn(2, 0)
	want := fmt.Sprintf(`Orrery-Partition: the tenant "%s" of namespace "ns" lives in partition 2 of 3, not in 0: nothing was done`, tenant)
	for request, body := range map[string]any{
		"POST /v1/actions": dueLate(tenant, uuid.New()),
		"PUT /v1/queues/q?namespace=ns&tenant=" + tenant: `{}`,
		"POST /v1/actions/batch":                         `{"actions":[` + dueLate(tenant, uuid.New()) + `]}`,
		"GET /v1/actions?namespace=ns&tenant=" + tenant:  nil,
		"POST /v1/backfills":                             `{"namespace":"ns","tenant":"` + tenant + `","job":"j","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`,
	} {
		method, target, _ := strings.Cut(request, " ")
		got := a.do(method, target, body, with(httpapi.HeaderPartition, "0"))
		assert.Equal(t, http.StatusMisdirectedRequest, got.status, request)
		assert.Equal(t, want, got.errorText(), request)
	}
	for _, e := range a.engines {
		list, _, err := e.Actions().List(t.Context(), shell.ActionFilter{Scope: &shell.Scope{Namespace: "ns", Tenant: tenant}}, shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, list)
	}
}

func TestAllOrNothingHoldsWithinAPartition(t *testing.T) {
	a := divided(t, nil)
	got := a.do("POST", "/v1/actions/batch", `{"actions":[`+dueLate(tenantIn(0, 0), uuid.New())+`,`+dueLate(tenantIn(1, 0), uuid.New())+`]}`)
	assert.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	assert.Regexp(t, `^actions\[1\]: the tenant "t\d+" of namespace "ns" lives in partition 1, and what is before it, of the tenant "t\d+" of namespace "ns", in partition 0: with the mode "all" all are of one tenant: send one for each tenant, or use the mode "each"$`, got.errorText())
	entry := func(p int) string {
		return fmt.Sprintf(`{"file":"a.toml","recurring":{"namespace":"ns","tenant":%q,"name":"x","cron_expr":"0 9 * * *","provider":"echo"}}`, tenantIn(p, 0))
	}
	got = a.do("POST", "/v1/sets/s", `{"entries":[`+entry(0)+`,`+entry(2)+`]}`)
	assert.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	assert.Contains(t, got.errorText(), "entries[1]: the tenant")
	got = a.do("POST", "/v1/sets/s", `{"entries":[`+entry(0)+`]}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	got = a.do("POST", "/v1/sets/s", `{"prune":true,"entries":[`+entry(2)+`]}`)
	assert.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	assert.Contains(t, got.errorText(), "prune: the set owns things in partition 0, and what it declares now lives in partition 2")
	got = a.do("POST", "/v1/sets/s", `{"entries":[]}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.Contains(t, got.body, `"name":"x"`, "it is asked where the set is")
}

func TestABulkActReachesThingsOfAllPartitionsInTheOrderOfItsIDs(t *testing.T) {
	a := divided(t, nil)
	var ids []string
	for n := range 3 {
		for p := range 3 {
			ids = append(ids, a.madeLater(tenantIn(p, n)).String())
		}
	}
	gone := uuid.NewString()
	asked := append(append([]string{}, ids[:5]...), gone, "x")
	body, err := json.Marshal(map[string]any{"act": "cancel", "ids": asked, "body": map[string]string{"reason": "no more"}})
	require.NoError(t, err)
	var first answer
	for i := range 2 { // the second time it is answered as before
		got := a.do("POST", "/v1/actions/bulk", string(body), key("bulk-1"))
		require.Equal(t, http.StatusOK, got.status, got.body)
		var list wire.Bulk
		require.NoError(t, json.Unmarshal([]byte(got.body), &list))
		require.Len(t, list.Results, len(asked))
		for j, res := range list.Results {
			assert.Equal(t, asked[j], res.ID)
			want := http.StatusOK
			switch res.ID {
			case gone:
				want = http.StatusNotFound
			case "x":
				want = http.StatusBadRequest
			}
			assert.Equal(t, want, res.Status, "%s: %s", res.ID, res.Error)
		}
		if i == 0 {
			first = got
		}
		assert.Equal(t, first.body, got.body)
	}
	for i, id := range ids {
		assert.Equal(t, i < 5, strings.Contains(a.do("GET", "/v1/actions/"+id, nil).body, `"cancelled"`))
	}
	got := a.do("POST", "/v1/actions/bulk", `{"act":"cancel","ids":["`+ids[6]+`","`+ids[6]+`"]}`)
	assert.Equal(t, http.StatusBadRequest, got.status)
	assert.Contains(t, got.errorText(), "name each once")
	twice := uuid.New()
	for _, p := range []int{0, 1} {
		require.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", dueLate(tenantIn(p, 0), twice)).status)
	}
	got = a.do("POST", "/v1/actions/bulk", `{"act":"cancel","ids":["`+twice.String()+`"]}`)
	assert.Equal(t, http.StatusConflict, got.results()[0].Status, got.body)
}

// broken has the partitions of the other process unreachable.
func (a *api) broken(t *testing.T, o httpapi.RouterOptions) *httpapi.Router {
	t.Helper()
	o.Remote = func(int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"nobody works on the database at the moment"}`))
		})
	}
	rt, err := httpapi.NewRouter(o)
	require.NoError(t, err)
	return rt
}

func TestWhatAPartitionWithoutAnOwnerHasIsNotTakenForGone(t *testing.T) {
	a := divided(t, nil)
	mine, theirs := a.madeLater(tenantIn(0, 0)).String(), a.madeLater(tenantIn(1, 0)).String()
	a.router = a.broken(t, a.routerOptions)
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions/"+mine, nil).status)
	for _, id := range []string{theirs, uuid.NewString()} {
		got := a.do("GET", "/v1/actions/"+id, nil)
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Equal(t, fmt.Sprintf("id: no partition that answers has %s, and partition 1 does not answer: nothing was done", id), got.errorText())
		assert.Equal(t, "1", got.header.Get("Retry-After"))
	}
	for _, target := range []string{"/v1/actions", "/v1/find?q=" + mine, "/v1/upcoming", "/v1/system", "/v1/limits", "/v1/events"} {
		got := a.do("GET", target, nil)
		assert.Equal(t, http.StatusServiceUnavailable, got.status, target)
		assert.Equal(t, "nobody works on the database at the moment", got.errorText(), target)
		assert.Equal(t, "1", got.header.Get("Retry-After"), target)
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions?namespace=ns&tenant="+tenantIn(0, 0), nil).status, "who is elsewhere does not notice")
	for _, target := range []string{"/healthz", "/readyz", "/metrics"} {
		assert.Equal(t, http.StatusOK, a.do("GET", target, nil).status, "what this process has is ready: %s", target)
	}
}

func TestAListOfSeveralPartitionsCountsAsOneRequest(t *testing.T) {
	c := newClock()
	a := start(t, setup{partitions: 3, engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) {
		o.Clock = c
		o.Tokens = []httpapi.Token{{Name: "any", SHA256: httpapi.HashToken("any-secret")}}
		o.Limits.Default = httpapi.TenantLimits{RequestsPerSecond: 0.001, RequestBurst: 3}
	}})
	a.header = http.Header{"Authorization": {"Bearer any-secret"}}
	for range 3 {
		got := a.do("GET", "/v1/actions", nil)
		assert.Equal(t, http.StatusOK, got.status, got.body)
	}
	assert.Equal(t, http.StatusTooManyRequests, a.do("GET", "/v1/actions", nil).status)
	assert.Equal(t, http.StatusTooManyRequests, a.do("GET", "/v1/queues/q?namespace=ns&tenant="+tenantIn(0, 0), nil).status, "the servers of one process count together")
	assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/queues/q?namespace=ns&tenant="+tenantIn(1, 0), nil).status, "another process counts for itself: two parts of three lists each, of which every third counts")
}

func TestAListOfAllPartitionsTakesItsLimitAndItsPageTokenOnce(t *testing.T) {
	a := divided(t, nil)
	for _, p := range []int{0, 1, 2} {
		a.yearly(tenantIn(p, 0))
	}
	token := a.do("GET", "/v1/recurring?all=true&limit=1", nil).str("next_page_token")
	require.NotEmpty(t, token)
	for query, name := range map[string]string{"limit=1&page_token=" + token + "&page_token=" + token: "page_token", "limit=1&limit=2": "limit"} {
		got := a.do("GET", "/v1/recurring?all=true&"+query, nil)
		assert.Equal(t, http.StatusBadRequest, got.status)
		assert.Equal(t, `query: "`+name+`" is given 2 times: once is enough`, got.errorText())
	}
}

func TestWhoeverSaysThatARequestIsAPartSendsNoMoreThanOthers(t *testing.T) {
	c := newClock()
	a := start(t, setup{partitions: 3, engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) {
		o.Clock = c
		o.Tokens = []httpapi.Token{{Name: "any", SHA256: httpapi.HashToken("any-secret")}}
		o.Limits.Default = httpapi.TenantLimits{RequestsPerSecond: 0.001, RequestBurst: 2}
	}})
	a.header = http.Header{"Authorization": {"Bearer any-secret"}, "Orrery-Part": {"1"}}
	push := func(opts ...func(*http.Request)) int {
		return a.do("PUT", "/v1/queues/q?namespace=ns&tenant="+tenantIn(0, 0), `{}`, opts...).status
	}
	assert.Equal(t, http.StatusOK, push())
	assert.Equal(t, http.StatusOK, push(with(httpapi.HeaderPartition, "0")))
	for range 3 {
		assert.Equal(t, http.StatusTooManyRequests, push())
		assert.Equal(t, http.StatusTooManyRequests, push(with(httpapi.HeaderPartition, "0")))
	}
}

// saysPart has a request say that it is a part of one to the router of another process.
func saysPart(r *http.Request) {
	r.Header.Set("Orrery-Part", "1")
	r.Header.Set(httpapi.HeaderPartition, "0")
}

// anyOfFew is a token whose tests know its bounds.
func anyOfFew(change func(*httpapi.Options)) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "any", SHA256: httpapi.HashToken("any-secret")}}
		change(o)
	}
}

func TestWhatNoRouterAsksIsNoPartOfARequest(t *testing.T) {
	c := newClock()
	a := start(t, setup{partitions: 3, engine: func(o *shell.Options) { o.Clock = c }, api: anyOfFew(func(o *httpapi.Options) {
		o.Clock, o.Limits.Default = c, httpapi.TenantLimits{RequestsPerSecond: 0.001, RequestBurst: 2}
	})})
	tenant := "?namespace=ns&tenant=" + tenantIn(0, 0)
	for _, want := range []int{http.StatusNotFound, http.StatusNotFound, http.StatusTooManyRequests} {
		assert.Equal(t, want, a.do("GET", "/v1/queues/q"+tenant, nil, bearer("any-secret"), saysPart).status)
	}

	a = divided(t, anyOfFew(func(o *httpapi.Options) { o.MaxRequestsPerToken = 1 }))
	id := a.add(tenantIn(0, 0), "echo", `"x"`, nil).String()
	slow := newReader()
	done := a.get("/v1/actions/"+id, "any-secret", slow, saysPart)
	<-slow.waiting
	got := a.do("GET", "/v1/actions/"+id, nil, bearer("any-secret"), saysPart)
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, `token: 1 requests of "any" are under way: wait for the answer to one`, got.errorText())
	close(slow.writes)
	<-done
	got = a.do("GET", "/v1/queues"+tenant[:len("?namespace=ns")], nil, bearer("any-secret"), saysPart)
	assert.Contains(t, got.body, `[["",`, "a list that a router merges is in the form of a part")
}

func TestTheBodiesOfPartsOfRequestsCountAsThoseOfOthers(t *testing.T) {
	a := divided(t, anyOfFew(func(o *httpapi.Options) { o.MaxBodyBytesInFlight, o.MaxListsPerToken = 1<<20, 1 }))
	large := strings.Repeat("x", 600_000)
	id := a.add(tenantIn(0, 0), "echo", `"`+large+`"`, nil).String()
	body := `{"act":"cancel","ids":["` + id + `"],"body":{"reason":"` + large + `"}}`
	in, out := io.Pipe()
	ended := make(chan answer)
	go func() {
		ended <- a.do("POST", "/v1/actions/bulk", in, bearer("any-secret"), saysPart, func(r *http.Request) { r.ContentLength = int64(len(body)) })
	}()
	_, err := io.WriteString(out, body[:len(body)-1]) // the last byte is held back
	require.NoError(t, err)
	got := a.do("POST", "/v1/actions/bulk", body, bearer("any-secret"), saysPart)
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, "body: the bodies that are being read and worked on may have 1048576 bytes together: try again", got.errorText())
	_, err = io.WriteString(out, body[len(body)-1:])
	require.NoError(t, err)
	require.NoError(t, out.Close())
	assert.Equal(t, http.StatusOK, (<-ended).status)
}

func TestListsWithMoreThatSayThatTheyArePartsAreBounded(t *testing.T) {
	a := divided(t, anyOfFew(func(o *httpapi.Options) { o.MaxListsPerToken = 1 }))
	a.add(tenantIn(0, 0), "echo", `"x"`, nil)
	const list = "/v1/actions?include=tool_input"
	var readers []*reader
	var ended []chan struct{}
	for range 3 { // one list of each partition
		readers = append(readers, newReader())
		ended = append(ended, a.get(list, "any-secret", readers[len(readers)-1], saysPart))
		<-readers[len(readers)-1].waiting
	}
	got := a.do("GET", list, nil, bearer("any-secret"), saysPart)
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, `include: 3 lists of "any" with it are under way: wait for the answer to one`, got.errorText())
	for i, r := range readers {
		close(r.writes)
		<-ended[i]
	}
	assert.Equal(t, http.StatusOK, a.do("GET", list, nil, bearer("any-secret"), saysPart).status)
}

func TestTokensAreReplacedForAllServersOfAProcess(t *testing.T) {
	a := divided(t, func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "old", SHA256: httpapi.HashToken("old-secret"), Admin: true}}
	})
	ask := func(secret string) int {
		return a.do("GET", "/v1/queues?namespace=ns&tenant="+tenantIn(0, 0), nil, bearer(secret)).status
	}
	require.Equal(t, http.StatusOK, ask("old-secret"))
	_, err := a.router.SetTokens([]httpapi.Token{{Name: "new", SHA256: httpapi.HashToken("new-secret"), Admin: true}})
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, ask("old-secret"))
	assert.Equal(t, http.StatusOK, ask("new-secret"))
}

func TestEventsOfAllPartitionsComeInOneStream(t *testing.T) {
	a := divided(t, nil)
	server := httptest.NewServer(a.router)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/events?category=deploys", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	assert.Equal(t, ": events from now on", lines.Text())
	want := map[int]bool{}
	for p := range 3 {
		want[p] = true
		got := a.do("POST", "/v1/events", fmt.Sprintf(`{"namespace":"ns","tenant":%q,"kind":{"category":"deploys","action":"wanted"},"data":%d}`, tenantIn(p, 0), p))
		require.Equal(t, http.StatusAccepted, got.status, got.body)
	}
	for len(want) > 0 && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev struct{ Data int }
		require.NoError(t, json.Unmarshal([]byte(data), &ev))
		assert.True(t, want[ev.Data], data)
		delete(want, ev.Data)
	}
	assert.Empty(t, want)
	http.DefaultClient.CloseIdleConnections()
}

func TestAStreamOfSeveralPartitionsIsOneStreamOfItsToken(t *testing.T) {
	a := divided(t, anyOfFew(func(o *httpapi.Options) { o.MaxStreamsPerToken = 1 }))
	ctx, cancel := context.WithCancel(t.Context())
	leaves := func(r *http.Request) { *r = *r.WithContext(ctx) }
	slow := newReader()
	close(slow.writes)
	done := a.get("/v1/events", "any-secret", slow, leaves)
	<-slow.waiting
	assert.Equal(t, http.StatusOK, slow.status)
	got := a.do("HEAD", "/v1/events", nil, bearer("any-secret"))
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	cancel()
	<-done
	assert.Equal(t, http.StatusOK, a.do("HEAD", "/v1/events", nil, bearer("any-secret")).status)
}

func TestMetricsOfThePartitionsOfAProcessAreToldApart(t *testing.T) {
	a := divided(t, nil)
	got := a.do("GET", "/metrics", nil)
	require.Equal(t, http.StatusOK, got.status, got.body)
	for _, line := range []string{`orrery_up{partition="0"} 1`, `orrery_up{partition="2"} 1`} {
		assert.Contains(t, got.body, line)
	}
	assert.NotContains(t, got.body, `orrery_up{partition="1"}`, "another process owns it")
	assert.Equal(t, 1, strings.Count(got.body, "\ngo_goroutines "), "what is of the process is there once")
	assert.Equal(t, 1, strings.Count(got.body, "\norrery_http_connections "))
}

func TestTheSystemOfSeveralPartitionsIsSummedUp(t *testing.T) {
	a := divided(t, nil)
	for p := range 3 {
		a.madeLater(tenantIn(p, 0))
	}
	var all struct {
		Instance   string
		Batches    uint64
		Partitions []struct {
			Partition  int
			JournalSeq uint64 `json:"journal_seq"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/system", nil).body), &all))
	assert.Equal(t, "mine", all.Instance)
	assert.GreaterOrEqual(t, all.Batches, uint64(3))
	require.Len(t, all.Partitions, 3)
	for p, of := range all.Partitions {
		assert.Equal(t, p, of.Partition)
		assert.NotZero(t, of.JournalSeq)
	}
}

func TestABackupIsOfThePartitionThatIsNamed(t *testing.T) {
	a := divided(t, nil)
	got := a.do("GET", "/v1/backup", nil)
	assert.Equal(t, http.StatusBadRequest, got.status)
	assert.Equal(t, "partition: missing: a backup is of one partition, of 0 to 2: name it with ?partition=0, or back up the database with its own means", got.errorText())
	assert.Equal(t, http.StatusOK, a.do("HEAD", "/v1/backup?partition=1", nil).status)
	got = a.do("GET", "/v1/backup?partition=3", nil)
	assert.Equal(t, `partition: "3" is not a partition of this server: want a number from 0 to 2`, got.errorText())
}

func TestSubscribersOfAllPartitionsAreOneList(t *testing.T) {
	a := divided(t, nil)
	for _, p := range []int{2, 0, 1} {
		tenant := tenantIn(p, 0)
		got := a.do("PUT", fmt.Sprintf("/v1/subscribers/s%d?namespace=ns&tenant=%s", p, tenant), `{"match":{"category":"deploys"},"do":{"push":{"name":"q"}}}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		assert.Equal(t, http.StatusOK, a.do("GET", fmt.Sprintf("/v1/subscribers/s%d?namespace=ns&tenant=%s", p, tenant), nil).status)
		assert.Equal(t, http.StatusNotFound, a.do("GET", fmt.Sprintf("/v1/subscribers/s%d?namespace=ns&tenant=%s", p, tenantIn((p+1)%3, 0)), nil).status)
	}
	var names []string
	for token := ""; ; {
		got := a.do("GET", "/v1/subscribers?limit=1&page_token="+token, nil)
		require.Equal(t, http.StatusOK, got.status, got.body)
		var page wire.SubscriberList
		require.NoError(t, json.Unmarshal([]byte(got.body), &page))
		for _, s := range page.Subscribers {
			names = append(names, s.Name)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	assert.ElementsMatch(t, []string{"s0", "s1", "s2"}, names)
}

func TestASetWithASubscriberGoesWhereTheTenantOfThatLives(t *testing.T) {
	a := divided(t, nil)
	entry := func(p int) string {
		return fmt.Sprintf(`{"file":"a.toml","subscriber":{"namespace":"ns","tenant":%q,"name":"s","match":{"category":"deploys"},"do":{"push":{"name":"q"}}}}`, tenantIn(p, 0))
	}
	for p := range 3 {
		got := a.do("POST", fmt.Sprintf("/v1/sets/s%d", p), `{"entries":[`+entry(p)+`]}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		tenant := "?namespace=ns&tenant=" + tenantIn(p, 0)
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/subscribers/s"+tenant, nil).status)
	}
	got := a.do("POST", "/v1/sets/s", `{"entries":[`+entry(0)+`,`+entry(1)+`]}`)
	assert.Equal(t, http.StatusUnprocessableEntity, got.status)
	assert.Contains(t, got.errorText(), "entries[1]: the tenant")
}

// Each partition routes the events of its own tenants.
func TestASubscriberThatHearsAllTenantsIsRefusedOverSeveralPartitions(t *testing.T) {
	a := divided(t, nil)
	const does = `"match":{"category":"deploys"},"do":{"push":{"name":"q"}}}`
	for query, want := range map[string]string{
		"namespace=orrery&tenant=notify": "tenant: the subscribers of orrery/notify hear the events of all tenants, and here only those of one of 3 partitions: make a subscriber for each tenant",
		"namespace=&tenant=":             "tenant: the subscribers of the tenant without a name hear events of other tenants, and here only those of one of 3 partitions: make a subscriber for each tenant",
	} {
		got := a.do("PUT", "/v1/subscribers/s?"+query, "{"+does)
		assert.Equal(t, http.StatusNotImplemented, got.status, query)
		assert.Equal(t, want, got.errorText())
		assert.Equal(t, http.StatusNotFound, a.do("DELETE", "/v1/subscribers/s?"+query, nil).status, "one that is there is removed")
	}
	got := a.do("POST", "/v1/sets/s", `{"entries":[{"file":"a.toml","subscriber":{"namespace":"orrery","tenant":"notify","name":"s",`+does+`}]}`)
	assert.Equal(t, http.StatusNotImplemented, got.status, got.body)
	assert.Contains(t, got.errorText(), "make a subscriber for each tenant")
	assert.Equal(t, http.StatusOK, a.do("PUT", "/v1/subscribers/s?namespace=orrery&tenant=other", "{"+does).status)
}

// The other process is reached over HTTP.
func TestAProcessThatOwnsNothingAnswersOverHTTP(t *testing.T) {
	a := divided(t, nil)
	var ids []string
	for p := range 3 {
		ids = append(ids, a.madeLater(tenantIn(p, 0)).String())
	}
	owners := []*httptest.Server{httptest.NewServer(a.processes[0].router), httptest.NewServer(a.processes[1].router)}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		for _, s := range owners {
			s.Close()
		}
	})
	o := a.routerOptions
	o.Name, o.API.Shared = "third", new(httpapi.Shared)
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	o.Remote = func(p int) http.Handler {
		to, err := url.Parse(owners[p%2].URL)
		require.NoError(t, err)
		return &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	}
	third, err := httpapi.NewRouter(o)
	require.NoError(t, err)
	a.router = third
	got := a.do("GET", "/v1/actions?order=oldest&limit=2", nil)
	first := idsOf(t, got, "actions")
	second := idsOf(t, a.do("GET", "/v1/actions?order=oldest&limit=2&page_token="+got.str("next_page_token"), nil), "actions")
	assert.ElementsMatch(t, ids, append(first, second...))
	for _, id := range ids {
		assert.Equal(t, http.StatusOK, a.do("POST", "/v1/actions/"+id+"/cancel", `{}`).status)
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/readyz", nil).status)
	assert.Contains(t, a.do("GET", "/metrics", nil).body, "go_goroutines")
	assert.Equal(t, http.StatusUnsupportedMediaType, a.do("POST", "/v1/actions", `{}`, with("Content-Type", "text/plain")).status)
}

func TestRouterOptionsSayWhatIsWrong(t *testing.T) {
	local := func(int) (*httpapi.Server, bool) { return nil, false }
	remote := func(int) http.Handler { return http.NotFoundHandler() }
	for want, o := range map[string]httpapi.RouterOptions{
		"httpapi: RouterOptions.Partitions is 0: it must be between 1 and 4096":                       {Local: local, Remote: remote},
		"httpapi: RouterOptions.Local and Remote must be given: they say who answers for a partition": {Partitions: 2, Local: local},
		"httpapi: RouterOptions.Remembered is -1: it must not be negative":                            {Partitions: 2, Local: local, Remote: remote, Remembered: -1},
		"httpapi: Options.MaxBodyBytes is -1: it must be between 1 and 67108864 bytes":                {Partitions: 2, Local: local, Remote: remote, API: httpapi.Options{MaxBodyBytes: -1}},
	} {
		_, err := httpapi.NewRouter(o)
		require.ErrorContains(t, err, want)
	}
}
