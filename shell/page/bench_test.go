package page_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/store/bolt"
)

var (
	benchSchedules = flag.Int("schedules", 100, "recurring actions in BenchmarkPages")
	benchActions   = flag.Int("actions", 1000, "finished actions in BenchmarkPages")
)

// BenchmarkPages reads the main pages over a database that has much, and reports how long the slowest of a hundred
// takes.
func BenchmarkPages(b *testing.B) {
	p, _, recurring, action := fullPage(b)
	day := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for name, path := range map[string]string{
		"overview": "/", "schedules": "/schedules", "recurring": "/recurring/" + recurring, "new-schedule": "/schedules/new", "preview": "/schedules/preview?cron_expr=*/5+*+*+*+*",
		"calendar": "/calendar", "calendar-tomorrow": "/calendar?day=" + day, "occurrences": "/occurrences", "actions": "/actions", "failed": "/actions?status=failed", "action": "/actions/" + action,
		"jobs": "/jobs", "runs": "/runs", "queues": "/queues", "pipelines": "/pipelines", "find-id": "/find?q=" + action, "find-name": "/find?q=number", "changes": "/changes/recurring/" + recurring, "system": "/system",
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				w := visited(b.Context(), p, path)
				took = append(took, time.Since(begin))
				if w.Code >= http.StatusBadRequest {
					b.Fatal(path, w.Code, w.Body)
				}
			}
			reportTimes(b, took)
		})
	}
}

// visited loads a page.
func visited(ctx context.Context, p *page.Page, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui"+path, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func reportTimes(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkTheLoopBesideThePage creates actions one after the other, alone and while visitors load pages one after the other,
// and reports how long one takes. Each visitor rests for as long as ten pages a second leave.
func BenchmarkTheLoopBesideThePage(b *testing.B) {
	p, engine, recurring, action := fullPage(b)
	paths := []string{"/", "/schedules", "/calendar", "/actions", "/actions?status=failed", "/occurrences", "/recurring/" + recurring, "/actions/" + action}
	for _, visitors := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("visitors=%d", visitors), func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for v := range visitors {
				all.Go(func() {
					each := time.NewTicker(100 * time.Millisecond)
					defer each.Stop()
					for i := v; ctx.Err() == nil; i++ {
						visited(b.Context(), p, paths[i%len(paths)]) // the last one is loaded to its end
						select {
						case <-each.C:
						case <-ctx.Done():
						}
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				_, err := engine.Actions().Create(ctx, core.ActionSpec{ID: uuid.Must(uuid.NewV7()), Namespace: "bench", Tenant: "t", ToolName: "noop", Trigger: core.Scheduled(effects.TimeOf(begin.Add(time.Hour)))})
				took = append(took, time.Since(begin))
				require.NoError(b, err)
			}
			reportTimes(b, took)
			stop()
			all.Wait()
		})
	}
}

// fullPage gives the page over an engine with many schedules and actions.
func fullPage(b *testing.B) (p *page.Page, engine *shell.Engine, recurring, action string) {
	st, err := bolt.Open(filepath.Join(b.TempDir(), "page.db"), bolt.Options{NoSync: true})
	require.NoError(b, err)
	quiet := slog.New(slog.DiscardHandler)
	engine, err = shell.New(shell.Options{Store: st, Logger: quiet, Tools: map[string]shell.Tool{
		"noop": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return json.RawMessage(`{"ok":true}`), nil }),
	}})
	require.NoError(b, err)
	api, err := httpapi.New(httpapi.Options{Engine: engine, Logger: quiet})
	require.NoError(b, err)
	p, err = page.New(page.Options{API: api, Logger: quiet})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-done)
		require.NoError(b, st.Close())
	})
	inParallel(b, *benchSchedules, func(i int) error {
		id := uuid.Must(uuid.NewV7())
		if i == 0 {
			recurring = id.String()
		}
		_, err := engine.Recurring().Create(ctx, core.RecurringSpec{
			ID: id, Namespace: "bench", Tenant: "t", CronExpr: fmt.Sprintf("%d %d * * *", i%60, i/60%24), Timezone: "UTC", Enabled: true, Description: fmt.Sprintf("number %d", i),
			ActionTemplate: core.RecurringActionTemplate{Provider: "noop", ActionType: "x"},
		})
		return err
	})
	inParallel(b, *benchActions, func(i int) error {
		id := uuid.Must(uuid.NewV7())
		if i == 0 {
			action = id.String()
		}
		_, err := engine.Actions().Create(ctx, core.ActionSpec{ID: id, Namespace: "bench", Tenant: "t", ToolName: "noop", Label: fmt.Sprintf("number %d", i)})
		return err
	})
	return p, engine, recurring, action
}

// inParallel does something n times, 256 at a time.
func inParallel(b *testing.B, n int, do func(i int) error) {
	b.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
