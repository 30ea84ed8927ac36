//go:build linux

package neighbourtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bully is tenant b, and whoever has no token at all. Its ways never fail the test:
// what the daemon answers to it is counted, and that it answers the victim is what counts.
type bully struct {
	d       *daemon
	http    *http.Client
	tarpit  *httptest.Server
	release chan struct{}
	n       atomic.Int64 // numbers names that must be new
	answers [6]atomic.Int64
	refusal atomic.Value // the last one, as text
}

func newBully(t *testing.T, d *daemon) *bully {
	t.Helper()
	b := &bully{d: d, http: client(32), release: make(chan struct{})}
	b.tarpit = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(b.release)
		b.tarpit.CloseClientConnections()
		b.tarpit.Close()
		b.http.CloseIdleConnections()
	})
	return b
}

// flood asks the same from several clients at once until ctx ends.
func (b *bully) flood(ctx context.Context, clients int, one func(ctx context.Context)) {
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				one(ctx)
			}
		})
	}
	wg.Wait()
}

// call asks with the token of tenant b, and does as a refusal says for a moment: a
// bully that only spins would measure the processor that it shares with the daemon.
func (b *bully) call(ctx context.Context, method, path, body string) (int, []byte) {
	return b.callAs(ctx, tokenB, method, path, body)
}

func (b *bully) callAs(ctx context.Context, token, method, path, body string) (int, []byte) {
	return b.callBy(ctx, b.http, token, method, path, body)
}

func (b *bully) callBy(ctx context.Context, c *http.Client, token, method, path, body string) (int, []byte) {
	status, answer, err := ask(ctx, c, b.d.url, token, method, path, body)
	if err != nil {
		b.answers[0].Add(1)
	} else {
		b.answers[status/100].Add(1)
	}
	if status >= 400 {
		b.refusal.Store(fmt.Sprintf("%d %.200s", status, answer))
	}
	if err != nil || status >= 400 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return status, answer
}

func (b *bully) summary() string {
	return fmt.Sprintf("answers to the bully: %d 2xx, %d 4xx, %d 5xx, %d none; the last refusal: %v",
		b.answers[2].Load(), b.answers[4].Load(), b.answers[5].Load(), b.answers[0].Load(), b.refusal.Load())
}

// connections holds many connections open, on each of which begin has been said.
func (b *bully) connections(ctx context.Context, most int, begin string) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	address := strings.TrimPrefix(b.d.url, "http://")
	var dialer net.Dialer
	for ctx.Err() == nil {
		if len(held) >= most {
			for _, c := range held { // what the daemon has closed is opened again
				_ = c.Close()
			}
			held = nil
		}
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			<-time.After(5 * time.Millisecond)
			continue
		}
		held = append(held, c)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, begin)
		if len(held) == most {
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// unread asks over many connections for what it never reads.
func (b *bully) unread(ctx context.Context, most int, path string) {
	b.connections(ctx, most, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+tokenB+"\r\n\r\n")
}

// heldBack declares a body, and sends all of it but the last byte.
func heldBack(path, header string, size int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		path, header, size, strings.Repeat(" ", size-1))
}

func (b *bully) fresh(prefix string) string { return fmt.Sprint(prefix, b.n.Add(1)) }
