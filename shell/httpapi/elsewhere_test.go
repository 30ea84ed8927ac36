package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// No router stands before the API, which would have found the partition.
func TestWhatIsOfATenantOfAnotherPartitionIsMisdirected(t *testing.T) {
	home := core.Partition(shell.Scope{Namespace: "ns", Tenant: "t1"}, 2)
	a := start(t, setup{engine: func(o *shell.Options) { o.Partition, o.Partitions = 1-home, 2 }})
	got := httptest.NewRecorder() // what several partitions answer is described for all paths together
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/queues/mail/items?namespace=ns&tenant=t1", strings.NewReader(`{"data": 1}`))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	r.Header.Set("Content-Type", "application/json")
	a.handler().ServeHTTP(got, r)
	assert.Equal(t, http.StatusMisdirectedRequest, got.Code)
	assert.Contains(t, got.Body.String(), `the tenant \"t1\" of namespace \"ns\" lives in partition `)
}
