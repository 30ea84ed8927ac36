package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a listener within the process: its connections have deadlines that
// follow the bubble's time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "@pipe", Net: "unix"} }

// dial gives the client's end of a new connection.
func (p *pipes) dial() net.Conn { return p.dialFrom("") }

// dialFrom is dial by a client that has an address; empty: that of a pipe.
func (p *pipes) dialFrom(address string) net.Conn {
	client, server := net.Pipe()
	if address != "" {
		server = placed{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
	}
	p.conns <- server
	return client
}

// placed is a connection from an address.
type placed struct {
	net.Conn
	from net.Addr
}

func (p placed) RemoteAddr() net.Addr { return p.from }

// serve runs the real server, with its time-outs, in the bubble of a test.
func serve(t *testing.T, a *api) *pipes {
	t.Helper()
	srv := a.server.HTTPServer("ignored")
	assert.Equal(t, "ignored", srv.Addr)
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(p) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return p
}

// read gives all that the server still says, and when it closed.
func read(t *testing.T, c net.Conn, since time.Time) (string, time.Duration) {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe), err)
	}
	return string(b), time.Since(since)
}

func TestSlowConnectionsAreClosed(t *testing.T) {
	const head = "POST /v1/actions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	tests := map[string]struct {
		send  string
		after time.Duration
		says  string
	}{
		"nothing at all":     {"", 10 * time.Second, ""},
		"half of the header": {head, 10 * time.Second, ""},
		"half of the body":   {head + "Content-Length: 100\r\n\r\n{", 60 * time.Second, "HTTP/1.1 408 "},
		"an idle connection": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 120 * time.Second, "HTTP/1.1 200 "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t, start(t, setup{stopped: true}))
				begin := time.Now()
				c := p.dial()
				if test.send != "" { // a pipe blocks even on an empty write
					_, err := io.WriteString(c, test.send)
					require.NoError(t, err)
				}
				text, took := read(t, c, begin)
				assert.Equal(t, test.after, took)
				assert.True(t, strings.HasPrefix(text, test.says), text)
				if test.says == "HTTP/1.1 408 " {
					assert.Contains(t, text, `{"error":"body: did not arrive in time"}`)
				}
			})
		})
	}
}

func TestHeadersThatAreTooLargeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, start(t, setup{stopped: true}))
		c := p.dial()
		go func() {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)
		_ = c.Close()
	})
}

func TestABackupMayTakeLongerThanAnyTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowBackup(t)
		p := serve(t, start(t, setup{store: st, stopped: true}))
		c := p.dial()
		_, err := io.WriteString(c, "GET /v1/backup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		go func() {
			<-st.begun
			<-time.After(24 * time.Hour) // of the bubble
			st.end <- nil
		}()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Equal(t, "the first bytes", string(body))
		_ = c.Close()
	})
}

func TestABackupEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlowBackup(t)
		a := start(t, setup{store: st, stopped: true})
		p := serve(t, a)
		c := p.dial()
		_, err := io.WriteString(c, "GET /v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		<-st.begun
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Contains(t, a.logs.String(), "context canceled")
	})
}
