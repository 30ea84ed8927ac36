package httpapi

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the requests from one address that are refused with 401.
const (
	guessBurst   = 30              // at once, and then
	guessEvery   = 2 * time.Second // one in that time
	maxGuessers  = 10_000          // addresses that are remembered
	guessRetry   = 2               // seconds
	ipv6HostBits = 64              // of an address, of which one machine may have all
)

// guesses slows those down who try tokens and signatures: by address, so that the others
// are not. A right token from the same address is never slowed down: it is looked at
// first.
type guesses struct {
	mu    sync.Mutex
	from  map[netip.Prefix]*rate.Limiter
	order []netip.Prefix // oldest first
}

// allow reports whether one more refusal may be told to an address.
func (g *guesses) allow(remote string, now time.Time) bool {
	from := guesser(remote)
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.from[from]
	if !ok {
		if g.from == nil {
			g.from = make(map[netip.Prefix]*rate.Limiter)
		}
		if len(g.order) >= maxGuessers {
			delete(g.from, g.order[0])
			g.order = g.order[1:]
		}
		l = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
		g.from[from] = l
		g.order = append(g.order, from)
	}
	return l.AllowN(now, 1)
}

// guesser gives the address of a peer, of IPv6 the network; all that have none, such as
// those of a unix socket, are one.
func guesser(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = ipv6HostBits
	}
	p, _ := ip.Prefix(bits) // the bits are right
	return p
}

// slowed gives the answer to a request that was refused with 401: after many from its
// address that it has to wait.
func (s *Server) slowed(r *http.Request, err error) error {
	f := classify(err)
	if f.status != http.StatusUnauthorized || s.guesses.allow(r.RemoteAddr, s.o.Clock.Steady()) {
		return err
	}
	return tooMany(guessRetry, "too many requests from this address had no right token or signature: wait before the next").with("Connection", "close")
}
