package shell_test

import (
	"context"
	"encoding/json"
	"flag"
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
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

var pendingFlag = flag.Int("pending", 100_000, "actions that wait in the store of BenchmarkStart")

// BenchmarkStart is the time from opening a file in which many actions wait for
// a far time, to the end of an action that is created then.
func BenchmarkStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "orrery.db")
	fill(b, path, *pendingFlag)
	b.ResetTimer()
	for b.Loop() {
		st, err := bolt.Open(path, bolt.Options{})
		require.NoError(b, err)
		e, stop := start(b, shell.Options{Store: st, Tools: tools(noop)})
		_, err = e.Actions().Execute(bg(), benchmarkSpec())
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, stop())
		require.NoError(b, st.Close())
		b.StartTimer()
	}
}

// fill stores n actions that wait, as the engine would have stored them.
func fill(b *testing.B, path string, n int) {
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(b, err)
	now := effects.TimeOf(time.Now())
	far := now.Add(10 * 365 * 24 * time.Hour)
	const most = 10_000
	for done, seq := 0, uint64(1); done < n; seq++ {
		batch := core.NewBatch(nothing{}, core.Clock{Now: now}, seq)
		entry := core.NewEntry(seq, now, "fill")
		for range min(most, n-done) {
			spec := benchmarkSpec()
			spec.ID = uuid.Must(uuid.NewV7())
			spec.Trigger = core.Scheduled(far)
			in := core.Input{To: effects.Ref{Kind: core.KindAction, ID: spec.ID}, Actor: "fill", Event: core.ActionCreate{Spec: spec}}
			_, err := batch.Apply(in)
			require.NoError(b, err)
			entry.Inputs = append(entry.Inputs, in)
		}
		done += len(entry.Inputs)
		require.NoError(b, st.Update(bg(), func(tx store.Tx) error {
			var writes []store.Write
			for _, c := range batch.Changes() {
				writes = append(writes, store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID, State: c.After.AppendJSON(nil), Due: c.After.Deadline(), Terms: c.After.Terms()})
			}
			if err := tx.Put(seq, writes); err != nil {
				return err
			}
			return tx.AppendJournal(seq, now, entry.AppendJSON(nil))
		}))
	}
	require.NoError(b, st.Close())
}

// nothing is a loader of an empty store.
type nothing struct{}

func (nothing) Load(effects.Ref) (core.State, error) { return nil, nil }

func (nothing) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }

// BenchmarkLateness fires 100 actions a second, each at a time of its own, and
// reports how much later than its time a tool is called; beside it, how late a
// bare timer of the runtime is on this machine in the same run.
func BenchmarkLateness(b *testing.B) {
	const perSecond, seconds = 100, 5
	for b.Loop() {
		st, err := bolt.Open(filepath.Join(b.TempDir(), uuid.NewString()+".db"), bolt.Options{})
		require.NoError(b, err)
		var mu sync.Mutex
		var late []time.Duration
		tool := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			d := time.Since(c.DueAt.Std())
			mu.Lock()
			late = append(late, d)
			mu.Unlock()
			return nil, nil
		})
		e, stop := start(b, shell.Options{Store: st, Tools: tools(tool)})
		begin := time.Now().Add(time.Second)
		var ids []uuid.UUID
		for i := range perSecond * seconds {
			spec := benchmarkSpec()
			spec.Trigger = core.Scheduled(effects.TimeOf(begin.Add(time.Duration(i) * time.Second / perSecond)))
			a, err := e.Actions().Create(bg(), spec)
			require.NoError(b, err)
			ids = append(ids, a.ID)
		}
		floor := timerFloor(perSecond * seconds)
		for _, id := range ids {
			_, err := e.Actions().Wait(bg(), id)
			require.NoError(b, err)
		}
		require.NoError(b, stop())
		require.NoError(b, st.Close())
		report := func(name string, d []time.Duration) {
			slices.Sort(d)
			b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
			b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
		}
		report("late", late)
		report("timer", floor)
	}
}

// timerFloor is how late the runtime's own timers are, at the same pace.
func timerFloor(n int) []time.Duration {
	var late []time.Duration
	for range n / 5 {
		due := time.Now().Add(10 * time.Millisecond)
		<-time.After(time.Until(due))
		late = append(late, time.Since(due))
	}
	return late
}
