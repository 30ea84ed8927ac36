package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatWouldNotServeIsSaidByCheckAndShow(t *testing.T) {
	t.Parallel()
	r := cli(t, nil, "", "config", "show", "--listen", ":7460")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, `listen address ":7460" means all interfaces: without a token only loopback is served`)
	path := write(t, "orrery.toml", "[[tokens]]\nname = 'old'\ntoken = '0123456789abcdef'\nexpires = 2020-01-31T00:00:00Z")
	r = cli(t, nil, "", "config", "check", path)
	assert.Zero(t, r.code)
	assert.Contains(t, r.err, `warning: tokens[0] "old" expired at 2020-01-31T00:00:00Z`)
}

func TestConfigCheckLooksAtTheFilesThatTheDaemonWouldApply(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ops.toml")
	path := write(t, "orrery.toml", fmt.Sprintf("[apply]\ndir = %q\n", dir))
	assert.Zero(t, cli(t, nil, "", "config", "check", path).code, "a folder without files is right")

	require.NoError(t, os.WriteFile(file, []byte("[recurring.a]\ncron = \"@daily\"\ncalendars = [\"office\"]\ncommand = [\"true\"]\n"), 0o600))
	r := cli(t, nil, "", "config", "check", path)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.err, `warning: ops.toml: recurring a: calendar "office" is in none of these files`)

	require.NoError(t, os.WriteFile(file, []byte("[recurring.a]\ncron = \"61 * * * *\"\ncommand = [\"true\"]\n[queues.q]\nfactor_percent = 5\n"), 0o600))
	r = cli(t, nil, "", "config", "check", path)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "apply.dir: 2 errors in the files that the daemon would apply:\n"+file+":2:1: recurring.a.cron: ")
	assert.Contains(t, r.err, file+":5:1: queues.q.factor_percent: 5 is not between 100 and 10000\n")
	assert.Empty(t, r.out, "nothing is right")
}
