package httpcall_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
)

// reset makes a server break the connection off with RST.
func reset(t *testing.T, w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if assert.NoError(t, err) {
		assert.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		assert.NoError(t, conn.Close())
	}
}

func TestAConnectionThatBreaksIsRepeatedOnlyWhereNothingIsDoneTwice(t *testing.T) {
	for name, row := range map[string]struct {
		fields m
		want   int32 // requests that reach the server
	}{
		"GET":                    {m{"method": "GET"}, 3},
		"PUT":                    {m{"method": "PUT", "body": 1}, 3},
		"DELETE":                 {m{"method": "DELETE"}, 3},
		"GET without retries":    {m{"method": "GET", "retries": 0}, 1},
		"POST":                   {m{"method": "POST", "body": 1}, 1},
		"POST without a body":    {m{"method": "POST"}, 1},
		"PATCH":                  {m{"method": "PATCH", "body": 1}, 1},
		"idempotent POST":        {m{"method": "POST", "body": 1, "idempotent": true}, 3},
		"POST with a key of own": {m{"method": "POST", "body": 1, "headers": m{"idempotency-key": "mine"}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				count.Add(1)
				reset(t, w)
			})
			row.fields["url"] = s.URL + "/x?token=secret"
			input, _ := json.Marshal(row.fields)
			_, err := run(t, newTool(t, httpcall.Options{}), input)
			var failed *httpcall.RequestError
			require.ErrorAs(t, err, &failed)
			assert.True(t, failed.MaybeDone)
			assert.Equal(t, int(row.want), failed.Attempts)
			assert.Equal(t, row.want, count.Load())
			assert.Contains(t, err.Error(), s.URL+"/x: the server reset the connection")
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestARequestThatWasNeverSentIsRepeatedWithEveryMethod(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	addr := c.LocalAddr().String() // nobody listens there, nor can: a connection has the port
	_, err = run(t, newTool(t, httpcall.Options{Retries: 1}), in("url", "http://"+addr, "method", "POST", "body", 1))
	var failed *httpcall.RequestError
	require.ErrorAs(t, err, &failed)
	assert.False(t, failed.MaybeDone)
	assert.EqualError(t, err, "POST http://"+addr+": connection refused: nothing listens there (tried 2 times)")
}

func TestARepeatedRequestSucceedsWithTheSameBodyAndKey(t *testing.T) {
	var count atomic.Int32
	keys := make(chan string, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		keys <- r.Header.Get("Idempotency-Key") + " " + string(b)
		if count.Add(1) < 3 {
			reset(t, w)
		}
	})
	got, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "body", "b", "idempotent", true))
	require.NoError(t, err)
	assert.Contains(t, got, `"attempts":3`)
	for range 3 {
		assert.Equal(t, `key/1 "b"`, <-keys)
	}
}

func TestAPOSTOverAKeptConnectionThatBreaksIsNotSentTwice(t *testing.T) {
	// net/http itself would send it again if it saw the key under its usual name.
	var posts atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			assert.Equal(t, "key/1", r.Header.Get("Idempotency-Key"))
			posts.Add(1)
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		}
	})
	tool := newTool(t, httpcall.Options{})
	for _, input := range []json.RawMessage{in("url", s.URL, "method", "POST"), in("url", s.URL, "method", "POST", "body", 1)} {
		posts.Store(0)
		_, err := run(t, tool, in("url", s.URL))
		require.NoError(t, err)
		_, err = run(t, tool, input)
		require.Error(t, err)
		assert.EqualValues(t, 1, posts.Load())
	}
}

func TestAServerThatAsksToComeBackIsAskedAgain(t *testing.T) {
	for _, status := range []int{429, 503} {
		var count atomic.Int32
		after := "0"
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if count.Add(1) == 1 {
				if after != "" {
					w.Header().Set("Retry-After", after)
				}
				w.WriteHeader(status)
			}
		})
		input := in("url", s.URL, "method", "POST", "body", 1)
		got, err := run(t, newTool(t, httpcall.Options{}), input)
		require.NoError(t, err)
		assert.Contains(t, got, `"attempts":2`)

		count.Store(0)
		after = "Wed, 21 Oct 2015 07:28:00 GMT"
		got, err = run(t, newTool(t, httpcall.Options{}), input)
		require.NoError(t, err)
		assert.Contains(t, got, `"attempts":2`)

		count.Store(0)
		after = "3600"
		_, err = run(t, newTool(t, httpcall.Options{TotalLimit: 2 * time.Hour}), input)
		var failed *httpcall.StatusError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, time.Hour, failed.RetryAfter)
		assert.ErrorContains(t, err, ", try again after 1h0m0s")
		assert.EqualValues(t, 1, count.Load(), "an hour is not waited for")

		count.Store(0)
		after = ""
		_, err = run(t, newTool(t, httpcall.Options{}), input)
		require.ErrorAs(t, err, &failed)
		assert.EqualValues(t, 1, count.Load(), "without Retry-After nobody asked for it")
	}
}

