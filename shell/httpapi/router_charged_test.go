package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const ratedBurst = 30

// rated divides three partitions over two processes which share a key, and have a token of ratedBurst requests and inputs.
func rated(t *testing.T) *api {
	t.Helper()
	c := newClock()
	a := start(t, setup{partitions: 3, engine: func(o *shell.Options) { o.Clock = c }, api: func(o *httpapi.Options) {
		withPageKey(o)
		o.Clock = c
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true},
			{Name: "any", SHA256: httpapi.HashToken("any-secret")},
		}
		o.Limits.Default = httpapi.TenantLimits{RequestsPerSecond: 0.0001, RequestBurst: ratedBurst, InputsPerSecond: 0.0001, InputBurst: ratedBurst}
	}})
	a.header = http.Header{"Authorization": {"Bearer root-secret"}}
	return a
}

// charged gives how many requests and inputs of the token each process has charged since it was asked last, as a request of each tells.
func (a *api) charged() func() string {
	before := [2][2]int{}
	of := func(p *process) (out [2]int) {
		was := a.router
		defer func() { a.router = was }()
		a.router = p.router
		partition := 0
		if p == a.processes[1] {
			partition = 1
		}
		got := a.do("POST", "/v1/queues/none/pause?namespace=ns&tenant="+tenantIn(partition, 0), nil, bearer("any-secret"))
		for i, what := range []string{"requests", "inputs"} {
			for _, v := range got.header["Ratelimit"] {
				if rest, ok := strings.CutPrefix(v, strconv.Quote(what)+";r="); ok {
					left, err := strconv.Atoi(rest[:strings.Index(rest, ";")])
					require.NoError(a.t, err)
					out[i] = ratedBurst - left - 1
				}
			}
		}
		return out
	}
	return func() string {
		a.t.Helper()
		var says []string
		for i, p := range a.processes {
			now := of(p)
			says = append(says, fmt.Sprintf("%d+%d", now[0]-before[i][0], now[1]-before[i][1]))
			before[i] = [2]int{now[0] + 1, now[1] + 1}
		}
		return strings.Join(says, " ")
	}
}

