//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandsForWhichThereIsNoDescriptorWaitAndAllRunOnce(t *testing.T) {
	t.Parallel()
	requirePrograms(t, "sh")
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	gate, ran := filepath.Join(dir, "gate"), filepath.Join(dir, "ran")
	// The program that the harness starts is a shell here, which lowers the limit.
	wrapped := write(t, "limited", "#!/bin/sh\nulimit -n 64\nexec "+exe+" \"$@\"\n")
	require.NoError(t, os.Chmod(wrapped, 0o700))
	p := beginProgram(t, wrapped, nil, "orchestrate", "--listen", "127.0.0.1:0", "--db", database(t))
	p.awaitReady()
	const many = 40
	for range many { // due together, once all are there: the requests need descriptors, too
		p.add("--in", "15s", "--", "sh", "-c", `echo ran >>"$1"; while [ ! -e "$0" ]; do sleep 0.05; done`, gate, ran)
	}
	line := await(t, p.errs, "the system lacks what a start needs")
	assert.Contains(t, line, "level=WARN")
	assert.Contains(t, line, "file descriptors")

	require.NoError(t, os.WriteFile(gate, nil, 0o600))

	require.Eventually(t, func() bool {
		return strings.Count(p.do("actions", "list", "--status", "completed").out, "completed") == many
	}, patience, 100*time.Millisecond)
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	assert.Equal(t, many, strings.Count(string(text), "ran"), "each ran once")
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
}
