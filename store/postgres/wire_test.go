package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/orrery-go/orrery/store/postgres"
)

// wire stands between a store and the server, on the store's side of each connection.
type wire struct {
	mu    sync.Mutex
	trips int
	armed func(c *wireConn, p []byte) (n int, err error, done bool) // of the next commit
	sql   func(sql string)                                          // told of each statement before it is sent
}

// commitMark stands in each message with which commits are written.
const commitMark = "WITH fence AS"

// options has a store's connections go through the wire.
func (w *wire) options(o postgres.Options) postgres.Options {
	o.Configure = func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &wireConn{Conn: conn, w: w}, nil
		}
		c.ConnConfig.Tracer = w
	}
	return o
}

// TraceQueryStart counts a round trip.
func (w *wire) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	w.mu.Lock()
	w.trips++
	told := w.sql
	w.mu.Unlock()
	if told != nil {
		told(d.SQL)
	}
	return ctx
}

func (w *wire) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TracePrepareStart counts a round trip.
func (w *wire) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips++
	return ctx
}

func (w *wire) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// counted gives the round trips since the last time.
func (w *wire) counted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.trips
	w.trips = 0
	return n
}

// onSQL has fn told of each statement from now on.
func (w *wire) onSQL(fn func(sql string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sql = fn
}

// arm has fn write the next commit.
func (w *wire) arm(fn func(c *wireConn, p []byte) (n int, err error, done bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = fn
}

type wireConn struct {
	net.Conn
	w    *wire
	mu   sync.Mutex
	lose bool // the next answer
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	armed := c.w.armed
	is := armed != nil && bytes.Contains(p, []byte(commitMark)) && bytes.Contains(p, []byte("FROM fence, unnest")) && len(p) > 700
	if is {
		c.w.armed = nil
	}
	c.w.mu.Unlock()
	if is {
		if n, err, done := armed(c, p); done {
			return n, err
		}
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// cutBefore loses a commit on its way.
func cutBefore(c *wireConn, _ []byte) (int, error, bool) {
	_ = c.Conn.Close()
	return 0, io.ErrClosedPipe, true
}

// cutAfter loses the answer of a commit.
func cutAfter(c *wireConn, _ []byte) (int, error, bool) {
	c.mu.Lock()
	c.lose = true
	c.mu.Unlock()
	return 0, nil, false
}
