package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// A daemon that stands by answers every request by asking the one that works. One that changes something carries an Idempotency-Key,
// its sender's or one that is made here: so it is sent again, to whoever works then, if the one that worked dies before it has answered, and
// what it changes is changed once.

// forwardedHeader names the daemon that passes a request on: it is not passed on again.
const forwardedHeader = "Orrery-Forwarded"

// forwardFor bounds how long a request waits for a daemon that works: a lease and what follows fit in the default.
const forwardFor = 15 * time.Second

// Bounds of what a daemon that stands by passes on at a time: more is answered with 503. Bodies beyond the bytes are not kept, and sent once.
const (
	mostForwarded = 2048
	mostKept      = 64 << 20
)

// forwarder passes requests on.
type forwarder struct {
	name    string
	owner   func() (o owner, changed <-chan struct{})
	open    bool           // without tokens: whoever is on this machine may do everything
	proxies []netip.Prefix // whose word on where a request comes from is taken
	most    int64          // bytes of a body that is kept to be sent again
	log     *slog.Logger

	proxy *httputil.ReverseProxy
	base  *http.Transport
	slots chan struct{}
	kept  atomic.Int64 // bytes
}

// owner is the daemon that works.
type owner struct {
	name, address string // address "": nobody works
}

// start makes the rest of it.
func (f *forwarder) start() *forwarder {
	f.base = http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the package says what it is
	f.base.Proxy, f.base.MaxIdleConnsPerHost, f.base.DisableCompression = nil, 64, true
	f.slots = make(chan struct{}, mostForwarded)
	f.proxy = &httputil.ReverseProxy{
		Rewrite: f.rewrite, Transport: f, FlushInterval: -1, ErrorHandler: f.failed,
		ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
	return f
}

// rewrite leaves a request as it came, but for its way: whoever works decides by it who asks, and from where. It trusts what this daemon
// says, so a word on that of somebody else is passed on only if this one trusts it; without tokens always, since then it is a reason to refuse.
func (f *forwarder) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
	for name, v := range r.In.Header {
		if !saysWhere(name) {
			continue
		}
		if f.open || f.trusts(r.In.RemoteAddr) {
			r.Out.Header[name] = v
		} else {
			r.Out.Header.Del(name)
		}
	}
	r.Out.Header.Set(forwardedHeader, f.name)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "owner" // see RoundTrip
}

// saysWhere reports whether a header tells where a request came from.
func saysWhere(name string) bool {
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}

func (f *forwarder) trusts(peer string) bool {
	from, err := netip.ParseAddrPort(peer)
	return err == nil && slices.ContainsFunc(f.proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if by := r.Header.Get(forwardedHeader); by != "" {
		unavailable(w, "this daemon stands by, too, and the one that passed the request on does not know yet who works: nothing was done")
		return
	}
	if f.open && !r.ProtoAtLeast(1, 1) { // nginx speaks it, and no browser: see httpapi
		problem(w, http.StatusForbidden, "HTTP/1.0: the request comes through a proxy, and no token is configured: everybody who reaches the proxy would be an administrator; configure a token")
		return
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		unavailable(w, "this daemon passes on as many requests as it may: nothing was done")
		return
	}
	r, bytes, err := f.keepBody(w, r)
	defer f.kept.Add(-bytes)
	if err != nil {
		problem(w, http.StatusBadRequest, "body: the connection ended before the whole body arrived")
		return
	}
	f.proxy.ServeHTTP(w, r)
}

type keptKey struct{}

// kept is the body of a request, so that it can be sent again.
type kept []byte

// bodyTime is how long a body that is kept may take to arrive.
const bodyTime = time.Minute

// keepBody keeps the body of a request to the API that changes something, if it is not too large, and gives the request a key. The page's
// forms have none: they are sent once. bytes is what is to be given back.
func (f *forwarder) keepBody(w http.ResponseWriter, r *http.Request) (_ *http.Request, bytesKept int64, err error) {
	if isRead(r) || !strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/v1/webhooks/") || r.ContentLength > f.most || r.ContentLength < 0 {
		return r, 0, nil
	}
	if f.kept.Add(r.ContentLength) > mostKept {
		return r, r.ContentLength, nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // a recorder of tests has none
	all, err := io.ReadAll(io.LimitReader(r.Body, r.ContentLength))
	if err == nil && int64(len(all)) < r.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return r, r.ContentLength, err
	}
	out := r.WithContext(context.WithValue(r.Context(), keptKey{}, kept(all)))
	out.Body = io.NopCloser(bytes.NewReader(all))
	if out.Header.Get("Idempotency-Key") == "" {
		out.Header.Set("Idempotency-Key", "forwarded-"+uuid.NewString())
	}
	return out, r.ContentLength, nil
}

