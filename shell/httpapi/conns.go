package httpapi

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// conns bounds the open connections. Beyond the bound a connection that waits for its
// client makes room for a new one, the longest first: one that has sent no request yet,
// whose request has shown neither a token that is accepted nor a signature that is right,
// or whose request has been answered. Connections of known clients come last: their next
// request may be on its way. If all work for their clients the new one is closed.
type conns struct {
	most int // 0: no bound
	log  *slog.Logger

	mu        sync.Mutex
	open      int
	strangers list.List // of *conn that wait, the longest first: nobody knows their clients
	idle      list.List // likewise, of clients that have had an answer to a token

	served, evicted, refused, failed atomic.Int64

	full   seldom // says that a connection was refused or closed
	errors seldom // says that none could be accepted
}

func newConns(most int, log *slog.Logger, clock shell.Clock) *conns {
	return &conns{most: most, log: log, full: seldom{clock: clock}, errors: seldom{clock: clock}}
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	of      *conns
	waits   *list.Element // nil: it works for its client
	works   int           // requests that are worked on: over HTTP/2 several at a time
	known   bool          // its client has shown a token that is accepted
	removed bool
}

// Close closes the connection and gives its place away.
func (c *conn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// admit counts a new connection; false if it has no place.
func (s *conns) admit(c net.Conn) (*conn, bool) {
	in := &conn{Conn: c, of: s}
	victim, ok := s.enter(in)
	if victim != nil {
		s.evicted.Add(1)
		_ = victim.Conn.Close() // its client waits for nothing
	}
	if !ok || victim != nil {
		s.tellFull(ok)
	}
	return in, ok
}

func (s *conns) enter(in *conn) (victim *conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.open >= s.most {
		if victim = s.longest(); victim == nil {
			return nil, false
		}
	}
	s.open++
	in.waits = s.strangers.PushBack(in)
	return victim, true
}

// queue is where a connection waits.
func (s *conns) queue(c *conn) *list.List {
	if c.known {
		return &s.idle
	}
	return &s.strangers
}

// longest takes out the connection that waits longest, of a stranger if one does; nil if
// none waits.
func (s *conns) longest() *conn {
	front := s.strangers.Front()
	if front == nil {
		front = s.idle.Front()
	}
	if front == nil {
		return nil
	}
	c, _ := front.Value.(*conn)
	s.drop(c)
	return c
}

// drop takes a connection out, once.
func (s *conns) drop(c *conn) {
	if c.removed {
		return
	}
	c.removed = true
	s.open--
	if c.waits != nil {
		s.queue(c).Remove(c.waits)
		c.waits = nil
	}
}

func (s *conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// work notes that a request is worked on, whose client has shown a token (known) or a
// signature: until done is called its connection gives way to no other one.
func (s *conns) work(r *http.Request, known bool) (done func()) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.works++
	if c.waits != nil {
		s.queue(c).Remove(c.waits)
		c.waits = nil
	}
	c.known = c.known || known
	return func() { s.rest(c) }
}

// rest notes that a request has been worked on.
func (s *conns) rest(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.works--
	if c.works == 0 && !c.removed {
		c.waits = s.queue(c).PushBack(c)
	}
}

// stirred notes that a connection that waits has sent something or was answered.
func (s *conns) stirred(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.waits != nil {
		s.queue(c).MoveToBack(c.waits)
	}
}

// state hears from [http.Server] what a connection does.
func (s *conns) state(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.served.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.served.Add(-1)
	case http.StateActive, http.StateIdle:
		if c := counted(c); c != nil {
			s.stirred(c)
		}
	}
}

type connKey struct{}

// into lets a request find its connection.
func (s *conns) into(ctx context.Context, c net.Conn) context.Context {
	if in := counted(c); in != nil {
		return context.WithValue(ctx, connKey{}, in)
	}
	return ctx
}

// counted gives the connection that was counted, also under one of TLS; nil if none was.
func counted(c net.Conn) *conn {
	for {
		if in, ok := c.(*conn); ok {
			return in
		}
		under, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = under.NetConn()
	}
}

