package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell"
)

// access says who may use a route.
type access uint8

const (
	open    access = iota // anybody who may connect: says nothing about what is stored
	signed                // a webhook: its signature is checked by the handler
	reading               // any token
	writing               // any token that is not read-only
	taking                // the same; the request may wait for items, see maxTakeWait
	overall               // a token that is bound to nothing: totals over all tenants
	ruling                // such a token, that is not read-only
	follows               // as overall; the answer goes on until its reader leaves
	tailing               // any token; the answer goes on until its reader leaves
	admin                 // an admin's token
)

// call is what a handler is told about a request beside the request itself.
type call struct {
	token *Token
	id    string // of the request
	route string // its pattern, once it is known
	actor string
}

type callKey struct{}

// callOf gives the call that the middleware made for the request.
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
	return slices.Concat(s.runbookRoutes(), s.jobRoutes(), s.jobRunRoutes(), []route{
		{"POST", "/v1/actions", writing, s.createAction},
		{"GET", "/v1/actions", reading, s.listActions},
		{"GET", "/v1/actions/{id}", reading, s.getAction},
		{"POST", "/v1/actions/{id}/cancel", writing, s.cancelAction},
		{"POST", "/v1/actions/{id}/trigger", writing, s.triggerAction},

		{"POST", "/v1/recurring", writing, s.createRecurring},
		{"GET", "/v1/recurring", reading, s.listRecurring},
		{"GET", "/v1/recurring/preview", reading, s.previewCron},
		{"GET", "/v1/recurring/{id}", reading, s.getRecurring},
		{"PUT", "/v1/recurring/{id}", writing, s.updateRecurring},
		{"DELETE", "/v1/recurring/{id}", writing, s.deleteRecurring},
		{"POST", "/v1/recurring/{id}/pause", writing, s.pauseRecurring},
		{"POST", "/v1/recurring/{id}/resume", writing, s.resumeRecurring},
		{"POST", "/v1/recurring/{id}/trigger", writing, s.triggerRecurring},
		{"GET", "/v1/recurring/{id}/history", reading, s.recurringHistory},
		{"GET", "/v1/recurring/{id}/preview", reading, s.previewRecurring},

		{"GET", "/v1/queues", reading, s.listQueues},
		{"GET", "/v1/queues/{name}", reading, s.getQueue},
		{"PUT", "/v1/queues/{name}", writing, s.putQueue},
		{"DELETE", "/v1/queues/{name}", writing, s.deleteQueue},
		{"POST", "/v1/queues/{name}/pause", writing, s.pauseQueue},
		{"POST", "/v1/queues/{name}/resume", writing, s.resumeQueue},
		{"POST", "/v1/queues/{name}/redrive", writing, s.redriveQueue},
		{"POST", "/v1/queues/{name}/purge", writing, s.purgeQueue},
		{"POST", "/v1/queues/{name}/take", taking, s.takeItems},
		{"POST", "/v1/queues/{name}/items", writing, s.pushItem},
		{"GET", "/v1/queues/{name}/items", reading, s.listItems},
		{"GET", "/v1/queues/{name}/items/{id}", reading, s.getItem},
		{"DELETE", "/v1/queues/{name}/items/{id}", writing, s.deleteItem},
		{"POST", "/v1/queues/{name}/items/{id}/complete", writing, s.completeItem},
		{"POST", "/v1/queues/{name}/items/{id}/fail", writing, s.failItem},
		{"POST", "/v1/queues/{name}/items/{id}/extend", writing, s.extendItem},
		{"POST", "/v1/queues/{name}/items/{id}/heartbeat", writing, s.heartbeatItem},
		{"POST", "/v1/queues/{name}/items/{id}/release", writing, s.releaseItem},

		{"POST", "/v1/webhooks/{route}", signed, s.receiveWebhook},

		{"GET", "/v1/info", reading, s.info},
		{"GET", "/v1/backup", admin, s.streamBackup},
		{"GET", "/healthz", open, s.healthz},
		{"GET", "/readyz", open, s.readyz},
		{"GET", "/metrics", overall, s.serveMetrics},
		{"GET", "/openapi.json", open, s.openAPI},
	})
}

// mux routes requests by path, and for each path by method, so that what is not
// known is answered in JSON, too: net/http's own 404 and 405 are plain text.
func (s *Server) mux() *http.ServeMux {
	paths := make(map[string]map[string]http.Handler)
	for _, rt := range s.routes() {
		if paths[rt.path] == nil {
			paths[rt.path] = make(map[string]http.Handler)
		}
		h := s.endpoint(rt)
		paths[rt.path][rt.method] = h
		if rt.method == http.MethodGet {
			paths[rt.path][http.MethodHead] = h
		}
	}
	mux := http.NewServeMux()
	for path, methods := range paths {
		other := s.endpoint(route{path: path, access: open, serve: methodNotAllowed(slices.Sorted(maps.Keys(methods)))})
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			h, ok := methods[r.Method]
			if !ok {
				h = other
			}
			h.ServeHTTP(w, r)
		})
	}
	mux.Handle("/", s.endpoint(route{path: "/", access: open, serve: unknownPath}))
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

// endpoint makes a handler of a route: who asks, may they, do it, and what went
// wrong.
func (s *Server) endpoint(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.route = strings.TrimSpace(rt.method + " " + rt.path)
		err := s.authorize(rt.access, r, c)
		if err == nil {
			ctx := withActor(r.Context(), c.actor)
			if rt.access != admin && rt.access != follows && rt.access != tailing { // a backup takes as long as it takes
				limit := s.o.RequestTimeout
				if rt.access == taking {
					limit += maxTakeWait
				}
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			err = rt.serve(w, r.WithContext(ctx), c)
		}
		if err != nil {
			s.fail(w, c, err)
		}
	})
}

func (s *Server) authorize(a access, r *http.Request, c *call) error {
	if a == open || a == signed {
		return nil
	}
	t, err := s.authenticate(r)
	if err != nil {
		return err
	}
	c.token, c.actor = t, "api:"+t.Name
	switch {
	case (a == writing || a == taking || a == ruling) && t.ReadOnly:
		return failf(http.StatusForbidden, "token: %q is read-only", t.Name)
	case (a == overall || a == ruling || a == follows) && !t.unbound():
		return failf(http.StatusForbidden, "token: %q is bound to some namespaces, tenants or tools: this is about all of them", t.Name)
	case a == admin && !t.Admin:
		return failf(http.StatusForbidden, "token: %q is not an admin's", t.Name)
	}
	return nil
}

// fail answers with an error, and logs what the caller is not told.
func (s *Server) fail(w http.ResponseWriter, c *call, err error) {
	f := classify(err)
	sw, counted := w.(*statusWriter)
	switch {
	case errors.Is(err, shell.ErrStopped), counted && sw.gone: // the daemon's stop and a client's leave are no faults
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
		panic(http.ErrAbortHandler) // half an answer has left: break it off, so that nobody takes it for whole
	}
	writeFailure(w, f)
}