// silent serves nothing until the client has gone.
func silent(t *testing.T) (*httptest.Server, <-chan struct{}) {
	arrived := make(chan struct{}, 100)
	return serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server watches for the client's end only after that
		arrived <- struct{}{}
		<-r.Context().Done()
	}), arrived
}

func TestAServerThatNeverAnswersReachesTheTimeLimit(t *testing.T) {
	s, arrived := silent(t)
	_, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "method", "POST", "body", 1, "timeout_seconds", 0.05))
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	assert.EqualError(t, err, "POST "+s.URL+": reached its time limit of 50ms")
	assert.Len(t, arrived, 1, "a POST that may have been carried out is not repeated")

	_, err = run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "timeout_seconds", 0.05))
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	assert.EqualError(t, err, "GET "+s.URL+": reached its time limit of 50ms (tried 3 times)")

	_, err = run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "total_timeout_seconds", 0.05))
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	assert.EqualError(t, err, "GET "+s.URL+": reached its time limit of 50ms in all")
}

func TestAnActionThatEndsTakesItsRequestWithIt(t *testing.T) {
	for _, cause := range []error{shell.ErrCancelled, shell.ErrTimeLimit, shell.ErrStopping, shell.ErrFenced} {
		s, arrived := silent(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-arrived
			cancel(cause)
		}()
		_, err := newTool(t, httpcall.Options{}).Run(ctx, shell.Call{Input: in("url", s.URL)})
		require.ErrorIs(t, err, cause)
		assert.EqualError(t, err, "GET "+s.URL+": was stopped: "+cause.Error())
	}
}

func TestAnAnswerInTricklesReachesTheTimeLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Millisecond):
			}
		}
	})
	_, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "method", "POST", "timeout_seconds", 0.1))
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	assert.EqualError(t, err, "POST "+s.URL+": reached its time limit of 100ms")
}

func TestAnAnswerWithoutEndIsCutAndNeedsNoMemory(t *testing.T) {
	block := []byte(strings.Repeat("a", 1<<16))
	for name, zip := range map[string]bool{"plain": false, "zipped": true} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				var out io.Writer = w
				if zip {
					w.Header().Set("Content-Encoding", "gzip")
					out = gzip.NewWriter(w)
				}
				for {
					if _, err := out.Write(block); err != nil {
						return
					}
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "max_response_bytes", 1000))
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			assert.Contains(t, got, `"`+strings.Repeat("a", 1000)+`"`)
			assert.Contains(t, got, `"truncated":true`)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
		})
	}
}

func TestAnAnswerThatBreaksOffIsNoSuccess(t *testing.T) {
	var count atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "method", "POST"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, err, "POST "+s.URL+": the answer broke off after 4 bytes: unexpected EOF")
	assert.EqualValues(t, 1, count.Load())
	_, err = run(t, newTool(t, httpcall.Options{}), in("url", s.URL))
	require.ErrorContains(t, err, "(tried 3 times)")
}

func TestAServerThatSpeaksNoHTTPIsToldApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH\r\n")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, err = run(t, newTool(t, httpcall.Options{Retries: -1}), in("url", "http://"+l.Addr().String()))
	var failed *httpcall.RequestError
	require.ErrorAs(t, err, &failed)
}

func secure(t *testing.T, config *tls.Config) (*httptest.Server, *x509.CertPool) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = config
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it tells of every bad handshake
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, pool
}

