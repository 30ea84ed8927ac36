package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// watched is a store that notes which records its read transactions get.
type watched struct {
	store.Store
	mu    sync.Mutex
	views int
	got   []uuid.UUID
}

type watchedTx struct {
	store.ReadTx
	of *watched
}

func (s *watched) View(ctx context.Context, fn func(store.ReadTx) error) error {
	s.mu.Lock()
	s.views++
	s.mu.Unlock()
	return s.Store.View(ctx, func(tx store.ReadTx) error { return fn(watchedTx{tx, s}) })
}

func (t watchedTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	t.of.mu.Lock()
	t.of.got = append(t.of.got, id)
	t.of.mu.Unlock()
	return t.ReadTx.Get(kind, id)
}

// forget forgets what was noted.
func (s *watched) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views, s.got = 0, nil
}

func (s *watched) read() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uuid.UUID{}, s.got...)
}

// reader is a client that reads an answer only when it is told to.
type reader struct {
	header  http.Header
	status  int
	largest int
	body    bytes.Buffer
	writes  chan struct{} // a send lets one write through; closed: all
	waiting chan struct{} // receives when a write waits
}

func newReader() *reader {
	return &reader{header: http.Header{}, writes: make(chan struct{}), waiting: make(chan struct{}, 1<<16)}
}

func (r *reader) Header() http.Header    { return r.header }
func (r *reader) WriteHeader(status int) { r.status = status }
func (r *reader) Flush()                 {}

func (r *reader) Write(b []byte) (int, error) {
	r.waiting <- struct{}{}
	<-r.writes
	r.largest = max(r.largest, len(b))
	return r.body.Write(b)
}

// get begins a request that r reads; done is closed at its end.
func (a *api) get(target, token string, r *reader, opts ...func(*http.Request)) (done chan struct{}) {
	req := httptest.NewRequestWithContext(a.t.Context(), "GET", target, http.NoBody)
	req.Host, req.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, opt := range opts {
		opt(req)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		a.handler().ServeHTTP(r, req)
	}()
	return done
}

// neighbours are the tokens of two tenants, and of one who sees both, and an admin's.
func neighbours(o *httpapi.Options) {
	o.Tokens = []httpapi.Token{
		{Name: "a", SHA256: httpapi.HashToken("secret-a"), Namespaces: []string{"ns"}, Tenants: []string{"a"}},
		{Name: "b", SHA256: httpapi.HashToken("secret-b"), Namespaces: []string{"ns"}, Tenants: []string{"b"}},
		{Name: "ac", SHA256: httpapi.HashToken("secret-ac"), Namespaces: []string{"ns"}, Tenants: []string{"c", "a"}},
		{Name: "tool", SHA256: httpapi.HashToken("secret-tool"), Namespaces: []string{"ns"}, Tenants: []string{"a"}, Tools: []string{"fail"}},
		{Name: "admin", SHA256: httpapi.HashToken("secret-admin"), Admin: true},
	}
}

// add adds a pending action of a tenant.
func (a *api) add(tenant, tool string, input string, labels map[string]string) uuid.UUID {
	a.t.Helper()
	act, err := a.engine.Actions().Create(a.t.Context(), core.ActionSpec{
		Namespace: "ns", Tenant: tenant, ToolName: tool, ToolInput: json.RawMessage(input), Labels: labels,
		Trigger: core.Scheduled(effects.MaxTime),
	})
	require.NoError(a.t, err)
	return act.ID
}

// actionPage is a page of GET /v1/actions.
type actionPage struct {
	Actions []struct {
		ID        uuid.UUID       `json:"id"`
		ToolInput json.RawMessage `json:"tool_input"`
	} `json:"actions"`
	Next string `json:"next_page_token"`
}

func (r answer) actionPage() (p actionPage) {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &p), r.body)
	return p
}

