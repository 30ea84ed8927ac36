package shell_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

// BenchmarkDurableItems is the way of an item through a queue: each worker pushes
// one, takes one and completes it, each of the three durable before it goes on.
func BenchmarkDurableItems(b *testing.B) {
	for _, workers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			defer st.Close()
			e, stop := start(b, shell.Options{Store: st})
			b.ReportAllocs()
			b.ResetTimer()
			begin := time.Now()
			each(workers, b.N, func() error {
				if _, _, err := e.Push(bg(), "ns", "t", "work", shell.PushOptions{Data: json.RawMessage(`{"to":"team@example.com"}`)}); err != nil {
					return err
				}
				items, err := e.Take(bg(), work, shell.TakeOptions{Holder: "w", Wait: time.Minute})
				if err != nil || len(items) != 1 {
					return fmt.Errorf("took %d: %w", len(items), err)
				}
				return e.Complete(bg(), shell.HoldOf(items[0]), nil)
			}, b)
			b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "items/s")
			b.StopTimer()
			require.NoError(b, stop())
		})
	}
}
