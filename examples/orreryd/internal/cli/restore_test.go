package cli

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestADatabaseIsRestoredToATimeAndRunsWhatWasDueThen(t *testing.T) {
	db := database(t)
	c := write(t, "orrery.toml", "[retention]\nredo_days = 1\n")
	p := start(t, "--db", db, "--config", c)
	p.add("--in", "1h", "--", "echo", "before")
	p.ok("backup", "--to", db+".backup")
	first := p.add("--wait", "--", "echo", "first")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	p = start(t, "--db", db, "--config", c)
	second := p.add("--in", "1s", "--", "echo", "second")
	at := p.action(second).CreatedAt
	third := p.add("--in", "1h", "--", "echo", "third")
	require.Greater(t, p.action(third).CreatedAt, at)
	p.signal(os.Kill)
	p.code()

	redo := []string{"--redo", db + ".redo", "--redo", db + ".log"}
	r := cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String(), "--dry-run"}, redo...)...)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "commits would lead to batch ")
	require.NoFileExists(t, db+".new")
	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String(), "--json"}, redo...)...)
	require.Zero(t, r.code, r.err)
	var report restoreReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	assert.Equal(t, at, report.To.At)
	assert.Greater(t, report.To.Batch, report.From.Batch)
	verified(t, db+".new")

	again := start(t, "--db", db+".new")
	list := again.ok("actions", "list", "--limit", "100")
	assert.Contains(t, list, first)
	assert.Contains(t, list, second)
	assert.NotContains(t, list, third)
	require.Eventually(t, func() bool { return again.action(second).Status.Type == core.StatusCompleted }, patience, 10*time.Millisecond)
	again.signal(os.Interrupt)
	require.Zero(t, again.code())
	verified(t, db+".new")

	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String()}, redo...)...)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "it is not overwritten")
	later := at.Std().Add(time.Hour).Format(time.RFC3339)
	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".other", "--to", later}, redo...)...)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "it goes as far as batch ")
	for _, args := range [][]string{{"one"}, {"a", "b", "--to", "yesterday"}, {"a", "b", "--to", "0"}, {"a", "b", "--redo", "c"}} {
		r = cli(t, nil, "", append([]string{"restore"}, args...)...)
		assert.Equal(t, exitUsage, r.code, args)
	}
}
