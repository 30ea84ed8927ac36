package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
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

// forwarder passes requests on.
type forwarder struct {
	name  string
	owner func() (o owner, changed <-chan struct{})
	proxy *httputil.ReverseProxy
	base  http.RoundTripper
	most  int64 // bytes of a body that is kept to be sent again
	log   *slog.Logger
}

// owner is the daemon that works.
type owner struct {
	name, address string // address "": nobody works
}

func newForwarder(name string, most int64, owner func() (owner, <-chan struct{}), log *slog.Logger) *forwarder {
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the package says what it is
	base.Proxy, base.MaxIdleConnsPerHost, base.DisableCompression = nil, 64, true
	f := &forwarder{name: name, owner: owner, base: base, most: most, log: log}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: f.rewrite, Transport: f, FlushInterval: -1, ErrorHandler: f.failed,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return f
}

// rewrite leaves a request as it came, but for its way: whoever works decides by it who asks, and from where.
func (f *forwarder) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} { // which Rewrite is called without
		if v := r.In.Header[name]; len(v) > 0 {
			r.Out.Header[name] = v
		}
	}
	r.Out.Header.Set(forwardedHeader, f.name)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "owner" // see RoundTrip
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if by := r.Header.Get(forwardedHeader); by != "" {
		unavailable(w, "this daemon stands by, too, and the one that passed the request on does not know yet who works: nothing was done")
		return
	}
	r, err := f.keepBody(r)
	if err != nil {
		problem(w, http.StatusBadRequest, "body: the connection ended before the whole body arrived")
		return
	}
	f.proxy.ServeHTTP(w, r)
}

type keptKey struct{}

// kept is the body of a request, so that it can be sent again.
type kept []byte

// keepBody keeps the body of a request that changes something, if it is not too large, and gives the request a key.
func (f *forwarder) keepBody(r *http.Request) (*http.Request, error) {
	if isRead(r) || strings.HasPrefix(r.URL.Path, "/v1/webhooks/") || r.ContentLength > f.most || r.ContentLength < 0 {
		return r, nil
	}
	all, err := io.ReadAll(io.LimitReader(r.Body, r.ContentLength))
	if err != nil {
		return r, err
	}
	r = r.WithContext(context.WithValue(r.Context(), keptKey{}, kept(all)))
	r.Body = io.NopCloser(bytes.NewReader(all))
	if r.Header.Get("Idempotency-Key") == "" {
		r.Header.Set("Idempotency-Key", "forwarded-"+uuid.NewString())
	}
	return r, nil
}

// errNobody: no daemon works.
var errNobody = errors.New("no daemon works on the database at the moment")

// RoundTrip implements [http.RoundTripper]: it sends the request to whoever works, and again, once that is another one or
// answers again, where that does no harm.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardFor)
	defer cancel()
	body, isKept := r.Context().Value(keptKey{}).(kept)
	bodiless := r.Body == nil || r.Body == http.NoBody
	harmless := isKept || bodiless && isRead(r)
	for {
		o, changed := f.owner()
		err := errNobody
		if o.address != "" {
			var resp *http.Response
			if resp, err = f.send(r, o, body, isKept); err == nil {
				return resp, nil
			}
		}
		// What is left of a body that was not kept nobody knows, once it was begun.
		if ok := harmless || errors.Is(err, errNobody) || bodiless && notSent(err); !ok || r.Context().Err() != nil || !again(ctx, changed) {
			return nil, err
		}
	}
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// again waits until it is worth another attempt; false: there is no time left.
func again(ctx context.Context, changed <-chan struct{}) bool {
	pause := time.NewTimer(250 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-changed:
	case <-pause.C:
	case <-ctx.Done():
		return false
	}
	return true
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
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, errNobody) || ok && op.Op == "dial"
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
