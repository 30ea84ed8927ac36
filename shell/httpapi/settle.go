package httpapi

import (
	"context"
	"sync"
)

// underWay counts requests.
type underWay struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed once there are none; nil: nobody waits for that
}

// begin counts one more, until end is called.
func (u *underWay) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
	return u.end
}

func (u *underWay) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	u.tell()
}

// tell tells who waits, if there are none. u.mu is held.
func (u *underWay) tell() {
	if u.n == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

func (u *underWay) wait() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.tell()
	return idle
}

// Settled waits until no request is under way, but for streams and takes that wait for items, or until ctx ends. A process that lets another one answer in the
// server's place, and stops the engine then, calls it in between: so no request is refused since the engine has stopped.
func (s *Server) Settled(ctx context.Context) {
	select {
	case <-s.underWay.wait():
	case <-ctx.Done():
	}
}
