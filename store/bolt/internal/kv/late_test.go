package kv_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// BenchmarkCommitBesideCheckpoints commits every ten milliseconds, and reports how long
// that takes, with a checkpoint every two seconds and without any. The keys are random, as
// ids are, in a file that has many already.
func BenchmarkCommitBesideCheckpoints(b *testing.B) {
	for _, after := range []time.Duration{time.Hour, 2 * time.Second} {
		b.Run("after="+after.String(), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = append(took, pacedCommits(b, after)...)
			}
			slices.Sort(took)
			for _, p := range []int{500, 900, 990, 999} {
				b.ReportMetric(float64(took[len(took)*p/1000].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
			}
		})
	}
}

func pacedCommits(b *testing.B, after time.Duration) (took []time.Duration) {
	path := filepath.Join(b.TempDir(), rand.Text())
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{InitialMmapSize: 1 << 30, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	require.NoError(b, err)
	o := options(path)
	o.NoSync, o.After = false, after
	db, err := kv.New(file, o)
	require.NoError(b, err)
	commit := func(n int) {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(b, err)
		for range n {
			tx.Table("records").PutNew([]byte(rand.Text()), make([]byte, 400))
			tx.Table("lists").PutNew([]byte(rand.Text()), nil)
			tx.Table("lists").PutNew([]byte(rand.Text()), nil)
		}
		require.NoError(b, tx.Commit())
	}
	for range 40 {
		commit(1000)
	}
	require.NoError(b, db.Checkpoint())
	next := time.Now()
	for range 1000 {
		next = next.Add(10 * time.Millisecond)
		<-time.After(time.Until(next))
		began := time.Now()
		commit(4)
		took = append(took, time.Since(began))
	}
	require.NoError(b, db.Close())
	return took
}
