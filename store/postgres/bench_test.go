package postgres_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// BenchmarkCreate commits batches of new records with a due time, two counted terms and an outer effect, one after the
// other and on the disk, and beside it the same with the embedded store.
func BenchmarkCreate(b *testing.B) {
	server := postgrestest.Start(b, postgrestest.Options{})
	for _, size := range []int{1, 256} {
		b.Run(fmt.Sprintf("records=%d/postgres", size), func(b *testing.B) {
			benchCreate(b, open(b, server.Database(b), postgres.Options{}), size)
		})
		b.Run(fmt.Sprintf("records=%d/bolt", size), func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			benchCreate(b, s, size)
		})
	}
}

func benchCreate(b *testing.B, s store.Store, size int) {
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		require.NoError(b, s.Update(ctx, func(tx store.Tx) error { return put(tx, next, size) }))
		next += size
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
	require.NoError(b, s.Close())
}
