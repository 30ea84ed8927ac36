package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// hearers makes a subscriber in each partition that pushes what it hears, and gives how many items each has pushed.
func (a *api) hearers() func() []int {
	a.t.Helper()
	scope := func(p int) string { return "?namespace=ns&tenant=" + tenantIn(p, 0) }
	for p := range 3 {
		require.Equal(a.t, http.StatusOK, a.do("PUT", "/v1/queues/q"+scope(p), `{}`).status)
		got := a.do("PUT", "/v1/subscribers/s"+scope(p), `{"match":{"category":"deploys"},"do":{"push":{"name":"q"}}}`)
		require.Equal(a.t, http.StatusOK, got.status, got.body)
	}
	return func() (pushed []int) {
		a.t.Helper()
		for p := range 3 {
			got := a.do("GET", "/v1/queues/q/items"+scope(p), nil)
			var list struct {
				Items []wire.ItemSummary `json:"items"`
			}
			require.NoError(a.t, json.Unmarshal([]byte(got.body), &list))
			pushed = append(pushed, len(list.Items))
		}
		return pushed
	}
}

const wantedEvent = `{"kind":{"category":"deploys","action":"wanted"},"data":{"v":1}}`

func TestAnEventOfNoTenantIsAnnouncedInAllPartitionsOnce(t *testing.T) {
	a := divided(t, nil)
	pushed := a.hearers()
	got := a.do("POST", "/v1/events", wantedEvent, key("k"))
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	assert.Equal(t, []int{1, 1, 1}, pushed())
	again := a.do("POST", "/v1/events", wantedEvent, key("k"))
	assert.Equal(t, got.body, again.body)
	assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	assert.Equal(t, []int{1, 1, 1}, pushed())
	assert.Equal(t, http.StatusAccepted, a.do("POST", "/v1/events", wantedEvent).status)
	assert.Equal(t, []int{2, 2, 2}, pushed())
	for body, want := range map[string]int{
		`{"kind":{"category":"action","action":"wanted"}}`: http.StatusBadRequest, `{"kind":7}`: http.StatusBadRequest, `{`: http.StatusBadRequest, ``: http.StatusBadRequest,
	} {
		one := start(t, setup{}).do("POST", "/v1/events", body)
		got := a.do("POST", "/v1/events", body)
		assert.Equal(t, want, got.status, body)
		assert.Equal(t, one.body, got.body, body)
	}
	assert.Equal(t, []int{2, 2, 2}, pushed(), "what is refused is announced nowhere")
}

func TestAnEventThatReachedSomePartitionsIsFinishedByTheSameRequest(t *testing.T) {
	a := divided(t, nil)
	pushed := a.hearers()
	whole := a.router
	a.router = a.broken(t, a.routerOptions)
	got := a.do("POST", "/v1/events", wantedEvent, key("k"))
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Equal(t, "partitions: [1] of 3 may not have announced the event, and the others have: send the same request again, and they announce it", got.errorText())
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	got = a.do("POST", "/v1/events", wantedEvent)
	assert.Equal(t, http.StatusBadGateway, got.status, "503 would be sent again by clients, and announced twice")
	assert.Equal(t, "partitions: [1] of 3 may not have announced the event, and the others have: it had no Idempotency-Key, so that those announce it twice if it is sent again", got.errorText())
	assert.Empty(t, got.header.Get("Retry-After"))
	a.router = whole
	assert.Equal(t, []int{2, 0, 2}, pushed())
	got = a.do("POST", "/v1/events", wantedEvent, key("k"))
	assert.Equal(t, http.StatusAccepted, got.status, got.body)
	assert.Empty(t, got.header.Get("Idempotency-Replayed"))
	assert.Equal(t, []int{2, 1, 2}, pushed())

	o := a.routerOptions
	o.Local = func(int) (*httpapi.Server, bool) { return nil, false }
	a.router = a.broken(t, o)
	got = a.do("POST", "/v1/events", wantedEvent, key("other"))
	assert.Equal(t, "503 nobody works on the database at the moment", fmt.Sprint(got.status, " ", got.errorText()))
}

// remotes has all partitions be of other processes, each answered for by its handler.
func (a *api) remotes(of func(partition int) http.Handler) {
	a.t.Helper()
	o := a.routerOptions
	o.Local, o.Remote = func(int) (*httpapi.Server, bool) { return nil, false }, of
	var err error
	a.router, err = httpapi.NewRouter(o)
	require.NoError(a.t, err)
}

// breaksOff begins an answer and does not end it.
func breaksOff(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"id":`))
		panic(http.ErrAbortHandler)
	}
}

// later answers that a request may come again after so many seconds.
func laterBy(status int, seconds string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", seconds)
		answering(status, "not now")(w, r)
	}
}

func TestAnEventOfWhichTheFirstPartitionsAnswerBreaksOffMayHaveBeenAnnounced(t *testing.T) {
	for _, breaking := range []http.Handler{breaksOff(http.StatusAccepted), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })} {
		a := divided(t, nil)
		pushed := a.hearers()
		whole := a.router
		inner := a.routerOptions.Local
		a.remotes(func(p int) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if p == 0 { // it announces it, and its answer is lost
					s, _ := inner(0)
					s.Handler().ServeHTTP(nowhere{http.Header{}}, r)
					breaking.ServeHTTP(w, r)
				}
				t.Errorf("partition %d is asked", p)
			})
		})
		got := a.do("POST", "/v1/events", wantedEvent)
		assert.Equal(t, http.StatusBadGateway, got.status)
		assert.Equal(t, "partitions: the answer of partition 0 has broken off: this may have been carried out; it had no Idempotency-Key, so that what is sent again may be carried out twice", got.errorText())
		assert.Empty(t, got.header.Get("Retry-After"), "clients send again what has it")
		broken := a.router
		a.router = whole
		assert.Equal(t, []int{1, 0, 0}, pushed())
		a.router = broken
		got = a.do("POST", "/v1/events", wantedEvent, key("k"))
		assert.Equal(t, http.StatusBadGateway, got.status)
		assert.Equal(t, "partitions: the answer of partition 0 has broken off: this may have been carried out; send the request again with the same Idempotency-Key", got.errorText())
		a.router = whole
		got = a.do("POST", "/v1/events", wantedEvent, key("k"))
		assert.Equal(t, http.StatusAccepted, got.status, got.body)
		assert.Equal(t, []int{2, 1, 1}, pushed(), "the first one announces it no second time")
	}
}

func TestAnEventThatPartitionsDoNotTakeIsToldWithWhatCanBeDone(t *testing.T) {
	accepts := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	a := divided(t, nil)
	a.remotes(func(p int) http.Handler { return []http.Handler{accepts, laterBy(503, "5"), laterBy(429, "30")}[p] })
	got := a.do("POST", "/v1/events", wantedEvent, key("k"))
	assert.Equal(t, "503 30", fmt.Sprint(got.status, " ", got.header.Get("Retry-After")))
	a.remotes(func(p int) http.Handler {
		return []http.Handler{accepts, laterBy(503, "5"), answering(422, "the key is another's")}[p]
	})
	got = a.do("POST", "/v1/events", wantedEvent, key("k"))
	assert.Equal(t, "502 ", fmt.Sprint(got.status, " ", got.header.Get("Retry-After")), "sent again it is refused again")
	assert.Equal(t, "partitions: [2 1] of 3 have refused the event, or may not have announced it, and the others have: the key is another's", got.errorText())
}

// nowhere takes an answer that is lost.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