func TestBadTLSIsRefusedOnceAndSaysWhatIsWrong(t *testing.T) {
	good, pool := secure(t, nil)
	old, oldPool := secure(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	late := func() time.Time { return time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC) }
	for name, row := range map[string]struct {
		url  string
		tls  *tls.Config
		want string
	}{
		"unknown authority": {good.URL, nil, "TLS: the server's certificate does not hold: certificate signed by unknown authority"},
		"another host":      {strings.Replace(good.URL, "127.0.0.1", "localhost", 1), &tls.Config{RootCAs: pool}, "TLS: the server's certificate does not hold: certificate is valid for example.com"},
		"expired":           {good.URL, &tls.Config{RootCAs: pool, Time: late}, "TLS: the server's certificate does not hold: certificate has expired or is not yet valid: current time 2400"},
		"no TLS":            {strings.Replace(plain.URL, "http:", "https:", 1), nil, "TLS: the server does not speak TLS: is its address http instead of https?"},
		"old TLS":           {old.URL, &tls.Config{RootCAs: oldPool, MinVersion: tls.VersionTLS10}, "TLS: the handshake failed: protocol version not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, newTool(t, httpcall.Options{TLS: row.tls}), in("url", row.url, "retries", 5))
			require.ErrorContains(t, err, row.want)
			var failed *httpcall.RequestError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, 1, failed.Attempts, "the same certificate comes again")
			assert.False(t, failed.MaybeDone)
		})
	}
	_, err := run(t, newTool(t, httpcall.Options{TLS: &tls.Config{RootCAs: pool}}), in("url", good.URL))
	assert.NoError(t, err)
}

func TestAnAddressWhereCloudsServeCredentialsIsReachedByNoRequestUnlessItIsAllowed(t *testing.T) {
	var count atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { count.Add(1) })
	metadata := func(o httpcall.Options) *httpcall.Tool {
		tool := newTool(t, o) // the address of the server stands for that of the service
		tool.SetClassify(func(netip.Addr) (httpcall.Scope, string) {
			return httpcall.Classify(netip.MustParseAddr("169.254.169.254"))
		})
		return tool
	}
	for _, url := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		_, err := run(t, metadata(httpcall.Options{}), in("url", url))
		require.ErrorContains(t, err, `is link-local: such an address is not reached, unless the tool's allow names it: allow = ["127.0.0.1/32"]`, url)
	}
	assert.Zero(t, count.Load())
	for _, url := range []string{"http://169.254.169.254/latest/meta-data/", "http://[fe80::a9fe:a9fe%25lo]/", "http://[fd00:ec2::254]/", "http://100.100.100.200/", "http://[::ffff:169.254.169.254]/"} {
		_, err := run(t, newTool(t, httpcall.Options{}), in("url", url, "retries", 0))
		var address *httpcall.AddressError
		require.ErrorAs(t, err, &address, url)
	}
	_, err := run(t, metadata(httpcall.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}), in("url", s.URL))
	require.NoError(t, err)
	assert.EqualValues(t, 1, count.Load())
}

func TestActionsOfSomeTenantsReachOnlyPublicAddresses(t *testing.T) {
	var count atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { count.Add(1) })
	tool := newTool(t, httpcall.Options{DenyPrivateFor: func(namespace, tenant string) bool { return namespace == "shop" && tenant == "acme" }})
	call := func(namespace, tenant string) error {
		_, err := tool.Run(t.Context(), shell.Call{Namespace: namespace, Tenant: tenant, Input: in("url", s.URL)})
		return err
	}
	require.NoError(t, call("default", "default"), "the connection stays open for the next request")
	require.ErrorContains(t, call("shop", "acme"), "address 127.0.0.1 is loopback: only public addresses are allowed here")
	require.NoError(t, call("shop", "other"))
	assert.EqualValues(t, 2, count.Load())
}

func TestAnAddressThatIsNotPublicIsRefusedWhereTheOperatorSaysSo(t *testing.T) {
	var count atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { count.Add(1) })
	deny := newTool(t, httpcall.Options{DenyPrivate: true})
	_, err := run(t, deny, in("url", s.URL))
	require.EqualError(t, err, "GET "+s.URL+": address 127.0.0.1 is loopback: only public addresses are allowed here, unless the tool's allow names it: allow = [\"127.0.0.1/32\"]")
	var address *httpcall.AddressError
	require.ErrorAs(t, err, &address)
	// By name too, since the address is looked at when the connection is made.
	_, err = run(t, deny, in("url", strings.Replace(s.URL, "127.0.0.1", "localhost", 1)))
	require.ErrorAs(t, err, &address)
	assert.Equal(t, "loopback", address.Word)
	assert.Zero(t, count.Load())

	allow := newTool(t, httpcall.Options{DenyPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	_, err = run(t, allow, in("url", s.URL))
	require.NoError(t, err)
	assert.EqualValues(t, 1, count.Load())
}

func TestANameThatDoesNotExistIsTold(t *testing.T) {
	_, err := run(t, newTool(t, httpcall.Options{Retries: -1, TimeLimit: 20 * time.Second}), in("url", "http://name.invalid/x"))
	require.ErrorContains(t, err, `GET http://name.invalid/x: host name "name.invalid" `)
}
