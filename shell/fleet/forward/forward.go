package forward

import (
	"bytes"
	"cmp"
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

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
)

// Header names the process that passes a request on: it is not passed on again.
const Header = "Orrery-Forwarded"

// refusedHeader is in the answer of one that stands by, too: nothing was done.
const refusedHeader = "Orrery-Stands-By"

// Bounds of what is passed on at a time: more is answered with 503. Bodies beyond the bytes are not kept, and sent once.
const (
	mostForwarded = 2048
	mostKept      = 64 << 20
)

// Member tells who works. A [fleet.Member] does.
type Member interface {
	// State gives what is known now.
	State() fleet.State
	// Changed is closed once that has changed. It is asked for before State.
	Changed() <-chan struct{}
}

// Options say how requests are passed on.
type Options struct {
	// Member tells who works, and where that answers.
	Member Member
	// Name is this process's, told to the one that works.
	Name string
	// Open: callers need no token, since only those on this machine reach it. Then what came through a proxy is not vouched for by being passed on: the
	// words of proxies are passed on whoever says them, for the one that works to refuse, and HTTP/1.0, which proxies speak, is refused here.
	Open bool
	// TrustedProxies are those whose word on where a request comes from is passed on.
	TrustedProxies []netip.Prefix
	// MaxBody is how many bytes of a body are kept, to be sent again. Zero: 1 MiB.
	MaxBody int64
	// Wait bounds how long a request waits for a process that works. Zero: 15 seconds, in which a lease of 10, and what follows, fit: a longer lease needs a longer wait, within the
	// time that the server gives an answer ([http.Server.WriteTimeout]).
	Wait time.Duration
	// Keyed tells of a request that changes something whether its receiver knows an Idempotency-Key, so that it can be sent again. Nil: those of
	// the API (package shell/httpapi) at its own paths, but for webhooks.
	Keyed func(*http.Request) bool
	// Transport sends what is passed on. Nil: that of [Transport], which trusts what the system does.
	Transport http.RoundTripper
	// Logger is told what could not be passed on. Nil: nobody is told.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.MaxBody, o.Wait = cmp.Or(o.MaxBody, 1<<20), cmp.Or(o.Wait, 15*time.Second)
	switch {
	case o.Member == nil:
		return o, errors.New("forward: Member is nil: want the one that tells who works")
	case o.Name == "":
		return o, errors.New("forward: Name is empty: want this process's")
	case o.MaxBody < 0:
		return o, fmt.Errorf("forward: MaxBody is %d: want 0 (1 MiB) or more", o.MaxBody)
	case o.Wait < 0:
		return o, fmt.Errorf("forward: Wait is %s: want 0 (15 seconds) or more", o.Wait)
	}
	if o.Keyed == nil {
		o.Keyed = ofTheAPI
	}
	if o.Transport == nil {
		o.Transport = Transport(nil)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

func ofTheAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/") && !strings.HasPrefix(r.URL.Path, "/v1/webhooks/")
}

// Transport is what sends requests to the one that works: it goes through no proxy, and keeps connections. With an https address it speaks HTTP/2, else HTTP/1.1. c says which
// certificates it trusts and shows; nil: as the system does, none.
func Transport(c *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the package says what it is
	t.Proxy, t.MaxIdleConnsPerHost, t.DisableCompression, t.TLSClientConfig = nil, 64, true, c
	return t
}

// Forwarder passes requests on to the process that works. It is safe for concurrent use.
type Forwarder struct {
	o     Options
	proxy *httputil.ReverseProxy
	slots chan struct{}
	kept  atomic.Int64 // bytes
}

// New makes one.
func New(o Options) (*Forwarder, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Forwarder{o: o, slots: make(chan struct{}, mostForwarded)}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: f.rewrite, Transport: roundTripper{f}, FlushInterval: -1, ErrorHandler: f.failed,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return f, nil
}

// owner is the process that works.
type owner struct {
	name, address string // address "": nobody works that answers requests
	token         uint64
}

// Ready reports whether somebody works to whom requests can be passed on, for what a load balancer asks, and who that is.
func (f *Forwarder) Ready() (fleet.State, bool) {
	s := f.o.Member.State()
	return s, answers(s.Address)
}

// answers reports whether an address is one at which requests are answered: that of a copy of the database, say, is not.
func answers(address string) bool {
	return strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")
}

// owner gives who works, and what is closed once that may be another one.
func (f *Forwarder) owner() (owner, <-chan struct{}) {
	changed := f.o.Member.Changed()
	s := f.o.Member.State()
	o := owner{s.Owner, s.Address, s.Token}
	if !answers(o.address) {
		o.address = ""
	}
	return o, changed
}

// rewrite leaves a request as it came, but for its way: whoever works decides by it who asks, and from where. It trusts what this process
// says, so a word on that of somebody else is passed on only if this one trusts it; without tokens always, since then it is a reason to refuse.
func (f *Forwarder) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
	for name, v := range r.In.Header {
		if !saysWhere(name) {
			continue
		}
		if f.o.Open || f.trusts(r.In.RemoteAddr) {
			r.Out.Header[name] = v
		} else {
			r.Out.Header.Del(name)
		}
	}
	r.Out.Header.Set(Header, f.o.Name)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "owner" // see roundTrip
}

