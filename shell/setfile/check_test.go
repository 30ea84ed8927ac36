package setfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
)

func TestWhatDeclarationsMeanIsCheckedAtTheirKeysAndAllAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.toml")
	require.NoError(t, os.WriteFile(path, []byte(`[recurring.one]
cron    = "61 * * * *"
command = ["true"]

[recurring.two]
cron           = "@daily"
timeout        = "1ms"
start_deadline = "2h"
calendars      = ["office"]
command        = ["true"]

[recurring.three]
cron      = "@daily"
calendars = ["office"]
command   = ["true"]

[queues.mail]
factor_percent = 5
`), 0o600))
	_, _, err := setfile.CheckFiles([]string{dir}, setfile.Options{Paths: true}, effects.Time(1_800_000_000_000))
	var all setfile.Errors
	require.ErrorAs(t, err, &all)
	var at []string
	for _, e := range all {
		assert.Equal(t, path, e.File, "editors find it")
		at = append(at, e.Field)
		assert.Greater(t, e.Line, 1)
	}
	assert.Contains(t, at, "recurring.one.cron")
	assert.Contains(t, at, "recurring.two.start_deadline")
	assert.Contains(t, at, "queues.mail.factor_percent")
	assert.Equal(t, 2, all[0].Line)

	require.NoError(t, os.WriteFile(path, []byte("[recurring.three]\ncron = \"@daily\"\ncalendars = [\"office\"]\ncommand = [\"true\"]\n"), 0o600))
	_, warnings, err := setfile.CheckFiles([]string{dir}, setfile.Options{}, effects.Time(1_800_000_000_000))
	require.NoError(t, err)
	assert.Equal(t, []string{`a.toml: recurring three: calendar "office" is in none of these files: the daemon must have it`}, warnings)

	_, err = setfile.Load([]string{dir}, setfile.Options{Variables: map[string]string{"region": "us"}})
	require.EqualError(t, err, `no file declares a variable "region", nor any other: a table [variables] does`)
}

func TestWhatTheKernelRefusesIsSaidAtItsKey(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, row := range []struct{ what, text, want string }{
		{"an item of a list", "[calendars.a]\ntz = \"UTC\"\nexclude = [\"2026-12-24\", \"2026-13-01\"]\n", `a.toml:3:1: calendars.a.exclude[1].date: "2026-13-01" is no date`},
		{"a window", "[calendars.a1]\ntz = \"UTC\"\nexclude_weekly = [\"mon 25:00-26:00\"]\n", `a.toml:3:1: calendars.a1.exclude_weekly[0].from: "25:00" is no time of the day`},
		{"a pattern", "[queues.a]\nmax_attempts = 2\nno_retry = [\"\"]\n", "a.toml:3:1: queues.a.no_retry[0]: must not be empty"},
		{"a rate", "[queues.a]\nrate = \"5/1000h\"\n", "a.toml:2:1: queues.a.rate.per_ms: 3600000000 is not between 0 and "},
		{"a command", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"" + long + "\"]\n", "a.toml:3:1: recurring.a.command: 1048589 bytes is more than 1048576"},
		{"an input", "[recurring.a]\ncron = \"@daily\"\ntool = \"command\"\ninput = { argv = [\"" + long + "\"] }\n", "a.toml:4:1: recurring.a.input: 1048589 bytes is more than 1048576"},
		{"what is not in its table", "[recurring.a]\ncommand = [\"x\"]\ncron = \"@daily\"\nbackoff_max = \"10s\"\n", `a.toml:1:12: recurring.a.backoff: means something with policy.on_failure "retry" only`},
	} {
		_, _, err := setfile.CheckFiles([]string{folder(t, map[string]string{"a.toml": row.text})}, setfile.Options{}, now)
		require.ErrorContains(t, err, row.want, row.what)
	}
	twice := map[string]string{"a.yaml": "id: a\npodSpec: {containers: [{name: c, image: i}]}\n"}
	twice["b.yaml"] = twice["a.yaml"]
	_, _, err := setfile.CheckFiles([]string{folder(t, twice)}, setfile.Options{}, now)
	require.EqualError(t, err, `b.yaml:1:1: name: "a" of default/default is declared twice, the first time in a.yaml`)
	_, _, err = setfile.CheckFiles([]string{filepath.Join(t.TempDir(), "none")}, setfile.Options{}, now)
	require.ErrorContains(t, err, "no such file")
	var many strings.Builder
	for n := range shell.MaxSetEntries + 1 {
		fmt.Fprintf(&many, "[queues.q%d]\n", n)
	}
	_, _, err = setfile.CheckFiles([]string{folder(t, map[string]string{"a.toml": many.String()})}, setfile.Options{}, now)
	require.EqualError(t, err, "set: 5001 declarations are more than 5000: split it")
}
