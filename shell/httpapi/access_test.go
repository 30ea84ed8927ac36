package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store/memory"
)

func TestWithoutATokenOnlyLoopbackMayBeListenedOn(t *testing.T) {
	tokens := []httpapi.Token{{Name: "a", SHA256: httpapi.HashToken("s")}}
	tests := map[string]struct {
		addr     string
		without  string // what the error says without a token; empty: it passes
		withThem string
	}{
		"IPv4 loopback":          {addr: "127.0.0.1:7460"},
		"another IPv4 loopback":  {addr: "127.8.9.10:0"},
		"IPv6 loopback":          {addr: "[::1]:7460"},
		"IPv4 in IPv6, loopback": {addr: "[::ffff:127.0.0.1]:7460"},
		"localhost":              {addr: "localhost:7460"},
		"all interfaces":         {addr: ":7460", without: "means all interfaces"},
		"all IPv4 interfaces":    {addr: "0.0.0.0:7460", without: "is 0.0.0.0, not loopback"},
		"all IPv6 interfaces":    {addr: "[::]:7460", without: "is ::, not loopback"},
		"a private address":      {addr: "192.168.1.7:7460", without: "is 192.168.1.7, not loopback"},
		"IPv4 in IPv6":           {addr: "[::ffff:192.168.1.7]:7460", without: "not loopback"},
		"a name of nobody":       {addr: "nobody.invalid:7460", without: "does not resolve"},
		"no port":                {addr: "127.0.0.1", without: "want host:port", withThem: "want host:port"},
		"nothing":                {addr: "", without: "want host:port", withThem: "want host:port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				tokens []httpapi.Token
				says   string
			}{{nil, test.without}, {tokens, test.withThem}} {
				err := httpapi.CheckListen(test.addr, c.tokens)
				if c.says == "" {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, c.says)
				}
			}
		})
	}
}

