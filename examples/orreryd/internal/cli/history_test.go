package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestTheHistoryTellsTheSetOfFilesThatAChangeCameFrom(t *testing.T) {
	t.Parallel()
	p, backup, dir := start(t, "--db", database(t)), filepath.Join(t.TempDir(), "b.db"), t.TempDir()
	for _, text := range []string{"[queues.mail]\nconcurrency = 1\n", "[queues.mail]\nconcurrency = 2\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ops.toml"), []byte(text), 0o600))
		p.ok("apply", "-f", dir, "--set", "ops")
	}
	p.ok("queue", "declare", "mail", "--concurrency", "3", "--take-over")
	p.ok("backup", "--to", backup)
	queue := "queue/" + core.QueueRef("default", "default", "mail").ID.String()

	plain := p.ok("history", queue, "--db", backup)
	assert.Contains(t, plain, "by api:loopback: create (set ops, ops.toml)\n")
	assert.Contains(t, plain, "by api:loopback: configure (set ops, ops.toml)\n")
	assert.Contains(t, plain, "by api:loopback: configure (taken over from its set)\n")
	var told struct{ Steps []stepReport }
	require.NoError(t, json.Unmarshal([]byte(p.ok("history", queue, "--db", backup, "--json")), &told))
	require.Len(t, told.Steps, 3)
	assert.Equal(t, &wire.ChangeSet{TakeOver: true}, told.Steps[0].Inputs[0].BySet)
	assert.Equal(t, &wire.ChangeSet{Set: "ops", File: "ops.toml"}, told.Steps[2].Inputs[0].BySet)
}

func TestTheHistoryOfAnActionIsToldFromABackup(t *testing.T) {
	t.Parallel()
	p, backup := start(t, "--db", database(t)), filepath.Join(t.TempDir(), "b.db")
	id := p.add("--wait", "--", "echo", "hi")
	p.ok("backup", "--to", backup)

	var told struct {
		Machine string
		Steps   []stepReport
		Before  uint64
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok("history", "action/"+id, "--db", backup, "--json")), &told))
	assert.Equal(t, "action/"+id, told.Machine)
	assert.Zero(t, told.Before)
	require.Len(t, told.Steps, 2, "it was created and began at once, and completed")
	created, ended := told.Steps[1], told.Steps[0]
	assert.Equal(t, "create", created.Inputs[0].Event)
	assert.Equal(t, "tool", ended.Inputs[0].Actor)
	status := map[string]string{}
	for _, f := range ended.Changed {
		status[f.Field] = string(f.Before) + " → " + string(f.After)
	}
	assert.Contains(t, status["status"], "running")
	assert.Contains(t, status["status"], "completed")

	plain := p.ok("history", "action/"+id, "--db", backup)
	assert.Contains(t, plain, "by tool: complete")
	assert.Contains(t, plain, "tool_name: nothing → \"command\"")
	assert.Contains(t, p.ok("history", "action/"+id, "--db", backup, "--limit", "1"), "and more, from batch")

	none := p.do("history", "action/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d10", "--db", backup)
	assert.Equal(t, exitFailed, none.code)
	assert.Contains(t, none.err, "there is no action/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d10: it never was, or it was deleted")
	for _, bad := range []string{"action", "/" + id, "action/x"} {
		got := p.do("history", bad, "--db", backup)
		assert.Equal(t, exitUsage, got.code)
		assert.Contains(t, got.err, "is not a kind and an id")
	}
}