func TestAPageIsReadFromTheStoreAsItsReaderTakesIt(t *testing.T) {
	st := &watched{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	large := `"` + strings.Repeat("x", 900_000) + `"`
	for range 6 {
		a.add("a", "echo", large, nil)
	}
	a.do("GET", "/v1/actions?limit=1", nil) // the key of page tokens is made
	st.forget()
	r := newReader()
	done := a.get("/v1/actions?limit=1000&include=tool_input", "", r)
	<-r.waiting
	assert.Len(t, st.read(), 1, "the reader has taken nothing yet")
	close(r.writes)
	<-done
	assert.Equal(t, http.StatusOK, r.status)
	assert.LessOrEqual(t, r.largest, 64<<10)
	var p actionPage
	require.NoError(t, json.Unmarshal(r.body.Bytes(), &p))
	require.Len(t, p.Actions, 6)
	assert.JSONEq(t, large, string(p.Actions[5].ToolInput))
}

func TestAPageEndsAfterItsBytesAndGoesOnByItsToken(t *testing.T) {
	a := start(t, setup{})
	large := `"` + strings.Repeat("x", 900_000) + `"`
	want := map[uuid.UUID]bool{}
	for range 22 {
		want[a.add("a", "echo", large, nil)] = true
	}
	token, pages := "", 0
	for {
		r := a.do("GET", "/v1/actions?limit=1000&include=tool_input&page_token="+token, nil)
		assert.Less(t, len(r.body), 10<<20)
		p := r.actionPage()
		pages++
		for _, act := range p.Actions {
			require.True(t, want[act.ID], "each once")
			delete(want, act.ID)
		}
		if token = p.Next; token == "" {
			break
		}
	}
	assert.Empty(t, want)
	assert.Equal(t, 3, pages)
}

func TestListsLeaveOutWhatIsLargeUnlessItIsAskedFor(t *testing.T) {
	a := start(t, setup{})
	id := a.add("a", "echo", `{"a":[1,"}",{"tool_input":null}],"b":"\",\"tool_input\":null"}`, map[string]string{"tool_input": `"tool_input":null`})
	for target, has := range map[string]bool{
		"/v1/actions": false, "/v1/actions?include=result": false,
		"/v1/actions?include=tool_input": true, "/v1/actions?include=result,tool_input": true,
	} {
		var page struct {
			Actions []map[string]json.RawMessage `json:"actions"`
		}
		r := a.do("GET", target, nil)
		require.NoError(t, json.Unmarshal([]byte(r.body), &page), r.body)
		require.Len(t, page.Actions, 1)
		_, ok := page.Actions[0]["tool_input"]
		assert.Equal(t, has, ok, target)
		assert.JSONEq(t, `{"tool_input":"\"tool_input\":null"}`, string(page.Actions[0]["labels"]))
	}
	assert.Contains(t, a.do("GET", "/v1/actions/"+id.String(), nil).body, `"tool_input":{"a":[1,`)
}

func TestListsUnderWayAreBoundedForEachToken(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		neighbours(o)
		o.MaxListsPerToken = 3
	}})
	var readers []*reader
	var ended []chan struct{}
	begin := func(target string) {
		r := newReader()
		readers, ended = append(readers, r), append(ended, a.get(target, "secret-b", r))
		<-r.waiting
	}
	begin("/v1/actions?include=result")
	begin("/v1/actions?include=tool_input")
	r := a.do("GET", "/v1/actions?include=result", nil, bearer("secret-b"))
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, `include: 2 lists of "b" with it are under way: wait for the answer to one`, r.errorText())
	begin("/v1/tasks")
	r = a.do("GET", "/v1/pipelines", nil, bearer("secret-b"))
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, "1", r.header.Get("Retry-After"))
	assert.Equal(t, `token: 3 lists of "b" are under way: wait for the answer to one`, r.errorText())
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, bearer("secret-a")).status, "another token's")
	for i, r := range readers {
		close(r.writes)
		<-ended[i]
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions?include=result", nil, bearer("secret-b")).status)
}

func TestRequestsAndLargeAnswersUnderWayAreBoundedForEachToken(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		neighbours(o)
		o.MaxRequestsPerToken, o.MaxBodyBytesInFlight = 3, 1<<20
	}})
	path := "/v1/actions/" + a.add("b", "echo", `"`+strings.Repeat("x", 600_000)+`"`, nil).String()
	first := newReader()
	done := a.get(path, "secret-b", first)
	<-first.waiting
	r := a.do("GET", path, nil, bearer("secret-b"))
	assert.Equal(t, http.StatusTooManyRequests, r.status, "two of them are more than a megabyte")
	assert.Contains(t, r.errorText(), "its large answers that were not read yet have 1048576 bytes at most")
	assert.Equal(t, http.StatusOK, a.do("GET", path, nil, bearer("secret-admin")).status)
	second, third := newReader(), newReader()
	done2, done3 := a.get("/v1/info", "secret-b", second), a.get("/v1/info", "secret-b", third)
	<-second.waiting
	<-third.waiting
	r = a.do("GET", "/v1/info", nil, bearer("secret-b"))
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, `token: 3 requests of "b" are under way: wait for the answer to one`, r.errorText())
	for _, r := range []*reader{first, second, third} {
		close(r.writes)
	}
	<-done
	<-done2
	<-done3
	assert.Equal(t, http.StatusOK, a.do("GET", path, nil, bearer("secret-b")).status)
}

