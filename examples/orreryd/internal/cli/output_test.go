package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListsAndShowsTakeAForm(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	label := strings.Repeat("long ", 20) + "end"
	first := p.add("--in", "1h", "--label", label, "--", "true")
	second := p.add("--in", "1h", "--", "true")
	p.ok("queue", "push", "mail")

	assert.Equal(t, second+"\n"+first+"\n", p.ok("actions", "list", "-o", "name"))
	assert.Equal(t, first+"\n", p.ok("actions", "show", first, "--output", "name"))
	assert.Equal(t, "mail\n", p.ok("queue", "list", "-o", "name"))
	assert.Equal(t, "mail\n", p.ok("queue", "show", "mail", "-o", "name"))
	assert.Empty(t, p.ok("pipeline", "list", "-o", "name"), "for xargs an empty list is empty")

	assert.NotContains(t, p.ok("actions", "list"), label)
	assert.Contains(t, p.ok("actions", "list", "-o", "wide"), label)
	assert.JSONEq(t, p.ok("actions", "list", "--json"), p.ok("actions", "list", "-o", "json"))
	assert.JSONEq(t, p.ok("actions", "show", first, "--json"), p.ok("actions", "show", first, "-o", "json"))
	assert.JSONEq(t, p.ok("limits", "--json"), p.ok("limits", "-o", "json"))
	for line := range strings.Lines(p.ok("audit", "-o", "json")) {
		assert.True(t, json.Valid([]byte(line)), line)
	}
	r := p.do("actions", "list", "-o", "name", "--limit", "1")
	assert.Equal(t, second+"\n", r.out)
	assert.Contains(t, r.err, "There is more: ")
}

func TestAFormThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"actions list -o yaml":              `--output: "yaml" is unknown: use wide, json or name`,
		"limits -o name":                    `--output: "name" is unknown: use wide or json`,
		"actions list --json -o name":       "give either --json or --output name, not both",
		"audit --db x --json -o wide":       "give either --json or --output wide, not both",
		"actions list --watch --json":       "--watch is for people",
		"actions list --watch -o name":      "--watch is for people",
		"actions list --watch=1ms":          "--watch: 1ms is too short: want 100ms or more",
		"actions list --watch=soon":         `--watch: "soon" is not a duration`,
		"actions list --watch 5s":           `takes no arguments: "5s" is one too many`,
		"actions cancel 0193f2a4 -o name":   "unknown shorthand flag",
		"recurring update 0193f2a4 --watch": "unknown flag",
	} {
		r := cli(t, nil, "", strings.Fields(line)...)
		assert.Equal(t, exitUsage, r.code, line)
		assert.Contains(t, r.err, want, line)
	}
}

func TestEachGroupGoesByBothItsNumbers(t *testing.T) {
	t.Parallel()
	root := (&app{env: func(string) string { return "" }}).rootCommand()
	for name, other := range otherNumber {
		cmd, _, err := root.Find([]string{name})
		require.NoError(t, err)
		require.Equal(t, name, cmd.Name())
		same, _, err := root.Find([]string{other})
		require.NoError(t, err, other)
		assert.Same(t, cmd, same)
		if name != "limits" {
			assert.True(t, name+"s" == other || other+"s" == name || name == "strategy", "%s and %s", name, other)
		}
	}
	single := []string{"recurring", "audit", "backup", "apply", "diff", "export", "notify", "cluster", "system"}
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "client" && !slices.Contains(single, cmd.Name()) {
			assert.Contains(t, otherNumber, cmd.Name(), "it has no other number")
		}
	}
}

func TestTheFlagVersionPrintsWhatTheCommandDoes(t *testing.T) {
	t.Parallel()
	want := cli(t, nil, "", "version")
	require.Zero(t, want.code)
	assert.Contains(t, want.out, "orreryd  ")
	assert.Equal(t, want, cli(t, nil, "", "--version"))
}

func TestAListThatIsWatchedInAPipeIsPrintedAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.add("--in", "1h", "--label", "here", "--", "true")
	w := begin(t, []string{"ORRERY_SERVER=" + p.url}, "actions", "list", "--watch=100ms")
	for range 3 {
		await(t, w.out, "here")
	}
	require.NoError(t, p.cmd.Process.Kill())
	await(t, w.errs, `OLD: as of \d\d:\d\d:\d\d UTC, .* ago: no daemon answers`)
	require.NoError(t, w.cmd.Process.Signal(os.Interrupt))
	assert.Zero(t, w.code())
}

func TestAListThatIsWatchedNeedsADaemonAtFirst(t *testing.T) {
	t.Parallel()
	r := cli(t, []string{"ORRERY_SERVER=http://127.0.0.1:1"}, "", "actions", "list", "--watch")
	assert.Equal(t, exitNoDaemon, r.code)
}
