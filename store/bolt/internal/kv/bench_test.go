package kv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// BenchmarkLargeValues commits values of a size, each of which is replaced twice, as the record
// of an action is, with checkpoints under way; "peak-MB" is the most that was on the heap.
func BenchmarkLargeValues(b *testing.B) {
	for _, size := range []int{4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		for name, large := range map[string]int{"in memory": math.MaxInt, "in the log": 1} {
			b.Run(fmt.Sprintf("%d KiB %s", size>>10, name), func(b *testing.B) {
				db := openAt(b, filepath.Join(b.TempDir(), "orrery.db"), func(o *kv.Options) { o.Large, o.NoSync = large, false })
				defer func() { require.NoError(b, db.Close()) }()
				value, peak := make([]byte, size), uint64(0)
				for n := 0; b.Loop(); n++ {
					tx, err := db.Begin(context.Background(), true)
					require.NoError(b, err)
					for k := range 8 {
						key := binary.BigEndian.AppendUint64(nil, uint64(n/3*8+k))
						tx.Table("a").Get(key)
						tx.Table("a").Put(key, value)
					}
					require.NoError(b, tx.Commit())
					if n%32 == 0 {
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						peak = max(peak, m.HeapAlloc)
					}
				}
				b.ReportMetric(float64(peak)/1e6, "peak-MB")
				b.SetBytes(int64(8 * size))
			})
		}
	}
}
