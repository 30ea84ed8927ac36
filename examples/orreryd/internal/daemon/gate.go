package daemon

import (
	"net"
	"sync"
	"time"
)

// gate is an address that stays open while those who answer there follow one another: a daemon that stands by, and the
// same one that works.
type gate struct {
	net.Listener
	conns  chan net.Conn
	failed chan struct{} // closed once nothing comes any more
	closed chan struct{}
	close  sync.Once
	err    error // why; read it after failed
}

func newGate(l net.Listener) *gate {
	g := &gate{Listener: l, conns: make(chan net.Conn), failed: make(chan struct{}), closed: make(chan struct{})}
	go g.accept()
	return g
}

func (g *gate) accept() {
	defer close(g.failed)
	const least = 5 * time.Millisecond
	for pause := least; ; {
		c, err := g.Listener.Accept()
		if err != nil {
			if passing, ok := err.(interface{ Temporary() bool }); ok && passing.Temporary() { // such as for want of descriptors
				<-time.After(pause)
				pause = min(2*pause, time.Second)
				continue
			}
			g.err = err
			return
		}
		pause = least
		select {
		case g.conns <- c:
		case <-g.closed:
			_ = c.Close()
		}
	}
}

// Close releases the address.
func (g *gate) Close() error {
	g.close.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// turn gives a listener for whoever answers next. Its Close ends that turn alone: connections that nobody has accepted wait for
// the next one.
func (g *gate) turn() net.Listener { return &turn{gate: g, ended: make(chan struct{})} }

type turn struct {
	*gate
	once  sync.Once
	ended chan struct{}
}

func (t *turn) Accept() (net.Conn, error) {
	select { // one that has ended takes nothing, whatever waits
	case <-t.ended:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.ended:
		return nil, net.ErrClosed
	case <-t.failed:
		return nil, t.err
	}
}

func (t *turn) Close() error {
	t.once.Do(func() { close(t.ended) })
	return nil
}
