package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy stands between a client and the API server of a [Cluster]: it counts the
// calls and makes what can go wrong go wrong. Clients authenticate with tokens,
// which it passes on. It is safe for concurrent use.
type Proxy struct {
	server   *httptest.Server
	upstream *httputil.ReverseProxy
	target   *url.URL
	gate     *gate

	mu      sync.Mutex
	calls   []*Call
	faults  []*Fault
	watches map[chan breaking]struct{}
}

// Call is one call of the API.
type Call struct {
	Verb        string // as in RBAC: get, list, watch, create, update, patch, delete, deletecollection
	Resource    string // "pods", "jobs"; the path where it is no resource
	Subresource string // "log", or empty
	Namespace   string
	Name        string
	Status      int    // 0 while it goes on, and where the connection was broken
	Injected    bool   // the API server never saw it, or its answer was not passed on
	Body        string // of a create, update or patch
}

// Fault makes calls go wrong.
type Fault struct {
	// Match chooses the calls; nil: all.
	Match func(Call) bool
	// Times is how many calls go wrong; 0: all, until [Proxy.Heal].
	Times int
	// Status is the answer's status code; 0: the connection is broken instead.
	Status int
	// RetryAfter is the answer's header of that name.
	RetryAfter string
	// Lose has the API server carry out the call, and its answer lost.
	Lose bool
	// Hold has the call wait until the channel is closed, before anything else; with
	// Pass it then goes on as if there were no fault.
	Hold <-chan struct{}
	Pass bool
	// After has the answer wait until the channel is closed.
	After <-chan struct{}
}

type breaking struct{ expired bool }

// maxCallBody is what a [Call] keeps of a body.
const maxCallBody = 1 << 20

// NewProxy starts a proxy in front of a cluster, which ends with the test.
func NewProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	config := c.Config()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	// Its own trust, and nobody's certificate: the client's token counts.
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: config.CAFile}})
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, gate: newGate(), watches: map[chan breaking]struct{}{}}
	p.upstream = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // followed logs must not wait
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // as if there were no proxy
		},
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Listener = freezing{p.server.Listener, p.gate}
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	t.Cleanup(func() {
		p.Heal()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Config is a client's configuration that goes through the proxy.
func (p *Proxy) Config(token string) *rest.Config {
	return &rest.Config{Host: p.server.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: p.certificate()}}
}

func (p *Proxy) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Kubeconfig writes a kubeconfig that goes through the proxy, and returns its path.
func (p *Proxy) Kubeconfig(t testing.TB, token, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: p.server.URL, CertificateAuthorityData: p.certificate()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: namespace}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Inject adds a fault. The first that matches a call counts.
func (p *Proxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &f)
}

// Heal takes all faults away.
func (p *Proxy) Heal() {
	p.gate.reopen()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

// Calls are the calls so far that match, in their order; nil chooses all.
func (p *Proxy) Calls(match func(Call) bool) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Call
	for _, c := range p.calls {
		if match == nil || match(*c) {
			all = append(all, *c)
		}
	}
	return all
}

// Forget forgets the calls so far.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// Watches is how many watches are open.
func (p *Proxy) Watches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watches)
}

// BreakWatches ends all open watches: with expired as if what they want to go on
// from were compacted away (410 Gone), else by breaking their connections.
func (p *Proxy) BreakWatches(expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.watches {
		select {
		case w <- breaking{expired: expired}:
		default: // it is broken already
		}
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	call, err := p.enter(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if f := p.faultFor(call); f != nil && !p.goWrong(w, r, call, f) {
		return
	}
	if call.Verb == "watch" {
		p.watch(w, r, call)
		return
	}
	p.upstream.ServeHTTP(&recorder{ResponseWriter: w, proxy: p, call: call}, r)
}

// enter records a call.
func (p *Proxy) enter(r *http.Request) (*Call, error) {
	call := callOf(r)
	if r.Body != nil && (call.Verb == "create" || call.Verb == "update" || call.Verb == "patch") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call.Body = string(body[:min(len(body), maxCallBody)])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
	return call, nil
}

func (p *Proxy) faultFor(call *Call) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if f.Match != nil && !f.Match(*call) {
			continue
		}
		call.Injected = !f.Pass
		if f.Times == 1 {
			p.faults = slices.Delete(p.faults, i, i+1)
		} else if f.Times > 1 {
			f.Times--
		}
		return f
	}
	return nil
}

