package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// elsewhere has all partitions be of other processes, which answer as they are told, and notes what those are asked that is no HEAD.
func (a *api) elsewhere(answer func(partition int, w http.ResponseWriter, r *http.Request)) (asked func() []int) {
	a.t.Helper()
	var mu sync.Mutex
	var list []int
	o := a.routerOptions
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	o.Remote = func(p int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(a.t, fmt.Sprint(p), r.Header.Get(httpapi.HeaderPartition))
			if r.Method != http.MethodHead {
				mu.Lock()
				list = append(list, p)
				mu.Unlock()
			}
			answer(p, w, r)
		})
	}
	rt, err := httpapi.NewRouter(o)
	require.NoError(a.t, err)
	a.router = rt
	return func() []int {
		mu.Lock()
		defer mu.Unlock()
		defer func() { list = nil }()
		return list
	}
}

func says(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestWhatPartitionsSayOfAMachineDecidesWhereARequestGoes(t *testing.T) {
	a := divided(t, nil)
	const panics = 0
	for name, row := range map[string]struct {
		heads  [3]int
		status int
		text   string // what the router says; empty: a partition answers
		to     []int
	}{
		"one has it":                                {heads: [3]int{404, 200, 404}, status: 200, to: []int{1}},
		"one has it, and another one is away":       {heads: [3]int{502, 404, 200}, status: 200, to: []int{2}},
		"one cannot read it":                        {heads: [3]int{404, 422, 404}, status: 200, to: []int{1}},
		"one answers no more":                       {heads: [3]int{404, 429, 404}, status: 429, text: "id: partition 1 answers no more requests of the token at the moment: try again"},
		"one is away":                               {heads: [3]int{404, 404, 503}, status: 503, text: "id: no partition that answers has %s, and partition 2 does not answer: nothing was done"},
		"one breaks off":                            {heads: [3]int{404, panics, 404}, status: 503, text: "id: no partition that answers has %s, and partition 1 does not answer: nothing was done"},
		"none has it, which whoever is asked knows": {heads: [3]int{404, 404, 404}, status: 200, to: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := a.elsewhere(func(p int, w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method != http.MethodHead:
					says(w, http.StatusOK, `{}`)
				case row.heads[p] == panics:
					panic(http.ErrAbortHandler)
				default:
					w.WriteHeader(row.heads[p])
				}
			})
			id := uuid.NewString()
			got := a.do("GET", "/v1/actions/"+id, nil)
			assert.Equal(t, row.status, got.status)
			assert.Equal(t, row.to, asked())
			if row.text != "" {
				want := row.text
				if row.status == http.StatusServiceUnavailable {
					want = fmt.Sprintf(row.text, id)
				}
				assert.Equal(t, want, got.errorText())
				assert.Equal(t, "1", got.header.Get("Retry-After"))
			}
		})
	}
}

// What was done under a key may have ended the machine: the partition that did it knows, and no other one.
func TestARequestWithAKeyAboutWhatIsNowhereIsAskedOfEachPartition(t *testing.T) {
	a := divided(t, nil)
	for knows, want := range [][]int{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2}} {
		asked := a.elsewhere(func(p int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Partition", fmt.Sprint(p))
			if p == knows && r.Method != http.MethodHead {
				says(w, http.StatusOK, `{"kept":true}`)
				return
			}
			says(w, http.StatusNotFound, fmt.Sprintf(`{"error":"not in %d"}`, p))
		})
		got := a.do("POST", "/v1/actions/"+uuid.NewString()+"/cancel", nil, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") })
		assert.Equal(t, want, asked(), "partition %d", knows)
		if knows == 3 {
			assert.Equal(t, []any{http.StatusNotFound, "not in 2", "2"}, []any{got.status, got.errorText(), got.header.Get("X-Partition")})
			continue
		}
		assert.Equal(t, []any{http.StatusOK, fmt.Sprint(knows)}, []any{got.status, got.header.Get("X-Partition")})
	}
}