func TestBodiesUnderWayAreBoundedForEachToken(t *testing.T) {
	for name, length := range map[string]int64{"with its length": 700_000, "without": -1} {
		t.Run(name, func(t *testing.T) {
			a := start(t, setup{api: func(o *httpapi.Options) {
				neighbours(o)
				o.MaxBodyBytesInFlight = 1 << 20
			}})
			body := `{"tool_name":"echo","tool_input":"` + strings.Repeat("x", 700_000-36) + `"}`
			in, out := io.Pipe()
			ended := make(chan answer)
			go func() {
				ended <- a.do("POST", "/v1/actions", in, bearer("secret-b"), func(r *http.Request) { r.ContentLength = length })
			}()
			_, err := io.WriteString(out, body[:len(body)-1]) // the last byte is held back
			require.NoError(t, err)
			r := a.do("POST", "/v1/actions", body, bearer("secret-b"))
			assert.Equal(t, http.StatusTooManyRequests, r.status)
			assert.Equal(t, "body: the bodies that are being read and worked on may have 1048576 bytes together: try again", r.errorText())
			assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", body, bearer("secret-a")).status, "another token's")
			_, err = io.WriteString(out, body[len(body)-1:])
			require.NoError(t, err)
			require.NoError(t, out.Close())
			assert.Equal(t, http.StatusCreated, (<-ended).status)
			assert.Equal(t, http.StatusCreated, a.do("POST", "/v1/actions", body, bearer("secret-b")).status, "its share is free again")
		})
	}
}

func TestOneTokenCannotTakeAllStreams(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		neighbours(o)
		o.Tokens = append(o.Tokens, httpapi.Token{Name: "bus", SHA256: httpapi.HashToken("secret-bus")})
		o.MaxStreamsPerToken = 2
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 2 {
		r := newReader()
		close(r.writes)
		req := httptest.NewRequestWithContext(ctx, "GET", "/v1/events", http.NoBody)
		req.Header.Set("Authorization", "Bearer secret-bus")
		wg.Go(func() { a.server.Handler().ServeHTTP(r, req) })
		<-r.waiting
	}
	r := a.do("GET", "/v1/events", nil, bearer("secret-bus"))
	assert.Equal(t, http.StatusTooManyRequests, r.status)
	assert.Equal(t, `token: 2 streams of events are open by "bus": close one`, r.errorText())
	assert.Equal(t, http.StatusOK, a.do("HEAD", "/v1/events", nil, bearer("secret-admin")).status)
}

func TestAPageTokenIsGoodForItsTokenPathAndFilters(t *testing.T) {
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, api: neighbours})
	for range 4 {
		a.add("a", "echo", "1", nil)
	}
	token := a.do("GET", "/v1/actions?limit=2&tool=echo", nil, bearer("secret-a")).actionPage().Next
	require.NotEmpty(t, token)
	get := func(query, bearing string) answer {
		return a.do("GET", "/v1/"+query+"page_token="+token, nil, bearer(bearing))
	}
	assert.Len(t, get("actions?limit=1&include=result&tool=echo&", "secret-a").actionPage().Actions, 1, "limit and include may change")
	const refused = "page_token: is none that this list gave out to this token with these filters: start again without page_token"
	for name, r := range map[string]answer{
		"another token":  get("actions?tool=echo&", "secret-ac"),
		"an admin":       get("actions?tool=echo&", "secret-admin"),
		"other filters":  get("actions?tool=echo&status=pending&", "secret-a"),
		"no filters":     get("actions?", "secret-a"),
		"another list":   get("tasks?", "secret-a"),
		"changed":        a.do("GET", "/v1/actions?tool=echo&page_token="+token[:20]+"A"+token[21:]+"A", nil, bearer("secret-a")),
		"an earlier one": a.do("GET", "/v1/actions?tool=echo&page_token=AAABof0yGPkBof0yGPl1s64vF8vdyPenMUeZqg", nil, bearer("secret-a")),
	} {
		require.Equal(t, http.StatusBadRequest, r.status, name)
		assert.Equal(t, refused, r.errorText(), name)
	}
	a.stop()
	a = start(t, setup{store: st, api: neighbours})
	assert.Len(t, get("actions?tool=echo&", "secret-a").actionPage().Actions, 2, "the key outlives the process")
}

