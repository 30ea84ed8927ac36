package httpcall_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpcall"
)

// Addresses of this machine that stand for others. Linux has all of 127/8.
var standIns = map[string]httpcall.Scope{
	"127.0.0.1": httpcall.Public, "127.0.0.2": httpcall.Private, "127.0.0.3": httpcall.Loopback, "127.0.0.4": httpcall.Special,
	"127.0.0.5": httpcall.Public,
}

func standIn(a netip.Addr) (httpcall.Scope, string) { return standIns[a.String()], "off limits" }

func serveOn(t *testing.T, ip string, h http.HandlerFunc) *httptest.Server {
	l, err := net.Listen("tcp", ip+":0")
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestARedirectNeverNarrowsTheScope(t *testing.T) {
	for from, fromScope := range standIns {
		for to, toScope := range standIns {
			// A link-local origin is reached only if the operator allows it. It is a neighbour: it
			// counts as private.
			var o httpcall.Options
			if fromScope == httpcall.Special {
				o.Allow = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(from), 32)}
			}
			allowed := from == to && fromScope == httpcall.Special || toScope <= min(fromScope, httpcall.Private) || fromScope == httpcall.Loopback && toScope == httpcall.Loopback
			t.Run(from+" to "+to, func(t *testing.T) {
				var hits atomic.Int32
				target := serveOn(t, to, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
				origin := serveOn(t, from, func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, target.URL+"/in?q=s", http.StatusFound)
				})
				tool := newTool(t, o)
				tool.SetClassify(standIn)
				// A kept connection to the target must not open the way.
				_, err := run(t, tool, in("url", target.URL))
				require.Equal(t, toScope == httpcall.Special && from != to, err != nil, "%v", err)
				for range 2 {
					hits.Store(0)
					got, err := run(t, tool, in("url", origin.URL, "retries", 3))
					if allowed {
						require.NoError(t, err)
						assert.Contains(t, got, `"url":"`+target.URL+`/in"`)
						assert.EqualValues(t, 1, hits.Load())
						continue
					}
					require.EqualError(t, err, fmt.Sprintf("GET %s: redirected to %s/in: address %s is off limits: a redirect must not lead there", origin.URL, target.URL, to))
					assert.Zero(t, hits.Load())
				}
			})
		}
	}
}

// redirectTo redirects each request to a URL.
func redirectTo(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
}

// refusesChain checks that a request which is redirected from the first address to the
// next never reaches the last.
func refusesChain(t *testing.T, first, second, last string) {
	t.Helper()
	var hits atomic.Int32
	inner := serveOn(t, last, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	outer := serveOn(t, first, redirectTo(serveOn(t, second, redirectTo(inner.URL)).URL))
	tool := newTool(t, httpcall.Options{})
	tool.SetClassify(standIn)
	_, err := run(t, tool, in("url", outer.URL))
	var address *httpcall.AddressError
	require.ErrorAs(t, err, &address)
	assert.Zero(t, hits.Load())
}

func TestTheRuleHoldsOverAChainOfRedirects(t *testing.T) {
	refusesChain(t, "127.0.0.1", "127.0.0.5", "127.0.0.3")
}

func TestAPublicServerCannotSendARequestBackIntoTheSiteItCameFrom(t *testing.T) {
	refusesChain(t, "127.0.0.2", "127.0.0.1", "127.0.0.2")
}

func TestARedirectByNameIsCheckedAfterTheNameWasResolved(t *testing.T) {
	var hits atomic.Int32
	inner := serveOn(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	named := strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)
	first := serveOn(t, "127.0.0.5", redirectTo(named))
	tool := newTool(t, httpcall.Options{})
	tool.SetClassify(func(a netip.Addr) (httpcall.Scope, string) {
		if a == netip.MustParseAddr("127.0.0.5") {
			return httpcall.Public, "public"
		}
		return httpcall.Classify(a)
	})
	_, err := run(t, tool, in("url", first.URL))
	var address *httpcall.AddressError
	require.ErrorAs(t, err, &address)
	assert.Equal(t, "loopback", address.Word)
	assert.Zero(t, hits.Load())
}

func TestAnAllowedAddressMayBeReachedByRedirectToo(t *testing.T) {
	inner := serveOn(t, "127.0.0.3", func(http.ResponseWriter, *http.Request) {})
	first := serveOn(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner.URL, http.StatusFound) })
	tool := newTool(t, httpcall.Options{DenyPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}})
	tool.SetClassify(standIn)
	_, err := run(t, tool, in("url", first.URL))
	assert.NoError(t, err)
}

