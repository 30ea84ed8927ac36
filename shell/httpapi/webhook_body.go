package httpapi

import (
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of a body whose sender nobody knows yet: it must arrive steadily, so that one
// that holds bytes back soon gives back what it takes of the memory of all.
const (
	bodyIdle  = 5 * time.Second  // between two pieces of it
	bodyGrace = 10 * time.Second // for the first bytes, and then
	bodyRate  = 16 << 10         // so many bytes a second on the average
)

// minUnverified is what a body counts as at least: what a request takes beside its body.
const minUnverified = 4 << 10

// readUnverified reads the body of a webhook whose signature is not checked yet. All such
// bodies together count against one bound, and those of each address against a part of it.
func (s *Server) readUnverified(w http.ResponseWriter, r *http.Request, c *call) ([]byte, error) {
	if r.ContentLength > s.o.MaxWebhookBytes {
		return nil, tooLong(s.o.MaxWebhookBytes)
	}
	c.body.of = &s.unverified
	c.body.from = &sender{of: &s.senders, at: guesser(r.RemoteAddr)}
	if !c.body.grow(minUnverified) {
		s.metrics.crowded.Inc()
		return nil, c.body.full
	}
	rc := http.NewResponseController(w)
	steady := &steadyReader{body: r.Body, rc: rc, start: time.Now()}
	r.Body = struct {
		io.Reader
		io.Closer
	}{steady, r.Body}
	body, err := readBody(w, r, s.o.MaxWebhookBytes, &c.body)
	if err != nil {
		if f := classify(err); f.status == http.StatusTooManyRequests {
			s.metrics.crowded.Inc()
		}
		return nil, err
	}
	// What comes next is a matter of the request's own time limit: net/http takes a read
	// that is over time for a client that has gone.
	_ = rc.SetReadDeadline(time.Now().Add(readTimeout + s.o.RequestTimeout))
	return body, nil
}

// steadyReader reads a body that has to arrive steadily.
type steadyReader struct {
	body  io.Reader
	rc    *http.ResponseController
	start time.Time
	got   int64
}

func (s *steadyReader) Read(b []byte) (int, error) {
	until := time.Now().Add(bodyIdle)
	for _, limit := range []time.Time{
		s.start.Add(readTimeout), s.start.Add(bodyGrace + time.Duration(s.got)*time.Second/bodyRate),
	} {
		if limit.Before(until) {
			until = limit
		}
	}
	_ = s.rc.SetReadDeadline(until) // a recorder of tests has none
	n, err := s.body.Read(b)
	s.got += int64(n)
	return n, err
}

// addressPart is the part of the bound of all webhooks that one address may fill with
// bodies whose signature nobody knows yet; but always one body.
const addressPart = 4

// senders are the addresses (of IPv6 the networks) that send such bodies.
type senders struct {
	mu   sync.Mutex
	held map[netip.Prefix]int64 // bytes, of those that hold any
	most int64                  // of each
}

// sender is what a request holds of the share of its address.
type sender struct {
	of *senders
	at netip.Prefix
}

// take takes n bytes if there are as many left, and reports whether there were.
func (s *sender) take(n int64) bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if n > s.of.most-s.of.held[s.at] {
		return false
	}
	if s.of.held == nil {
		s.of.held = make(map[netip.Prefix]int64)
	}
	s.of.held[s.at] += n
	return true
}

// give gives n bytes back; nil has taken none.
func (s *sender) give(n int64) {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.held[s.at] -= n; s.of.held[s.at] <= 0 {
		delete(s.of.held, s.at)
	}
}
