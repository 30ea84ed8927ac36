package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// headerPart marks a request as one of those that a router asks of the partitions for one of a client's. Its value is "1", or a digest of the whole request, of a part
// that does not have all of it: see [Server.onOnce]. Lists answer such a request with where each
// element stands, see [listing.answerPart]; and as many of them as there are partitions count as one request.
const headerPart = "Orrery-Part"

// partKind says whose part a request is.
type partKind int

const (
	whole     partKind = iota // it is none
	ownPart                   // of a request to a router of this process, which has counted it
	otherPart                 // of one to another process, or of somebody who says so of what a router may ask
)

type ownPartKey struct{}

// partOf reports whether a request to a route is a part of one. Anybody may send the header: with what no router asks it means nothing.
func (s *Server) partOf(r *http.Request, route string) partKind {
	switch {
	case s.o.Partitions <= 1 || r.Header.Get(headerPart) == "":
		return whole
	case r.Context().Value(ownPartKey{}) != nil:
		return ownPart
	case !routerAsks(r.Method, route):
		return whole
	}
	return otherPart
}

// routerAsks reports whether a router asks that of the partitions: whether a machine is there, and what it makes one answer of.
func routerAsks(method, route string) bool {
	p := placings[route]
	if method == http.MethodHead {
		path := strings.TrimPrefix(route, http.MethodGet+" ")
		return p.how == ofID && (path == p.kind+"{id}" || path == changesPath+"{kind}/{id}")
	}
	return p.merge != nil && slices.Contains([]way{ofTenant, ofAll, ofEntries, ofEvent}, p.how)
}

// parts counts the parts of requests by token.
type parts struct {
	mu    sync.Mutex
	since map[string]int // by bucketOf the token: how many there were since one counted
}

// counts reports whether a part is the one of n that counts as a request.
func (p *parts) counts(t *Token, n int) bool {
	if t == nil {
		return true
	}
	name, _ := bucketOf(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since = make(map[string]int)
	}
	was, seen := p.since[name]
	if seen && was+1 < n {
		p.since[name] = was + 1
		return false
	}
	p.since[name] = 0
	return true
}

// charges reports whether a request counts against the rates of its token. Of parts of which no process says that it has charged the whole each does that changes something,
// and where processes share a key, so that a router would say it, each does: whoever says so of a request would send as many times more than others as there are partitions.
func (s *Server) charges(r *http.Request, c *call) bool {
	if chargedBefore(r.Context()) {
		return false
	}
	return c.part == whole || c.part == otherPart && (s.o.PageKey != nil || !reads(r) || s.parts.counts(c.token, s.o.Partitions))
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// enterPart admits a part of a request, beside the requests that are under way: for each of a token's lists there are
// as many as partitions. What its body and its answer hold counts as that of any request.
func (s *Server) enterPart(w http.ResponseWriter, r *http.Request, c *call) (leave func(), err error) {
	if c.part == ownPart || c.token == nil {
		return func() {}, nil
	}
	f := s.heldBy(c.token)
	if !f.parts.take() {
		return nil, tooMany(1, "token: %d parts of requests of %s are under way: wait for the answer to one", f.parts.most, f.of())
	}
	if err := f.countBytes(w, r, c); err != nil {
		f.parts.leave()
		return nil, err
	}
	return f.parts.leave, nil
}

// slotsFor gives the slots of a request of a sort of which a token may have some: the parts of requests have their own, as many times more as there are partitions. It
// gives nil for a part of a request to a router of this process, which has taken one.
func (c *call) slotsFor(requests, parts *slots) *slots {
	switch c.part {
	case ownPart:
		return nil
	case otherPart:
		return parts
	case whole:
	}
	return requests
}

// part gives the request that is asked of one partition for a client's, which is charged by itself, or where it is passed to: the owner of the partition charges what it is asked
// to carry out, and not the request.
func (rt *Router) part(ctx context.Context, r *http.Request, method string, partition int, query url.Values) *http.Request {
	out := r.Clone(context.WithValue(ctx, ownPartKey{}, true))
	out.Method, out.Body, out.ContentLength, out.TransferEncoding = method, http.NoBody, 0, nil
	out.URL.RawQuery = query.Encode()
	out.RequestURI = ""
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Accept", "If-Match", "If-None-Match", onceHeader, "Range"} {
		out.Header.Del(name)
	}
	out.Header.Set(headerPart, "1")
	out = rt.named(out, partition)
	if _, ok := rt.o.Local(partition); !ok {
		rt.saysCharged(out)
	}
	return out
}

// handler gives who answers for a partition.
func (rt *Router) handler(partition int) http.Handler {
	if s, ok := rt.o.Local(partition); ok {
		return s.handler
	}
	return rt.o.Remote(partition)
}

