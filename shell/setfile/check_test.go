package setfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
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
