package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell"
)

// access says who may use a route; flags say how long its answer may take.
type access uint16

const (
	anyone              access = iota // who may connect: the route says nothing of what is stored
	webhookSender                     // the handler checks the signature
	anyToken                          // the holder of any token
	writingToken                      // of a token that is not read-only
	unboundToken                      // of a token that is not bound: the route is about all tenants
	unboundWritingToken               // of such a token that is not read-only
	adminToken                        // of an admin's token
	metricsToken                      // of an unbound token, or of one that may read the metrics alone

	streams       access = 1 << 6 // the answer goes on until its reader leaves
	waitsForItems access = 1 << 7 // the request may wait for items, see maxTakeWait
	lists         access = 1 << 5 // the answer is a page of a list, which is sent while it is read
	edits         access = 1 << 8 // the request may be for one revision of what it changes, see onRevision, or take over what a set declares, see onTakeOver
)

// who is the access without its flags.
func (a access) who() access { return a &^ (streams | waitsForItems | lists | edits) }

// call is what a handler is told about a request beside the request itself.
type call struct {
	token  *Token
	id     string // of the request
	route  string // its pattern, once it is known
	actor  string
	body   held   // what its body holds in memory
	leave  func() // gives back its place among the large bodies; nil: it has asked for none
	notes  notes
	read   [sha256.Size]byte // the hash of its body, once that is read
	once   *shell.Once       // nil: it has no key
	server *Server           // that has got the request
	part   partKind          // whether it is a part of a request to a router
	// For the log of requests: see audit.go.
	of      *shell.Scope // what the request is about, once that is known
	made    string       // the path of what it made, if no header names it
	refusal string       // why it was refused
	// entries are the refused entries of a request that makes many: the reason of the first
	// one of each status.
	entries map[int]string
}

func (c *call) leaveLarge() {
	if c.leave != nil {
		c.leave()
	}
}

type callKey struct{}

// callOf gives the call of the request that a handler serves.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return &call{token: &Token{ReadOnly: true, Tools: []string{""}}}
	}
	return c
}

type handler func(w http.ResponseWriter, r *http.Request, c *call) error

type route struct {
	method string
	path   string
	access access
	serve  handler
}

// routes is the whole API; openapi.json describes each of them, and a test
// holds the two together.
func (s *Server) routes() []route {
	return slices.Concat(s.actionRoutes(), s.recurringRoutes(), s.queueRoutes(),
		s.pipelineRoutes(), s.taskRoutes(), s.strategyRoutes(), s.workerRoutes(), s.lockRoutes(), s.semaphoreRoutes(), s.busRoutes(),
		s.jobRoutes(), s.jobRunRoutes(), s.calendarRoutes(), s.setRoutes(), s.occurrenceRoutes(), s.backfillRoutes(), s.alertRoutes(), s.bulkRoutes(), []route{
			{"POST", "/v1/webhooks/{route}", webhookSender, s.receiveWebhook},
			{"GET", "/v1/webhooks", anyToken, s.listWebhooks},

			{"GET", "/v1/audit", anyToken | lists, s.listAudit},
			{"GET", "/v1/find", anyToken | lists, s.find},
			{"GET", "/v1/changes/{kind}/{id}", anyToken | lists, s.listChanges},
			{"GET", "/v1/upcoming", anyToken | lists, s.listUpcoming},
			{"GET", "/v1/limits", anyToken, s.showLimits},
			{"GET", "/v1/runners", anyToken, s.listRunners},
			{"GET", "/v1/system", unboundToken, noQuery(s.showSystem)},
			{"GET", "/v1/cluster", unboundToken, noQuery(s.showCluster)},
			{"POST", "/v1/cluster/drain", adminToken, noQuery(s.drainInstance)},
			{"POST", "/v1/cluster/accept-loss", adminToken, noQuery(s.acceptLoss)},
			{"POST", "/v1/cluster/rebalance", adminToken, noQuery(s.rebalanceCluster)},
			{"POST", "/v1/system/resume", adminToken, noQuery(s.resumeSystem)},
			{"GET", "/v1/notify/channels", adminToken, noQuery(s.listChannels)},
			{"POST", "/v1/notify/test", adminToken, noQuery(s.testNotify)},
			{"GET", "/v1/info", anyToken, noQuery(s.info)},
			{"GET", "/v1/backup", adminToken | streams, s.streamBackup},
			{"GET", "/healthz", anyone, s.healthz},
			{"GET", "/readyz", anyone, s.readyz},
			{"GET", "/metrics", metricsToken, s.serveMetrics},
			{"GET", "/openapi.json", anyone, s.openAPI},
		})
}

// mux routes requests by path, and for each path by method. Unknown paths and methods
// are answered in JSON, too: net/http's own 404 and 405 are plain text.
func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	paths := make(map[string]map[string]http.Handler)
	s.singles = make(map[string]route)
	for _, rt := range s.routes() {
		s.singles[rt.method+" "+rt.path] = rt
		if strings.HasSuffix(rt.path, bulkPath) { // a job may be called so: other methods are about that one
			mux.Handle(rt.method+" "+rt.path, s.endpoint(rt))
			continue
		}
		if paths[rt.path] == nil {
			paths[rt.path] = make(map[string]http.Handler)
		}
		h := s.endpoint(rt)
		paths[rt.path][rt.method] = h
		if rt.method == http.MethodGet {
			paths[rt.path][http.MethodHead] = h
		}
	}
	for path, methods := range paths {
		other := s.endpoint(route{path: path, access: anyone, serve: methodNotAllowed(slices.Sorted(maps.Keys(methods)))})
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			h, ok := methods[r.Method]
			if !ok {
				h = other
			}
			h.ServeHTTP(w, r)
		})
	}
	mux.Handle("/", s.endpoint(route{path: "/", access: anyone, serve: unknownPath}))
	return mux
}

