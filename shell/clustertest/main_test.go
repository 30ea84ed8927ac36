//go:build unix

package clustertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}))
}

// built is the daemon's program, made once.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// daemonProgram builds the daemon, and gives the path of its program.
func daemonProgram(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		//nolint:usetesting // it outlives the test that happens to build
		if built.dir, built.err = os.MkdirTemp("", "orrery-cluster-build-"); built.err != nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
		defer stop()
		args := slices.Concat([]string{"build", "-o", built.dir, overlay(t, built.dir)}, raceFlags, []string{"github.com/orrery-go/orrery/examples/orreryd"})
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			built.err = errors.Join(err, errors.New(string(out)))
		}
	})
	require.NoError(t, built.err, "build the daemon")
	return filepath.Join(built.dir, "orreryd")
}

// errLater is what a condition says that does not hold yet.
var errLater = errors.New("not yet")

// poll asks until ready gives nil; its error says what is still missing.
func poll(limit time.Duration, ready func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return err
		}
	}
}
