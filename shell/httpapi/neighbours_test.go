package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store/memory"
)

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestAWebhookIsRefusedByItsHeadersBeforeItsBodyIsRead(t *testing.T) {
	now := time.Now()
	without := func(name string, sign func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) { sign(r); r.Header.Del(name) }
	}
	for name, test := range map[string]struct {
		route  string
		sign   func(*http.Request)
		status int
		says   string
	}{
		"standard, no id":        {"std", without("Webhook-Id", standard(t, standardSecret, "m", now, "")), 401, "signature: missing"},
		"standard, no time":      {"std", without("Webhook-Timestamp", standard(t, standardSecret, "m", now, "")), 401, "signature: missing"},
		"standard, no signature": {"std", without("Webhook-Signature", standard(t, standardSecret, "m", now, "")), 401, "signature: missing"},
		"standard, old":          {"std", standard(t, standardSecret, "m", now.Add(-6*time.Minute), ""), 401, "more than five minutes old"},
		"standard, ahead":        {"std", standard(t, standardSecret, "m", now.Add(6*time.Minute), ""), 401, "more than five minutes ahead"},
		"standard, no form": {"std", func(r *http.Request) {
			standard(t, standardSecret, "m", now, "")(r)
			r.Header.Set("Webhook-Signature", "v1,x v2,AA==")
		}, 401, "has none of the form v1,BASE64 of 32 bytes"},
		"github, none":        {"gh", func(*http.Request) {}, 401, "signature: missing"},
		"github, no form":     {"gh", with("X-Hub-Signature-256", "sha256=00"), 401, "does not match"},
		"github, no delivery": {"gh", gitHub(gitHubSecret, "", ""), 400, "X-GitHub-Delivery: missing"},
		"too large":           {"open", func(r *http.Request) { r.ContentLength = 10<<20 + 1 }, 413, "larger than the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := webhookAPI(t, setup{}).do("POST", "/v1/webhooks/"+test.route, unread{t}, test.sign)
			assert.Equal(t, test.status, r.status)
			assert.Contains(t, r.errorText(), test.says)
			assert.Equal(t, "close", r.header.Get("Connection"))
		})
	}
}

// post begins a webhook with a body of that length on a connection of its own.
func post(t *testing.T, p *pipes, length int) net.Conn { return postFrom(t, p, "", length) }

// postFrom is post by a client that has an address.
func postFrom(t *testing.T, p *pipes, address string, length int) net.Conn {
	t.Helper()
	c := p.dialFrom(address)
	_, err := fmt.Fprintf(c, "POST /v1/webhooks/open HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", length)
	require.NoError(t, err)
	return c
}

// readAnswer reads an answer's status and body.
func readAnswer(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func TestBodiesOfWebhooksThatAreHeldBackAreBoundedAndGiveTheirShareBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := webhookAPI(t, setup{api: func(o *httpapi.Options) {
			o.MaxWebhookBytes, o.MaxWebhookBytesInFlight = 20<<10, 53<<10
		}})
		p := serve(t, a)
		body := strings.Repeat("w", 20<<10)
		begin := time.Now()
		var held []net.Conn
		for _, from := range []string{"[::1]:1", "127.0.0.2:1"} {
			c := postFrom(t, p, from, len(body))
			_, err := io.WriteString(c, body[1:]) // the last byte is held back
			require.NoError(t, err)
			held = append(held, c)
		}
		synctest.Wait()
		for name, send := range map[string]io.Reader{"with its length": strings.NewReader(body), "without": io.MultiReader(strings.NewReader(body))} {
			r := a.do("POST", "/v1/webhooks/open", send)
			assert.Equal(t, http.StatusTooManyRequests, r.status, name)
			assert.Equal(t, "1", r.header.Get("Retry-After"))
			assert.Equal(t, "body: the bodies that are being read and worked on may have 54272 bytes together: try again", r.errorText())
		}
		assert.Equal(t, http.StatusAccepted, a.do("POST", "/v1/webhooks/open", "small").status, "there is room for a small one")
		for _, c := range held {
			status, text := readAnswer(t, c)
			assert.Equal(t, http.StatusRequestTimeout, status)
			assert.JSONEq(t, `{"error":"body: did not arrive in time"}`, text)
			assert.Equal(t, 5*time.Second, time.Since(begin))
			_ = c.Close()
		}
		synctest.Wait()
		assert.Equal(t, http.StatusAccepted, a.do("POST", "/v1/webhooks/open", body).status)
		assert.Contains(t, a.do("GET", "/metrics", nil).body, "orrery_webhooks_crowded_total 2")
	})
}

