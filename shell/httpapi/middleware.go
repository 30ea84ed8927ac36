package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/shell"
)

const requestIDHeader = "X-Request-Id"

// statusWriter remembers what was answered.
type statusWriter struct {
	http.ResponseWriter
	call   *call // the request's
	status int
	bytes  int64
	gone   bool // a write failed: the client has disconnected

	body *bodyWatch // of the request

	redactor *redactor // hides members of JSON; nil: none

	answers *share // what large answers count against; nil: nothing
	refuses bool   // the request changes nothing, and is refused if there is no room

	dropped bool // nobody reads the answer but its status and header
}

// begin notes the status of an answer that begins. If the request's body was not read to
// its end the connection ends with the answer: net/http would wait for the rest before
// it sends the answer, and once more before it closes.
func (w *statusWriter) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.call.once.Repeated() {
		w.Header().Set(repeatedHeader, "true")
	}
	if w.body == nil || w.body.ended() {
		return
	}
	w.Header().Set("Connection", "close")
	if !w.body.failed { // else the time of the body is over
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(bodyLinger)) // a recorder of tests has none
	}
}

// bodyLinger is how long a body that nobody reads is waited for: who still sends it would
// not see the answer if the connection ended at once.
const bodyLinger = time.Second

// watchBody gives the body of a request that declares one; nil if it declares none, or if
// its connection does not wait for it (HTTP/2).
func watchBody(r *http.Request) *bodyWatch {
	if r.ContentLength == 0 || r.ProtoMajor > 1 || r.Body == nil {
		return nil
	}
	return &bodyWatch{ReadCloser: r.Body, left: r.ContentLength}
}

// bodyWatch is a body that knows whether it was read to its end.
type bodyWatch struct {
	io.ReadCloser
	left        int64 // below 0: it was not declared
	eof, failed bool
}

func (b *bodyWatch) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	b.eof = b.eof || errors.Is(err, io.EOF)
	b.failed = b.failed || err != nil && !b.eof
	return n, err
}

func (b *bodyWatch) ended() bool { return b.eof || b.left == 0 }

func (w *statusWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	out := b
	if w.redactor != nil && hasMembers(w.Header().Get("Content-Type")) {
		out = w.redactor.pass(b)
	}
	n, err := w.ResponseWriter.Write(out) //nolint:gosec // what a handler has written, with nosniff
	w.bytes += int64(n)
	w.gone = w.gone || err != nil
	if err == nil {
		n = len(b)
	}
	return n, err
}

// hasMembers reports whether an answer of that type is JSON, or has JSON in it.
func hasMembers(contentType string) bool {
	return strings.HasPrefix(contentType, "application/json") || strings.HasPrefix(contentType, "text/event-stream")
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// always are headers of every answer. Their values are shared, and full: whoever adds another
// one gets a copy.
var always = map[string][]string{
	"X-Content-Type-Options": {"nosniff"}, "Cross-Origin-Resource-Policy": {"same-origin"}, "Cache-Control": {"no-store"},
}

// middleware surrounds the routes: an id for each request, a line in the log,
// panics caught, requests of other sites refused.
func (s *Server) middleware(next http.Handler) http.Handler {
	sites := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		c := &call{id: requestID(r), route: "none", server: s}
		w := &statusWriter{ResponseWriter: rw, call: c, body: watchBody(r)}
		h := w.Header()
		h.Set(requestIDHeader, c.id)
		maps.Copy(h, always)
		if w.body != nil {
			r.Body = w.body
		}
		defer func() { s.finished(w, r, c, start, recover()) }()
		if err := s.admit(r, sites); err != nil {
			s.fail(w, c, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit refuses requests that no route should see.
func (s *Server) admit(r *http.Request, sites *http.CrossOriginProtection) error {
	if err := s.checkLocal(r); err != nil {
		return err
	}
	// Without tokens the way to this machine is all that a browser needs, so that
	// reading, too, is not for other sites: they could not see a backup, but start it.
	site := r.Header.Get("Sec-Fetch-Site")
	if sites.Check(r) != nil || !s.NeedsSignIn() && (site == "cross-site" || site == "same-site") {
		return failf(http.StatusForbidden, "origin: requests of other sites are refused")
	}
	// net/http would answer with a redirection that no client of an API wants. It
	// looks at the path as it was sent: a name may have any character, encoded.
	if p := r.URL.EscapedPath(); p == "" || p[0] != '/' || p != "/" && path.Clean(p) != p {
		return failf(http.StatusNotFound, "path: %q is unknown: see /openapi.json", clip(r.URL.Path))
	}
	return nil
}

// finished ends a request: it answers for a handler that panicked, and counts and logs
// the request.
func (s *Server) finished(w *statusWriter, r *http.Request, c *call, start time.Time, panicked any) {
	if cause, ok := panicked.(error); panicked != nil && (!ok || !errors.Is(cause, http.ErrAbortHandler)) {
		s.log.Error("panic in a handler", "request_id", c.id, "route", c.route, "panic", panicked, "stack", string(debug.Stack()))
		if w.status == 0 {
			writeFailure(w, failf(http.StatusInternalServerError, "internal error"))
			panicked = nil
		} else {
			panicked = http.ErrAbortHandler
		}
	}
	if w.status == 0 && panicked == nil {
		w.begin(http.StatusOK) // what net/http sends if the handler wrote nothing
	}
	if c.part == ownPart { // the router's own server records and counts the whole
		if panicked != nil {
			panic(panicked)
		}
		return
	}
	s.record(w, r, c)
	took := time.Since(start)
	s.metrics.observe(c.route, w.status, took)
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "request",
			slog.String("request_id", c.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.String("route", c.route), slog.Int("status", w.status), slog.Int64("bytes", w.bytes),
			slog.Duration("took", took), slog.String("actor", c.actor), slog.String("remote", r.RemoteAddr))
	}
	if panicked != nil {
		panic(panicked)
	}
}

// requestID takes the caller's id if it is harmless, so that one request can
// be followed through several programs.
func requestID(r *http.Request) string {
	if id := r.Header.Get(requestIDHeader); plainName(id) {
		return id
	}
	return uuid.NewString()
}

func withActor(ctx context.Context, actor string) context.Context {
	if actor == "" {
		return ctx
	}
	return shell.WithActor(ctx, actor)
}
