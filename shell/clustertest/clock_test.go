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

// aheadEnv says by how much the clock of a daemon of these tests is ahead of the machine's: a duration. No other program knows it.
const aheadEnv = "ORRERY_CLUSTERTEST_AHEAD"

// overlay has the daemon built with a clock that can be ahead of the machine's, and gives the flag of go build. Programs of Go ask
// the kernel for the time without the C library, so faketime does nothing to them.
func overlay(t *testing.T, dir string) string {
	t.Helper()
	source, err := filepath.Abs("../engine/clock.go")
	require.NoError(t, err)
	b, err := os.ReadFile(source)
	require.NoError(t, err)
	const is = "func (SystemClock) Now() time.Time { return time.Now() }"
	require.Contains(t, string(b), is, "the clock has changed: change this test with it")
	text := strings.Replace(string(b), is, `func (SystemClock) Now() time.Time { return time.Now().Add(ahead) }

var ahead, _ = time.ParseDuration(os.Getenv("`+aheadEnv+`"))`, 1)
	text = strings.Replace(text, `import "time"`, "import (\n\t\"os\"\n\t\"time\"\n)", 1)
	clock := filepath.Join(dir, "clock.go")
	require.NoError(t, os.WriteFile(clock, []byte(text), 0o600))
	b, err = json.Marshal(map[string]map[string]string{"Replace": {source: clock}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return "-overlay=" + file
}