func TestOneAddressDoesNotHoldTheShareOfAllWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := webhookAPI(t, setup{api: func(o *httpapi.Options) {
			o.MaxWebhookBytes, o.MaxWebhookBytesInFlight = 20<<10, 128<<10
		}})
		p := serve(t, a)
		body := strings.Repeat("w", 20<<10)
		var held []net.Conn
		hold := func(address string, declared, sent int) {
			c := postFrom(t, p, address, declared)
			_, err := io.WriteString(c, body[:sent])
			require.NoError(t, err)
			held = append(held, c)
			synctest.Wait()
		}
		hold("[::1]:1", 20<<10, 19<<10)
		c := postFrom(t, p, "[::1]:2", 20<<10)
		status, text := readAnswer(t, c)
		_ = c.Close()
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.JSONEq(t, `{"error":"body: the bodies of one address that are being read may have 32768 bytes together: try again"}`, text)
		for n := range 4 {
			hold(fmt.Sprintf("127.0.0.%d:1", n+2), 20<<10, 1)
		}
		assert.Equal(t, http.StatusAccepted, a.do("POST", "/v1/webhooks/open", body).status, "what was declared and did not come holds a piece")
		for _, c := range held {
			_ = c.Close()
		}
	})
}

func TestWebhooksWhoseSignatureIsRightDoNotCountAgainstTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &hung{Store: memory.New(), release: make(chan struct{})}
		defer func() { _ = st.Close() }()
		a := webhookAPI(t, setup{store: st, api: func(o *httpapi.Options) {
			o.MaxWebhookBytes, o.MaxWebhookBytesInFlight = 20<<10, 128<<10
		}})
		defer a.stop()
		st.held.Store(true)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				r := a.do("POST", "/v1/webhooks/open", strings.Repeat("w", 20<<10))
				assert.Equal(t, http.StatusAccepted, r.status, r.body)
			})
			synctest.Wait()
		}
		close(st.release)
		wg.Wait()
	})
}

func TestABodyOfAWebhookThatTricklesIsCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		piece  int
		every  time.Duration
		status int
		took   time.Duration
	}{
		"a byte in four seconds":    {1, 4 * time.Second, http.StatusRequestTimeout, 10 * time.Second},
		"four kilobytes a second":   {4 << 10, time.Second, http.StatusRequestTimeout, 13 * time.Second},
		"thirty kilobytes a second": {30 << 10, time.Second, http.StatusAccepted, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := webhookAPI(t, setup{})
				p := serve(t, a)
				begin := time.Now()
				c := post(t, p, 300<<10)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for range 300 << 10 / test.piece {
						<-time.After(test.every) // of the bubble
						if _, err := c.Write(make([]byte, test.piece)); err != nil {
							return
						}
					}
				}()
				status, _ := readAnswer(t, c)
				assert.Equal(t, test.status, status)
				assert.InDelta(t, test.took.Seconds(), time.Since(begin).Seconds(), 1)
				_ = c.Close()
				<-sent
			})
		})
	}
}

func TestADeliveryIsRememberedOverARestart(t *testing.T) {
	for name, strict := range map[string]bool{"its action": false, "its raw body": true} {
		t.Run(name, func(t *testing.T) {
			st := memory.New()
			t.Cleanup(func() { _ = st.Close() })
			c := newClock()
			s := setup{
				store: st, engine: func(o *shell.Options) { o.Clock, o.StrictTick = c, strict },
				api: func(o *httpapi.Options) { o.Clock = c },
			}
			send := func(a *api, delivery string) string {
				t.Helper()
				r := a.do("POST", "/v1/webhooks/gh", "x", gitHub(gitHubSecret, delivery, "x"))
				require.Equal(t, http.StatusAccepted, r.status, r.body)
				return r.str("webhook_id")
			}
			a := webhookAPI(t, s)
			first := send(a, "d")
			a.stop()
			c.advance(9 * time.Minute) // most likely into the next stretch of time
			a = webhookAPI(t, s)
			assert.Equal(t, first, send(a, "d"))
			assert.NotEqual(t, first, send(a, "e"))
			assert.Contains(t, a.do("GET", "/metrics", nil).body, `orrery_webhooks_replayed_total{route="gh"} 1`)
			a.stop()
			c.advance(time.Minute + time.Second)
			a = webhookAPI(t, s)
			if !strict { // a raw body that waits is known for as long as it does
				assert.NotEqual(t, first, send(a, "d"), "the other side may send it anew after ten minutes")
			}
		})
	}
}

