// Package httpcall is the built-in tool "http": it makes one HTTP request and
// gives back the answer (B7).
//
// The input is a JSON object, decoded strictly:
//
//	{
//	  "method": "POST",                default: POST with a body, else GET
//	  "url": "https://example.com/x",  http or https, without user and password
//	  "headers": {"X-Team": "ops"},
//	  "body": {"any": "JSON"},         sent as application/json
//	  "body_text": "text",             instead of body; sent as text/plain
//	  "timeout_seconds": 30,           for each attempt, to the last byte of the answer
//	  "total_timeout_seconds": 600,    for all attempts with the waits between
//	  "success_codes": [200, "3xx", "500-503"],   default: ["2xx"]
//	  "max_response_bytes": 65536,     of the body, at most 1 MiB; what is more is cut off
//	  "retries": 2,
//	  "idempotent": false,             the server takes a repeated request for the same one
//	  "follow_redirects": true
//	}
//
// An input without body and body_text sends the raw payload of the webhook that
// triggered the action, if one did, with its content type; not with GET, HEAD
// and OPTIONS. The result is
//
//	{"status":200,"headers":{"Content-Type":"…"},"body":…,"truncated":false,"attempts":1}
//
// where body is JSON when the answer says that it is and it is whole and valid,
// and text else, in which bytes that are not text are replaced. headers are a
// fixed selection; "url" is there too when redirects led elsewhere. The engine
// takes 1 MiB of a run, and text may be longer as JSON than it was: a body that
// has no room in that is cut further, as text, and truncated is true.
//
// An answer whose status is none of success_codes fails the action, and is its
// status.result nevertheless, in the same form: what a server says about a
// failure stands in the body. Where no whole answer came there is no result.
//
// # What is sent twice, and what is not
//
// An attempt is repeated, after a growing wait, when
//
//   - no byte of the request was sent: the name was not found, the connection
//     was refused, timed out or broke off before the request. Always safe.
//   - it was sent, and the connection broke or the attempt reached its time
//     limit before the whole answer was there: the server may have carried it
//     out, so only with the methods that RFC 9110 calls idempotent (GET, HEAD,
//     OPTIONS, PUT, DELETE), with "idempotent": true, or when the input brings
//     an Idempotency-Key of its own, which says the same.
//   - the answer is 429 or 503 with Retry-After, by which the server says that it
//     did not carry it out. The wait is the server's; beyond a minute the action
//     fails instead, and its own retry policy decides.
//
// No other answer is repeated, nor is a certificate that does not hold or an
// address that is not allowed. Each request that is not GET, HEAD or OPTIONS
// carries Idempotency-Key, which stays the same over all attempts of one run
// ([shell.Call].IdempotencyKey); the key alone does not count as the
// server's promise to honour it.
//
// # What a server is told
//
// Each request says whose action it carries out, by headers that begin with Orrery- and that an
// input cannot set: Action-Id, Attempt, Namespace, Tenant, Label, Due-At (RFC 3339), Cycle,
// Metadata and Labels (JSON objects in ASCII), and Occurrence, Recurring-Id and
// Recurring-Dispatch ("true") where a recurring action made the action (002). One that does not apply is left
// out, and one of more than 2 KiB is, too: Orrery-Left-Out names it. What is not printable ASCII
// is written %XX outside of the objects, and so is % itself.
//
// # Where a request may go
//
// An input may name any address but link-local ones (where clouds serve credentials), other
// addresses of clouds' metadata services, multicast, unspecified and reserved ones, which
// [Options.Allow] alone opens; and unless [Options.DenyPrivate] or [Options.DenyPrivateFor]
// forbids what is not public. A redirect may stay within the scope of the address that it comes
// from, or widen it, and no later one may narrow it again: from loopback to
// private to public, never back. The address is checked after the name was resolved, when the
// connection is made, and connections that were made under a wider rule are not
// reused under a narrower one, so neither a name that resolves differently the
// second time nor an open connection gets around it.
//
// A redirect from https to http is refused, at most ten are followed, and with
// the first that leads to another scheme, host or port all headers of the input
// are left behind except Accept, Accept-Language, Content-Language,
// Content-Type, User-Agent and Idempotency-Key. No Referer is sent. Proxies of
// the environment are not used, since they would hide the address.
//
// # Files
//
//   - httpcall.go: options; input.go: the input; request.go: the request;
//   - run.go: the attempts of one run; result.go: the answer; errors.go: what went wrong;
//   - transport.go, address.go: which addresses may be reached.
package httpcall

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// Name is the tool_name under which the tool is registered.
const Name = "http"

const (
	defaultTimeLimit   = 30 * time.Second
	defaultTotalLimit  = 10 * time.Minute
	defaultMaxResponse = 64 << 10
	defaultRetries     = 2
	defaultBackoff     = 500 * time.Millisecond

	maxTimeout    = 24 * time.Hour // what an input may ask for
	maxResponse   = 1 << 20        // what an input may ask for: results are journaled; see maxResult
	maxRetries    = 10
	maxBackoff    = 10 * time.Second
	maxRetryAfter = time.Minute
	maxRedirects  = 10
)

