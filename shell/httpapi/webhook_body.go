package httpapi

import (
	"io"
	"net/http"
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
// bodies together count against one bound.
func (s *Server) readUnverified(w http.ResponseWriter, r *http.Request, c *call) ([]byte, error) {
	if r.ContentLength > s.o.MaxWebhookBytes {
		return nil, tooLong(s.o.MaxWebhookBytes)
	}
	c.body.of = &s.unverified
	if !c.body.grow(minUnverified) {
		s.metrics.crowded.Inc()
		return nil, tooManyBytes(&c.body)
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
