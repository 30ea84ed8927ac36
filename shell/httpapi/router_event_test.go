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
	assert.Contains(t, got.errorText(), "with an Idempotency-Key it could be sent again")
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
