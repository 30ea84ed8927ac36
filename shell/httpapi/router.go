package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// HeaderPartition names the one partition that a request is for. One process gives it to another one to which it passes a request on: that answers
// for this partition alone, or not at all.
const HeaderPartition = "Orrery-Partition"

// headerStandsBy is in the answer of one that does not own the partition: nothing was done.
const headerStandsBy = "Orrery-Stands-By"

// RouterOptions configure a [Router].
type RouterOptions struct {
	// API is as for the servers of the partitions, without an Engine: tokens, limits, bounds, Shared and what belongs to the process, such as Audit
	// and Cluster. Its Shared is that of the servers.
	API Options
	// Name is this process's, told to one that has taken it for the owner of a partition.
	Name string
	// Partitions is how many there are: those of [core.Partition].
	Partitions int
	// Local gives the server of a partition that this process owns. It is asked for each request.
	Local func(partition int) (*Server, bool)
	// Remote passes requests on to the owner of a partition, with their headers, of which [HeaderPartition] is one: that of package forward, say.
	// It may be used for a partition that this process owns, if its server is not there yet.
	Remote func(partition int) http.Handler
	// Instances gives the processes that are alive, by name, each with what passes requests on to it; this one may be among them. Each has a log of
	// requests, and [Options.PageKey] has to be the same in all, so that lists of these go on. Nil: the log of this process alone can be read.
	Instances func(context.Context) (map[string]http.Handler, error)
	// Webhooks are the tenants of the routes of webhooks, as the engines have them.
	Webhooks map[string]shell.Scope
	// Remembered is how many machines' partitions are remembered (default 16384), so that not each request that names
	// one by its id alone is a question to all partitions.
	Remembered int
}

func (o RouterOptions) check() (errs []error) {
	if o.API.Engine != nil {
		errs = append(errs, errors.New("httpapi: RouterOptions.API.Engine is set: each server that Local gives has an engine, the router has none"))
	}
	if o.Partitions < 1 || o.Partitions > core.MaxPartitions {
		errs = append(errs, fmt.Errorf("httpapi: RouterOptions.Partitions is %d: it must be between 1 and %d", o.Partitions, core.MaxPartitions))
	}
	if o.Local == nil || o.Remote == nil {
		errs = append(errs, errors.New("httpapi: RouterOptions.Local and Remote must be given: they say who answers for a partition"))
	}
	if o.Instances != nil && o.Name == "" {
		errs = append(errs, errors.New("httpapi: RouterOptions.Name is empty, and Instances is given: want the name of this process"))
	}
	if o.Remembered < 0 {
		errs = append(errs, fmt.Errorf("httpapi: RouterOptions.Remembered is %d: it must not be negative", o.Remembered))
	}
	return errs
}

// Router answers the requests of the API where the tenants are divided over several partitions, each with an engine and a [Server], in
// this process or in others. What is about one tenant it passes to that tenant's partition, what is about an id alone to
// the one that has the machine, and lists and sums it makes of the answers of all. It is safe for concurrent use.
type Router struct {
	o     RouterOptions
	front *Server // answers in the router's name; it has no engine
	mux   *http.ServeMux
	found found

	unknown http.Handler // answers for paths that there are not
}

// NewRouter checks the options and makes one.
func NewRouter(o RouterOptions) (*Router, error) {
	o.API.Partitions = o.Partitions
	checked, err := o.API.withDefaults()
	if err := errors.Join(append(o.check(), err)...); err != nil {
		return nil, err
	}
	o.API = checked
	o.Remembered = cmp.Or(o.Remembered, defaultRemembered)
	rt := &Router{o: o, front: &Server{o: o.API, log: o.API.Logger, backup: make(chan struct{}, 1)}, mux: http.NewServeMux()}
	rt.front.pageTokens.asking = make(chan struct{}, 1)
	rt.front.locals = rt.locals
	rt.front.singles = make(map[string]route)
	rt.front.shared = rt.front.share()
	rt.front.initAPIMetrics()
	rt.found.most = o.Remembered
	if err := rt.fill(); err != nil {
		return nil, err
	}
	return rt, nil
}

