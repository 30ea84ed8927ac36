package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

var noop = shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })

// BenchmarkDurableActions is the way of an action from create to completed with
// a tool that does nothing: each caller creates one, waits for its end, and
// goes on with the next. Compare with BenchmarkRawBolt at the same number of
// callers.
func BenchmarkDurableActions(b *testing.B) {
	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			defer st.Close()
			e, stop := start(b, shell.Options{Store: st, Tools: tools(noop), DefaultConcurrency: 1024})
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						a, err := e.Execute(bg(), core.ActionSpec{ToolName: "count", Label: "benchmark", ToolInput: json.RawMessage(`{"to":"team@example.com"}`)})
						if err != nil || a.Status.Type != core.StatusCompleted {
							b.Error(a.Status, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			s, err := e.Stats(bg())
			require.NoError(b, err)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "actions/s")
			b.ReportMetric(float64(s.Inputs)/float64(max(s.Batches, 1)), "inputs/batch")
			require.NoError(b, stop())
		})
	}
}
