package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program, so that it is run as its users run it.
func TestMain(m *testing.M) {
	if os.Getenv("SIMULATION_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), "SIMULATION_TEST_MAIN=1")
	out, err := cmd.Output()
	return string(out), err
}

func TestNoCardIsChargedTwice(t *testing.T) {
	out, err := program(t)
	require.NoError(t, err, out)
	assert.Equal(t, "nothing found in 200 seeds\n", out)
}

func TestACarelessRunbookIsFoundOut(t *testing.T) {
	out, err := program(t, "-careless")
	require.Error(t, err)
	assert.Contains(t, out, "is charged 2 times")
	assert.Contains(t, out, "to repeat it with Options.Keep")
	again, _ := program(t, "-careless")
	assert.Equal(t, out, again)
}
