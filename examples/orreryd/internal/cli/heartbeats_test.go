//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The processes of the system are killed, stopped and begun again for about as long as a run
// may be silent, which is the worst there is: its pod goes on, and so does the run.
func TestARunOutlivesEachGapOfItsDaemon(t *testing.T) {
	t.Parallel()
	const interval = time.Second
	dir := podsDir(t)
	file := write(t, "orrery.toml", fmt.Sprintf("[jobs]\nheartbeat_seconds = %g\nmax_missed = 3\n", interval.Seconds()))
	args := []string{"--db", filepath.Join(dir, "orrery.db"), "--config", file}
	p := start(t, args...)
	p.applyJob("long", fmt.Sprintf("echo begun >> %[1]s/begun; n=0; until test -e %[1]s/go || test $n -ge 3000; do n=$((n+1)); sleep 0.1; done", dir), "")
	run := p.trigger("long")
	p.eventually("running", "run", "show", run)
	lasts := func(what string) {
		<-time.After(4 * interval)
		require.Contains(t, p.ok("run", "show", run), "running", "%s: its heartbeats were missed", what)
	}
	lasts("before any gap")
	for _, missed := range []float64{2.7, 3, 3.2, 3.6, 6} {
		gap := time.Duration(missed * float64(interval))
		p.signal(syscall.SIGKILL)
		p.code()
		<-time.After(gap)
		p = start(t, args...)
		lasts("killed for " + gap.String())
	}
	p.signal(syscall.SIGSTOP)
	<-time.After(5 * interval)
	p.signal(syscall.SIGCONT)
	lasts("stood still")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	p.eventually("completed", "run", "show", run)
	begun, err := os.ReadFile(filepath.Join(dir, "begun"))
	require.NoError(t, err)
	assert.Equal(t, "begun\n", string(begun), "it was begun twice")
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.code())
}
