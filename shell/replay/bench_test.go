package replay_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store/bolt"
)

var (
	benchActions = flag.Int("actions", 100_000, "BenchmarkVerify: how many actions the database has seen")
	benchFile    = flag.String("replayed", "", "BenchmarkVerify: the database `file` to replay; one that is not there is made, and kept")
)

// BenchmarkVerify replays a database of actions that were created, started and completed,
// of which one in ten waits for its time still, and of items that went through a queue.
func BenchmarkVerify(b *testing.B) {
	path := *benchFile
	if path == "" {
		path = filepath.Join(b.TempDir(), "orrery.db")
	}
	if _, err := os.Stat(path); err != nil {
		made(b, path, *benchActions)
	}
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	b.ReportAllocs()
	b.ResetTimer()
	begin, inputs := time.Now(), uint64(0)
	for range b.N {
		rep, err := replay.Verify(b.Context(), st, replay.Options{})
		require.NoError(b, err)
		require.Empty(b, rep.Divergences)
		inputs += rep.Inputs
	}
	b.ReportMetric(float64(inputs)/time.Since(begin).Seconds(), "events/s")
}
