//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childEnv holds a childConfig in the environment of a child.
const childEnv = "ORRERY_CRASHTEST_CHILD"

func TestMain(m *testing.M) {
	if raw := os.Getenv(childEnv); raw != "" {
		os.Exit(childMain(raw))
	}
	if dir := os.Getenv(outputEnv); dir != "" {
		fmt.Fprintln(os.Stderr, outputChild(dir))
		os.Exit(1)
	}
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
		if built.dir, built.err = os.MkdirTemp("", "orrery-crash-build-"); built.err != nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 15*time.Minute) // on a busy machine whose cache is cold it takes more than five
		defer stop()
		args := append([]string{"build", "-o", built.dir}, raceFlags...)
		cmd := exec.CommandContext(ctx, "go", append(args, "github.com/orrery-go/orrery/examples/orreryd")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err, "build the daemon")
	return filepath.Join(built.dir, "orreryd")
}

// slow reports whether the whole suite is asked for.
func slow() bool { return os.Getenv("ORRERY_SLOW") == "1" }

// kills gives how often a victim is killed.
func kills(t *testing.T, few, many, factor int) int {
	t.Helper()
	if v := os.Getenv("ORRERY_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err, "ORRERY_KILLS")
		return n * factor
	}
	if slow() {
		return many
	}
	return few
}

// workDir gives a folder that is kept where the test fails.
func workDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "orrery-crash-") //nolint:usetesting // the folder of a failed test is kept
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

// errLater is what a condition says that does not hold yet.
var errLater = errors.New("not yet")

// await asks until ready gives nil; its error says what is still missing.
func await(t *testing.T, limit time.Duration, ready func() error) {
	t.Helper()
	require.NoError(t, poll(limit, ready), "after %s", limit)
}

// poll is await without the verdict.
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
