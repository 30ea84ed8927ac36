package kubetest

import (
	"net"
	"sync"
)

// gate stops what goes through it while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while it is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// freezing is a listener whose server can be stopped as SIGSTOP does: the system takes
// connections and what comes by them, and nobody answers.
type freezing struct {
	net.Listener
	*gate
}

func (l freezing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.pass()
	if err != nil {
		return nil, err
	}
	return frozen{c, l.gate}, nil
}

type frozen struct {
	net.Conn
	*gate
}

func (c frozen) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.pass()
	return n, err
}

func (c frozen) Write(b []byte) (int, error) {
	c.pass()
	return c.Conn.Write(b)
}

// Freeze stops the proxy as SIGSTOP stops an API server: connections are taken, and nothing
// is answered, not even a ping of HTTP/2. [Proxy.Heal] has it go on.
func (p *Proxy) Freeze() { p.gate.shut() }