func TestWithoutATokenAPeerFromElsewhereIsRefused(t *testing.T) {
	a := start(t, setup{})
	from := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	for addr, status := range map[string]int{
		"127.0.0.1:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200, "@": 200,
		"192.168.1.7:5": 403, "[fe80::1%eth0]:5": 403, "[2001:db8::1]:5": 403,
	} {
		assert.Equal(t, status, a.do("GET", "/v1/info", nil, from(addr)).status, addr)
	}
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	engine, err := shell.New(shell.Options{Store: st})
	require.NoError(t, err)
	good := httpapi.Token{Name: "a", SHA256: httpapi.HashToken("s")}
	hook := func(a httpapi.WebhookAuth) func(*httpapi.Options) {
		return func(o *httpapi.Options) { o.Webhooks = map[string]httpapi.WebhookAuth{"r": a} }
	}
	tokens := func(t ...httpapi.Token) func(*httpapi.Options) {
		return func(o *httpapi.Options) { o.Tokens = t }
	}
	tests := map[string]struct {
		change func(*httpapi.Options)
		says   string
	}{
		"no engine":         {func(o *httpapi.Options) { o.Engine = nil }, "Options.Engine is nil"},
		"a negative limit":  {func(o *httpapi.Options) { o.MaxBodyBytes = -1 }, "Options.MaxBodyBytes is -1"},
		"a huge limit":      {func(o *httpapi.Options) { o.MaxBodyBytes = 1 << 40 }, "Options.MaxBodyBytes is 1099511627776"},
		"large webhooks":    {func(o *httpapi.Options) { o.MaxWebhookBytes = core.MaxWebhookBytes + 1 }, "Options.MaxWebhookBytes is 16777217"},
		"a negative time":   {func(o *httpapi.Options) { o.RequestTimeout = -1 }, "Options.RequestTimeout is -1ns"},
		"a token's name":    {tokens(httpapi.Token{SHA256: good.SHA256}), "Options.Tokens[0] \"\": Name must be"},
		"a bad name":        {tokens(httpapi.Token{Name: "a\nb", SHA256: good.SHA256}), "Name must be"},
		"the reserved name": {tokens(httpapi.Token{Name: "loopback", SHA256: good.SHA256}), "Name is reserved"},
		"a name twice":      {tokens(good, httpapi.Token{Name: "a", SHA256: httpapi.HashToken("t")}), "Name is given twice"},
		"a token twice":     {tokens(good, httpapi.Token{Name: "b", SHA256: good.SHA256}), `SHA256 is that of the token "a"`},
		"no hash":           {tokens(httpapi.Token{Name: "a"}), "SHA256 is the hash of nothing"},
		"an empty token":    {tokens(httpapi.Token{Name: "a", SHA256: httpapi.HashToken("")}), "SHA256 is the hash of nothing"},
		"a bound admin":     {tokens(httpapi.Token{Name: "a", SHA256: good.SHA256, Admin: true, Tools: []string{"x"}}), "Admin is bound"},
		"metrics and admin": {tokens(httpapi.Token{Name: "a", SHA256: good.SHA256, Admin: true, Metrics: true}), "Metrics excludes Admin: such a token reads /metrics and nothing else"},
		"metrics of some": {tokens(httpapi.Token{Name: "a", SHA256: good.SHA256, Metrics: true, ReadOnly: true, Namespaces: []string{"n"}, Tenants: []string{"t"}, Tools: []string{"x"}}),
			"Metrics excludes ReadOnly, Namespaces, Tenants, Tools"},
		"no scheme":          {hook(httpapi.WebhookAuth{}), `Options.Webhooks["r"].Scheme "" is unknown`},
		"no secret":          {hook(httpapi.WebhookAuth{Scheme: "github"}), "Secrets is empty"},
		"an empty secret":    {hook(httpapi.WebhookAuth{Scheme: "github", Secrets: []string{""}}), "Secrets[0] is empty"},
		"an empty key":       {hook(httpapi.WebhookAuth{Scheme: "standard", Secrets: []string{"whsec_"}}), "Secrets[0] is empty"},
		"no base64":          {hook(httpapi.WebhookAuth{Scheme: "standard", Secrets: []string{"p@ssword"}}), "Secrets[0] is not base64"},
		"a needless secret":  {hook(httpapi.WebhookAuth{Scheme: "none", Secrets: []string{"x"}}), "checks none"},
		"a route with slash": {func(o *httpapi.Options) { o.Webhooks = map[string]httpapi.WebhookAuth{"a/b": {Scheme: "none"}} }, `Options.Webhooks["a/b"]: the route must be`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := httpapi.Options{Engine: engine}
			test.change(&o)
			_, err := httpapi.New(o)
			require.ErrorContains(t, err, test.says)
			assert.NotContains(t, err.Error(), "p@ssword")
		})
	}
}

func TestATokenForMetricsReadsThemAndNothingElse(t *testing.T) {
	a := start(t, setup{api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{{Name: "prometheus", SHA256: httpapi.HashToken("m"), Metrics: true}, {Name: "viewer", SHA256: httpapi.HashToken("v"), ReadOnly: true}}
	}})
	for _, path := range []string{"/metrics", "/metrics?name[]=orrery_up"} {
		got := a.do("GET", path, nil, bearer("m"))
		assert.Equal(t, http.StatusOK, got.status, path)
		assert.Contains(t, got.body, "orrery_up 1", path)
		assert.Equal(t, http.StatusOK, a.do("HEAD", path, nil, bearer("m")).status, path)
	}
	for op := range described() {
		method, path, _ := strings.Cut(op, " ")
		if path == "/metrics" || path == "/healthz" || path == "/readyz" || path == "/openapi.json" || path == "/v1/webhooks/{route}" {
			continue // that any token, or none, may ask for
		}
		path = strings.NewReplacer("{id}", "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10", "{", "", "}", "").Replace(path)
		got := a.do(method, path, nil, bearer("m"))
		assert.Equal(t, http.StatusForbidden, got.status, op)
		assert.Equal(t, `token: "prometheus" may read /metrics and nothing else`, got.errorText(), op)
	}
}