func methodNotAllowed(allowed []string) handler {
	list := strings.Join(allowed, ", ")
	return func(_ http.ResponseWriter, r *http.Request, _ *call) error {
		return failf(http.StatusMethodNotAllowed, "method: %s is not allowed here: use %s", clip(r.Method), list).with("Allow", list)
	}
}

func unknownPath(_ http.ResponseWriter, r *http.Request, _ *call) error {
	return failf(http.StatusNotFound, "path: %q is unknown: see /openapi.json", clip(r.URL.Path))
}

// endpoint makes a handler of a route: it finds out who sends the request, checks what
// they may do, serves the request, and answers with what went wrong.
func (s *Server) endpoint(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw, _ := w.(*statusWriter) // which the middleware has made
		c := sw.call
		c.route = strings.TrimSpace(rt.method + " " + rt.path)
		err := s.authorize(rt.access, r, c)
		if s.redacts(c.token) {
			sw.redactor = s.o.Redact.redactor()
		}
		if c.token != nil {
			defer s.conns.work(r, true)()
		}
		c.part = s.partOf(r, c.route)
		var leave func()
		if err == nil && s.charges(r, c) {
			err = s.charge(w.Header(), rt.access, c.token, r.ContentLength)
		}
		if err == nil {
			leave, err = s.enter(rt, w, r, c)
		}
		if err == nil {
			if rt.access&(streams|waitsForItems) == 0 {
				defer s.underWay.begin()()
			}
			defer leave()
			defer c.body.release()
			defer c.leaveLarge()
			ctx := withActor(context.WithValue(r.Context(), callKey{}, c), c.actor)
			if rt.access&(streams|lists) == 0 {
				limit := s.o.RequestTimeout
				if rt.access&waitsForItems != 0 {
					limit += maxTakeWait
				}
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			if c.token != nil && rt.access&(streams|waitsForItems) != 0 {
				var forget func()
				ctx, forget = s.tokens.whileKnown(ctx, c.token)
				defer forget()
			}
			edit, wrong := s.onRevision(ctx, rt, r)
			if wrong == nil {
				edit, wrong = onTakeOver(edit, rt, r)
			}
			if wrong == nil {
				edit, wrong = s.onOnce(edit, rt, r, c)
			}
			if err = wrong; err == nil {
				err = rt.serve(w, r.WithContext(edit), c)
			}
			if err != nil {
				err = s.doneBefore(w, r, c, err)
			}
			if err != nil && errors.Is(context.Cause(ctx), errTokenGone) {
				err = unauthorized(`Bearer realm="orrery", error="invalid_token"`, "token: %q was removed or changed", c.token.Name)
			}
		}
		if err != nil {
			err = s.slowed(r, err)
			s.fail(w, c, err)
		}
	})
}

func (s *Server) authorize(a access, r *http.Request, c *call) error {
	who := a.who()
	if who == anyone || who == webhookSender {
		return nil
	}
	t, err := s.authenticate(r)
	if err != nil {
		return err
	}
	c.token, c.actor = t, "api:"+t.Name
	return t.mayUse(who)
}

// mayUse refuses a token a route of that access.
func (t *Token) mayUse(who access) error {
	switch {
	case t.Metrics && who != metricsToken:
		return failf(http.StatusForbidden, "token: %q may read /metrics and nothing else", t.Name)
	case (who == writingToken || who == unboundWritingToken) && t.ReadOnly:
		return failf(http.StatusForbidden, "token: %q is read-only", t.Name)
	case (who == unboundToken || who == unboundWritingToken || who == metricsToken) && !t.unbound():
		return failf(http.StatusForbidden, "token: %q is bound to namespaces, tenants or tools: this needs a token that is not bound", t.Name)
	case who == adminToken && !t.Admin:
		return failf(http.StatusForbidden, "token: %q is not an admin's", t.Name)
	}
	return nil
}

// told gives what the caller is told of an error.
func told(c *call, err error) *failure {
	f := classify(err)
	if c.token == nil || !c.token.hidesMachines() {
		return f
	}
	own := *f
	own.text = withoutIDs(own.text)
	return &own
}

// fail answers with an error, and logs what the caller is not told.
func (s *Server) fail(w http.ResponseWriter, c *call, err error) {
	f := told(c, err)
	if !f.quotes {
		c.refusal = f.text
	}
	sw, counted := w.(*statusWriter)
	switch {
	case f.header.Get(headerStandsBy) != "": // whoever passed it on asks elsewhere, several times a second while nobody owns the partition
		s.log.Debug("request refused", "request_id", c.id, "route", c.route, "status", f.status, "error", err)
	case errors.Is(err, shell.ErrStopped), errors.Is(err, errClientGone), counted && sw.gone: // the daemon stopped, or the client has disconnected
		s.log.Info("request ended early", "request_id", c.id, "route", c.route, "actor", c.actor, "error", err)
	case f.status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled):
		if f.cause != nil { // what the caller is not told
			err = f.cause
		}
		s.log.Error("request failed", "request_id", c.id, "route", c.route, "actor", c.actor, "status", f.status, "error", err)
	case f.cause != nil:
		s.log.Debug("request refused", "request_id", c.id, "route", c.route, "status", f.status, "error", fmt.Sprint(f.cause))
	}
	if counted && sw.status != 0 {
		panic(http.ErrAbortHandler) // half of the answer is sent: break it off, so that nobody takes it for the whole
	}
	writeFailure(w, f)
}
