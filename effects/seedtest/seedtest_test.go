package seedtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects/seedtest"
)

// TestWhatAPropertyDraws is what the next test runs in processes of their own.
func TestWhatAPropertyDraws(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { t.Log("drawn", rapid.Uint64().Draw(r, "n")) })
	t.Log("seed", seedtest.Seed(t))
}

func TestTheSeedIsFixedUnlessOneIsGiven(t *testing.T) {
	drawn := func(env ...string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatAPropertyDraws$", "-test.v")
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, seedtest.Env+"=") && !strings.HasPrefix(v, "RAPID_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.Output()
		require.NoError(t, err, string(out))
		var lines []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "drawn ") || strings.Contains(line, "seed ") {
				lines = append(lines, line)
			}
		}
		require.Greater(t, len(lines), 100)
		return strings.Join(lines, "")
	}
	usual := drawn()
	assert.Contains(t, usual, "seed 1\n")
	assert.Equal(t, usual, drawn())
	assert.Equal(t, usual, drawn(seedtest.Env+"=1"))
	other := drawn(seedtest.Env + "=18446744073709551615")
	assert.Contains(t, other, "seed 18446744073709551615\n")
	assert.NotEqual(t, usual, other)
	assert.Equal(t, other, drawn(seedtest.Env+"=18446744073709551615"))
	assert.NotEqual(t, usual, drawn("RAPID_SEED=7"), "rapid's own setting goes before")
}
