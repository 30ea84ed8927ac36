//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

// ending tells of pods that have ended.
type ending chan jobs.Observation

func (e ending) Observe(_ context.Context, o jobs.Observation) {
	if o.Phase == jobs.PhaseEnded {
		e <- o
	}
}

// BenchmarkPod measures a pod that does nothing, from its creation to its deletion.
func BenchmarkPod(b *testing.B) {
	r, err := local.New(local.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(ending, 1)
	go func() { done <- r.Watch(ctx, ended) }()
	defer func() {
		cancel()
		require.ErrorIs(b, <-done, context.Canceled)
	}()
	for b.Loop() {
		run := pod(`{"containers":[{"name":"m","command":["true"]}]}`)
		_, err := r.Create(ctx, run)
		require.NoError(b, err)
		<-ended
		_, err = r.Delete(ctx, run.Attempt)
		require.NoError(b, err)
	}
}
