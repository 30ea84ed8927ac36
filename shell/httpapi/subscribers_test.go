package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// The subscribers of orrery/notify hear the events of all tenants.
func TestOnlyWhoIsBoundToNothingSubscribesWhereAllTenantsAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "notify", SHA256: httpapi.HashToken("secret-notify"), Namespaces: []string{core.NotifyNamespace}},
				{Name: "root", SHA256: httpapi.HashToken("secret-root"), Admin: true},
			}
		}})
		const path, body = "/v1/subscribers/s?namespace=orrery&tenant=notify", `{"match":{"category":"deploy"},"do":{"push":{"name":"q"}}}`
		set := fmt.Sprintf(`{"entries":[{"file":"a.toml","subscriber":{"namespace":"orrery","tenant":"notify","name":"s",%s}]}`, body[1:])
		for _, request := range [][3]string{{"PUT", path, body}, {"DELETE", path, ""}, {"POST", "/v1/sets/ours", set}} {
			var sent any
			if request[2] != "" {
				sent = request[2]
			}
			r := a.do(request[0], request[1], sent, bearer("secret-notify"))
			assert.Equal(t, http.StatusForbidden, r.status, "%s: %s", request[0], r.body)
			assert.Contains(t, r.errorText(), "the subscribers of orrery/notify hear the events of all tenants: that takes a token that is not bound")
		}
		assert.Equal(t, http.StatusOK, a.do("PUT", path, body, bearer("secret-root")).status)
		assert.Equal(t, http.StatusOK, a.do("PUT", "/v1/subscribers/s?tenant=other", body, bearer("secret-notify")).status, "another tenant of the namespace")
	})
}

// Pages end with a tenant, and together have each subscriber once.
func TestSubscribersAreListedByPagesOfWholeTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) {
			o.Tokens = []httpapi.Token{
				{Name: "two", SHA256: httpapi.HashToken("secret-two"), Namespaces: []string{"ns"}, Tenants: []string{"t1", "t3"}},
				{Name: "root", SHA256: httpapi.HashToken("secret-root"), Admin: true},
			}
		}})
		for tenant := range 5 {
			for n := range 3 {
				<-time.After(time.Millisecond)
				r := a.do("PUT", fmt.Sprintf("/v1/subscribers/s%d?namespace=ns&tenant=t%d", n, tenant), `{"match":{"category":"deploy"},"do":{"push":{"name":"q"}}}`, bearer("secret-root"))
				require.Equal(t, http.StatusOK, r.status, r.body)
			}
		}
		pages := func(token, query string) (names []string) {
			for next := ""; ; {
				var page wire.SubscriberList
				r := a.do("GET", "/v1/subscribers?limit=4"+query+"&page_token="+next, nil, bearer(token))
				require.Equal(t, http.StatusOK, r.status, r.body)
				require.NoError(t, json.Unmarshal([]byte(r.body), &page))
				for _, s := range page.Subscribers {
					names = append(names, s.Tenant+"/"+s.Name)
				}
				if next = page.NextPageToken; next == "" {
					return names
				}
				names = append(names, "|")
			}
		}
		assert.Equal(t, []string{"t4/s0", "t4/s1", "t4/s2", "t3/s0", "t3/s1", "t3/s2", "|", "t2/s0", "t2/s1", "t2/s2", "t1/s0", "t1/s1", "t1/s2", "|", "t0/s0", "t0/s1", "t0/s2"}, withoutEmptyPages(pages("secret-root", "")))
		assert.Equal(t, []string{"t1/s0", "t1/s1", "t1/s2", "t3/s0", "t3/s1", "t3/s2"}, withoutEmptyPages(pages("secret-two", "&order=oldest")))
		assert.Equal(t, []string{"t2/s0", "t2/s1", "t2/s2"}, withoutEmptyPages(pages("secret-root", "&tenant=t2")))
	})
}

// withoutEmptyPages drops what marks the end of a page behind which there is nothing.
func withoutEmptyPages(names []string) []string {
	for len(names) > 0 && names[len(names)-1] == "|" {
		names = names[:len(names)-1]
	}
	return names
}
