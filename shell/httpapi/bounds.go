package httpapi

import (
	"log/slog"
	"net"
	"net/http"

	"github.com/orrery-go/orrery/shell"
)

// Bounds are those that the API's addresses have on connections and on slow and large requests, for what answers in its place: a process
// that passes requests on to another one, say. They are safe for concurrent use.
type Bounds struct {
	conns *conns
	log   *slog.Logger
}

// NewBounds makes those of addresses that together have at most that many connections, as Options.MaxConnections says; 0: no bound.
func NewBounds(maxConnections int, log *slog.Logger) *Bounds {
	return &Bounds{newConns(maxConnections, log, shell.SystemClock{}), log}
}

// Listener bounds the connections that l accepts, as [Server.Listener] does.
func (b *Bounds) Listener(l net.Listener) net.Listener { return b.conns.listener(l) }

// HTTPServer gives an [http.Server] with the bounds of [Server.HTTPServer] that answers with h. A connection whose request h works on gives way to
// no other one.
func (b *Bounds) HTTPServer(addr string, h http.Handler) *http.Server {
	return boundedServer(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer b.conns.work(r, false)()
		h.ServeHTTP(w, r)
	}), b.conns, b.log, DefaultRequestTimeout)
}
