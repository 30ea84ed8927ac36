//go:build linux

package neighbourtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the daemon's program, made once.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// daemonProgram builds the daemon, and gives the path of its program. It is built
// without the race detector, which multiplies the memory that is measured.
func daemonProgram(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		//nolint:usetesting // it outlives the test that happens to build
		if built.dir, built.err = os.MkdirTemp("", "orrery-neighbours-"); built.err != nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
		defer stop()
		cmd := exec.CommandContext(ctx, "go", "build", "-o", built.dir, "github.com/orrery-go/orrery/examples/orreryd")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err, "build the daemon")
	return filepath.Join(built.dir, "orreryd")
}

// measured gives for how long each way is tried, and whether its effect is measured.
func measured(t *testing.T) (time.Duration, bool) {
	t.Helper()
	v := os.Getenv("ORRERY_NEIGHBOURS")
	if v == "" {
		return time.Second, false
	}
	d, err := time.ParseDuration(v)
	require.NoError(t, err, "ORRERY_NEIGHBOURS")
	return d, true
}
