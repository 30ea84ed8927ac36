package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program, so that it is run as its users
// run it.
func TestMain(m *testing.M) {
	if os.Getenv("QUEUE_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheQueueInAProgramOfOnesOwnDoesItsItemsAndTriesAgain(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for range 2 { // the second start finds the first one's database
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "QUEUE_TEST_MAIN=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "\"TO BE\" \"TO BE\" \"OR NOT\"\ndone: <nil>\n", string(out))
	}
}