func TestRefusalsOfAnAddressAreSlowedDownAndNobodyElse(t *testing.T) {
	c := newClock()
	a := webhookAPI(t, setup{api: func(o *httpapi.Options) { neighbours(o); o.Clock = c }})
	from := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	guess := func(addr string) answer {
		return a.do("GET", "/v1/actions", nil, bearer("a guess"), from(addr))
	}
	for i := range 30 {
		require.Equal(t, http.StatusUnauthorized, guess(fmt.Sprintf("[2001:db8:0:1::%x]:9", i)).status)
	}
	r := guess("[2001:db8:0:1:ffff::]:9")
	assert.Equal(t, http.StatusTooManyRequests, r.status, "another address of the same machine")
	assert.Equal(t, "2", r.header.Get("Retry-After"))
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/actions", nil, bearer("secret-a"), from("[2001:db8:0:1::1]:9")).status, "a right token")
	body := gitHub(gitHubSecret, "d", "x")
	assert.Equal(t, http.StatusAccepted, a.do("POST", "/v1/webhooks/gh", "x", body, from("[2001:db8:0:1::1]:9")).status, "a right signature")
	assert.Equal(t, http.StatusTooManyRequests, a.do("POST", "/v1/webhooks/gh", "y", body, from("[2001:db8:0:1::1]:9")).status, "a wrong one")
	assert.Equal(t, http.StatusUnauthorized, guess("[2001:db8:0:2::1]:9").status)
	assert.Equal(t, http.StatusUnauthorized, guess("192.0.2.1:9").status)
	c.advance(2 * time.Second)
	assert.Equal(t, http.StatusUnauthorized, guess("[2001:db8:0:1::1]:9").status)
	assert.Equal(t, http.StatusTooManyRequests, guess("[2001:db8:0:1::1]:9").status)
}

// serveBounded is serve with the listener of the server.
func serveBounded(t *testing.T, a *api, l net.Listener) {
	t.Helper()
	srv := a.server.HTTPServer("ignored")
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(a.server.Listener(l)) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Close())
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func TestSilentAndIdleConnectionsGiveWayToNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := webhookAPI(t, setup{api: func(o *httpapi.Options) { o.MaxConnections = 3 }})
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		serveBounded(t, a, p)
		begin := time.Now()
		idle := p.dial()
		_, err := io.WriteString(idle, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		status, _ := readAnswer(t, idle)
		require.Equal(t, http.StatusOK, status)
		synctest.Wait() // it waits for its client from now on
		silent := p.dial()
		synctest.Wait()
		held := post(t, p, 100) // a body that does not come
		synctest.Wait()
		for i, victim := range []net.Conn{idle, silent, held} {
			c := p.dial()
			_, err := io.WriteString(c, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, "the connection %d is served", i)
			assert.Equal(t, http.StatusOK, res.StatusCode)
			_, err = victim.Read(make([]byte, 1))
			assert.Error(t, err)
			defer func() { _ = c.Close() }()
		}
		assert.Zero(t, time.Since(begin), "nobody waited for a time limit")
		refused := p.dial()
		_, err = refused.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "all three work for their clients")
		synctest.Wait()
		metrics := a.do("GET", "/metrics", nil).body
		assert.Contains(t, metrics, "orrery_http_connections 3")
		assert.Contains(t, metrics, `orrery_http_connections_closed_total{reason="idle"} 3`)
		assert.Contains(t, metrics, `orrery_http_connections_closed_total{reason="refused"} 1`)
		assert.Equal(t, 1, strings.Count(a.logs.String(), "connections are at their bound"), "four times in less than a minute")
	})
}

func TestConnectionsWhoseBodiesDoNotComeGiveWayAndAreAnswered(t *testing.T) {
	const body = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"probe":                 {"GET /healthz HTTP/1.1\r\n" + body, 200},
		"no token":              {"POST /v1/actions HTTP/1.1\r\n" + body, 401},
		"wrong token":           {"POST /v1/actions HTTP/1.1\r\nAuthorization: Bearer no\r\n" + body, 401},
		"unknown path":          {"POST /v2 HTTP/1.1\r\n" + body, 404},
		"path that is unclean":  {"POST /v1//actions HTTP/1.1\r\n" + body, 404},
		"other method":          {"PATCH /v1/actions HTTP/1.1\r\n" + body, 405},
		"refused webhook":       {"POST /v1/webhooks/gh HTTP/1.1\r\n" + body, 401},
		"unknown webhook":       {"POST /v1/webhooks/none HTTP/1.1\r\n" + body, 404},
		"no right":              {"POST /v1/actions HTTP/1.1\r\nAuthorization: Bearer reader\r\n" + body, 403},
		"reader of no body":     {"GET /v1/info HTTP/1.1\r\nAuthorization: Bearer reader\r\n" + body, 200},
		"body of another type":  {"POST /v1/actions HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Encoding: x\r\n" + body, 415},
		"chunks without an end": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := webhookAPI(t, setup{api: func(o *httpapi.Options) {
					o.MaxConnections = 3
					o.Tokens = []httpapi.Token{
						{Name: "ops", SHA256: httpapi.HashToken("secret"), Admin: true},
						{Name: "reader", SHA256: httpapi.HashToken("reader"), ReadOnly: true},
					}
				}})
				p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				serveBounded(t, a, p)
				begin := time.Now()
				send := func() net.Conn {
					c := p.dial()
					_, err := io.WriteString(c, test.request+"\r\n")
					require.NoError(t, err)
					return c
				}
				var held []net.Conn
				for range 7 { // each beyond the third takes the place of another one
					c := send()
					status, _ := readAnswer(t, c)
					require.Equal(t, test.status, status)
					held = append(held, c)
					synctest.Wait()
				}
				assert.Zero(t, time.Since(begin), "no answer waits for a body")
				_, err := held[6].Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF, "the connection ends")
				assert.Equal(t, time.Second, time.Since(begin))
				synctest.Wait()
				metrics := a.do("GET", "/metrics", nil, bearer("secret")).body
				assert.Contains(t, metrics, "orrery_http_connections 0")
				assert.Contains(t, metrics, `orrery_http_connections_closed_total{reason="idle"} 4`)
				assert.Contains(t, metrics, `orrery_http_connections_closed_total{reason="refused"} 0`)
			})
		})
	}
}