// goWrong reports whether the call is to go on nonetheless.
func (p *Proxy) goWrong(w http.ResponseWriter, r *http.Request, call *Call, f *Fault) bool {
	if !waits(r, f.Hold) {
		return false
	}
	if f.Pass {
		return true
	}
	if f.Lose {
		// The server must carry it out, whatever becomes of the client.
		p.upstream.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
	}
	if !waits(r, f.After) {
		return false
	}
	if f.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	p.answered(call, f.Status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(status(f.Status, "injected by the proxy of the tests"))
	return false
}

// waits waits for a channel, if there is one; false where the client has gone.
func waits(r *http.Request, c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (p *Proxy) answered(call *Call, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if call.Status == 0 {
		call.Status = code
	}
}

// watch passes a watch on until one side ends it, or [Proxy.BreakWatches].
func (p *Proxy) watch(w http.ResponseWriter, r *http.Request, call *Call) {
	broken := make(chan breaking, 1)
	p.mu.Lock()
	p.watches[broken] = struct{}{}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// JSON, so that an event can be put between those of the server.
	r = r.WithContext(ctx)
	r.Header.Set("Accept", "application/json")
	out := &recorder{ResponseWriter: w, proxy: p, call: call}
	aborted := make(chan any, 1) // gets what it panicked with, where the server broke off
	go func() {
		defer func() { aborted <- recover() }()
		p.upstream.ServeHTTP(out, r)
	}()
	var b breaking
	var why any
	select {
	case why = <-aborted:
	case b = <-broken:
		cancel()
		<-aborted
		why = http.ErrAbortHandler
	}
	p.mu.Lock()
	delete(p.watches, broken)
	p.mu.Unlock()
	switch {
	case why == nil:
		return // its time was over
	case !b.expired:
		panic(http.ErrAbortHandler)
	}
	event, err := json.Marshal(map[string]json.RawMessage{"type": json.RawMessage(`"ERROR"`), "object": status(http.StatusGone, "too old resource version: injected by the proxy of the tests")})
	if err == nil {
		_, _ = w.Write(append(event, '\n'))
	}
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	proxy *Proxy
	call  *Call
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(code int) {
	r.proxy.answered(r.call, code)
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// status is an error as the API server has it.
func status(code int, message string) []byte {
	reasons := map[int]string{
		http.StatusConflict: "Conflict", http.StatusGone: "Expired", http.StatusTooManyRequests: "TooManyRequests",
		http.StatusForbidden: "Forbidden", http.StatusUnauthorized: "Unauthorized", http.StatusInternalServerError: "InternalError",
		http.StatusServiceUnavailable: "ServiceUnavailable", http.StatusUnprocessableEntity: "Invalid", http.StatusGatewayTimeout: "Timeout",
	}
	b, err := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reasons[code], "message": message,
	})
	if err != nil {
		panic(err) // strings and a number
	}
	return b
}

// callOf reads what a request is about, as RBAC would.
func callOf(r *http.Request) *Call {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return &Call{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}
	}
	call := &Call{}
	if parts[0] == "namespaces" && len(parts) > 2 {
		call.Namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&call.Resource, &call.Name, &call.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	watch := r.URL.Query().Get("watch")
	switch {
	case r.Method == http.MethodGet && (watch == "true" || watch == "1"):
		call.Verb = "watch"
	case r.Method == http.MethodGet && call.Name == "":
		call.Verb = "list"
	case r.Method == http.MethodDelete && call.Name == "":
		call.Verb = "deletecollection"
	default:
		call.Verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
			http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[r.Method]
	}
	return call
}

// String is one line, such as "create jobs team/nightly 201".
func (c Call) String() string {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s %d", c.Verb, resource, c.Namespace, c.Name, c.Status)
}