// answered is what a partition answers, as it comes.
type answered struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// ask sends a request to a partition, and gives its answer once that begins. The caller reads or closes the body, and waits for
// the group when all are closed.
func (rt *Router) ask(group *sync.WaitGroup, r *http.Request, partition int) *answered {
	return rt.askOf(group, rt.handler(partition), r, strconv.Itoa(partition))
}

// askOf is ask for whoever answers; of is the name of that for the log.
func (rt *Router) askOf(group *sync.WaitGroup, h http.Handler, r *http.Request, of string) *answered {
	in, out := io.Pipe()
	w := &pipeWriter{header: make(http.Header), out: out, begun: make(chan struct{})}
	group.Go(func() {
		defer func() {
			err := io.EOF
			if p := recover(); p != nil {
				if cause, ok := p.(error); !ok || !errors.Is(cause, http.ErrAbortHandler) {
					rt.front.log.Error("panic in a handler", "of", of, "panic", p, "stack", string(debug.Stack()))
				}
				err = io.ErrUnexpectedEOF
				w.fail()
			} else {
				w.WriteHeader(http.StatusOK)
			}
			_ = out.CloseWithError(err)
		}()
		h.ServeHTTP(w, r)
	})
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = in.CloseWithError(r.Context().Err())
		<-w.begun // the handler ends with its context
	}
	return &answered{status: w.status, header: w.sent, body: in}
}

// pipeWriter is an answer that another goroutine reads.
type pipeWriter struct {
	header http.Header
	out    *io.PipeWriter
	once   sync.Once
	begun  chan struct{}
	status int         // once it has begun
	sent   http.Header // likewise
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < http.StatusOK { // early hints
		return
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// fail is the answer of a handler that has panicked before it had one.
func (w *pipeWriter) fail() { w.WriteHeader(http.StatusBadGateway) }

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush lets streams go on: there is nothing that is held back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// changesPath begins the paths of the changes of machines of all kinds.
const changesPath = "/v1/changes/"

// maxLookups bounds the questions after machines that one token's requests ask at a time.
const maxLookups = 32

// numbersOf names several partitions: "0, 1 and 4".
func numbersOf(partitions []int) string {
	var b strings.Builder
	for i, p := range partitions {
		switch i {
		case 0:
		case len(partitions) - 1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(p))
	}
	return b.String()
}

// findMachine asks all partitions for a machine, unless it is remembered where that is.
func (rt *Router) findMachine(d *decision, kind, id string, namespace, tenant *string) {
	if kind == changesPath {
		kind += d.r.PathValue("kind") + "/"
	}
	d.kind, d.id, d.namespace, d.tenant = kind, id, namespace, tenant
	if p, ok := rt.found.get(d.remembered()); ok {
		d.to, d.known, d.recalled = p, true, true
		return
	}
	slots := &rt.front.heldBy(d.token).lookups
	if !slots.take() {
		d.refuse(tooMany(1, "token: %d requests of %s are looking for what they are about: wait for the answer to one", slots.most, rt.front.heldBy(d.token).of()))
		return
	}
	defer slots.leave()
	statuses, retry := rt.whoHas(d.r, kind+id, namespace, tenant)
	var has, absent, odd []int
	for p, status := range statuses {
		switch {
		case status < http.StatusBadRequest:
			has = append(has, p)
		case status == http.StatusNotFound:
			absent = append(absent, p)
		case status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
			odd = append(odd, p) // it says what is wrong with the question, or that the record cannot be read
		}
	}
	switch {
	case len(has) > 1:
		d.refuse(failf(http.StatusConflict, "id: %s is there in partitions %s: name namespace and tenant, or a partition with the header %s", clip(id), numbersOf(has), HeaderPartition))
	case len(has) > 0:
		d.to, d.known = has[0], true
		rt.found.put(d.remembered(), d.to)
	case len(odd) > 0:
		d.to, d.known = odd[0], true
	case len(absent) == len(statuses):
		rt.nowhere(d)
	default:
		unknown := slices.IndexFunc(statuses, func(s int) bool { return s != http.StatusNotFound })
		if statuses[unknown] == http.StatusTooManyRequests {
			d.refuse(tooMany(retry, "id: partition %d answers no more requests of the token at the moment: try again", unknown))
			return
		}
		d.refuse(failf(http.StatusServiceUnavailable, "id: no partition that answers has %s, and partition %d does not answer: nothing was done", clip(id), unknown).with("Retry-After", strconv.Itoa(retry)))
	}
}

// nowhere answers where no partition has the machine. What was done before under a key may have ended it: whoever did that knows.
func (rt *Router) nowhere(d *decision) {
	d.anywhere, d.everywhere = true, d.r.Header.Get(onceHeader) != ""
}

// whoHas asks each partition whether a machine exists there for the token: the statuses of a HEAD. Those that do not tell may be asked again after so many seconds.
func (rt *Router) whoHas(r *http.Request, path string, namespace, tenant *string) (statuses []int, retry int) {
	query := url.Values{}
	if namespace != nil {
		query.Set("namespace", *namespace)
	}
	if tenant != nil {
		query.Set("tenant", *tenant)
	}
	if strings.HasPrefix(path, changesPath) {
		query = url.Values{"limit": {"1"}}
	}
	ctx, cancel := context.WithTimeout(r.Context(), rt.o.API.RequestTimeout)
	defer cancel()
	asked := r.WithContext(ctx)
	u := *r.URL
	u.Path, u.RawPath = path, ""
	asked.URL = &u
	statuses = make([]int, rt.o.Partitions)
	later := make([]int, rt.o.Partitions)
	var all sync.WaitGroup
	for p := range statuses {
		all.Go(func() {
			statuses[p], later[p] = rt.statusOf(rt.part(ctx, asked, http.MethodHead, p, query), p)
		})
	}
	all.Wait()
	return statuses, max(1, slices.Max(later))
}

// statusOf gives the status with which a partition answers, and after how many seconds it says that it may be asked again.
func (rt *Router) statusOf(r *http.Request, partition int) (status, retry int) {
	defer func() {
		if p := recover(); p != nil {
			status = http.StatusBadGateway
			if cause, ok := p.(error); !ok || !errors.Is(cause, http.ErrAbortHandler) {
				rt.front.log.Error("panic in a handler", "partition", partition, "panic", p, "stack", string(debug.Stack()))
			}
		}
	}()
	w := statusOnly{header: make(http.Header)}
	rt.handler(partition).ServeHTTP(&w, r)
	if w.status == 0 {
		return http.StatusOK, 0
	}
	return w.status, retryAfter(w.header)
}

// statusOnly takes an answer of which only the status is wanted.
type statusOnly struct {
	header http.Header
	status int
}

func (w *statusOnly) Header() http.Header { return w.header }

func (w *statusOnly) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *statusOnly) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

// passRecalled gives a request to the partition that is remembered for its machine. If that has it no more, all are
// asked anew.
func (rt *Router) passRecalled(w http.ResponseWriter, d *decision) {
	kept := &keptBody{ReadCloser: d.r.Body, most: rt.o.API.MaxBodyBytes}
	r := d.r.WithContext(d.r.Context())
	if r.Body != nil {
		r.Body = kept
	}
	u := &unless{w: w, missing: http.StatusNotFound}
	rt.pass(u, r, d.to, &d.body)
	if !u.swallowed() {
		return
	}
	was := d.to
	d.r = withCharged(d.r)                                                         // where it was looked for
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)) // whoever did not read the body has shortened it
	rt.found.forget(d.remembered())
	d.recalled, d.known = false, false
	rt.findMachine(d, d.kind, d.id, d.namespace, d.tenant)
	body, again := kept.again()
	if d.err == nil && (!d.known || d.to == was || !again) {
		u.release()
		return
	}
	if d.r.Body != nil {
		d.r.Body = body
	}
	rt.carryOut(w, d)
}

