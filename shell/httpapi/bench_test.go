//go:build unix

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store/memory"
)

const benchAction = `{"tool_name":"noop","label":"benchmark","tool_input":{"to":"team@example.com","subject":"Daily Digest"}}`

// BenchmarkCreateActions is what it takes of the processors to create an action whose tool
// does nothing, over a store in memory, with 32 callers at once: by the engine's own call,
// by the API's handler, and over a connection, whose client does as little as it can. All
// include the run of the action. An operation is an action, in a batch of 100 too.
func BenchmarkCreateActions(b *testing.B) {
	const callers, many = 32, 100
	batch := `{"actions":[` + strings.TrimSuffix(strings.Repeat(benchAction+",", many), ",") + `]}`
	for _, row := range []struct {
		name    string
		actions int // of one request
		caller  func(*benchServer) func() error
	}{
		{"engine", 1, (*benchServer).byEngine},
		{"engine,batch=100", many, (*benchServer).byEngineMany},
		{"handler", 1, func(s *benchServer) func() error { return s.byHandler("/v1/actions", benchAction, http.StatusCreated) }},
		{"handler,batch=100", many, func(s *benchServer) func() error { return s.byHandler("/v1/actions/batch", batch, http.StatusOK) }},
		{"connection", 1, func(s *benchServer) func() error { return s.byConnection("/v1/actions", benchAction) }},
		{"connection,batch=100", many, func(s *benchServer) func() error { return s.byConnection("/v1/actions/batch", batch) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			s := newBenchServer(b)
			b.ReportAllocs()
			before := cpuTime(b)
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					do := row.caller(s)
					for left.Add(-int64(row.actions)) > -int64(row.actions) {
						if err := do(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpuTime is what this process has had of the processors.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchServer is the API of a running engine, with a token of one tenant.
type benchServer struct {
	b       *testing.B
	engine  *shell.Engine
	handler http.Handler
	addr    string
}

func newBenchServer(b *testing.B) *benchServer {
	quiet := slog.New(slog.DiscardHandler)
	st := memory.New()
	e, err := shell.New(shell.Options{Store: st, Logger: quiet, DefaultConcurrency: 1024, Tools: map[string]shell.Tool{
		"noop": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil }),
	}})
	require.NoError(b, err)
	api, err := httpapi.New(httpapi.Options{Engine: e, Logger: quiet, Tokens: []httpapi.Token{
		{Name: "bench", SHA256: httpapi.HashToken("bench-secret"), Namespaces: []string{"default"}, Tenants: []string{"t"}},
	}})
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := api.HTTPServer("")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx) })
	wg.Go(func() { _ = server.Serve(api.Listener(l)) })
	b.Cleanup(func() {
		_ = server.Close()
		cancel()
		wg.Wait()
		_ = st.Close()
	})
	return &benchServer{b, e, server.Handler, l.Addr().String()}
}

func (s *benchServer) byEngine() func() error {
	return func() error {
		_, err := s.engine.Actions().Create(context.Background(), benchSpec())
		return err
	}
}

func (s *benchServer) byEngineMany() func() error {
	specs := make([]core.ActionSpec, 100)
	for i := range specs {
		specs[i] = benchSpec()
	}
	return func() error {
		_, err := s.engine.Actions().CreateAll(context.Background(), specs)
		return err
	}
}

func benchSpec() core.ActionSpec {
	return core.ActionSpec{
		ToolName: "noop", Label: "benchmark", Namespace: "default", Tenant: "t",
		ToolInput: json.RawMessage(`{"to":"team@example.com","subject":"Daily Digest"}`),
	}
}

// sink is an answer of which only the status counts.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

func (s *benchServer) byHandler(path, body string, want int) func() error {
	raw := benchRequest(path, body)
	return func() error {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return err
		}
		r.RemoteAddr = "127.0.0.1:50000"
		w := sink{header: http.Header{}}
		if s.handler.ServeHTTP(&w, r); w.status != want {
			return fmt.Errorf("status %d", w.status)
		}
		return nil
	}
}

func benchRequest(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:7460\r\nAuthorization: Bearer bench-secret\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

func (s *benchServer) byConnection(path, body string) func() error {
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.b, err)
	s.b.Cleanup(func() { _ = c.Close() })
	raw, r := benchRequest(path, body), bufio.NewReaderSize(c, 64<<10)
	return func() error {
		if _, err := c.Write(raw); err != nil {
			return err
		}
		line, err := r.ReadSlice('\n')
		if err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 20")) {
			return fmt.Errorf("answer %q: %w", line, err)
		}
		return skipAnswer(r)
	}
}

// skipAnswer reads the rest of an answer, whose body is declared or chunked.
func skipAnswer(r *bufio.Reader) error {
	length := -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(n[:len(n)-2])); err != nil {
				return err
			}
		}
	}
	if length >= 0 {
		_, err := io.CopyN(io.Discard, r, int64(length))
		return err
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(line[:len(line)-2]), 16, 32)
		if err != nil {
			return err
		}
		if _, err := r.Discard(int(size) + 2); err != nil || size == 0 {
			return err
		}
	}
}
