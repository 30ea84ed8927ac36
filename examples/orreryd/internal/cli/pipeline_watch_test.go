package cli

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/loopbacktest"
)

// asking is a pipeline that waits for an approval.
const asking = `{"name": "ask", "phases": [{"name": "sure", "approval": {"message": "sure?"}}]}`

// startOf starts a pipeline of that definition, and gives its id.
func startOf(t *testing.T, p *process, definition string) string {
	t.Helper()
	var run core.Pipeline
	require.NoError(t, json.Unmarshal([]byte(p.ok("pipeline", "start", "--json", "--definition", write(t, "definition.json", definition))), &run))
	return run.ID.String()
}

func TestAPipelineIsWatchedWhileItRuns(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	id := startOf(t, p, asking)
	w := begin(t, []string{"ORRERY_SERVER=" + p.url}, "pipeline", "watch", id)
	assert.Contains(t, await(t, w.out, "sure"), `running  approval "sure?"`)
	p.ok("pipeline", "approve", id, "sure")
	assert.Contains(t, await(t, w.out, "sure"), "done after ")
	assert.Contains(t, await(t, w.out, "done"), "  -  ")
	assert.Zero(t, w.code())
}

func TestWhoWaitsForAPipelineGetsOverARestartOfTheDaemon(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db, "--listen", loopbacktest.Daemon()+":0")
	id := startOf(t, p, asking)
	env := []string{"ORRERY_SERVER=" + p.url}
	watch, wait := begin(t, env, "pipeline", "watch", id), begin(t, env, "pipeline", "start", "--wait", "--definition", write(t, "definition.json", asking))
	await(t, watch.out, "running")
	other := anID.FindString(await(t, wait.errs, "is started"))
	p.signal(syscall.SIGKILL)
	p.code()
	p = start(t, "--db", db, "--listen", strings.TrimPrefix(p.url, "http://"))
	p.ok("pipeline", "approve", id, "sure")
	p.ok("pipeline", "approve", other, "sure")
	await(t, watch.out, "done after ")
	assert.Zero(t, watch.code())
	await(t, wait.out, "done")
	assert.Zero(t, wait.code())
}

func TestAPipelineIsWatchedAsJSON(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	id := startOf(t, p, asking)
	w := begin(t, []string{"ORRERY_SERVER=" + p.url}, "pipeline", "watch", id, "--json")
	for _, want := range []core.PhaseType{core.PhaseRunning, core.PhaseCancelled} {
		var seen core.Pipeline
		require.NoError(t, json.Unmarshal([]byte(await(t, w.out, "^{")), &seen))
		assert.Equal(t, want, seen.Phase.Type)
		if want == core.PhaseRunning {
			p.ok("pipeline", "cancel", id)
		}
	}
	assert.Equal(t, exitFailed, w.code())
}

func TestAWatchedPipelineTellsEachAttemptOnce(t *testing.T) {
	t.Parallel()
	at := func(s int) core.Time { return effects.TimeOf(time.Date(2027, 1, 31, 9, 0, s, 0, time.UTC)) }
	p := core.Pipeline{
		PhaseStartedAt: at(2), Attempt: 2, Phase: core.Phase{Type: core.PhaseRunning, Name: "test"},
		History: []core.PhaseRecord{{Name: "test", StartedAt: at(0), EndedAt: at(1), Outcome: core.HistoryFailed, Reason: "exit code 1"}},
	}
	p.Waiting.For = core.WaitManual
	var out strings.Builder
	a, seen := &app{out: &out}, map[string]bool{}
	for range 2 {
		require.NoError(t, a.printNews(nil, p, seen))
	}
	assert.Equal(t, "2027-01-31 09:00:01  test              failed after 1s  exit code 1\n"+
		"2027-01-31 09:00:02  test              running, attempt 2  manual\n", out.String())
}

func TestATaskWithAProgramIsCreatedAndWaitedFor(t *testing.T) {
	t.Parallel()
	config := write(t, "orrery.toml", "[sessions]\nbackend = 'pty'\nwatch_seconds = 0.05")
	p := start(t, "--db", database(t), "--workspace", t.TempDir(), "--config", config)
	for _, row := range []struct {
		script, says string
		code         int
	}{
		{`echo "$GREETING"; exit 0`, "done: success", 0},
		{"exit 3", "ended with exit code 3; 0 of 0", exitFailed},
	} {
		r := p.do("task", "create", "--wait", "--max-recoveries", "0", "--env", "GREETING=good day", "--", "sh", "-c", row.script)
		assert.Equal(t, row.code, r.code, r.err)
		assert.Contains(t, r.out, row.says)
		assert.Contains(t, r.err, "is created\n", "so that somebody can steer it meanwhile")
	}
	assert.Contains(t, p.ok("task", "list", "--status", "done", "--json"), `"type": "success"`)
}