func TestAPageTokenTellsNothingOfThePositionThatItStandsFor(t *testing.T) {
	a := start(t, setup{api: neighbours})
	id := a.add("a", "echo", "1", nil)
	token := a.do("GET", "/v1/actions?limit=1", nil, bearer("secret-a")).actionPage().Next
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "p1."))
	require.NoError(t, err)
	assert.NotContains(t, string(b), string(id[:]))
	assert.NotContains(t, string(b), base64.RawURLEncoding.EncodeToString(id[:])[:8])
	assert.NotEqual(t, token, a.do("GET", "/v1/actions?limit=1", nil, bearer("secret-a")).actionPage().Next, "equal positions cannot be told")
}

func TestAListReadsNoRecordOfATenantThatItsTokenMayNotSee(t *testing.T) {
	st := &watched{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, api: neighbours})
	mine, others := []uuid.UUID{}, map[uuid.UUID]bool{}
	for i := range 60 {
		for range 3 {
			others[a.add("b", "echo", "1", nil)] = true
		}
		mine = append(mine, a.add([]string{"a", "c"}[i%2], "echo", "1", nil))
	}
	for query, want := range map[string][]uuid.UUID{"": mine, "&namespace=ns": mine, "&status=pending": mine, "&status=failed": nil} {
		st.forget()
		var found []uuid.UUID
		token, pages := "", 0
		for {
			p := a.do("GET", fmt.Sprintf("/v1/actions?limit=7&page_token=%s%s", token, query), nil, bearer("secret-ac")).actionPage()
			for _, act := range p.Actions {
				found = append(found, act.ID)
			}
			pages++
			if token = p.Next; token == "" {
				break
			}
		}
		require.Len(t, found, len(want), query)
		assert.LessOrEqual(t, pages, 1+(len(want)+6)/7)
		for i, id := range found {
			assert.Equal(t, want[len(want)-1-i], id, "newest first, over both tenants")
		}
		for _, id := range st.read() {
			assert.False(t, others[id], "a record of another tenant was read")
		}
	}
}

func TestFiltersAreAskedOfWhatTheTokenSeesAlone(t *testing.T) {
	a := start(t, setup{api: neighbours})
	for range 200 {
		a.add("a", "echo", "1", map[string]string{"project": "x"})
	}
	mine := a.add("a", "fail", "1", nil)
	for query, want := range map[string]int{"": 1, "?label=project=x": 0, "?label=project=y": 0} {
		p := a.do("GET", "/v1/actions"+query, nil, bearer("secret-tool")).actionPage()
		assert.Empty(t, p.Next, "%q: no token tells that others have such actions", query)
		require.Len(t, p.Actions, want)
		if want > 0 {
			assert.Equal(t, mine, p.Actions[0].ID)
		}
	}
}

func TestAListThatFailsInItsMidstIsBrokenOff(t *testing.T) {
	st := &breaking{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st})
	for range 3 {
		a.add("a", "echo", `"`+strings.Repeat("x", 300_000)+`"`, nil)
	}
	a.do("GET", "/v1/actions?limit=1", nil)
	st.after = 1
	assert.Panics(t, func() { a.do("GET", "/v1/actions?include=tool_input", nil) }, "net/http cuts the connection")
}

// breaking is a store whose read transactions fail after some.
type breaking struct {
	store.Store
	mu    sync.Mutex
	after int // 0: never
}

func (s *breaking) View(ctx context.Context, fn func(store.ReadTx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after > 1 {
		return shell.ErrStopped
	}
	if s.after > 0 {
		s.after++
	}
	return s.Store.View(ctx, fn)
}
