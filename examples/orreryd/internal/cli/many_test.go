package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManyActionsAndItemsComeFromAFileOrStdin(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	const line = `{"tool_name":"command","tool_input":{"argv":["true"]},"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}`
	file := write(t, "actions.jsonl", line+`,"label":"a"}`+"\n\n  "+line+`,"label":"b","tenant":"other"}`+"\r\n{}")

	r := cli(t, env, "", "actions", "add-many", file)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, file+`:3: tenant: "other" of namespace "default" is not that of actions[0]`, "the line, and what is wrong with it")
	assert.Empty(t, r.out)
	assert.Contains(t, p.ok("actions", "list"), "no actions")

	r = cli(t, env, "", "actions", "add-many", "--each", file)
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, 2, strings.Count(r.out, "\tpending\n"), r.out)
	assert.Contains(t, r.err, file+":4: tool_name: must not be empty")
	assert.Contains(t, r.err, "1 of 3 lines are refused")
	assert.Contains(t, p.ok("actions", "list", "--tenant", "other", "--json"), `"label": "b"`, "what the line says goes before the flags")

	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "{\"data\":%d}\n", i)
	}
	r = cli(t, env, many.String(), "queue", "push-many", "mail", "-")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "- has more than 1000 lines, which cannot be taken as one: give --each")
	r = cli(t, env, many.String(), "queue", "push-many", "mail", "--each", "--json", "-")
	require.Zero(t, r.code, r.err)
	var answer struct{ Results []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(r.out), &answer))
	assert.Len(t, answer.Results, 1001, "of two requests")
	r = cli(t, env, `{"dedup_key":"k"}`+"\n"+`{"dedup_key":"k"}`, "queue", "push-many", "--tenant", "x", "mail", "-")
	require.Zero(t, r.code, r.err)
	assert.Regexp(t, `^(\S+)\tpushed\n(\S+)\tduplicate\n$`, r.out)
}

func TestAFileThatCannotBeTakenIsRefusedByItsLine(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	env := []string{"ORRERY_SERVER=" + p.url}
	for _, row := range []struct{ name, stdin, want string }{
		{"no line", "\n \n", "- has no line"},
		{"no JSON", "{}\n{\n", "-:2: is no JSON object on one line"},
		{"no object", "[]", "-:1: is no JSON object on one line"},
		{"null", "null", "-:1: is no JSON object on one line"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := cli(t, env, row.stdin, "actions", "add-many", "-")
			assert.Equal(t, exitUsage, r.code)
			assert.Contains(t, r.err, row.want)
		})
	}
	r := cli(t, env, "", "actions", "add-many", "missing.jsonl")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "missing.jsonl")
	assert.Equal(t, exitUsage, cli(t, env, "", "queue", "push-many", "mail").code)
}
