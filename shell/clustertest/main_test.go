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
	// A connection of a proxy that ends just as a toxic is taken away may leave a goroutine of the proxy behind.
	proxies := goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe")
	goleak.VerifyTestMain(m, proxies, goleak.Cleanup(func(code int) {
		for _, p := range []*program{&present, &coming} {
			if p.dir != "" {
				_ = os.RemoveAll(p.dir)
			}
		}
		os.Exit(code)
	}))
}

// program is a program of the daemon, built once.
type program struct {
	once  sync.Once
	dir   string
	err   error
	edits []edit // what its source has otherwise than the one that is shipped
}

// The daemon, and the same one with the next version of the core: it decides by the same rules under another name.
var (
	present = program{edits: append([]edit{stops}, clocks...)}
	coming  = program{edits: append([]edit{nextCore, stops}, clocks...)}
)

// build builds the program, and gives its path.
func (p *program) build(t *testing.T) string {
	t.Helper()
	p.once.Do(func() {
		//nolint:usetesting // it outlives the test that happens to build
		if p.dir, p.err = os.MkdirTemp("", "orrery-cluster-build-"); p.err != nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 15*time.Minute)
		defer stop()
		args := slices.Concat([]string{"build", "-o", p.dir, overlay(t, p.dir, p.edits)}, raceFlags, []string{"github.com/orrery-go/orrery/examples/orreryd"})
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			p.err = errors.Join(err, errors.New(string(out)))
		}
	})
	require.NoError(t, p.err, "build the daemon")
	return filepath.Join(p.dir, "orreryd")
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
