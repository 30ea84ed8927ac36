package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program, so that it is run as its users
// run it.
func TestMain(m *testing.M) {
	if os.Getenv("EMBED_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheEmbeddedEngineRunsItsActionAndStopsCleanly(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for range 2 { // the second start finds the first one's database
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "EMBED_TEST_MAIN=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		assert.Equal(t, "completed \"hi world\" <nil>\n", string(out))
		assert.Contains(t, stderr.String(), "engine stopped")
	}
}

func TestTheEmbeddingExampleFitsOnAPage(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	assert.LessOrEqual(t, bytes.Count(source, []byte("\n")), 30)
}