// errNobody: no daemon works.
var errNobody = errors.New("no daemon works on the database at the moment")

// RoundTrip implements [http.RoundTripper]: it sends the request to whoever works, and again, once that is another one or
// answers again, where that does no harm. An attempt that waits for one that works no more is given up.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	body, isKept := r.Context().Value(keptKey{}).(kept)
	bodiless := r.Body == nil || r.Body == http.NoBody
	harmless := isKept || bodiless && isRead(r)
	var until time.Time // from the first failure on
	for {
		o, changed := f.owner()
		err := errNobody
		if o.address != "" {
			var resp *http.Response
			if resp, err = f.attempt(r, o, changed, body, isKept, harmless); err == nil {
				return resp, nil
			}
		}
		if until.IsZero() {
			until = time.Now().Add(forwardFor)
		}
		// What is left of a body that was not kept nobody knows, once it was begun.
		if ok := harmless || errors.Is(err, errNobody) || bodiless && notSent(err); !ok || r.Context().Err() != nil || !again(r.Context(), changed, until) {
			return nil, err
		}
	}
}

// attempt sends the request once. If it does no harm to send it again, it is given up when another one works before an answer has begun.
func (f *forwarder) attempt(r *http.Request, o owner, changed <-chan struct{}, body kept, isKept, harmless bool) (*http.Response, error) {
	if !harmless {
		return f.send(r, o, body, isKept)
	}
	ctx, cancel := context.WithCancel(r.Context())
	answered := make(chan struct{})
	go func() {
		select {
		case <-changed:
			cancel()
		case <-answered:
		case <-ctx.Done():
		}
	}()
	resp, err := f.send(r.WithContext(ctx), o, body, isKept)
	close(answered)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = ending{resp.Body, cancel}
	return resp, nil
}

// ending is a body with what ends with it.
type ending struct {
	io.ReadCloser
	end func()
}

func (e ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// again waits until it is worth another attempt; false: there is no time left.
func again(ctx context.Context, changed <-chan struct{}, until time.Time) bool {
	pause := time.NewTimer(min(250*time.Millisecond, time.Until(until)))
	defer pause.Stop()
	select {
	case <-changed:
	case <-pause.C:
	case <-ctx.Done():
		return false
	}
	return time.Now().Before(until)
}

func (f *forwarder) send(r *http.Request, o owner, body kept, isKept bool) (*http.Response, error) {
	to, err := url.Parse(o.address)
	if err != nil {
		return nil, fmt.Errorf("the address of %s: %w", o.name, err)
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = to.Scheme, to.Host
	if isKept {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return f.base.RoundTrip(out)
}

// notSent reports whether a request has certainly not reached anybody.
func notSent(err error) bool {
	op, dialed := errors.AsType[*net.OpError](err)
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return errors.Is(err, errNobody) || dialed && op.Op == "dial" || distrusted
}

// failed answers where nobody has.
func (f *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	o, _ := f.owner()
	f.log.Warn("a request could not be passed on", "method", r.Method, "path", r.URL.Path, "to", o.name, "at", o.address, "error", err)
	if notSent(err) || isRead(r) {
		unavailable(w, "the daemon that works does not answer, or none does at the moment: nothing was done")
		return
	}
	problem(w, http.StatusBadGateway, "the daemon that works did not answer: this may have been carried out, and can be sent again with the same Idempotency-Key if it had one")
}

func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, why)
}

// problem answers as the API does.
func problem(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the client may have gone
}
