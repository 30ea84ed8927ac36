package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// instant is a cluster whose pods run and end as soon as they are created; with
// stays they run on.
type instant struct {
	e     *shell.Engine
	stays bool
}

func (c *instant) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	switch e := e.(type) {
	case effects.CreateRun:
		ctx = context.WithoutCancel(ctx) // a pod that runs overtakes the answer, and ends this effect
		if _, err := c.e.Runs().Send(ctx, ref.ID, core.PodRunning{Attempt: e.Attempt, Pod: core.Pod{Name: "p", Node: "n"}}); err != nil {
			return nil, err
		}
		if c.stays {
			return nil, nil
		}
		_, err := c.e.Runs().Send(ctx, ref.ID, core.PodEnded{Attempt: e.Attempt, Pod: exitCode(0)})
		return json.RawMessage(`{"api_calls":1}`), err
	case effects.FetchLogs:
		return json.RawMessage(`{"api_calls":1,"logs":{"stored":true}}`), c.e.Runs().PutLog(ctx, ref.ID, e.Attempt, make([]byte, 1000))
	}
	return json.RawMessage(`{"api_calls":1}`), nil
}

// benchJobs starts an engine on a durable store, with jobs whose pods c runs.
func benchJobs(b *testing.B, c *instant, jobs int) (st *bolt.Store, stop func() error) {
	b.Helper()
	st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	o := shell.Options{Store: st, DefaultConcurrency: 1024, Interpreters: map[string]shell.Interpreter{effects.LaneRun: c, effects.LaneLogs: c}}
	c.e, stop = start(b, o)
	for n := range jobs {
		spec := nightly()
		spec.ID, spec.ConstraintConfig = fmt.Sprintf("job-%d", n), nil
		spec.PodSpec = json.RawMessage(`{"containers":[{"name":"main","image":"registry.example.com/team/report:1.2.3","command":["report","--day","today"]}]}`)
		applied(b, c.e, spec)
	}
	return st, stop
}

// journaled is how many bytes the journal has from a batch on.
func journaled(b testing.TB, st store.Store, from uint64) (bytes int, last uint64) {
	b.Helper()
	require.NoError(b, st.View(bg(), func(tx store.ReadTx) error {
		var err error
		if last, err = tx.Seq(); err != nil {
			return err
		}
		return tx.Journal(from, func(_ uint64, batch []byte) error {
			bytes += len(batch)
			return nil
		})
	}))
	return bytes, last
}

// BenchmarkJobRun is a whole run, from its trigger to its end, with a cluster that
// takes no time: each caller triggers one, waits for its end, and goes on with the
// next.
func BenchmarkJobRun(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := &instant{}
			st, stop := benchJobs(b, c, callers)
			_, from := journaled(b, st, 0)
			b.ReportAllocs()
			b.ResetTimer()
			begin, free := time.Now(), make(chan int, callers)
			for n := range callers {
				free <- n
			}
			each(callers, b.N, func() error {
				n := <-free
				defer func() { free <- n }()
				made, err := c.e.Jobs().Trigger(bg(), tenant, fmt.Sprintf("job-%d", n), shell.TriggerOptions{By: "bench"})
				if err != nil {
					return err
				}
				o, err := c.e.Runs().Wait(bg(), made.Run)
				if err == nil && o.State != core.OrchestratorCompleted {
					err = fmt.Errorf("run is %s: %s", o.State, o.Error)
				}
				return err
			}, b)
			took := time.Since(begin)
			b.StopTimer()
			bytes, last := journaled(b, st, from+1)
			require.NoError(b, stop())
			b.ReportMetric(float64(b.N)/took.Seconds(), "runs/s")
			b.ReportMetric(float64(bytes)/float64(b.N), "journal-B/run")
			b.ReportMetric(float64(last-from)/float64(b.N), "commits/run")
		})
	}
}

