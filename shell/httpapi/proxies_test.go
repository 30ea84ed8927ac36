package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// throughProxies are requests as proxies on this machine pass them on.
var throughProxies = map[string]func(*http.Request){
	"as most do":       with("X-Forwarded-For", "192.0.2.1"),
	"as RFC 7239 says": with("Forwarded", "for=192.0.2.1"),
	"nginx as it is":   func(r *http.Request) { r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0 },
	"a cache":          with("Via", "1.1 cache"),
	"with an address":  with("X-Real-Ip", "192.0.2.1"),
}

func TestWithoutATokenAProxyOnThisMachineMakesNobodyAnAdministrator(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Webhooks = map[string]httpapi.WebhookAuth{"open": {Scheme: httpapi.SchemeNone}}
	}})
	for name, proxy := range throughProxies {
		for _, asked := range []string{"GET /v1/actions", "GET /v1/info", "GET /v1/backup", "GET /metrics", "POST /v1/queues/q/items"} {
			method, path, _ := strings.Cut(asked, " ")
			got := a.do(method, path, nil, proxy)
			assert.Equal(t, http.StatusForbidden, got.status, "%s: %s", name, asked)
			assert.Contains(t, got.errorText(), "the request comes through a proxy, and no token is configured", "%s: %s", name, asked)
		}
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil).status, "who is on this machine needs no token")
}

func TestWhatTakesNoTokenIsServedThroughAProxyToo(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Webhooks = map[string]httpapi.WebhookAuth{"open": {Scheme: httpapi.SchemeNone}}
	}})
	for name, proxy := range throughProxies {
		for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
			assert.Equal(t, http.StatusOK, a.do("GET", path, nil, proxy).status, "%s: %s", name, path)
		}
		assert.Less(t, a.do("POST", "/v1/webhooks/open", "{}", proxy).status, 300, "%s: the signature shows who sends a webhook", name)
	}
}

func TestWithATokenAProxyMayStandBetween(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "ops", SHA256: httpapi.HashToken("ops-secret"), Admin: true}}
	}})
	for name, proxy := range throughProxies {
		assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, proxy, bearer("ops-secret")).status, name)
		assert.Equal(t, http.StatusUnauthorized, a.do("GET", "/v1/actions", nil, proxy).status, name)
	}
}