func TestAnAnswerThatAStrangerDoesNotReadHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{api: func(o *httpapi.Options) { o.MaxConnections = 2 }})
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		serveBounded(t, a, p)
		for range 5 {
			_, err := io.WriteString(p.dial(), "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
			synctest.Wait()
		}
		c := p.dial()
		_, err := io.WriteString(c, "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		status, _ := readAnswer(t, c)
		assert.Equal(t, http.StatusOK, status)
	})
}

func TestABodyThatIsReadLeavesItsConnectionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, start(t, setup{}))
		c := p.dial()
		defer func() { _ = c.Close() }()
		for range 3 {
			const action = `{"tool_name":"echo"}`
			_, err := fmt.Fprintf(c, "POST /v1/actions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(action), action)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			assert.False(t, res.Close)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
		}
	})
}

func TestConnectionsOfKnownClientsGiveWayAfterThoseOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := webhookAPI(t, setup{api: func(o *httpapi.Options) {
			o.MaxConnections = 2
			o.Tokens = []httpapi.Token{{Name: "ops", SHA256: httpapi.HashToken("secret"), Admin: true}}
		}})
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		serveBounded(t, a, p)
		info := func(c net.Conn) int {
			_, err := io.WriteString(c, "GET /v1/info HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n")
			require.NoError(t, err)
			status, _ := readAnswer(t, c)
			return status
		}
		known := p.dial()
		require.Equal(t, http.StatusOK, info(known))
		synctest.Wait() // it waits longer than all others from now on
		for range 5 {
			p.dial() // silent
			synctest.Wait()
		}
		assert.Equal(t, http.StatusOK, info(known), "the silent ones gave way to one another")
		for range 2 {
			require.Equal(t, http.StatusOK, info(p.dial()))
			synctest.Wait()
		}
		_, err := known.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "of known clients the one that waits longest")
	})
}

// starved is a listener that has no descriptor for some connections.
type starved struct {
	*pipes
	mu    sync.Mutex
	times int
}

func (s *starved) Accept() (net.Conn, error) {
	s.mu.Lock()
	fail := s.times > 0
	s.times--
	s.mu.Unlock()
	if fail {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	}
	return s.pipes.Accept()
}

func TestConnectionsThatCannotBeAcceptedAreCountedAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		serveBounded(t, a, &starved{pipes: p, times: 100})
		c := p.dial()
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		status, _ := readAnswer(t, c)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, a.do("GET", "/metrics", nil).body, "orrery_http_accept_errors_total 100")
		lines := strings.Count(a.logs.String(), "a connection could not be accepted")
		assert.Equal(t, 2, lines, "a minute and a half")
		assert.Contains(t, a.logs.String(), "level=WARN")
		assert.Contains(t, a.logs.String(), syscall.EMFILE.Error())
		require.NoError(t, c.Close())
	})
}

func TestAListenerOfAnotherMakeIsHeardOfToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{})
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		srv := a.server.HTTPServer("ignored")
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(&starved{pipes: p, times: 3}) }()
		c := p.dial()
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		status, _ := readAnswer(t, c)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, a.do("GET", "/metrics", nil).body, "orrery_http_accept_errors_total 3")
		assert.Equal(t, 1, strings.Count(a.logs.String(), "a connection could not be accepted"))
		require.NoError(t, c.Close())
		require.NoError(t, srv.Close())
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func TestAListenerThatIsClosedEndsItsServer(t *testing.T) {
	a := start(t, setup{})
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	l := a.server.Listener(&starved{pipes: p, times: 1 << 30})
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	require.NoError(t, l.Close())
	assert.ErrorIs(t, <-ended, net.ErrClosed)
}
