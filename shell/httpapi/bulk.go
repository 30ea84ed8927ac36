package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of bulk acts, whose ids are at most 10,000 (wire.BulkRequest).
const (
	// bulkAtOnce is how many things of one request are acted on at a time: they share the
	// commits of the engine's loop, which takes what others ask for between them.
	bulkAtOnce = 32
	maxBulks   = 2 // requests of one token that are under way
)

// bulk serves one act on many things of a kind: on each as a request of its own would be served, by the
// same handler, so that it has the same rights, answers, lines in the log of requests, and entries of the journal.
type bulk struct {
	path  string   // of the kind
	acts  []string // each is the last segment of the path of the request for one
	words []string // the statuses that a request may ask for; none: the kind has none
	// status reads the status of the thing that a request for one is about.
	status func(r *http.Request, c *call) (string, error)
}

// bulkRoutes are the bulk acts of all kinds.
func (s *Server) bulkRoutes() (routes []route) {
	for _, b := range s.bulks() {
		routes = append(routes, b.route(s))
	}
	return routes
}

// bulks says how each kind has bulk acts. A test holds that there is a request for one of each act.
func (s *Server) bulks() []bulk {
	return []bulk{
		{
			path: "/v1/actions", acts: []string{"cancel", "trigger", "retry"}, words: core.Statuses(core.KindAction),
			status: statusNow(s.actions(), func(a core.Action) string { return string(a.Status.Type) }),
		},
		{
			path: "/v1/runs", acts: []string{"cancel", "retry", "abandon"}, words: core.Statuses(core.KindOrchestrator),
			status: statusNow(s.runs(), func(o core.Orchestrator) string { return string(o.State) }),
		},
		{
			path: "/v1/pipelines", acts: []string{"cancel", "retry", "start", "unblock"}, words: core.Statuses(core.KindPipeline),
			status: statusNow(s.pipelines(), func(p core.Pipeline) string { return string(p.Phase.Type) }),
		},
		{
			path: "/v1/tasks", acts: []string{"cancel"}, words: core.Statuses(core.KindTask),
			status: statusNow(s.tasks(), func(t core.Task) string { return string(t.State.Type) }),
		},
		{
			path: "/v1/strategies", acts: []string{"cancel"}, words: core.Statuses(core.KindStrategy),
			status: statusNow(s.strategies(), func(y core.Strategy) string { return string(y.Status) }),
		},
		{path: "/v1/recurring", acts: []string{"pause", "resume", "trigger", "skip-next"}},
		{path: "/v1/jobs", acts: []string{"pause", "resume", "trigger", "skip-next"}},
	}
}

// statusNow reads the status of the machine of the path.
func statusNow[S core.State, Out any](k machines[S, Out], of func(S) string) func(*http.Request, *call) (string, error) {
	return func(r *http.Request, c *call) (string, error) {
		m, _, err := k.visible(r, c)
		if err != nil {
			return "", err
		}
		return of(m), nil
	}
}

// bulkPath ends the paths of bulk acts.
const bulkPath = "/bulk"

func (b bulk) route(s *Server) route {
	return route{http.MethodPost, b.path + bulkPath, writingToken | streams, func(w http.ResponseWriter, r *http.Request, c *call) error {
		return b.serve(s, w, r, c)
	}}
}

func (b bulk) serve(s *Server, w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r, "namespace", "tenant"); err != nil {
		return err
	}
	var asked wire.BulkRequest
	if err := s.decode(w, r, &asked, false); err != nil {
		return err
	}
	if err := b.check(&asked); err != nil {
		return err
	}
	leave, err := s.takeBulk(c)
	if err != nil {
		return err
	}
	defer leave()
	admitted, limited := len(asked.IDs), error(nil)
	switch {
	case c.part == ownPart: // the router of this process has charged them
	case chargedBefore(r.Context()): // and none of the ids is the request
		admitted, limited = s.chargeEntries(w.Header(), c.token, len(asked.IDs)+1, false)
		admitted--
	default:
		admitted, limited = s.chargeEntries(w.Header(), c.token, len(asked.IDs), false)
	}
	if limited != nil {
		w.Header().Set("Retry-After", told(c, limited).header.Get("Retry-After"))
	}
	return b.answer(s, w, r, c, &asked, func(i int) error {
		if i >= admitted {
			return limited
		}
		return nil
	})
}

// takeBulk takes a slot of a token for a bulk act, whose body is read: it keeps no other one from being read while the acts go on.
func (s *Server) takeBulk(c *call) (leave func(), err error) {
	c.leaveLarge()
	c.leave = func() {}
	mine := s.heldBy(c.token)
	slots := c.slotsFor(&mine.bulks, &mine.partBulks)
	if slots == nil {
		return c.leave, nil
	}
	if !slots.take() {
		return nil, tooMany(1, "token: %d bulk acts of %s are under way: wait for the answer to one", slots.most, mine.of())
	}
	return slots.leave, nil
}

// check refuses what no request for one says.
func (b bulk) check(asked *wire.BulkRequest) error {
	switch {
	case !slices.Contains(b.acts, asked.Act):
		return failf(http.StatusBadRequest, "act: %q is unknown: use %s", clip(asked.Act), strings.Join(b.acts, ", "))
	case len(asked.IDs) == 0:
		return failf(http.StatusBadRequest, "ids: must have 1 to 10000 elements")
	case asked.Status != nil && len(b.words) == 0:
		return failf(http.StatusBadRequest, "status: is not taken here")
	case asked.Status != nil && !slices.Contains(b.words, *asked.Status):
		return failf(http.StatusBadRequest, "status: %q is unknown: use one of %s", clip(*asked.Status), strings.Join(b.words, ", "))
	}
	at := make(map[string]int, len(asked.IDs))
	for i, id := range asked.IDs {
		id = sameID(id)
		if before, ok := at[id]; ok {
			return failf(http.StatusBadRequest, "ids[%d]: %q is ids[%d], too: name each once", i, clip(asked.IDs[i]), before)
		}
		at[id] = i
	}
	return nil
}

