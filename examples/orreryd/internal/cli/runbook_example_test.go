package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// ownTmux gives the test's daemons a place of their own for tmux's sockets, and ends
// what is left there.
func ownTmux(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tmux") //nolint:usetesting // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Setenv("TMUX_TMPDIR", dir)
	t.Cleanup(func() {
		sockets, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		require.NoError(t, err)
		for _, socket := range sockets {
			_ = exec.Command("tmux", "-S", socket, "kill-server").Run() // mostly it has gone with its last session
		}
		require.NoError(t, os.RemoveAll(dir))
	})
}

// The example of 003 against a real repository: a clean branch is merged by
// fast-forward, a diverged one by rebase, a conflicting one with the help of an
// agent in a real terminal session. Before each approval the daemon is killed.
func TestTheRunbookExampleMergesEachBranchInItsWayAlsoWhenTheDaemonIsKilled(t *testing.T) { // D10
	requirePrograms(t, "git", "tmux")
	ownTmux(t)
	dir := t.TempDir()
	for _, name := range []string{"release.toml", "prepare.sh", "agent.sh"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "runbook", name))
		require.NoError(t, err)
		b = bytes.ReplaceAll(b, []byte(`idle_timeout = "30s"`), []byte(`idle_timeout = "10m"`)) // on a slow machine
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o700))
	}
	prepare := exec.CommandContext(t.Context(), "./prepare.sh")
	prepare.Dir = dir
	out, err := prepare.CombinedOutput()
	require.NoError(t, err, "%s", out)

	db, workspace := filepath.Join(dir, "orrery.db"), filepath.Join(dir, "workspace")
	args := []string{"--db", db, "--workspace", workspace, "--tick-rate", "0.2"} // what a kill interrupts is settled after two ticks
	p := start(t, args...)
	for _, row := range []struct{ branch, approach string }{
		{"clean", "fast-forward"}, {"diverged", "rebase"}, {"conflicting", "agent"},
	} {
		var run core.Pipeline
		raw := p.ok("pipeline", "start", filepath.Join(dir, "release.toml"), "--input", "branch="+row.branch, "--json")
		require.NoError(t, json.Unmarshal([]byte(raw), &run))
		p.signal(syscall.SIGKILL)
		p.code()
		p = start(t, args...)
		deadline := time.Now().Add(patience)
		for { // the approval is taken once the run waits for it
			r := p.do("pipeline", "approve", run.ID.String(), "approve")
			if r.code == 0 {
				break
			}
			require.Truef(t, time.Now().Before(deadline), "%s: %s", row.branch, r.err)
			p.ok("pipeline", "show", run.ID.String())
		}
		p.ok("pipeline", "wait", run.ID.String())
		assert.Contains(t, strings.Split(p.ok("strategy", "list"), "\n")[1], row.approach, row.branch)
	}
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	verified(t, db)
	list, err := os.ReadFile(filepath.Join(workspace, "shop", "list.txt"))
	require.NoError(t, err)
	assert.Equal(t, "apples\nwhite bread\nrye bread\n", string(list), "the checkout of main follows")
}