// Options are the operator's choices. The zero value is ready to use.
type Options struct {
	// TimeLimit bounds an attempt whose input has no timeout_seconds. Zero means
	// 30 seconds.
	TimeLimit time.Duration
	// TotalLimit bounds a run, with all attempts and waits, whose input has no
	// total_timeout_seconds. Zero means 10 minutes.
	TotalLimit time.Duration
	// MaxResponse is how many bytes of an answer's body are kept, after
	// decompression. An input may ask for another number, up to 1 MiB or
	// MaxResponse, whichever is more; a result has at most 1 MiB in any case. Zero
	// means 64 KiB.
	MaxResponse int
	// Retries is how often an attempt is repeated when the input has no retries.
	// Zero means 2, negative means never.
	Retries int
	// Backoff is the wait before the first repetition; it doubles with each, up to
	// 10 seconds, and the upper half of it is spread by the action's id and
	// attempt, so that many actions do not come back at once while each does the
	// same in every replay. Zero means half a second.
	Backoff time.Duration
	// DenyPrivate refuses every address that is not public, direct targets
	// included: for a daemon whose callers are not trusted with its network.
	DenyPrivate bool
	// DenyPrivateFor, if it is not nil, says for which actions DenyPrivate holds besides:
	// those of the namespaces and tenants for which it returns true. It must be safe for
	// concurrent use.
	DenyPrivateFor func(namespace, tenant string) bool
	// Allow are addresses that may be reached in any way, whatever the rules above
	// say, redirects included; link-local and reserved addresses, and those of the metadata
	// services of clouds, are reached in no other.
	Allow []netip.Prefix
	// TLS is the base of the TLS configuration, such as further root or client
	// certificates. At least TLS 1.2 is spoken. Nil means the system's roots.
	TLS *tls.Config
	// UserAgent is sent where the input sets none. Empty means "orrery".
	UserAgent string
}

// Tool makes HTTP requests. Make it with [New], and release its idle
// connections with [Tool.Close]. It is safe for concurrent use.
type Tool struct {
	o      Options // with its defaults; no retries are 0
	router *router
	client *http.Client
}

var (
	_ shell.Tool           = (*Tool)(nil)
	_ shell.InputValidator = (*Tool)(nil)
)

// New makes a Tool. The error names the option that cannot be right.
func New(o Options) (*Tool, error) {
	for name, d := range map[string]time.Duration{"TimeLimit": o.TimeLimit, "TotalLimit": o.TotalLimit, "Backoff": o.Backoff} {
		if d < 0 {
			return nil, fmt.Errorf("%s: %v is negative: want more than zero, or zero for the default", name, d)
		}
	}
	if o.MaxResponse < 0 {
		return nil, fmt.Errorf("MaxResponse: %d is negative: want more than zero, or zero for the default", o.MaxResponse)
	}
	if o.Retries > maxRetries {
		return nil, fmt.Errorf("Retries: %d is out of range: want at most %d", o.Retries, maxRetries)
	}
	if i := strings.IndexFunc(o.UserAgent, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return nil, fmt.Errorf("UserAgent: %q has a control character", o.UserAgent)
	}
	for i, p := range o.Allow {
		if !p.IsValid() {
			return nil, fmt.Errorf("Allow[%d]: is not a valid prefix: want one such as 10.0.0.0/8", i)
		}
	}
	o.TimeLimit, o.TotalLimit = cmp.Or(o.TimeLimit, defaultTimeLimit), cmp.Or(o.TotalLimit, defaultTotalLimit)
	o.MaxResponse = cmp.Or(o.MaxResponse, defaultMaxResponse)
	o.Retries = max(0, cmp.Or(o.Retries, defaultRetries))
	o.Backoff = cmp.Or(o.Backoff, defaultBackoff)
	o.UserAgent = cmp.Or(o.UserAgent, "orrery")
	r := newRouter(o)
	return &Tool{o: o, router: r, client: &http.Client{Transport: r, CheckRedirect: checkRedirect}}, nil
}

// NewTransport gives a transport that keeps the rules of Options.DenyPrivate, Allow
// and TLS, for a client other than this tool: the address is checked when the
// connection is made. The client must not follow redirects: their rules are the
// tool's alone. The error names the option that cannot be right.
func NewTransport(o Options) (http.RoundTripper, error) {
	t, err := New(o)
	if err != nil {
		return nil, err
	}
	return t.router, nil
}

// Close releases the connections that are kept for later requests. Runs that
// are under way go on; close again after them.
func (t *Tool) Close() error {
	t.router.CloseIdleConnections()
	return nil
}

func newRouter(o Options) *router {
	r := &router{direct: loopback, classify: classify, allow: slices.Clone(o.Allow)}
	if o.DenyPrivate {
		r.direct = public
	}
	for i := range r.transports {
		dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, ControlContext: r.control(scope(i))}
		tlsConfig := cmp.Or(o.TLS, &tls.Config{}).Clone()
		tlsConfig.MinVersion = max(tlsConfig.MinVersion, tls.VersionTLS12)
		r.transports[i] = &http.Transport{
			Proxy:                  nil,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConns:           100,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 256 << 10,
			ForceAttemptHTTP2:      true,
		}
	}
	return r
}
