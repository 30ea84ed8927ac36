package httpcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// AddressError says that a connection was not made because of where it leads.
type AddressError struct {
	Addr     netip.Addr
	Word     string // what the address is: "loopback", "link-local"
	Redirect bool   // a redirect led there
	never    bool   // no rule but Options.Allow opens it
}

// Error names the address and the rule.
func (e *AddressError) Error() string {
	if e.Redirect {
		return fmt.Sprintf("address %v is %s: a redirect must not lead there", e.Addr, e.Word)
	}
	rule := "only public addresses are allowed here"
	if e.never {
		rule = "such an address is not reached"
	}
	return fmt.Sprintf("address %v is %s: %s, unless the tool's allow names it: allow = [%q]", e.Addr, e.Word, rule, netip.PrefixFrom(e.Addr.WithZone(""), e.Addr.BitLen()))
}

// router sends each request over the transport whose connections reach no
// further than the request may.
type router struct {
	direct     scope                        // how far a direct target may be
	transports [special + 1]*http.Transport // by the narrowest scope that they connect to
	allow      []netip.Prefix
	classify   func(netip.Addr) (scope, string)
}

// RoundTrip implements [http.RoundTripper].
func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	reach := r.reachOf(req.Context())
	if req.Response != nil { // net/http's sign that this request follows a redirect
		reach = min(reach, tripOf(req.Context()).origin())
	}
	return r.transports[reach].RoundTrip(req)
}

// reachOf is how far a direct target of a request may be.
func (r *router) reachOf(ctx context.Context) scope {
	if tripOf(ctx).public {
		return public
	}
	return r.direct
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] release what is kept
// for later requests.
func (r *router) CloseIdleConnections() {
	for _, tr := range r.transports {
		tr.CloseIdleConnections()
	}
}

// control checks each address when the socket is made, just before it is used.
func (r *router) control(reach scope) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q is not understood: %w", address, err)
		}
		addr := ap.Addr().Unmap()
		if slices.ContainsFunc(r.allow, func(p netip.Prefix) bool { return p.Contains(addr.WithZone("")) }) {
			return nil
		}
		if s, word := r.classify(addr); s > reach {
			return &AddressError{Addr: addr, Word: word, Redirect: reach < r.reachOf(ctx) || tripOf(ctx).redirected.Load(), never: s == special}
		}
		return nil
	}
}

// trip is what is known of one attempt while it is under way. It travels in the
// request's context, since net/http hands a redirect's request on with that.
type trip struct {
	follow   bool
	public   bool // only public addresses are reached, or what is allowed
	classify func(netip.Addr) (scope, string)

	sent       atomic.Bool // the head of a request was written: a server may act on it
	redirected atomic.Bool

	mu    sync.Mutex
	known bool  // there was a connection
	scope scope // the widest of the addresses that were connected to
}

type tripKey struct{}

func tripOf(ctx context.Context) *trip {
	t, ok := ctx.Value(tripKey{}).(*trip)
	if !ok { // a dial that net/http goes on with after its request has gone
		return &trip{}
	}
	return t
}

// watch gives a context that carries t and tells it what happens.
func (t *trip) watch(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, tripKey{}, t)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(info httptrace.GotConnInfo) { t.connected(info.Conn.RemoteAddr()) },
		WroteHeaders: func() { t.sent.Store(true) },
	})
}

// connected notes a connection's scope. An address of unknown form counts as
// public: the strictest for what follows. The widest counts, not the last or
// the first: else a public server could send a request from this site back
// into it.
func (t *trip) connected(remote net.Addr) {
	to := public
	if tcp, ok := remote.(*net.TCPAddr); ok {
		to, _ = t.classify(tcp.AddrPort().Addr().Unmap())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known || to < t.scope {
		t.known, t.scope = true, to
	}
}

// origin gives the scope from which a redirect comes.
func (t *trip) origin() scope {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scope == special {
		return private // a link-local peer is a neighbour, not this machine
	}
	return t.scope
}

// errRedirect is a redirect that is not followed; asking again would not help.
var errRedirect = errors.New("redirect refused")

// kept are the headers of the input that go along to another origin.
var kept = []string{"Accept", "Accept-Language", "Content-Language", "Content-Type", "User-Agent", keyHeader}

// checkRedirect is the client's policy: see the package's documentation.
func checkRedirect(req *http.Request, via []*http.Request) error {
	t := tripOf(req.Context())
	if !t.follow {
		return http.ErrUseLastResponse
	}
	last := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d in a row", errRedirect, maxRedirects)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads to scheme %q", errRedirect, clip.Text(req.URL.Scheme, maxQuoted))
	case last.Scheme == "https" && req.URL.Scheme == "http":
		return fmt.Errorf("%w: it leads from https to http", errRedirect)
	}
	t.redirected.Store(true)
	req.Header.Del("Referer") // its query may hold a secret
	origin := originOf(via[0].URL)
	away := func(r *http.Request) bool { return originOf(r.URL) != origin }
	if away(req) || slices.ContainsFunc(via, away) {
		for name := range req.Header {
			if !slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, name) }) {
				delete(req.Header, name)
			}
		}
	}
	return nil
}

func originOf(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
