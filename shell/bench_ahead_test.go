package shell_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// lateStore is a store whose disk takes that long for a sync, and does one at a time.
type lateStore struct {
	store.Store
	disk *sync.Mutex
	take time.Duration
}

func (s lateStore) sync() {
	s.disk.Lock()
	defer s.disk.Unlock()
	time.Sleep(s.take) //nolint:forbidigo // it is the disk
}

func (s lateStore) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if err == nil {
		s.sync()
	}
	return err
}

// lateStager is the same as a store that stages.
type lateStager struct{ lateStore }

func (s lateStager) Stage(ctx context.Context, fn func(store.Tx) error) (func() error, error) {
	durable, err := s.Store.(store.Stager).Stage(ctx, fn)
	return func() error {
		if err == nil {
			s.sync()
		}
		return durable()
	}, err
}

// BenchmarkDecidingAhead is BenchmarkDurableActions with a disk that takes a given time,
// whatever else goes on: with a store that stages, and as if it did not.
func BenchmarkDecidingAhead(b *testing.B) {
	for _, take := range []time.Duration{200 * time.Microsecond, time.Millisecond, 4 * time.Millisecond} {
		for _, callers := range []int{1, 32, 256} {
			for _, ahead := range []bool{false, true} {
				b.Run(fmt.Sprintf("sync=%s/callers=%d/ahead=%t", take, callers, ahead), func(b *testing.B) {
					file, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
					require.NoError(b, err)
					defer file.Close()
					late := lateStore{file, new(sync.Mutex), take}
					st := store.Store(late)
					if ahead {
						st = lateStager{late}
					}
					e, stop := start(b, shell.Options{Store: st, Tools: tools(noop), DefaultConcurrency: 1024})
					cpu := cpuTime()
					b.ResetTimer()
					each(callers, b.N, func() error {
						_, err := e.Actions().Execute(bg(), benchmarkSpec())
						return err
					}, b)
					b.StopTimer()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "actions/s")
					b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
					s, err := e.Stats(bg())
					require.NoError(b, err)
					b.ReportMetric(float64(s.Inputs)/float64(s.Batches), "inputs/batch")
					require.NoError(b, stop())
				})
			}
		}
	}
}
