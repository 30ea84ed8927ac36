package shell_test

import (
	"context"
	"encoding/json"
	"flag"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

var schedulesFlag = flag.Int("schedules", 2000, "schedules of one tenant that are due in one second in BenchmarkSchedulesDueAtOnce")

// BenchmarkSchedulesDueAtOnce has all schedules of one tenant due in the same second, while
// another tenant has fifty that are due each second. It reports how much later than their time the
// other tenant's tools are called until the burst is over, the same in the seconds before, how long the burst takes, and the
// most memory that the heap takes.
func BenchmarkSchedulesDueAtOnce(b *testing.B) {
	for b.Loop() {
		schedulesDueAtOnce(b, *schedulesFlag)
	}
}

func schedulesDueAtOnce(b *testing.B, n int) {
	path := filepath.Join(b.TempDir(), uuid.NewString()+".db")
	const others, quiet = 50, 5 * time.Second
	begin := time.Now().Truncate(time.Second).Add(10*time.Second + quiet + time.Duration(n)*600*time.Microsecond)
	fillWith(b, path, n+others, func(i int) core.Input {
		spec := core.RecurringSpec{
			ID: uuid.Must(uuid.NewV7()), Namespace: "bench", Tenant: "many", CronExpr: "@every 24h", Enabled: true,
			ActionTemplate:  core.RecurringActionTemplate{Provider: "noop", ActionType: "x"},
			ScheduleOptions: core.ScheduleOptions{StartsAt: effects.TimeOf(begin)},
		}
		if i%(n/others+1) == 0 {
			spec.Tenant, spec.CronExpr, spec.StartsAt = "few", "* * * * * *", 0
		}
		return core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: spec.ID}, Actor: "fill", Event: core.RecurringCreate{Spec: spec}}
	})
	st, err := bolt.Open(path, bolt.Options{})
	require.NoError(b, err)
	var mu sync.Mutex
	var before, during []time.Duration
	var burst atomic.Int64
	over := make(chan struct{})
	most := int64(n + others - (n+others-1)/(n/others+1) - 1)
	tool := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		if c.Tenant == "many" {
			if burst.Add(1) == most {
				close(over)
			}
			return nil, nil
		}
		late := time.Since(c.DueAt.Std())
		mu.Lock()
		defer mu.Unlock()
		switch due := c.DueAt.Std(); {
		case due.Before(begin.Add(-quiet)):
		case due.Before(begin):
			before = append(before, late)
		default:
			during = append(during, late)
		}
		return nil, nil
	})
	_, stop := start(b, shell.Options{Store: st, Tools: map[string]shell.Tool{"noop": tool}})
	require.True(b, time.Now().Before(begin.Add(-quiet)), "they could not be made in time")
	heap := mostHeap(over)
	<-over
	took := time.Since(begin)
	<-time.After(time.Until(begin.Add(3 * time.Second))) // a burst that is short is over before others are due
	require.NoError(b, stop())
	require.NoError(b, st.Close())
	report := func(name string, d []time.Duration) {
		require.NotEmpty(b, d, name)
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	report("before", before)
	report("during", during)
	b.ReportMetric(took.Seconds(), "burst-s")
	b.ReportMetric(float64(<-heap)/(1<<20), "heap-MiB")
}

// mostHeap looks at the heap until the channel is closed, and gives the most that it took.
func mostHeap(until <-chan struct{}) <-chan uint64 {
	out := make(chan uint64, 1)
	go func() {
		var most uint64
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-until:
				out <- most
				return
			case <-tick.C:
			}
		}
	}()
	return out
}