// What is charged is written as requests+inputs of the process that is asked, and of the other one.
func TestARequestAndEachOfItsEntriesAreChargedOnce(t *testing.T) {
	a := rated(t)
	var ids []string
	for _, p := range []int{0, 1, 1, 2, 1} {
		ids = append(ids, a.yearly(tenantIn(p, 0)))
	}
	a.hearers()
	charged := a.charged()
	require.Equal(t, "0+0 0+0", charged())
	require.Equal(t, "0+0 0+0", charged())
	mine := bearer("any-secret")

	got := statusesOf(a.bulk("/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: ids}, mine))
	require.Equal(t, []int{200, 200, 200, 200, 200}, got)
	assert.Equal(t, "1+2 0+3", charged(), "a bulk act: each id where it is done; nobody pays for who has it")
	got = statusesOf(a.bulk("/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: []string{ids[1], ids[2]}}, mine))
	require.Equal(t, []int{200, 200}, got)
	assert.Equal(t, "1+1 0+2", charged(), "the request has come here, and the ids are the other's")

	body := eachOf(dueLate(tenantIn(0, 0), fixedID(1)), dueLate(tenantIn(1, 0), fixedID(2)), dueLate(tenantIn(1, 0), fixedID(3)), dueLate(tenantIn(2, 0), fixedID(4)))
	require.Equal(t, []int{201, 201, 201, 201}, statuses(a.do("POST", "/v1/actions/batch", body, mine).results()))
	assert.Equal(t, "1+2 0+2", charged(), "a batch")

	require.Equal(t, http.StatusAccepted, a.do("POST", "/v1/events", wantedEvent, mine).status)
	assert.Equal(t, "1+1 0+0", charged(), "an event that all partitions announce")

	require.Equal(t, http.StatusOK, a.do("GET", "/v1/actions?limit=100", nil, mine).status)
	assert.Equal(t, "1+0 0+0", charged(), "a list")

	require.Equal(t, http.StatusNotFound, a.do("POST", "/v1/actions/"+uuid.NewString()+"/cancel", nil, mine, key("k")).status)
	assert.Equal(t, "1+1 0+0", charged(), "a request with a key for what nobody has")
	require.Equal(t, http.StatusNotFound, a.do("POST", "/v1/actions/"+uuid.NewString()+"/cancel", nil, mine).status)
	assert.Equal(t, "1+1 0+0", charged(), "one without a key")

	require.Equal(t, http.StatusOK, a.do("POST", "/v1/recurring/"+ids[1]+"/pause", nil, mine).status)
	assert.Equal(t, "0+0 1+1", charged(), "a request that is passed on")
	require.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/recurring/"+ids[0]+"?namespace=ns&tenant="+tenantIn(0, 0), nil).status)
	for _, opts := range [][]func(*http.Request){{mine}, {mine, key("k")}} {
		require.Equal(t, http.StatusOK, a.do("GET", "/v1/recurring/"+ids[1], nil).status)
		require.Equal(t, http.StatusNotFound, a.do("POST", "/v1/recurring/"+ids[0]+"/pause", nil, opts...).status)
		assert.Equal(t, "1+1 0+0", charged(), "one for what is remembered here, and is there no more")
		a.router.Misremember("/v1/recurring/"+ids[1], 2)
		require.Equal(t, http.StatusOK, a.do("POST", "/v1/recurring/"+ids[1]+"/trigger", nil, opts...).status)
		assert.Equal(t, "1+1 0+0", charged(), "one for what is remembered here, and is with the other")
	}
}

func TestABulkActBeyondTheRateHereLooksForNothingMore(t *testing.T) {
	a := rated(t)
	var ids []string
	for range 40 {
		ids = append(ids, a.yearly(tenantIn(0, 0)))
	}
	for range 20 {
		ids = append(ids, a.yearly(tenantIn(1, 0)))
	}
	var asked atomic.Int32 // each id is looked for beside the others
	o := a.routerOptions
	remote := o.Remote
	o.Remote = func(p int) http.Handler { asked.Add(1); return remote(p) }
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	got := a.do("POST", "/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: ids}, bearer("any-secret"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.Equal(t, 30, strings.Count(got.body, `"status":200`))
	assert.Equal(t, 30, strings.Count(got.body, `"status":429`))
	assert.NotEmpty(t, got.header.Get("Retry-After"))
	assert.EqualValues(t, 32, asked.Load(), "the other process was asked who has two times sixteen ids")
}

func TestTheIDsOfABulkActBeyondTheRateOfTheirProcessAreRefusedThere(t *testing.T) {
	a := rated(t)
	var ids []string
	for range ratedBurst + 5 {
		ids = append(ids, a.yearly(tenantIn(1, 0)))
	}
	got := a.do("POST", "/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: ids}, bearer("any-secret"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.Equal(t, ratedBurst, strings.Count(got.body, `"status":200`), "none of them is the request, which is charged elsewhere")
	assert.Equal(t, 5, strings.Count(got.body, `"status":429`))
	assert.NotEmpty(t, got.header.Get("Retry-After"))
}

// Whoever asks a process may send any header: only what another process has sealed for this very request is believed.
func TestThatARequestWasChargedIsBelievedOfProcessesAlone(t *testing.T) {
	a := rated(t)
	id := a.yearly(tenantIn(1, 0))
	var sealed string
	o := a.routerOptions
	remote := o.Remote
	o.Remote = func(p int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sealed = r.Header.Get("Orrery-Charged")
			remote(p).ServeHTTP(w, r)
		})
	}
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, bearer("any-secret")).status)
	require.NotEmpty(t, sealed)
	charged := a.charged()
	charged()
	ask := func(method, path, value string) {
		a.do(method, path, nil, bearer("any-secret"), with("Orrery-Charged", value))
	}
	a.router = a.processes[1].router
	ask("GET", "/v1/actions", sealed)
	assert.Equal(t, "0+0 0+0", charged(), "it is sealed for this one")
	ask("HEAD", "/v1/actions", sealed)
	ask("GET", "/v1/queues", sealed)
	ask("GET", "/v1/actions", "AAAA")
	ask("GET", "/v1/actions", "?")
	ask("GET", "/v1/actions", "")
	assert.Equal(t, "0+0 5+0", charged())
	a.do("GET", "/v1/actions", nil, bearer("root-secret"), with("Orrery-Charged", sealed))
	ask("POST", "/v1/recurring/"+id+"/pause", "AAAA")
	assert.Equal(t, "0+0 1+1", charged())
	a.router = a.processes[0].router
	ask("POST", "/v1/recurring/"+id+"/pause", sealed)
	assert.Equal(t, "0+0 1+1", charged(), "nor is it passed on")
}

// Of parts that nobody has charged as many as there are partitions would else count as one request, and a divided database would bound whoever says so as many times less.
func TestWhoeverSaysThatAQuestionIsAPartOfARequestIsChargedEachTime(t *testing.T) {
	a := rated(t)
	id := a.yearly(tenantIn(1, 0))
	charged := a.charged()
	charged()
	a.router = a.processes[1].router
	for range 5 {
		for _, partition := range []string{"0", "1"} {
			a.do("GET", "/v1/actions", nil, bearer("any-secret"), with("Orrery-Part", "1"), with(httpapi.HeaderPartition, partition))
			a.do("HEAD", "/v1/recurring/"+id, nil, bearer("any-secret"), with("Orrery-Part", "1"), with(httpapi.HeaderPartition, partition))
		}
	}
	assert.Equal(t, "0+0 20+0", charged())
}

func TestWhatPartsSayOfWhenToComeAgainIsPassedOnAndTheLastOfThemCounts(t *testing.T) {
	a := divided(t, nil)
	var ids []string
	for p := range 3 {
		ids = append(ids, a.yearly(tenantIn(p, 0)))
		a.do("GET", "/v1/recurring/"+ids[p], nil) // it is remembered
	}
	o := a.routerOptions
	remote := o.Remote(0)
	parts := map[int]http.HandlerFunc{0: laterBy(503, "2"), 1: laterBy(429, "40"), 2: laterBy(503, "3")}
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	finds := false
	o.Remote = func(p int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if finds && r.Method == http.MethodHead {
				if s, ok := a.processes[0].servers[p]; ok {
					s.Handler().ServeHTTP(w, r)
					return
				}
				passedOn(remote, w, r)
				return
			}
			parts[p](w, r)
		})
	}
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(t, err)
	says := func(got answer) string { return fmt.Sprint(got.status, " ", got.header.Get("Retry-After")) }
	assert.Equal(t, "503 40", says(a.do("GET", "/v1/recurring", nil)), "a list")
	assert.Equal(t, "503 40", says(a.do("GET", "/v1/upcoming", nil)), "an answer that is made of those of all")
	assert.Equal(t, "503 40", says(a.do("GET", "/v1/recurring/"+ids[0], nil)), "a search")
	body := eachOf(dueLate(tenantIn(0, 0), fixedID(1)), dueLate(tenantIn(1, 0), fixedID(2)), dueLate(tenantIn(2, 0), fixedID(3)))
	got := a.do("POST", "/v1/actions/batch", body)
	assert.Equal(t, "200 40", says(got), got.body)
	parts[0], parts[1] = laterBy(429, "2"), laterBy(429, "50")
	parts[2] = laterBy(429, "3")
	assert.Equal(t, "429 50", says(a.do("POST", "/v1/actions/batch", body)), "a batch that is refused whole")
	finds = true
	got = a.do("POST", "/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: ids})
	assert.Equal(t, "200 50", says(got), got.body)
	assert.Equal(t, 3, strings.Count(got.body, `"status":429,"error":"not now"`), got.body)
}

// Half of a list that ends with a refusal would be read as the whole by who reads line by line.
func TestAListIsBrokenOffWhereAPartitionRefusesToGoOn(t *testing.T) {
	a := divided(t, nil)
	large := strings.Repeat("x", 40_000)
	a.remotes(func(p int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Has("page_token"):
				laterBy(503, "1")(w, r)
			case p == 0:
				_, _ = fmt.Fprintf(w, `{"actions":[["a","p1.a",{"id":%q}],["","p1.b",0]]}`, large)
			default:
				_, _ = fmt.Fprint(w, `{"actions":[["","",0]]}`)
			}
		})
	})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/actions", nil)
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	w := httptest.NewRecorder()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { a.router.ServeHTTP(w, r) })
	assert.NotContains(t, w.Body.String(), "not now")
}
