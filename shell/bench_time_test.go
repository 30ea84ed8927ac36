package shell_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
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
	"github.com/orrery-go/orrery/shell/engine"
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
	far := effects.TimeOf(time.Now()).Add(10 * 365 * 24 * time.Hour)
	fillWith(b, path, n, func(int) core.Input {
		spec := benchmarkSpec()
		spec.ID = uuid.Must(uuid.NewV7())
		spec.Trigger = core.Scheduled(far)
		return core.Input{To: effects.Ref{Kind: core.KindAction, ID: spec.ID}, Actor: "fill", Event: core.ActionCreate{Spec: spec}}
	})
}

// fillWith stores what n inputs make, as the engine would have stored it.
func fillWith(b *testing.B, path string, n int, input func(i int) core.Input) {
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(b, err)
	now := effects.TimeOf(time.Now())
	const most = 10_000
	for done, seq := 0, uint64(1); done < n; seq++ {
		batch := core.NewBatch(nothing{}, core.Clock{Now: now}, seq)
		entry := core.NewEntry(seq, now, "fill")
		for i := range min(most, n-done) {
			in := input(done + i)
			res, err := batch.Apply(in)
			require.NoError(b, err)
			require.Nil(b, res.Refused)
			entry.Inputs = append(entry.Inputs, in)
		}
		done += len(entry.Inputs)
		require.NoError(b, st.Update(bg(), func(tx store.Tx) error {
			var writes []store.Write
			for _, c := range batch.Changes() {
				writes = append(writes, store.Write{
					Kind: c.Ref.Kind, ID: c.Ref.ID, State: c.After.AppendJSON(nil),
					Due: c.After.Deadline(), Share: engine.DueShare(core.ScopeOf(c.After)), Terms: c.After.Terms(),
				})
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

// BenchmarkLateness fires actions, each at a time of its own, in every other second, and reports
// how much later than its time a tool is called. In the seconds between, a timer of the
// runtime fires as often, or a hundred times, and as many bytes as the store logs for
// an action's start are appended to a file and synced: "bare" is how late that is, "timer" the timer alone.
func BenchmarkLateness(b *testing.B) {
	for _, perSecond := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("due=%d", perSecond), func(b *testing.B) {
			for b.Loop() {
				lateness(b, perSecond, 5)
			}
		})
	}
}

func lateness(b *testing.B, perSecond, seconds int) {
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
	e, stop := start(b, shell.Options{Store: st, Tools: tools(tool), DefaultConcurrency: 4096})
	begin := time.Now().Add(time.Second + time.Duration(perSecond*seconds)*100*time.Microsecond)
	var last uuid.UUID
	for second := range seconds {
		var specs []core.ActionSpec
		for i := range perSecond {
			spec := benchmarkSpec()
			at := begin.Add(time.Duration(2*second)*time.Second + time.Duration(i)*time.Second/time.Duration(perSecond))
			spec.Trigger = core.Scheduled(effects.TimeOf(at))
			specs = append(specs, spec)
		}
		for part := range slices.Chunk(specs, 500) {
			made, err := e.Actions().CreateAll(bg(), part)
			require.NoError(b, err)
			last = made[len(made)-1].ID
		}
	}
	require.True(b, time.Now().Before(begin), "they could not be made in time")
	log := newBareLog(b, 1500)
	var bare, timer []time.Duration
	for second := range seconds {
		every := time.Second / time.Duration(min(perSecond, 100))
		from := begin.Add(time.Duration(2*second+1) * time.Second)
		for due := from; due.Before(from.Add(time.Second - every)); due = due.Add(every) {
			<-time.After(time.Until(due))
			timer = append(timer, time.Since(due))
			require.NoError(b, log.write(0, make([]rawStep, 1)))
			bare = append(bare, time.Since(due))
		}
	}
	_, err = e.Actions().Wait(bg(), last)
	require.NoError(b, err)
	require.NoError(b, stop())
	require.NoError(b, st.Close())
	require.Len(b, late, perSecond*seconds)
	report := func(name string, d []time.Duration) {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	report("late", late)
	report("bare", bare)
	report("timer", timer)
}
