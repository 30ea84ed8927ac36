package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABodyThatNamesATenantWhichTheQueryNamesIsToldWhereItIsGiven(t *testing.T) {
	a := start(t, setup{})
	for _, tt := range []struct{ method, target, body, says string }{
		{"POST", "/v1/queues/q/items", `{"data":1,"tenant":"eve"}`, "tenant: is given in the query, and not in the body: add ?tenant= to the URL"},
		{"POST", "/v1/queues/q/items", `{"data":1,"namespace":"n"}`, "namespace: is given in the query, and not in the body: add ?namespace= to the URL"},
		{"POST", "/v1/queues/q/items", `{"data":1,"tenants":"n"}`, "tenants: unknown field: use one of "},
		{"POST", "/v1/queues/q/items/batch", `{"tenant":"eve","items":[]}`, "tenant: is given in the query"},
		{"POST", "/v1/queues/q/items/batch", `{"items":[{"tenant":"eve"}]}`, "items[0].tenant: is given in the query"},
		{"POST", "/v1/queues/q/take", `{"holder":"h","tenant":"eve"}`, "tenant: is given in the query"},
		{"PUT", "/v1/queues/q", `{"tenant":"eve"}`, "tenant: is given in the query"},
		{"POST", "/v1/queues/q/items/0193f2a4-5b6c-7d8e-9f01-23456789abcd/complete", `{"holder":"h","attempt":1,"tenant":"eve"}`, "tenant: is given in the query"},
		{"POST", "/v1/locks/l/acquire", `{"holder":"h","ttl_ms":1000,"tenant":"eve"}`, "tenant: is given in the query"},
	} {
		got := a.do(tt.method, tt.target, tt.body)
		assert.Equal(t, http.StatusBadRequest, got.status, tt.target)
		assert.Contains(t, got.errorText(), tt.says, tt.target)
	}
}