// passEverywhere gives a request with a key to one partition after the other, until one knows more than that the machine is not there.
func (rt *Router) passEverywhere(w http.ResponseWriter, d *decision) {
	kept := &keptBody{ReadCloser: d.r.Body, most: rt.o.API.MaxBodyBytes}
	for p := range rt.o.Partitions {
		r := d.r.Clone(d.r.Context())
		if p > 0 { // the first one has charged it
			r = withCharged(r)
		}
		body, again := kept.again()
		if !again {
			p = rt.o.Partitions - 1
		}
		if d.r.Body != nil {
			kept = &keptBody{ReadCloser: body, most: kept.most}
			r.Body = kept
		}
		if p == rt.o.Partitions-1 {
			rt.pass(w, r, p, &d.body)
			return
		}
		u := &unless{w: w, missing: http.StatusNotFound}
		if rt.pass(u, r, p, &d.body); !u.swallowed() {
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	}
}

// keptBody keeps what was read of a body, so that it can be read again.
type keptBody struct {
	io.ReadCloser
	most int64

	mu   sync.Mutex // a body may be read by whoever passes it on, after the answer
	read bytes.Buffer
	full atomic.Bool
}

func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if int64(b.read.Len()+n) > b.most {
		b.full.Store(true)
	} else {
		b.read.Write(p[:n])
	}
	return n, err
}

// Close leaves the rest to be read again; the server closes it.
func (b *keptBody) Close() error { return nil }

// again gives the whole body; ok is false if it was too large to be kept.
func (b *keptBody) again() (body io.ReadCloser, ok bool) {
	if b.ReadCloser == nil {
		return http.NoBody, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(bytes.Clone(b.read.Bytes())), b.ReadCloser), b.ReadCloser}, !b.full.Load()
}
