package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func inPostgres(o *httpapi.Options) { o.Store = "postgres" }

func TestReadinessAndTheSystemNameTheStore(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) { o.Store = "file" }})
	const alone = `{"kind":"file","partitions":1,"owned":1}`
	assert.JSONEq(t, `{"status":"ready","store":`+alone+`}`, a.do("GET", "/readyz", nil).body)
	assert.Contains(t, a.do("GET", "/v1/system", nil).body, `"store":`+alone)
	assert.JSONEq(t, `{"status":"ok"}`, a.do("GET", "/healthz", nil).body)
}

func TestAServerThatWasNotToldItsStoreNamesNone(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		a := start(t, setup{partitions: partitions})
		assert.JSONEq(t, `{"status":"ready"}`, a.do("GET", "/readyz", nil).body, "%d partitions", partitions)
		assert.NotContains(t, a.do("GET", "/v1/system", nil).object(), "store", "%d partitions", partitions)
	}
}

// Of three partitions the process that is asked owns 0 and 2.
func TestReadinessAndTheSystemTellHowManyPartitionsTheProcessOwns(t *testing.T) {
	a := divided(t, inPostgres)
	const two = `{"kind":"postgres","partitions":3,"owned":2}`
	assert.JSONEq(t, `{"status":"ready","store":`+two+`}`, a.do("GET", "/readyz", nil).body)
	assert.Contains(t, a.do("GET", "/v1/system", nil).body, `"store":`+two)
	of := a.do("GET", "/v1/system", nil, with(httpapi.HeaderPartition, "0"))
	assert.Equal(t, http.StatusOK, of.status, of.body)
	assert.NotContains(t, of.object(), "store", "one partition does not know how many its process owns")
}
