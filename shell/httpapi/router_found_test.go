package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Who sees one of two machines of an id finds it. That says nothing to somebody who sees both.
func TestWhereAnIDIsFoundIsRememberedForThoseWhoSeeTheSame(t *testing.T) {
	const conflict = " is there in partitions 0 and 2: name namespace and tenant"
	tokens := map[string]httpapi.Token{
		"tenants": {Tenants: []string{tenantIn(0, 0), tenantIn(1, 0)}},
		"tool":    {Tools: []string{"echo"}},
		"query":   {},
	}
	for name, token := range tokens { // order-free: each is a case by itself
		token.Name, token.SHA256 = name, httpapi.HashToken(name+"-secret")
		a := divided(t, func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true}, token}
		})
		a.header = http.Header{"Authorization": {"Bearer root-secret"}}
		id := uuid.New()
		for tenant, tool := range map[string]string{tenantIn(0, 0): "echo", tenantIn(2, 0): "fail"} { // order-free: they are in two partitions
			body := `{"id":"` + id.String() + `","namespace":"ns","tenant":"` + tenant + `","tool_name":"` + tool + `","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`
			got := a.do("POST", "/v1/actions", body)
			require.Equal(t, http.StatusCreated, got.status, got.body)
		}
		path := "/v1/actions/" + id.String()
		asks := path
		if name == "query" {
			asks += "?tenant=" + tenantIn(0, 0)
		}
		for range 2 { // the second time it is remembered
			got := a.do("GET", asks, nil, bearer(name+"-secret"))
			require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
			assert.Equal(t, tenantIn(0, 0), got.str("tenant"), name)
		}
		if name != "query" {
			at, ok := a.router.RemembersFor(&token, "/v1/actions/", id.String())
			assert.True(t, ok, name)
			assert.Equal(t, 0, at, name)
		}
		for _, of := range []answer{a.do("POST", path+"/cancel", nil), a.do("GET", path, nil)} {
			assert.Equal(t, http.StatusConflict, of.status, "%s: %s", name, of.body)
			assert.Contains(t, of.errorText(), conflict, name)
		}
		bulk := a.bulk("/v1/actions/bulk", wire.BulkRequest{Act: "cancel", IDs: []string{id.String()}})
		assert.Equal(t, []int{http.StatusConflict}, statusesOf(bulk), name)
		assert.NotContains(t, a.do("GET", "/v1/actions", nil).body, "cancelled", "%s: nothing was done", name)
	}
}

func TestWhatABulkActDoesNotFindIsForgottenForThoseWhoSeeTheSame(t *testing.T) {
	token := httpapi.Token{Name: "some", SHA256: httpapi.HashToken("some-secret"), Tenants: []string{tenantIn(0, 0), tenantIn(1, 0)}}
	a := divided(t, func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "root", SHA256: httpapi.HashToken("root-secret"), Admin: true}, token}
	})
	a.header = http.Header{"Authorization": {"Bearer root-secret"}}
	id := a.yearly(tenantIn(1, 0))
	require.Equal(t, http.StatusOK, a.do("GET", "/v1/recurring/"+id, nil, bearer("some-secret")).status)
	at, ok := a.router.RemembersFor(&token, "/v1/recurring/", id)
	require.True(t, ok)
	require.Equal(t, 1, at)
	require.Equal(t, http.StatusNoContent, a.do("DELETE", "/v1/recurring/"+id, nil).status)
	bulk := a.bulk("/v1/recurring/bulk", wire.BulkRequest{Act: "trigger", IDs: []string{id}}, bearer("some-secret"))
	assert.Equal(t, []int{http.StatusNotFound}, statusesOf(bulk))
	_, ok = a.router.RemembersFor(&token, "/v1/recurring/", id)
	assert.False(t, ok)
}