// SetTokens is [Server.SetTokens] for all that have the options' Shared.
func (rt *Router) SetTokens(list []Token) (TokenChanges, error) { return rt.front.SetTokens(list) }

// API gives the router as a server, for the web page, whose visitors sign in there. What a visitor of the page asks of other processes they
// find good if all have the same [Options.PageKey]. The page is told at once of what changes in the partitions of this process, and asks for
// the rest every five seconds; it shows the events of these partitions.
func (rt *Router) API() *Server { return rt.front }

// locals gives the servers of this process.
func (rt *Router) locals() (all []*Server) {
	for p := range rt.o.Partitions {
		if s, ok := rt.o.Local(p); ok {
			all = append(all, s)
		}
	}
	return all
}

// HTTPServer gives an [http.Server] for the router with the bounds of [Server.HTTPServer].
func (rt *Router) HTTPServer(addr string) *http.Server {
	return boundedServer(addr, rt, rt.front.conns, rt.front.log, rt.o.API.RequestTimeout)
}

// routed is a route as the router serves it.
type routed struct {
	route
	placing
	own http.Handler // answers in the router's name
}

// fill puts the routes into the mux, as [Server.mux] does.
func (rt *Router) fill() error {
	paths := make(map[string]map[string]*routed)
	for _, r := range rt.front.routes() {
		p, ok := placings[r.method+" "+r.path]
		if !ok {
			return fmt.Errorf("httpapi: the router does not know where %s %s goes", r.method, r.path)
		}
		rt.front.singles[r.method+" "+r.path] = r
		of := &routed{route: r, placing: p}
		if p.how == here && p.merge == nil {
			of.merge = func(_ *Router, w http.ResponseWriter, req *http.Request, c *call) error { return r.serve(w, req, c) }
		}
		of.serve = func(w http.ResponseWriter, r *http.Request, c *call) error { return rt.answer(w, r, c, of) }
		of.own = rt.front.middleware(rt.front.endpoint(of.route))
		if strings.HasSuffix(r.path, bulkPath) {
			rt.mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, r *http.Request) { rt.serve(w, r, of) })
			continue
		}
		if paths[r.path] == nil {
			paths[r.path] = make(map[string]*routed)
		}
		paths[r.path][r.method] = of
		if r.method == http.MethodGet {
			paths[r.path][http.MethodHead] = of
		}
	}
	for path, methods := range paths {
		other := rt.front.middleware(rt.front.endpoint(route{path: path, access: anyone, serve: methodNotAllowed(slices.Sorted(maps.Keys(methods)))}))
		rt.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if of, ok := methods[r.Method]; ok {
				rt.serve(w, r, of)
				return
			}
			other.ServeHTTP(w, r)
		})
	}
	rt.unknown = rt.front.middleware(rt.front.endpoint(route{path: "/", access: anyone, serve: unknownPath}))
	rt.mux.Handle("/", rt.unknown)
	rt.front.handler = rt
	return nil
}

// ServeHTTP implements [http.Handler].
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.EscapedPath(); p == "" || p[0] != '/' || p != "/" && path.Clean(p) != p { // see [Server.admit]
		rt.unknown.ServeHTTP(w, r)
		return
	}
	rt.mux.ServeHTTP(w, r)
}

