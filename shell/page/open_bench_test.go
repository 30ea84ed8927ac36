//go:build unix

package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
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
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/store/bolt"
)

// openPages are so many as may be open in a company.
const openPages = 200

// BenchmarkOpenPages has 200 pages open in browsers of their own, which do what page.js does, and reports what that costs: the seconds of a
// processor in a second (cpu-s/s), both of the daemon and of these browsers, which do little more than read. One operation takes a second.
func BenchmarkOpenPages(b *testing.B) {
	for _, bench := range []struct {
		name  string
		pages int
		every time.Duration // between two changes; 0: nothing changes
	}{{"none", 0, 0}, {"at-rest", openPages, 0}, {"no-page-one-change-a-second", 0, time.Second}, {"one-change-a-second", openPages, time.Second}} {
		b.Run(bench.name, func(b *testing.B) {
			s := startServed(b)
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			var loads atomic.Int64
			for i := range bench.pages {
				all.Go(func() { s.browse(ctx, b, i, &loads) })
			}
			require.Eventually(b, func() bool { return loads.Load() >= int64(2*bench.pages) }, time.Minute, 10*time.Millisecond)
			if bench.every > 0 {
				all.Go(func() { s.change(ctx, b, bench.every) })
			}
			<-time.After(2 * time.Second) // what came with the opening is over
			before, loaded, begin := processorTime(b), loads.Load(), time.Now()
			for b.Loop() {
				<-time.After(time.Second)
			}
			took := time.Since(begin).Seconds()
			b.ReportMetric((processorTime(b)-before).Seconds()/took, "cpu-s/s")
			b.ReportMetric(float64(loads.Load()-loaded)/took, "loads/s")
			b.ReportMetric(0, "ns/op")
			stop()
			all.Wait()
		})
	}
}

// processorTime gives what this process has had of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// served is the page over an engine with a file, on a loopback address.
type served struct {
	engine *shell.Engine
	url    string
}

func startServed(b *testing.B) *served {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	st, err := bolt.Open(filepath.Join(b.TempDir(), "page.db"), bolt.Options{})
	require.NoError(b, err)
	engine, err := shell.New(shell.Options{Store: st, Logger: quiet, Tools: map[string]shell.Tool{
		"noop": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return json.RawMessage(`{"ok":true}`), nil }),
	}})
	require.NoError(b, err)
	api, err := httpapi.New(httpapi.Options{Engine: engine, Logger: quiet})
	require.NoError(b, err)
	p, err := page.New(page.Options{API: api, Logger: quiet})
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := api.HTTPServer(l.Addr().String())
	server.Handler = p
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = engine.Run(ctx) })
	all.Go(func() { _ = server.Serve(api.Listener(l)) })
	b.Cleanup(func() {
		_ = server.Close()
		stop()
		all.Wait()
		require.NoError(b, st.Close())
	})
	s := &served{engine: engine, url: "http://" + l.Addr().String()}
	for i := range 100 {
		_, err := engine.Recurring().Create(ctx, core.RecurringSpec{
			Namespace: "bench", Tenant: "t", CronExpr: fmt.Sprintf("%d 3 1 1 *", i%60), Timezone: "UTC", Enabled: true, Description: fmt.Sprintf("number %d", i),
			ActionTemplate: core.RecurringActionTemplate{Provider: "noop", ActionType: "x"},
		})
		require.NoError(b, err)
		s.act(ctx, b)
	}
	return s
}

// act makes an action, which changes something.
func (s *served) act(ctx context.Context, b *testing.B) {
	if _, err := s.engine.Actions().Create(ctx, core.ActionSpec{Namespace: "bench", Tenant: "t", ToolName: "noop", Label: "one"}); err != nil && ctx.Err() == nil {
		b.Error(err)
	}
}

func (s *served) change(ctx context.Context, b *testing.B, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.act(ctx, b)
		case <-ctx.Done():
			return
		}
	}
}

// browse opens the overview as one browser does, and keeps it open.
func (s *served) browse(ctx context.Context, b *testing.B, i int, loads *atomic.Int64) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	tag := ""
	get := func(path, tag string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui"+path, nil)
		if err == nil {
			if tag != "" {
				r.Header.Set("If-None-Match", tag)
			}
			var got *http.Response
			if got, err = client.Do(r); err == nil {
				return got
			}
		}
		if ctx.Err() == nil {
			b.Error(err)
		}
		return nil
	}
	load := func() {
		got := get("/", tag)
		if got == nil {
			return
		}
		if got.StatusCode == http.StatusOK {
			tag = got.Header.Get("ETag")
		}
		_, _ = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		loads.Add(1)
	}
	load()
	stream := get("/live", "")
	if stream == nil {
		return
	}
	defer stream.Body.Close()
	told := make(chan struct{}, 1)
	told <- struct{}{} // the stream is open
	go func() {
		defer close(told)
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "event: changed") {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		}
	}()
	anew := time.NewTimer(time.Duration(i) * loadedAnew / openPages)
	defer anew.Stop()
	for {
		select {
		case _, more := <-told:
			if !more {
				return
			}
			load()
		case <-anew.C:
			anew.Reset(loadedAnew)
			load()
		case <-ctx.Done():
			for range told {
			}
			return
		}
	}
}
