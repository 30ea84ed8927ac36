package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// slots bounds how many of something are under way at a time.
type slots struct {
	mu   sync.Mutex
	used int
	most int
}

// take takes a slot, and reports whether there was one.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.most {
		return false
	}
	s.used++
	return true
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

// count gives how many are taken.
func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// share bounds the bytes that something holds in memory at a time.
type share struct {
	mu   sync.Mutex
	used int64
	most int64
}

// take takes n bytes if there are as many left, and reports whether there were.
func (s *share) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.most-s.used {
		return false
	}
	s.used += n
	return true
}

// overdraw takes n bytes, also if there are not as many left.
func (s *share) overdraw(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

func (s *share) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// full reports whether nothing is left.
func (s *share) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used >= s.most
}

// inFlight is what the requests of one token hold, or of the tokens that are bound to one
// tenant together, so that what one holder does not read or does not end is nothing that
// another one misses.
type inFlight struct {
	whose     atomic.Pointer[string] // in errors
	requests  slots                  // of every sort
	lists     slots                  // lists
	wide      slots                  // lists with members that are left out unless they are asked for
	streams   slots                  // streams of events
	live      slots                  // pages that show changes
	tails     slots                  // logs that are followed
	reads     slots                  // logs that are read
	audits    slots                  // lists of the log of requests
	bulks     slots                  // acts on many things
	parts     slots                  // parts of requests to routers of other processes
	partWide  slots                  // those of them that are such lists
	partBulks slots                  // those of them that are such acts
	lookups   slots                  // questions of a router where something is
	bodies    share                  // bytes of bodies that were read
	answers   share                  // bytes of large answers that are being sent
	large     chan struct{}          // a place for each request with a large body that is worked on
	turns     [2]chan struct{}       // places for what pages wait for, see Server.Turn
}

// largeBody is from how many bytes on a body takes so long to read that requests with one are
// worked on for a token by half of the processors at most, so that they leave some to others.
const largeBody = 64 << 10

// workOn waits for a place, if the body is large; leave gives it back.
func (f *inFlight) workOn(ctx context.Context, body int) (leave func(), err error) {
	if body < largeBody {
		return func() {}, nil
	}
	select {
	case f.large <- struct{}{}:
		return func() { <-f.large }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// maxWideLists bounds the lists with members that are left out otherwise: a chunk of one
// may have a member as large as the largest webhook.
const maxWideLists = 2

func (s *Server) initInFlight() {
	s.tokens.use(s.o.Tokens, s.newInFlight)
	s.live.most = maxLive
	s.streams.most, s.tails.most, s.reads.most, s.audits.most = maxStreams, maxTails, maxReads, maxAuditReads
}

func (s *Server) newInFlight(t *Token) *inFlight {
	most := s.o.MaxStreamsPerToken
	if t.Admin {
		most = maxStreams
	}
	f := &inFlight{
		requests: slots{most: s.o.MaxRequestsPerToken}, lists: slots{most: s.o.MaxListsPerToken},
		wide:    slots{most: min(maxWideLists, s.o.MaxListsPerToken)},
		streams: slots{most: most}, live: slots{most: maxLiveEach}, tails: slots{most: most}, reads: slots{most: most},
		audits: slots{most: maxAuditReadsPerToken}, bulks: slots{most: maxBulks},
		partWide: slots{most: min(maxWideLists, s.o.MaxListsPerToken) * s.o.Partitions}, partBulks: slots{most: maxBulks * s.o.Partitions},
		bodies: share{most: s.o.MaxBodyBytesInFlight}, answers: share{most: s.o.MaxBodyBytesInFlight},
		parts: slots{most: (s.o.MaxListsPerToken + maxLookups) * s.o.Partitions}, lookups: slots{most: min(maxLookups, s.o.MaxRequestsPerToken)},
		large: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		turns: [2]chan struct{}{
			TurnToRead: make(chan struct{}, max(1, s.o.MaxListsPerToken/2)),
			TurnToSend: make(chan struct{}, maxFormsSent),
		},
	}
	f.whose.Store(new(strconv.Quote(t.Name)))
	return f
}

// of says whose it is, in errors.
func (f *inFlight) of() string { return *f.whose.Load() }

// heldBy gives what the requests of a token hold.
func (s *Server) heldBy(t *Token) *inFlight {
	return s.tokens.heldBy(t)
}

// tooMany refuses what somebody has too much of at a time.
func tooMany(retrySeconds int, format string, args ...any) *failure {
	return failf(http.StatusTooManyRequests, format, args...).with("Retry-After", strconv.Itoa(retrySeconds))
}

// enter admits a request of a token to a route. leave is to be called at its end.
func (s *Server) enter(rt route, w http.ResponseWriter, r *http.Request, c *call) (func(), error) {
	if c.token == nil { // of nobody: webhooks, probes
		return func() {}, nil
	}
	if c.part != whole {
		return s.enterPart(w, r, c)
	}
	f := s.heldBy(c.token)
	if !f.requests.take() {
		return nil, tooMany(1, "token: %d requests of %s are under way: wait for the answer to one", f.requests.most, f.of())
	}
	leave := f.requests.leave
	if err := f.countBytes(w, r, c); err != nil {
		leave()
		return nil, err
	}
	if rt.access&lists == 0 {
		return leave, nil
	}
	if !f.lists.take() {
		leave()
		return nil, tooMany(1, "token: %d lists of %s are under way: wait for the answer to one", f.lists.most, f.of())
	}
	return func() { f.lists.leave(); leave() }, nil
}

// countBytes has the bytes of a request's body and of its answer count.
func (f *inFlight) countBytes(w http.ResponseWriter, r *http.Request, c *call) error {
	c.body.of = &f.bodies
	if f.answers.full() {
		return tooMany(5, "token: the large answers of %s are not read yet: read them", f.of())
	}
	if sw, ok := w.(*statusWriter); ok {
		sw.answers, sw.refuses = &f.answers, reads(r)
	}
	return nil
}

// takeStream takes a slot of all tokens, and one of the token's own or of its tenant. A part of a request takes none: that of this process's router has
// taken one, and those of others are counted as parts.
func (s *Server) takeStream(all *slots, own func(*inFlight) *slots, c *call, what, hint string, retrySeconds int) (leave func(), err error) {
	if c.part != whole {
		return func() {}, nil
	}
	f := s.heldBy(c.token)
	mine := own(f)
	if !mine.take() {
		return nil, tooMany(retrySeconds, "token: %d %s by %s: %s", mine.most, what, f.of(), hint)
	}
	if !all.take() {
		mine.leave()
		return nil, tooMany(retrySeconds, "%d %s: %s", all.most, what, hint)
	}
	return func() { all.leave(); mine.leave() }, nil
}

// largeAnswer is from how many bytes on an answer counts against its token's share.
const largeAnswer = 64 << 10

// holdAnswer counts a large answer while it is being sent. A GET that finds no room is
// refused; what was changed is answered all the same, and what comes next refused.
func (w *statusWriter) holdAnswer(n int) (release func(), err error) {
	size := int64(n)
	switch {
	case w.answers == nil || size < largeAnswer:
		return func() {}, nil
	case w.refuses && size <= w.answers.most && !w.answers.take(size):
		return nil, tooMany(5, "token: its large answers that were not read yet have %d bytes at most: read them", w.answers.most)
	case !w.refuses || size > w.answers.most:
		w.answers.overdraw(size)
	}
	return func() { w.answers.give(size) }, nil
}