// serve finds out where a request goes.
func (rt *Router) serve(w http.ResponseWriter, r *http.Request, of *routed) {
	r = rt.readCharged(r)
	if of.how == here && r.Header.Get(HeaderPartition) == "" {
		of.own.ServeHTTP(w, r)
		return
	}
	var t *Token
	if of.access.who() != webhookSender && of.access.who() != anyone {
		var err error
		if t, err = rt.front.authenticate(r); err != nil || t.mayUse(of.access.who()) != nil {
			of.own.ServeHTTP(w, r) // which refuses it
			return
		}
	}
	d := &decision{r: r, token: t, of: of}
	defer d.body.release()
	if named := r.Header.Values(HeaderPartition); len(named) > 0 {
		rt.serveOne(w, d, named)
		return
	}
	if r.Header.Get(headerPart) != "" { // a part names its partition
		d.r = r.Clone(r.Context())
		d.r.Header.Del(headerPart)
	}
	rt.place(w, d)
	rt.carryOut(w, d)
}

// decision is where a request goes.
type decision struct {
	r     *http.Request // with its body as it is to be read
	token *Token        // nil: none is asked for
	of    *routed

	to       int         // the partition, if it is one
	known    bool        // it is
	anywhere bool        // any: the answer is the same
	scope    shell.Scope // whose partition that is, where a tenant says it
	scoped   bool
	err      error         // it is refused
	recalled bool          // to was remembered for the id, and may be wrong
	body     held          // what was read of it
	batch    *dividedBatch // nil: it is no batch of the mode "each"

	everywhere        bool   // whichever partition has done it before
	kind, id          string // of the machine that was looked for
	namespace, tenant *string
}

func (d *decision) refuse(err error) { d.err = err }

// toTenant has the request go where a tenant lives.
func (rt *Router) toTenant(d *decision, of shell.Scope) {
	d.to, d.known, d.scope, d.scoped = core.Partition(of, rt.o.Partitions), true, of, true
}

type decisionKey struct{}

func (rt *Router) carryOut(w http.ResponseWriter, d *decision) {
	switch {
	case d.err == nil && d.everywhere:
		rt.passEverywhere(w, d)
	case d.err == nil && d.known && d.recalled:
		rt.passRecalled(w, d)
	case d.err == nil && d.known:
		rt.pass(w, d.r, d.to, &d.body)
	case d.err == nil && d.anywhere:
		rt.passAnywhere(w, d)
	default:
		d.of.own.ServeHTTP(w, d.r.WithContext(context.WithValue(d.r.Context(), decisionKey{}, d)))
	}
}

// answer answers in the router's name, once the token is known to be good for the route: with why the request is refused, or with what all
// partitions give.
func (rt *Router) answer(w http.ResponseWriter, r *http.Request, c *call, of *routed) error {
	d, _ := r.Context().Value(decisionKey{}).(*decision)
	switch {
	case d != nil && d.err != nil:
		return relayedOr(w, d.err)
	case of.merge == nil:
		return failf(http.StatusNotImplemented, "partitions: %s %s is not made of the answers of several partitions yet: name one with the header %s: 0 to %d", of.method, of.path, HeaderPartition, rt.o.Partitions-1)
	}
	return relayedOr(w, orGone(r, of.merge(rt, w, r, c)))
}

// readAgain reads the body of a request that the router answers itself: it was read ahead to place the request, and is read and counted now as every server does.
func (rt *Router) readAgain(w http.ResponseWriter, r *http.Request) (*decision, []byte, error) {
	d := r.Context().Value(decisionKey{}).(*decision)
	d.body.release()
	data, err := rt.front.readJSON(w, r)
	return d, data, err
}

// pass gives a request to the server of a partition. body is what the request holds, which whoever reads it next holds itself.
func (rt *Router) pass(w http.ResponseWriter, r *http.Request, partition int, body *held) {
	if s, ok := rt.o.Local(partition); ok {
		body.release()
		s.handler.ServeHTTP(w, r)
		return
	}
	there := rt.named(r, partition)
	if chargedBefore(r.Context()) {
		rt.saysCharged(there)
	}
	rt.o.Remote(partition).ServeHTTP(w, there)
}

// headerSession is the session of a visitor of the page, for whom a request is passed on: see [Server.Serve].
const headerSession = "Orrery-Session"