// sameID gives an id the way that all are written in which it may be.
func sameID(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return id
}

// onceOf gives a hash of what a request with a key asks for each of its ids. Which other ids it has is no part of that: it is divided among the partitions by
// what each has when it comes, and what the first one changed must be known the second time whatever that is by then.
func (b bulk) onceOf(r *http.Request, asked *wire.BulkRequest) [sha256.Size]byte {
	body, _ := json.Marshal(asked.Body) // as a router sends it to a partition; it was read as JSON
	status := "any"
	if asked.Status != nil {
		status = "is " + *asked.Status
	}
	return hashOf(b.path, asked.Act, r.URL.Query().Encode(), status, string(body))
}

// answer acts on the things of the request, some at a time, and sends what became of each. If the client goes, the things
// that were not begun are left as they are.
func (b bulk) answer(s *Server, w http.ResponseWriter, r *http.Request, c *call, asked *wire.BulkRequest, admit func(i int) error) error {
	rt := s.singles[http.MethodPost+" "+b.path+"/{id}/"+asked.Act]
	out := newPageWriter(w, "results")
	out.damaged = func() int { return 0 }
	if wantsLines(r) {
		out.lines()
	}
	acts := sync.OnceValue(func() [sha256.Size]byte { return b.onceOf(r, asked) })
	results := make([]wire.BulkResult, bulkAtOnce)
	for first := 0; first < len(asked.IDs); first += bulkAtOnce {
		if err := context.Cause(r.Context()); err != nil {
			return err
		}
		part := asked.IDs[first:min(first+bulkAtOnce, len(asked.IDs))]
		var all sync.WaitGroup
		for i, id := range part {
			all.Go(func() { results[i] = b.one(s, r, c, rt, id, c.once.Part(sameID(id), acts), asked, admit(first+i)) })
		}
		all.Wait()
		for i := range part {
			if err := out.add(results[i]); err != nil {
				return err
			}
		}
		if out.oneALine { // each part as soon as it is done
			if err := out.send(); err != nil {
				return err
			}
		}
	}
	return out.end("", true)
}

// one acts on one thing as a request of its own would.
func (b bulk) one(s *Server, r *http.Request, c *call, rt route, id string, once *shell.Once, asked *wire.BulkRequest, refused error) (res wire.BulkResult) {
	own := c.forOne(rt)
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), callKey{}, own), s.o.RequestTimeout)
	defer cancel()
	ctx = shell.WithOnce(ctx, once)
	in := b.single(ctx, r, id, asked)
	w := &statusWriter{ResponseWriter: nowhere{make(http.Header)}, call: own, dropped: true}
	res.ID = id
	defer func() {
		if p := recover(); p != nil { // of a goroutine that nothing else guards
			s.log.Error("panic in a handler", "request_id", c.id, "route", own.route, "panic", p, "stack", string(debug.Stack()))
			w.status, res.Error, res.Made = http.StatusInternalServerError, "internal error", ""
		}
		res.Status = w.status
		s.record(w, in, own)
		s.metrics.entries.WithLabelValues(c.route, strconv.Itoa(w.status)).Inc()
	}()
	err := refused
	if err == nil && asked.Status != nil {
		err = b.still(s, in, own, *asked.Status)
	}
	if err == nil {
		err = rt.serve(w, in, own)
	}
	if err != nil {
		f := told(own, err)
		w.status, res.Error = f.status, f.text
		if !f.quotes {
			own.refusal = f.text
		}
		if f.status == http.StatusInternalServerError {
			s.log.Error("request failed", "request_id", c.id, "route", own.route, "actor", c.actor, "id", clip(id), "error", err)
		}
		return res
	}
	w.begin(http.StatusOK) // unless the handler has said another one
	if made := w.Header().Get("Location"); made != "" {
		res.Made = path.Base(made)
	}
	return res
}

// forOne is what a handler is told of one of the requests that a request stands for: what is known of the caller, and nothing
// of what the request holds and has come to.
func (c *call) forOne(rt route) *call {
	own := *c
	own.route = rt.method + " " + rt.path
	own.body, own.notes, own.made, own.refusal, own.entries, own.once = held{}, notes{}, "", "", nil, nil
	return &own
}

// single is the request for one.
func (b bulk) single(ctx context.Context, r *http.Request, id string, asked *wire.BulkRequest) *http.Request {
	in := &http.Request{
		Method: http.MethodPost, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS,
		URL:    &url.URL{Path: b.path + "/" + id + "/" + asked.Act, RawPath: b.path + "/" + url.PathEscape(id) + "/" + asked.Act, RawQuery: r.URL.RawQuery},
		Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody,
	}
	if len(asked.Body) > 0 {
		in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(asked.Body)), int64(len(asked.Body))
	}
	in = in.WithContext(ctx)
	in.SetPathValue("id", id)
	return in
}

// still refuses what is not in the status any more in which it was counted. It may leave it before the act is
// decided, as with any act.
func (b bulk) still(s *Server, r *http.Request, c *call, status string) error {
	now, err := b.status(r, c)
	if err != nil || now == status {
		return err
	}
	if before, err := s.engine.WasAnswered(r.Context()); err != nil || before {
		return err
	}
	return failf(http.StatusConflict, "%q is %s, and not %s any more", clip(r.PathValue("id")), now, status)
}

// nowhere takes an answer that nobody reads.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
