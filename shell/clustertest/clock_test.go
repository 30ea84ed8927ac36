//go:build unix

package clustertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// aheadEnv says by how much the wall clock of a daemon of these tests is ahead of the machine's: a duration. No other program knows it.
const aheadEnv = "ORRERY_CLUSTERTEST_AHEAD"

// edits are what the daemon of these tests has otherwise than the one that is shipped: where the wall clock is read for the engine, and
// where it is compared with the database's.
var edits = []struct{ file, is, becomes string }{
	{"../engine/clock.go", "func (SystemClock) Now() time.Time { return time.Now() }", "func (SystemClock) Now() time.Time { return time.Now().Add(ahead) }"},
	{"../../store/postgres/cluster.go", "return at.Sub(asked.Add(within)), within, nil", "return at.Sub(asked.Add(within).Add(ahead)), within, nil"},
}

const aheadSource = `
var ahead, _ = time.ParseDuration(os.Getenv("` + aheadEnv + `"))
`

// overlay has the daemon built with a clock that can be ahead of the machine's, and gives the flag of go build. Programs of Go ask
// the kernel for the time without the C library, so faketime does nothing to them.
func overlay(t *testing.T, dir string) string {
	t.Helper()
	replace := make(map[string]string)
	for _, e := range edits {
		source, err := filepath.Abs(e.file)
		require.NoError(t, err)
		b, err := os.ReadFile(source)
		require.NoError(t, err)
		require.Contains(t, string(b), e.is, "%s has changed: change this test with it", e.file)
		text := strings.Replace(string(b), e.is, e.becomes, 1) + aheadSource
		text = strings.Replace(text, "\nimport ", "\nimport \"os\"\nimport ", 1)
		edited := filepath.Join(dir, filepath.Base(source))
		require.NoError(t, os.WriteFile(edited, []byte(text), 0o600))
		replace[source] = edited
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return "-overlay=" + file
}