// seldom bounds how often something is logged.
type seldom struct {
	clock shell.Clock
	mu    sync.Mutex
	next  time.Time
	since int // times since it was logged
}

// sayEvery is how often the same is logged.
const sayEvery = time.Minute

// now reports whether it is to be logged, and how often it came since it was.
func (s *seldom) now() (times int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	now := s.clock.Steady()
	if now.Before(s.next) {
		return 0, false
	}
	times, s.since, s.next = s.since, 0, now.Add(sayEvery)
	return times, true
}

func (s *conns) tellFull(admitted bool) {
	if !admitted {
		s.refused.Add(1)
	}
	if times, ok := s.full.now(); ok {
		s.log.Warn("connections are at their bound: those that wait for their clients are closed, and new ones if none does",
			"max_connections", s.most, "times", times, "closed", s.evicted.Load(), "refused", s.refused.Load())
	}
}

func (s *conns) tellFailed(err any) {
	s.failed.Add(1)
	if times, ok := s.errors.now(); ok {
		s.log.Warn("a connection could not be accepted", "error", err, "times", times, "open", s.served.Load())
	}
}

// listener accepts the connections of a server.
type listener struct {
	net.Listener
	of     *conns
	closed chan struct{}
	once   sync.Once
}

// Listener bounds the connections that l accepts, as Options.MaxConnections says, and
// reports at most once a minute what could not be accepted. Serve it with
// [Server.HTTPServer]; what wraps its connections must have NetConn, as those of
// crypto/tls do.
func (s *Server) Listener(l net.Listener) net.Listener {
	return s.conns.listener(l)
}

func (s *conns) listener(l net.Listener) net.Listener {
	return &listener{Listener: l, of: s, closed: make(chan struct{})}
}

// maxAcceptDelay is how long a listener waits after an error that passes.
const maxAcceptDelay = time.Second

// Accept waits for the next connection that has a place.
func (l *listener) Accept() (net.Conn, error) {
	delay := 5 * time.Millisecond
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			if in, ok := l.of.admit(c); ok {
				return in, nil
			}
			_ = c.Close()
		case !passes(err):
			return nil, err
		default:
			l.of.tellFailed(err)
			l.of.evict()
			select {
			case <-time.After(delay):
			case <-l.closed:
				return nil, net.ErrClosed
			}
			delay = min(2*delay, maxAcceptDelay)
		}
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// evict closes the connection that waits longest: what could not be accepted for want of
// a descriptor may be then.
func (s *conns) evict() {
	s.mu.Lock()
	victim := s.longest()
	s.mu.Unlock()
	if victim != nil {
		s.evicted.Add(1)
		_ = victim.Conn.Close()
	}
}

// passes reports whether an error of Accept is one of the moment.
func passes(err error) bool {
	for _, passing := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// serverLog is where [http.Server] writes: at debug level, but for connections that a
// listener of another make could not accept.
type serverLog struct {
	slog.Handler
	of *conns
}

// Enabled lets Handle see everything.
func (serverLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle passes on what is enabled.
func (l serverLog) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case strings.HasPrefix(r.Message, "http: Accept error"):
		l.of.tellFailed(r.Message)
	case l.Handler.Enabled(ctx, r.Level):
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

var (
	descConns        = desc("orrery_http_connections", "Open connections of the HTTP API.")
	descConnsClosed  = desc("orrery_http_connections_closed_total", "Connections that were closed for others, at the bound: idle ones, and new ones of which the reason says \"refused\".", "reason")
	descAcceptErrors = desc("orrery_http_accept_errors_total", "Connections that could not be accepted. Alert on it: descriptors.")
)

// collectConns tells of the connections.
func (s *Server) collectConns(_ context.Context, ch samples) {
	ch.gauge(descConns, float64(s.conns.served.Load()))
	ch.counter(descConnsClosed, uint64(s.conns.evicted.Load()), "idle")
	ch.counter(descConnsClosed, uint64(s.conns.refused.Load()), "refused")
	ch.counter(descAcceptErrors, uint64(s.conns.failed.Load()))
}