// BenchmarkHeartbeats sends the heartbeats of 10 thousand runs that wait for their
// pods to end, as every 10 seconds, and says what such a run costs while it waits.
func BenchmarkHeartbeats(b *testing.B) {
	const runs, jobs = 10_000, 25
	c := &instant{stays: true}
	st, stop := benchJobs(b, c, jobs)
	before := used()
	shards := map[effects.Ref][]uuid.UUID{}
	for n := range runs {
		id := triggeredRun(b, c.e, fmt.Sprintf("job-%d", n%jobs))
		shards[core.SchedulerRef(id)] = append(shards[core.SchedulerRef(id)], id)
		if n%500 == 0 { // on a slow machine the first would be orphaned before the last is made
			beatAll(b, c.e, shards)
		}
	}
	for {
		s, err := c.e.JobStats(bg())
		require.NoError(b, err)
		require.Zero(b, s.Runs[core.OrchestratorOrphaned], "a run was silent for too long: it would be waited for in vain")
		if s.Runs[core.OrchestratorRunning] == runs {
			break
		}
		beatAll(b, c.e, shards) // it may take a while until all are there
	}
	after := used()
	_, from := journaled(b, st, 0)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		beatAll(b, c.e, shards)
	}
	b.StopTimer()
	bytes, _ := journaled(b, st, from+1)
	require.NoError(b, stop())
	b.ReportMetric(float64(bytes)/float64(b.N), "journal-B/interval")
	b.ReportMetric(float64(after.heap-before.heap)/runs, "heap-B/run")
	b.ReportMetric(float64(after.goroutines-before.goroutines)/runs, "goroutines/run")
}

func triggeredRun(b *testing.B, e *shell.Engine, job string) uuid.UUID {
	made, err := e.Jobs().Trigger(bg(), tenant, job, shell.TriggerOptions{By: "bench"})
	require.NoError(b, err)
	return made.Run
}

func beatAll(b *testing.B, e *shell.Engine, shards map[effects.Ref][]uuid.UUID) {
	done := make(chan error)
	for ref, ids := range shards {
		go func() {
			_, err := e.Send(bg(), ref, core.SchedulerHeartbeats{Runs: ids, IntervalMS: 10_000, MaxMissed: 3})
			done <- err
		}()
	}
	for range shards {
		require.NoError(b, <-done)
	}
}

type use struct{ heap, goroutines int64 }

func used() use {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{int64(m.HeapAlloc), int64(runtime.NumGoroutine())}
}

// 004 Goroutine Management has a goroutine per run; here a run that waits has none,
// and its heartbeats do not name it in the journal.
func TestARunThatWaitsHasNoGoroutineAndItsHeartbeatsAreFewWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), &instant{stays: true}
		e := running(t, shell.Options{Store: st, Interpreters: map[string]shell.Interpreter{effects.LaneRun: c, effects.LaneLogs: c}})
		c.e = e
		spec := nightly()
		spec.ConstraintConfig = nil
		applied(t, e, spec)
		before := runtime.NumGoroutine()
		shards := map[effects.Ref][]uuid.UUID{}
		for range 400 {
			id := triggered(t, e, "nightly")
			shards[core.SchedulerRef(id)] = append(shards[core.SchedulerRef(id)], id)
		}
		elapse(time.Second) // they have a millisecond each
		s, err := e.JobStats(bg())
		require.NoError(t, err)
		require.EqualValues(t, 400, s.Runs[core.OrchestratorRunning])
		// The runtime's own count while they call a finalizer.
		assert.Less(t, runtime.NumGoroutine(), before+10, "for 400 runs")
		_, from := journaled(t, st, 0)
		for ref, ids := range shards {
			_, err := e.Send(bg(), ref, core.SchedulerHeartbeats{Runs: ids, IntervalMS: 10_000, MaxMissed: 3})
			require.NoError(t, err)
		}
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Journal(from+1, func(_ uint64, batch []byte) error {
				assert.Contains(t, string(batch), `{"type":"heartbeats","all":true}`)
				return nil
			})
		}))
	})
}
