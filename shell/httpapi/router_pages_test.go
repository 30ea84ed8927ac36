package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
)

// The page token has a place in each partition, and comes in the head of a request, which a server bounds.
func TestAListGoesOnOverAsManyPartitionsAsThereMayBe(t *testing.T) {
	a := start(t, setup{partitions: store.MaxDivided})
	tenants := make([]string, store.MaxDivided)
	for n, missing := 0, len(tenants); missing > 0; n++ {
		name := fmt.Sprintf("t%d", n)
		if p := core.Partition(shell.Scope{Namespace: "ns", Tenant: name}, len(tenants)); tenants[p] == "" {
			tenants[p], missing = name, missing-1
		}
	}
	long := strings.Repeat("q", 128)
	for n := range 2 {
		for _, tenant := range tenants {
			got := a.do("POST", "/v1/actions", fmt.Sprintf(`{"namespace":"ns","tenant":%q,"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`, tenant))
			require.Equal(t, http.StatusCreated, got.status, got.body)
			got = a.do("PUT", fmt.Sprintf("/v1/queues/%s%d?namespace=ns&tenant=%s", long[:127], n, tenant), `{}`)
			require.Less(t, got.status, 300, got.body)
		}
	}
	bounds := httpapi.NewBounds(0, slog.New(slog.DiscardHandler))
	server := bounds.HTTPServer("", a.router)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, list := range []string{"actions", "queues"} {
		token, seen := "", map[string]bool{}
		for page := range 2 {
			resp, err := http.Get(fmt.Sprintf("http://%s/v1/%s?limit=%d&page_token=%s", l.Addr(), list, len(tenants), token))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%s, page %d, a token of %d bytes", list, page, len(token))
			var got map[string]json.RawMessage
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
			require.NoError(t, resp.Body.Close())
			var all []json.RawMessage
			require.NoError(t, json.Unmarshal(got[list], &all))
			for _, one := range all {
				seen[string(one)] = true
			}
			require.NoError(t, json.Unmarshal(got["next_page_token"], &token))
			t.Log(list, page, len(all), len(token))
		}
		assert.Len(t, seen, 2*len(tenants), list)
	}
}