func TestSecretsOfTheInputStayWithItsHost(t *testing.T) {
	headers := make(chan http.Header, 10)
	note := func(w http.ResponseWriter, r *http.Request, next string) {
		headers <- r.Header
		if next != "" {
			http.Redirect(w, r, next, http.StatusTemporaryRedirect)
		}
	}
	var first *httptest.Server
	other := serveOn(t, "127.0.0.5", func(w http.ResponseWriter, r *http.Request) { note(w, r, first.URL+"/back") })
	first = serveOn(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		note(w, r, map[string]string{"/": "/same", "/same": other.URL, "/back": ""}[r.URL.Path])
	})
	tool := newTool(t, httpcall.Options{})
	_, err := run(t, tool, in("url", first.URL+"/?token=secret", "method", "POST", "body", m{"a": 1},
		"headers", m{"Authorization": "Bearer s", "X-Api-Key": "s", "Cookie": "s=1", "Accept": "text/plain"}))
	require.NoError(t, err)
	for _, where := range []string{"start", "same host", "other host", "back again"} {
		h := <-headers
		away := where == "other host" || where == "back again"
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie"} {
			assert.Equal(t, away, h.Get(name) == "", "%s at the %s", name, where)
		}
		assert.Empty(t, h.Get("Referer"), where)
		assert.Equal(t, "application/json", h.Get("Content-Type"), where)
		assert.Equal(t, "text/plain", h.Get("Accept"), where)
		assert.Equal(t, "key/1", h.Get("Idempotency-Key"), where)
	}
}

func TestRedirectsThatAreNotFollowed(t *testing.T) {
	var count atomic.Int32
	s := serveOn(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		to := map[string]string{"/file": "file:///etc/passwd", "/loop": "/loop", "/once": "/end", "/end": ""}[r.URL.Path]
		if to == "" {
			_, _ = io.WriteString(w, "the end")
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	tool := newTool(t, httpcall.Options{})
	_, err := run(t, tool, in("url", s.URL+"/file"))
	assert.EqualError(t, err, "GET "+s.URL+`/file: redirect refused: it leads to scheme "file"`)

	count.Store(0)
	_, err = run(t, tool, in("url", s.URL+"/loop"))
	assert.ErrorContains(t, err, "redirect refused: more than 10 in a row")
	assert.EqualValues(t, 11, count.Load())

	_, err = run(t, tool, in("url", s.URL+"/once", "follow_redirects", false))
	assert.ErrorContains(t, err, "/once answered 302 Found")
	got, err := run(t, tool, in("url", s.URL+"/once", "follow_redirects", false, "success_codes", []any{"3xx"}))
	require.NoError(t, err)
	assert.Contains(t, got, `"Location":"/end"`)
	got, err = run(t, tool, in("url", s.URL+"/once"))
	require.NoError(t, err)
	assert.Contains(t, got, `"the end"`)
}

func TestARedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	var hits atomic.Int32
	plain := serveOn(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	s := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(s.Close)
	tool := newTool(t, httpcall.Options{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig})
	_, err := run(t, tool, in("url", s.URL))
	require.EqualError(t, err, "GET "+s.URL+": redirect refused: it leads from https to http")
	assert.Zero(t, hits.Load())
}