// saysWhere reports whether a header tells where a request came from.
func saysWhere(name string) bool {
	return name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-")
}

func (f *Forwarder) trusts(peer string) bool {
	from, err := netip.ParseAddrPort(peer)
	return err == nil && slices.ContainsFunc(f.o.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// ServeHTTP implements [http.Handler].
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if by := r.Header.Get(Header); by != "" {
		w.Header().Set(refusedHeader, f.o.Name)
		Unavailable(w, "this one stands by, too, and the one that passed the request on does not know yet who works: nothing was done")
		return
	}
	if f.o.Open && !r.ProtoAtLeast(1, 1) { // nginx speaks it, and no browser: see httpapi
		problem(w, http.StatusForbidden, "HTTP/1.0: the request comes through a proxy, and no token is configured: everybody who reaches the proxy would be an administrator; configure a token")
		return
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		Unavailable(w, "as many requests are passed on as may be: nothing was done")
		return
	}
	r, bytes, err := f.keepBody(w, r)
	defer f.kept.Add(-bytes)
	if err != nil {
		problem(w, http.StatusBadRequest, "body: the connection ended before the whole body arrived")
		return
	}
	if isRead(r) && r.ContentLength == 0 { // all of it is there; how long its answer may take, the one that works knows
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	f.proxy.ServeHTTP(slow{w, http.NewResponseController(w)}, r)
}

type keptKey struct{}

// kept is the body of a request, so that it can be sent again.
type kept []byte

// bodyTime is how long a body that is kept may take to arrive.
const bodyTime = time.Minute

// keepBody keeps the body of a request to the API that changes something, if it is not too large, and gives the request a key. The page's
// forms have none: they are sent once. bytes is what is to be given back.
func (f *Forwarder) keepBody(w http.ResponseWriter, r *http.Request) (_ *http.Request, bytesKept int64, err error) {
	if isRead(r) || !f.o.Keyed(r) || r.ContentLength > f.o.MaxBody || r.ContentLength < 0 {
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

// errNobody: nobody works.
var errNobody = errors.New("nobody works on the database at the moment")

// errStopped: nobody can work until a person has looked at it.
var errStopped = errors.New("nobody can work on the partition until an administrator has looked at why")

// stopped says that nobody can work; nil: somebody works, or can. Whoever asks need not be one that may know of the work of others in the partition, so
// that no number of a commit is told.
func (f *Forwarder) stopped() error {
	s := f.o.Member.State()
	switch {
	case s.Owner != "" || s.Works || s.Unusable == nil:
		return nil
	case errors.Is(s.Unusable, store.ErrLost):
		return fmt.Errorf("%w: partition %d is stopped since its database has lost commits, until somebody accepts that", errStopped, s.Partition)
	}
	return fmt.Errorf("%w: partition %d cannot be opened", errStopped, s.Partition)
}

// errStandsBy: the one that was asked does not know yet that it works, or works no more.
var errStandsBy = errors.New("the one that was taken for it stands by")

// roundTripper is a [Forwarder] as its proxy uses it.
type roundTripper struct{ f *Forwarder }

// RoundTrip implements [http.RoundTripper].
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t.f.roundTrip(r) }

// roundTrip sends the request to whoever works, and again, once that is another one or
// answers again, where that does no harm. An attempt that waits for one that works no more is given up.
func (f *Forwarder) roundTrip(r *http.Request) (*http.Response, error) {
	body, isKept := r.Context().Value(keptKey{}).(kept)
	bodiless := r.Body == nil || r.Body == http.NoBody
	harmless := isKept || bodiless && isRead(r)
	var until time.Time // from the first failure on
	var unsure error    // of an attempt that may have been carried out: later ones change nothing of that
	for {
		o, changed := f.owner()
		err := errNobody
		switch why := f.stopped(); {
		case why != nil && unsure != nil && !isRead(r):
			return nil, unsure
		case why != nil: // waiting does not help
			return nil, why
		case o.address != "":
			var resp *http.Response
			resp, err = f.attempt(r, o, changed, body, isKept, harmless)
			if err == nil && unsure != nil && isKept && putOff(resp) {
				err = errors.Join(errPutOff, resp.Body.Close())
			}
			if err == nil {
				return resp, nil
			}
		}
		if until.IsZero() {
			until = time.Now().Add(f.o.Wait)
		}
		if !notSent(err) {
			unsure = err
		}
		// What is left of a body that was not kept nobody knows, once it was begun.
		if ok := harmless || errors.Is(err, errNobody) || bodiless && notSent(err); !ok || r.Context().Err() != nil || !again(r.Context(), changed, until) {
			return nil, cmp.Or(unsure, err)
		}
	}
}

// errPutOff: nothing was done, says the one that works, but by an attempt before something may have been.
var errPutOff = errors.New("the one that works has put the request off")

// putOff reports whether an answer says that nothing was done, and that the request may come again.
func putOff(resp *http.Response) bool {
	return resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests
}

// attempt sends the request once. If it does no harm to send it again, it is given up when another one works before an answer has begun.
func (f *Forwarder) attempt(r *http.Request, o owner, changed <-chan struct{}, body kept, isKept, harmless bool) (*http.Response, error) {
	if !harmless {
		return f.send(r, o, body, isKept)
	}
	ctx, cancel := context.WithCancel(r.Context())
	var over atomic.Bool // whoever sets it decides: the answer has begun, or is given up
	answered := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
			case <-answered:
				return
			case <-ctx.Done():
				return
			}
			var now owner
			if now, changed = f.owner(); now != o {
				if over.CompareAndSwap(false, true) {
					cancel()
				}
				return
			}
		}
	}()
	resp, err := f.send(r.WithContext(ctx), o, body, isKept)
	close(answered)
	if err == nil && !over.CompareAndSwap(false, true) {
		err = errors.Join(errGivenUp, resp.Body.Close())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = ending{resp.Body, cancel}
	return resp, nil
}

// errGivenUp: another one worked before the answer had begun. What was sent may have been carried out.
var errGivenUp = errors.New("the attempt was given up, since another one works")

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

func (f *Forwarder) send(r *http.Request, o owner, body kept, isKept bool) (*http.Response, error) {
	to, err := url.Parse(o.address)
	if err != nil {
		return nil, fmt.Errorf("the address of %s: %w", o.name, err)
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = to.Scheme, to.Host
	if isKept {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := f.o.Transport.RoundTrip(out)
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(refusedHeader) != "" {
		return nil, errors.Join(errStandsBy, resp.Body.Close())
	}
	return resp, err
}

// notSent reports whether a request has certainly not reached anybody.
func notSent(err error) bool {
	op, dialed := errors.AsType[*net.OpError](err)
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return errors.Is(err, errNobody) || errors.Is(err, errStandsBy) || dialed && op.Op == "dial" || distrusted
}

// failed answers where nobody has.
func (f *Forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	if errors.Is(err, errStopped) { // why was logged once, when it was found
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, err.Error()+": nothing was done")
		return
	}
	o, _ := f.owner()
	f.o.Logger.Warn("a request could not be passed on", "method", r.Method, "path", r.URL.Path, "to", o.name, "at", o.address, "error", err)
	if notSent(err) || isRead(r) {
		Unavailable(w, "the one that works does not answer, or none does at the moment: nothing was done")
		return
	}
	problem(w, http.StatusBadGateway, "the one that works did not answer: this may have been carried out, and can be sent again with the same Idempotency-Key if it had one")
}

// Unavailable answers that nothing was done, and that the request may be sent again in a second, as the API does.
func Unavailable(w http.ResponseWriter, why string) {
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