func TestAnAnswerThatHasBrokenOffNamesItsPartition(t *testing.T) {
	a := divided(t, nil)
	for _, target := range []string{"/v1/actions", "/v1/find?q=x"} {
		a.elsewhere(func(p int, w http.ResponseWriter, _ *http.Request) {
			body := `{"actions":[["","",0]]}`
			if target != "/v1/actions" {
				body = `{"found":[],"more":false}`
			}
			if p == 1 {
				body = body[:10]
			}
			says(w, http.StatusOK, body)
		})
		got := a.do("GET", target, nil)
		assert.Equal(t, http.StatusBadGateway, got.status, target)
		assert.Equal(t, "partitions: the answer of partition 1 has broken off: try again", got.errorText(), target)
	}
}

// A proxy breaks its answer off when the client goes, and the forwarder gives none.
func TestAClientThatGoesIsNoFaultOfThePartitionsInTheLog(t *testing.T) {
	none, brokenOff := func() {}, func() { panic(http.ErrAbortHandler) }
	for _, row := range []struct {
		request, body string
		ends          func()
		goes          bool
		fault         bool
	}{
		{request: "GET /v1/actions", ends: none, goes: true},
		{request: "GET /v1/actions", ends: brokenOff, goes: true},
		{request: "GET /v1/find?q=x", ends: none, goes: true},
		{request: "GET /v1/find?q=x", ends: brokenOff, goes: true},
		{request: "GET /v1/actions", ends: none, fault: true},
		{request: "GET /v1/find?q=x", ends: brokenOff, fault: true},
		{request: "POST /v1/events", body: wantedEvent, ends: brokenOff, goes: true, fault: true}, // whether it was announced nobody knows
	} {
		a := divided(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		a.elsewhere(func(_ int, _ http.ResponseWriter, r *http.Request) {
			if row.goes {
				cancel()
				<-r.Context().Done()
			}
			row.ends()
		})
		method, target, _ := strings.Cut(row.request, " ")
		var body any
		if row.body != "" {
			body = row.body
		}
		a.do(method, target, body, func(r *http.Request) { *r = *r.WithContext(ctx) })
		cancel()
		if row.fault {
			assert.Regexp(t, `level=ERROR msg="request failed".*status=502`, a.logs.String(), row.request)
			continue
		}
		assert.Regexp(t, `level=INFO msg="request ended early".*error="the client has gone: partitions: `, a.logs.String(), row.request)
		assert.NotContains(t, a.logs.String(), "level=ERROR", row.request)
	}
}

func TestASumSaysThatThereIsMoreIfAnyPartitionHasMoreOrAllTogetherHave(t *testing.T) {
	a := divided(t, nil)
	for _, row := range []struct {
		target, body string
		more         [3]bool
		want         bool
	}{
		{target: "/v1/find?q=x", body: `{"found":[],"more":%t}`, more: [3]bool{true, false, false}, want: true},
		{target: "/v1/find?q=x", body: `{"found":[],"more":%t}`, more: [3]bool{false, false, false}},
		{target: "/v1/upcoming?limit=10", body: `{"schedules":[],"more":%t}`, more: [3]bool{false, true, false}, want: true},
		{target: "/v1/upcoming?limit=3", body: `{"schedules":[{"kind":"job"}],"more":%t}`},
		{target: "/v1/upcoming?limit=2", body: `{"schedules":[{"kind":"job"}],"more":%t}`, want: true},
	} {
		var mu sync.Mutex
		var until []string
		a.elsewhere(func(p int, w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			until = append(until, r.URL.Query().Get("until"))
			mu.Unlock()
			says(w, http.StatusOK, fmt.Sprintf(row.body, row.more[p]))
		})
		got := a.do("GET", row.target, nil)
		require.Equal(t, http.StatusOK, got.status, row.target)
		assert.Contains(t, got.body, fmt.Sprintf(`"more":%t`, row.want), row.target)
		assert.Len(t, slices.Compact(until), 1, "all are asked for the same time")
		assert.Equal(t, row.target[:7] == "/v1/upc", until[0] != "", row.target)
	}
}

func TestARequestNamesOnePartitionAtMost(t *testing.T) {
	a := divided(t, nil)
	got := a.do("GET", "/v1/actions", nil, func(r *http.Request) { r.Header[httpapi.HeaderPartition] = []string{"0", "1"} })
	assert.Equal(t, http.StatusBadRequest, got.status)
	assert.Equal(t, `Orrery-Partition: "0, 1" is not a partition: want one number from 0 to 2`, got.errorText())
}
