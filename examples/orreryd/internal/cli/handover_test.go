//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// The tool ends only after the other daemon has answered that it works, so for as long as the tool runs nobody waits for it.
func TestADaemonThatIsStoppedHandsTheDatabaseOverWhileItsToolsRunOn(t *testing.T) {
	t.Parallel()
	database, gate := postgrestest.Database(t), filepath.Join(t.TempDir(), "gate")
	first := start(t, "--database", database, "--config", member(t, "first"))
	second := standsBy(t, database, "second")
	until := func(gate string) []string {
		return []string{"--", "sh", "-c", "echo before; until test -e " + gate + "; do sleep 0.02; done; echo after"}
	}
	running, cancelled := first.add(until(gate)...), first.add(until(gate+"-of-nobody")...)
	for _, id := range []string{running, cancelled} {
		require.Eventually(t, func() bool { return first.action(id).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	}
	require.Eventually(t, func() bool { return strings.Contains(first.ok("cluster", "status"), " stands by, at ") }, patience, 20*time.Millisecond)

	first.signal(syscall.SIGTERM)
	second.works()
	assert.Equal(t, core.StatusRunning, second.action(running).Status.Type)
	second.add("--wait", "--", "echo", "done")
	second.ok("actions", "cancel", cancelled)
	require.Eventually(t, func() bool { return second.action(cancelled).Status.Type == core.StatusCancelled }, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(second.ok("cluster", "status"), "first has given it back, and goes on with 1 run\n")
	}, patience, 20*time.Millisecond)
	assert.Regexp(t, `(?m)^first +goes on with 1 run of what it has given back, at `, second.ok("cluster", "status"))
	status, text := first.readiness()
	assert.Equal(t, 503, status, text)
	select {
	case <-first.exited:
		require.Fail(t, "it has ended, although its tool runs", "%s", first.stderr.String())
	default:
	}

	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Zero(t, first.code(), first.stderr.String())
	require.Eventually(t, func() bool { return second.action(running).Status.Type == core.StatusCompleted }, patience, 20*time.Millisecond)
	a := second.action(running)
	assert.EqualValues(t, 1, a.Attempt)
	assert.Contains(t, string(a.Status.Result), "after")
	assert.Contains(t, second.ok("actions", "logs", running), "before\nafter\n")
	assert.Contains(t, first.stderr.String(), "the store is handed over; what runs here goes on")
	await(t, second.errs, "a former owner of the store has ended what it carried out")
	assert.NotContains(t, second.ok("cluster", "status"), "first")
	second.stop()
	r := cli(t, nil, "", "replay", "--verify", "--database", database)
	require.Zero(t, r.code, r.err)
}