// named gives the request as it is passed on.
func (rt *Router) named(r *http.Request, partition int) *http.Request {
	out := r.Clone(r.Context())
	out.Header.Del(headerCharged)
	if v, ok := r.Context().Value(visitorKey{}).(*Visitor); ok && v.sealed != "" {
		out.Header.Del("Authorization")
		out.Header.Set(headerSession, v.sealed)
	}
	out.Header.Set(HeaderPartition, strconv.Itoa(partition))
	return out
}

// passAnywhere gives a request to a partition of this process, if it owns any.
func (rt *Router) passAnywhere(w http.ResponseWriter, d *decision) {
	for p := range rt.o.Partitions {
		if _, ok := rt.o.Local(p); ok {
			rt.pass(w, d.r, p, &d.body)
			return
		}
	}
	rt.pass(w, d.r, 0, &d.body)
}

// serveOne serves a request for one partition, of another process.
func (rt *Router) serveOne(w http.ResponseWriter, d *decision, named []string) {
	n, err := strconv.Atoi(named[0])
	switch {
	case err != nil || len(named) > 1 || n < 0 || n >= rt.o.Partitions:
		d.refuse(failf(http.StatusBadRequest, "%s: %q is not a partition: want one number from 0 to %d", HeaderPartition, clip(strings.Join(named, ", ")), rt.o.Partitions-1))
	default:
		if rt.tellsTenant(d.of) {
			rt.place(w, d)
		}
		if d.err == nil && d.scoped && d.to != n {
			d.refuse(failf(http.StatusMisdirectedRequest, "%s: the tenant %q of namespace %q lives in partition %d of %d, not in %d: nothing was done",
				HeaderPartition, clip(d.scope.Tenant), clip(d.scope.Namespace), d.to, rt.o.Partitions, n))
		}
		if _, ok := rt.o.Local(n); !ok && d.err == nil {
			d.refuse(failf(http.StatusServiceUnavailable, "%s: this process does not own partition %d: nothing was done", HeaderPartition, n).
				with("Retry-After", "1").with(headerStandsBy, cmp.Or(rt.o.Name, "true")))
		}
		d.to, d.known, d.recalled = n, true, false
	}
	rt.carryOut(w, d)
}

// remembered is what the router remembers the machine of the request by.
func (d *decision) remembered() string {
	return rememberedOf(d.token, d.kind, d.id, d.namespace, d.tenant)
}

// rememberedOf is what it remembers a machine by: the path of it, and what the caller sees. Of several machines of one id somebody who sees one finds that, and who sees all has
// to say which is meant.
func rememberedOf(t *Token, kind, id string, namespace, tenant *string) string {
	if (t == nil || t.unbound()) && namespace == nil && tenant == nil {
		return kind + id
	}
	sees := []any{namespace, tenant}
	if t != nil {
		sees = append(sees, t.Namespaces, t.Tenants, t.Tools)
	}
	text, _ := json.Marshal(sees) // texts are
	sum := sha256.Sum256(text)    // a token may have many
	return kind + id + string(sum[:])
}

// found remembers in which partition a machine was found: what was asked for last, so many.
type found struct {
	most int

	mu    sync.Mutex
	newer map[string]int // of those that were asked for since older was begun with
	older map[string]int
}

const defaultRemembered = 1 << 14

func (f *found) get(name string) (partition int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if partition, ok = f.newer[name]; ok {
		return partition, true
	}
	if partition, ok = f.older[name]; ok {
		f.keep(name, partition)
	}
	return partition, ok
}

func (f *found) put(name string, partition int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(name, partition)
}

// keep puts a name among the newer ones, of which there are half of all at most.
func (f *found) keep(name string, partition int) {
	if len(f.newer) >= max(f.most/2, 1) || f.newer == nil {
		f.newer, f.older = make(map[string]int), f.newer
	}
	f.newer[name] = partition
}

func (f *found) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.newer, name)
	delete(f.older, name)
}
