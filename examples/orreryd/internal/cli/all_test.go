package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAllThatMatchAreTakenAfterAQuestion(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	for _, label := range []string{"a", "b", "c"} {
		p.ok("actions", "add", "--label", label, "--label-kv", "team="+label, "--in", "1000h", "--", "true")
	}
	r := cli(t, env, "", "actions", "cancel-all", "--dry-run")
	require.Zero(t, r.code, r.err)
	assert.Equal(t, 3, strings.Count(r.out, "\n"), r.out)

	for _, answer := range []string{"", "n\n", "no\n", "\n"} {
		r = cli(t, env, answer, "actions", "cancel-all", "--label-kv", "team=a")
		assert.Equal(t, exitFailed, r.code)
		assert.Contains(t, r.err, "Cancel each action that matches: 1 action in all. Go on? [y/N] ")
		assert.Contains(t, r.err, "nothing was done: answer y, or give --yes")
	}
	assert.Equal(t, 3, strings.Count(p.ok("actions", "list", "-o", "name"), "\n"))
	assert.Contains(t, p.ok("actions", "list"), "pending")

	r = cli(t, env, "y\n", "actions", "cancel-all", "--label-kv", "team=a", "--reason", "wrong host")
	require.Zero(t, r.code, r.err)
	assert.Equal(t, "done to 1 action\n", r.out)
	assert.Contains(t, p.ok("actions", "list", "--status", "cancelled"), "wrong host")
	assert.Equal(t, "done to 2 actions\n", p.ok("actions", "cancel-all", "--yes", "--since", "1h"), "the one that is cancelled does not match")
	r = cli(t, env, "", "actions", "cancel-all")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.err, "no actions match")
}

func TestAllThatFailedAreRetriedOnceHoweverOftenTheCommandIsRepeated(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	for range 2 {
		r := cli(t, env, "", "actions", "add", "--wait", "--", "false")
		require.Equal(t, exitFailed, r.code)
	}
	ids := strings.Fields(p.ok("actions", "list", "--status", "failed", "-o", "name"))
	assert.Equal(t, "done to 2 actions\n", p.ok("actions", "retry-all", "--yes"))
	until := []string{"--until", madeAt(t, p, ids[0])}
	assert.Equal(t, "done to 0 actions; to 1 it had been done before\n", p.ok(append([]string{"actions", "retry-all", "--yes"}, until...)...), "of those before the second")
	failed := p.ok("actions", "retry-all", "--dry-run", "--failed-since", "24h")
	assert.Subset(t, strings.Fields(failed), ids, "whenever they were made")
	r := cli(t, env, "", "actions", "retry-all", "--yes", "--failed-since", "2126-01-31T07:00:00Z")
	assert.Contains(t, r.err, "no actions match", "none has failed by then")
	first := p.ok("actions", "retry", "--once", "--json", ids[0])
	assert.Equal(t, first, p.ok("actions", "retry", "--once", "--json", ids[0]))
}

// madeAt gives when an action was created.
func madeAt(t *testing.T, p *process, id string) string {
	t.Helper()
	var a struct {
		CreatedAt string `json:"created_at"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok("actions", "show", id, "--json")), &a))
	return a.CreatedAt
}

func TestEachThatCannotBeDoneIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	for i := range 2 {
		r := cli(t, env, "", "actions", "add", "--wait", "--dedup-key", fmt.Sprint(i), "--", "false")
		require.Equal(t, exitFailed, r.code)
	}
	p.ok("actions", "add", "--in", "1000h", "--dedup-key", "1", "--", "true")
	r := cli(t, env, "", "actions", "retry-all", "--yes")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "done to 1 action\n", r.out)
	assert.Regexp(t, `(?m)^[0-9a-f-]{36}: .*dedup`, r.err)
	assert.Contains(t, r.err, "1 of 2 actions could not be done")
}

func TestSchedulesOfATenantArePausedAndGoOn(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	for _, tenant := range []string{"x", "y"} {
		p.ok("recurring", "add", "--tenant", tenant, "--cron", "0 9 * * *", "--", "true")
	}
	assert.Equal(t, "done to 1 recurring action\n", p.ok("recurring", "pause-all", "--tenant", "x", "--yes", "--until", "2090-01-01T06:00:00Z", "--reason", "night"))
	assert.Contains(t, p.ok("recurring", "list", "--tenant", "x"), "disabled")
	assert.Contains(t, p.ok("recurring", "list", "--tenant", "y"), "enabled")
	assert.Equal(t, "done to 1 recurring action\n", p.ok("recurring", "resume-all", "--tenant", "x", "--yes"))
}

func TestListsAreTurnedAroundAndBoundedByTime(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	for _, label := range []string{"first", "second"} {
		p.ok("actions", "add", "--label", label, "--in", "1000h", "--", "true")
	}
	newest, oldest := p.ok("actions", "list"), p.ok("actions", "list", "--order", "oldest")
	assert.Less(t, strings.Index(newest, "second"), strings.Index(newest, "first"))
	assert.Less(t, strings.Index(oldest, "first"), strings.Index(oldest, "second"))
	assert.Contains(t, p.ok("actions", "list", "--until", "1h"), "no actions")
	assert.Contains(t, p.ok("actions", "list", "--since", "1h"), "second")
	for flag, want := range map[string]string{"--order": `--order: "soon" is unknown: use newest or oldest`, "--since": `--since: "soon" is neither a time such as 2026-02-10T14:00:00Z nor a duration such as 24h`} {
		r := cli(t, env, "", "actions", "list", flag, "soon")
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.err, want)
	}
}
