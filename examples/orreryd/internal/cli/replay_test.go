package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDatabaseOfARunningDaemonIsReplayedByABackup(t *testing.T) {
	t.Parallel()
	p, tmp := start(t, "--db", database(t)), t.TempDir()
	p.add("--wait", "--", "echo", "hi")
	var report replayReport
	require.NoError(t, json.Unmarshal([]byte(p.ok("replay", "--verify", "--live", "--json", "--memory", "1", "--tmp", tmp)), &report))
	assert.Equal(t, p.url, report.File)
	assert.NotZero(t, report.Events)
	assert.Empty(t, report.Divergences)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestABackupThatIsNotWholeIsNotReplayed(t *testing.T) {
	tmp := t.TempDir()
	r := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("no database")) }, "replay", "--verify", "--live", "--tmp", tmp)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "not a backup stream of Orrery")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left)
}
